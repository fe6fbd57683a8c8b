//! Validates a chat completion request and parses it into a [`ChatRequest`].
//!
//! Pure: looks nothing up, runs nothing and sends nothing.

mod background;
mod extension;
mod extract;
mod fields;
mod frontend;
mod key_bounds;
mod messages;
mod tool_calls;
mod tools;

pub(crate) use self::extract::Validated;
pub(crate) use self::key_bounds::KeyBounds;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue};
use serde_json::value::RawValue;

use crate::api::strict_json;
use crate::errors::{ApiError, ErrorCode};
use crate::json::{self, Kind, MAX_MEMBERS, Object};
use crate::limits::Limits;
use crate::openai::Body;
use crate::openai::request::ToolChoice;
use crate::permissions::Mode;
use crate::sessions::id_sources;
use crate::sessions::request::{ChatRequest, UncalledTools};
use crate::text;
use crate::tools::catalogue::{ToolCatalogue, ToolSnapshot};
use crate::tools::settings::ToolSettings;
use crate::tools::toolset::Toolset;
use crate::upstream::settings::UnknownFields;
use crate::workspace::Workspace;
use extension::Extension;

/// Fields that the server reads itself and writes anew for upstream.
const READ: [&str; 7] = [
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "stream",
    "stream_options",
    "toolhand",
];

/// What a request is validated against.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) catalogue: ToolCatalogue,
    pub(crate) tools: ToolSettings,
    pub(crate) limits: Limits,
    pub(crate) unknown_fields: UnknownFields,
    /// The mode of the key; a request may only tighten it.
    pub(crate) mode: Mode,
    /// The workspaces that a request may choose, by name.
    pub(crate) workspaces: BTreeMap<String, Arc<Workspace>>,
    pub(crate) max_rounds: u32,
    pub(crate) background_models: Vec<String>,
    pub(crate) id_sources: Arc<id_sources::IdSources>,
    /// What the key of the request adds.
    pub(crate) key: KeyBounds,
}

/// Validates the request in `body` and its headers, where the server has these tools.
pub(crate) fn validate(
    body: &[u8],
    headers: &HeaderMap,
    context: &Context,
    tools: &ToolSnapshot,
) -> Result<ChatRequest, ApiError> {
    let fields = strict_json::object(body)?;
    fields::check(&fields, context.unknown_fields)?;
    let model = fields::model(&fields)?;
    let stream = fields::stream(&fields)?;
    // A tool that the workspace lacks now may have been called before, and may be named.
    let all = tools.all();
    let history = messages::read(&fields, all, &context.limits)?;
    let background = background::is_background_call(
        &fields,
        &history,
        headers,
        &model,
        &context.background_models,
    );
    let extension = extension::read(&fields, headers, context, all)?;
    let allowed = offered(tools.in_workspace(extension.workspace.as_deref()), &extension);
    let offered = if background { Toolset::default() } else { allowed.clone() };
    let header = |name: &str| headers.get(name).map(HeaderValue::as_bytes);
    let metadata = fields.get("metadata").and_then(Object::from_raw);
    let metadata = |name: &str| metadata.as_ref().and_then(|metadata| metadata.string(name));
    let named = id_sources::explicit_id(&id_sources::Given {
        own: extension.session.as_deref(),
        header: &header,
        metadata: &metadata,
        more_headers: &context.id_sources.id_headers,
    });
    extension.check_history(named.as_ref(), &history)?;
    let mut client = tools::read(&fields, &offered, context)?;
    let choice = tools::choice(&fields, &offered, &client.tools)?;
    let servers = all.without(&client.replaced).without_aliases(&client.aliases);
    let is_servers = |name: &str| servers.get(name).is_some();
    let declared: HashSet<&str> = client.tools.iter().map(|tool| tool.name.as_str()).collect();
    let is_clients = |name: &str| declared.contains(name);
    let convert = |message: messages::Message<'_>| message.into_client(&is_servers, &is_clients);
    let messages = history.into_iter().map(convert).collect();
    let mut ours = offered.without(&client.replaced).without_aliases(&client.aliases);
    if let Some(only) = &choice.only {
        client.tools.retain(|tool| only.contains(&tool.name));
        ours = ours.only(only);
    }
    let mut tool_choice = choice.choice;
    let mut uncalled = UncalledTools::default();
    if background && client.tools.is_empty() {
        tool_choice = ToolChoice::None;
        uncalled.servers = allowed;
    } else if matches!(tool_choice, ToolChoice::None) {
        uncalled.servers = std::mem::take(&mut ours);
        uncalled.clients = std::mem::take(&mut client.tools);
    }
    Ok(ChatRequest {
        model: model.into_owned(),
        stream: stream.is_streamed,
        include_usage: stream.include_usage,
        messages,
        tools: ours,
        tool_choice,
        parallel_tool_calls: fields.get("parallel_tool_calls").and_then(json::boolean),
        client_tools: client.tools,
        uncalled,
        fields: forwarded(&fields),
        names_progress: extension.progress.is_some(),
        progress: extension.progress,
        frontend: frontend::signs(&fields, headers),
        base_mode: context.mode,
        mode: extension.mode,
        workspace: extension.workspace,
        max_rounds: extension.max_rounds,
        is_background: background,
        named,
        server_history: extension.server_history,
        include_messages: extension.include_messages,
        detach: extension.detach,
    })
}

