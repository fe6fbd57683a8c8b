//! Reads the server's own settings in a request: the `toolhand` object, or headers with
//! the same meaning. A member of the object beats its header.

use std::borrow::Cow;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName};
use serde_json::value::RawValue;

use super::messages::Message;
use super::{Context, invalid, quoted, required_items, required_object, unsupported};
use crate::errors::{ApiError, ErrorCode};
use crate::json::{self, Object};
use crate::permissions::Mode;
use crate::sessions::id_sources::{self, ExplicitId};
use crate::sessions::message::Role;
use crate::sessions::request::Progress;
use crate::tools::catalogue;
use crate::tools::toolset::Toolset;
use crate::workspace::Workspace;

const KEYS: [&str; 9] = [
    "session",
    "history",
    "progress",
    "mode",
    "tools",
    "workspace",
    "include",
    "detach",
    "max_rounds",
];
/// The keys whose headers hold JSON.
const JSON_HEADERS: [&str; 4] = ["tools", "max_rounds", "include", "detach"];
/// More names than any server has tools.
const MAX_NAMED: usize = 1024;
const HEADER_PREFIX: &str = "x-toolhand-";

/// The settings of one request.
#[derive(Debug)]
pub(super) struct Extension {
    /// The client's own id of the session.
    pub(super) session: Option<String>,
    /// Whether the server puts the earlier messages in front.
    pub(super) server_history: bool,
    /// Whether the answer tells the turn's messages.
    pub(super) include_messages: bool,
    /// Whether the turn goes on when its stream is lost.
    pub(super) detach: bool,
    pub(super) progress: Option<Progress>,
    pub(super) mode: Option<Mode>,
    pub(super) allow_tools: Option<Vec<String>>,
    pub(super) deny_tools: Vec<String>,
    pub(super) workspace: Option<Arc<Workspace>>,
    pub(super) max_rounds: Option<u32>,
}

/// The value of one key, from the object or a header.
struct Value<'a> {
    json: Cow<'a, RawValue>,
    /// The field or header, for error messages.
    at: String,
}

pub(super) fn read(
    fields: &Object<'_>,
    headers: &HeaderMap,
    context: &Context,
    toolset: &Toolset,
) -> Result<Extension, ApiError> {
    let body =
        fields.get("toolhand").map(|value| required_object(value, "toolhand")).transpose()?;
    check_keys(body.as_ref(), headers)?;
    let is_own = |name: &HeaderName| name.as_str().starts_with(HEADER_PREFIX);
    let headers = headers.keys().any(is_own).then_some(headers);
    let value = |key: &str| find(key, body.as_ref(), headers);
    let (allow_tools, deny_tools) = match value("tools")? {
        Some(tools) => read_tools(&tools, toolset)?,
        None => (None, Vec::new()),
    };
    Ok(Extension {
        session: value("session")?.map(|value| read_session(&value)).transpose()?,
        server_history: value("history")?
            .map(|value| read_history(&value))
            .transpose()?
            .unwrap_or_default(),
        include_messages: value("include")?
            .map(|value| read_include(&value))
            .transpose()?
            .unwrap_or_default(),
        detach: value("detach")?.map(|value| read_flag(&value)).transpose()?.unwrap_or_default(),
        progress: value("progress")?.map(|value| read_progress(&value)).transpose()?,
        mode: value("mode")?.map(|value| read_mode(&value, context.mode)).transpose()?,
        allow_tools,
        deny_tools,
        workspace: value("workspace")?
            .map(|value| read_workspace(&value, context))
            .transpose()?
            .or_else(|| context.key.default_workspace()),
        max_rounds: value("max_rounds")?
            .map(|value| read_rounds(&value, context.max_rounds))
            .transpose()?,
    })
}

/// Refuses unknown keys, because ignoring them would hide typing errors.
fn check_keys(body: Option<&Object<'_>>, headers: &HeaderMap) -> Result<(), ApiError> {
    let mut in_body = body.into_iter().flat_map(Object::keys);
    if let Some(key) = in_body.find(|key| !KEYS.contains(key)) {
        let message = format!("toolhand.{key} is not supported: {} are.", KEYS.join(", "));
        return Err(unsupported(format!("toolhand.{key}"), message));
    }
    let unknown = headers.keys().find(|name| {
        let key = name.as_str().strip_prefix(HEADER_PREFIX);
        key.is_some_and(|key| !KEYS.contains(&key.replace('-', "_").as_str()))
    });
    match unknown {
        Some(name) => {
            let message = format!("The header {name} is not supported.");
            Err(unsupported(name.as_str(), message))
        }
        None => Ok(()),
    }
}

fn find<'a>(
    key: &str,
    body: Option<&Object<'a>>,
    headers: Option<&HeaderMap>,
) -> Result<Option<Value<'a>>, ApiError> {
    if let Some(json) = body.and_then(|body| body.get(key)) {
        return Ok(Some(Value { json: Cow::Borrowed(json), at: format!("toolhand.{key}") }));
    }
    let Some(headers) = headers else { return Ok(None) };
    let at = format!("{HEADER_PREFIX}{}", key.replace('_', "-"));
    let Some(header) = headers.get(&at) else { return Ok(None) };
    let not_text = || invalid(&at, format!("The header {at} is not readable."));
    let text = header.to_str().map_err(|_| not_text())?.trim();
    let json = match (key, text) {
        // A list of one is easily said without its brackets.
        ("include", "messages") => json::array(&[text]),
        _ if JSON_HEADERS.contains(&key) => {
            crate::api::strict_json::check(text.as_bytes()).map_err(|_| not_text())?;
            json::raw(text.to_owned())
        }
        _ => json::quoted(text),
    };
    Ok(Some(Value { json: Cow::Owned(json), at }))
}

