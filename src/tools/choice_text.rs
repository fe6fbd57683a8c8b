//! Reads a text that may be a choice: a number, a word or a label.

use crate::text::one_line;

/// The whole text of a reply, as it is compared with choices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChoiceText {
    /// The text in lower case, with one blank between words and without a full stop at the end.
    words: String,
    /// The number that the text is, also as `1.`, `1)` and in full-width digits.
    pub(crate) number: Option<usize>,
}

impl ChoiceText {
    /// White space around and between words does not matter, nor does the case of ASCII letters:
    /// a letter of another script that only looks like one is no consent.
    pub(crate) fn new(text: &str) -> Self {
        let text = folded(text);
        let number = text.strip_suffix(['.', ')']).unwrap_or(&text);
        let number = number.chars().map(ascii_digit).collect::<Option<String>>();
        let words = text.strip_suffix('.').unwrap_or(&text).to_owned();
        Self { words, number: number.and_then(|digits| parse(&digits)) }
    }

    /// Whether it is this label.
    pub(crate) fn is_label(&self, label: &str) -> bool {
        let label = folded(label);
        self.words == label || label.strip_suffix('.') == Some(&self.words)
    }

    /// The word, where short forms stand for the whole ones.
    pub(crate) fn word(&self) -> &str {
        match self.words.as_str() {
            "y" | "ok" => "yes",
            "n" => "no",
            word => word,
        }
    }
}

fn folded(text: &str) -> String {
    one_line(text).to_ascii_lowercase()
}

/// Digits of other scripts may mean what nobody has seen: only full-width ones count.
fn ascii_digit(c: char) -> Option<char> {
    match c {
        '0'..='9' => Some(c),
        '\u{ff10}'..='\u{ff19}' => char::from_u32(u32::from(c) - 0xff10 + u32::from('0')),
        _ => None,
    }
}

/// A number as people write it: `01` is none.
fn parse(digits: &str) -> Option<usize> {
    let is_plain = digits == "0" || !digits.starts_with('0');
    if digits.is_empty() || !is_plain {
        return None;
    }
    // One that is too large is a number all the same: that of no choice.
    Some(digits.parse().unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_the_whole_text() {
        for (text, number) in
            [("1", 1), (" 2.\n", 2), ("3)", 3), ("\u{ff11}", 1), ("\u{ff11}0.", 10), ("0", 0)]
        {
            assert_eq!(ChoiceText::new(text).number, Some(number), "{text:?}");
        }
        for text in [
            "",
            "01",
            "1..",
            "1.)",
            "(1)",
            "+1",
            "1.0",
            "1 1",
            "1,",
            "\u{b9}",
            "\u{661}",
            "\u{2460}",
            "1\u{20e3}",
            "1\u{200b}",
            "\u{feff}1",
            "1\u{202e}",
            "\u{ff11}\u{ff0e}",
        ] {
            assert_eq!(ChoiceText::new(text).number, None, "{text:?}");
        }
    }

    #[test]
    fn words_count_without_case_and_full_stop() {
        for (text, word) in [
            ("Yes.", "yes"),
            ("y", "yes"),
            ("OK", "yes"),
            ("N", "no"),
            ("Allow  Once.", "allow once"),
        ] {
            assert_eq!(ChoiceText::new(text).word(), word, "{text:?}");
        }
        for text in ["yes!", "yes..", "y\u{200d}es", "y\u{435}s", "yes please", "o\u{212a}"] {
            assert_ne!(ChoiceText::new(text).word(), "yes", "{text:?}");
        }
        assert!(ChoiceText::new("go ON.").is_label("Go on"));
        assert!(ChoiceText::new("stay here").is_label("Stay here."));
    }
}
