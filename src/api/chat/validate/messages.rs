//! Checks the messages one by one: their roles, and the shape of their content.

use std::borrow::Cow;
use std::fmt::Arguments;

use serde_json::value::RawValue;

use super::tool_calls::{self, Call};
use super::{
    invalid, missing, not_an_array, quoted, required_items, required_object, required_string,
};
use crate::errors::ApiError;
use crate::ids::CardId;
use crate::json::{self, Kind, Object};
use crate::limits::Limits;
use crate::progress_lines;
use crate::sessions::message::{CallOf, ClientCall, ClientMessage, Role};
use crate::tools::toolset::Toolset;

/// A message of a valid shape.
#[derive(Debug)]
pub(super) struct Message<'a> {
    /// Its index in the client's list.
    pub(super) index: usize,
    pub(super) role: Role,
    pub(super) content: Option<&'a RawValue>,
    pub(super) json: &'a RawValue,
    /// Members that are changed for upstream; `None` removes the member.
    pub(super) changes: Vec<(&'static str, Option<Box<RawValue>>)>,
    /// The tool calls of an assistant message.
    pub(super) calls: Vec<Call<'a>>,
    /// The id of the call that a tool message answers; empty if it has none.
    pub(super) answers: Option<Cow<'a, str>>,
    /// The message has no content and no calls. Providers refuse such messages.
    pub(super) is_empty: bool,
}

fn role_from_name(name: &str) -> Option<Role> {
    Some(match name {
        "system" | "developer" => Role::Instruction,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        "function" => Role::Function,
        _ => return None,
    })
}

/// `tools` are the tools whose progress lines a client may send back.
pub(super) fn read<'a>(
    fields: &Object<'a>,
    tools: &Toolset,
    limits: &Limits,
) -> Result<Vec<Message<'a>>, ApiError> {
    let messages = fields.get("messages").ok_or_else(|| missing("messages"))?;
    let messages = required_items(messages, limits.messages, "messages")?;
    if messages.is_empty() {
        return Err(invalid("messages", "messages must hold at least one message."));
    }
    if messages.len() > limits.messages {
        return Err(too_many("messages", limits.messages, "limits.messages"));
    }
    let mut calls_left = limits.calls;
    let read = |(place, message)| {
        let message = read_one(message, place, tools, calls_left)?;
        let calls = message.calls.len();
        calls_left = calls_left
            .checked_sub(calls)
            .ok_or_else(|| too_many("tool calls", limits.calls, "limits.calls"))?;
        Ok(message)
    };
    messages.into_iter().enumerate().map(read).collect()
}

fn too_many(what: &str, most: usize, limit: &str) -> ApiError {
    invalid("messages", format!("A request may hold at most {most} {what} ({limit})."))
}

fn read_one<'a>(
    json: &'a RawValue,
    place: usize,
    tools: &Toolset,
    most_calls: usize,
) -> Result<Message<'a>, ApiError> {
    let at = format_args!("messages[{place}]");
    let object = required_object(json, at)?;
    let role = required_string(&object, "role", format_args!("{at}.role"))?;
    let role = role_from_name(&role).ok_or_else(|| {
        let known = "developer, system, user, assistant, tool or function";
        let message = format!("{} is no role: use {known}.", quoted(&role));
        invalid(format_args!("{at}.role"), message)
    })?;
    check_name(&object, at)?;
    check_content(&object, role, at)?;
    let mut message = Message {
        index: place,
        role,
        content: object.get("content"),
        json,
        changes: Vec::new(),
        calls: Vec::new(),
        answers: None,
        is_empty: false,
    };
    match role {
        Role::Assistant => read_assistant(&mut message, &object, tools, most_calls, at)?,
        Role::Tool => read_answer(&mut message, &object, at)?,
        Role::Function if object.get("name").is_none() => {
            return Err(missing(format_args!("{at}.name")));
        }
        Role::Instruction | Role::User | Role::Function => {}
    }
    Ok(message)
}

