//! Which servers there are, and what the operator lets them do.

use std::path::PathBuf;
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
                command.arguments.iter().for_each(|argument| add(argument.as_bytes()));
            }
            McpTransport::Http { url, .. } => add(url.as_str().as_bytes()),
            McpTransport::Unavailable(_) => {}
        }
        hasher.finalize().to_hex()[..32].to_owned()
    }
}
