//! Builds the services below the API from the settings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{languages, readable, state_dir, workspace_servers};
use crate::config::{Config, ConfigError, Loaded, Secrets};
use crate::definitions::Definitions;
use crate::file_encodings::FileEncodings;
use crate::files::Files;
use crate::files::settings_guard::{SettingsFault, SettingsGuard};
use crate::hooks::{self, HookFailures, HookPrograms, Hooks};
use crate::lsp::LanguageServers;
use crate::mcp::{McpLauncher, McpReach, McpSandboxes, McpServers, McpSettings};
use crate::memory_budget::MemoryBudget;
use crate::own_endpoints::OwnEndpoints;
use crate::permissions::{ExcludedPaths, KeptGrants, KnownTool, Permissions, RuleError};
use crate::processes::confinement::Network;
use crate::processes::sandbox::{Sandbox, SandboxSettings};
use crate::processes::worker::Workers;
use crate::processes::{Environment, Runner};
use crate::settings_files::SettingsFiles;
use crate::text::did_you_mean;
use crate::tools::builtin;
use crate::tools::catalogue::ToolCatalogue;
use crate::tools::page_reader::PageReader;
use crate::tools::subagent::TASK;
use crate::tools::toolset::Toolset;
use crate::web::search::Search;
use crate::web::{Provider, SystemResolver, Web};
use crate::workspace::{ResolveError, TempFiles, Workspace};
use crate::{config, permissions, tools, upstream};

/// The supervisor of each command is this program, started again.
const SUPERVISOR: &str = "/proc/self/exe";

/// The services that the API and the commands use.
#[derive(Debug)]
pub(crate) struct Services {
    /// The tools that the operator left enabled.
    pub(crate) tools: ToolCatalogue,
    pub(crate) permissions: Permissions,
    pub(crate) settings_files: Arc<SettingsFiles>,
    /// The agents, skills and commands of files.
    pub(crate) definitions: Arc<Definitions>,
    /// The rules that people made of approvals.
    pub(crate) kept_grants: Arc<KeptGrants>,
    /// What confines commands.
    pub(crate) sandbox: Sandbox,
    pub(crate) hooks: Hooks,
    /// What neither pages nor MCP servers of a workspace may lead to.
    pub(crate) own_endpoints: OwnEndpoints,
    /// `None`: none are configured. Started by whoever wants them to run.
    pub(crate) mcp: Option<McpServers>,
    /// `None`: this build has no client of them, or the operator wants none.
    pub(crate) languages: Option<Arc<LanguageServers>>,
    pub(crate) upstream: Arc<upstream::Client>,
    /// The workspaces that a request may choose by name.
    pub(crate) workspaces: BTreeMap<String, Arc<Workspace>>,
    /// What `~` stands for in a model's paths.
    pub(crate) home: PathBuf,
    /// The memory budget of all requests together.
    pub(crate) memory_budget: MemoryBudget,
}

