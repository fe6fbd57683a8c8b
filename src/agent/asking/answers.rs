//! Reads a reply to the model's own questions: numbers, labels, or the person's words.

use std::collections::HashSet;

use super::bare_choice::CodeRequirement;
use super::choice::{Choice, behind_code, decided, is_expired};
use super::outcome::ReplyOutcome;
use crate::agent::record::Asked;
use crate::execution::ask::{Decision, Question};
use crate::text::one_line;
use crate::tools::choice_text::ChoiceText;
use crate::tools::question::NO_ANSWER;

/// The characters that separate choices on one line.
const SEPARATORS: [char; 2] = [',', '\u{ff0c}'];

/// Reads a line for each question. Words without the code are an answer also where a choice must
/// carry it: they approve nothing.
pub(super) fn read_answers(
    asked: &Asked,
    words: &str,
    code_requirement: CodeRequirement,
    now_ms: i64,
) -> ReplyOutcome {
    if is_expired(asked, now_ms) {
        let expired = decided(asked, Decision::Expired);
        return ReplyOutcome { decided: vec![expired], left_out: Vec::new() };
    }
    let behind = without_code(&asked.code, words);
    let questions = asked.unanswered();
    let lines = line_for_each(questions, behind.as_deref().unwrap_or(words));
    if behind.is_none()
        && code_requirement == CodeRequirement::Required
        && are_choices(questions, &lines)
    {
        return ReplyOutcome::asks_again(std::slice::from_ref(asked));
    }
    let first = asked.answered.len();
    let mut answers = Vec::new();
    for (index, (question, line)) in questions.iter().zip(&lines).enumerate() {
        let is_repeated = asked.repeated == Some(first + index);
        if !is_repeated && is_beyond(question, line) {
            let mut reply = ReplyOutcome::default();
            let again = Asked { repeated: Some(first + index), ..asked.clone() };
            reply.answer(&again, answers);
            return reply;
        }
        answers.push(answer(question, line));
    }
    let mut reply = ReplyOutcome::default();
    reply.answer(asked, answers);
    reply
}

/// The reply without the code that its first line begins with, or its only line ends with.
fn without_code(code: &str, words: &str) -> Option<String> {
    let (first, rest) = words.split_once('\n').unwrap_or((words, ""));
    let first = first.trim();
    if first.strip_suffix(':').unwrap_or(first).eq_ignore_ascii_case(code) {
        return Some(rest.to_owned());
    }
    let (word, behind) = first.split_once(char::is_whitespace)?;
    if word.strip_suffix(':').unwrap_or(word).eq_ignore_ascii_case(code) {
        return Some(format!("{behind}\n{rest}"));
    }
    if !rest.trim().is_empty() {
        return None;
    }
    let (_, before) = behind_code(&[code], first)?;
    Some(before.to_owned())
}

/// A line for each question. What goes beyond a line each belongs to the last one. Several
/// questions with one choice each may be answered on one line.
fn line_for_each(questions: &[Question], words: &str) -> Vec<String> {
    let lines: Vec<&str> = words.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if let [line] = lines.as_slice()
        && let Some(choices) = single_line_choices(questions, line)
    {
        return choices;
    }
    let last = questions.len().saturating_sub(1);
    let line = |index: usize| match lines.get(index) {
        Some(_) if index == last => lines[index..].join("\n"),
        Some(line) => (*line).to_owned(),
        None => String::new(),
    };
    (0..questions.len()).map(line).collect()
}

/// The choices of one line that has as many as there are questions. `None` where there is but one
/// question, or one of them takes several choices.
fn single_line_choices(questions: &[Question], line: &str) -> Option<Vec<String>> {
    if questions.len() < 2 || questions.iter().any(|question| question.multi_select) {
        return None;
    }
    let choices: Vec<&str> = line.split(SEPARATORS).map(str::trim).collect();
    let mut pairs = questions.iter().zip(&choices);
    let fit = choices.len() == questions.len()
        && pairs.all(|(question, choice)| is_number_or_label(question, choice));
    fit.then(|| choices.into_iter().map(str::to_owned).collect())
}

fn is_number_or_label(question: &Question, text: &str) -> bool {
    ChoiceText::new(text).number.is_some() || option(question, text).is_some()
}

/// Whether all that is said are numbers and labels, or what decides an approval.
fn are_choices(questions: &[Question], lines: &[String]) -> bool {
    let mut said = questions.iter().zip(lines).filter(|(_, line)| !line.is_empty()).peekable();
    said.peek().is_some() && said.all(|(question, line)| is_choice(question, line))
}

/// Whether the line is a choice for the question, or what decides an approval.
fn is_choice(question: &Question, line: &str) -> bool {
    Choice::read(line).is_some()
        || ChoiceText::new(line).number.is_some()
        || options(question, line).is_some()
}

/// Whether the text is a number, or a list of numbers and labels, and some number is that of no
/// option.
fn is_beyond(question: &Question, text: &str) -> bool {
    if option(question, text).is_some() {
        return false;
    }
    let is_number = |part: &str| ChoiceText::new(part).number.is_some();
    if !question.multi_select {
        return is_number(text);
    }
    let parts = || text.split(SEPARATORS).map(str::trim);
    let is_known = |part: &str| option(question, part).is_some();
    options(question, text).is_none()
        && parts().all(|part| is_number(part) || is_known(part))
        && parts().any(|part| !is_known(part))
}

/// The answer to one question: a label, the label with this number, several of them, or the
/// text itself.
pub(super) fn answer(question: &Question, text: &str) -> String {
    if text.is_empty() {
        return NO_ANSWER.to_owned();
    }
    if let Some(label) = option(question, text) {
        return label.to_owned();
    }
    if question.multi_select
        && let Some(labels) = options(question, text)
    {
        return labels.join(", ");
    }
    text.to_owned()
}

/// The label that equals the text, or whose number it is.
fn option<'a>(question: &'a Question, text: &str) -> Option<&'a str> {
    let folded = |text: &str| one_line(text).to_lowercase();
    let wanted = folded(text);
    let labels = || question.options.iter().map(|option| option.label.as_str());
    let with_label = |wanted: &str| labels().find(|label| folded(label) == wanted);
    if let Some(label) = with_label(&wanted) {
        return Some(label);
    }
    if let Some(label) = wanted.strip_suffix('.').and_then(with_label) {
        return Some(label);
    }
    labels().nth(ChoiceText::new(text).number?.checked_sub(1)?)
}

/// The labels of a list with commas. A label may itself hold commas. Each counts once.
fn options<'a>(question: &'a Question, text: &str) -> Option<Vec<&'a str>> {
    let parts: Vec<&str> = text.split(SEPARATORS).collect();
    let mut chosen = Vec::new();
    let mut seen = HashSet::new();
    let mut next = 0;
    while next < parts.len() {
        let longest = (next + 1..=parts.len()).rev().find_map(|end| {
            option(question, parts[next..end].join(",").trim()).map(|label| (end, label))
        });
        let (end, label) = longest?;
        if seen.insert(label) {
            chosen.push(label);
        }
        next = end;
    }
    Some(chosen)
}
