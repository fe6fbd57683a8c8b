//! ISO-2022-JP, which writes Japanese in bytes of ASCII between escape sequences. Its files are
//! valid in UTF-8, and yet text in UTF-8 would be no text in them.

use encoding_rs::ISO_2022_JP;
use memchr::{memchr, memmem};

pub(super) const ESCAPE: u8 = 0x1b;

/// The escape sequences that begin Japanese. Terminals know no such ones.
const SHIFTS: [&[u8]; 2] = [b"\x1b$B", b"\x1b$@"];

/// The escape sequence behind which ASCII is ASCII.
const TO_ASCII: &[u8] = b"\x1b(B";

/// Whether the bytes, which are valid in UTF-8 too, are likely to be in this encoding.
pub(super) fn is_likely(sample: &[u8], is_whole: bool) -> bool {
    if memchr(ESCAPE, sample).is_none() || !sample.is_ascii() {
        return false;
    }
    if !SHIFTS.iter().any(|shift| memmem::find(sample, shift).is_some()) {
        return false;
    }
    let (text, is_damaged) = ISO_2022_JP.decode_without_bom_handling(sample);
    // The last character of a beginning may be cut.
    let uncut = text.trim_end_matches(char::REPLACEMENT_CHARACTER);
    !is_damaged || (!is_whole && !uncut.contains(char::REPLACEMENT_CHARACTER))
}

/// Whether ASCII can be put in at each of these offsets, which ascend.
pub(super) fn are_in_ascii(bytes: &[u8], offsets: &[usize]) -> bool {
    let mut at = 0;
    let mut is_ascii = true;
    offsets.iter().all(|offset| {
        while at < *offset {
            let Some(escape) = memchr(ESCAPE, &bytes[at..*offset]) else {
                at = *offset;
                break;
            };
            is_ascii = bytes[at + escape..].starts_with(TO_ASCII);
            at += escape + TO_ASCII.len();
        }
        at == *offset && is_ascii
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_1_ascii_goes_between_escape_sequences() {
        let (bytes, _, _) = ISO_2022_JP.encode("a変b");
        assert_eq!(bytes.as_ref(), b"a\x1b$BJQ\x1b(Bb");
        assert!(is_likely(&bytes, true));
        for offset in 0..=bytes.len() {
            let is_in_ascii = [0, 1, 9, 10].contains(&offset);
            assert_eq!(are_in_ascii(&bytes, &[offset]), is_in_ascii, "{offset}");
        }
        assert!(are_in_ascii(&bytes, &[1, 9, 9, 10]));
        assert!(!are_in_ascii(&bytes, &[1, 4, 10]));
    }

    #[test]
    fn files_1_other_escape_sequences_are_those_of_terminals() {
        for other in [&b"\x1b[31mred\x1b[0m"[..], b"a\x1b(Bb", b"\x1b$B\x01\x02", b"$BJQ", b""] {
            assert!(!is_likely(other, true), "{other:?}");
        }
        assert!(is_likely(b"\x1b$BJQJ", false));
        assert!(!is_likely("\u{1b}$BJQ\u{1b}(Bé".as_bytes(), true));
    }
}
