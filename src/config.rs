//! Loads the settings: a flag beats the environment, the environment the file, the file
//! the default.
//!
//! The types of the settings stand where they are used. This module merges, checks and
//! reads them. No other module reads the environment.

pub(crate) mod environment;
pub(crate) mod file;
pub(crate) mod keys;
pub(crate) mod layers;
pub(crate) mod own_environment;
pub(crate) mod secrets;
mod variables;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use self::environment::Variables;
use self::keys::Keys;
use self::layers::{Layers, Setting, Source};
pub(crate) use self::secrets::Secrets;
use crate::agent::subagents::settings::SubagentSettings;
use crate::agent::{self, ModelRule, prompt};
use crate::hooks::HookSetting;
use crate::http::hosts::Authority;
use crate::http::{auth, cors};
use crate::limits::Limits;
use crate::lsp::LspSettings;
use crate::mcp::{McpSection, McpSettings};
use crate::processes::Environment;
use crate::processes::confinement::{Level, Network};
use crate::sessions::approval_settings::ApprovalSettings;
use crate::sessions::request::Progress;
use crate::sessions::settings::SessionSettings;
use crate::text::did_you_mean;
use crate::web::WebSettings;
use crate::{permissions, telemetry, tools, upstream};

/// All settings, one member for each table.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) progress: Progress,
    pub(crate) background_models: Vec<String>,
    /// The directory of the user's `settings.json`, or `none`.
    #[serde(deserialize_with = "user_dir")]
    pub(crate) claude_user_dir: UserDir,
    pub(crate) server: Server,
    pub(crate) cors: cors::CorsSettings,
    pub(crate) auth: auth::AuthSettings,
    pub(crate) upstream: upstream::UpstreamSettings,
    pub(crate) turns: agent::TurnSettings,
    pub(crate) models: Vec<ModelRule>,
    pub(crate) tools: tools::ToolSettings,
    pub(crate) permissions: permissions::PermissionSettings,
    pub(crate) approval: ApprovalSettings,
    pub(crate) sandbox: Sandbox,
    pub(crate) hooks: Vec<HookSetting>,
    pub(crate) lsp: LspSettings,
    pub(crate) sessions: SessionSettings,
    pub(crate) prompt: prompt::PromptSettings,
    pub(crate) subagents: SubagentSettings,
    pub(crate) web: WebSettings,
    pub(crate) mcp: McpSection,
    pub(crate) limits: Limits,
    pub(crate) log: telemetry::LogSettings,
    pub(crate) up: Up,
}

/// `claude_user_dir`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UserDir(Option<PathBuf>);

impl Default for UserDir {
    fn default() -> Self {
        Self(Some("~/.claude".into()))
    }
}

impl UserDir {
    pub(crate) fn path(&self) -> Option<&Path> {
        self.0.as_deref()
    }
}

/// `[server]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Server {
    #[serde(deserialize_with = "listen_address")]
    pub(crate) listen: SocketAddr,
    /// The directory that tools work in.
    pub(crate) workspace: PathBuf,
    /// Further workspaces, by the name that a request chooses them with.
    pub(crate) workspaces: BTreeMap<String, PathBuf>,
    pub(crate) state_dir: PathBuf,
    /// Further names and addresses that `Host` may have.
    pub(crate) allowed_hosts: Vec<Authority>,
    /// Proxies whose `X-Forwarded-For` is trusted.
    pub(crate) trusted_proxies: Vec<IpAddr>,
}

/// `[sandbox]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Sandbox {
    pub(crate) mode: permissions::SandboxMode,
    /// The levels that it may be; the first that passes its trial is the one.
    #[serde(rename = "use")]
    pub(crate) levels: Vec<Level>,
    pub(crate) network: Network,
    /// Commands in bubblewrap need no approval.
    pub(crate) auto_allow: bool,
    /// The model may ask for a command outside the sandbox.
    pub(crate) escape: bool,
    /// Directories besides the roots that commands may write.
    pub(crate) writable: Vec<PathBuf>,
    /// Further directories that commands may read.
    pub(crate) readable: Vec<PathBuf>,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self {
            mode: permissions::SandboxMode::default(),
            levels: vec![Level::Bwrap, Level::Landlock],
            network: Network::None,
            auto_allow: false,
            escape: false,
            writable: Vec::new(),
            readable: Vec::new(),
        }
    }
}

/// `[up]`: only the command `up` reads it.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Up {
    /// Processes of LiteLLM that answer requests.
    #[serde(deserialize_with = "litellm_workers")]
    pub(crate) litellm_workers: u16,
}

impl Default for Up {
    fn default() -> Self {
        Self { litellm_workers: 1 }
    }
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8787)),
            workspace: ".".into(),
            workspaces: BTreeMap::new(),
            state_dir: "~/.local/share/toolhand".into(),
            allowed_hosts: Vec::new(),
            trusted_proxies: Vec::new(),
        }
    }
}

