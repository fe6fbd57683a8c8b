//! Reads settings from the environment: `TOOLHAND_` and the key's path in capitals.

use toml::Value;

use super::ConfigError;
use super::keys::{Key, Keys, Kind, nearest};
use super::layers::{Setting, Source};
pub(crate) use super::variables::Variables;

const PREFIX: &str = "TOOLHAND_";

/// Short forms, named like the flags.
const SHORT_FORMS: [(&str, &str); 6] = [
    ("TOOLHAND_UPSTREAM", "upstream.url"),
    ("TOOLHAND_WORKSPACE", "server.workspace"),
    ("TOOLHAND_LISTEN", "server.listen"),
    ("TOOLHAND_STATE_DIR", "server.state_dir"),
    ("TOOLHAND_SANDBOX", "sandbox.mode"),
    ("TOOLHAND_PERMISSION_MODE", "permissions.mode"),
];

/// Variables that are no settings: those read elsewhere in `config`, by LiteLLM's
/// configuration, or by the tests.
const OTHERS: [&str; 4] = [
    "TOOLHAND_CONFIG",
    "TOOLHAND_DEMO_BASE",
    super::secrets::CLIENT_KEY,
    super::secrets::UPSTREAM_KEY,
];
const OTHER_PREFIXES: [&str; 2] = [super::own_environment::HANDED_OVER, "TOOLHAND_TEST_"];

/// Kubernetes sets such variables in every pod if a service is named "toolhand".
const SERVICE_LINKS: [&str; 2] = ["TOOLHAND_PORT", "TOOLHAND_SERVICE_"];

/// The settings in `variables`. An unknown name with our prefix is an error.
pub(crate) fn settings(keys: &Keys, variables: &Variables) -> Result<Vec<Setting>, ConfigError> {
    let mut settings: Vec<Setting> = Vec::new();
    for (name, value) in variables.iter() {
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else { continue };
        if is_other(name) || value.is_empty() {
            continue;
        }
        let key = key_of(keys, name).ok_or_else(|| unknown(keys, name))?;
        let bad = |reason: String| ConfigError::BadValue {
            at: Some(Source::Environment(name.to_owned())),
            key: key.path.clone(),
            reason,
        };
        if let Some(twin) = settings.iter().find(|setting| setting.path == key.path) {
            return Err(bad(format!("{} sets it too: keep one of the two", twin.source)));
        }
        let text = value.to_str().ok_or_else(|| bad("the value is not UTF-8".into()))?;
        settings.push(Setting {
            path: key.path.clone(),
            value: parse(key.kind, text).map_err(bad)?,
            source: Source::Environment(name.to_owned()),
        });
    }
    Ok(settings)
}

fn is_other(name: &str) -> bool {
    OTHERS.contains(&name)
        || OTHER_PREFIXES.iter().chain(&SERVICE_LINKS).any(|prefix| name.starts_with(prefix))
}

fn key_of<'k>(keys: &'k Keys, name: &str) -> Option<&'k Key> {
    let short = SHORT_FORMS.into_iter().find(|(short, _)| *short == name).map(|(_, path)| path);
    keys.iter().find(|key| short == Some(key.path.as_str()) || name_of(key) == name)
}

/// `TOOLHAND_TURNS_MAX_ROUNDS` for `turns.max_rounds`.
fn name_of(key: &Key) -> String {
    format!("{PREFIX}{}", key.path.replace('.', "_").to_uppercase())
}

fn unknown(keys: &Keys, name: &str) -> ConfigError {
    let names: Vec<String> = keys.iter().map(name_of).collect();
    let known =
        names.iter().map(String::as_str).chain(SHORT_FORMS.into_iter().map(|(short, _)| short));
    ConfigError::UnknownVariable {
        name: name.to_owned(),
        hint: nearest(name, known.chain(OTHERS)).map(str::to_owned),
    }
}

