//! Reads hooks in the public protocol's JSON, as settings files have it. Pure.
//!
//! `{Event: [{matcher, hooks: [{type, command, args, timeout}]}]}`, or the flat list
//! `[{event, command, timeout_sec, tool_matcher}]`. An error begins with the place of the fault.

use std::time::Duration;

use serde_json::{Map, Value};

use super::event::{FOREIGN_EVENTS, HookEvent};
use super::matcher::HookMatcher;
use super::settings::{
    HookSetting, HookSource, OnError, TIMEOUT, checked_command, checked_timeout,
};

/// Types of the public protocol that this server does not run.
const FOREIGN_TYPES: [&str; 4] = ["prompt", "agent", "http", "mcp_tool"];

/// Hooks that were read, and what of the text has no effect.
#[derive(Debug, Default)]
pub(crate) struct ReadHooks {
    pub(crate) settings: Vec<HookSetting>,
    /// Each with its place.
    pub(crate) without_effect: Vec<String>,
}

impl ReadHooks {
    /// `hooks` is the value of the member `hooks` of a settings file.
    pub(crate) fn from_json(hooks: &Value, source: &HookSource) -> Result<Self, String> {
        let mut read = Self::default();
        match hooks {
            Value::Object(events) => {
                for (event, groups) in events {
                    read.event(event, groups, source)?;
                }
            }
            Value::Array(flat) => {
                for (index, hook) in flat.iter().enumerate() {
                    read.flat(&format!("hooks[{index}]"), hook, source)?;
                }
            }
            _ => return Err("hooks: is neither an object of events nor a list".to_owned()),
        }
        Ok(read)
    }

    fn event(&mut self, name: &str, groups: &Value, source: &HookSource) -> Result<(), String> {
        let place = format!("hooks.{name}");
        let Some(event) = self.known_event(&place, name)? else { return Ok(()) };
        for (index, group) in list(&place, groups)?.iter().enumerate() {
            let place = format!("{place}[{index}]");
            let group = object(&place, group)?;
            self.unknown(&place, group, &["matcher", "hooks"]);
            let matcher = matcher(&place, group.get("matcher"))?;
            let hooks = group.get("hooks").ok_or_else(|| format!("{place}.hooks: is missing"))?;
            for (index, hook) in list(&format!("{place}.hooks"), hooks)?.iter().enumerate() {
                self.hook(&format!("{place}.hooks[{index}]"), event, &matcher, hook, source)?;
            }
        }
        Ok(())
    }

    /// `None` for an event whose part does not exist here.
    fn known_event(&mut self, place: &str, name: &str) -> Result<Option<HookEvent>, String> {
        if FOREIGN_EVENTS.contains(&name) {
            self.without_effect.push(format!("{place}: this server has no such event"));
            return Ok(None);
        }
        let unknown = || format!("{place}: no event is named {name:?}");
        HookEvent::named(name).map(Some).ok_or_else(unknown)
    }

    fn hook(
        &mut self,
        place: &str,
        event: HookEvent,
        matcher: &HookMatcher,
        hook: &Value,
        source: &HookSource,
    ) -> Result<(), String> {
        let hook = object(place, hook)?;
        match text(place, hook, "type")?.unwrap_or("command") {
            "command" => {}
            // What was to deny something must not fail open.
            kind if event.is_gate() => {
                return Err(format!("{place}.type: {event} takes commands only, not {kind:?}"));
            }
            kind if FOREIGN_TYPES.contains(&kind) => {
                self.without_effect.push(format!("{place}: this server runs no {kind:?}"));
                return Ok(());
            }
            kind => return Err(format!("{place}.type: no hook is of the type {kind:?}")),
        }
        self.unknown(place, hook, &["type", "command", "args", "timeout"]);
        let command = text(place, hook, "command")?;
        let command = command.ok_or_else(|| format!("{place}.command: is missing"))?;
        let args = hook.get("args").filter(|args| !args.is_null());
        let args = args.map(|args| texts(&format!("{place}.args"), args)).transpose()?;
        let program = (command.to_owned(), args);
        let timeout = timeout(place, hook, "timeout")?;
        self.add(place, event, matcher.clone(), program, timeout, source)
    }