/// Why the configuration cannot be loaded, in one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("{}: {reason}", path.display())]
    File { path: PathBuf, reason: String },
    #[error("{at}: {reason}")]
    Syntax { at: Source, reason: String },
    #[error("{at}: unknown key {key}{}", did_you_mean(hint.as_deref()))]
    UnknownKey { at: Source, key: String, hint: Option<String> },
    #[error("unknown variable {name}{}", did_you_mean(hint.as_deref()))]
    UnknownVariable { name: String, hint: Option<String> },
    #[error("{}{key}: {reason}", at.as_ref().map(|at| format!("{at}: ")).unwrap_or_default())]
    BadValue { at: Option<Source>, key: String, reason: String },
    #[error("{0}")]
    Invalid(String),
}

/// Settings from outside of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConfigInput {
    /// `--config`.
    pub(crate) file: Option<PathBuf>,
    pub(crate) flags: Vec<Setting>,
    pub(crate) variables: Variables,
}

/// The settings, and where each was set.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    pub(crate) secrets: Secrets,
    /// The environment of commands.
    pub(crate) environment: Environment,
    pub(crate) file: Option<PathBuf>,
    pub(crate) layers: Layers,
    /// The MCP servers, with their keys.
    pub(crate) mcp: McpSettings,
}

/// Reads, merges and checks all settings.
pub(crate) fn load(given: &ConfigInput) -> Result<Loaded, ConfigError> {
    let (layers, file) = merge(given)?;
    let mut config: Config = layers.read()?;
    config.resolve_paths(file::home(&given.variables).as_deref())?;
    config.check(&layers)?;
    let (upstream_key, search_key) =
        (config.upstream.api_key_file.as_deref(), config.web.search.api_key_file.as_deref());
    let secrets = secrets::collect(&given.variables, upstream_key, search_key)?;
    let environment = Environment::allowed(given.variables.clone());
    let mcp = config.mcp.resolve(&secrets::McpValues(&given.variables));
    Ok(Loaded { config, secrets, environment, file, layers, mcp })
}

/// The state directory, for a client of the server. Checks nothing that only the server
/// needs.
pub(crate) fn state_dir(given: &ConfigInput) -> Result<PathBuf, ConfigError> {
    server(given).map(|server| server.state_dir)
}

/// `[server]`, with an absolute path of the state directory, for commands beside the server.
/// Checks nothing that only the server needs.
pub(crate) fn server(given: &ConfigInput) -> Result<Server, ConfigError> {
    let (layers, _) = merge(given)?;
    let Config { mut server, .. } = layers.read()?;
    server.state_dir = absolute(&server.state_dir, file::home(&given.variables).as_deref())?;
    Ok(server)
}

/// Checks the text of a configuration file for what is wrong in itself: syntax, keys and types.
pub(crate) fn check_text(path: &Path, text: &str) -> Result<(), ConfigError> {
    let mut layers = Layers::default();
    layers.add_file(&Keys::for_type::<Config>(), path, text)?;
    layers.read::<Config>().map(drop)
}

/// Merges all settings. Returns the path of the file too.
fn merge(given: &ConfigInput) -> Result<(Layers, Option<PathBuf>), ConfigError> {
    let keys = Keys::for_type::<Config>();
    let mut layers = Layers::default();
    let file = file::locate(given.file.as_deref(), &given.variables);
    if let Some(path) = &file {
        layers.add_file(&keys, path, &file::read(path)?)?;
    }
    for setting in environment::settings(&keys, &given.variables)? {
        layers.set(setting);
    }
    for setting in given.flags.iter().cloned() {
        layers.set(setting);
    }
    Ok((layers, file))
}

impl Config {
    /// Makes every path absolute.
    fn resolve_paths(&mut self, home: Option<&Path>) -> Result<(), ConfigError> {
        let server = &mut self.server;
        let paths = [&mut server.workspace, &mut server.state_dir];
        let further = self.permissions.additional_directories.iter_mut();
        let further = further.chain(&mut self.upstream.api_key_file);
        let further = further.chain(&mut self.web.search.api_key_file);
        let further = further.chain(&mut self.upstream.ca_file);
        let further = further.chain(&mut self.claude_user_dir.0);
        let further = further.chain(self.mcp.paths_mut());
        let sandbox = &mut self.sandbox;
        let further = further.chain(&mut sandbox.writable).chain(&mut sandbox.readable);
        for path in paths.into_iter().chain(server.workspaces.values_mut()).chain(further) {
            *path = absolute(path, home)?;
        }
        Ok(())
    }

