//! Recognises a frontend's own requests (titles, tags, follow-ups).

use axum::http::HeaderMap;

use super::messages::Message;
use crate::json::{self, Object};
use crate::openai::message::text_of;
use crate::sessions::message::Role;

/// How Open WebUI's own prompts begin.
const TASK_PROMPT: &str = "### Task:";

const TASK_HEADER: &str = "x-openwebui-task";

/// Whether this is such a request. Either its model is in `background_models`, or it
/// shows three signs: it is not streamed, it has no tools, and its header or prompt says
/// that it is a task.
pub(super) fn is_background_call(
    fields: &Object<'_>,
    messages: &[Message<'_>],
    headers: &HeaderMap,
    model: &str,
    background_models: &[String],
) -> bool {
    if background_models.iter().any(|name| name == model) {
        return true;
    }
    let is_unstreamed = fields.get("stream").and_then(json::boolean) == Some(false);
    let has_no_tools = fields.get("tools").is_none_or(|tools| tools.get() == "[]");
    let has_header = headers.get(TASK_HEADER).is_some_and(|task| !task.is_empty());
    is_unstreamed && has_no_tools && (has_header || has_task_prompt(messages))
}

fn has_task_prompt(messages: &[Message<'_>]) -> bool {
    let last = messages.iter().rev().find(|message| message.role == Role::User);
    last.is_some_and(|message| text_of(message.json).trim_start().starts_with(TASK_PROMPT))
}
