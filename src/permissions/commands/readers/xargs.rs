//! Finds the command that xargs runs.

use super::super::word::Word;
use super::super::wrappers::FROM_INPUT;
use super::Why;

/// Letters of options without a value.
const FLAGS: &str = "0rtx";
/// Letters of options with one.
const VALUED: &str = "dEILnPs";
const LONG_FLAGS: [&str; 4] = ["--null", "--no-run-if-empty", "--verbose", "--exit"];
/// Written with their value.
const LONG_VALUED: [&str; 5] =
    ["--delimiter=", "--max-args=", "--max-lines=", "--max-procs=", "--replace="];

/// The command with what the input adds to it; `echo` if there is none, as xargs has it.
pub(super) fn command(arguments: &[Word]) -> Result<Vec<Word>, Why> {
    let mut rest = arguments;
    while let Some((word, after)) = rest.split_first() {
        let Some(text) = word.literal() else { break };
        if text == "--" {
            rest = after;
            break;
        }
        if !text.starts_with('-') {
            break;
        }
        let value = takes_next(text).ok_or_else(|| format!("xargs has the option {text}"))?;
        rest = if value { after.get(1..).unwrap_or_default() } else { after };
    }
    let mut command = rest.to_vec();
    if command.is_empty() {
        command.push(Word::plain("echo"));
    }
    command.push(Word::unknown(FROM_INPUT));
    Ok(command)
}

/// Whether the value of the option is the next word. `None`: the option is not known.
fn takes_next(text: &str) -> Option<bool> {
    if text.starts_with("--") {
        let is_valued = LONG_VALUED.iter().any(|known| text.starts_with(known));
        return (is_valued || LONG_FLAGS.contains(&text)).then_some(false);
    }
    let letters = &text[1..];
    for (at, letter) in letters.char_indices() {
        if VALUED.contains(letter) {
            return Some(at + letter.len_utf8() == letters.len());
        }
        if !FLAGS.contains(letter) {
            return None;
        }
    }
    Some(false)
}
