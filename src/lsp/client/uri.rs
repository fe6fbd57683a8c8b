//! Converts between paths and `file:` URIs. What a URI of another scheme names is not read.

use std::path::{Path, PathBuf};

use url::Url;

/// The kernel's limit on one path. Nothing lies behind a longer one.
const MAX_PATH_BYTES: usize = 4096;

/// Of a path of that length in which every byte is escaped.
const MAX_URI_BYTES: usize = "file://localhost".len() + 3 * MAX_PATH_BYTES;

/// A `file:` URI. The path is absolute.
pub(super) fn from_path(path: &Path) -> String {
    Url::from_file_path(path).map(String::from).unwrap_or_default()
}

/// The path of a local file; `None` for any other place, and for a path that no file can have.
pub(super) fn to_path(uri: &str) -> Option<PathBuf> {
    if MAX_URI_BYTES < uri.len() {
        return None;
    }
    let url = Url::parse(uri).ok().filter(|url| url.scheme() == "file")?;
    let path = url.to_file_path().ok()?;
    let bytes = path.as_os_str().as_encoded_bytes();
    (bytes.len() <= MAX_PATH_BYTES && !bytes.contains(&0)).then_some(path)
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

    #[test]
    fn a_path_that_no_file_can_have_is_none() {
        let longest = format!("/{}", "\u{1}".repeat(MAX_PATH_BYTES - 1));
        assert_eq!(to_path(&from_path(Path::new(&longest))).unwrap(), Path::new(&longest));
        for bytes in [MAX_PATH_BYTES, 1 << 20] {
            assert_eq!(to_path(&format!("file:///{}", "a".repeat(bytes))), None);
        }
    }
}
