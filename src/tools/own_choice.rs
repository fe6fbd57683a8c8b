//! Defines the choices that a call offers a person in the place of allowing and denying it.

use serde::{Deserialize, Serialize};

use super::choice_text::ChoiceText;

/// One of them. Its number is its place in the list, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnChoice {
    /// A few words, by which a reply can name it; each of a call is different.
    pub(crate) label: String,
    /// What choosing it means.
    pub(crate) description: String,
    /// Further words by which a reply can name it, in lower case.
    pub(crate) words: Vec<String>,
    /// Whether the call runs by it. Else it is declined, as by any reply that is no choice.
    pub(crate) allows: bool,
}

/// The place of the choice that the whole text is: its number, a word or the label.
pub(crate) fn chosen(choices: &[OwnChoice], text: &str) -> Option<usize> {
    let text = ChoiceText::new(text);
    let is_it = |(place, choice): (usize, &OwnChoice)| {
        text.number == Some(place + 1)
            || text.is_label(&choice.label)
            || choice.words.iter().any(|word| *word == text.word())
    };
    choices.iter().enumerate().position(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_text_is_a_choice() {
        let choice = |label: &str, words: &[&str], allows| OwnChoice {
            label: label.to_owned(),
            description: String::new(),
            words: words.iter().map(|&word| word.to_owned()).collect(),
            allows,
        };
        let choices =
            [choice("Go on", &["yes", "allow"], true), choice("Stay here", &["no"], false)];
        for first in ["1", "1.", " 1)\n", "\u{ff11}", "go  ON", "Yes", "yes.", "y", "ok", "allow"] {
            assert_eq!(chosen(&choices, first), Some(0), "{first:?}");
        }
        for second in ["2", "NO", "n", "stay here", "Stay here."] {
            assert_eq!(chosen(&choices, second), Some(1), "{second:?}");
        }
        for none in ["", "3", "0", "01", "1..", "yes!", "go on 1", "always", "1\u{200b}"] {
            assert_eq!(chosen(&choices, none), None, "{none:?}");
        }
    }
}
