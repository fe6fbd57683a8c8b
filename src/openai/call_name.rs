//! Mends the names of calls in the history: a provider refuses every request with a name that it
//! does not take, and so the whole conversation.

use std::borrow::Cow;

/// The most characters that every provider takes.
const MAX_CHARS: usize = 64;

/// Stands for the name of a call that has none.
const NO_NAME: &str = "unknown";

/// The name in a form that every provider takes (`^[a-zA-Z0-9_-]{1,64}$`): other characters
/// become `_`, and what is too long is cut.
pub(crate) fn mended(name: &str) -> Cow<'_, str> {
    let is_taken = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-');
    if name.is_empty() {
        return NO_NAME.into();
    }
    if name.len() <= MAX_CHARS && name.chars().all(is_taken) {
        return name.into();
    }
    let chars = name.chars().take(MAX_CHARS);
    chars.map(|char| if is_taken(char) { char } else { '_' }).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_09_a_name_that_no_provider_takes_is_mended() {
        for (name, expected) in [
            ("Read", "Read"),
            ("mcp__a__b-c", "mcp__a__b-c"),
            ("functions.Read", "functions_Read"),
            ("Read<|channel|>commentary", "Read__channel__commentary"),
            ("läs", "l_s"),
            ("", "unknown"),
            (&"x".repeat(80), &"x".repeat(64)),
            (&"ä".repeat(80), &"_".repeat(64)),
        ] {
            assert_eq!(mended(name), expected);
        }
        assert!(matches!(mended(&"x".repeat(64)), Cow::Borrowed(_)));
    }
}
