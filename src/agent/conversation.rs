//! Writes what goes upstream: the client's request, and the rounds that came since.
//!
//! What has been written once is sent again as the same bytes: a round adds its own
//! messages behind them and nothing else, so that providers find the prefix they have in
//! their caches. Only another model, or one that refuses reasoning, has them rewritten.

mod history;
mod written;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;

use self::history::History;
use self::written::WrittenRound;
use super::message::AssistantMessage;
use super::settings::AskedModel;
use crate::openai::Body;
use crate::openai::request::ToolChoice;
use crate::upstream::RequestBody;

/// The transcript of one turn, and the fields that go with it.
#[derive(Debug)]
pub(crate) struct Conversation {
    fields: Body,
    /// The client's messages.
    history: History,
    /// What the turn added.
    rounds: Vec<WrittenRound>,
    /// What stands behind the messages: the tools, and the field that goes with them.
    tail: Bytes,
    /// `tool_choice`, for the first round.
    choice: Bytes,
    /// For whom everything is written now.
    recipient: Option<Recipient>,
}

#[derive(Debug)]
struct Recipient {
    model: AskedModel,
    /// Everything of a request before the client's messages.
    head: Bytes,
    /// How many of the rounds are as this model may see them.
    rounds: usize,
}

/// One round that called tools: the assistant's message and the answers.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) message: AssistantMessage,
    pub(crate) calls: Vec<AnsweredCall>,
    /// Which model wrote it; reasoning is for no other.
    pub(crate) model: String,
}

/// A call as it goes back, with its answer.
#[derive(Debug)]
pub(crate) struct AnsweredCall {
    pub(crate) id: String,
    /// The entry of the message's `tool_calls`, with every member that came.
    pub(crate) entry: Value,
    pub(crate) answer: String,
}

/// How the parts of a conversation are given.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) fields: Body,
    pub(crate) messages: Vec<Box<RawValue>>,
    pub(crate) tools: Vec<Arc<RawValue>>,
    pub(crate) tool_choice: ToolChoice,
    pub(crate) parallel_tool_calls: Option<bool>,
}

impl Conversation {
    pub(crate) fn new(opening: Opening) -> Self {
        let Opening { fields, messages, tools, tool_choice, parallel_tool_calls } = opening;
        let choice = if tools.is_empty() { ToolChoice::Auto } else { tool_choice };
        Self {
            fields,
            history: History::new(&messages),
            rounds: Vec::new(),
            tail: write_tail(&tools, parallel_tool_calls).into(),
            choice: write_choice(&choice).into(),
            recipient: None,
        }
    }

    pub(crate) fn push(&mut self, exchange: Exchange) {
        let is_first = self.history.is_empty() && self.rounds.is_empty();
        self.rounds.push(WrittenRound::new(exchange, is_first));
    }

    /// Whether reasoning went to the model that was asked last.
    pub(crate) fn sends_reasoning(&mut self) -> bool {
        let takes_reasoning =
            self.recipient.as_ref().is_some_and(|recipient| recipient.model.takes_reasoning);
        takes_reasoning
            && (self.history.has_reasoning() || self.rounds.iter().any(WrittenRound::has_reasoning))
    }

    /// The body of the next request, for `model`.
    pub(crate) fn request(&mut self, model: &AskedModel) -> RequestBody {
        /// What stands behind all that.
        const END: &[u8] = br#","stream":true,"stream_options":{"include_usage":true}}"#;
        let head = self.turn_to(model);
        let mut body = RequestBody::default();
        body.push(head);
        body.push(self.history.written(model.takes_reasoning));
        for round in &self.rounds {
            body.push(round.bytes());
        }
        body.push(self.tail.clone());
        // What must be called is called in the first round; then the model chooses.
        if self.rounds.is_empty() {
            body.push(self.choice.clone());
        }
        body.push(Bytes::from_static(END));
        body
    }

    /// Bytes that it keeps.
    pub(crate) fn size(&self) -> usize {
        let head = self.recipient.as_ref().map_or(0, |recipient| recipient.head.len());
        let rounds: usize = self.rounds.iter().map(|round| round.bytes().len()).sum();
        head + self.history.size() + rounds + self.tail.len() + self.choice.len()
    }

    /// Rewrites what `model` may not see as it stands, and what is new. Returns the head
    /// of a request to it.
    fn turn_to(&mut self, model: &AskedModel) -> Bytes {
        let known = self.recipient.take().filter(|recipient| recipient.model == *model);
        let mut recipient = known.unwrap_or_else(|| Recipient {
            model: model.clone(),
            head: write_head(&self.fields, &model.name).into(),
            rounds: 0,
        });
        for (number, round) in self.rounds.iter_mut().enumerate().skip(recipient.rounds) {
            round.fit(model, number);
        }
        recipient.rounds = self.rounds.len();
        self.recipient.insert(recipient).head.clone()
    }
}

fn write_head(fields: &Body, model: &str) -> Vec<u8> {
    let mut head = vec![b'{'];
    for (name, value) in fields {
        head.extend_from_slice(Value::from(name.as_str()).to_string().as_bytes());
        head.push(b':');
        if name == "model" {
            head.extend_from_slice(Value::from(model).to_string().as_bytes());
        } else {
            head.extend_from_slice(value.get().as_bytes());
        }
        head.push(b',');
    }
    head.extend_from_slice(br#""messages":["#);
    head
}

fn write_tail(tools: &[Arc<RawValue>], parallel_tool_calls: Option<bool>) -> Vec<u8> {
    let mut tail = vec![b']'];
    if tools.is_empty() {
        return tail;
    }
    tail.extend_from_slice(br#","tools":["#);
    tail.extend(joined(tools.iter().map(|tool| tool.get())));
    tail.push(b']');
    if let Some(parallel) = parallel_tool_calls {
        tail.extend_from_slice(format!(r#","parallel_tool_calls":{parallel}"#).as_bytes());
    }
    tail
}

fn write_choice(choice: &ToolChoice) -> Vec<u8> {
    let choice = match choice {
        ToolChoice::Required => r#""required""#,
        ToolChoice::Named(raw) => raw.get(),
        ToolChoice::Auto | ToolChoice::None => return Vec::new(),
    };
    format!(r#","tool_choice":{choice}"#).into_bytes()
}

/// The items of a JSON array, without its brackets.
fn joined<'a>(items: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let mut written = Vec::new();
    for item in items {
        if !written.is_empty() {
            written.push(b',');
        }
        written.extend_from_slice(item.as_bytes());
    }
    written
}

#[cfg(test)]
mod tests;