    fn flat(&mut self, place: &str, hook: &Value, source: &HookSource) -> Result<(), String> {
        let hook = object(place, hook)?;
        self.unknown(place, hook, &["event", "command", "timeout_sec", "tool_matcher"]);
        let name = text(place, hook, "event")?;
        let name = name.ok_or_else(|| format!("{place}.event: is missing"))?;
        let Some(event) = self.known_event(&format!("{place}.event"), name)? else {
            return Ok(());
        };
        let matcher = matcher(place, hook.get("tool_matcher"))?;
        let command = hook.get("command").filter(|command| !command.is_null());
        let command = command.ok_or_else(|| format!("{place}.command: is missing"))?;
        let program = if command.is_array() {
            let mut words = texts(&format!("{place}.command"), command)?.into_iter();
            (words.next().unwrap_or_default(), Some(words.collect()))
        } else {
            (text(place, hook, "command")?.unwrap_or_default().to_owned(), None)
        };
        let timeout = timeout(place, hook, "timeout_sec")?;
        self.add(place, event, matcher, program, timeout, source)
    }

    fn add(
        &mut self,
        place: &str,
        event: HookEvent,
        matcher: HookMatcher,
        (command, args): (String, Option<Vec<String>>),
        timeout: Duration,
        source: &HookSource,
    ) -> Result<(), String> {
        let command = checked_command(command).map_err(|why| format!("{place}.command: {why}"))?;
        if args.iter().flatten().any(|argument| argument.contains('\0')) {
            return Err(format!("{place}.args: holds a NUL character"));
        }
        let source = source.clone();
        let setting = HookSetting {
            event,
            matcher,
            command,
            args,
            timeout,
            on_error: OnError::default(),
            sandbox: false,
            source,
        };
        let without = setting.without_effect().into_iter().map(|why| format!("{place}: {why}"));
        self.without_effect.extend(without);
        self.settings.push(setting);
        Ok(())
    }

    fn unknown(&mut self, place: &str, members: &Map<String, Value>, known: &[&str]) {
        let unknown = members.keys().filter(|name| !known.contains(&name.as_str()));
        self.without_effect.extend(unknown.map(|name| format!("{place}.{name}: is not used")));
    }
}

fn object<'v>(place: &str, value: &'v Value) -> Result<&'v Map<String, Value>, String> {
    value.as_object().ok_or_else(|| format!("{place}: is not an object"))
}

fn list<'v>(place: &str, value: &'v Value) -> Result<&'v [Value], String> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| format!("{place}: is not a list"))
}

fn text<'v>(
    place: &str,
    members: &'v Map<String, Value>,
    name: &str,
) -> Result<Option<&'v str>, String> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            value.as_str().map(Some).ok_or_else(|| format!("{place}.{name}: is not a text"))
        }
    }
}

fn texts(place: &str, value: &Value) -> Result<Vec<String>, String> {
    let words = list(place, value)?.iter().map(|word| word.as_str().map(str::to_owned));
    words.collect::<Option<_>>().ok_or_else(|| format!("{place}: is not a list of texts"))
}

fn matcher(place: &str, value: Option<&Value>) -> Result<HookMatcher, String> {
    let text = match value {
        None | Some(Value::Null) => "",
        Some(value) => value.as_str().ok_or_else(|| format!("{place}.matcher: is not a text"))?,
    };
    HookMatcher::try_from(text.to_owned()).map_err(|why| format!("{place}.matcher: {why}"))
}

