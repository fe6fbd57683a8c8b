//! Tells the client how far a call is that takes long.

use std::fmt;
use std::sync::Arc;

/// What a running call tells: text with no control characters but line breaks and tabs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ProgressText {
    /// One line or several.
    pub(crate) lines: String,
    /// A line that a command has begun, as it is now: a progress bar, or dots. What the call tells next
    /// takes its place.
    pub(crate) unfinished: String,
}

impl ProgressText {
    pub(crate) fn line(line: String) -> Self {
        Self { lines: line, unfinished: String::new() }
    }
}

/// Takes what one call tells. The default takes them nowhere.
#[derive(Clone, Default)]
pub(crate) struct CallProgress(Option<Arc<dyn Fn(ProgressText) + Send + Sync>>);

impl CallProgress {
    pub(crate) fn new(tell: impl Fn(ProgressText) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    pub(crate) fn tell(&self, text: ProgressText) {
        if let Self(Some(tell)) = self {
            tell(text);
        }
    }
}

impl fmt::Debug for CallProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CallProgress").field(&self.0.is_some()).finish()
    }
}
