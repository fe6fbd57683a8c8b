//! Reads `[[hooks]]`: which program runs at which event.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::event::HookEvent;
use super::matcher::HookMatcher;

/// How long a hook may run if nothing else is said.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

/// A hook that takes longer is a slip: the turn waits for it.
pub(super) const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// One hook.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "WrittenHook")]
pub(crate) struct HookSetting {
    pub(crate) event: HookEvent,
    pub(crate) matcher: HookMatcher,
    /// A line for bash, or with `args` a program.
    pub(crate) command: String,
    pub(crate) args: Option<Vec<String>>,
    pub(crate) timeout: Duration,
    pub(crate) on_error: OnError,
    /// Whether it runs in the sandbox. The hooks of a workspace always do.
    pub(crate) sandbox: bool,
    pub(crate) source: HookSource,
}

/// One hook as it is written in TOML.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenHook {
    event: HookEvent,
    #[serde(default)]
    matcher: HookMatcher,
    command: WrittenCommand,
    args: Option<Vec<String>>,
    #[serde(default = "default_timeout", deserialize_with = "timeout")]
    timeout: Duration,
    #[serde(default)]
    on_error: OnError,
    #[serde(default)]
    sandbox: bool,
}

/// A text, or a program with its arguments as a list.
#[derive(Deserialize)]
#[serde(untagged, expecting = "write a text, or a list of texts")]
enum TextOrList {
    Text(String),
    List(Vec<String>),
}

/// The text, or the first of the list with the others behind it.
#[derive(Deserialize)]
#[serde(try_from = "TextOrList")]
struct WrittenCommand {
    command: String,
    args: Option<Vec<String>>,
}

impl TryFrom<TextOrList> for WrittenCommand {
    type Error = String;

    fn try_from(written: TextOrList) -> Result<Self, String> {
        let (command, args) = match written {
            TextOrList::Text(command) => (command, None),
            TextOrList::List(words) => {
                let mut words = words.into_iter();
                (words.next().unwrap_or_default(), Some(words.collect()))
            }
        };
        Ok(Self { command: checked_command(command)?, args })
    }
}

impl TryFrom<WrittenHook> for HookSetting {
    type Error = String;

    fn try_from(written: WrittenHook) -> Result<Self, String> {
        let WrittenHook { event, matcher, command, args, timeout, on_error, sandbox } = written;
        let WrittenCommand { command, args: listed } = command;
        if listed.is_some() && args.is_some() {
            return Err("args: leave it out, because command is already a list with its arguments"
                .to_owned());
        }
        let args = args.or(listed);
        if args.iter().flatten().any(|argument| argument.contains('\0')) {
            return Err("args: a program cannot be given a NUL character".to_owned());
        }
        let source = HookSource::default();
        Ok(Self { event, matcher, command, args, timeout, on_error, sandbox, source })
    }
}

/// How a hook counts that fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnError {
    /// A hook that decides on a call and could not do its work asks a person. Any other hook says
    /// nothing, as the public protocol has it.
    #[default]
    #[serde(skip)]
    Ask,
    /// Counts as a hook that says nothing.
    Pass,
    /// Counts as a hook that denies.
    Deny,
}

/// Who has set up a hook. The place is shown in the log and by `toolhand check`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum HookSource {
    /// The operator's configuration.
    #[default]
    Operator,
    /// Settings of the server's user.
    User(PathBuf),
    /// Settings of a workspace that the operator trusts. What they start stays in the sandbox.
    Workspace(PathBuf),
}

impl HookSource {
    pub(super) fn is_workspaces(&self) -> bool {
        matches!(self, Self::Workspace(_))
    }
}

impl HookSetting {
    /// Whether it must run in the sandbox.
    pub(crate) fn is_confined(&self) -> bool {
        self.sandbox || self.source.is_workspaces()
    }

    /// Names in the matcher that no tool has.
    pub(super) fn unknown_tools(&self, tools: &[&str]) -> impl Iterator<Item = &str> {
        let names = if self.event.matches_tools() { self.matcher.names() } else { &[] };
        let is_unknown = |name: &&str| !tools.contains(name) && !name.starts_with("mcp__");
        names.iter().map(String::as_str).filter(is_unknown)
    }

    /// What of the setting has no effect.
    pub(crate) fn without_effect(&self) -> Vec<String> {
        let event = self.event;
        let matcher = (!event.has_matcher() && !self.matcher.is_all())
            .then(|| format!("{event} has nothing for a matcher to match"));
        let on_error = (self.on_error == OnError::Deny && !event.is_gate())
            .then(|| format!("on_error: at {event} nothing can be denied"));
        matcher.into_iter().chain(on_error).collect()
    }
}

impl fmt::Display for HookSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operator => f.write_str("configuration"),
            Self::User(path) | Self::Workspace(path) => write!(f, "{}", path.display()),
        }
    }
}

