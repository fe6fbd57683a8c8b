//! Reads a user's message as the reply to what was asked in the conversation.
//!
//! Consent is the whole message or nothing: a longer text that holds a choice is no choice.

use indexmap::IndexMap;

use super::answers::read_answers;
use super::bare_choice::CodeRequirement;
use super::choice::{Choice, behind_code, decide_own, deny_all};
use super::codes::is_code;
use super::outcome::ReplyOutcome;
use super::quotes::without_quotes;
use crate::agent::record::Asked;
use crate::execution::ask::About;
use crate::tools::choice_text::ChoiceText;
use crate::tools::own_choice::chosen;

/// How a message begins that Open WebUI has wrapped around the person's words.
const HEADING: &str = "### Task:";

const OPENING: &str = "<context>";
const CLOSING: &str = "</context>";

/// The question that a message replies to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyTarget<'a> {
    /// The asks that are not decided yet.
    pub(crate) asked: &'a [Asked],
    /// The asks that were shown with them and are decided. Lines may name them, and change nothing.
    pub(crate) decided: &'a [Asked],
    /// The question as the person was shown it.
    pub(crate) question: &'a str,
    /// Whether the reply must carry the code of what it answers.
    pub(crate) code_requirement: CodeRequirement,
}

/// Reads the whole text of the message. `now_ms` are milliseconds since 1970.
pub(crate) fn read_reply(to: ReplyTarget<'_>, text: &str, now_ms: i64) -> ReplyOutcome {
    let ReplyTarget { asked, decided, question, code_requirement } = to;
    let words = without_quotes(users_words(text).trim(), question);
    let words = words.as_str();
    let is_question = |asked: &&Asked| matches!(asked.ask.about, About::Questions { .. });
    if let Some(of) = asked.iter().find(is_question) {
        if names_only_others(of, words) {
            return ReplyOutcome::asks_again(asked);
        }
        let mut reply = read_answers(of, words, code_requirement, now_ms);
        reply.left_out.extend(asked.iter().filter(|asked| asked.id != of.id).cloned());
        return reply;
    }
    if let Some(of) = asked.iter().find(|asked| !asked.ask.own_choices().is_empty()) {
        let mut reply = own_choice(of, words, code_requirement, now_ms);
        reply.left_out.extend(asked.iter().filter(|asked| asked.id != of.id).cloned());
        return reply;
    }
    let reply = match (Choice::read(words), choices_by_code(asked, decided, words)) {
        (Some(_), _) if code_requirement == CodeRequirement::Required => {
            return ReplyOutcome::asks_again(asked);
        }
        (Some(choice), _) => decided_by(asked, |_| Some(choice), now_ms),
        // It names asks that are decided, and no other.
        (None, Some(choices)) if choices.is_empty() => {
            return ReplyOutcome::asks_again(asked);
        }
        (None, Some(choices)) => decided_by(asked, |place| choices.get(&place).copied(), now_ms),
        (None, None) => ReplyOutcome::default(),
    };
    if reply.decided.is_empty() {
        // A choice that nothing offers is a text like any other.
        return ReplyOutcome { decided: deny_all(asked, words), left_out: Vec::new() };
    }
    reply
}

/// Decides each ask by the choice at its place. An ask without one is left out, and so is one
/// that does not offer it: a number that means nothing there must not pass for another.
fn decided_by(
    asked: &[Asked],
    choice: impl Fn(usize) -> Option<Choice>,
    now_ms: i64,
) -> ReplyOutcome {
    let mut reply = ReplyOutcome::default();
    for (place, asked) in asked.iter().enumerate() {
        match choice(place).and_then(|choice| choice.decide(asked, now_ms)) {
            Some(decided) => reply.decided.push(decided),
            None => reply.left_out.push(asked.clone()),
        }
    }
    reply
}

/// Whether the message is a choice without a code. Of a question the person has not seen it is no
/// answer, and no message for the model either.
pub(crate) fn is_bare_choice(asked: &[Asked], text: &str) -> bool {
    let words = users_words(text).trim();
    let is_own = |asked: &Asked| match &asked.ask.about {
        About::Questions { .. } => ChoiceText::new(words).number.is_some(),
        About::Effect(_) => chosen(asked.ask.own_choices(), words).is_some(),
    };
    Choice::read(words).is_some() || asked.iter().any(is_own)
}

/// Whether each line of the message is a choice with the code of one of these asks, at least one
/// line is, and none is anything else.
pub(crate) fn names_code(asked: &[Asked], text: &str) -> bool {
    let words = users_words(text).trim();
    let mut lines = words.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    let names_one = |line: &str| {
        asked.iter().any(|asked| {
            let (_, choice) = behind_code(&[&asked.code], line).unzip();
            choice.is_some_and(|choice| is_choice_of(asked, choice))
        })
    };
    lines.peek().is_some() && lines.all(names_one)
}

/// The codes in a message of which each line is a choice with a code, whoever's it is.
pub(crate) fn codes_of_reply(text: &str) -> Vec<String> {
    let words = users_words(text).trim();
    let mut codes = Vec::new();
    for line in words.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let Some((code, _)) = with_any_code(line) else { return Vec::new() };
        codes.push(code.to_ascii_uppercase());
    }
    codes
}

