//! Which servers there are, and what the operator lets them do.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderName;
use serde::Deserialize;
use url::Url;

use super::owner::McpOwner;
use crate::secret::Secret;

/// All servers, and what holds for all of them.
#[derive(Clone, Debug)]
pub(crate) struct McpSettings {
    /// In the order of their names.
    pub(crate) servers: Vec<McpServerSettings>,
    pub(crate) pin: PinPolicy,
    /// How long the first turn waits for servers that still start.
    pub(crate) first_turn_wait: Duration,
    /// Waits before a restart; there are as many restarts in ten minutes.
    pub(crate) backoff: Vec<Duration>,
}

impl Default for McpSettings {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            pin: PinPolicy::Changed,
            first_turn_wait: Duration::from_secs(3),
            backoff: [1, 5, 25].map(Duration::from_secs).to_vec(),
        }
    }
}

/// Which definitions of a server are taken without the operator's word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PinPolicy {
    /// New tools, and not those that have changed.
    #[default]
    Changed,
    /// Neither new tools of a known server, nor those that have changed.
    All,
    /// Any.
    Off,
}

/// One server.
#[derive(Clone, Debug)]
pub(crate) struct McpServerSettings {
    pub(crate) name: String,
    pub(crate) owner: McpOwner,
    pub(crate) transport: McpTransport,
    /// The keys that the server was given. None of what it says may hold them.
    pub(crate) secrets: Vec<Secret>,
    pub(crate) enabled: bool,
    pub(crate) scope: McpScope,
    /// Whether the model is told what the server says of itself.
    pub(crate) instructions: bool,
    /// The server's own names of the tools that are taken. `None`: all.
    pub(crate) tools: Option<Vec<String>>,
    pub(crate) disable: Vec<String>,
    pub(crate) read_only: MarkedTools,
    pub(crate) shared: MarkedTools,
    /// Until it is listed.
    pub(crate) start_timeout: Duration,
    /// Of a call, anew with each progress message.
    pub(crate) timeout: Duration,
    /// Of a call in all.
    pub(crate) max_time: Duration,
}

/// How a server is reached.
#[derive(Clone, Debug)]
pub(crate) enum McpTransport {
    Stdio(McpCommand),
    Http {
        url: Url,
        headers: Vec<(HeaderName, Secret)>,
    },
    /// Something that it needs is missing.
    Unavailable(String),
}

/// A program that talks over its standard input and output.
#[derive(Clone, Debug)]
pub(crate) struct McpCommand {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) variables: Vec<(String, Secret)>,
    /// `None`: the workspace.
    pub(crate) directory: Option<PathBuf>,
    pub(crate) network: bool,
}

/// For whom a process or session of a server is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum McpScope {
    #[default]
    All,
    /// One for each client key.
    Key,
}

/// Tools that the operator has marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MarkedTools {
    All(bool),
    Named(Vec<String>),
}

impl MarkedTools {
    fn named(&self) -> &[String] {
        match self {
            Self::All(_) => &[],
            Self::Named(names) => names,
        }
    }

    pub(super) fn contains(&self, own_name: &str) -> bool {
        match self {
            Self::All(is_marked) => *is_marked,
            Self::Named(names) => names.iter().any(|name| name == own_name),
        }
    }
}

impl McpServerSettings {
    /// A server with the defaults of its optional settings.
    pub(crate) fn new(name: impl Into<String>, transport: McpTransport) -> Self {
        Self {
            name: name.into(),
            owner: McpOwner::Operator,
            transport,
            // Those of a workspace's file are in the repository, for everyone to read.
            secrets: Vec::new(),
            enabled: true,
            scope: McpScope::All,
            instructions: false,
            tools: None,
            disable: Vec::new(),
            read_only: MarkedTools::All(false),
            shared: MarkedTools::All(false),
            start_timeout: Duration::from_secs(30),
            timeout: Duration::from_secs(120),
            max_time: Duration::from_secs(600),
        }
    }

    /// The tools that the settings name, each with the key that does.
    pub(super) fn named_tools(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let tools = self.tools.iter().flatten().map(|name| ("tools", name));
        let disabled = self.disable.iter().map(|name| ("disable", name));
        let read_only = self.read_only.named().iter().map(|name| ("read_only", name));
        let shared = self.shared.named().iter().map(|name| ("shared", name));
        tools.chain(disabled).chain(read_only).chain(shared)
    }

    pub(super) fn takes(&self, own_name: &str) -> bool {
        let is_named = |names: &[String]| names.iter().any(|name| name == own_name);
        self.tools.as_deref().is_none_or(is_named) && !is_named(&self.disable)
    }

