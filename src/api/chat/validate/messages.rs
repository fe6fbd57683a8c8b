//! The messages one by one: roles, and the shape of what they hold.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{invalid, missing, required_items, required_object, required_string};
use crate::api::json::{self, Kind, Object};
use crate::openai::error::ApiError;
use crate::openai::progress_lines;
use crate::tools::toolset::Toolset;

/// More messages than any conversation has.
const MOST_MESSAGES: usize = 10_000;

/// What a tool call without readable arguments has.
const NO_ARGUMENTS: &str = "{}";

/// A message that has the right shape.
#[derive(Debug)]
pub(super) struct Message<'a> {
    pub(super) role: Role,
    pub(super) content: Option<&'a RawValue>,
    /// As it goes upstream: the client's bytes unless something had to be mended.
    pub(super) json: Cow<'a, RawValue>,
    /// The ids of the calls an assistant made.
    pub(super) calls: Vec<Cow<'a, str>>,
    /// The call that a tool's message answers.
    pub(super) answers: Option<Cow<'a, str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// `system` and `developer`.
    Instruction,
    User,
    Assistant,
    Tool,
    Function,
}

impl Role {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "system" | "developer" => Self::Instruction,
            "user" => Self::User,
            "assistant" => Self::Assistant,
            "tool" => Self::Tool,
            "function" => Self::Function,
            _ => return None,
        })
    }
}

/// `tools` are those whose progress a client may send back.
pub(super) fn read<'a>(fields: &Object<'a>, tools: &Toolset) -> Result<Vec<Message<'a>>, ApiError> {
    let messages = fields.get("messages").ok_or_else(|| missing("messages"))?;
    let messages = required_items(messages, "messages")?;
    if messages.is_empty() {
        return Err(invalid("messages", "messages must hold at least one message."));
    }
    if messages.len() > MOST_MESSAGES {
        let message = format!("messages must hold at most {MOST_MESSAGES} messages.");
        return Err(invalid("messages", message));
    }
    let read = |(index, message)| read_one(message, tools, &format!("messages[{index}]"));
    messages.into_iter().enumerate().map(read).collect()
}

fn read_one<'a>(json: &'a RawValue, tools: &Toolset, at: &str) -> Result<Message<'a>, ApiError> {
    let object = required_object(json, at)?;
    let role_at = format!("{at}.role");
    let role = required_string(&object, "role", &role_at)?;
    let role = Role::of(&role).ok_or_else(|| {
        let known = "developer, system, user, assistant, tool or function";
        invalid(role_at, format!("{role:?} is no role: use {known}."))
    })?;
    check_name(&object, at)?;
    check_content(&object, role, at)?;
    let mut message = Message {
        role,
        content: object.get("content"),
        json: Cow::Borrowed(json),
        calls: Vec::new(),
        answers: None,
    };
    match role {
        Role::Assistant => read_assistant(&mut message, &object, tools, at)?,
        Role::Tool => {
            let param = format!("{at}.tool_call_id");
            message.answers = Some(required_string(&object, "tool_call_id", &param)?);
        }
        Role::Function if object.get("name").is_none() => {
            return Err(missing(&format!("{at}.name")));
        }
        Role::Instruction | Role::User | Role::Function => {}
    }
    Ok(message)
}

fn check_name(object: &Object<'_>, at: &str) -> Result<(), ApiError> {
    match object.get("name").map(json::kind) {
        None | Some(Kind::String) => Ok(()),
        Some(_) => Err(invalid(format!("{at}.name"), format!("{at}.name must be a string."))),
    }
}

fn check_content(object: &Object<'_>, role: Role, at: &str) -> Result<(), ApiError> {
    let param = format!("{at}.content");
    let Some(content) = object.get("content") else {
        return if may_be_empty(object, role) { Ok(()) } else { Err(missing(&param)) };
    };
    match json::kind(content) {
        Kind::String => Ok(()),
        Kind::Array => required_items(content, &param)?
            .into_iter()
            .enumerate()
            .try_for_each(|(index, part)| check_part(part, &format!("{param}[{index}]"))),
        _ => Err(invalid(param, "A message's content must be a string or an array of parts.")),
    }
}

fn may_be_empty(object: &Object<'_>, role: Role) -> bool {
    let says_something_else = || {
        ["tool_calls", "function_call", "refusal", "audio"]
            .iter()
            .filter_map(|member| object.get(member))
            .any(|value| value.get() != "[]")
    };
    role == Role::Function || (role == Role::Assistant && says_something_else())
}

/// A part of a kind we do not know is upstream's to judge.
fn check_part(part: &RawValue, at: &str) -> Result<(), ApiError> {
    let part = required_object(part, at)?;
    let kind = required_string(&part, "type", &format!("{at}.type"))?;
    match kind.as_ref() {
        "text" => required_string(&part, "text", &format!("{at}.text")).map(|_| ()),
        "image_url" => check_image(&part, &format!("{at}.image_url")),
        _ => Ok(()),
    }
}

