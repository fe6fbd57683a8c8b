//! Asks a person by a tool of the client: Open WebUI's `ask_user`, or `toolhand_approval`.

use serde_json::{Value, json};

use super::answers::answer;
use super::choice::{
    Choice, choices, decide_own, decided, deny_all, is_expired, meaning, read_choice,
};
use super::header::header;
use super::message::effect;
use super::outcome::ReplyOutcome;
use crate::agent::beginning::Decided;
use crate::agent::record::Asked;
use crate::execution::ask::{About, Ask, Decision, OwnChoice, Question};
use crate::markdown;
use crate::text;
use crate::tools::question::{NO_ANSWER, QuestionOption};

/// Open WebUI's tool that shows a dialog.
pub(crate) const ASK_USER: &str = "ask_user";

/// A client's tool that was made for us: it decides one approval.
pub(crate) const TOOLHAND_APPROVAL: &str = "toolhand_approval";

/// What `ask_user` can show: docs of Open WebUI's dialog, measured.
const MAX_QUESTIONS: usize = 3;
const OPTIONS: std::ops::RangeInclusive<usize> = 2..=3;
const MAX_QUESTION_CHARS: usize = 500;

/// Characters of the parts of an approval's question. With the line of the effect, of which the
/// whole stands in the message before, they are within what a question may have.
const MAX_TOOL_CHARS: usize = 60;
const MAX_DESCRIPTION_CHARS: usize = 80;

/// One call of `ask_user`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Dialog {
    pub(crate) arguments: Value,
    /// The asks that it is about, as places in the list.
    pub(crate) asks: Vec<usize>,
}

/// The calls of `ask_user` that ask about all of this, one after another. `None` if something
/// does not fit into any dialog: then all is asked in the conversation.
pub(crate) fn dialogs(asked: &[Asked]) -> Option<Vec<Dialog>> {
    let mut dialogs: Vec<Dialog> = Vec::new();
    let mut approvals = Vec::new();
    for (place, asked) in asked.iter().enumerate() {
        match &asked.ask.about {
            About::Effect(shown) if !shown.choices.is_empty() => {
                let questions = [own_choices(asked, &shown.choices)?];
                let arguments = json!({ "questions": questions });
                dialogs.push(Dialog { arguments, asks: vec![place] });
            }
            About::Effect(_) => approvals.push((place, approval(asked))),
            About::Questions { .. } => dialogs.extend(of_questions(place, asked)?),
        }
    }
    let approvals = approvals.chunks(MAX_QUESTIONS).map(|chunk| {
        let (asks, questions): (Vec<_>, Vec<_>) = chunk.iter().cloned().unzip();
        Dialog { arguments: json!({ "questions": questions }), asks }
    });
    // Approvals come first, a question alone after them.
    Some(approvals.chain(dialogs).collect())
}

/// The first option is badged as recommended, so it denies. There is room for two more: where a
/// rule can be kept, that stands in the place of the session, which a reply by its label still
/// chooses.
fn approval(asked: &Asked) -> Value {
    let mut choices = vec![Choice::Deny, Choice::AllowOnce];
    let wider = [Choice::AllowByRule, Choice::AllowForSession];
    choices.extend(wider.into_iter().find(|choice| choice.is_offered(&asked.ask)));
    let options: Vec<_> = choices
        .into_iter()
        .map(|choice| option(choice.label(), &capitalised(&meaning(choice, &asked.ask))))
        .collect();
    question_of(asked, &options)
}

/// The choices that a call offers itself, those first that decline it. `None` if they do not fit.
fn own_choices(asked: &Asked, choices: &[OwnChoice]) -> Option<Value> {
    let (allowing, declining): (Vec<_>, Vec<_>) = choices.iter().partition(|choice| choice.allows);
    let ordered = declining.into_iter().chain(allowing);
    let options: Vec<_> =
        ordered.map(|choice| option(&choice.label, &choice.description)).collect();
    OPTIONS.contains(&options.len()).then(|| question_of(asked, &options))
}

fn option(label: &str, description: &str) -> Value {
    json!({ "label": capitalised(label), "description": description })
}

/// The effect stands first, as in the message, and the model's words for it behind it.
fn question_of(asked: &Asked, options: &[Value]) -> Value {
    let Asked { code, ask, .. } = asked;
    let tool = markdown::plain_within(&ask.tool, MAX_TOOL_CHARS);
    let effect = ask.effect_line();
    let described = described(ask).map(|words| {
        let words = markdown::plain_within(&text::one_line(words), MAX_DESCRIPTION_CHARS);
        format!(" (in the model's words: “{}”)", words.replace(['“', '”'], "\""))
    });
    let described = described.unwrap_or_default();
    let named = format!("{tool} ({code}): {effect}");
    let taken = named.chars().count() + described.chars().count();
    let sandbox = sandbox(ask, MAX_QUESTION_CHARS.saturating_sub(taken));
    let question = format!("{named}{sandbox}{described}");
    json!({
        "id": code,
        "header": header(&ask.tool),
        "question": text::first_chars(&question, MAX_QUESTION_CHARS),
        "options": options,
        "allow_other": true,
    })
}

fn described(ask: &Ask) -> Option<&str> {
    match &ask.about {
        About::Effect(shown) => shown.described.as_deref(),
        About::Questions { .. } => None,
    }
}

