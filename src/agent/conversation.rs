//! Builds the bodies of upstream requests: the transcript before the turn, and the turn's rounds.
//!
//! Bytes that were sent once are sent again unchanged. A round only appends its own messages,
//! so that providers find the common prefix in their prompt caches. Messages are rewritten only
//! for another model, or for a model that refuses reasoning.

mod compacting;
mod history;
mod tail;
mod written;

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;

use self::history::History;
use self::tail::{OwnTools, Tail};
use self::written::WrittenRound;
pub(crate) use self::written::answer_message;
use super::beginning::HistoryPiece;
use super::record::RecordedRound;
use super::settings::{AskedModel, Delivery, ImageRule};
use crate::openai::Body;
use crate::openai::request::{ToolChoice, expects_other_than_text};
use crate::upstream::{RequestBody, UpstreamTrait};

/// The transcript of one turn, and the request fields that are sent with it.
#[derive(Debug)]
pub(crate) struct Conversation {
    fields: Body,
    /// The transcript before the turn.
    history: History,
    /// What this turn has added: its rounds, and messages between them.
    rounds: Vec<WrittenRound>,
    /// Whether the model has answered in this turn, so that it is free to choose now.
    has_answered: bool,
    tail: Tail,
    choice: ToolChoice,
    /// Whether the client wants something other than plain text.
    has_format: bool,
    /// The model that the rounds are written for now; `None` before the first request.
    recipient: Option<Recipient>,
}

/// The model that was asked last, and how far the transcript is prepared for it.
#[derive(Debug)]
struct Recipient {
    model: AskedModel,
    /// Everything in the request before the client's messages.
    head: Bytes,
    /// How many of the rounds have been adapted to this model.
    rounds: usize,
}

/// One round that called tools: the assistant's message and the answers to its calls.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// The assistant's message with its calls, and every member that the model sent.
    pub(crate) assistant: Value,
    /// The `role: tool` messages, in the order of the calls.
    pub(crate) answers: Vec<Box<RawValue>>,
    /// The user message with their pictures, if there are any.
    pub(crate) pictures: Option<Value>,
    /// The name of the model that wrote the message. Its reasoning is sent to no other model.
    pub(crate) model: String,
    pub(crate) has_reasoning: bool,
}

/// What a conversation starts with.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) fields: Body,
    /// The transcript before the turn, with the system prompt.
    pub(crate) pieces: Vec<HistoryPiece>,
    /// The definitions of the server's tools, with commas between them. With the choice `none`
    /// they are those that the request would have had, and so are the client's.
    pub(crate) server_tools: Bytes,
    /// The definitions of the client's tools.
    pub(crate) client_tools: Vec<Box<RawValue>>,
    pub(crate) tool_choice: ToolChoice,
    pub(crate) parallel_tool_calls: Option<bool>,
}

impl Conversation {
    pub(crate) fn new(opening: Opening) -> Self {
        let Opening {
            fields,
            pieces,
            server_tools,
            client_tools,
            tool_choice,
            parallel_tool_calls,
        } = opening;
        let history = History::new(pieces);
        // Some providers refuse calls in the history of a request that has no tools.
        let offers_tools = !matches!(tool_choice, ToolChoice::None) || history.has_calls();
        let tail = if offers_tools {
            Tail::new(server_tools, &client_tools, parallel_tool_calls)
        } else {
            Tail::new(Bytes::new(), &[], None)
        };
        let has_format = expects_other_than_text(&fields);
        Self {
            fields,
            history,
            rounds: Vec::new(),
            has_answered: false,
            tail,
            choice: tool_choice,
            has_format,
            recipient: None,
        }
    }

    /// Appends a closed round.
    pub(crate) fn push(&mut self, round: &RecordedRound) {
        self.has_answered = true;
        let is_first = self.is_empty();
        self.rounds.push(WrittenRound::new(round, is_first));
    }

    /// Appends messages that the model has not seen yet.
    pub(crate) fn push_pieces(&mut self, pieces: Vec<HistoryPiece>) {
        for piece in pieces {
            let is_first = self.is_empty();
            self.rounds.push(match piece {
                HistoryPiece::Client(message) => WrittenRound::message(message.get(), is_first),
                HistoryPiece::Recorded(round) => WrittenRound::new(&round, is_first),
            });
        }
    }

    fn is_empty(&self) -> bool {
        self.history.is_empty() && self.rounds.is_empty()
    }

    /// Whether the last request carried reasoning.
    pub(crate) fn sends_reasoning(&self) -> bool {
        let Some(Recipient { model, .. }) = &self.recipient else { return false };
        model.reasoning_filler().is_some()
            || model.takes_reasoning()
                && (self.history.has_reasoning_for(model)
                    || self.rounds.iter().any(WrittenRound::has_reasoning))
    }

