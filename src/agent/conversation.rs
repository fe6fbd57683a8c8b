//! What goes upstream: the client's request, and the rounds that came since.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::message::{self, AssistantMessage};
use crate::openai::Body;
use crate::openai::request::ToolChoice;

/// Mistral takes nine letters and digits for an id, and nothing else; OpenAI no more
/// than forty characters.
const FOREIGN_ID: usize = 9;

/// The transcript of one turn, and the fields that go with it.
#[derive(Debug)]
pub(crate) struct Conversation {
    fields: Body,
    /// The client's messages, ready to send.
    messages: Vec<Box<RawValue>>,
    /// What the turn added.
    rounds: Vec<Exchange>,
    tools: Vec<Arc<RawValue>>,
    tool_choice: ToolChoice,
    parallel_tool_calls: Option<bool>,
    /// Whether reasoning goes back to the model that wrote it.
    echo_reasoning: bool,
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

impl AnsweredCall {
    /// For the model that made it: its id may hold what that model needs.
    fn as_it_came(&self) -> (String, Value) {
        (self.id.clone(), self.entry.clone())
    }

    /// For another model, which knows neither the id nor what goes with it.
    fn renamed(&self, round: usize, slot: usize) -> (String, Value) {
        let mut id = blake3::hash(format!("{round}/{slot}").as_bytes()).to_hex().to_string();
        id.truncate(FOREIGN_ID);
        let mut entry = self.entry.clone();
        if let Some(members) = entry.as_object_mut() {
            members.retain(|name, _| !message::is_reasoning(name));
            members.insert("id".to_owned(), json!(id));
        }
        (id, entry)
    }
}

/// How the parts of a conversation are given.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) fields: Body,
    pub(crate) messages: Vec<Box<RawValue>>,
    pub(crate) tools: Vec<Arc<RawValue>>,
    pub(crate) tool_choice: ToolChoice,
    pub(crate) parallel_tool_calls: Option<bool>,
    pub(crate) echo_reasoning: bool,
}

impl Conversation {
    pub(crate) fn new(opening: Opening) -> Self {
        let Opening {
            fields,
            mut messages,
            tools,
            tool_choice,
            parallel_tool_calls,
            echo_reasoning,
        } = opening;
        if !echo_reasoning {
            drop_reasoning_of(&mut messages);
        }
        Self {
            fields,
            messages,
            rounds: Vec::new(),
            tools,
            tool_choice,
            parallel_tool_calls,
            echo_reasoning,
        }
    }

    pub(crate) fn push(&mut self, exchange: Exchange) {
        self.rounds.push(exchange);
    }

    /// Stops sending reasoning back; false if none was sent anyway.
    pub(crate) fn drop_reasoning(&mut self) -> bool {
        let sent = self.echo_reasoning
            && self.rounds.iter().any(|exchange| exchange.message.has_reasoning());
        self.echo_reasoning = false;
        drop_reasoning_of(&mut self.messages) || sent
    }