/// What the sandbox does to it, as far as it fits. The whole stands in the message before.
fn sandbox(ask: &Ask, room: usize) -> String {
    let About::Effect(shown) = &ask.about else { return String::new() };
    let texts: Vec<_> = shown.sandbox.iter().map(|effect| effect.text.replace('`', "")).collect();
    let first = |count: usize| format!(" (sandbox: {})", texts[..count].join("; "));
    let fitting = (1..=texts.len()).rev().map(first).find(|text| text.chars().count() <= room);
    fitting.unwrap_or_default()
}

fn capitalised(label: &str) -> String {
    let mut letters = label.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    format!("{}{}", first.unwrap_or_default(), letters.as_str())
}

/// The dialogs for the questions of one ask that have no answer yet.
fn of_questions(place: usize, asked: &Asked) -> Option<Vec<Dialog>> {
    let fits = |question: &Question| {
        OPTIONS.contains(&question.options.len())
            && !question.multi_select
            && question.question.chars().count() <= MAX_QUESTION_CHARS
    };
    let unanswered = asked.unanswered();
    if !unanswered.iter().all(fits) {
        return None;
    }
    let questions: Vec<_> = (asked.answered.len()..).zip(unanswered).map(in_dialog).collect();
    let dialogs = questions
        .chunks(MAX_QUESTIONS)
        .map(|chunk| Dialog { arguments: json!({ "questions": chunk }), asks: vec![place] });
    Some(dialogs.collect())
}

fn in_dialog((index, question): (usize, &Question)) -> Value {
    let option = |option: &QuestionOption| json!({ "label": option.label, "description": option.description });
    json!({
        "id": question_id(index),
        "header": question.header,
        "question": question.question,
        "options": question.options.iter().map(option).collect::<Vec<_>>(),
        "allow_other": true,
    })
}

/// `index` counts all questions of the ask, over its dialogs.
fn question_id(index: usize) -> String {
    format!("q{}", index + 1)
}

/// Reads the answer to a call of `ask_user` about these asks. What is no answer (a dialog that
/// was closed, an error, any other text) denies them. It leaves out an ask with more questions
/// than the dialog had.
pub(crate) fn read_dialog_answer(asked: &[&Asked], content: &str, now_ms: i64) -> ReplyOutcome {
    let mut reply = ReplyOutcome::default();
    let answers = serde_json::from_str::<Value>(content)
        .ok()
        .and_then(|mut answer| answer.get_mut("answers").map(Value::take).filter(Value::is_object));
    let Some(answers) = answers else {
        reply.decided = deny_all(asked.iter().copied(), "");
        return reply;
    };
    let label_of = |id: &str| answers.get(id).and_then(|answer| answer["label"].as_str());
    for asked in asked {
        match &asked.ask.about {
            About::Effect(_) => {
                reply.decided.push(chosen(asked, label_of(&asked.code), now_ms));
            }
            About::Questions { .. } if is_expired(asked, now_ms) => {
                reply.decided.push(decided(asked, Decision::Expired));
            }
            About::Questions { .. } => {
                let of_dialog = (asked.answered.len()..).zip(asked.unanswered());
                let answers = of_dialog.take(MAX_QUESTIONS).map(|(index, question)| {
                    let label = label_of(&question_id(index)).map(str::trim);
                    label.map_or(NO_ANSWER.to_owned(), |label| answer(question, label))
                });
                reply.answer(asked, answers);
            }
        }
    }
    reply
}

/// Only the label of a choice is one. Other words deny, and are passed on.
fn chosen(asked: &Asked, label_of_answer: Option<&str>, now_ms: i64) -> Decided {
    let Some(words) = label_of_answer else {
        return decided(asked, Decision::Deny { feedback: None });
    };
    let is_chosen = |label: &str| words.trim().eq_ignore_ascii_case(label);
    let own = asked.ask.own_choices();
    if let Some(place) = own.iter().position(|choice| is_chosen(&choice.label)) {
        return decide_own(asked, place, now_ms);
    }
    if own.is_empty()
        && let Some(choice) = Choice::ALL.into_iter().find(|choice| is_chosen(choice.label()))
        && let Some(decided) = choice.decide(asked, now_ms)
    {
        return decided;
    }
    deny_all([asked], words).remove(0)
}

/// The arguments of a call of `toolhand_approval` about an effect. `None` for a question, which
/// it cannot ask.
pub(crate) fn toolhand_approval(asked: &Asked) -> Option<Value> {
    match &asked.ask.about {
        About::Questions { .. } => None,
        About::Effect(_) => Some(json!({
            "approval_id": asked.id,
            "code": asked.code,
            "tool": asked.ask.tool,
            "effect": effect(asked),
            "choices": choices(&asked.ask),
        })),
    }
}

/// Reads the answer to a call of `toolhand_approval`: a choice, also as a JSON string. Any
/// other text denies, and is passed on unless it is an error.
pub(crate) fn read_toolhand_approval(asked: &Asked, content: &str, now_ms: i64) -> Decided {
    let unquoted = serde_json::from_str::<String>(content);
    let words = unquoted.as_deref().unwrap_or(content);
    match read_choice(asked, words, now_ms) {
        Some(decided) => decided,
        None if words.trim_start().starts_with("Error") => deny_all([asked], "").remove(0),
        None => deny_all([asked], words).remove(0),
    }
}

#[cfg(test)]
mod tests;
