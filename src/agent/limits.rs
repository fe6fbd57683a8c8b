//! Limits the answers of a turn: their total size in one round, and their repetition.

/// The most characters of the body of each answer with which all of a round have at most
/// `max_chars` together: the largest are cut first, down to the same length.
pub(super) fn body_limit(sizes: &[usize], max_chars: usize) -> usize {
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable();
    let mut left = max_chars;
    for (position, size) in sizes.iter().enumerate() {
        let share = left / (sizes.len() - position);
        if share < *size {
            return share;
        }
        left -= size;
    }
    usize::MAX
}

/// Counts how many rounds in a row made the same call and got the same answer.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// Tool, arguments and answer of the last call.
    last: Option<(String, String, String)>,
    /// The number of rounds in a row that repeated it.
    times: u32,
    /// The round of the last call.
    round: u32,
}

/// From this repetition on the model is told that it repeats itself.
const MIN_REPEATS_NOTED: u32 = 3;

impl Repeats {
    /// Returns `answer`, with a note from the third repetition on. Several calls in one round
    /// count once, since the model had not seen their answers yet.
    pub(super) fn note(
        &mut self,
        round: u32,
        tool: &str,
        arguments: &str,
        answer: String,
    ) -> String {
        let this = (tool.to_owned(), arguments.to_owned(), answer);
        let is_new_round = std::mem::replace(&mut self.round, round) != round;
        if self.last.as_ref() == Some(&this) {
            self.times += u32::from(is_new_round);
        } else {
            self.times = 1;
            self.last = Some(this.clone());
        }
        let answer = this.2;
        if self.times < MIN_REPEATS_NOTED {
            return answer;
        }
        format!(
            "{answer}\n\n(This call has now returned the same result {} times in a row. Try something \
             else.)",
            self.times
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_largest_answers_are_cut_first() {
        assert_eq!(body_limit(&[100, 4000, 1000], 3100), 2000);
        assert_eq!(body_limit(&[100, 4000, 4000], 3100), 1500);
        assert_eq!(body_limit(&[100, 200], 300), usize::MAX);
        assert_eq!(body_limit(&[], 0), usize::MAX);
        assert_eq!(body_limit(&[5, 5], 0), 0);
    }

    proptest! {
        #[test]
        fn together_they_have_at_most_the_limit(
            sizes in prop::collection::vec(0_usize..1000, 0..12), max_chars in 0_usize..5000,
        ) {
            let limit = body_limit(&sizes, max_chars);
            let total = sizes.iter().map(|size| *size.min(&limit)).sum::<usize>();
            prop_assert!(total <= max_chars);
            let is_cut = sizes.iter().any(|size| limit < *size);
            prop_assert!(!is_cut || max_chars < total + sizes.len(), "as much as fits");
        }
    }

    #[test]
    fn the_third_identical_answer_says_so() {
        let mut repeats = Repeats::default();
        let mut note =
            |round, arguments: &str| repeats.note(round, "Read", arguments, "same".to_owned());

        assert_eq!(note(1, "{}"), "same");
        assert_eq!(note(2, "{}"), "same");
        assert_eq!(note(2, "{}"), "same");
        assert!(note(3, "{}").contains("something else"));
        assert!(note(4, "{}").contains("4 times"));
        assert_eq!(note(5, r#"{"a":1}"#), "same");
        assert_eq!(note(6, "{}"), "same");
    }
}
