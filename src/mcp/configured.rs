//! Reads `[mcp]` of the configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::header::HeaderName;
use serde::Deserialize;
use url::Url;

use super::names::{SERVER_NAME_RULE, is_server_name};
use super::settings::{
    MarkedTools, McpCommand, McpScope, McpServerSettings, McpSettings, McpTransport, PinPolicy,
};
use crate::secret::Secret;
use crate::units;

/// Ends of words that a variable's name has when its value is a key.
const KEY_WORDS: [&str; 9] = [
    "KEY",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "AUTH",
    "AUTHORIZATION",
    "CREDENTIAL",
];

/// `[mcp]` as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct McpSection {
    pub(crate) pin: PinPolicy,
    #[serde(with = "units::duration")]
    pub(crate) first_turn_wait: Duration,
    #[serde(with = "units::durations")]
    pub(crate) backoff: Vec<Duration>,
    pub(crate) servers: BTreeMap<String, ServerSection>,
}

impl Default for McpSection {
    fn default() -> Self {
        let McpSettings { pin, first_turn_wait, backoff, .. } = McpSettings::default();
        Self { pin, first_turn_wait, backoff, servers: BTreeMap::new() }
    }
}

/// `[mcp.servers.NAME]` as it is written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ServerSection {
    command: Option<PathBuf>,
    args: Vec<String>,
    env: BTreeMap<String, Written>,
    cwd: Option<PathBuf>,
    network: Option<bool>,
    url: Option<String>,
    headers: BTreeMap<String, Written>,
    enabled: Option<bool>,
    scope: McpScope,
    instructions: bool,
    tools: Option<Vec<String>>,
    disable: Vec<String>,
    read_only: Option<Marked>,
    shared: Option<Marked>,
    start_timeout: Option<Written>,
    timeout: Option<Written>,
    max_time: Option<Written>,
}

/// `true`, or tools by their own names.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Marked {
    All(bool),
    Named(Vec<String>),
}

/// A text that may be, or may name, a key.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
struct Written(String);

impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Where the values of `${env:…}` and `${file:…}` come from.
pub(crate) trait ValueSource {
    fn variable(&self, name: &str) -> Option<String>;
    /// A file that only we may read. The error names it.
    fn file(&self, path: &str) -> Result<Secret, String>;
}

impl McpSection {
    /// The paths of the section. A command without a slash is a name that is looked for on PATH.
    pub(crate) fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let is_path = |command: &&mut PathBuf| 1 < command.components().count();
        self.servers.values_mut().flat_map(move |server| {
            server.command.iter_mut().filter(is_path).chain(&mut server.cwd)
        })
    }

    /// What is wrong with a key: its path, and the reason.
    pub(crate) fn fault(&self) -> Option<(String, String)> {
        self.servers.iter().find_map(|(name, server)| {
            let key = format!("mcp.servers.{name}");
            let reason = server_fault(name, server)?;
            Some((key, reason))
        })
    }

    /// Resolves the values of keys. A server that misses one is off.
    pub(crate) fn resolve(&self, source: &dyn ValueSource) -> McpSettings {
        let servers = self.servers.iter();
        let servers = servers.map(|(name, server)| server.resolve(name, source)).collect();
        let Self { pin, first_turn_wait, .. } = *self;
        McpSettings { servers, pin, first_turn_wait, backoff: self.backoff.clone() }
    }
}

pub(super) fn address(url: &str) -> Result<Url, String> {
    let parsed = Url::parse(url).ok();
    let is_web = |url: &Url| ["http", "https"].contains(&url.scheme()) && url.has_host();
    parsed.filter(is_web).ok_or_else(|| "`url` is no http or https address".to_owned())
}

fn server_fault(name: &str, server: &ServerSection) -> Option<String> {
    if !is_server_name(name) {
        return Some(SERVER_NAME_RULE.into());
    }
    match (&server.command, &server.url) {
        (None, None) => return Some("needs `command` or `url`".into()),
        (Some(_), Some(_)) => return Some("takes `command` or `url`, not both".into()),
        (Some(_), None) if !server.headers.is_empty() => {
            return Some("`headers` are for a server with `url`".into());
        }
        (None, Some(url)) => {
            if let Err(reason) = address(url) {
                return Some(reason);
            }
            let of_command = !server.args.is_empty()
                || !server.env.is_empty()
                || server.cwd.is_some()
                || server.network.is_some();
            if of_command {
                return Some(
                    "`args`, `env`, `cwd` and `network` are for a server with `command`".into(),
                );
            }
        }
        (Some(_), None) => {}
    }
    if server.headers.keys().any(|name| HeaderName::from_bytes(name.as_bytes()).is_err()) {
        return Some("`headers` holds a name that is none of a header".into());
    }
    for (key, time) in [
        ("start_timeout", &server.start_timeout),
        ("timeout", &server.timeout),
        ("max_time", &server.max_time),
    ] {
        match time.as_ref().map(|time| units::parse_duration(&time.0)) {
            Some(Err(reason)) => return Some(format!("`{key}`: {reason}")),
            Some(Ok(time)) if time.is_zero() => return Some(format!("`{key}` is 0")),
            _ => {}
        }
    }
    None
}

