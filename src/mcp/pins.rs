//! Remembers what each tool of a server was when it was first seen, and takes away those that have
//! become something else.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use super::definitions::McpTool;
use super::settings::PinPolicy;
use crate::live_file::{FileContents, LiveFile, OwnFile};
use crate::named_file::{located, ours};
use crate::sync;

const NAME: &str = "mcp-pins.toml";
/// Locked by who changes the file.
const LOCK: &str = "mcp-pins.lock";

/// Hundreds of servers with hundreds of tools.
const MAX_BYTES: u64 = 8 << 20;

const HEADER: &str = "# What the tools of MCP servers were when they were first seen. A tool that \
                      has changed is not offered until `toolhand mcp accept SERVER`.\n\n";

const REMEDY: &str =
    "no MCP tool is offered until it is mended, or deleted and the servers are accepted again";

/// What is known of one server. Another command, or another address, is another server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServerPins {
    server: String,
    /// Of the command or the address that it is started with.
    #[serde(rename = "started_as")]
    launch_digest: String,
    /// The digest of each definition, by the server's own names.
    tools: BTreeMap<String, String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Stored {
    servers: Vec<ServerPins>,
}

/// The pins of all servers, or why they cannot be read.
pub(super) type Pins = Result<Arc<[ServerPins]>, String>;

/// `mcp-pins.toml` of the state directory, read again when it has changed.
#[derive(Debug)]
pub(super) struct PinFile {
    state_dir: PathBuf,
    source: OwnFile,
    pins: Mutex<LiveFile<Pins>>,
}

/// Why a tool is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PinFault {
    Changed,
    New,
    /// Whether it changes later could not be told.
    NotPinned,
}

impl PinFault {
    /// In words, with what helps.
    pub(super) fn why(self, server: &str) -> String {
        let why = match self {
            Self::Changed => "its definition has changed since it was first seen",
            Self::New => "it is new",
            Self::NotPinned => {
                return format!(
                    "its definition could not be kept in {NAME}, which is tried again; the log says why"
                );
            }
        };
        format!("{why}; the operator takes it with `toolhand mcp accept {server}`")
    }
}

/// Why a tool is taken away. `None`: it is not.
pub(super) fn fault(
    policy: PinPolicy,
    pins: Option<&ServerPins>,
    tool: &McpTool,
) -> Option<PinFault> {
    let pinned = pins.and_then(|pins| pins.tools.get(&tool.own_name));
    match (policy, pinned) {
        (PinPolicy::Off, _) => None,
        (_, Some(digest)) if *digest == tool.digest => None,
        (_, Some(_)) => Some(PinFault::Changed),
        (PinPolicy::All, None) if pins.is_some() => Some(PinFault::New),
        (_, None) => Some(PinFault::NotPinned),
    }
}

/// The pins after these tools were seen: new ones are added, unless a known server may have none.
/// `None`: nothing changes.
fn pins_after_listing(
    policy: PinPolicy,
    known: Option<&ServerPins>,
    seen: &ServerPins,
) -> Option<ServerPins> {
    match known {
        None => Some(seen.clone()),
        Some(_) if policy == PinPolicy::All => None,
        Some(known) => {
            let mut tools = seen.tools.clone();
            tools.extend(known.tools.clone());
            (tools != known.tools).then(|| ServerPins { tools, ..known.clone() })
        }
    }
}

impl ServerPins {
    pub(super) fn of_tools(server: &str, launch_digest: &str, tools: &[Arc<McpTool>]) -> Self {
        let pin = |tool: &Arc<McpTool>| (tool.own_name.clone(), tool.digest.clone());
        Self {
            server: server.to_owned(),
            launch_digest: launch_digest.to_owned(),
            tools: tools.iter().map(pin).collect(),
        }
    }

    fn is_of(&self, server: &str, launch_digest: &str) -> bool {
        self.server == server && self.launch_digest == launch_digest
    }
}

/// The pins of a server among all.
pub(super) fn of_server<'a>(
    all: &'a [ServerPins],
    server: &str,
    launch_digest: &str,
) -> Option<&'a ServerPins> {
    all.iter().find(|pins| pins.is_of(server, launch_digest))
}

impl PinFile {
    pub(super) fn new(state_dir: &Path) -> Self {
        let source = OwnFile::new(state_dir, NAME);
        let pins = Mutex::new(LiveFile::new(Ok(Arc::default())));
        Self { state_dir: state_dir.to_owned(), source, pins }
    }

    /// The pins as they are now, or why they cannot be read. Blocks.
    pub(super) fn current(&self) -> Pins {
        let read = |contents: FileContents, _: &Pins| match contents {
            FileContents::Missing => Ok(Arc::default()),
            FileContents::Text(text) => parse(&text).map(Into::into),
            FileContents::Unreadable(reason) => Err(ours::with_remedy(&reason, REMEDY)),
        };
        sync::lock(&self.pins).current(&self.source, MAX_BYTES, read).clone()
    }

    /// Notes the tools of a server that were not known. Blocks.
    pub(super) fn note(&self, policy: PinPolicy, seen: &ServerPins) -> Result<(), String> {
        if policy == PinPolicy::Off {
            return Ok(());
        }
        self.change(seen, |known| pins_after_listing(policy, known, seen))
    }

