//! Parses a settings file in the public JSON format. Keeps what has an effect here, and names the
//! rest.

mod key_typos;

use serde::Deserialize;
use serde_json::{Map, Value};

use self::key_typos::{KeyTypo, Level};

/// More rules than anyone writes by hand.
const MAX_RULES: usize = 1000;

/// What a settings file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SettingsContents {
    pub(crate) allow: Vec<WrittenRule>,
    pub(crate) ask: Vec<WrittenRule>,
    pub(crate) deny: Vec<WrittenRule>,
    pub(crate) additional_directories: Vec<String>,
    /// The hooks, in the public format.
    pub(crate) hooks: Option<Value>,
    /// Variables for commands and hooks.
    pub(crate) env: Vec<(String, String)>,
    /// What has no effect, whoever trusts the file.
    pub(crate) without_effect: Vec<WithoutEffect>,
}

/// A rule as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrittenRule {
    pub(crate) text: String,
    /// `None` where the file spells it with escapes.
    pub(crate) line: Option<usize>,
}

/// A key that changes nothing, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WithoutEffect {
    pub(crate) key: String,
    pub(crate) why: &'static str,
}

/// The members that have an effect. `flatten` lets nothing but an object through; a member that
/// is there twice is an error, because one of them would be lost.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Written {
    #[serde(default)]
    permissions: Option<WrittenPermissions>,
    #[serde(default)]
    hooks: Option<Value>,
    #[serde(default)]
    env: Option<Value>,
    #[serde(default, alias = "allowedTools")]
    allowed_tools: Option<Vec<String>>,
    #[serde(default, alias = "disabledTools")]
    disabled_tools: Option<Vec<String>>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
struct WrittenPermissions {
    #[serde(default)]
    allow: Option<Vec<String>>,
    #[serde(default)]
    ask: Option<Vec<String>>,
    #[serde(default)]
    deny: Option<Vec<String>>,
    #[serde(default, alias = "allowed_tools")]
    allowed_tools: Option<Vec<String>>,
    #[serde(default, alias = "disabled_tools")]
    disabled_tools: Option<Vec<String>>,
    #[serde(default)]
    additional_directories: Option<Vec<String>>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl SettingsContents {
    /// The error follows the name of the file, and names the line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        // Some editors write a byte order mark, which is no part of the JSON.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let written: Written = serde_json::from_str(text).map_err(|error| in_line(&error))?;
        let Written { permissions, hooks, env, allowed_tools, disabled_tools, rest } = written;
        key_typos::check(&rest, Level::Top).map_err(|typo| with_line(text, typo))?;
        let mut contents = Self { hooks, ..Self::default() };
        contents.note(&rest, "");
        contents.set_env(env);
        let rules = |lists: [Option<Vec<String>>; 3]| {
            let texts = lists.into_iter().flatten().flatten();
            texts.map(|rule| WrittenRule { line: line_of(text, &rule), text: rule }).collect()
        };
        if let Some(permissions) = permissions {
            let typo = key_typos::check(&permissions.rest, Level::Permissions);
            typo.map_err(|typo| with_line(text, typo))?;
            contents.note(&permissions.rest, "permissions.");
            contents.allow = rules([permissions.allow, permissions.allowed_tools, allowed_tools]);
            contents.ask = rules([permissions.ask, None, None]);
            contents.deny = rules([permissions.deny, permissions.disabled_tools, disabled_tools]);
            contents.additional_directories =
                permissions.additional_directories.unwrap_or_default();
        } else {
            contents.allow = rules([allowed_tools, None, None]);
            contents.deny = rules([disabled_tools, None, None]);
        }
        let count = contents.allow.len() + contents.ask.len() + contents.deny.len();
        if MAX_RULES < count {
            return Err(format!("has {count} rules; {MAX_RULES} are the most"));
        }
        Ok(contents)
    }

    fn note(&mut self, members: &Map<String, Value>, before: &str) {
        let noted = members.keys().filter(|key| *key != "$schema").map(|key| WithoutEffect {
            key: format!("{before}{key}"),
            why: why_without_effect(key),
        });
        self.without_effect.extend(noted);
    }

    /// A variable that no program can be given is no reason to refuse the rules.
    fn set_env(&mut self, env: Option<Value>) {
        let without_effect = |key: String, why| WithoutEffect { key, why };
        let variables = match env {
            None | Some(Value::Null) => return,
            Some(Value::Object(variables)) => variables,
            Some(_) => {
                self.without_effect.push(without_effect("env".into(), "is no object"));
                return;
            }
        };
        for (name, value) in variables {
            let is_name = !name.is_empty() && !name.contains(['=', '\0']);
            match value {
                Value::String(value) if is_name && !value.contains('\0') => {
                    self.env.push((name, value));
                }
                _ => self.without_effect.push(without_effect(
                    format!("env.{name}"),
                    "is no text that a program can be given",
                )),
            }
        }
    }
}