    /// Whether the next request would differ from the last one if the model had this trait.
    pub(crate) fn would_heed(&self, learnt: UpstreamTrait, delivery: Delivery) -> bool {
        let may_leave_out_tools = self.tail.sends_own_tools() && !self.demands_a_call();
        match learnt {
            UpstreamTrait::RefusesReasoning => self.sends_reasoning(),
            UpstreamTrait::MissesReasoning | UpstreamTrait::MissesReasoningText => {
                !self.rounds.is_empty() || self.history.has_assistant()
            }
            UpstreamTrait::RefusesEagerInput => self.tail.has_eager_input(),
            UpstreamTrait::RefusesStreamOptions | UpstreamTrait::RefusesStreaming => {
                delivery == Delivery::Streamed
            }
            UpstreamTrait::RefusesTools => may_leave_out_tools,
            UpstreamTrait::RefusesToolsBesideFormat => {
                may_leave_out_tools && self.has_format_alone()
            }
            UpstreamTrait::RefusesImages => self.sends_pictures(),
            UpstreamTrait::MissesStreaming => delivery == Delivery::Whole,
            UpstreamTrait::RefusesSystem => self.history.has_instructions(),
            UpstreamTrait::RefusesNullContent => {
                self.history.has_calls() || self.rounds.iter().any(WrittenRound::has_calls)
            }
        }
    }

    /// Whether the last request carried pictures of tools.
    fn sends_pictures(&self) -> bool {
        let takes_them = |recipient: &Recipient| recipient.model.images != ImageRule::None;
        self.recipient.as_ref().is_some_and(takes_them)
            && (self.history.has_pictures() || self.rounds.iter().any(WrittenRound::has_pictures))
    }

    /// Whether the client wants a call in the next answer.
    fn demands_a_call(&self) -> bool {
        let is_demanding = matches!(self.choice, ToolChoice::Required | ToolChoice::Named { .. });
        is_demanding && !self.has_answered
    }

    /// Whether the client wants something other than plain text, and has no tools itself.
    fn has_format_alone(&self) -> bool {
        self.has_format && !self.tail.has_client_tools()
    }

    /// How the server's own tools are offered to this model.
    fn own_tools_for(&self, model: &AskedModel) -> OwnTools {
        let learnt = model.learnt;
        let refuses = learnt.has(UpstreamTrait::RefusesTools)
            || self.has_format_alone() && learnt.has(UpstreamTrait::RefusesToolsBesideFormat);
        if refuses && !self.demands_a_call() {
            OwnTools::LeftOut
        } else if learnt.has(UpstreamTrait::RefusesEagerInput) {
            OwnTools::Plain
        } else {
            OwnTools::Eager
        }
    }

    /// The body of the next request, for `model`.
    pub(crate) fn request(&mut self, model: &AskedModel, delivery: Delivery) -> RequestBody {
        let head = self.prepare_for(model);
        let mut body = RequestBody::default();
        body.push(head);
        body.push(self.history.written(model));
        for round in &self.rounds {
            body.push(round.bytes());
        }
        for piece in self.tail.with_own_tools(self.own_tools_for(model)) {
            body.push(piece);
        }
        // A required call is made in the first round. After that the model is free to answer.
        let is_free = self.has_answered && !matches!(self.choice, ToolChoice::None);
        if self.tail.sends_tools() && !is_free {
            body.push(write_choice(&self.choice).into());
        }
        body.push(request_end(model, delivery));
        body
    }

    /// Gives up the messages. For a turn that ends: nothing is sent behind that.
    pub(crate) fn forget(&mut self) {
        self.history = History::new(Vec::new());
        self.rounds = Vec::new();
        self.recipient = None;
    }

    /// The bytes that the conversation keeps in memory for itself.
    pub(crate) fn size(&self) -> usize {
        let head = self.recipient.as_ref().map_or(0, |recipient| recipient.head.len());
        let rounds: usize = self.rounds.iter().map(WrittenRound::size).sum();
        head + self.history.size() + rounds + self.tail.size()
    }

    /// Adapts the rounds that `model` has not been sent yet, or all of them for another model.
    /// Returns the beginning of a request to it.
    fn prepare_for(&mut self, model: &AskedModel) -> Bytes {
        let known = self.recipient.take().filter(|recipient| recipient.model == *model);
        let mut recipient = known.unwrap_or_else(|| Recipient {
            model: model.clone(),
            head: write_head(&self.fields, &model.name).into(),
            rounds: 0,
        });
        let mut number = self.history.rounds_with_calls();
        for (at, round) in self.rounds.iter_mut().enumerate() {
            if at >= recipient.rounds {
                round.adapt_to(model, number);
            }
            number += usize::from(round.has_calls());
        }
        recipient.rounds = self.rounds.len();
        self.recipient.insert(recipient).head.clone()
    }
}

/// Writes the request up to the opening bracket of `messages`.
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

/// The end of a request: how its answer is to come.
fn request_end(model: &AskedModel, delivery: Delivery) -> Bytes {
    let takes_options = !model.learnt.has(UpstreamTrait::RefusesStreamOptions);
    Bytes::from_static(match delivery {
        Delivery::Streamed if takes_options => {
            br#","stream":true,"stream_options":{"include_usage":true}}"#
        }
        Delivery::Streamed => br#","stream":true}"#,
        Delivery::Whole => br#","stream":false}"#,
    })
}

/// Writes the `tool_choice` member. Empty for `auto`, which is the default.
fn write_choice(choice: &ToolChoice) -> Vec<u8> {
    let choice = match choice {
        ToolChoice::Required => r#""required""#,
        ToolChoice::None => r#""none""#,
        ToolChoice::Named { object, .. } => object.get(),
        ToolChoice::Auto => return Vec::new(),
    };
    format!(r#","tool_choice":{choice}"#).into_bytes()
}

/// Joins the items of a JSON array with commas, without its brackets.
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
