//! Writes the definition of a tool that goes to the model.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::tool::AnyTool;

#[derive(Serialize)]
struct Definition<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
    /// Anthropic then streams arguments as the model writes them, instead of holding them back
    /// until they are valid. LiteLLM drops the member for every other provider.
    eager_input_streaming: bool,
}

/// How a definition ends.
const EAGER_END: &str = r#","eager_input_streaming":true}}"#;

/// The bytes that go upstream. They are the same in every request, so that a provider's prompt
/// cache matches.
pub(crate) fn definition(tool: &dyn AnyTool) -> Box<RawValue> {
    let function = Function {
        name: tool.name(),
        description: tool.description(),
        parameters: tool.input_schema(),
        eager_input_streaming: true,
    };
    to_raw_value(&Definition { r#type: "function", function }).expect("plain JSON serialises")
}

/// The definition without `eager_input_streaming`, for models that refuse it.
pub(crate) fn without_eager_input(definition: &RawValue) -> Cow<'_, str> {
    match definition.get().strip_suffix(EAGER_END) {
        Some(rest) => format!("{rest}}}}}").into(),
        None => definition.get().into(),
    }
}
