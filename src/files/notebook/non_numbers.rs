//! Python writes `NaN` and `Infinity` into notebooks, which JSON does not have.

use std::borrow::Cow;

use memchr::memmem;

/// Each of them, and a text of the same length to read in its place, so that everything else
/// stays where it is.
const NON_NUMBERS: [(&[u8], &[u8]); 3] =
    [(b"NaN", b"\"?\""), (b"-Infinity", b"\"-infin.\""), (b"Infinity", b"\"infin.\"")];

/// The contents of a notebook as JSON.
pub(crate) fn as_json(file: &[u8]) -> Cow<'_, [u8]> {
    let is_there = |(name, _): &(&[u8], &[u8])| memmem::find(file, name).is_some();
    if !NON_NUMBERS.iter().any(is_there) {
        return Cow::Borrowed(file);
    }
    let mut json = file.to_vec();
    let mut at = 0;
    while at < json.len() {
        if json[at] == b'"' {
            at += length_of_string(&json[at..]);
        } else if let Some((name, text)) =
            NON_NUMBERS.iter().find(|(name, _)| json[at..].starts_with(name))
        {
            json[at..at + name.len()].copy_from_slice(text);
            at += name.len();
        } else {
            at += 1;
        }
    }
    Cow::Owned(json)
}

/// The bytes of a string with its quotes, or of what is left of it.
fn length_of_string(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = text.get(at) {
        at += match byte {
            b'"' => return at + 1,
            b'\\' => 2,
            _ => 1,
        };
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_json_does_not_have_becomes_a_text_of_the_same_length() {
        let check = |text: &str, expected: &str| {
            let json = as_json(text.as_bytes());
            assert_eq!(String::from_utf8_lossy(&json), expected);
            assert_eq!(json.len(), text.len());
        };
        check("[NaN, -Infinity,Infinity]", r#"["?", "-infin.","infin."]"#);
        check(r#"{"NaN": "NaN \" NaN", "a": NaN}"#, r#"{"NaN": "NaN \" NaN", "a": "?"}"#);
        check(r#"["NaN"#, r#"["NaN"#);
        check(r#"["NaN\"#, r#"["NaN\"#);
        assert!(matches!(as_json(b"[1]"), Cow::Borrowed(_)));
    }
}