    /// Checks what involves more than one key.
    fn check(&self, layers: &Layers) -> Result<(), ConfigError> {
        let bad = |key: &str, reason: String| {
            let at = layers.source(key).cloned();
            Err(ConfigError::BadValue { at, key: key.to_owned(), reason })
        };
        let server = &self.server;
        if !server.workspace.is_dir() {
            return bad("server.workspace", no_directory(&server.workspace));
        }
        for (name, path) in &server.workspaces {
            if !path.is_dir() {
                return bad(&format!("server.workspaces.{name}"), no_directory(path));
            }
        }
        for path in &self.permissions.additional_directories {
            if !path.is_dir() {
                return bad("permissions.additional_directories", no_directory(path));
            }
        }
        if let Some((key, reason)) = self.sandbox.fault().or_else(|| self.subagents.fault()) {
            return bad(key, reason);
        }
        if let Some((key, reason)) = self.mcp.fault() {
            return bad(&key, reason);
        }
        if let Some((key, reason)) = self.lsp.fault() {
            return bad(&key, reason);
        }
        if !self.auth.required && !server.listen.ip().is_loopback() {
            let reason = format!("without keys only on loopback, not on {}", server.listen);
            return bad("auth.required", reason);
        }
        let bash = &self.tools.bash;
        if bash.timeout > bash.max_timeout {
            return bad("tools.bash.timeout", "is more than tools.bash.max_timeout".into());
        }
        if let Some((key, reason)) = self.web.fault() {
            return bad(key, reason);
        }
        if let Some((key, reason)) = self.tools.fault() {
            return bad(key, reason);
        }
        if self.turns.max_parallel_tools == 0 {
            return bad("turns.max_parallel_tools", "must be at least 1".into());
        }
        if self.turns.max_rounds == 0 {
            return bad("turns.max_rounds", "must be at least 1".into());
        }
        if self.sessions.max_bytes == 0 {
            return bad("sessions.max_bytes", "0 would keep nothing".into());
        }
        match self.times().into_iter().find(|(_, time)| time.is_zero()) {
            Some((key, _)) => bad(key, "0 would refuse everything: a limit is at least 1".into()),
            None => Ok(()),
        }
    }

    /// The times within which something must happen.
    fn times(&self) -> [(&'static str, Duration); 7] {
        let upstream = &self.upstream;
        [
            ("upstream.connect_timeout", upstream.connect_timeout),
            ("upstream.first_byte_timeout", upstream.first_byte_timeout),
            ("upstream.idle_timeout", upstream.idle_timeout),
            ("upstream.comment_timeout", upstream.comment_timeout),
            ("turns.max_duration", self.turns.max_duration),
            ("tools.bash.timeout", self.tools.bash.timeout),
            ("sessions.retention", self.sessions.retention),
        ]
    }
}

impl Sandbox {
    /// Whether the model may ask for a command outside. Where none holds it by the operator's
    /// word, there is nothing to leave.
    pub(crate) fn offers_escape(&self) -> bool {
        self.escape && self.mode != permissions::SandboxMode::Off
    }

    /// The key that cannot be followed, and why.
    fn fault(&self) -> Option<(&'static str, String)> {
        let lists = [("sandbox.writable", &self.writable), ("sandbox.readable", &self.readable)];
        for (key, path) in
            lists.into_iter().flat_map(|(key, list)| list.iter().map(move |it| (key, it)))
        {
            if !path.is_dir() {
                return Some((key, no_directory(path)));
            }
            if path.parent().is_none() {
                return Some((key, "/ would leave nothing to protect".into()));
            }
        }
        let twice =
            self.levels.iter().enumerate().find(|(at, level)| self.levels[..*at].contains(level));
        if let Some((_, level)) = twice {
            return Some(("sandbox.use", format!("names {level} twice")));
        }
        if self.levels.is_empty() && self.mode != permissions::SandboxMode::Off {
            let reason = "names no level; sandbox.mode = \"off\" goes without".into();
            return Some(("sandbox.use", reason));
        }
        None
    }
}

fn no_directory(path: &Path) -> String {
    format!("{} is not a directory", path.display())
}

/// Resolves `~` to the home directory, and a relative path to the working directory.
fn absolute(path: &Path, home: Option<&Path>) -> Result<PathBuf, ConfigError> {
    let path = match path.strip_prefix("~") {
        Ok(rest) => {
            let home = home.ok_or_else(|| {
                ConfigError::Invalid(format!("{}: HOME is not set", path.display()))
            })?;
            home.join(rest)
        }
        Err(_) => path.to_owned(),
    };
    std::path::absolute(&path)
        .map_err(|error| ConfigError::Invalid(format!("{}: {error}", path.display())))
}

fn listen_address<'de, D: Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(from)?;
    let numeric = text.replace("localhost:", "127.0.0.1:");
    numeric.parse().map_err(|_| {
        serde::de::Error::custom(format!("{text:?} is no address: write \"127.0.0.1:8787\""))
    })
}

fn user_dir<'de, D: Deserializer<'de>>(from: D) -> Result<UserDir, D::Error> {
    let text = String::deserialize(from)?;
    Ok(UserDir((text != "none").then(|| text.into())))
}

/// A worker keeps one core busy and takes a few hundred megabytes: a larger number is a slip.
const MAX_LITELLM_WORKERS: u16 = 64;

fn litellm_workers<'de, D: Deserializer<'de>>(from: D) -> Result<u16, D::Error> {
    let workers = i64::deserialize(from)?;
    let fitting = u16::try_from(workers).ok().filter(|it| (1..=MAX_LITELLM_WORKERS).contains(it));
    fitting.ok_or_else(|| {
        serde::de::Error::custom(format!(
            "{workers} is not between 1 and {MAX_LITELLM_WORKERS}: write 1, or at most the number of cores"
        ))
    })
}

#[cfg(test)]
mod tests;
