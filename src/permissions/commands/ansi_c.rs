//! Reads the text of `$'…'`.

/// The text up to the closing quote and its length as written, without the quotes. The text is
/// `None` where bash makes bytes of it that are no text, or cuts it at a NUL. `None` in all if
/// the closing quote is missing.
pub(super) fn ansi_c_text(written: &str) -> Option<(Option<String>, usize)> {
    let mut text = Some(String::new());
    let mut at = 0;
    loop {
        let c = written[at..].chars().next()?;
        at += c.len_utf8();
        let decoded = match c {
            '\'' => return Some((text, at - 1)),
            '\\' => {
                let (decoded, length) = escaped(&written[at..])?;
                at += length;
                decoded
            }
            _ => Some(c),
        };
        text = text.zip(decoded).map(|(mut text, c)| {
            text.push(c);
            text
        });
    }
}

/// The character of an escape without its backslash, and its length.
fn escaped(rest: &str) -> Option<(Option<char>, usize)> {
    let c = rest.chars().next()?;
    let simple = match c {
        'a' => '\x07',
        'b' => '\x08',
        'e' | 'E' => '\x1b',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0b',
        '\\' | '\'' | '"' | '?' => c,
        '0'..='7' => return Some(coded(rest, 0, 3, 8, true)),
        'x' => return Some(coded(rest, 1, 2, 16, true)),
        'u' => return Some(coded(rest, 1, 4, 16, false)),
        'U' => return Some(coded(rest, 1, 8, 16, false)),
        // `\cx`, and what bash leaves as it is: rare enough not to know.
        _ => return Some((None, c.len_utf8())),
    };
    Some((Some(simple), 1))
}

/// A character given by its number. `is_byte` says that above 127 it is a byte, not a character.
fn coded(
    rest: &str,
    skipped: usize,
    max: usize,
    radix: u32,
    is_byte: bool,
) -> (Option<char>, usize) {
    let digits: String =
        rest[skipped..].chars().take(max).take_while(|c| c.is_digit(radix)).collect();
    let value = u32::from_str_radix(&digits, radix).ok();
    let known = value.filter(|value| *value != 0 && !(is_byte && *value > 127));
    (known.and_then(char::from_u32), skipped + digits.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(written: &str, text: Option<&str>, length: usize) {
        assert_eq!(ansi_c_text(written), Some((text.map(str::to_owned), length)), "{written}");
    }

    #[test]
    fn reads_escapes_and_ends_where_bash_does() {
        check("abc' d", Some("abc"), 3);
        check(r"\x74ouch' V", Some("touch"), 8);
        check(r"\164ouch'", Some("touch"), 8);
        check(r"\u0074\n'", Some("t\n"), 8);
        check(r"a\' b'", Some("a' b"), 5);
        check(r"a\\' ; rm '", Some("a\\"), 3);
    }

    #[test]
    fn does_not_guess_bytes_and_ends() {
        check(r"a\xff'", None, 5);
        check(r"a\0b'", None, 4);
        check(r"\cA'", None, 3);
        assert_eq!(ansi_c_text(r"open \'"), None);
    }
}