/// An image is named by a URL that upstream can see; never by a file of ours.
fn check_image(part: &Object<'_>, at: &str) -> Result<(), ApiError> {
    let image = part.get("image_url").ok_or_else(|| missing(at))?;
    let (url, param) = match Object::of(image) {
        Some(image) => (image.get("url"), format!("{at}.url")),
        None => (Some(image), at.to_owned()),
    };
    let url = url.ok_or_else(|| missing(&param))?;
    let is_remote = json::string(url).is_some_and(|url| {
        ["http://", "https://", "data:"].iter().any(|scheme| {
            url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        })
    });
    if is_remote {
        Ok(())
    } else {
        Err(invalid(param, "An image must be an http, https or data URL."))
    }
}

fn read_assistant<'a>(
    message: &mut Message<'a>,
    object: &Object<'a>,
    tools: &Toolset,
    at: &str,
) -> Result<(), ApiError> {
    let mut mended_calls = None;
    if let Some(calls) = object.get("tool_calls") {
        let calls = read_calls(calls, &format!("{at}.tool_calls"))?;
        mended_calls = calls.mended;
        message.calls = calls.ids;
    }
    let reasoning = object.string("reasoning_content");
    let own_reasoning = reasoning.as_deref().and_then(|text| without_ours(text, tools));
    let mut changes: Vec<(&str, Option<&RawValue>)> = Vec::new();
    if let Some(calls) = &mended_calls {
        changes.push(("tool_calls", Some(calls)));
    }
    let own_json = own_reasoning.as_deref().map(json::quoted);
    if let Some(own) = &own_reasoning {
        let kept = own_json.as_deref().filter(|_| !own.trim().is_empty());
        changes.push(("reasoning_content", kept));
    }
    if !changes.is_empty() {
        message.json = Cow::Owned(object.with(&changes));
    }
    Ok(())
}

/// The model's own reasoning, when there are lines of ours in `reasoning`.
fn without_ours(reasoning: &str, tools: &Toolset) -> Option<String> {
    let own = progress_lines::removed(reasoning, |name| tools.get(name).is_some());
    (own.len() < reasoning.len()).then_some(own)
}

struct Calls<'a> {
    ids: Vec<Cow<'a, str>>,
    /// The whole list anew, when arguments had to be mended.
    mended: Option<Box<RawValue>>,
}

fn read_calls<'a>(calls: &'a RawValue, at: &str) -> Result<Calls<'a>, ApiError> {
    let mut ids: Vec<Cow<'_, str>> = Vec::new();
    let mut whole: Vec<Cow<'_, RawValue>> = Vec::new();
    for (index, call) in required_items(calls, at)?.into_iter().enumerate() {
        let at = format!("{at}[{index}]");
        let object = required_object(call, &at)?;
        let id_at = format!("{at}.id");
        let id = required_string(&object, "id", &id_at)?;
        if id.is_empty() || ids.contains(&id) {
            return Err(invalid(id_at, format!("{id:?} must be the id of one call only.")));
        }
        ids.push(id);
        whole.push(read_call(call, &object, &at)?);
    }
    let is_mended = whole.iter().any(|call| matches!(call, Cow::Owned(_)));
    let mended = is_mended.then(|| {
        let whole: Vec<_> = whole.into_iter().map(Cow::into_owned).collect();
        json::array(&whole)
    });
    Ok(Calls { ids, mended })
}

/// A call with arguments that are JSON; upstream's providers parse them.
fn read_call<'a>(
    call: &'a RawValue,
    object: &Object<'a>,
    at: &str,
) -> Result<Cow<'a, RawValue>, ApiError> {
    let kind = object.string("type");
    if kind.as_deref() == Some("custom") {
        return Ok(Cow::Borrowed(call));
    }
    if object.get("type").is_some() && kind.as_deref() != Some("function") {
        return Err(invalid(format!("{at}.type"), "A tool call is a function or custom."));
    }
    let function_at = format!("{at}.function");
    let function = object.get("function").ok_or_else(|| missing(&function_at))?;
    let function = required_object(function, &function_at)?;
    required_string(&function, "name", &format!("{function_at}.name"))?;
    Ok(match mended_arguments(function.get("arguments")) {
        None => Cow::Borrowed(call),
        Some(arguments) => {
            let arguments = json::quoted(&arguments);
            let function = function.with(&[("arguments", Some(&arguments))]);
            Cow::Owned(object.with(&[("function", Some(&function))]))
        }
    })
}

/// What stands in for arguments that are no JSON text; `None` when they are.
fn mended_arguments(arguments: Option<&RawValue>) -> Option<String> {
    let Some(arguments) = arguments else { return Some(NO_ARGUMENTS.to_owned()) };
    let Some(text) = json::string(arguments) else { return Some(arguments.get().to_owned()) };
    if matches!(text.trim(), "" | "null") {
        return Some(NO_ARGUMENTS.to_owned());
    }
    let is_json = serde_json::from_str::<&RawValue>(&text).is_ok();
    (!is_json).then(|| serde_json::json!({ "text": text }).to_string())
}
