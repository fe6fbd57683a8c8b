//! Renders the system prompt, and joins it with the client's system messages.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::beginning::HistoryPiece;
use crate::permissions::AccessKind;
use crate::sync;
use crate::tools::toolset::Toolset;

/// `[prompt]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PromptSettings {
    pub(crate) mode: PromptMode,
}

/// How the server's prompt and the client's own system messages are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PromptMode {
    /// The server's prompt, then the client's messages unchanged.
    #[default]
    Append,
    /// The server's prompt alone.
    Replace,
    /// The client's messages alone.
    None,
}

/// The facts that the prompt states.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Environment<'a> {
    pub(crate) working_dir: &'a Path,
    /// For example `21 Nov 2026`.
    pub(crate) date: &'a str,
    /// The server's tools that the request may use.
    pub(crate) tools: &'a Toolset,
}

/// Today's date in UTC, for example `21 Nov 2026`.
pub(crate) fn today() -> String {
    // Of `Sat, 21 Nov 2026 08:49:37 GMT`.
    const DATE: std::ops::Range<usize> = 5..16;
    httpdate::fmt_http_date(SystemTime::now())[DATE].to_owned()
}

/// Keeps the prompt that was rendered last, since most sessions of a day begin with the same.
#[derive(Debug, Default)]
pub(crate) struct Prompts(Mutex<Option<Rendered>>);

#[derive(Debug)]
struct Rendered {
    working_dir: PathBuf,
    date: String,
    tools: Toolset,
    prompt: Arc<str>,
}

impl Prompts {
    pub(crate) fn render(&self, environment: Environment<'_>) -> Arc<str> {
        let Environment { working_dir, date, tools } = environment;
        let mut last = sync::lock(&self.0);
        let same = last.as_ref().filter(|last| {
            last.working_dir == working_dir && last.date == date && last.tools.is(tools)
        });
        if let Some(rendered) = same {
            return Arc::clone(&rendered.prompt);
        }
        let prompt: Arc<str> = render(environment).into();
        *last = Some(Rendered {
            working_dir: working_dir.to_owned(),
            date: date.to_owned(),
            tools: tools.clone(),
            prompt: Arc::clone(&prompt),
        });
        prompt
    }
}

fn render(environment: Environment<'_>) -> String {
    let Environment { working_dir, date, tools } = environment;
    let mut lines = vec![
        "You can act on a computer through tools. They run on the server that answers this chat, \
         not on the user's own device."
            .to_owned(),
        format!("Working directory: {}", working_dir.display()),
        format!("Platform: {}. Date: {date}.", std::env::consts::OS),
        "Use a tool when the answer depends on what is really there; never invent the contents \
         of files or the output of commands."
            .to_owned(),
        "Make independent calls in one message: they run at the same time.".to_owned(),
        "An answer that begins with `Error: ` says what went wrong. Mend the call, or tell the \
         user what is needed; do not repeat it unchanged."
            .to_owned(),
    ];
    lines.extend(advice(tools));
    lines.join("\n")
}

/// The advice of each tool, without repetition, and a line that prefers the reading tools to
/// commands.
fn advice(tools: &Toolset) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for advice in tools.tools().iter().filter_map(|tool| tool.advice()) {
        if !lines.iter().any(|line| line == advice) {
            lines.push(advice.to_owned());
        }
    }
    let of_kind = |kind: AccessKind| {
        tools.tools().iter().filter(move |tool| tool.access() == kind).map(|tool| tool.name())
    };
    let readers: Vec<&str> = of_kind(AccessKind::Read).collect();
    if of_kind(AccessKind::Command).next().is_some() && !readers.is_empty() {
        let readers = listed(&readers);
        lines.push(format!("Prefer {readers} to shell commands for looking at files."));
    }
    lines
}

/// `a`, `a and b`, `a, b and c`.
fn listed(names: &[&str]) -> String {
    match names {
        [names @ .., last] if !names.is_empty() => format!("{} and {last}", names.join(", ")),
        names => names.concat(),
    }
}

/// Puts `prompt` in front of the transcript. It is joined to a leading system message of the
/// client's, since some chat templates take only one.
pub(crate) fn apply(
    mode: PromptMode,
    prompt: &str,
    mut pieces: Vec<HistoryPiece>,
) -> Vec<HistoryPiece> {
    match mode {
        PromptMode::None => return pieces,
        PromptMode::Replace => pieces.retain(|piece| clients_system_message(piece).is_none()),
        PromptMode::Append => {}
    }
    let leading = pieces.first().and_then(clients_system_message);
    if let Some(message) = leading.and_then(|message| joined(prompt, message)) {
        pieces[0] = HistoryPiece::Client(message);
    } else {
        let message = raw(&json!({ "role": "system", "content": prompt }));
        pieces.insert(0, HistoryPiece::Client(message));
    }
    pieces
}

