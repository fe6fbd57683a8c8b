//! Converts between paths and `file:` URIs. What a URI of another scheme names is not read.

use std::path::{Path, PathBuf};

use url::Url;

/// A `file:` URI. The path is absolute.
pub(super) fn from_path(path: &Path) -> String {
    Url::from_file_path(path).map(String::from).unwrap_or_default()
}

/// The path of a local file; `None` for any other place.
pub(super) fn to_path(uri: &str) -> Option<PathBuf> {
    let url = Url::parse(uri).ok().filter(|url| url.scheme() == "file")?;
    let path = url.to_file_path().ok()?;
    (!path.as_os_str().as_encoded_bytes().contains(&0)).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_survive_and_other_places_are_none() {
        for path in ["/a b/\u{e9}#?%.py", "/", "/a"] {
            assert_eq!(to_path(&from_path(Path::new(path))).unwrap(), Path::new(path));
        }
        for uri in [
            "http://x/a",
            "untitled:1",
            "a.py",
            "",
            "file://host/a",
            "jdt://contents/x",
            "file:///a%00b",
        ] {
            assert_eq!(to_path(uri), None, "{uri}");
        }
        assert_eq!(to_path("file:///a/../b").unwrap(), Path::new("/b"));
    }
}
