//! Reads the client's own tools and its `tool_choice`.

use std::borrow::Cow;

use serde_json::json;
use serde_json::value::RawValue;

use super::{
    Context, invalid, missing, quoted, required_items, required_object, required_string,
    unsupported,
};
use crate::errors::{ApiError, ErrorCode};
use crate::json::{self, Kind, Object};
use crate::openai::request::{ClientTool, ToolChoice};
use crate::tools::settings::NameConflict;
use crate::tools::toolset::Toolset;

/// OpenAI's limit on a tool's name.
const MAX_NAME: usize = 64;

/// More names than any request has tools.
const MAX_ALLOWED: usize = 1024;

/// The types of tools that a client may declare. LiteLLM would run other types itself.
const KINDS: [&str; 2] = ["function", "custom"];

/// The client's tools, and the names of the server's tools that they replace.
#[derive(Debug, Default)]
pub(super) struct ClientTools {
    pub(super) tools: Vec<ClientTool>,
    pub(super) replaced: Vec<String>,
    pub(super) aliases: Vec<String>,
}

pub(super) fn read(
    fields: &Object<'_>,
    server: &Toolset,
    context: &Context,
) -> Result<ClientTools, ApiError> {
    let mut client = ClientTools::default();
    let Some(declared) = fields.get("tools") else { return Ok(client) };
    let most = context.limits.client_tools;
    let declared = required_items(declared, most, "tools")?;
    if declared.len() > most {
        return Err(invalid("tools", format!("A request may declare at most {most} tools.")));
    }
    for (index, tool) in declared.into_iter().enumerate() {
        let at = format!("tools[{index}]");
        let tool = read_one(tool, &at, context.limits.schema)?;
        if client.tools.iter().any(|other| other.name == tool.name) {
            return Err(invalid(at, format!("Two tools have the name {:?}.", tool.name)));
        }
        if context.tools.client_tools.allows(&tool.name) {
            make_room(&tool, &at, server, context.tools.name_conflict, &mut client)?;
            client.tools.push(tool);
        }
    }
    Ok(client)
}

fn read_one(tool: &RawValue, at: &str, largest_schema: usize) -> Result<ClientTool, ApiError> {
    let object = required_object(tool, at)?;
    let kind = required_string(&object, "type", format_args!("{at}.type"))?;
    if !KINDS.contains(&kind.as_ref()) {
        let message =
            format!("Tools of type {} are not supported: use function or custom.", quoted(&kind));
        return Err(unsupported(format!("{at}.type"), message));
    }
    let at = format!("{at}.{kind}");
    let definition = object.get(&kind).ok_or_else(|| missing(&at))?;
    let definition = required_object(definition, &at)?;
    let name_at = format!("{at}.name");
    let name = required_string(&definition, "name", &name_at)?;
    if !is_name(&name) {
        let message =
            format!("A tool's name has 1 to {MAX_NAME} letters, digits, underscores and hyphens.");
        return Err(invalid(name_at, message));
    }
    check_kind(&definition, "description", Kind::String, &at)?;
    check_kind(&definition, "parameters", Kind::Object, &at)?;
    let schema = definition.get("parameters").or_else(|| definition.get("format"));
    if schema.is_some_and(|schema| schema.get().len() > largest_schema) {
        let message = format!("A tool's schema has at most {largest_schema} bytes.");
        return Err(invalid(format!("{at}.parameters"), message));
    }
    Ok(ClientTool { name: name.into_owned(), definition: tool.to_owned() })
}

fn is_name(name: &str) -> bool {
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_name_byte)
}

fn check_kind(
    definition: &Object<'_>,
    member: &str,
    wanted: Kind,
    at: &str,
) -> Result<(), ApiError> {
    if definition.get(member).is_none_or(|value| json::kind(value) == wanted) {
        return Ok(());
    }
    let param = format!("{at}.{member}");
    let message = format!("{param} has the wrong type.");
    Err(invalid(param, message))
}

/// Decides who keeps a name that both sides use. An alias of a server's tool always gives
/// way.
fn make_room(
    tool: &ClientTool,
    at: &str,
    server: &Toolset,
    conflict: NameConflict,
    client: &mut ClientTools,
) -> Result<(), ApiError> {
    let Some(ours) = server.get(&tool.name) else { return Ok(()) };
    if ours.name() != tool.name {
        client.aliases.push(tool.name.clone());
        return Ok(());
    }
    match conflict {
        NameConflict::Client => client.replaced.push(tool.name.clone()),
        NameConflict::Error => {
            let message = format!("The server has a tool named {:?} itself.", tool.name);
            return Err(ApiError::new(ErrorCode::ToolNameConflict, message).param(at));
        }
    }
    Ok(())
}

/// Which tool must be called, and which tools may be called if not all.
#[derive(Debug, Default)]
pub(super) struct Choice {
    pub(super) choice: ToolChoice,
    pub(super) only: Option<Vec<String>>,
}

impl From<ToolChoice> for Choice {
    fn from(choice: ToolChoice) -> Self {
        Self { choice, only: None }
    }
}

