//! Looks through the programs that only run another one, for allow rules.
//!
//! Only options that are known to change nothing else are stepped over. What is not understood
//! is not looked through, and then a rule must allow the wrapper itself.

use super::word::Word;

/// Stands for the arguments that xargs reads from its input.
pub(super) const FROM_INPUT: &str = "(arguments from standard input)";

/// The command inside a wrapper. `None` if `words` are no wrapper.
pub(super) fn unwrapped(words: &[Word]) -> Option<Vec<Word>> {
    let (name, arguments) = words.split_first()?;
    let inner = match name.literal()? {
        "timeout" => after_duration(after_options(arguments, &TIMEOUT)?)?,
        // With other options it is a keyword of bash no more, but a program that writes files.
        "time" => after_options(arguments, &[("-p", false)])?,
        "nice" => after_options(arguments, &NICE)?,
        "stdbuf" => after_options(arguments, &STDBUF)?,
        "nohup" | "command" | "builtin" => after_options(arguments, &[])?,
        "xargs" => return with_input(after_options(arguments, &[])?),
        _ => return None,
    };
    let is_command = inner.first()?.literal().is_some_and(|name| !name.starts_with('-'));
    is_command.then(|| inner.to_vec())
}

/// Options as they are written, and whether a value follows as the next word. A value in the
/// same word follows its `=`, or a letter directly.
type Options = [(&'static str, bool)];

const TIMEOUT: [(&str, bool); 8] = [
    ("-k", true),
    ("-s", true),
    ("--kill-after", true),
    ("--signal", true),
    ("--preserve-status", false),
    ("--foreground", false),
    ("-v", false),
    ("--verbose", false),
];
const NICE: [(&str, bool); 2] = [("-n", true), ("--adjustment", true)];
const STDBUF: [(&str, bool); 6] = [
    ("-i", true),
    ("-o", true),
    ("-e", true),
    ("--input", true),
    ("--output", true),
    ("--error", true),
];

fn after_options<'a>(mut words: &'a [Word], known: &Options) -> Option<&'a [Word]> {
    while let Some((word, rest)) = words.split_first() {
        let text = word.literal()?;
        if text == "--" {
            return Some(rest);
        }
        if !text.starts_with('-') {
            break;
        }
        words = after_option(text, rest, known)?;
    }
    Some(words)
}

fn after_option<'a>(text: &str, rest: &'a [Word], known: &Options) -> Option<&'a [Word]> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    for (name, takes_value) in known {
        let Some(value) = text.strip_prefix(name) else { continue };
        let is_long = name.starts_with("--");
        match (value, takes_value) {
            ("", false) => return Some(rest),
            ("", true) => {
                rest.first()?.literal()?;
                return Some(&rest[1..]);
            }
            (value, true) if !is_long || value.starts_with('=') => return Some(rest),
            _ => {}
        }
    }
    // `nice -5`
    let is_level = known == NICE && is_number(&text[1..]);
    is_level.then_some(rest)
}

fn after_duration(words: &[Word]) -> Option<&[Word]> {
    let (duration, rest) = words.split_first()?;
    let text = duration.literal()?;
    let number = text.strip_suffix(['s', 'm', 'h', 'd']).unwrap_or(text);
    let is_duration =
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_duration.then_some(rest)
}

fn with_input(words: &[Word]) -> Option<Vec<Word>> {
    words.first()?.literal()?;
    let mut words = words.to_vec();
    words.push(Word::unknown(FROM_INPUT));
    Some(words)
}