fn check_name(object: &Object<'_>, at: Arguments<'_>) -> Result<(), ApiError> {
    match object.get("name").map(json::kind) {
        None | Some(Kind::String) => Ok(()),
        Some(_) => Err(invalid(format_args!("{at}.name"), format!("{at}.name must be a string."))),
    }
}

fn check_content(object: &Object<'_>, role: Role, at: Arguments<'_>) -> Result<(), ApiError> {
    let param = format_args!("{at}.content");
    let Some(content) = object.get("content") else {
        let may_be_missing = matches!(role, Role::Assistant | Role::Tool | Role::Function);
        return if may_be_missing { Ok(()) } else { Err(missing(param)) };
    };
    match json::kind(content) {
        Kind::String => Ok(()),
        Kind::Array => {
            let mut index = 0;
            let check = |part| {
                check_part(part, format_args!("{param}[{index}]"))?;
                index += 1;
                Ok(())
            };
            json::for_each_item(content, check).unwrap_or_else(|| Err(not_an_array(param)))
        }
        _ => Err(invalid(param, "A message's content must be a string or an array of parts.")),
    }
}

/// Parts of an unknown type are left to upstream.
fn check_part(part: &RawValue, at: Arguments<'_>) -> Result<(), ApiError> {
    let part = required_object(part, at)?;
    let kind = required_string(&part, "type", format_args!("{at}.type"))?;
    match kind.as_ref() {
        "text" => check_text(&part, format_args!("{at}.text")),
        "image_url" => check_image(&part, format_args!("{at}.image_url")),
        _ => Ok(()),
    }
}

fn check_text(part: &Object<'_>, at: Arguments<'_>) -> Result<(), ApiError> {
    match part.get("text").map(json::kind) {
        Some(Kind::String) => Ok(()),
        Some(_) => Err(invalid(at, format!("{at} must be a string."))),
        None => Err(missing(at)),
    }
}

/// An image must be a URL that upstream can load, never a local file.
fn check_image(part: &Object<'_>, at: Arguments<'_>) -> Result<(), ApiError> {
    let image = part.get("image_url").ok_or_else(|| missing(at))?;
    match json::kind(image) {
        Kind::Object => {
            let param = format_args!("{at}.url");
            let image = required_object(image, at)?;
            check_url(image.get("url").ok_or_else(|| missing(param))?, param)
        }
        _ => check_url(image, at),
    }
}

fn check_url(url: &RawValue, at: Arguments<'_>) -> Result<(), ApiError> {
    let is_remote = json::string(url).is_some_and(|url| {
        ["http://", "https://", "data:"].iter().any(|scheme| {
            url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        })
    });
    if is_remote {
        Ok(())
    } else {
        Err(invalid(at, "An image must be an http, https or data URL."))
    }
}

fn read_assistant<'a>(
    message: &mut Message<'a>,
    object: &Object<'a>,
    tools: &Toolset,
    most_calls: usize,
    at: Arguments<'_>,
) -> Result<(), ApiError> {
    if let Some(calls) = object.get("tool_calls") {
        message.calls = tool_calls::read(calls, most_calls, format_args!("{at}.tool_calls"))?;
        if message.calls.is_empty() {
            message.changes.push(("tool_calls", None));
        }
    }
    let reasoning = object.string("reasoning_content");
    if let Some(own) = reasoning.as_deref().and_then(|text| without_ours(text, tools)) {
        let kept = (!own.trim().is_empty()).then(|| json::quoted(&own));
        message.changes.push(("reasoning_content", kept));
    }
    let calls_something = !message.calls.is_empty() || object.get("function_call").is_some();
    if calls_something {
        // Providers refuse white space alone, and the whole conversation with it.
        if message.content.is_some_and(|content| is_blank_text(content) && !is_empty_text(content))
        {
            message.changes.push(("content", Some(json::raw("null".to_owned()))));
        }
    } else if message.content.is_none_or(is_blank_text) {
        message.is_empty = says_nothing(object, &message.changes);
        message.changes.push(("content", Some(json::quoted(""))));
    }
    Ok(())
}

