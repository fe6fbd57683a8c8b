//! Tells the client how far a call is that takes long.

use std::fmt;
use std::sync::Arc;

/// Takes what one call tells. The default takes them nowhere.
#[derive(Clone, Default)]
pub(crate) struct CallProgress(Option<Arc<dyn Fn(String) + Send + Sync>>);

impl CallProgress {
    pub(crate) fn new(tell: impl Fn(String) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    /// `text` is one line or several, with no control characters but line breaks and tabs.
    pub(crate) fn tell(&self, text: String) {
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