impl ServerSection {
    fn resolve(&self, name: &str, source: &dyn ValueSource) -> McpServerSettings {
        let mut secrets = Vec::new();
        let transport = self.transport(source, &mut secrets);
        let transport = transport.unwrap_or_else(McpTransport::Unavailable);
        let usual = McpServerSettings::new(name, transport);
        let time = |written: &Option<Written>, usual| {
            let time = written.as_ref().and_then(|time| units::parse_duration(&time.0).ok());
            time.unwrap_or(usual)
        };
        McpServerSettings {
            secrets,
            enabled: self.enabled.unwrap_or(true),
            scope: self.scope,
            instructions: self.instructions,
            tools: self.tools.clone(),
            disable: self.disable.clone(),
            read_only: marked(self.read_only.as_ref()),
            shared: marked(self.shared.as_ref()),
            start_timeout: time(&self.start_timeout, usual.start_timeout),
            timeout: time(&self.timeout, usual.timeout),
            max_time: time(&self.max_time, usual.max_time),
            ..usual
        }
    }

    /// The error says what is missing, and never a value. Adds what nobody is to read.
    fn transport(
        &self,
        source: &dyn ValueSource,
        secrets: &mut Vec<Secret>,
    ) -> Result<McpTransport, String> {
        // What is written plainly, such as a region, is no key unless its name says so.
        let mut resolved = |written: &BTreeMap<String, Written>, is_key: &dyn Fn(&str) -> bool| {
            let mut values = Vec::new();
            for (name, value) in written {
                let (value, parts) = resolve(&value.0, source)?;
                if !parts.is_empty() || is_key(name) {
                    secrets.push(value.clone());
                }
                secrets.extend(parts);
                values.push((name.clone(), value));
            }
            Ok::<_, String>(values)
        };
        if let Some(url) = &self.url {
            let headers = resolved(&self.headers, &|_| true)?.into_iter().map(|(name, value)| {
                let header = HeaderName::from_bytes(name.as_bytes());
                header.map(|header| (header, value)).map_err(|error| error.to_string())
            });
            let headers: Vec<_> = headers.collect::<Result<_, _>>()?;
            secrets.extend(headers.iter().filter_map(|(_, value)| behind_scheme(value)));
            return Ok(McpTransport::Http { url: address(url)?, headers });
        }
        Ok(McpTransport::Stdio(McpCommand {
            program: self.command.clone().unwrap_or_default(),
            arguments: self.args.clone(),
            variables: resolved(&self.env, &is_name_of_key)?,
            directory: self.cwd.clone(),
            network: self.network.unwrap_or(true),
        }))
    }
}

fn marked(marked: Option<&Marked>) -> MarkedTools {
    match marked {
        None => MarkedTools::All(false),
        Some(Marked::All(all)) => MarkedTools::All(*all),
        Some(Marked::Named(names)) => MarkedTools::Named(names.clone()),
    }
}

/// Whether a variable with this name holds a key: one of its words ends so.
pub(super) fn is_name_of_key(variable: &str) -> bool {
    let is_of_key = |word: &str| {
        let word = word.to_ascii_uppercase();
        let word = word.strip_suffix('S').unwrap_or(&word);
        KEY_WORDS.iter().any(|end| word.ends_with(end))
    };
    variable.split(|c: char| !c.is_ascii_alphanumeric()).any(is_of_key)
}

/// The key of a header such as `Bearer KEY`: a server may repeat it alone.
pub(super) fn behind_scheme(header: &Secret) -> Option<Secret> {
    let (_, key) = header.expose().split_once(' ')?;
    Some(Secret::new(key.trim()))
}