fn is_empty_text(content: &RawValue) -> bool {
    content.get() == r#""""#
}

/// Whether a content is a text, or parts of text, without a word. Frontends keep an answer that
/// was stopped before its first token like this.
fn is_blank_text(content: &RawValue) -> bool {
    match json::kind(content) {
        Kind::String => json::string(content).is_some_and(|text| text.trim().is_empty()),
        Kind::Array => {
            let is_blank = |part| {
                let part = Object::from_raw(part);
                let member = |name: &str| part.as_ref().and_then(|part| part.string(name));
                let text = member("text").filter(|_| member("type").as_deref() == Some("text"));
                if text.is_some_and(|text| text.trim().is_empty()) { Ok(()) } else { Err(()) }
            };
            json::for_each_item(content, is_blank) == Some(Ok(()))
        }
        _ => false,
    }
}

/// Whether the message has nothing but its role.
fn says_nothing(object: &Object<'_>, changes: &[(&str, Option<Box<RawValue>>)]) -> bool {
    let is_taken_out =
        |name: &str| changes.iter().any(|(changed, value)| *changed == name && value.is_none());
    let is_nothing = |(name, value): (&str, &RawValue)| {
        let is_empty = name == "content" && is_blank_text(value);
        matches!(name, "role" | "name") || json::is_null(value) || is_taken_out(name) || is_empty
    };
    object.members().all(is_nothing)
}

/// A tool message without content gets an empty text.
fn read_answer<'a>(
    message: &mut Message<'a>,
    object: &Object<'a>,
    at: Arguments<'_>,
) -> Result<(), ApiError> {
    let id = match object.get("tool_call_id") {
        None => Cow::Borrowed(""),
        Some(_) => required_string(object, "tool_call_id", format_args!("{at}.tool_call_id"))?,
    };
    message.answers = Some(id);
    if message.content.is_none() {
        message.changes.push(("content", Some(json::quoted(""))));
    }
    Ok(())
}

/// The model's own reasoning, if `reasoning` contains progress lines of the server.
fn without_ours(reasoning: &str, tools: &Toolset) -> Option<String> {
    let own = progress_lines::removed(reasoning, |name| tools.get(name).is_some());
    (own.len() < reasoning.len()).then_some(own)
}

impl Message<'_> {
    /// The message for all that is below. `is_servers` tells which tools are the server's, and
    /// `is_clients` which are the client's.
    pub(super) fn into_client(
        mut self,
        is_servers: &impl Fn(&str) -> bool,
        is_clients: &impl Fn(&str) -> bool,
    ) -> ClientMessage {
        let unknown = |call: &&mut Call<'_>| !is_servers(&call.name) && !is_clients(&call.name);
        self.calls.iter_mut().filter(unknown).for_each(Call::mend_name);
        if self.calls.iter().any(|call| matches!(call.json, Cow::Owned(_))) {
            let calls: Vec<_> = self.calls.iter().map(|call| call.json.as_ref()).collect();
            self.changes.push(("tool_calls", Some(json::array(&calls))));
        }
        let calls = self.calls.iter().map(|call| ClientCall {
            id: call.id.as_ref().into(),
            of: match () {
                () if CardId::parse(&call.id).is_some() => CallOf::Card,
                () if is_servers(&call.name) => CallOf::Server,
                () => CallOf::Client,
            },
        });
        ClientMessage {
            index: self.index,
            role: self.role,
            json: self.to_json(),
            calls: calls.collect(),
            answers: self.answers.as_deref().map(Into::into),
            says_nothing: self.is_empty,
        }
    }

    /// The message for upstream: the client's bytes unless something was repaired.
    fn to_json(&self) -> Box<RawValue> {
        if self.changes.is_empty() {
            return self.json.to_owned();
        }
        let changes = self.changes.iter().map(|(name, value)| (*name, value.as_deref()));
        let changes: Vec<_> = changes.collect();
        let object = Object::from_raw(self.json).expect("it was read as one");
        object.with(&changes)
    }
}
