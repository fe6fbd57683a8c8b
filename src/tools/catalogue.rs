//! Holds all tools that there are, and takes the snapshot that one turn works with.
//!
//! A turn keeps its snapshot to its end: what joins or leaves meanwhile is seen by the next one.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::OnceCell;

use super::builtin::LSP;
use super::mcp;
use super::toolset::Toolset;
use crate::lsp::LanguageServers;
use crate::mcp::{McpServers, McpSnapshot, McpTool};
use crate::permissions::DeniedTools;
use crate::sync;
use crate::workspace::Workspace;

/// Whether a tool of this name may join at any time, with its server.
pub(crate) fn may_join(name: &str) -> bool {
    const MAX_NAME: usize = 64;
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    let parts = name.strip_prefix("mcp__").and_then(|rest| rest.split_once("__"));
    let has_parts = parts.is_some_and(|(server, tool)| !server.is_empty() && !tool.is_empty());
    has_parts && name.len() <= MAX_NAME && name.bytes().all(is_name_byte)
}

/// The built-in tools that are enabled, and the tools of MCP servers. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolCatalogue {
    built_in: Toolset,
    mcp: Option<Arc<McpToolSource>>,
    languages: Option<Arc<LspSource>>,
}

/// The tools of one moment. A workspace may have fewer than there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolSnapshot {
    all: Toolset,
    /// `None`: each workspace has all.
    fewer: Option<FewerTools>,
}

/// The tools of workspaces where no language server may start.
#[derive(Clone, Debug)]
struct FewerTools {
    tools: Toolset,
    default_workspace: PathBuf,
    /// The roots of those workspaces that have all tools.
    with_all: HashSet<PathBuf>,
}

/// Where the tool that asks language servers is offered.
#[derive(Debug)]
struct LspSource {
    servers: Arc<LanguageServers>,
    /// The default one first.
    workspaces: Vec<Arc<Workspace>>,
    without: Toolset,
}

/// The tools that come and go with their servers.
#[derive(Debug)]
struct McpToolSource {
    servers: McpServers,
    /// What the operator's rules deny.
    denied: DeniedTools,
    first_turn_wait: Duration,
    /// The first turn waits for servers that are starting. No later one does.
    first_turn: OnceCell<()>,
    /// One for each set of built-in tools.
    last: Mutex<Vec<CachedToolset>>,
}

/// The toolset that was made of these tools, for the next turn that finds the same.
#[derive(Debug)]
struct CachedToolset {
    built_in: Toolset,
    tools: Vec<Arc<McpTool>>,
    has_resources: bool,
    toolset: Toolset,
}

impl ToolCatalogue {
    pub(crate) fn new(built_in: Toolset) -> Self {
        Self { built_in, mcp: None, languages: None }
    }

    /// With the tools of MCP servers, less those that the operator's rules deny.
    pub(crate) fn with_mcp(
        mut self,
        servers: McpServers,
        first_turn_wait: Duration,
        denied: DeniedTools,
    ) -> Self {
        let (first_turn, last) = (OnceCell::new(), Mutex::default());
        self.mcp =
            Some(Arc::new(McpToolSource { servers, denied, first_turn_wait, first_turn, last }));
        self
    }

    /// With the tool that asks language servers in those workspaces alone where one may start
    /// that is of use there. The first workspace is the default one.
    pub(crate) fn with_languages(
        mut self,
        servers: Arc<LanguageServers>,
        workspaces: Vec<Arc<Workspace>>,
    ) -> Self {
        if self.built_in.get(LSP).is_some() {
            let without = self.built_in.without(&[LSP]);
            self.languages = Some(Arc::new(LspSource { servers, workspaces, without }));
        }
        self
    }

    /// The built-in tools, in list order.
    pub(crate) fn built_in(&self) -> &Toolset {
        &self.built_in
    }

    /// The tools that there are now, whatever the workspace: the built-in ones in list order, then
    /// those of MCP servers by name.
    pub(crate) fn tools(&self) -> Toolset {
        self.joined(&self.built_in)
    }