/// Reads `tool_choice`, and checks that the tools it names exist.
pub(super) fn choice(
    fields: &Object<'_>,
    server: &Toolset,
    client: &[ClientTool],
) -> Result<Choice, ApiError> {
    let Some(choice) = fields.get("tool_choice") else { return Ok(Choice::default()) };
    let is_there = |name: &str| {
        client.iter().any(|tool| tool.name == name) || server.names().any(|ours| ours == name)
    };
    let is_any_there = !client.is_empty() || server.names().next().is_some();
    let choice = match json::string(choice) {
        Some(word) => read_word(&word)?.into(),
        None => read_object(choice, &is_there)?,
    };
    if matches!(choice.choice, ToolChoice::Required) && !is_any_there {
        let message = "tool_choice is required, but this request has no tools.";
        return Err(invalid("tool_choice", message));
    }
    Ok(choice)
}

fn read_word(word: &str) -> Result<ToolChoice, ApiError> {
    match word {
        "auto" => Ok(ToolChoice::Auto),
        "none" => Ok(ToolChoice::None),
        "required" => Ok(ToolChoice::Required),
        _ => Err(invalid("tool_choice", format!("{} is no tool_choice.", quoted(word)))),
    }
}

fn read_object(raw: &RawValue, is_there: &dyn Fn(&str) -> bool) -> Result<Choice, ApiError> {
    let object = required_object(raw, "tool_choice")?;
    let kind = required_string(&object, "type", "tool_choice.type")?;
    match kind.as_ref() {
        "allowed_tools" => return read_allowed(&object, is_there),
        // Some clients write the words as objects, as Anthropic's API has them.
        "auto" | "none" | "required" => return read_word(&kind).map(Choice::from),
        "any" => return Ok(ToolChoice::Required.into()),
        _ => {}
    }
    if let Some(name) = flatly_named(&object, &kind) {
        let object =
            json::raw(json!({ "type": "function", "function": { "name": name } }).to_string());
        named(&required_object(&object, "tool_choice")?, "tool_choice", is_there)?;
        return Ok(ToolChoice::Named { name, object }.into());
    }
    let name = named(&object, "tool_choice", is_there)?;
    Ok(ToolChoice::Named { name, object: raw.to_owned() }.into())
}

/// The name in `{type: "function", name}`, as the Responses API has it, and in
/// `{type: "tool", name}`, as Anthropic's has it.
fn flatly_named(object: &Object<'_>, kind: &str) -> Option<String> {
    let is_flat = matches!(kind, "tool" | "function") && object.get(kind).is_none();
    object.string("name").filter(|_| is_flat).map(Cow::into_owned)
}

/// The name in `{type: "function", function: {name}}` or the same form for `custom`.
fn named(
    object: &Object<'_>,
    at: &str,
    is_there: &dyn Fn(&str) -> bool,
) -> Result<String, ApiError> {
    let kind = required_string(object, "type", format_args!("{at}.type"))?;
    if !KINDS.contains(&kind.as_ref()) {
        return Err(unsupported(
            format!("{at}.type"),
            format!("{} cannot be chosen.", quoted(&kind)),
        ));
    }
    let at = format!("{at}.{kind}");
    let target = object.get(&kind).ok_or_else(|| missing(&at))?;
    let param = format!("{at}.name");
    let name = required_string(&required_object(target, &at)?, "name", &param)?;
    if is_there(&name) {
        Ok(name.into_owned())
    } else {
        Err(invalid(param, format!("There is no tool named {} in this request.", quoted(&name))))
    }
}

/// Reads the `allowed_tools` form. The request is forwarded as if it had only these
/// tools, which every provider understands.
fn read_allowed(object: &Object<'_>, is_there: &dyn Fn(&str) -> bool) -> Result<Choice, ApiError> {
    let at = "tool_choice.allowed_tools";
    let allowed = object.get("allowed_tools").ok_or_else(|| missing(at))?;
    let allowed = required_object(allowed, at)?;
    let mode_at = format!("{at}.mode");
    let choice = match required_string(&allowed, "mode", &mode_at)?.as_ref() {
        "auto" => ToolChoice::Auto,
        "required" => ToolChoice::Required,
        _ => return Err(invalid(mode_at, "The mode is auto or required.")),
    };
    let tools_at = format!("{at}.tools");
    let tools = allowed.get("tools").ok_or_else(|| missing(&tools_at))?;
    let tools = required_items(tools, MAX_ALLOWED, &tools_at)?;
    if tools.len() > MAX_ALLOWED {
        return Err(invalid(tools_at, format!("At most {MAX_ALLOWED} tools can be allowed.")));
    }
    let names = tools
        .into_iter()
        .enumerate()
        .map(|(index, tool)| {
            let at = format!("{tools_at}[{index}]");
            named(&required_object(tool, &at)?, &at, is_there)
        })
        .collect::<Result<Vec<_>, _>>()?;
    if names.is_empty() {
        return Err(invalid(tools_at, "At least one tool must be allowed."));
    }
    Ok(Choice { choice, only: Some(names) })
}
