//! Limits the answers of a turn: their total size in one round, and their repetition.

use crate::execution::pipeline::ToolResult;
use crate::tools::tool::Truncation;
use crate::tools::truncate;

/// Truncates the largest answers of a round until all of them together have at most `max_chars`
/// characters.
pub(super) fn fit_round(results: &mut [ToolResult], max_chars: usize) {
    let mut sizes: Vec<usize> = results.iter().map(|result| result.text.chars().count()).collect();
    let mut by_size: Vec<usize> = (0..sizes.len()).collect();
    by_size.sort_by_key(|&position| std::cmp::Reverse(sizes[position]));
    for position in by_size {
        let total: usize = sizes.iter().sum();
        let excess = total.saturating_sub(max_chars);
        if excess == 0 {
            return;
        }
        let allowed = sizes[position].saturating_sub(excess);
        let text = std::mem::take(&mut results[position].text);
        results[position].text = truncate::cap(text, allowed, Truncation::HeadAndTail);
        sizes[position] = allowed;
    }
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
            "{answer}\n\n(This is the same call with the same result for the {}. time in a row. \
             Try something else.)",
            self.times
        )
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn result(chars: usize) -> ToolResult {
        ToolResult { text: "x\n".repeat(chars / 2), ..ToolResult::default() }
    }

    #[test]
    fn the_largest_answer_is_cut_first() {
        let mut results = [result(100), result(4000), result(1000)];

        fit_round(&mut results, 3100);

        assert_eq!(results[0], result(100));
        assert_eq!(results[2], result(1000));
        assert!(results[1].text.chars().count() < 2500, "{}", results[1].text.chars().count());
    }

    #[test]
    fn a_round_that_fits_is_left_alone() {
        let mut results = [result(100), result(200)];

        fit_round(&mut results, 300);

        assert_eq!(results, [result(100), result(200)]);
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
        assert!(note(4, "{}").contains("4. time"));
        assert_eq!(note(5, r#"{"a":1}"#), "same");
        assert_eq!(note(6, "{}"), "same");
    }
}