/// Why the services cannot be built, in one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServiceError {
    #[error("{key}: no tool is named {name}{}", did_you_mean(hint.as_deref()))]
    NoSuchTool { key: &'static str, name: String, hint: Option<String> },
    #[error(transparent)]
    Rule(#[from] RuleError),
    #[error(transparent)]
    Workspace(#[from] ResolveError),
    #[error("{0}")]
    SettingsFile(String),
    #[error("{0}")]
    Upstream(String),
    #[error("{0}")]
    Web(String),
}

impl Services {
    /// An error says where the setting at fault was set.
    pub(crate) fn from_config(loaded: &Loaded) -> Result<Self, ConfigError> {
        let Loaded { config, secrets, environment, layers, file, mcp } = loaded;
        Self::new(config, secrets, environment, (file.as_deref(), mcp))
            .map_err(|error| ConfigError::Invalid(layers.located(&error.to_string())))
    }

    fn new(
        config: &Config,
        secrets: &Secrets,
        environment: &Environment,
        (file, mcp): (Option<&Path>, &McpSettings),
    ) -> Result<Self, ServiceError> {
        let workspace = open(config, &config.server.workspace)?;
        let excluded = ExcludedPaths::below(&config.server.state_dir);
        let runner = Runner::new(SUPERVISOR, environment.clone(), None);
        let sandbox = Sandbox::new(runner.clone(), sandbox_settings(config));
        let mcp_launcher = mcp_launcher(config, &runner);
        let mcp_sandboxes = mcp_launcher.sandboxes.clone();
        let settings_files = settings_files(config);
        let mcp = workspace_servers::joined(mcp, environment, &settings_files, &workspace);
        let (has_servers, first_turn_wait) = (!mcp.servers.is_empty(), mcp.first_turn_wait);
        let own_endpoints = OwnEndpoints::new(&config.upstream.url.join(""));
        let reach = McpReach { launcher: mcp_launcher, own: own_endpoints.clone() };
        let servers = McpServers::new(mcp, reach, &config.server.state_dir);
        let servers = has_servers.then_some(servers);
        let encodings = Arc::new(FileEncodings::new(&config.tools.files));
        let definitions = definitions(config, &settings_files, &encodings);
        let temp_files = state_dir::temp_files(&config.server.state_dir);
        let memory_budget = MemoryBudget::new(config.limits.buffers);
        let hooks = HookPrograms {
            runner: runner.clone(),
            workspace_runner: None,
            sandbox: sandbox.clone(),
            is_sandbox_required: config.sandbox.mode == permissions::SandboxMode::Required,
            memory_budget: memory_budget.clone(),
            failures: Arc::new(HookFailures::in_state_dir(&config.server.state_dir)),
        };
        let hooks = Hooks::new(config.hooks.clone(), hooks)
            .with_settings_files(Arc::clone(&settings_files));
        let key = secrets.upstream_key.as_ref();
        let upstream =
            upstream::Client::new(&config.upstream, &config.limits, key, memory_budget.clone())
                .map_err(ServiceError::Upstream)?;
        let upstream = Arc::new(upstream);
        let web = web(config, own_endpoints.clone(), runner.workers())?;
        let search = search(config, secrets)?;
        let languages = languages::servers(config, environment, &runner, &sandbox, &settings_files);
        let tools = Toolset::new(builtin::list(&builtin::Services {
            files: files(temp_files, file, encodings),
            runner,
            sandbox: sandbox.clone(),
            sandbox_escape: config.sandbox.offers_escape(),
            bash: config.tools.bash.clone(),
            settings_files: Some(Arc::clone(&settings_files)),
            definitions: Arc::clone(&definitions),
            languages: languages.clone(),
            settings: Arc::new(readable::settings(config)),
            web,
            page_reader: page_reader(config, &upstream),
            search: search.clone(),
            mcp: servers.clone(),
        }));
        let home = environment.home();
        let places = (&workspace, home.as_path());
        let permissions = permissions(config, &tools, places, excluded, &settings_files)?
            .with_search_path(environment.search_path());
        if let Some(fault) = hooks::users_fault(&settings_files.snapshot(&workspace)) {
            return Err(ServiceError::SettingsFile(fault));
        }
        let known: Vec<KnownTool<'_>> = tools.tools().iter().map(|tool| tool.known()).collect();
        let kept_grants = Arc::new(KeptGrants::new(&config.server.state_dir, &known));
        let permissions = permissions.with_kept_grants(Arc::clone(&kept_grants));
        // Without the sandbox, which would otherwise hold itself.
        sandbox.deny(Box::new(permissions.denied_to_commands()));
        for sandbox in mcp_sandboxes.each() {
            sandbox.deny(Box::new(permissions.denied_to_commands()));
        }
        let permissions = permissions.with_sandbox(sandbox.clone(), config.sandbox.auto_allow);
        let toolset = enabled(&tools, &config.tools)?.without_denied(&permissions.denied_tools());
        let workspaces = config.server.workspaces.iter();
        let workspaces = workspaces
            .map(|(name, path)| Ok((name.clone(), open(config, path)?)))
            .collect::<Result<BTreeMap<_, _>, ServiceError>>()?;
        let toolset = if config.lsp.is_off() { toolset.without(&[builtin::LSP]) } else { toolset };
        let toolset =
            if servers.is_some() { toolset } else { toolset.without(&tools::mcp::RESOURCE_TOOLS) };
        let toolset =
            if search.is_some() { toolset } else { toolset.without(&[builtin::WEB_SEARCH]) };
        let mut tools = ToolCatalogue::new(usable(toolset, &config.tools));
        if let Some(languages) = &languages {
            let all = [permissions.workspace()].into_iter().chain(workspaces.values());
            tools = tools.with_languages(Arc::clone(languages), all.cloned().collect());
        }
        if let Some(servers) = &servers {
            let denied = permissions.denied_tools();
            tools = tools.with_mcp(servers.clone(), first_turn_wait, denied);
        }
        Ok(Self {
            tools,
            permissions,
            settings_files,
            definitions,
            kept_grants,
            sandbox,
            hooks,
            own_endpoints,
            mcp: servers,
            languages,
            upstream,
            workspaces,
            home,
            memory_budget,
        })
    }
}

impl Services {
    /// Reads the agents, skills and commands, so that the first request need not.
    pub(super) fn read_definitions(&self) {
        let main = self.permissions.workspace();
        for workspace in [main].into_iter().chain(self.workspaces.values()) {
            self.definitions.current(workspace);
        }
    }
}

/// What reads pages of the web.
fn web(config: &Config, own: OwnEndpoints, workers: Workers) -> Result<Arc<Web>, ServiceError> {
    let web = Web::new(&config.web, own, workers, Arc::new(SystemResolver));
    web.map(Arc::new).map_err(ServiceError::Web)
}

/// What answers the prompts of `WebFetch`, if a model is set for it.
fn page_reader(config: &Config, upstream: &Arc<upstream::Client>) -> Option<PageReader> {
    let model = config.web.summary_model.clone()?;
    Some(PageReader::new(Arc::clone(upstream), model))
}

/// What searches the web, if a provider is set.
fn search(config: &Config, secrets: &Secrets) -> Result<Option<Arc<Search>>, ServiceError> {
    let is_upstream = config.web.search.provider == Some(Provider::Litellm);
    let key = if is_upstream { &secrets.upstream_key } else { &secrets.search_key };
    let search = Search::new(&config.web, &config.upstream.url.join(""), key.as_ref());
    Ok(search.map_err(ServiceError::Web)?.map(Arc::new))
}

/// No level where the operator does without a sandbox.
fn sandbox_settings(config: &Config) -> SandboxSettings {
    let config::Sandbox { mode, levels, network, writable, readable, .. } = &config.sandbox;
    let is_off = *mode == permissions::SandboxMode::Off;
    SandboxSettings {
        levels: if is_off { Vec::new() } else { levels.clone() },
        network: *network,
        writable: writable.clone(),
        readable: readable.clone(),
        hidden: vec![config.server.state_dir.clone()],
        sessions: Some(state_dir::sessions(&config.server.state_dir)),
        placeholders: Some(state_dir::placeholders(&config.server.state_dir)),
    }
}

/// Programs of servers have the network unless the operator says otherwise, whatever commands have.
fn mcp_launcher(config: &Config, runner: &Runner) -> McpLauncher {
    let sandbox = |network| {
        let settings = SandboxSettings { network, ..sandbox_settings(config) };
        Sandbox::new(runner.clone(), settings)
    };
    let sandboxes = match config.sandbox.mode {
        permissions::SandboxMode::Off => McpSandboxes::Off,
        mode => McpSandboxes::On {
            with_network: sandbox(Network::Full),
            without_network: sandbox(Network::None),
            is_required: mode == permissions::SandboxMode::Required,
        },
    };
    let workspace = config.server.workspace.clone();
    let kept = state_dir::mcp(&config.server.state_dir);
    McpLauncher { runner: runner.clone(), sandboxes, workspace, kept }
}

/// `known` are all tools, enabled or not, because a rule may name any of them.
fn permissions(
    config: &Config,
    known: &Toolset,
    (workspace, home): (&Arc<Workspace>, &Path),
    excluded: ExcludedPaths,
    settings_files: &Arc<SettingsFiles>,
) -> Result<Permissions, ServiceError> {
    let known: Vec<KnownTool<'_>> = known.tools().iter().map(|tool| tool.known()).collect();
    let (settings, sandbox) = (&config.permissions, config.sandbox.mode);
    let permissions = Permissions::new(settings, &known, sandbox, Arc::clone(workspace), excluded)?;
    let permissions = permissions.at_home(home);
    permissions
        .with_settings_files(Arc::clone(settings_files), &known)
        .map_err(ServiceError::SettingsFile)
}

/// The definitions of the server's user and of the workspaces.
fn definitions(
    config: &Config,
    settings_files: &Arc<SettingsFiles>,
    encodings: &Arc<FileEncodings>,
) -> Arc<Definitions> {
    let definitions = Definitions::new(config.claude_user_dir.path(), Arc::clone(settings_files));
    Arc::new(definitions.with_encodings(Arc::clone(encodings)))
}

/// What changes files, and knows the encodings that are named for them.
fn files(temp_files: TempFiles, file: Option<&Path>, encodings: Arc<FileEncodings>) -> Arc<Files> {
    Arc::new(Files::new(temp_files, settings_guard(file)).with_encodings(encodings))
}

/// Validates edits of the configuration as the next start would.
fn settings_guard(file: Option<&Path>) -> SettingsGuard {
    let path = file.unwrap_or(Path::new("toolhand.toml")).to_owned();
    let check = move |text: &str| {
        config::check_text(&path, text).map_err(|error| match error {
            ConfigError::Syntax { reason, .. } => SettingsFault::Syntax(reason),
            error => SettingsFault::Violations(error.to_string()),
        })
    };
    SettingsGuard::new(file, Arc::new(check))
}

fn settings_files(config: &Config) -> Arc<SettingsFiles> {
    let (user_dir, state_dir) = (config.claude_user_dir.path(), &config.server.state_dir);
    Arc::new(SettingsFiles::new(user_dir, state_dir))
}

/// Opens a workspace together with the additional directories.
fn open(config: &Config, root: &Path) -> Result<Arc<Workspace>, ServiceError> {
    let further = config.permissions.additional_directories.iter().cloned();
    let roots = [root.to_owned()].into_iter().chain(further).collect();
    Ok(Arc::new(Workspace::open(roots)?))
}

/// Removes disabled tools, and those that are on only where they are named. An unknown name is an
/// error, because otherwise the tool that was meant would stay enabled.
fn enabled(all: &Toolset, settings: &tools::ToolSettings) -> Result<Toolset, ServiceError> {
    let kept = match &settings.enable {
        Some(names) => {
            refuse_unknown(all, "tools.enable", names)?;
            all.only(names)
        }
        None => all.without(&unnamed_extras(all, &settings.extra)),
    };
    refuse_unknown(all, "tools.extra", &settings.extra)?;
    refuse_unknown(all, "tools.disable", &settings.disable)?;
    Ok(kept.without(&settings.disable))
}

/// The tools that are off by default and that `tools.extra` does not name.
fn unnamed_extras(all: &Toolset, named: &[String]) -> Vec<&'static str> {
    let named = all.only(named);
    builtin::EXTRA.into_iter().filter(|extra| named.get(extra).is_none()).collect()
}

/// Removes the tools for background tasks where nothing can become one.
fn usable(toolset: Toolset, settings: &tools::ToolSettings) -> Toolset {
    let can_start = ["Bash", TASK].iter().any(|tool| toolset.get(tool).is_some());
    let has_tasks = settings.bash.background_tasks > 0 && can_start;
    if has_tasks { toolset } else { toolset.without(&builtin::OF_TASKS) }
}

fn refuse_unknown(all: &Toolset, key: &'static str, names: &[String]) -> Result<(), ServiceError> {
    let Some(name) = all.unknown(names).first().map(|name| (*name).to_owned()) else {
        return Ok(());
    };
    let hint = all.closest(&name).first().map(|near| (*near).to_owned());
    Err(ServiceError::NoSuchTool { key, name, hint })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(settings: &str, expected: &str) {
        let config: Config = toml::from_str(settings).unwrap();
        let shown = match Services::new(
            &config,
            &Secrets::default(),
            &Environment::allowed([]),
            (None, &McpSettings::default()),
        ) {
            Ok(services) => services.tools.built_in().names().collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn tools_are_on_unless_they_are_off() {
        check("tools.enable = [\"Glob\"]", "Glob");
        check("tools.enable = [\"Glob\", \"Grep\"]\ntools.disable = [\"Glob\"]", "Grep");
        check("tools.enable = []", "");
        check("tools.enable = [\"Glob\", \"Grep\"]\npermissions.deny = [\"Grep\"]", "Glob");
    }

    #[test]
    fn some_tools_are_off_unless_they_are_named() {
        let extras = |settings: &str| {
            let config: Config = toml::from_str(settings).unwrap();
            let environment = Environment::allowed([]);
            let services = Services::new(
                &config,
                &Secrets::default(),
                &environment,
                (None, &McpSettings::default()),
            )
            .unwrap();
            let offered =
                services.tools.built_in().names().filter(|name| builtin::EXTRA.contains(name));
            offered.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(extras(""), "");
        assert_eq!(extras("tools.extra = [\"TaskList\", \"TaskCreate\"]"), "TaskCreate TaskList");
        check("tools.extra = [\"TaskGet\"]\ntools.enable = [\"Glob\"]", "Glob");
        check("tools.enable = [\"Glob\", \"TaskGet\"]", "Glob TaskGet");
        check("tools.enable = [\"TaskGet\"]\npermissions.deny = [\"TaskGet\"]", "");
    }

    #[test]
    fn a_name_that_is_no_tool_is_an_error() {
        check(
            "tools.disable = [\"Grepp\"]",
            "tools.disable: no tool is named Grepp; did you mean Grep?",
        );
        check(
            "tools.enable = [\"Glbo\"]",
            "tools.enable: no tool is named Glbo; did you mean Glob?",
        );
        check(
            "tools.extra = [\"TaskLst\"]",
            "tools.extra: no tool is named TaskLst; did you mean TaskList?",
        );
    }
}