    /// The tools that there are now, by workspace.
    pub(crate) async fn snapshot(&self) -> ToolSnapshot {
        if let Some(joining) = &self.mcp {
            joining.servers.end_untrusted().await;
        }
        let all = self.tools();
        let Some(languages) = &self.languages else { return all.into() };
        let with_all = languages.offering().await;
        let Some(default_workspace) = languages.workspaces.first() else { return all.into() };
        let fewer = (with_all.len() < languages.workspaces.len()).then(|| FewerTools {
            tools: self.joined(&languages.without),
            default_workspace: default_workspace.root().to_owned(),
            with_all,
        });
        ToolSnapshot { all, fewer }
    }

    /// The same, for a turn. The first one waits a little for servers that are starting.
    pub(crate) async fn for_turn(&self) -> ToolSnapshot {
        if let Some(joining) = &self.mcp {
            let wait = || joining.servers.ready_within(joining.first_turn_wait);
            joining.first_turn.get_or_init(wait).await;
        }
        self.snapshot().await
    }

    fn joined(&self, built_in: &Toolset) -> Toolset {
        match &self.mcp {
            None => built_in.clone(),
            Some(joining) => joining.joined(built_in, joining.servers.snapshot()),
        }
    }
}

impl From<Toolset> for ToolSnapshot {
    fn from(all: Toolset) -> Self {
        Self { all, fewer: None }
    }
}

impl ToolSnapshot {
    /// The tools that there are in any workspace.
    pub(crate) fn all(&self) -> &Toolset {
        &self.all
    }

    /// The tools of a workspace; `None` is the default one.
    pub(crate) fn in_workspace(&self, workspace: Option<&Workspace>) -> &Toolset {
        let Some(fewer) = &self.fewer else { return &self.all };
        let root = workspace.map_or(fewer.default_workspace.as_path(), Workspace::root);
        if fewer.with_all.contains(root) { &self.all } else { &fewer.tools }
    }
}

impl LspSource {
    /// The roots of the workspaces where a server may start.
    async fn offering(&self) -> HashSet<PathBuf> {
        let offering = self.workspaces.iter().map(|workspace| async move {
            let is_offered = self.servers.is_offered(workspace).await;
            is_offered.then(|| workspace.root().to_owned())
        });
        join_all(offering).await.into_iter().flatten().collect()
    }
}

impl McpToolSource {
    fn joined(&self, built_in: &Toolset, snapshot: McpSnapshot) -> Toolset {
        let has_resources = !snapshot.resources.is_empty();
        let toolset = self.with_tools(built_in, snapshot.tools, has_resources);
        let withheld = snapshot.withheld.into_iter();
        let withdrawn: HashMap<String, String> = withheld
            .filter_map(|tool| {
                let name = tool.name?;
                let why = format!("{name} is not available now: {}", tool.why);
                Some((name, why))
            })
            .collect();
        toolset
            .with_withdrawn(withdrawn)
            .with_absent_servers(snapshot.not_running)
            .with_server_words(snapshot.instructions)
    }

    fn with_tools(
        &self,
        built_in: &Toolset,
        tools: Vec<Arc<McpTool>>,
        has_resources: bool,
    ) -> Toolset {
        let mut last = sync::lock(&self.last);
        let is_same = |joined: &&CachedToolset| {
            let same = |(one, other): (&Arc<McpTool>, &Arc<McpTool>)| Arc::ptr_eq(one, other);
            joined.has_resources == has_resources
                && joined.tools.len() == tools.len()
                && joined.tools.iter().zip(&tools).all(same)
        };
        let of_these = last.iter().find(|joined| joined.built_in.is_same(built_in));
        if let Some(joined) = of_these.filter(is_same) {
            return joined.toolset.clone();
        }
        let own =
            if has_resources { built_in.clone() } else { built_in.without(&mcp::RESOURCE_TOOLS) };
        let erased = tools.iter().map(|tool| mcp::erase(self.servers.clone(), Arc::clone(tool)));
        let joined = own.with(&Toolset::new(erased.collect()).without_denied(&self.denied));
        let toolset = joined.clone();
        last.retain(|joined| !joined.built_in.is_same(built_in));
        last.push(CachedToolset { built_in: built_in.clone(), tools, has_resources, toolset });
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_tool_that_may_join_has_a_server_and_a_tool() {
        for name in ["mcp__git__push", "mcp__a__b__c"] {
            assert!(may_join(name), "{name}");
        }
        let long = format!("mcp__a__{}", "b".repeat(60));
        for name in ["mcp__git", "mcp____push", "mcp__git__", "Bash", "mcp__git__a b", &long] {
            assert!(!may_join(name), "{name}");
        }
    }
}