fn clients_system_message(piece: &HistoryPiece) -> Option<Value> {
    match piece {
        HistoryPiece::Client(message) => system_message(message),
        HistoryPiece::Recorded(_) => None,
    }
}

/// The message if its role is `system` or `developer`.
fn system_message(message: &RawValue) -> Option<Value> {
    #[derive(Deserialize)]
    struct Role<'a> {
        #[serde(borrow)]
        role: std::borrow::Cow<'a, str>,
    }
    let Role { role } = serde_json::from_str(message.get()).ok()?;
    if role != "system" && role != "developer" {
        return None;
    }
    serde_json::from_str(message.get()).ok()
}

/// `message` with `prompt` before its content; `None` if its content is neither text nor list.
fn joined(prompt: &str, mut message: Value) -> Option<Box<RawValue>> {
    match &mut message["content"] {
        Value::String(text) => text.insert_str(0, &format!("{prompt}\n\n")),
        Value::Array(parts) => parts.insert(0, json!({ "type": "text", "text": prompt })),
        _ => return None,
    }
    Some(raw(&message))
}

fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).expect("a JSON value is valid JSON")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::processes::sandbox::{Sandbox, SandboxSettings};
    use crate::processes::{Environment as CommandEnvironment, Runner};
    use crate::tools::builtin;

    #[track_caller]
    fn check(mode: PromptMode, messages: &Value, expected: &Value) {
        let messages: Vec<Box<RawValue>> = serde_json::from_str(&messages.to_string()).unwrap();
        let pieces = messages.into_iter().map(HistoryPiece::Client).collect();
        let applied = apply(mode, "OURS", pieces);
        let shown = |piece: &HistoryPiece| match piece {
            HistoryPiece::Client(raw) => serde_json::from_str(raw.get()).unwrap(),
            HistoryPiece::Recorded(_) => panic!("nothing was recorded"),
        };
        let applied: Vec<Value> = applied.iter().map(shown).collect();
        assert_eq!(&Value::Array(applied), expected);
    }

    #[test]
    fn ours_stands_before_the_clients() {
        check(
            PromptMode::Append,
            &json!([{"role": "system", "content": "Theirs"}, {"role": "user", "content": "x"}]),
            &json!([{"role": "system", "content": "OURS\n\nTheirs"}, {"role": "user", "content": "x"}]),
        );
        check(
            PromptMode::Append,
            &json!([{"role": "developer", "content": [{"type": "text", "text": "Theirs"}]}]),
            &json!([{"role": "developer", "content": [
                {"type": "text", "text": "OURS"}, {"type": "text", "text": "Theirs"}]}]),
        );
        check(
            PromptMode::Append,
            &json!([{"role": "user", "content": "x"}]),
            &json!([{"role": "system", "content": "OURS"}, {"role": "user", "content": "x"}]),
        );
    }

    #[test]
    fn ours_can_stand_alone_or_not_at_all() {
        let messages =
            json!([{"role": "system", "content": "T"}, {"role": "user", "content": "x"}]);
        check(
            PromptMode::Replace,
            &messages,
            &json!([{"role": "system", "content": "OURS"}, {"role": "user", "content": "x"}]),
        );
        check(PromptMode::None, &messages, &messages);
    }

    #[test]
    fn it_speaks_only_of_tools_that_are_offered() {
        let all = every_tool();
        let prompt = |names: &[&str]| {
            let (working_dir, date) = (Path::new("/ws"), "21 Nov 2026");
            render(Environment { working_dir, date, tools: &all.only(names) })
        };
        assert!(prompt(&["Read"]).contains("/ws"));
        assert!(!prompt(&["Read", "Glob", "Grep"]).contains("shell"));
        assert!(!prompt(&["Read"]).contains("before you change"));
        assert!(prompt(&["Read", "Edit"]).contains("before you change"));
        assert!(
            prompt(&["Grep", "Bash"])
                .ends_with("\nPrefer Grep to shell commands for looking at files.")
        );
        insta::assert_snapshot!(advice(&all.without(&["Wait"])).join("\n"), @r"
        Read a file before you change it.
        Prefer Read, Glob and Grep to shell commands for looking at files.
        ");
    }

    fn every_tool() -> Toolset {
        let runner = Runner::new("/proc/self/exe", CommandEnvironment::allowed([]), None);
        Toolset::new(builtin::list(&builtin::Services {
            files: Arc::default(),
            sandbox: Sandbox::new(runner.clone(), SandboxSettings::default()),
            sandbox_escape: false,
            runner,
            bash: builtin::bash::BashSettings::default(),
            settings_files: None,
            definitions: crate::definitions::Definitions::none(),
        }))
    }
}