/// Why a key of the public format, or any other, changes nothing here.
fn why_without_effect(key: &str) -> &'static str {
    match key {
        "defaultMode" | "disableBypassPermissionsMode" => {
            "the mode is the operator's configuration's alone"
        }
        "apiKeyHelper" | "awsAuthRefresh" | "awsCredentialExport" | "otelHeadersHelper" => {
            "no program of a settings file is asked for a key"
        }
        "model" | "availableModels" | "forceLoginMethod" => {
            "the model is the request's, and upstream the operator's configuration's"
        }
        "sandbox" => "the sandbox is the operator's configuration's alone",
        "enableAllProjectMcpServers"
        | "enabledMcpjsonServers"
        | "disabledMcpjsonServers"
        | "mcpServers" => "MCP servers are those of the configuration and of a trusted .mcp.json",
        _ => "is not read here",
    }
}

fn in_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let reason = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
    format!("line {}: {reason}", error.line().max(1))
}

fn with_line(text: &str, typo: KeyTypo) -> String {
    let KeyTypo { key, reason } = typo;
    line_of(text, &key).map_or_else(|| reason.clone(), |line| format!("line {line}: {reason}"))
}

/// The line in which the text stands as a string, if it needs no unusual escapes.
fn line_of(text: &str, rule: &str) -> Option<usize> {
    let at = text.find(&Value::from(rule).to_string())?;
    Some(text[..at].matches('\n').count() + 1)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn texts(rules: &[WrittenRule]) -> Vec<&str> {
        rules.iter().map(|rule| rule.text.as_str()).collect()
    }

    fn error(text: &str) -> String {
        SettingsContents::parse(text).unwrap_err()
    }

    #[test]
    fn rules_are_kept_with_their_lines() {
        let contents = SettingsContents::parse(
            r#"{
              "permissions": {
                "allow": ["Read(src/**)",
                          "Write(\u0061)"],
                "ask": ["Edit"], "deny": ["Bash"],
                "disabled_tools": ["Grep"],
                "additionalDirectories": ["../docs"]
              },
              "allowedTools": ["Glob"]
            }"#,
        )
        .unwrap();
        assert_eq!(texts(&contents.allow), ["Read(src/**)", "Write(a)", "Glob"]);
        assert_eq!(
            (texts(&contents.ask), texts(&contents.deny)),
            (vec!["Edit"], vec!["Bash", "Grep"])
        );
        assert_eq!((contents.allow[0].line, contents.allow[1].line), (Some(3), None));
        assert_eq!(contents.deny[0].line, Some(5));
        assert_eq!(contents.additional_directories, ["../docs"]);
    }

    #[test]
    fn g1_what_could_steer_the_server_has_no_effect_and_is_named() {
        let contents = SettingsContents::parse(
            r#"{ "$schema": "https://example.com/s.json", "apiKeyHelper": "evil", "model": "x",
                 "env": { "A": "1", "B": 2, "C=D": "3", "E": "\u0000" },
                 "permissions": { "defaultMode": "bypassPermissions" }, "hooks": {} }"#,
        )
        .unwrap();
        let noted: Vec<_> = contents.without_effect.iter().map(|it| it.key.as_str()).collect();
        let expected =
            ["apiKeyHelper", "model", "env.B", "env.C=D", "env.E", "permissions.defaultMode"];
        assert_eq!(noted, expected);
        assert_eq!(contents.env, [("A".to_owned(), "1".to_owned())]);
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_text() {
        let contents = SettingsContents::parse("\u{feff}{\"permissions\": {\"deny\": [\"Bash\"]}}");
        assert_eq!(texts(&contents.unwrap().deny), ["Bash"]);
    }

    #[test]
    fn a_file_that_holds_no_rules_says_so_with_its_line() {
        assert_snapshot!(error(""), @"line 1: EOF while parsing a value");
        assert_snapshot!(error("[]"), @"line 1: invalid type: sequence, expected an object");
        assert_snapshot!(error("{\n\"permissions\": {\"deny\": \"Read\"}}"), @r#"line 2: invalid type: string "Read", expected a sequence"#);
        assert_snapshot!(error("{\"permissions\": []}"), @"line 1: invalid type: sequence, expected an object");
        assert_snapshot!(error("{\"permissions\": {\"deny\": [1]}}"), @"line 1: invalid type: integer `1`, expected a string");
        assert_snapshot!(error("{\"permissions\": {\"deny\": [\"Read\"],\n\"deny\": []}}"), @"line 2: duplicate field `deny`");
        assert_snapshot!(error("{\"permissions\": {}, \"permissions\": {}}"), @"line 1: duplicate field `permissions`");
        assert_snapshot!(error("{\"permissions\": {},\n\"permission\": {}}"), @r#"line 2: unknown key "permission"; did you mean "permissions"?"#);
        assert_snapshot!(error("{\"permissions\": {\n\"denied\": []}}"), @r#"line 2: unknown key "denied" in permissions; did you mean "deny"?"#);
        assert_snapshot!(error("{\"deny\": [\"Bash\"]}"), @r#"line 1: move "deny" into "permissions""#);
        assert_snapshot!(error("// rules\n{}"), @"line 1: expected value");
        assert_snapshot!(error("{\"a\": \"\\ud800\"}"), @"line 1: unexpected end of hex escape");
        assert!(error(&format!("{{\"a\": {}", "[".repeat(100_000))).contains("recursion limit"));
        let many = vec!["Read"; MAX_RULES + 1];
        let text = serde_json::json!({ "permissions": { "ask": many } }).to_string();
        assert_eq!(error(&text), "has 1001 rules; 1000 are the most");
    }
}
