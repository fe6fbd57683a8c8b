//! Writes the demo model's texts: what it calls, and what the calls were answered.

use std::borrow::Cow;

use serde_json::Value;

use super::grammar::Call;
use super::messages::{Answered, MadeCall};
use crate::text;

/// How much of one tool answer is quoted: enough to show that it is real.
const QUOTED: usize = 1_500;

/// The longest quoted line. A longer one would have to be scrolled in a frontend.
const LINE_CHARS: usize = 120;

pub(super) const ABILITIES: &str = "I am toolhand's built-in demo model: a few rules, no language \
model. I understand:\n\n\
- read FILE\n\
- find TEXT in DIR\n\
- list DIR, or list GLOB\n\
- run COMMAND\n\
- write TEXT to FILE\n\
- replace A with B in FILE\n\
- plan WHAT\n\
- ask AGENT to DO SOMETHING\n\
- fetch URL\n\
- call TOOL with {JSON}\n\
- use SERVER TOOL with {JSON}\n\
- recall (what the tools answered before)\n\
\n\
Put arguments with spaces in quotes; join commands with \"and\" (in one message) or \"then\" (one \
after the other).";

pub(super) const NOTHING_TO_ADD: &str = "Demo model: I have nothing to add.";

pub(super) fn not_understood(part: &str) -> String {
    match part {
        "" => ABILITIES.to_owned(),
        _ => format!("I did not understand \"{}\".\n\n{ABILITIES}", on_one_line(part)),
    }
}

/// Said before calls.
pub(super) fn lead(calls: &[Call]) -> String {
    let named: Vec<String> =
        calls.iter().map(|call| describe(&call.tool, &call.arguments)).collect();
    format!("Demo model: I call {}.", named.join(" and "))
}

pub(super) fn unavailable(call: &Call) -> String {
    format!("Demo model: the tool {} is not available in this request.", on_one_line(&call.tool))
}

/// Reports every call of the conversation with its answer, and names those that the
/// conversation does not show.
pub(super) fn report(calls: &[Answered<'_>], hidden: &[&Call]) -> String {
    let hidden = hidden.iter().map(|call| {
        let named = describe(&call.tool, &call.arguments);
        format!("{named} was called earlier; this conversation does not show its answer.")
    });
    let told: Vec<String> = hidden.chain(calls.iter().map(outcome)).collect();
    format!("Demo model: here is what the tools answered.\n\n{}", told.join("\n\n"))
}

/// Tells what the tools answered before the newest message, as far as the conversation shows it.
pub(super) fn recalled(calls: &[Answered<'_>]) -> String {
    if calls.is_empty() {
        return "Demo model: this conversation shows no earlier tool calls.".to_owned();
    }
    let told: Vec<String> = calls.iter().map(outcome).collect();
    format!("Demo model: this is what the tools answered before.\n\n{}", told.join("\n\n"))
}

fn outcome(Answered { call, answer }: &Answered<'_>) -> String {
    let MadeCall { tool, arguments, .. } = call;
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    let named = describe(tool, &arguments);
    match answer {
        Some(answer) if answer.starts_with("Error:") && tells_of_directory(tool, answer) => {
            let path = arguments["file_path"].as_str().unwrap_or(".");
            format!("{named} was asked to read a directory. Say: {}", listing(&on_one_line(path)))
        }
        None => format!("{named} was not answered."),
        Some(answer) if answer.starts_with("Error:") => {
            format!("{named} failed:\n\n{}", quote(answer))
        }
        Some(answer) => format!("{named} answered:\n\n{}", quote(answer)),
    }
}

/// Whether Read was asked for a directory.
fn tells_of_directory(tool: &str, answer: &str) -> bool {
    tool == "Read" && answer.contains("not a regular file but a directory")
}

/// The sentence by which a directory is listed.
fn listing(path: &str) -> String {
    let path = if path.contains(char::is_whitespace) {
        Cow::Owned(format!("\"{path}\""))
    } else {
        Cow::Borrowed(path)
    };
    // A word with a dot in it could name a file.
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let is_plain = !name.trim_start_matches('.').contains('.');
    if is_plain { format!("list {path}") } else { format!("list files in {path}") }
}

/// Names the tool and its main argument.
fn describe(tool: &str, arguments: &Value) -> String {
    let main = arguments.as_object().and_then(|object| object.values().find_map(Value::as_str));
    let tool = on_one_line(tool);
    match main {
        Some(main) => format!("{tool} ({})", on_one_line(main)),
        None => tool,
    }
}

/// The beginning of a text, on one line.
fn on_one_line(text: &str) -> String {
    let shown = text::prefix(text, 200);
    let more = if shown.len() < text.len() { "…" } else { "" };
    shown.chars().map(|c| if c.is_control() { ' ' } else { c }).chain(more.chars()).collect()
}

/// Quotes the answer in a fence longer than any run of backticks in it. The fence names a
/// language, because a frontend may offer to run a block that names none.
fn quote(answer: &str) -> String {
    let quoted = text::prefix(answer, QUOTED).trim_end_matches('\n');
    let shown: Vec<String> = quoted.lines().map(wrapped).collect();
    let shown = shown.join("\n");
    let longest = shown.split(|character| character != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let cut = match answer.len() - quoted.len() {
        0 | 1 => String::new(),
        _ => format!("\n(cut: {} bytes in all)", answer.len()),
    };
    format!("{fence}text\n{shown}\n{fence}{cut}")
}

/// The line in pieces of at most [`LINE_CHARS`] characters.
fn wrapped(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for (count, character) in line.chars().enumerate() {
        if count > 0 && count % LINE_CHARS == 0 {
            out.push('\n');
        }
        out.push(character);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quotation_names_a_language_and_its_fence_is_longer_than_those_inside() {
        insta::assert_snapshot!(quote("````\nx\n"), @r"
        `````text
        ````
        x
        `````
        ");
    }

    #[test]
    fn long_answers_are_quoted_in_part() {
        let quoted = quote(&"é\n".repeat(2_000));

        assert!(quoted.ends_with("\n```\n(cut: 6000 bytes in all)"), "{quoted}");
        assert!(quoted.len() < 2_000);
    }

    #[test]
    fn long_lines_are_wrapped() {
        let quoted = quote(&format!("{}\n{}", "é".repeat(241), "b".repeat(120)));

        let lengths: Vec<usize> = quoted.lines().map(|line| line.chars().count()).collect();
        assert_eq!(lengths, [7, 120, 120, 1, 120, 3]);
    }

    #[test]
    fn names_stay_on_one_line() {
        let call = Call { tool: "a\nb".into(), arguments: serde_json::json!({ "x": "c\r\nd" }) };

        assert_eq!(lead(&[call]), "Demo model: I call a b (c  d).");
    }

    #[test]
    fn a_blank_line_follows_a_list() {
        let lines: Vec<&str> = ABILITIES.lines().collect();
        for pair in lines.windows(2) {
            let is_item = |line: &str| line.starts_with("- ");
            assert!(is_item(pair[0]) == is_item(pair[1]) || pair.contains(&""), "{pair:?}");
        }
    }
}
