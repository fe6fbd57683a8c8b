//! Finds a question of ours in the texts that come back from frontends, which escape it and add to
//! it.

use super::codes::is_code;

/// The most layers of escapes that are taken off: some frontends escape what is escaped already.
const MAX_PASSES: usize = 4;

/// The entities that frontends write for characters of Markdown and HTML.
const ENTITIES: [(&str, char); 6] =
    [("amp", '&'), ("lt", '<'), ("gt", '>'), ("quot", '"'), ("apos", '\''), ("nbsp", ' ')];

/// The bytes of a code with the bracket and the backtick in front of it.
const CODE_WITH_OPENING: usize = 6;

/// Whether the text of a message shows the whole question, and no other question behind it.
pub(crate) fn shows(message: &str, question: &str) -> bool {
    let (message, question) = (folded(message), folded(question));
    if question.is_empty() {
        return false;
    }
    let place = message.rfind(&question);
    place.is_some_and(|at| codes_in(&message[at + question.len()..]).is_empty())
}

/// The codes that a text shows as our questions do, each of them once, the last one first.
pub(crate) fn codes_in(text: &str) -> Vec<String> {
    let mut codes: Vec<String> = Vec::new();
    for (end, _) in text.rmatch_indices("`)") {
        let start = end.saturating_sub(CODE_WITH_OPENING);
        let Some(code) = text.get(start..end).and_then(|shown| shown.strip_prefix("(`")) else {
            continue;
        };
        if is_code(code) && !codes.iter().any(|known| known == code) {
            codes.push(code.to_owned());
        }
    }
    codes
}

/// The text without what differs on its way through a frontend: white space, backslashes, and
/// entities in the place of characters.
pub(crate) fn folded(text: &str) -> String {
    let mut text: String = text.chars().filter(|c| !c.is_whitespace() && *c != '\\').collect();
    for _ in 0..MAX_PASSES {
        if !text.contains('&') {
            break;
        }
        let decoded = without_entities(&text);
        if decoded == text {
            break;
        }
        text = decoded;
    }
    text
}

fn without_entities(text: &str) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        decoded.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        if let Some((c, length)) = entity(behind) {
            if !c.is_whitespace() && c != '\\' {
                decoded.push(c);
            }
            rest = &behind[length..];
        } else {
            decoded.push('&');
            rest = behind;
        }
    }
    decoded.push_str(rest);
    decoded
}

/// The character of the entity at the beginning, behind its `&`, and the length of its name.
fn entity(text: &str) -> Option<(char, usize)> {
    /// The longest is `&#x10ffff;`.
    const MAX_LENGTH: usize = 9;
    let end = text.bytes().take(MAX_LENGTH).position(|byte| byte == b';')?;
    let name = &text[..end];
    let c = match name.strip_prefix('#') {
        Some(number) => {
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)?
        }
        None => ENTITIES.iter().find(|(known, _)| *known == name)?.1,
    };
    Some((c, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: &str = "**Bash needs your approval** (`KXRT`)\n\n```sh\necho '<a>' \\\n  && b > \"c\"\n```\n\n- `1` allow once";

    #[test]
    fn a_question_is_found_as_frontends_send_it_back() {
        let escaped = QUESTION.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let punctuation: String = QUESTION
            .chars()
            .flat_map(|c| ['\\', c].into_iter().skip(usize::from(!c.is_ascii_punctuation())))
            .collect();
        for message in [
            QUESTION.to_owned(),
            format!("I build it.\n\n---\n\n{QUESTION}\n\n*by some frontend*"),
            QUESTION.replace('\n', "\r\n"),
            QUESTION.replace('"', "&#34;").replace('\'', "&#x27;"),
            escaped.replace('&', "&amp;"),
            escaped.clone(),
            punctuation,
        ] {
            assert!(shows(&message, QUESTION), "{message}");
        }
        assert!(shows("echo '&gt;'", "echo '&gt;'"));
    }

    #[test]
    fn a_part_of_it_or_another_one_is_not_the_question() {
        for message in ["", "**Bash needs your approval** (`KXRT`)", &QUESTION[5..], "1 allow once"]
        {
            assert!(!shows(message, QUESTION), "{message}");
        }
        assert!(!shows(&format!("{QUESTION}\n\n**Bash needs your approval** (`BCDF`)"), QUESTION));
        assert!(!shows("anything", " \n"));
    }

    #[test]
    fn codes_are_read_as_questions_show_them() {
        assert_eq!(codes_in("(`KXRT`) (`deny`) (`BCDF`) (`KXRT`) (GHJK) `GHJK`"), ["KXRT", "BCDF"]);
        assert_eq!(codes_in("`) (` (`&`)"), [""; 0]);
    }
}