/// The server's tools that this request allows.
fn offered(toolset: &Toolset, extension: &Extension) -> Toolset {
    let allowed = match &extension.allow_tools {
        Some(names) => toolset.only(names),
        None => toolset.clone(),
    };
    allowed.without(&extension.deny_tools)
}

fn forwarded(fields: &Object<'_>) -> Body {
    fields
        .members()
        .filter(|(name, _)| !READ.contains(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// `param` is formatted only for an error: a valid request with a million parts formats
/// no path.
fn missing(param: impl Display) -> ApiError {
    let param = param.to_string();
    let message = format!("The field {param:?} is missing.");
    ApiError::new(ErrorCode::MissingField, message).param(param)
}

fn invalid(param: impl Display, message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::InvalidValue, message).param(param.to_string())
}

fn unsupported(param: impl Display, message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::UnsupportedValue, message).param(param.to_string())
}

/// Quotes the client's text for an error message.
fn quoted(text: &str) -> String {
    const SHOWN: usize = 100;
    format!("{:?}", text::shortened(text, SHOWN))
}

/// The string member `name` of `object`. Errors call it `param`.
fn required_string<'a>(
    object: &Object<'a>,
    name: &str,
    param: impl Display,
) -> Result<Cow<'a, str>, ApiError> {
    match object.get(name) {
        None => Err(missing(param)),
        Some(value) => {
            json::string(value).ok_or_else(|| invalid(&param, format!("{param} must be a string.")))
        }
    }
}

/// The items of a list, at most one more than `most`, so that the caller sees when there
/// are too many.
fn required_items(
    value: &RawValue,
    most: usize,
    param: impl Display,
) -> Result<Vec<&RawValue>, ApiError> {
    json::items(value, most).ok_or_else(|| not_an_array(param))
}

fn not_an_array(param: impl Display) -> ApiError {
    let message = format!("{param} must be an array.");
    invalid(param, message)
}

fn required_object(value: &RawValue, param: impl Display) -> Result<Object<'_>, ApiError> {
    Object::from_raw(value).ok_or_else(|| {
        let wanted = match json::kind(value) {
            Kind::Object => format!("have at most {MAX_MEMBERS} members"),
            _ => "be an object".to_owned(),
        };
        let message = format!("{param} must {wanted}.");
        invalid(param, message)
    })
}

#[cfg(test)]
mod tests;