/// Parses a value in the form that people write in a shell.
fn parse(kind: Kind, text: &str) -> Result<Value, String> {
    let text = text.trim();
    match kind {
        Kind::Text => Ok(Value::String(text.to_owned())),
        Kind::Bool => {
            text.parse().map(Value::Boolean).map_err(|_| format!("{text:?} is not true or false"))
        }
        Kind::Number => {
            let whole = text.parse().map(Value::Integer);
            whole
                .or_else(|_| text.parse().map(Value::Float))
                .map_err(|_| format!("{text:?} is no number"))
        }
        Kind::List if !text.starts_with('[') => Ok(Value::Array(
            text.split(',')
                .map(str::trim)
                .filter(|part| !part.is_empty())
                .map(|part| Value::String(part.to_owned()))
                .collect(),
        )),
        Kind::Any if !text.starts_with(['[', '{']) => Ok(Value::String(text.to_owned())),
        Kind::List | Kind::Open | Kind::Any => {
            text.parse().map_err(|_| "the value is not valid TOML".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Whole {
        upstream: Upstream,
        names: Vec<String>,
        workspaces: BTreeMap<String, String>,
    }

    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Upstream {
        url: String,
        retries: u32,
        tls: bool,
    }

    #[track_caller]
    fn check(variables: &[(&str, &str)], expected: &str) {
        let variables = variables.iter().copied().collect();
        let shown = match settings(&Keys::for_type::<Whole>(), &variables) {
            Ok(settings) => settings
                .iter()
                .map(|setting| format!("{} = {}", setting.path, setting.value))
                .collect::<Vec<_>>()
                .join("; "),
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn the_name_is_the_path_in_capitals_or_the_short_form() {
        check(&[("TOOLHAND_UPSTREAM_URL", "http://x/v1")], r#"upstream.url = "http://x/v1""#);
        check(&[("TOOLHAND_UPSTREAM", "http://x/v1")], r#"upstream.url = "http://x/v1""#);
        check(&[("TOOLHAND_UPSTREAM_RETRIES", "3")], "upstream.retries = 3");
        check(&[("TOOLHAND_UPSTREAM_TLS", "true")], "upstream.tls = true");
    }

    #[test]
    fn lists_are_separated_by_commas_or_written_as_toml() {
        check(&[("TOOLHAND_NAMES", "Read, Bash,")], r#"names = ["Read", "Bash"]"#);
        check(&[("TOOLHAND_NAMES", r#"["a,b"]"#)], r#"names = ["a,b"]"#);
        check(
            &[("TOOLHAND_WORKSPACES", r#"{ docs = "/srv/docs" }"#)],
            r#"workspaces = { docs = "/srv/docs" }"#,
        );
    }

    #[test]
    fn empty_variables_secrets_and_those_of_others_are_no_settings() {
        check(
            &[
                ("TOOLHAND_UPSTREAM_URL", ""),
                ("TOOLHAND_API_KEY", "th-1"),
                ("TOOLHAND_UPSTREAM_API_KEY", "sk-1"),
                ("TOOLHAND_PORT_8787_TCP_ADDR", "10.0.0.1"),
                ("TOOLHAND_SERVICE_HOST", "10.0.0.1"),
                ("TOOLHAND_TEST_PYTHON", "/usr/bin/python3"),
                ("PATH", "/bin"),
            ],
            "",
        );
    }

    #[test]
    fn a_mistake_is_named() {
        check(
            &[("TOOLHAND_UPSTREAM_ULR", "x")],
            "unknown variable TOOLHAND_UPSTREAM_ULR; did you mean TOOLHAND_UPSTREAM_URL?",
        );
        check(
            &[("TOOLHAND_UPSTREAM_RETRIES", "many")],
            "TOOLHAND_UPSTREAM_RETRIES: upstream.retries: \"many\" is no number",
        );
        check(
            &[("TOOLHAND_UPSTREAM", "x"), ("TOOLHAND_UPSTREAM_URL", "y")],
            "TOOLHAND_UPSTREAM_URL: upstream.url: TOOLHAND_UPSTREAM sets it too: keep one of the two",
        );
    }
}
