//! Decides the demo model's next answer from the request alone.
//!
//! Keeps no state: the calls after the newest user message show how far it is.

use serde_json::{Value, json};

use super::grammar::{self, Call};
use super::instance::instance;
use super::messages::{Answered, Message, answered};
use super::progress::Progress;
use super::report::{self, ABILITIES};
use super::{background, question};

/// The longest sentence that is read. The whole answer is ready before its first byte goes
/// out, so this bounds how long it takes.
const MAX_SENTENCE: usize = 256 << 10;

/// The most calls of one sentence.
const MAX_CALLS: usize = 500;

/// The tool with which smolagents wants every final answer.
const FINAL_ANSWER: &str = "final_answer";

/// What an answer depends on.
#[derive(Debug, Default)]
pub(super) struct Asked<'a> {
    pub(super) messages: &'a [Message],
    pub(super) tools: Vec<OfferedTool<'a>>,
    /// The tool that must be called.
    pub(super) forced: Option<&'a str>,
    pub(super) format: TextFormat<'a>,
}

/// A tool of the request.
#[derive(Debug)]
pub(super) struct OfferedTool<'a> {
    pub(super) name: &'a str,
    /// The schema of its arguments.
    pub(super) parameters: &'a Value,
}

/// The `response_format` of the request.
#[derive(Debug, Default)]
pub(super) enum TextFormat<'a> {
    #[default]
    Text,
    Object,
    Schema(&'a Value),
}

/// The next assistant message.
#[derive(Debug, PartialEq)]
pub(super) enum Reply {
    Text(String),
    Calls { lead: String, calls: Vec<Call> },
}

/// What the conversation leaves to do.
enum Next {
    Calls(Vec<Call>),
    Say(String),
}

pub(super) fn next(asked: &Asked<'_>) -> Reply {
    let messages = asked.messages;
    let newest = (0..messages.len()).rev().find(|at| is_of_user(messages, *at));
    let (content, since) = match newest {
        Some(newest) => (messages[newest].content.as_str(), &messages[newest + 1..]),
        None => ("", &[][..]),
    };
    let made = answered(since);
    let typed = question::typed(content);
    if asks_to_recall(typed) {
        let before = answered(&messages[..newest.unwrap_or_default()]);
        return asked.last_word(report::recalled(&before), &made);
    }
    match after(asked, typed, &made) {
        Next::Calls(calls) => Reply::Calls { lead: report::lead(&calls), calls },
        Next::Say(text) => asked.last_word(text, &made),
    }
}

/// Whether the message is the user's own. Right behind the answers to calls stand the pictures that
/// the server shows with them.
fn is_of_user(messages: &[Message], at: usize) -> bool {
    let is_behind_answer = at.checked_sub(1).is_some_and(|before| messages[before].role == "tool");
    messages[at].role == "user" && !(is_behind_answer && messages[at].has_pictures)
}

fn after(asked: &Asked<'_>, sentence: &str, made: &[Answered<'_>]) -> Next {
    if sentence.len() > MAX_SENTENCE {
        let bytes = sentence.len();
        return Next::Say(format!(
            "Demo model: I read at most {MAX_SENTENCE} bytes of a message; this one has {bytes}."
        ));
    }
    if let Some(answer) = background::answer(sentence) {
        return Next::Say(answer);
    }
    if is_a_note(sentence) {
        return Next::Say(report::NOTHING_TO_ADD.to_owned());
    }
    let plan = match grammar::rounds(sentence) {
        Ok(plan) => plan,
        Err(_) if asks_for_help(sentence) => return Next::Say(ABILITIES.to_owned()),
        Err(part) => return Next::Say(report::not_understood(&part)),
    };
    if plan.iter().map(Vec::len).sum::<usize>() > MAX_CALLS {
        return Next::Say(format!("Demo model: I make at most {MAX_CALLS} calls for a message."));
    }
    let progress = Progress::new(&plan, made.iter().map(|answered| answered.call));
    let (calls, unavailable): (Vec<&Call>, Vec<&Call>) =
        progress.next.iter().partition(|call| asked.offers(&call.tool));
    if !calls.is_empty() {
        return Next::Calls(calls.into_iter().cloned().collect());
    }
    let mut said: Vec<String> = unavailable.into_iter().map(report::unavailable).collect();
    if said.is_empty() || !made.is_empty() {
        said.insert(0, report::report(made, &progress.hidden));
    }
    Next::Say(said.join("\n\n"))
}

fn asks_for_help(sentence: &str) -> bool {
    is_one_of(sentence, &["help", "what can you do", "what do you understand"])
}

/// Asks for what only a conversation with its tool calls shows.
fn asks_to_recall(sentence: &str) -> bool {
    is_one_of(sentence, &["recall", "what did the tools answer"])
}

/// A remark of the server in front, such as the one that asks for more of an answer.
fn is_a_note(sentence: &str) -> bool {
    sentence.starts_with('(') && sentence.ends_with(')')
}

fn is_one_of(sentence: &str, known: &[&str]) -> bool {
    let words = sentence.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    known.contains(&words.as_str())
}

impl Asked<'_> {
    fn offers(&self, tool: &str) -> bool {
        self.tool(tool).is_some() && self.forced.is_none_or(|forced| forced == tool)
    }

    fn tool(&self, name: &str) -> Option<&OfferedTool<'_>> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// The text in the form that the request wants: as a call, as JSON, or as it is.
    fn last_word(&self, text: String, made: &[Answered<'_>]) -> Reply {
        let is_made = |name: &str| made.iter().any(|answered| answered.call.tool == name);
        let forced = self.forced.filter(|name| !is_made(name)).and_then(|name| self.tool(name));
        if let Some(tool) = forced {
            return one_call(tool.name, instance(tool.parameters));
        }
        match self.format {
            TextFormat::Object => Reply::Text(json!({ "answer": text }).to_string()),
            TextFormat::Schema(schema) => Reply::Text(instance(schema).to_string()),
            TextFormat::Text if self.wants_final_answer() => {
                one_call(FINAL_ANSWER, json!({ "answer": text }))
            }
            TextFormat::Text => Reply::Text(text),
        }
    }

    fn wants_final_answer(&self) -> bool {
        self.tool(FINAL_ANSWER)
            .is_some_and(|tool| tool.parameters["properties"]["answer"].is_object())
    }
}

fn one_call(tool: &str, arguments: Value) -> Reply {
    let calls = vec![Call { tool: tool.to_owned(), arguments }];
    Reply::Calls { lead: report::lead(&calls), calls }
}

#[cfg(test)]
mod tests;
