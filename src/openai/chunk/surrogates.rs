//! Replaces lone surrogates in JSON escapes, which are no valid JSON text.

use std::borrow::Cow;

const REPLACEMENT: &str = "\\ufffd";
/// The length of an escape such as `\uD83D`.
const ESCAPE: usize = 6;

/// `json` with each lone surrogate replaced by U+FFFD; borrowed if there is none.
pub(crate) fn repaired(json: &str) -> Cow<'_, str> {
    with_lone_halves_as(json, |_| REPLACEMENT.into())
}

/// `json` with each lone surrogate written as `written` says; borrowed if there is none.
pub(super) fn with_lone_halves_as(
    json: &str,
    written: impl Fn(u16) -> Cow<'static, str>,
) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = json[at..].find('\\') {
        at += found;
        match surrogate(json, at) {
            Some(Half::High(_)) if matches!(surrogate(json, at + ESCAPE), Some(Half::Low(_))) => {
                at += 2 * ESCAPE;
            }
            Some(Half::High(unit) | Half::Low(unit)) => {
                out.push_str(&json[copied..at]);
                out.push_str(&written(unit));
                at += ESCAPE;
                copied = at;
            }
            None => at = after_escape(json, at),
        }
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    out.push_str(&json[copied..]);
    Cow::Owned(out)
}

/// Which half of a surrogate pair an escape is, with its UTF-16 unit.
enum Half {
    High(u16),
    Low(u16),
}

/// The surrogate whose escape begins at `at`.
fn surrogate(json: &str, at: usize) -> Option<Half> {
    let digits = json.get(at..at + ESCAPE)?.strip_prefix("\\u")?;
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    match u16::from_str_radix(digits, 16) {
        Ok(unit @ 0xD800..=0xDBFF) => Some(Half::High(unit)),
        Ok(unit @ 0xDC00..=0xDFFF) => Some(Half::Low(unit)),
        _ => None,
    }
}

/// The position after the backslash at `at` and the character that it escapes.
fn after_escape(json: &str, at: usize) -> usize {
    at + 1 + json[at + 1..].chars().next().map_or(0, char::len_utf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expected: &str) {
        assert_eq!(repaired(json), expected);
    }

    #[test]
    fn replaces_what_stands_alone() {
        check(r#""\ud83d""#, r#""\ufffd""#);
        check(r#""\uDE00x""#, r#""\ufffdx""#);
        check(r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#);
        check(r#""a\ud83d\n\ude00ä""#, r#""a\ufffd\n\ufffdä""#);
    }

    #[test]
    fn leaves_everything_else_as_it_is() {
        for json in [r#""\ud83d\ude00""#, r#""\\ud83d""#, r#""\u00e4\n""#, r#""\ud8"#, "\\", "\\ä"]
        {
            assert!(matches!(repaired(json), Cow::Borrowed(same) if same == json), "{json}");
        }
    }
}
