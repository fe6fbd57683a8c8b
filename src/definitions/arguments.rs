//! Puts arguments into the text of a skill, once and literally.

const ALL: &str = "ARGUMENTS";

/// `$ARGUMENTS` becomes all arguments, `$1` to `$9` become single words; `$` with anything else
/// behind it stays. If the text has none of them, the arguments follow it.
pub(crate) fn put_in(text: &str, arguments: &str) -> String {
    let arguments = arguments.trim();
    let words = words(arguments);
    let (mut whole, mut rest, mut has_place) = (String::with_capacity(text.len()), text, false);
    while let Some((before, behind)) = rest.split_once('$') {
        whole.push_str(before);
        let Some((placeholder, after)) = placeholder(behind) else {
            whole.push('$');
            rest = behind;
            continue;
        };
        has_place = true;
        whole.push_str(match placeholder {
            Placeholder::All => arguments,
            Placeholder::Word(at) => words.get(at).copied().unwrap_or_default(),
        });
        rest = after;
    }
    whole.push_str(rest);
    if !has_place && !arguments.is_empty() {
        whole.push_str("\n\nARGUMENTS: ");
        whole.push_str(arguments);
    }
    whole
}

enum Placeholder {
    All,
    /// Counts from zero.
    Word(usize),
}

/// What stands behind a `$`, and what follows it. `$10` and `$ARGUMENTSX` mean something else.
fn placeholder(behind: &str) -> Option<(Placeholder, &str)> {
    let goes_on = |rest: &str, is_part: fn(char) -> bool| rest.starts_with(is_part);
    if let Some(after) = behind.strip_prefix(ALL) {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        return (!goes_on(after, is_part)).then_some((Placeholder::All, after));
    }
    let digit = behind.chars().next()?.to_digit(10).filter(|digit| *digit > 0)?;
    let after = &behind[1..];
    let is_number = goes_on(after, |c| c.is_ascii_digit());
    (!is_number).then_some((Placeholder::Word(digit as usize - 1), after))
}

/// The words of the arguments. What stands in quotes from the beginning of a word is one.
fn words(arguments: &str) -> Vec<&str> {
    let (mut words, mut rest) = (Vec::new(), arguments);
    while let Some(start) = rest.find(|c: char| !c.is_whitespace()) {
        let word = &rest[start..];
        let (word, after) = quoted(word).unwrap_or_else(|| {
            let end = word.find(char::is_whitespace).unwrap_or(word.len());
            word.split_at(end)
        });
        words.push(word);
        rest = after;
    }
    words
}

/// The text between the quotes that `rest` begins with, if the closing one ends a word.
fn quoted(rest: &str) -> Option<(&str, &str)> {
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let (word, after) = rest[1..].split_once(quote)?;
    let ends = after.is_empty() || after.starts_with(char::is_whitespace);
    ends.then_some((word, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, arguments: &str, expected: &str) {
        assert_eq!(put_in(text, arguments), expected);
    }

    #[test]
    fn each_place_gets_its_arguments() {
        check("Fix $ARGUMENTS.", " a  b ", "Fix a  b.");
        check("$2 then $1, not $3.", "a b", "b then a, not .");
        check("$1|$2|$3", "\"a b\" 'c d' e", "a b|c d|e");
        check("$1|$2|$3", "don't \"x", "don't|\"x|");
        check("$ARGUMENTS", "", "");
    }

    #[test]
    fn what_was_put_in_is_not_looked_at_again() {
        check("A $1 B $2", "$2 $ARGUMENTS", "A $2 B $ARGUMENTS");
        check("$ARGUMENTS", "$1 \\1 ${x}", "$1 \\1 ${x}");
    }

    #[test]
    fn other_signs_stay() {
        check(
            "Costs $10, $0, $, $x, $ARGUMENTSX, ${1}.",
            "",
            "Costs $10, $0, $, $x, $ARGUMENTSX, ${1}.",
        );
        check("für $1$", "ü", "für ü$");
    }

    #[test]
    fn arguments_without_a_place_follow_the_text() {
        check("Do it.", "now", "Do it.\n\nARGUMENTS: now");
        check("Do it.", " ", "Do it.");
        check("Costs $10.", "x", "Costs $10.\n\nARGUMENTS: x");
    }
}