/// The event and the matcher, for people.
impl fmt::Display for HookSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.event, self.matcher.text())
    }
}

/// Reads one that can be run.
pub(super) fn checked_command(command: String) -> Result<String, String> {
    if command.trim().is_empty() {
        return Err("is empty: write the line for bash that the hook runs".to_owned());
    }
    if command.contains('\0') {
        return Err("holds a NUL character; a program cannot be given one".to_owned());
    }
    Ok(command)
}

pub(super) fn checked_timeout(time: Duration) -> Result<Duration, String> {
    if time.is_zero() {
        return Err("0 would end every hook at once".to_owned());
    }
    if MAX_TIMEOUT < time {
        return Err("is more than a day; the turn waits for the hook".to_owned());
    }
    Ok(time)
}

fn default_timeout() -> Duration {
    TIMEOUT
}

fn timeout<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let time = crate::units::duration::deserialize(from)?;
    checked_timeout(time).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<HookSetting, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| error.message().to_owned())
    }

    #[test]
    fn an_event_and_a_command_are_enough() {
        let hook = read("event = \"PreToolUse\"\ncommand = \"true\"").unwrap();

        assert_eq!(hook.timeout, Duration::from_secs(60));
        assert_eq!(hook.on_error, OnError::Ask);
        assert_eq!(hook.to_string(), "PreToolUse *");
        assert!(!hook.is_confined() && hook.matcher.is_all() && hook.args.is_none());
    }

    #[test]
    fn a_list_is_a_program_with_its_arguments() {
        let hook = read("event = \"Stop\"\ncommand = [\"/bin/check\", \"-v\", \"a b\"]").unwrap();
        assert_eq!(hook.command, "/bin/check");
        assert_eq!(hook.args, Some(vec!["-v".to_owned(), "a b".to_owned()]));
        let alone = read("event = \"Stop\"\ncommand = [\"/bin/check\"]").unwrap();
        assert_eq!(alone.args, Some(Vec::new()));
    }

    #[test]
    fn a_name_that_no_tool_has_is_told() {
        let unknown = |event: &str, matcher: &str| {
            let text = format!("event = {event:?}\ncommand = \"a\"\nmatcher = {matcher:?}");
            let hook = read(&text).unwrap();
            hook.unknown_tools(&["Bash", "shell", "Edit"]).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(unknown("PreToolUse", "Bash|Bsh, edit,mcp__x__y"), "Bsh edit");
        assert_eq!(unknown("PreToolUse", "B.h"), "");
        assert_eq!(unknown("SubagentStop", "Explore"), "");
    }

    #[test]
    fn the_hooks_of_a_workspace_are_always_confined() {
        let hook = read("event = \"PreToolUse\"\ncommand = \"true\"").unwrap();
        let of = |source| HookSetting { source, ..hook.clone() };

        assert!(of(HookSource::Workspace("/w".into())).is_confined());
        assert!(!of(HookSource::User("/u".into())).is_confined());
    }

    #[test]
    fn what_cannot_be_followed_is_an_error() {
        let error = |rest: &str| {
            let text = format!("event = \"PreToolUse\"\n{rest}");
            read(&text).unwrap_err()
        };
        assert!(error("command = \" \"").contains("is empty"));
        assert!(error("command = \"a\\u0000\"").contains("NUL"));
        assert!(error("command = \"a\"\ntimeout = \"0\"").contains("end every hook at once"));
        assert!(error("command = \"a\"\ntimeout = \"25h\"").contains("more than a day"));
        assert!(error("command = \"a\"\nmatcher = \"(\"").contains("does not compile"));
        assert!(error("command = \"a\"\non_error = \"ask\"").contains("ask"));
        assert!(error("command = []").contains("is empty"));
        assert!(error("command = 5").contains("a list of texts"));
        assert!(error("command = [\"a\"]\nargs = []").contains("leave it out"));
        assert!(error("command = \"a\"\nargs = [\"\\u0000\"]").contains("NUL"));
        assert!(error("command = \"a\"\nmatcher = \"Edit Write\"").contains("is no tool's name"));
        assert!(error("").contains("command"));
        let unknown = read("event = \"PreToolUsed\"\ncommand = \"a\"").unwrap_err();
        assert!(unknown.contains("unknown variant `PreToolUsed`"), "{unknown}");
    }

    #[test]
    fn what_has_no_effect_is_named() {
        let without = |text: &str| read(text).unwrap().without_effect();

        assert_eq!(
            without("event = \"Stop\"\ncommand = \"a\"\nmatcher = \"x\"\non_error = \"deny\""),
            ["Stop has nothing for a matcher to match", "on_error: at Stop nothing can be denied"]
        );
        for event in ["PreToolUse", "SessionEnd"] {
            let hook = format!("event = {event:?}\ncommand = \"a\"\nmatcher = \"x\"");
            assert!(without(&hook).is_empty(), "{event}");
        }
    }
}