/// Seconds, which may have a fraction.
fn timeout(place: &str, members: &Map<String, Value>, name: &str) -> Result<Duration, String> {
    let seconds = match members.get(name) {
        None | Some(Value::Null) => return Ok(TIMEOUT),
        Some(value) => {
            value.as_f64().ok_or_else(|| format!("{place}.{name}: is not a number of seconds"))?
        }
    };
    let time = Duration::try_from_secs_f64(seconds)
        .map_err(|_| format!("{place}.{name}: {seconds} is not a number of seconds"))?;
    checked_timeout(time).map_err(|why| format!("{place}.{name}: {why}"))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(hooks: &Value) -> Result<ReadHooks, String> {
        ReadHooks::from_json(hooks, &HookSource::User("/home/me/.claude/settings.json".into()))
    }

    /// One line for each hook, then what has no effect.
    fn shown(hooks: &Value) -> String {
        let read = match read(hooks) {
            Ok(read) => read,
            Err(error) => return error,
        };
        let hooks = read.settings.iter().map(|hook| {
            let HookSetting { command, args, timeout, .. } = hook;
            format!("{hook}: {command} {args:?} {timeout:?}")
        });
        hooks.chain(read.without_effect).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn reads_the_protocol_by_event() {
        let hooks = json!({
            "PreToolUse": [
                {"matcher": "Bash|Edit", "hooks": [
                    {"type": "command", "command": "check.sh", "timeout": 1.5},
                    {"type": "command", "command": "/bin/check", "args": ["-v", "a b"]},
                ]},
                {"hooks": [{"command": "all.sh"}]},
            ],
            "Stop": [{"matcher": "", "hooks": []}],
        });
        assert_snapshot!(shown(&hooks), @r#"
        PreToolUse Bash|Edit: check.sh None 1.5s
        PreToolUse Bash|Edit: /bin/check Some(["-v", "a b"]) 60s
        PreToolUse *: all.sh None 60s
        "#);
    }

    #[test]
    fn reads_the_flat_list() {
        let hooks = json!([
            {"event": "PreToolUse", "command": "a.sh", "timeout_sec": 5, "tool_matcher": "shell"},
            {"event": "Stop", "command": ["/bin/b", "-x"]},
        ]);
        assert_snapshot!(shown(&hooks), @r#"
        PreToolUse shell: a.sh None 5s
        Stop *: /bin/b Some(["-x"]) 60s
        "#);
    }

    #[test]
    fn what_has_no_effect_is_listed() {
        let hooks = json!({
            "PreCompact": [{"hooks": [{"type": "command", "command": "a"}]}],
            "SubagentStop": [{"hooks": [{"type": "command", "command": "a"}]}],
            "Stop": [{"matcher": "x", "hooks": [
                {"type": "prompt", "prompt": "is it done?"},
                {"type": "command", "command": "a", "async": true, "statusMessage": "…"},
            ]}],
        });
        assert_snapshot!(shown(&hooks), @"
        SubagentStop *: a None 60s
        Stop x: a None 60s
        hooks.PreCompact: this server has no such event
        hooks.Stop[0].hooks[0]: this server runs no \"prompt\"
        hooks.Stop[0].hooks[1].async: is not used
        hooks.Stop[0].hooks[1].statusMessage: is not used
        hooks.Stop[0].hooks[1]: Stop has nothing for a matcher to match
        ");
    }

    #[test]
    fn a_hook_that_could_not_deny_is_an_error() {
        let prompt = json!({"PreToolUse": [{"hooks": [{"type": "prompt", "prompt": "safe?"}]}]});
        assert_eq!(
            shown(&prompt),
            "hooks.PreToolUse[0].hooks[0].type: PreToolUse takes commands only, not \"prompt\""
        );
        let pattern = json!({"PreToolUse": [{"matcher": "(", "hooks": []}]});
        assert!(shown(&pattern).starts_with("hooks.PreToolUse[0].matcher: the matcher \"(\""));
        let event = json!({"PreToolUsed": []});
        assert_eq!(shown(&event), "hooks.PreToolUsed: no event is named \"PreToolUsed\"");
    }

    #[test]
    fn every_fault_names_its_place() {
        let hook = |hook: Value| shown(&json!({"PreToolUse": [{"hooks": [hook]}]}));
        let at = "hooks.PreToolUse[0].hooks[0]";
        assert_eq!(hook(json!({})), format!("{at}.command: is missing"));
        assert_eq!(hook(json!({"command": 5})), format!("{at}.command: is not a text"));
        assert!(hook(json!({"command": ""})).starts_with(&format!("{at}.command: is empty")));
        let nul = hook(json!({"command": "a", "args": ["\0"]}));
        assert_eq!(nul, format!("{at}.args: holds a NUL character"));
        for (time, why) in [
            (json!("5s"), "is not a number of seconds"),
            (json!(-1), "-1 is not a number of seconds"),
            (json!(1e300), "is not a number of seconds"),
            (json!(0), "0 would end every hook at once"),
        ] {
            let error = hook(json!({"command": "a", "timeout": time}));
            assert!(
                error.starts_with(&format!("{at}.timeout: ")) && error.ends_with(why),
                "{error}"
            );
        }
        assert_eq!(shown(&json!(5)), "hooks: is neither an object of events nor a list");
        assert_eq!(shown(&json!({"Stop": {}})), "hooks.Stop: is not a list");
        assert_eq!(shown(&json!({"Stop": [[]]})), "hooks.Stop[0]: is not an object");
        assert_eq!(shown(&json!([{"event": "Stop"}])), "hooks[0].command: is missing");
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let word = prop::sample::select(vec![
            "PreToolUse",
            "Stop",
            "hooks",
            "matcher",
            "command",
            "type",
            "timeout",
            "args",
            "event",
            "(",
            "a",
        ]);
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<f64>().prop_map(|number| json!(number)),
            word.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 64, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(word.clone().prop_map(str::to_owned), inner, 0..4)
                    .prop_map(|members| json!(members)),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_json_makes_it_panic(hooks in any_json()) {
            drop(read(&hooks));
        }
    }
}