impl Value<'_> {
    fn string(&self) -> Result<Cow<'_, str>, ApiError> {
        json::string(&self.json).ok_or_else(|| self.invalid("a string"))
    }

    fn invalid(&self, wanted: &str) -> ApiError {
        invalid(&self.at, format!("{} must be {wanted}.", self.at))
    }
}

/// An id is repeated in a header and in the log.
fn read_session(value: &Value<'_>) -> Result<String, ApiError> {
    let id = value.string()?;
    if id_sources::is_id(&id) {
        Ok(id.into_owned())
    } else {
        Err(value.invalid(&format!("1 to {} printable ASCII characters", id_sources::MAX_ID)))
    }
}

fn read_history(value: &Value<'_>) -> Result<bool, ApiError> {
    match value.string()?.as_ref() {
        "server" => Ok(true),
        other => {
            let message = format!("{} is no history: use server.", quoted(other));
            Err(unsupported(&value.at, message))
        }
    }
}

fn read_include(value: &Value<'_>) -> Result<bool, ApiError> {
    let items = required_items(&value.json, MAX_NAMED, &value.at)?;
    for item in &items {
        let name = json::string(item).ok_or_else(|| value.invalid("a list of words"))?;
        if name != "messages" {
            let message = format!("{} cannot be included: messages can.", quoted(&name));
            return Err(unsupported(&value.at, message));
        }
    }
    Ok(!items.is_empty())
}

fn read_flag(value: &Value<'_>) -> Result<bool, ApiError> {
    json::boolean(&value.json).ok_or_else(|| value.invalid("true or false"))
}

impl Extension {
    /// The server can only put messages in front of a list that has none of its own answers,
    /// in a session that the client names.
    pub(super) fn check_history(
        &self,
        named: Option<&ExplicitId>,
        messages: &[Message<'_>],
    ) -> Result<(), ApiError> {
        let has_answers = messages.iter().any(|message| message.role == Role::Assistant);
        let wanted = match (self.server_history, named) {
            (true, None) => "needs the session's id",
            (true, Some(_)) if has_answers => "is for messages without the assistant's",
            (false, _) | (true, Some(_)) => return Ok(()),
        };
        Err(invalid("toolhand.history", format!("toolhand.history {wanted}.")))
    }
}

fn read_progress(value: &Value<'_>) -> Result<Progress, ApiError> {
    let word = value.string()?;
    Progress::from_word(&word).ok_or_else(|| {
        let word = quoted(&word);
        let message = format!("{word} is no progress: use reasoning, cards, events or none.");
        unsupported(&value.at, message)
    })
}

fn read_mode(value: &Value<'_>, current: Mode) -> Result<Mode, ApiError> {
    let wanted: Mode =
        value.string()?.parse().map_err(|error| invalid(&value.at, format!("{error}.")))?;
    current.tightened(wanted).map_err(|error| {
        ApiError::new(ErrorCode::ModeNotAllowed, format!("{error}.")).param(&value.at)
    })
}

type Narrowed = (Option<Vec<String>>, Vec<String>);

fn read_tools(value: &Value<'_>, toolset: &Toolset) -> Result<Narrowed, ApiError> {
    let tools = required_object(&value.json, &value.at)?;
    if let Some(key) = tools.keys().find(|key| !matches!(*key, "allow" | "deny")) {
        let at = format!("{}.{key}", value.at);
        return Err(unsupported(&at, format!("{at} is not supported: allow and deny are.")));
    }
    let names = |key: &str| {
        let at = format!("{}.{key}", value.at);
        tools.get(key).map(|names| read_names(names, &at, toolset)).transpose()
    };
    Ok((names("allow")?, names("deny")?.unwrap_or_default()))
}

fn read_names(names: &RawValue, at: &str, toolset: &Toolset) -> Result<Vec<String>, ApiError> {
    let chosen = required_items(names, MAX_NAMED, at)?;
    if chosen.len() > MAX_NAMED {
        return Err(invalid(at, format!("{at} must name at most {MAX_NAMED} tools.")));
    }
    chosen
        .into_iter()
        .enumerate()
        .map(|(index, name)| {
            let at = format!("{at}[{index}]");
            let name = json::string(name)
                .ok_or_else(|| invalid(&at, format!("{at} must be a tool's name.")))?;
            match toolset.get(&name) {
                Some(tool) => Ok(tool.name().to_owned()),
                // Its server may not be up now.
                None if catalogue::may_join(&name) => Ok(name.into_owned()),
                None => {
                    Err(invalid(&at, format!("The server has no tool named {}.", quoted(&name))))
                }
            }
        })
        .collect()
}

fn read_workspace(value: &Value<'_>, context: &Context) -> Result<Arc<Workspace>, ApiError> {
    let name = value.string()?;
    context.key.allow_workspace(&name, &value.at)?;
    context.workspaces.get(name.as_ref()).cloned().ok_or_else(|| {
        let message = format!("There is no workspace named {} on this server.", quoted(&name));
        invalid(&value.at, message)
    })
}

/// The requested number of rounds, at most the operator's limit.
fn read_rounds(value: &Value<'_>, most: u32) -> Result<u32, ApiError> {
    match serde_json::from_str::<u32>(value.json.get()) {
        Ok(rounds) if rounds > 0 => Ok(rounds.min(most)),
        _ => Err(value.invalid("a whole number from 1")),
    }
}