    /// The body of the next request, for `model`.
    pub(crate) fn request(&self, model: &str) -> Bytes {
        let mut body = Vec::with_capacity(self.size_hint());
        body.push(b'{');
        for (name, value) in &self.fields {
            write_key(&mut body, name);
            if name == "model" {
                body.extend_from_slice(Value::from(model).to_string().as_bytes());
            } else {
                body.extend_from_slice(value.get().as_bytes());
            }
            body.push(b',');
        }
        body.extend_from_slice(br#""messages":["#);
        self.write_messages(&mut body, model);
        body.extend_from_slice(b"]");
        self.write_tools(&mut body);
        body.extend_from_slice(br#","stream":true,"stream_options":{"include_usage":true}}"#);
        Bytes::from(body)
    }

    fn write_messages(&self, body: &mut Vec<u8>, model: &str) {
        let mut list = List::new(body);
        for message in &self.messages {
            list.item(message.get());
        }
        for (round, exchange) in self.rounds.iter().enumerate() {
            let is_own = exchange.model == model;
            let calls = exchange.calls.iter().enumerate();
            let calls: Vec<(String, Value)> = calls
                .map(
                    |(slot, call)| {
                        if is_own { call.as_it_came() } else { call.renamed(round, slot) }
                    },
                )
                .collect();
            let (ids, entries): (Vec<_>, Vec<_>) = calls.into_iter().unzip();
            list.item(&self.assistant(exchange, entries, is_own).to_string());
            for (id, call) in ids.iter().zip(&exchange.calls) {
                let answer = json!({ "role": "tool", "tool_call_id": id, "content": call.answer });
                list.item(&answer.to_string());
            }
        }
    }

    /// What the model said, with everything its deltas brought, and its calls.
    fn assistant(&self, exchange: &Exchange, calls: Vec<Value>, is_own: bool) -> Value {
        let content = exchange.message.content(self.echo_reasoning && is_own);
        let mut message = json!({ "role": "assistant", "content": content });
        for (name, value) in exchange.message.members(self.echo_reasoning && is_own) {
            message[name] = value.clone();
        }
        message["tool_calls"] = calls.into();
        message
    }

    fn write_tools(&self, body: &mut Vec<u8>) {
        if self.tools.is_empty() {
            return;
        }
        body.extend_from_slice(br#","tools":["#);
        let mut list = List::new(body);
        for tool in &self.tools {
            list.item(tool.get());
        }
        body.push(b']');
        if let Some(parallel) = self.parallel_tool_calls {
            body.extend_from_slice(format!(r#","parallel_tool_calls":{parallel}"#).as_bytes());
        }
        // What must be called is called in the first round; then the model chooses.
        if self.rounds.is_empty() {
            match &self.tool_choice {
                ToolChoice::Required => body.extend_from_slice(br#","tool_choice":"required""#),
                ToolChoice::Named(raw) => {
                    body.extend_from_slice(br#","tool_choice":"#);
                    body.extend_from_slice(raw.get().as_bytes());
                }
                ToolChoice::Auto | ToolChoice::None => {}
            }
        }
    }

    fn size_hint(&self) -> usize {
        const ROOM: usize = 4096;
        let messages: usize = self.messages.iter().map(|message| message.get().len() + 1).sum();
        let tools: usize = self.tools.iter().map(|tool| tool.get().len() + 1).sum();
        messages + tools + ROOM
    }
}

/// Takes the reasoning out of the client's messages; false if there was none.
fn drop_reasoning_of(messages: &mut [Box<RawValue>]) -> bool {
    let mut dropped = false;
    for message in messages {
        if let Some(without) = message::without_reasoning(message) {
            *message = without;
            dropped = true;
        }
    }
    dropped
}

fn write_key(body: &mut Vec<u8>, name: &str) {
    body.extend_from_slice(Value::from(name).to_string().as_bytes());
    body.push(b':');
}

/// Writes items with commas between them.
struct List<'a> {
    body: &'a mut Vec<u8>,
    first: bool,
}

impl<'a> List<'a> {
    fn new(body: &'a mut Vec<u8>) -> Self {
        Self { body, first: true }
    }

    fn item(&mut self, json: &str) {
        if !std::mem::take(&mut self.first) {
            self.body.push(b',');
        }
        self.body.extend_from_slice(json.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;

    use super::*;

    fn opening() -> Opening {
        let raw = |value: Value| to_raw_value(&value).unwrap();
        Opening {
            fields: serde_json::from_str(r#"{"model":"m","seed":1.10,"user":"u"}"#).unwrap(),
            messages: vec![raw(json!({"role": "user", "content": "hi"}))],
            tools: vec![raw(json!({"type": "function"})).into()],
            tool_choice: ToolChoice::Required,
            parallel_tool_calls: Some(false),
            echo_reasoning: true,
        }
    }

    fn exchange(model: &str) -> Exchange {
        let mut message = AssistantMessage::default();
        message.push_member(
            "reasoning_content",
            &RawValue::from_string(r#""because""#.to_owned()).unwrap(),
        );
        Exchange {
            message,
            calls: vec![AnsweredCall {
                id: "c1".to_owned(),
                entry: json!({"id": "c1", "type": "function", "function": {"name": "Read"}}),
                answer: "text".to_owned(),
            }],
            model: model.to_owned(),
        }
    }

    #[test]
    fn the_first_request_keeps_the_clients_bytes() {
        let body = Conversation::new(opening()).request("m");

        insta::assert_snapshot!(std::str::from_utf8(&body).unwrap(), @r#"{"model":"m","seed":1.10,"user":"u","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function"}],"parallel_tool_calls":false,"tool_choice":"required","stream":true,"stream_options":{"include_usage":true}}"#);
    }

    #[test]
    fn a_round_goes_back_with_all_its_members_and_frees_the_choice() {
        let mut conversation = Conversation::new(opening());
        conversation.push(exchange("m"));

        let body = conversation.request("m");

        insta::assert_snapshot!(std::str::from_utf8(&body).unwrap(), @r#"{"model":"m","seed":1.10,"user":"u","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"reasoning_content":"because","tool_calls":[{"id":"c1","type":"function","function":{"name":"Read"}}]},{"role":"tool","tool_call_id":"c1","content":"text"}],"tools":[{"type":"function"}],"parallel_tool_calls":false,"stream":true,"stream_options":{"include_usage":true}}"#);
    }

    #[test]
    fn another_model_gets_neither_the_reasoning_nor_the_ids() {
        let mut conversation = Conversation::new(opening());
        for id in ["c1", "call_0__thought__AbC+/="] {
            let mut exchange = exchange("other");
            exchange.calls[0].id = id.to_owned();
            exchange.calls[0].entry["id"] = json!(id);
            exchange.calls[0].entry["provider_specific_fields"] = json!({"thought_signature": "S"});
            conversation.push(exchange);
        }

        let body = conversation.request("m");

        assert!(!std::str::from_utf8(&body).unwrap().contains("because"));
        let body: Value = serde_json::from_slice(&body).unwrap();
        let ids: Vec<_> = [1, 3].map(|at| &body["messages"][at]["tool_calls"][0]).into();
        for (call, at) in ids.iter().zip([2, 4]) {
            let id = call["id"].as_str().unwrap();
            assert!(id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
            assert_eq!(body["messages"][at]["tool_call_id"], id);
            assert_eq!(call["provider_specific_fields"], Value::Null);
            assert_eq!(call["function"]["name"], "Read");
        }
        assert_ne!(ids[0]["id"], ids[1]["id"]);
    }

    #[test]
    fn what_a_client_sends_of_reasoning_is_left_out_too() {
        let client = r#"{"role":"assistant","content":"yes","reasoning_content":"because"}"#;
        let client = || RawValue::from_string(client.to_owned()).unwrap();
        let mut conversation = Conversation::new(Opening { messages: vec![client()], ..opening() });
        let text = |conversation: &Conversation| {
            String::from_utf8(conversation.request("m").to_vec()).unwrap()
        };
        assert!(text(&conversation).contains("because"));

        assert!(conversation.drop_reasoning());
        assert!(!text(&conversation).contains("because"));
        let echo_reasoning = false;
        let messages = vec![client()];
        let never = Conversation::new(Opening { messages, echo_reasoning, ..opening() });
        assert!(!text(&never).contains("because"));
    }

    #[test]
    fn reasoning_that_was_refused_is_left_out() {
        let mut conversation = Conversation::new(opening());
        assert!(!conversation.drop_reasoning(), "there was none yet");
        let mut conversation = Conversation::new(opening());
        conversation.push(exchange("m"));

        assert!(conversation.drop_reasoning());

        assert!(!std::str::from_utf8(&conversation.request("m")).unwrap().contains("because"));
    }
}