fn is_choice_of(asked: &Asked, text: &str) -> bool {
    match &asked.ask.about {
        About::Questions { .. } => true,
        About::Effect(_) if asked.ask.own_choices().is_empty() => Choice::read(text).is_some(),
        About::Effect(_) => chosen(asked.ask.own_choices(), text).is_some(),
    }
}

/// The word of a line that can be the code of some ask, and the choice beside it.
fn with_any_code(line: &str) -> Option<(&str, &str)> {
    let (first, behind) = line.split_once(char::is_whitespace)?;
    let first = first.strip_suffix(':').unwrap_or(first);
    let (before, last) = line.rsplit_once(char::is_whitespace)?;
    let is_choice =
        |text: &str| Choice::read(text).is_some() || ChoiceText::new(text).number.is_some();
    if is_code(first) && is_choice(behind) {
        return Some((first, behind));
    }
    (is_code(last) && is_choice(before)).then_some((last, before))
}

/// Whether each line is a choice with the code of an ask, and none has the code of this one.
fn names_only_others(asked: &Asked, words: &str) -> bool {
    let codes = codes_of_reply(words);
    !codes.is_empty() && codes.iter().all(|code| !code.eq_ignore_ascii_case(&asked.code))
}

/// Reads a choice of the call's own. The code of another ask decides nothing.
fn own_choice(
    asked: &Asked,
    words: &str,
    code_requirement: CodeRequirement,
    now_ms: i64,
) -> ReplyOutcome {
    let own = asked.ask.own_choices();
    let with_code = behind_code(&[&asked.code], words).and_then(|(_, rest)| chosen(own, rest));
    let bare = chosen(own, words);
    let place = match code_requirement {
        CodeRequirement::Optional => with_code.or(bare),
        CodeRequirement::Required => with_code,
    };
    if let Some(place) = place {
        return ReplyOutcome {
            decided: vec![decide_own(asked, place, now_ms)],
            left_out: Vec::new(),
        };
    }
    if bare.is_some() || names_only_others(asked, words) {
        return ReplyOutcome::asks_again(std::slice::from_ref(asked));
    }
    ReplyOutcome { decided: deny_all([asked], words), left_out: Vec::new() }
}

/// The text behind the wrapping of a frontend that adds documents to a message; the whole text
/// of any other message.
///
/// It may be consent, so only the wrapping that was measured counts: it begins with Open WebUI's
/// heading. Any other `</context>` is a quote, and what follows a quote approves nothing.
/// `sessions::canonical::words` only compares messages, and reads the wrapping of every template.
fn users_words(text: &str) -> &str {
    match text.rsplit_once(CLOSING) {
        Some((wrapping, words)) if is_wrapping(wrapping) => words,
        _ => text,
    }
}

/// Whether the text before the last `</context>` is all of the frontend. A context that opens
/// after the first one has ended is a quote in the person's words; a document may hold one
/// inside.
fn is_wrapping(text: &str) -> bool {
    if !text.trim_start().starts_with(HEADING) {
        return false;
    }
    let Some((_, inside)) = text.split_once(OPENING) else { return false };
    let Some((until_last_opening, _)) = inside.rsplit_once(OPENING) else { return true };
    let mut depth = 1_usize;
    until_last_opening.split(OPENING).all(|piece| {
        depth = depth.saturating_sub(piece.matches(CLOSING).count());
        let is_inside = depth > 0;
        depth += 1;
        is_inside
    })
}

/// The choice for each ask that a line names by its code. `None` if some line is anything
/// else, or two lines disagree.
fn choices_by_code(
    asked: &[Asked],
    decided: &[Asked],
    words: &str,
) -> Option<IndexMap<usize, Choice>> {
    if words.is_empty() {
        return None;
    }
    let [codes, decided] = [asked, decided]
        .map(|asked| asked.iter().map(|asked| asked.code.as_str()).collect::<Vec<_>>());
    let mut choices = IndexMap::new();
    for line in words.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let Some((place, choice)) = choice_with_code(&codes, line) else {
            // The code of a question that was decided long ago changes nothing either.
            let is_other = || with_any_code(line).is_some_and(|(code, _)| !is_known(&codes, code));
            if choice_with_code(&decided, line).is_some() || is_other() {
                continue;
            }
            return None;
        };
        if *choices.entry(place).or_insert(choice) != choice {
            return None;
        }
    }
    Some(choices)
}

fn is_known(codes: &[&str], code: &str) -> bool {
    codes.iter().any(|known| known.eq_ignore_ascii_case(code))
}

/// Reads `CODE choice`, or `choice CODE`: the place of the code, and the choice.
pub(crate) fn choice_with_code(codes: &[impl AsRef<str>], line: &str) -> Option<(usize, Choice)> {
    let (place, choice) = behind_code(codes, line)?;
    Some((place, Choice::read(choice)?))
}

#[cfg(test)]
mod tests;
