//! Reads the settings of `[lsp]`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LspSettings {
    pub(crate) enabled: Enabled,
    /// The operator's own servers, by name.
    pub(crate) servers: BTreeMap<String, ServerSettings>,
    /// How long a server stays that nobody asks.
    #[serde(with = "crate::units::duration")]
    pub(crate) idle: Duration,
    /// How long it may take to initialize.
    #[serde(with = "crate::units::duration")]
    pub(crate) start_timeout: Duration,
    /// How long it may take to answer.
    #[serde(with = "crate::units::duration")]
    pub(crate) timeout: Duration,
    /// How long Edit and Write wait for the errors of the file; 0: they tell none.
    #[serde(with = "crate::units::duration")]
    pub(crate) diagnostics: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Enabled {
    /// Where a server is there and may start.
    #[default]
    Auto,
    Off,
}

/// `[lsp.servers.NAME]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerSettings {
    pub(crate) command: String,
    #[serde(default)]
    pub(crate) args: Vec<String>,
    /// The languages by the extensions of their files: `".py" = "python"`.
    pub(crate) extensions: BTreeMap<String, String>,
    /// Names of files that make a directory a project.
    #[serde(default)]
    pub(crate) roots: Vec<String>,
    /// What the server is answered that asks for its configuration.
    #[serde(default = "no_settings")]
    pub(crate) settings: Value,
}

impl Default for LspSettings {
    fn default() -> Self {
        Self {
            enabled: Enabled::default(),
            servers: BTreeMap::new(),
            idle: Duration::from_secs(15 * 60),
            start_timeout: Duration::from_secs(30),
            timeout: Duration::from_secs(30),
            diagnostics: Duration::from_secs(2),
        }
    }
}

impl LspSettings {
    pub(crate) fn is_off(&self) -> bool {
        self.enabled == Enabled::Off
    }

    /// The key that cannot be followed, and why.
    pub(crate) fn fault(&self) -> Option<(String, String)> {
        let times = [
            ("lsp.idle", self.idle),
            ("lsp.start_timeout", self.start_timeout),
            ("lsp.timeout", self.timeout),
        ];
        if let Some((key, _)) = times.into_iter().find(|(_, time)| time.is_zero()) {
            return Some((key.to_owned(), "0 would leave no time for an answer".to_owned()));
        }
        self.servers.iter().find_map(|(name, server)| {
            let (key, reason) = server.fault()?;
            Some((format!("lsp.servers.{name}.{key}"), reason))
        })
    }
}

impl ServerSettings {
    fn fault(&self) -> Option<(&'static str, String)> {
        if !is_program(&self.command) {
            let reason = "is the name of a program on PATH, or an absolute path".to_owned();
            return Some(("command", reason));
        }
        if self.extensions.is_empty() {
            return Some(("extensions", "names no files: write { \".py\" = \"python\" }".into()));
        }
        let is_extension = |name: &str| {
            name.strip_prefix('.').is_some_and(|rest| !rest.is_empty() && !rest.contains('/'))
        };
        if let Some(other) = self.extensions.keys().find(|name| !is_extension(name)) {
            return Some(("extensions", format!("{other:?} is no extension: write \".py\"")));
        }
        if let Some(other) = self.roots.iter().find(|name| name.is_empty() || name.contains('/')) {
            return Some(("roots", format!("{other:?} is not the name of a file")));
        }
        (!self.settings.is_object()).then(|| ("settings", "is a table".to_owned()))
    }
}

/// A relative path would lead into whatever directory the server was started in.
fn is_program(command: &str) -> bool {
    Path::new(command).is_absolute() || (!command.is_empty() && !command.contains('/'))
}

fn no_settings() -> Value {
    Value::Object(serde_json::Map::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        let settings: Result<LspSettings, _> = toml::from_str(text);
        match settings {
            Ok(settings) => match settings.fault() {
                Some((key, reason)) => format!("{key}: {reason}"),
                None => "none".to_owned(),
            },
            Err(error) => error.message().to_owned(),
        }
    }

    #[test]
    fn a_server_has_a_program_and_extensions() {
        let python = "command = \"x\"\nextensions = { \".py\" = \"python\" }\n";
        let with = |more: &str| fault(&format!("[servers.own]\n{python}{more}"));
        assert_eq!(with("settings.python.analysis.mode = \"strict\""), "none");
        assert_eq!(with("roots = [\"a.toml\"]\nargs = [\"--stdio\"]"), "none");
        assert!(with("roots = [\"a/b\"]").starts_with("lsp.servers.own.roots: \"a/b\""));
        assert_eq!(with("settings = 3"), "lsp.servers.own.settings: is a table");
        assert!(with("cwd = \"/\"").contains("unknown field"));
        let other = |text: &str| fault(&format!("[servers.own]\n{text}"));
        let command = "lsp.servers.own.command";
        for bad in ["./x", "node_modules/.bin/x", ""] {
            let said = other(&format!("command = \"{bad}\"\nextensions = {{ \".a\" = \"a\" }}"));
            assert!(said.starts_with(command), "{said}");
        }
        assert!(other("command = \"x\"\nextensions = {}").contains("names no files"));
        assert!(other("command = \"x\"\nextensions = { py = \"p\" }").contains("no extension"));
        assert!(fault("timeout = \"0s\"").starts_with("lsp.timeout"));
        assert_eq!(fault("diagnostics = \"0s\""), "none");
    }
}
