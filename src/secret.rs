//! Holds keys: texts that appear in no log, error or `Debug` output.

use std::fmt;

/// A key. It is read from a file or the environment, never from an argument.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// A key that can be sent in a header; `None` if the text cannot.
    pub(crate) fn sendable(text: &str) -> Option<Self> {
        let fits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| Self::new(text))
    }

    /// The key itself, for the header that carries it or for its digest.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_never_shown() {
        assert_eq!(format!("{:?}", Some(Secret::new("th-1"))), "Some([secret])");
    }
}