    /// Takes the tools of a server as they are. Blocks.
    pub(super) fn accept(&self, seen: &ServerPins) -> Result<(), String> {
        self.change(seen, |known| (known != Some(seen)).then(|| seen.clone()))
    }

    fn change(
        &self,
        of: &ServerPins,
        change: impl FnOnce(Option<&ServerPins>) -> Option<ServerPins>,
    ) -> Result<(), String> {
        let told = |error: io::Error| format!("{NAME}: {error}");
        let directory = ours::open_directory(&self.state_dir)?;
        let _locked = ours::lock(&directory, LOCK).map_err(told)?;
        let text = ours::read_text(&directory, NAME, MAX_BYTES)?;
        let mut servers = text.as_deref().map_or_else(|| Ok(Vec::new()), parse)?;
        let known = of_server(&servers, &of.server, &of.launch_digest);
        let Some(changed) = change(known) else { return Ok(()) };
        servers.retain(|pins| !pins.is_of(&of.server, &of.launch_digest));
        servers.push(changed);
        let text = toml::to_string(&Stored { servers }).map_err(|error| error.to_string())?;
        ours::replace(&directory, NAME, &format!("{HEADER}{text}")).map_err(told)
    }
}

fn parse(text: &str) -> Result<Vec<ServerPins>, String> {
    let stored: Result<Stored, _> = toml::from_str(text);
    let stored = stored.map_err(|error| ours::with_remedy(&located(text, &error), REMEDY))?;
    Ok(stored.servers)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;
    use tempfile::TempDir;

    use super::*;
    use crate::mcp::definitions::definitions;
    use crate::mcp::settings::{McpServerSettings, McpTransport};

    fn tools(descriptions: &[(&str, &str)]) -> Vec<Arc<McpTool>> {
        let none = McpTransport::Unavailable(String::new());
        let settings = McpServerSettings::new("git", none);
        let listed: Vec<_> = descriptions
            .iter()
            .map(|(name, text)| {
                json!({"name": name, "description": text, "inputSchema": {"type": "object"}})
            })
            .collect();
        definitions(&settings, &listed).tools
    }

    fn pins(descriptions: &[(&str, &str)]) -> ServerPins {
        ServerPins::of_tools("git", "1", &tools(descriptions))
    }

    #[test]
    fn m4_a_tool_that_changes_is_taken_away_and_comes_back_when_it_changes_back() {
        let known = pins(&[("log", "Shows."), ("add", "Adds."), ("new", "New.")]);
        let now = tools(&[("log", "Shows, and sends."), ("add", "Adds."), ("new", "New.")]);
        let faults = |policy| {
            let fault = |tool: &Arc<McpTool>| fault(policy, Some(&known), tool);
            now.iter().map(fault).collect::<Vec<_>>()
        };
        let changed = Some(PinFault::Changed);

        assert_eq!(
            now.iter().map(|tool| &*tool.own_name).collect::<Vec<_>>(),
            ["add", "log", "new"]
        );
        assert_eq!(faults(PinPolicy::Changed), [None, changed, None]);
        assert_eq!(faults(PinPolicy::All), [None, changed, None]);
        assert_eq!(faults(PinPolicy::Off), [None; 3]);
        let back = tools(&[("log", "Shows.")]);
        assert_eq!(fault(PinPolicy::Changed, Some(&known), &back[0]), None);
    }

    #[test]
    fn m4_a_tool_that_is_not_pinned_is_taken_away() {
        let known = pins(&[("log", "Shows.")]);
        let new = &tools(&[("new", "New.")])[0];
        let fault = |policy, known| fault(policy, known, new);

        assert_eq!(fault(PinPolicy::Changed, Some(&known)), Some(PinFault::NotPinned));
        assert_eq!(fault(PinPolicy::All, Some(&known)), Some(PinFault::New));
        for policy in [PinPolicy::Changed, PinPolicy::All] {
            assert_eq!(fault(policy, None), Some(PinFault::NotPinned));
        }
        assert_eq!(fault(PinPolicy::Off, None), None);
    }

    #[test]
    fn m4_what_was_seen_first_stays_until_it_is_accepted() {
        let directory = TempDir::new().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let file = PinFile::new(directory.path());
        let first = pins(&[("log", "Shows.")]);
        let later = pins(&[("log", "Sends."), ("new", "New.")]);

        file.note(PinPolicy::Changed, &first).unwrap();
        file.note(PinPolicy::Changed, &later).unwrap();
        let known = file.current().unwrap();
        assert_eq!(known[0].tools["log"], first.tools["log"]);
        assert_eq!(known[0].tools["new"], later.tools["new"]);
        let mode = fs::metadata(directory.path().join(NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = fs::read_to_string(directory.path().join(NAME)).unwrap();
        assert!(text.contains("started_as = \"1\""), "{text}");

        file.accept(&later).unwrap();
        assert_eq!(*file.current().unwrap(), [later]);
    }

    #[test]
    fn m4_pins_that_cannot_be_read_are_not_taken_for_none() {
        let directory = TempDir::new().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let path = directory.path().join(NAME);
        fs::write(&path, "servers = 1").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let file = PinFile::new(directory.path());

        assert!(file.current().is_err());
        assert!(file.note(PinPolicy::Changed, &pins(&[])).is_err());
    }
}
