//! Recognises ways of encryption that the reader of PDF files does not know. Pure.

use memchr::memmem;

/// The way in which a document is encrypted, in words, if its reader does not know it. The
/// dictionary that says it is never compressed or encrypted itself.
pub(super) fn unknown(file: &[u8]) -> Option<String> {
    memmem::find(file, b"/Encrypt")?;
    if memmem::find(file, b"/Adobe.PubSec").is_some() {
        return Some("certificates of those who may read it, and not by a password".to_owned());
    }
    memmem::find_iter(file, b"/Standard").find_map(|at| {
        let object = object_around(file, at);
        match (number_of(object, b"/V")?, number_of(object, b"/R")?) {
            (5, 5) => Some(
                "AES-256 in its revision 5, which its reader does not know (revision 6 has replaced \
                 it)"
                    .to_owned(),
            ),
            (1 | 2 | 4, _) | (5, 6) => None,
            (version, revision) => Some(format!(
                "version {version}, revision {revision} of the standard handler, which its reader \
                 does not know"
            )),
        }
    })
}

/// The object in which this is.
fn object_around(file: &[u8], at: usize) -> &[u8] {
    let begin = memmem::rfind(&file[..at], b" obj").unwrap_or(0);
    let end = memmem::find(&file[at..], b"endobj").map_or(file.len(), |end| at + end);
    &file[begin..end]
}

/// The number behind a key.
fn number_of(dictionary: &[u8], key: &[u8]) -> Option<u32> {
    memmem::find_iter(dictionary, key).find_map(|at| {
        let value = dictionary[at + key.len()..].trim_ascii_start();
        let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
        str::from_utf8(&value[..digits]).ok()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_17d_what_no_password_opens_is_named() {
        let document = |encryption: &str| {
            format!(
                "%PDF-1.7\n1 0 obj\n<< /Type /Catalog /V 7 >>\nendobj\n{}6 0 obj\n<< {encryption} \
                 >>\nendobj\ntrailer\n<< /Root 1 0 R /Encrypt 6 0 R >>",
                "7 0 obj\n<< /V 1 /R 2 >>\nendobj\n"
            )
        };
        let named = |encryption: &str| unknown(document(encryption).as_bytes());
        let is = |encryption: &str, words: &str| {
            let how = named(encryption).unwrap_or_default();
            assert!(how.contains(words), "{encryption}: {how}");
        };
        is("/Filter /Standard /V 5 /R 5 /O <00>", "AES-256 in its revision 5");
        is("/R 5/O(x)/V 5/Filter/Standard", "AES-256 in its revision 5");
        is("/Filter /Standard /V 6 /R 7", "version 6, revision 7");
        is("/Filter /Adobe.PubSec /V 4", "certificates");
        assert_eq!(named("/Filter /Standard /V 5 /R 6 /StmF /StdCF"), None);
        assert_eq!(named("/Filter /Standard /V 2 /R 3"), None);
        assert_eq!(unknown(b"%PDF-1.7\n/Filter /Standard /V 5 /R 5"), None, "not encrypted");
    }
}