/// Puts values in the places of `${env:VAR}` and `${file:/path}`. Returns them beside the whole: a
/// server may repeat one alone.
fn resolve(written: &str, source: &dyn ValueSource) -> Result<(Secret, Vec<Secret>), String> {
    let (mut text, mut rest, mut parts) = (String::new(), written, Vec::new());
    while let Some((before, after)) = rest.split_once("${") {
        let (reference, behind) =
            after.split_once('}').ok_or("a value has `${` without `}`".to_owned())?;
        text.push_str(before);
        let part = match reference.split_once(':') {
            Some(("env", name)) => {
                let value = source.variable(name);
                Secret::new(value.ok_or_else(|| format!("the variable {name} is not set"))?)
            }
            Some(("file", path)) => source.file(path)?,
            _ => return Err("a value has `${` without `env:` or `file:`".into()),
        };
        text.push_str(part.expose());
        parts.push(part);
        rest = behind;
    }
    text.push_str(rest);
    Ok((Secret::new(text), parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Given;

    impl ValueSource for Given {
        fn variable(&self, name: &str) -> Option<String> {
            (name == "TOKEN").then(|| "th-1".to_owned())
        }

        fn file(&self, path: &str) -> Result<Secret, String> {
            if path == "/key" { Ok(Secret::new("th-2")) } else { Err(format!("{path}: none")) }
        }
    }

    fn section(text: &str) -> McpSection {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn keys_come_from_the_environment_and_files_and_a_missing_one_turns_its_server_off() {
        let section = section(
            "[servers.a]\nurl = \"https://x.org/mcp\"\n\
             headers = { authorization = \"Bearer ${env:TOKEN}-${file:/key}\" }\n\
             [servers.b]\ncommand = \"b\"\nenv = { K = \"${env:NONE}\" }\n",
        );
        assert_eq!(section.fault(), None);
        assert!(!format!("{section:?}").contains("TOKEN"));

        let settings = section.resolve(&Given);

        let McpTransport::Http { headers, .. } = &settings.servers[0].transport else { panic!() };
        assert_eq!(headers[0].1.expose(), "Bearer th-1-th-2");
        assert!(!format!("{settings:?}").contains("th-1"));
        let McpTransport::Unavailable(why) = &settings.servers[1].transport else { panic!() };
        assert_eq!(why, "the variable NONE is not set");
    }

    /// What is taken out of the words of the only server.
    fn secrets(text: &str) -> Vec<String> {
        let settings = section(text).resolve(&Given);
        let secrets = settings.servers[0].secrets.iter();
        secrets.map(|secret| secret.expose().to_owned()).collect()
    }

    #[test]
    fn each_part_of_a_value_is_a_key_beside_the_whole() {
        let header = "[servers.a]\nurl = \"https://x.org\"\n\
                      headers = { a = \"Bearer ${env:TOKEN}\", b = \"Basic literal\" }";
        assert_eq!(secrets(header), ["Bearer th-1", "th-1", "Basic literal", "th-1", "literal"]);
        let variable = "[servers.a]\ncommand = \"x\"\nenv = { O = \"--key=${file:/key}\" }";
        assert_eq!(secrets(variable), ["--key=th-2", "th-2"]);
    }

    #[test]
    fn a_variable_that_is_written_plainly_is_a_key_where_its_name_says_so() {
        for name in ["API_KEY", "apikey", "GH_TOKEN", "AWS_CREDENTIALS", "DB_PASSWORD_2", "OAUTH"] {
            assert!(is_name_of_key(name), "{name}");
        }
        for name in ["REGION", "GIT_AUTHOR_NAME", "KEYBOARD", "TOKENIZER", "", "MODE"] {
            assert!(!is_name_of_key(name), "{name}");
        }
        let text = "[servers.a]\ncommand = \"x\"\nenv = { REGION = \"europe\", X_KEY = \"plain\" }";
        assert_eq!(secrets(text), ["plain"]);
    }

    #[test]
    fn a_command_is_a_path_or_a_name() {
        let mut section = section(
            "[servers.a]\ncommand = \"~/bin/a\"\n[servers.b]\ncommand = \"b\"\ncwd = \"~\"\n",
        );
        let paths: Vec<_> = section.paths_mut().map(|path| path.display().to_string()).collect();
        assert_eq!(paths, ["~/bin/a", "~"]);
    }

    #[test]
    fn a_server_that_cannot_be_is_refused() {
        for (text, reason) in [
            ("[servers.a__b]\ncommand = \"x\"", "letters and digits"),
            ("[servers.a]", "needs `command` or `url`"),
            ("[servers.a]\ncommand = \"x\"\nurl = \"http://x\"", "not both"),
            ("[servers.a]\nurl = \"file:///x\"", "no http"),
            ("[servers.a]\nurl = \"http://x\"\nargs = [\"y\"]", "for a server with `command`"),
            ("[servers.a]\ncommand = \"x\"\nheaders = { a = \"b\" }", "for a server with `url`"),
            ("[servers.a]\nurl = \"http://x\"\nheaders = { \"a b\" = \"b\" }", "none of a header"),
            ("[servers.a]\ncommand = \"x\"\ntimeout = \"soon\"", "`timeout`"),
            ("[servers.a]\ncommand = \"x\"\ntimeout = \"0\"", "is 0"),
        ] {
            let (_, found) = section(text).fault().unwrap();
            assert!(found.contains(reason), "{text}: {found}");
        }
    }
}