    /// A digest of what the server is started as. Another program, or another address, is another
    /// server, of which nothing is known.
    pub(super) fn launch_digest(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        let mut add = |text: &[u8]| {
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text);
        };
        match &self.transport {
            McpTransport::Stdio(command) => {
                add(command.program.as_os_str().as_encoded_bytes());
                for argument in &command.arguments {
                    add(argument.as_bytes());
                }
            }
            McpTransport::Http { url, .. } => add(url.as_str().as_bytes()),
            McpTransport::Unavailable(_) => {}
        }
        hasher.finalize().to_hex()[..32].to_owned()
    }

    /// The name of the directory that the server keeps. Another program under the same name, or the
    /// same of another repository, has another one.
    pub(super) fn kept_name(&self) -> String {
        let mut hasher = blake3::Hasher::new_derive_key("toolhand MCP directory 1");
        hasher.update(self.launch_digest().as_bytes());
        let workspace = self.owner.workspace().unwrap_or(Path::new(""));
        hasher.update(workspace.as_os_str().as_encoded_bytes());
        format!("{}-{}", self.name, &hasher.finalize().to_hex()[..16])
    }

    /// A digest of all that makes the server what a person allowed: who configured it, what it is
    /// started as, and what it is given. A key that is renewed leaves it the same server.
    pub(super) fn identity(&self) -> Arc<str> {
        let mut hasher = blake3::Hasher::new_derive_key("toolhand MCP server 1");
        let mut add = |text: &[u8]| {
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text);
        };
        let workspace = self.owner.workspace();
        add(workspace.map_or(&b"operator"[..], |_| &b"workspace"[..]));
        add(workspace.unwrap_or(Path::new("")).as_os_str().as_encoded_bytes());
        match &self.transport {
            McpTransport::Stdio(command) => {
                add(b"command");
                add(command.program.as_os_str().as_encoded_bytes());
                add(&command.arguments.len().to_le_bytes());
                for argument in &command.arguments {
                    add(argument.as_bytes());
                }
                let directory = command.directory.as_deref().unwrap_or(Path::new(""));
                add(directory.as_os_str().as_encoded_bytes());
                add(&[u8::from(command.network)]);
                let mut variables: Vec<_> = command.variables.iter().collect();
                variables.sort_by_key(|(name, _)| name);
                for (name, value) in variables {
                    add(name.as_bytes());
                    // A repository's own values are no keys, and may lead its program elsewhere.
                    if workspace.is_some() {
                        add(value.expose().as_bytes());
                    }
                }
            }
            McpTransport::Http { url, headers } => {
                add(b"url");
                add(url.as_str().as_bytes());
                let mut names: Vec<_> = headers.iter().map(|(name, _)| name.as_str()).collect();
                names.sort_unstable();
                for name in names {
                    add(name.as_bytes());
                }
            }
            McpTransport::Unavailable(_) => add(b"unavailable"),
        }
        hasher.finalize().to_hex()[..32].into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(change: impl FnOnce(&mut McpCommand)) -> Arc<str> {
        let mut command = McpCommand {
            program: "server".into(),
            arguments: vec!["a".into(), "b".into()],
            variables: vec![("TOKEN".into(), Secret::new("1"))],
            directory: None,
            network: true,
        };
        change(&mut command);
        McpServerSettings::new("git", McpTransport::Stdio(command)).identity()
    }

    fn http(url: &str, header: &'static str) -> Arc<str> {
        let headers = vec![(HeaderName::from_static(header), Secret::new("1"))];
        let transport = McpTransport::Http { url: url.parse().unwrap(), headers };
        McpServerSettings::new("git", transport).identity()
    }

    #[test]
    fn what_is_started_makes_a_server_another_and_a_new_key_does_not() {
        let known = command(|_| {});
        assert_eq!(known, command(|it| it.variables[0].1 = Secret::new("2")));
        let reached = http("https://a.example/", "x-key");
        let others = [
            command(|it| it.program = "other".into()),
            command(|it| it.arguments = vec!["ab".into()]),
            command(|it| it.arguments = vec!["b".into(), "a".into()]),
            command(|it| it.variables[0].0 = "LD_PRELOAD".into()),
            command(|it| it.variables.clear()),
            command(|it| it.directory = Some("/elsewhere".into())),
            command(|it| it.network = false),
            reached.clone(),
            http("https://b.example/", "x-key"),
            http("https://a.example/", "x-other"),
        ];
        for (place, other) in others.iter().enumerate() {
            assert_ne!(*other, known, "{place}");
            assert_eq!(others.iter().filter(|same| *same == other).count(), 1, "{place}");
        }
    }
}
