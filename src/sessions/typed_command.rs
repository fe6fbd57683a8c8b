//! Puts the text of a skill or command in the place of its name, where a user message begins with
//! `/name`.

use memchr::{memchr_iter, memmem};
use serde_json::Value;
use serde_json::value::RawValue;

use super::assemble::Assembled;
use crate::definitions::Definitions;
use crate::json::{self, Object};
use crate::openai::message::text_of;
use crate::workspace::{ReadableRoot, Workspace};

/// Ends a frontend's wrapping.
const WRAPPING_ENDS: &str = "</context>";

/// A user message in which a command was replaced.
#[derive(Debug)]
pub(super) struct Replaced {
    pub(super) message: String,
    /// The directory of the skill, if it has one.
    pub(super) directory: Option<ReadableRoot>,
}

/// The turn's last user message, if its text may begin with the name of a command.
pub(super) fn message(assembled: &Assembled) -> Option<&str> {
    let last = assembled.user_messages.last().filter(|own| !own.sent.is_empty())?;
    if !may_name_one(&last.sent) {
        return None;
    }
    let message: &RawValue = serde_json::from_str(&last.sent).ok()?;
    typed(&text_of(message)).is_some().then_some(&last.sent)
}

/// Whether a text of the message may begin with `/`, or may end a frontend's wrapping. Looks at
/// the JSON alone: a large message is not read for nothing.
fn may_name_one(message: &str) -> bool {
    let is_wrapped = memmem::find(message.as_bytes(), b"context").is_some();
    is_wrapped
        || memchr_iter(b'"', message.as_bytes())
            .any(|quote| begins_with_slash(&message[quote + 1..]))
}

/// Whether a text whose JSON begins so may begin with a slash, but for white space. A character
/// that is no ASCII, or is written by its number, may be white space.
fn begins_with_slash(json: &str) -> bool {
    let mut rest = json.as_bytes();
    loop {
        rest = match rest {
            [b' ', rest @ ..] | [b'\\', b'n' | b't' | b'r' | b'f', rest @ ..] => rest,
            [b'/' | b'\\' | 0x80.., next, ..] => {
                return rest[0] != b'\\' || matches!(next, b'/' | b'u');
            }
            _ => return false,
        }
    }
}

/// The message with the text of the command, if there is one of that name. Reads the disk.
pub(super) fn replaced(
    message: &str,
    definitions: &Definitions,
    workspace: &Workspace,
) -> Option<Replaced> {
    let set = definitions.current(workspace);
    let mut directory = None;
    let message = with_text(message, |text| {
        let typed = typed(text)?;
        let skill = set.skill(typed.name).filter(|skill| skill.is_for_user)?;
        let opened = definitions.open_skill(skill, workspace);
        let opened = opened.inspect_err(|reason| tracing::warn!(%reason, "no command")).ok()?;
        let told = opened.told(typed.arguments);
        directory = opened.directory;
        Some(format!("{}{told}", typed.before))
    })?;
    Some(Replaced { message, directory })
}

/// The prompt of an MCP server that the message names, as `mcp__server__prompt`, and the words
/// behind it.
pub(super) fn named_prompt(message: &str) -> Option<(String, String)> {
    let message: &RawValue = serde_json::from_str(message).ok()?;
    let text = text_of(message);
    let typed = typed(&text)?;
    let name = typed.name.strip_prefix("mcp__")?;
    Some((name.to_owned(), typed.arguments.to_owned()))
}

/// The message with the text of a prompt in the place of its name.
pub(super) fn with_prompt(message: &str, told: &str) -> Option<String> {
    with_text(message, |text| Some(format!("{}{told}", typed(text)?.before)))
}

/// A command as it was typed.
#[derive(Debug, PartialEq)]
struct Typed<'a> {
    /// A frontend's wrapping.
    before: &'a str,
    name: &'a str,
    arguments: &'a str,
}

