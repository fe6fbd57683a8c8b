//! Takes what a person quotes of a question out of the reply to it.

use super::question_text::folded;

/// The shortest line that counts as a quote: a shorter one may be a choice itself, or words of the
/// person's own.
const MIN_QUOTED_LINE: usize = 20;

/// The words without the lines that quote the question. A quote of anything else stays: what
/// follows it is no choice.
pub(super) fn without_quotes(words: &str, question: &str) -> String {
    let asked = folded_lines(question.lines());
    let quoted = folded_lines(words.lines().filter(|line| is_quote(line)).map(unmarked));
    let mut choices = asked.iter().filter(|line| line.starts_with("-`"));
    let has_choice = choices.clone().any(|choice| quoted.contains(choice));
    // Who quotes one choice and replies with another may mean either.
    let is_ambiguous = has_choice && !choices.all(|choice| quoted.contains(choice));
    if asked.is_empty() || is_ambiguous || !quoted.iter().all(|line| asked.contains(line)) {
        return words.to_owned();
    }
    // A frontend may quote without a mark: the last line, which says how to reply.
    let how_to_reply = folded(question.trim_end().lines().next_back().unwrap_or_default());
    let repeats = |line: &str| {
        let line = folded(line);
        line.len() >= MIN_QUOTED_LINE && line == how_to_reply
    };
    let own: Vec<&str> = words.lines().filter(|line| !is_quote(line) && !repeats(line)).collect();
    own.join("\n").trim().to_owned()
}

fn is_quote(line: &str) -> bool {
    line.trim_start().starts_with('>')
}

/// A quoted line without the marks in front.
fn unmarked(line: &str) -> &str {
    line.trim_start().trim_start_matches(['>', ' '])
}

/// The lines that are not empty, as they are compared.
fn folded_lines<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    lines.map(folded).filter(|line| !line.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: &str = "**Bash needs your approval** (`KXRT`)\n\n- `1` allow once\n- `3` deny\n\nReply with the number alone. Any other reply denies it.";

    #[track_caller]
    fn check(words: &str, expected: &str) {
        assert_eq!(without_quotes(words, QUESTION), expected, "{words:?}");
    }

    #[test]
    fn the_question_is_taken_out_and_nothing_else() {
        check("> Reply with the number alone. Any other reply denies it.\n\n1", "1");
        check("> - `1` allow once\n> - `3` deny\n>\n1", "1");
        check("1\n\n> \\- \\`1\\` allow once\n> \\- \\`3\\` deny", "1");
        check("1\n\nReply with the number alone. Any other reply denies it.", "1");
        check("yes", "yes");
        check("1\n2", "1\n2");
        for other in [
            "> The document says\n1",
            "> - `1` allow once\n> and then push\n1",
            "> deny\n1",
            "> - `3` deny\n1",
            "> 3\n\n1",
            "> Reply with the number alone.\n1",
            "- `1` allow once\n1",
            "1\nReply with the number alone.",
        ] {
            check(other, other);
        }
        assert_eq!(without_quotes("> x\n1", ""), "> x\n1");
    }
}