fn typed(text: &str) -> Option<Typed<'_>> {
    let end = text.rfind(WRAPPING_ENDS).map_or(0, |at| at + WRAPPING_ENDS.len());
    let words = text[end..].trim_start();
    let before = &text[..text.len() - words.len()];
    let line = words.strip_prefix('/')?;
    let (name, arguments) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    (!name.is_empty()).then_some(Typed { before, name, arguments: arguments.trim() })
}

/// The user message with its text, or its first part that is one, replaced; `None` if that stays.
fn with_text(message: &str, replace: impl FnOnce(&str) -> Option<String>) -> Option<String> {
    let object = Object::parse(message)?;
    let mut content: Value = serde_json::from_str(object.get("content")?.get()).ok()?;
    let text = match &mut content {
        Value::Array(parts) => parts.iter_mut().find_map(|part| match part["type"].as_str() {
            Some("text") => part.get_mut("text"),
            _ => None,
        })?,
        text => text,
    };
    *text = replace(text.as_str()?)?.into();
    Some(object.with(&[("content", Some(&json::raw(content.to_string())))]).get().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_stands_at_the_start_of_the_users_own_words() {
        let parts = |text| typed(text).map(|it| (it.before, it.name, it.arguments));
        assert_eq!(parts("/go a  b\n"), Some(("", "go", "a  b")));
        assert_eq!(parts(" \n/git:push"), Some((" \n", "git:push", "")));
        let wrapped = "<context>\n/no\n</context>\n\n/go it";
        assert_eq!(parts(wrapped), Some(("<context>\n/no\n</context>\n\n", "go", "it")));
        for other in ["go /there", "<context>/go</context>\nDo it.", "/ go", "", "/"] {
            assert_eq!(parts(other), None, "{other}");
        }
    }

    #[test]
    fn a_message_is_read_only_where_it_may_name_a_command() {
        for named in [
            r#"{"role":"user","content":"/go"}"#,
            r#"{"role":"user","content":" \n\t/go"}"#,
            r#"{"role":"user","content":"\/go"}"#,
            r#"{"role":"user","content":"\u002fgo"}"#,
            r#"{"role":"user","content":"\u00a0/go"}"#,
            "{\"role\":\"user\",\"content\":\"\u{a0}/go\"}",
            r#"{"role":"user","content":[{"type":"text","text":"/go"}]}"#,
            r#"{"role":"user","content":"a</context>/go"}"#,
            r#"{"role":"user","content":"a\u003c/context>/go"}"#,
        ] {
            assert!(may_name_one(named), "{named}");
        }
        for other in [
            r#"{"role":"user","content":"go /there"}"#,
            r#"{"role":"user","content":"\"\\n\t/go"}"#,
            r#"{"role":"user","content":" \n"}"#,
            r#"{"role":"user","content":""}"#,
        ] {
            assert!(!may_name_one(other), "{other}");
        }
    }

    #[test]
    fn a_prompt_of_a_server_is_named_like_a_command() {
        let message = r#"{"role":"user","content":"/mcp__git__review  a b"}"#;
        let named = named_prompt(message).unwrap();
        assert_eq!(named, ("git__review".to_owned(), "a b".to_owned()));
        let told = r#"{"role":"user","content":"Look at a b."}"#;
        assert_eq!(with_prompt(message, "Look at a b.").unwrap(), told);
        assert_eq!(named_prompt(r#"{"role":"user","content":"/review mcp__git__x"}"#), None);
    }

    #[test]
    fn only_the_text_of_a_message_is_replaced() {
        let with = |message| with_text(message, |text| Some(format!("<{text}>")));
        let plain = r#"{"role":"user","content":"/go","name":"me"}"#;
        assert_eq!(with(plain).unwrap(), r#"{"role":"user","content":"</go>","name":"me"}"#);
        let parts =
            r#"{"role":"user","content":[{"type":"image_url"},{"type":"text","text":"/go"}]}"#;
        let expected =
            r#"{"role":"user","content":[{"type":"image_url"},{"type":"text","text":"</go>"}]}"#;
        assert_eq!(with(parts).unwrap(), expected);
        assert_eq!(with(r#"{"content":null}"#), None);
        assert_eq!(with_text(plain, |_| None), None);
    }
}
