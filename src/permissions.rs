//! Decides whether a call may run, and opens the files it may use.

use std::cell::LazyCell;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

pub(crate) use self::asked_access::AskedAccess;
use self::asked_access::exact_effect;
pub(crate) use self::commands::{CommandSummary, NamedCommand, Risk};
pub(crate) use self::denied_tools::DeniedTools;
pub(crate) use self::effect::EffectDigest;
pub(crate) use self::excluded::{ExcludedPaths, HiddenFiles};
pub(crate) use self::explained::ExplainedVerdict;
pub(crate) use self::grants::Grants;
pub(crate) use self::judge::{HookOpinion, NoAnswer, unanswered};
use self::kept_grants::GrantPlace;
pub(crate) use self::kept_grants::{GrantHolder, KeepError, KeptGrant, KeptGrants, RuleGrant};
pub(crate) use self::kind::AccessKind;
pub(crate) use self::live_rules::RulesInForce;
pub(crate) use self::mode::{Mode, ModeError};
pub(crate) use self::opened_command::{CommandLine, Lacked, OpenedCommand};
pub(crate) use self::rules::{KnownTool, PermissionSettings, RuleError};
pub(crate) use self::sandbox_effects::SandboxEffect;
pub(crate) use self::scope::SearchScope;
pub(crate) use self::search_limits::SearchLimits;
pub(crate) use self::second_run::SecondRun;
use self::second_run::SecondRuns;
pub(crate) use self::session_mode::{ModeBounds, SavedMode, SessionMode};
pub(crate) use self::unasked_files::{MayLeadOut, UnaskedFiles};

use self::judge::{
    AccessEffect, AllowedBy, Confined, OTHER_MODE, Policy, PolicyVerdict, denied_by,
};
use self::live_rules::LiveRules;
use self::opened_command::Surroundings;
use self::path_pattern::PatternRoots;
use self::reached::ReachedPath;
use self::rule_origin::RuleOrigin;
use self::rules::Rules;
use self::secret_files::SecretFiles;
use crate::blocking::{Overloaded, RESOLVING};
use crate::page_url::PageUrl;
use crate::processes;
use crate::processes::confinement::Level;
use crate::session_files::SessionFiles;
use crate::settings_files::SettingsFiles;
use crate::workspace::{
    ContentState, FileId, NameMatch, NameTwin, ReadableRoots, ResolveError, Target, Workspace,
    names_directory,
};

/// File systems in which a file is a door into the kernel or another process. File tools use
/// them in no mode, unless a root lies there.
const KERNEL_DIRECTORIES: [&str; 3] = ["/proc", "/sys", "/dev"];

mod asked_access;
mod commands;
mod denied_to_commands;
mod denied_tools;
mod domain;
mod effect;
mod excluded;
mod explained;
mod grants;
mod judge;
mod kept_grants;
mod kind;
mod live_rules;
mod mcp_rule;
pub mod measured;
mod mode;
mod name_pattern;
mod opened_command;
mod owned_tools;
mod path_index;
mod path_lists;
mod path_pattern;
mod reached;
mod remedy;
mod rule_entries;
mod rule_files;
mod rule_grant;
mod rule_origin;
mod rules;
mod sandbox_effects;
mod scope;
mod search_limits;
mod second_run;
mod secret_files;
mod session_mode;
mod unasked_files;
mod unbuilt_tools;

/// The access that a call asks for, derived by the tool from its input. Paths are absolute.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AccessRequest {
    Read(PathBuf),
    /// Searches or lists a directory, or searches a file.
    Search(PathBuf),
    Write(PathBuf),
    /// Runs a command line in a directory.
    Command {
        line: String,
        directory: PathBuf,
        /// Not in the sandbox, where one holds.
        outside_sandbox: bool,
        /// Why it failed when nobody had approved it.
        lacked: Option<Lacked>,
    },
    /// Uses what has this name: starts an agent of this type, or follows a skill.
    Named(String),
    Fetch(PageUrl),
    /// Asks a search engine this.
    WebSearch(String),
    Mcp(McpAccess),
    /// Changes what the session may do, which only a person can want: it is asked about in
    /// every mode.
    Consent,
    /// Touches nothing outside the session.
    Nothing,
}

/// The access that was judged, as open handles instead of names.
#[derive(Debug)]
pub(crate) enum Access {
    Read(Arc<Target>),
    Search(SearchScope),
    Write(Arc<Target>),
    Command(Box<OpenedCommand>),
    Named(String),
    Fetch(PageUrl),
    WebSearch(String),
    Mcp(McpAccess),
    Consent,
    Nothing,
}

/// A use of an MCP server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct McpAccess {
    pub(crate) server: String,
    /// A digest of what the server is started as: what a person allows is for that server, not for
    /// another one under its name.
    pub(crate) server_identity: Arc<str>,
    /// The server's own name of the tool, or what is done with its resources.
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    /// The operator has said that it changes nothing.
    pub(crate) is_read_only: bool,
}

/// Proof that a call is allowed, with the access that was judged. Only this module can create
/// one, and no call runs without one. A tool uses the handles in the permit, not the names in
/// its input, so it uses exactly what was judged.
#[derive(Debug)]
pub(crate) struct Permit {
    access: Access,
    /// The contents that a person has seen and approved: those that an edit replaces, or that
    /// the call is about.
    approved_contents: Option<ContentState>,
    /// The place of the choice that a person has made, where the call offered its own.
    choice: Option<u8>,
    /// What nobody was asked about runs with less.
    unasked: Unasked,
    /// Nothing but the sandbox lets it run.
    is_by_sandbox_alone: bool,
}

/// How a command runs that no person approved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Unasked {
    /// It may only read.
    reads_only: bool,
    /// What may hold secrets is hidden from it, as no person has seen it, and the mode is not the
    /// one that asks about nothing.
    unapproved: bool,
    /// It runs git to read, so what the repository configures to run does not.
    reads_git: bool,
    second_runs: SecondRuns,
}

/// What the policy says of an access that it does not refuse.
#[derive(Debug)]
pub(crate) enum Judgement {
    Permitted(Permit),
    /// A person must approve it.
    Asks(Box<AskedAccess>),
}

/// Why a call is not permitted. The text is for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// A rule, the mode, or the bounds of the workspace forbid it.
    #[error("{0}")]
    Policy(String),
    /// The path itself is wrong: malformed, or the kernel cannot open it.
    #[error("{0}")]
    Path(String),
}

/// Whether commands run in a sandbox. Where none holds, `auto` asks about every command, and
/// `required` refuses every command. With `off` the operator accepts commands without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SandboxMode {
    #[default]
    Auto,
    Required,
    Off,
}

/// The policy of a session, and the workspace it applies to.
#[derive(Clone, Debug)]
pub(crate) struct Permissions {
    policy: Policy,
    workspace: Arc<Workspace>,
    excluded: ExcludedPaths,
    /// `None`: no command is confined.
    confining: Option<processes::sandbox::Sandbox>,
    /// Where commands look for programs.
    search_path: Arc<OsStr>,
    /// Where files are that may hold secrets, as far as that is known.
    secret_files: SecretFiles,
    /// `None`: settings files do not count.
    live: Option<Arc<LiveRules>>,
    /// The rules that people kept; `None`: nobody can keep any.
    kept: Option<Arc<KeptGrants>>,
    /// Whose rules count; `None`: nobody's.
    holder: Option<Arc<GrantHolder>>,
    /// The files that the server has written for the session, and then for those that it goes on
    /// from. They lie in the excluded state directory, and may be read all the same.
    session_files: Arc<[Arc<SessionFiles>]>,
    /// The live mode of a session. `None`: the policy's own counts.
    session_mode: Option<Arc<SessionMode>>,
    /// What the definition of the agent narrows the mode to.
    agent_mode: Option<Mode>,
    /// Whether a subagent makes the calls.
    is_subagent: bool,
    /// The directories outside the workspace that the session may read, and not write.
    readable: Arc<ReadableRoots>,
}

impl Permissions {
    /// `known` holds all tools that exist, including those that are not enabled.
    pub(crate) fn new(
        settings: &PermissionSettings,
        known: &[KnownTool<'_>],
        sandbox: SandboxMode,
        workspace: Arc<Workspace>,
        excluded: ExcludedPaths,
    ) -> Result<Self, RuleError> {
        let rules = Rules::parse(settings, known)?;
        let policy = Policy {
            mode: settings.mode,
            sandbox,
            auto_allow: false,
            left_behind: None,
            confined: Confined::default(),
            hooks: HookOpinion::None,
            only_reads: None,
            instead: OTHER_MODE.into(),
            rules: Arc::new(rules),
            roots: Arc::new(pattern_roots(&workspace, "/".into())),
            unreadable: None,
        };
        let search_path = OsString::new().into();
        Ok(Self {
            policy,
            workspace,
            excluded,
            confining: None,
            search_path,
            live: None,
            secret_files: SecretFiles::default(),
            kept: None,
            holder: None,
            session_files: Arc::default(),
            session_mode: None,
            agent_mode: None,
            is_subagent: false,
            readable: Arc::default(),
        })
    }

    /// With the rules of settings files as well, read live. Fails if the user's file cannot be
    /// read.
    pub(crate) fn with_settings_files(
        mut self,
        files: Arc<SettingsFiles>,
        known: &[KnownTool<'_>],
    ) -> Result<Self, String> {
        let places = (self.workspace.as_ref(), self.policy.roots.home.as_path());
        let live = LiveRules::start(files, known, Arc::clone(&self.policy.rules), places)?;
        self.live = Some(Arc::new(live));
        Ok(self)
    }

    /// With the rules that people kept.
    pub(crate) fn with_kept_grants(mut self, kept: Arc<KeptGrants>) -> Self {
        self.kept = Some(kept);
        self
    }

    /// The rules that are kept. `None` where nobody can keep any.
    pub(crate) fn kept_grants(&self) -> Option<&Arc<KeptGrants>> {
        self.kept.as_ref()
    }

    /// The same permissions for the turns of this holder, whose kept rules count.
    pub(crate) fn held_by(mut self, holder: GrantHolder) -> Self {
        self.holder = Some(Arc::new(holder));
        self
    }

    /// In the mode that the session is in when a call is judged.
    pub(crate) fn in_session_mode(mut self, mode: Arc<SessionMode>) -> Self {
        self.session_mode = Some(mode);
        self
    }

    /// With the files that the server has written for the session, which may be read.
    pub(crate) fn with_session_files(mut self, files: Arc<[Arc<SessionFiles>]>) -> Self {
        self.session_files = files;
        self
    }

    /// With the directories outside the workspace that the session may read.
    pub(crate) fn with_readable(mut self, readable: Arc<ReadableRoots>) -> Self {
        self.readable = readable;
        self
    }

    /// The same permissions in the workspace together with those directories, if the request only
    /// reads.
    fn with_readable_for(self, access_request: &AccessRequest) -> Self {
        if access_request.kind() != AccessKind::Read {
            return self;
        }
        match self.readable.join(&self.workspace) {
            Some(joined) => self.with_workspace(Arc::new(joined)),
            None => self,
        }
    }

    /// The same permissions where commands are confined. With `auto_allow` those in bubblewrap
    /// need no approval.
    pub(crate) fn with_sandbox(
        mut self,
        confining: processes::sandbox::Sandbox,
        auto_allow: bool,
    ) -> Self {
        self.policy.auto_allow = auto_allow;
        self.confining = Some(confining);
        self
    }

    /// With the home directory that `~` in rules means.
    pub(crate) fn at_home(mut self, home: &Path) -> Self {
        let home = fs::canonicalize(home).unwrap_or_else(|_| home.to_owned());
        self.policy.roots = Arc::new(pattern_roots(&self.workspace, home));
        self
    }

    /// With the value of PATH that commands have.
    pub(crate) fn with_search_path(mut self, search_path: &OsStr) -> Self {
        self.search_path = search_path.into();
        self
    }

    /// The mode that counts now.
    pub(crate) fn mode(&self) -> Mode {
        let mode = self.session_mode.as_ref().map_or(self.policy.mode, |mode| mode.current());
        self.agent_mode.map_or(mode, |narrower| mode.min(narrower))
    }

    /// Whether what would ask is denied.
    pub(crate) fn asks_nobody(&self) -> bool {
        self.mode() == Mode::DontAsk
            || self.session_mode.as_ref().is_some_and(|mode| mode.asks_nobody())
    }

    pub(crate) fn workspace(&self) -> &Arc<Workspace> {
        &self.workspace
    }

    /// What the settings files say now, for people. `None`: none count. Blocks.
    pub(crate) fn rules_in_force(&self) -> Option<Arc<RulesInForce>> {
        self.live.as_ref().map(|live| live.in_force(&self.workspace))
    }

    /// The same permissions in the mode of the session, and with the rules of settings files, as
    /// they are now. Blocks.
    fn current(mut self) -> Self {
        self.policy.mode = self.mode();
        if let Some(instead) = self.instead_of_changing() {
            self.policy.instead = instead.into();
        }
        let Some(live) = &self.live else { return self };
        let in_force = live.in_force(&self.workspace);
        let mut current = match &in_force.workspace {
            Some(workspace) => self.with_workspace(Arc::clone(workspace)),
            None => self,
        };
        current.policy.rules = Arc::clone(&in_force.rules);
        current.policy.unreadable.clone_from(&in_force.unreadable);
        current
    }

    /// What to do in the mode plan, for the model. `None`: nobody plans.
    fn instead_of_changing(&self) -> Option<String> {
        if self.policy.mode != Mode::Plan {
            return None;
        }
        let session = self.session_mode.as_ref().filter(|mode| mode.is_planning());
        if self.is_subagent {
            let why = session.map_or("agents of this type change nothing", |_| "the session plans");
            return Some(format!("{why}: end with what you found and what you would change"));
        }
        let plan = self.session_files.first()?.plan_path();
        let plan = plan.display();
        Some(if session?.can_leave_plan() {
            format!(
                "write the plan to {plan} and call ExitPlanMode: a person approves it before \
                 anything changes"
            )
        } else {
            format!("nobody can approve a plan here: write yours to {plan}")
        })
    }

    /// The same permissions with the rules that their holder keeps for such a request. Blocks.
    fn with_rules_kept_for(mut self, access_request: &AccessRequest) -> Self {
        let (Some(kept), Some(holder)) = (&self.kept, &self.holder) else { return self };
        let directory = match access_request {
            AccessRequest::Command { directory, .. } => fs::canonicalize(directory).ok(),
            _ => None,
        };
        let server_identity = match access_request {
            AccessRequest::Mcp(access) => Some(&*access.server_identity),
            _ => None,
        };
        let directory = directory.as_deref();
        let place = GrantPlace { workspace: &self.workspace, directory, server_identity };
        kept.add_to(&mut self.policy.rules, holder, place);
        self
    }

    /// The tools that a rule of the operator's denies. They never run, so they are not offered to
    /// the model.
    pub(crate) fn denied_tools(&self) -> DeniedTools {
        DeniedTools::new(Arc::clone(&self.policy.rules))
    }

    /// The tools that a rule denies now, in whatever file it stands.
    pub(crate) async fn tools_denied_now(&self) -> Result<DeniedTools, Overloaded> {
        let Some(live) = self.live.clone() else { return Ok(self.denied_tools()) };
        let workspace = Arc::clone(&self.workspace);
        let rules = RESOLVING.run(move || Arc::clone(&live.in_force(&workspace).rules)).await?;
        Ok(DeniedTools::new(rules))
    }

    /// The workspace with the additional directories of settings files, as they are now.
    pub(crate) async fn workspace_now(&self) -> Result<Arc<Workspace>, Overloaded> {
        let permissions = self.clone();
        RESOLVING.run(move || permissions.current().workspace).await
    }

    /// The same permissions in the mode that a request asks for.
    pub(crate) fn tightened(&self, mode: Option<Mode>) -> Result<Self, ModeError> {
        let mut tightened = self.clone();
        if let Some(mode) = mode {
            tightened.policy.mode = self.policy.mode.tightened(mode)?;
        }
        Ok(tightened)
    }

    /// The same permissions for the calls of a subagent. A mode that is wider is passed over.
    pub(crate) fn for_agent(&self, agent_type: &str, only_reads: bool, mode: Option<Mode>) -> Self {
        let mut narrowed = self.clone();
        narrowed.is_subagent = true;
        if only_reads {
            narrowed.policy.only_reads.get_or_insert_with(|| agent_type.into());
        }
        narrowed.agent_mode = [self.agent_mode, mode].into_iter().flatten().min();
        narrowed
    }

    /// The same permissions in another workspace.
    pub(crate) fn with_workspace(&self, workspace: Arc<Workspace>) -> Self {
        let mut moved = self.clone();
        moved.policy.roots = Arc::new(pattern_roots(&workspace, self.policy.roots.home.clone()));
        Self { workspace, ..moved }
    }

    /// The same permissions for one call of which hooks say this.
    pub(crate) fn with_hooks(&self, opinion: HookOpinion) -> Self {
        let mut hooked = self.clone();
        hooked.policy.hooks = opinion;
        hooked
    }

    /// Refuses what a deny rule covers, or nothing may reach. Nothing else is judged: a hook has
    /// put another input in the place of this one.
    pub(crate) async fn refuse_denied(
        &self,
        tool: &str,
        access_request: AccessRequest,
    ) -> Result<(), Refusal> {
        let tool = tool.to_owned();
        let judge = move |current: Self| {
            let current = current.with_readable_for(&access_request);
            match current.open(&tool, access_request) {
                Ok(access) => match current.policy.denies(&tool, current.effect_of(&access)) {
                    Some(message) => Err(Refusal::Policy(message)),
                    None => Ok(()),
                },
                Err(refusal @ Refusal::Policy(_)) => Err(refusal),
                // No rule is about what cannot be opened.
                Err(Refusal::Path(_)) => Ok(()),
            }
        };
        self.clone().with_current(judge).await
    }

    /// Looks with the rules as they are now. Opening paths and the look at the settings files
    /// block on the disk, and a command is parsed: not in an async thread.
    async fn with_current<T: Send + 'static>(
        self,
        look: impl FnOnce(Self) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let looked = RESOLVING.run(move || look(self.current())).await;
        looked.map_err(|overloaded| Refusal::Path(overloaded.to_string()))?
    }

    /// Resolves the requested access, and judges the result. Refuses a call whose access is
    /// not of the kind that its tool has `declared`: rules know a tool by its declared kind.
    /// What `grants` cover is not asked about again.
    pub(crate) async fn judge(
        &self,
        tool: &str,
        declared: AccessKind,
        access_request: AccessRequest,
        grants: &Grants,
    ) -> Result<Judgement, Refusal> {
        if !declared.covers(access_request.kind()) {
            let reached = access_request.kind();
            return Err(Refusal::Policy(format!(
                "{tool} declares access of the kind {declared:?} and this call has the kind \
                 {reached:?}; this is a bug of the server"
            )));
        }
        let mut permissions = self.clone();
        if let AccessRequest::Command { .. } = access_request {
            permissions.policy.confined = self.confined().await;
        }
        let named = tool.to_owned();
        let judge = move |current: Self| {
            if let Some(access) = current.open_session_file(&named, &access_request) {
                return Ok(Judgement::Permitted(Permit::new(access?)));
            }
            let current = current.with_rules_kept_for(&access_request);
            let current = current.with_readable_for(&access_request);
            let current = current.with_finds_for(&access_request);
            let access = current.open(&named, access_request)?;
            current.judge_opened(&named, access)
        };
        let opened = permissions.with_current(judge).await?;
        let asked = match opened {
            Judgement::Permitted(permit) => return Ok(Judgement::Permitted(permit)),
            Judgement::Asks(asked) => asked,
        };
        // What a person has granted does not answer a hook that asks about this very call.
        let granted = match self.policy.hooks {
            HookOpinion::Asks(_) => Err(asked),
            HookOpinion::None | HookOpinion::Allows => asked.granted(grants),
        };
        match granted {
            Ok(permit) => Ok(Judgement::Permitted(permit)),
            Err(asked) if self.asks_nobody() => {
                let (why, remedy) = (asked.why(), asked.remedy());
                Err(Refusal::Policy(unanswered(tool, why, remedy, NoAnswer::DontAsk)))
            }
            Err(asked) => Ok(Judgement::Asks(asked)),
        }
    }

    /// The same permissions with what earlier commands have left, or may have, if the request is for
    /// a command that may run unasked otherwise. Blocks.
    fn with_finds_for(mut self, access_request: &AccessRequest) -> Self {
        let is_command = matches!(access_request, AccessRequest::Command { .. });
        if let Some(files) = self.session_files.first()
            && is_command
            && self.policy.auto_allow
        {
            self.policy.left_behind = left_behind(files).map(Into::into);
        }
        self
    }

    /// Notes that a person who is asked about the call is shown what earlier commands have left.
    pub(crate) async fn show_finds(&self, call: &str) {
        self.change_finds(call, SessionFiles::show_finds).await;
    }

    /// A person has answered about the call.
    pub(crate) async fn answer_finds(&self, call: &str) {
        self.change_finds(call, SessionFiles::answer_finds).await;
    }

    /// Whether commands may wait for a person's answer about what earlier ones have left.
    pub(crate) fn waits_on_finds(&self) -> bool {
        self.policy.auto_allow
    }

    async fn change_finds(&self, call: &str, change: fn(&SessionFiles, &str)) {
        let Some(files) = self.session_files.first().map(Arc::clone) else { return };
        if !self.policy.auto_allow {
            return;
        }
        let call = call.to_owned();
        let changed = RESOLVING.run(move || change(&files, &call)).await;
        if let Err(error) = changed {
            tracing::warn!(%error, "commands ask once more about what an earlier one has left");
        }
    }

    /// What the policy says of an opened access, without the grants.
    fn judge_opened(&self, tool: &str, access: Access) -> Result<Judgement, Refusal> {
        let effect = self.effect_of(&access);
        let is_outside = effect.reached().is_some_and(|path| path.is_outside);
        match self.policy.judge(tool, effect) {
            PolicyVerdict::Allow(by) => {
                let is_confined = self.policy.confined.level.is_some();
                let reads_only = by.only_reads() && is_confined;
                let unapproved = self.policy.mode != Mode::BypassPermissions;
                let unasked = Unasked {
                    reads_only,
                    unapproved,
                    reads_git: false,
                    second_runs: self.second_runs(),
                };
                let permit = Permit::unasked(access, unasked);
                Ok(Judgement::Permitted(permit.by_sandbox_alone(by == AllowedBy::Sandbox)))
            }
            PolicyVerdict::Deny(message) => Err(Refusal::Policy(message)),
            PolicyVerdict::Ask { why, remedy } => {
                // Nobody is asked in dontAsk, and finding the rules means to judge again.
                let is_put = self.policy.mode != Mode::DontAsk;
                let mut rule_grant = None;
                let mut subcommand_grant = None;
                let mut sandbox_effects = Vec::new();
                if is_put {
                    sandbox_effects = self.sandbox_effects(&access);
                    rule_grant = self.rule_grant(tool, &access);
                    subcommand_grant = self.subcommand_grant(tool, &access);
                }
                let tool = tool.to_owned();
                let remedy = remedy.to_string();
                let left_behind = self.policy.left_behind.as_deref();
                let asked = AskedAccess {
                    tool,
                    access,
                    why: with_finds(why, left_behind),
                    shows_finds: left_behind.is_some(),
                    remedy,
                    is_outside,
                    rule_grant,
                    subcommand_grant,
                    sandbox_effects,
                };
                Ok(Judgement::Asks(Box::new(asked)))
            }
        }
    }

    /// What the sandbox would do to a command that a person approves. Reads the disk.
    fn sandbox_effects(&self, access: &Access) -> Vec<SandboxEffect> {
        let Access::Command(command) = access else { return Vec::new() };
        let (Some(sandbox), Some(level)) = (&self.confining, self.policy.confined.level) else {
            return Vec::new();
        };
        if command.command_line.outside_sandbox || self.policy.sandbox == SandboxMode::Off {
            return Vec::new();
        }
        let confinement = sandbox.outline(level, command.workspace.real_roots());
        sandbox_effects::effects(command.analysis(), &confinement, sandbox.writable())
    }

    /// What confines a command. The first one waits until that is known.
    async fn confined(&self) -> Confined {
        match &self.confining {
            Some(sandbox) if self.policy.sandbox != SandboxMode::Off => {
                let outcome = sandbox.outcome().await;
                Confined { level: outcome.level, why: outcome.fault() }
            }
            _ => self.policy.confined.clone(),
        }
    }

    /// The existing path most similar to `path`, which does not exist, if one is close enough
    /// and not hidden.
    pub(crate) async fn similar(&self, path: PathBuf) -> Option<PathBuf> {
        let permissions = self.clone();
        let find = move || {
            let permissions = permissions.current();
            let target = permissions.workspace.resolve(&path).ok()?;
            target.similar(|path| permissions.hides_name(path))
        };
        RESOLVING.run(find).await.ok()?
    }

    /// Opens what the request leads to.
    fn open(&self, tool: &str, access_request: AccessRequest) -> Result<Access, Refusal> {
        let kind = access_request.kind();
        Ok(match access_request {
            AccessRequest::Read(path) => Access::Read(Arc::new(self.found(tool, kind, &path)?)),
            AccessRequest::Search(path) => {
                let target = self.found(tool, kind, &path)?;
                let limits = SearchLimits::new(tool, &self.policy, target.real_path());
                Access::Search(SearchScope::new(target, self.excluded.clone(), limits))
            }
            AccessRequest::Write(path) => Access::Write(Arc::new(self.found(tool, kind, &path)?)),
            AccessRequest::Command { line, directory, outside_sandbox, lacked } => {
                let real = self.workspace.resolve(&directory);
                let real_directory =
                    real.map_or_else(|_| directory.clone(), |real| real.real_path().to_owned());
                let command_line =
                    CommandLine { line, directory, real_directory, outside_sandbox, lacked };
                Access::Command(Box::new(self.open_command(tool, command_line)))
            }
            AccessRequest::Named(name) => Access::Named(name),
            AccessRequest::Fetch(page) => Access::Fetch(page),
            AccessRequest::WebSearch(query) => Access::WebSearch(query),
            AccessRequest::Mcp(call) => Access::Mcp(call),
            AccessRequest::Consent => Access::Consent,
            AccessRequest::Nothing => Access::Nothing,
        })
    }

    /// Finds what the path leads to. Where nothing has its name, the one existing name that looks
    /// the same is taken, if the policy says the same of both: a name that looks like another must
    /// not be a way around a rule for either.
    fn found(&self, tool: &str, kind: AccessKind, path: &Path) -> Result<Target, Refusal> {
        let is_file = kind == AccessKind::Edit;
        let resolve = |path: &Path| {
            let target = if is_file { self.resolve_file(path)? } else { self.resolve(path)? };
            self.not_denied(tool, kind, target)
        };
        let given = resolve(path)?;
        let Some(twin) = self.twin_of(&given) else { return Ok(given) };
        if is_file && !twin.is_meant {
            return Ok(given.with_name_match(NameMatch::Beside(twin.path)));
        }
        let mut found = resolve(&twin.path).ok();
        // Further names may be missing, each of which may have a twin.
        while let Some(next) = found.as_ref().and_then(|target| self.twin_of(target)) {
            if is_file && !next.is_meant {
                break;
            }
            found = resolve(&next.path).ok();
        }
        let exists = |target: &Target| is_file || !target.is_missing();
        let is_judged_alike = |target: &Target| {
            let verdicts = [&given, target].map(|target| self.verdict_on(tool, kind, target));
            matches!(
                verdicts,
                [PolicyVerdict::Allow(_), PolicyVerdict::Allow(_)]
                    | [PolicyVerdict::Ask { .. }, PolicyVerdict::Ask { .. }]
            )
        };
        match found.filter(|target| exists(target) && is_judged_alike(target)) {
            Some(target) => {
                let given = given.path().to_owned();
                Ok(target.with_name_match(NameMatch::GivenAs(given)))
            }
            None if is_file => Ok(given.with_name_match(NameMatch::Beside(twin.path))),
            None => Ok(given),
        }
    }

    /// The existing name that looks like the first missing one of the target, if nothing hides it.
    fn twin_of(&self, target: &Target) -> Option<NameTwin> {
        target.twin(|path| self.hides_name(path))
    }

    /// Whether no answer tells that there is such a name. It may be that of a directory, which some
    /// rules are for alone.
    fn hides_name(&self, path: &Path) -> bool {
        let hides = |is_directory| self.policy.hides("Read", path, is_directory);
        self.excluded.covers(path) || hides(false) || hides(true)
    }

    /// What the policy says of a file or directory that is read or written.
    fn verdict_on(&self, tool: &str, kind: AccessKind, target: &Target) -> PolicyVerdict {
        let path = self.reached(target);
        let effect = match kind {
            AccessKind::Edit => AccessEffect::Write { path, names: target.names() },
            _ => AccessEffect::Read(path),
        };
        self.policy.judge(tool, effect)
    }

    /// The path that a call gives and that does not exist, with the one that looks the same and is
    /// reached in its place.
    pub(crate) async fn real_name(
        &self,
        tool: &str,
        access_request: AccessRequest,
    ) -> Option<(PathBuf, PathBuf)> {
        let tool = tool.to_owned();
        let look = move |current: Self| {
            let current = current.with_readable_for(&access_request);
            let (AccessRequest::Read(path)
            | AccessRequest::Search(path)
            | AccessRequest::Write(path)) = &access_request
            else {
                return Ok(None);
            };
            let found = current.found(&tool, access_request.kind(), path)?;
            Ok(match found.name_match() {
                Some(NameMatch::GivenAs(given)) => Some((given.clone(), found.path().to_owned())),
                _ => None,
            })
        };
        self.clone().with_current(look).await.ok()?
    }

    /// Opens a file of the session's own that the request wants to read, or its plan; `None` if it
    /// is about something else.
    fn open_session_file(
        &self,
        tool: &str,
        access_request: &AccessRequest,
    ) -> Option<Result<Access, Refusal>> {
        let (AccessRequest::Read(path) | AccessRequest::Search(path) | AccessRequest::Write(path)) =
            access_request
        else {
            return None;
        };
        if self.session_files.iter().any(|files| files.is_plan(path)) {
            return Some(self.open_plan(tool, path, access_request));
        }
        if let AccessRequest::Write(_) = access_request {
            return None;
        }
        let files = self.session_files.iter().find(|files| files.is_own(path))?;
        let opened = files
            .locate(path)
            .and_then(|(directory, _)| Target::in_directory(path, directory.into()));
        let opened = opened.map(|target| access_to(target, access_request));
        Some(opened.map_err(|error| Refusal::Path(error.to_string())))
    }

    /// Opens the plan of the session. Deny rules hold for it, and nothing else.
    fn open_plan(
        &self,
        tool: &str,
        path: &Path,
        access_request: &AccessRequest,
    ) -> Result<Access, Refusal> {
        // That of a session which this one goes on from is not its own.
        let own = self.session_files.first().filter(|files| files.is_plan(path));
        let Some(own) = own else {
            let plan = self.session_files.first().map(|files| files.plan_path());
            let plan = plan.unwrap_or_default();
            let plan = plan.display();
            return Err(Refusal::Policy(format!("the plan of this session is {plan}")));
        };
        let target = own.open_plan(matches!(access_request, AccessRequest::Write(_)));
        let target = target.map_err(|error| Refusal::Path(error.to_string()))?;
        let access = access_to(target, access_request);
        match self.policy.denies(tool, self.effect_of(&access)) {
            Some(message) => Err(Refusal::Policy(message)),
            None => Ok(access),
        }
    }

    fn open_command(&self, tool: &str, command_line: CommandLine) -> OpenedCommand {
        let is_own_state = |path: &Path, target: Option<&Target>| {
            let is_it = |target| self.excluded.covers_target(target, &self.workspace);
            self.excluded.covers(path) || target.is_some_and(is_it)
        };
        let surroundings = Surroundings {
            workspace: &self.workspace,
            roots: &self.policy.roots,
            is_own_state: &is_own_state,
            search_path: &self.search_path,
            writable: self.confining.as_ref().map_or(&[], processes::sandbox::Sandbox::writable),
        };
        let mut opened = OpenedCommand::open(command_line, surroundings);
        let denied = |kind| denied_files(&self.policy, tool, kind).collect::<Vec<_>>();
        let by_kind =
            [AccessKind::Read, AccessKind::Edit].map(|kind| LazyCell::new(move || denied(kind)));
        for file in opened.files_mut() {
            let denied = &by_kind[usize::from(file.is_written())];
            let rule = denied.iter().find(|(id, _)| file.id == Some(*id));
            file.denied_by = rule.map(|(_, rule)| (*rule).clone());
        }
        let policy = &self.policy;
        // The walks take milliseconds.
        match policy.confined.level {
            Some(Level::Landlock) => {
                let shows = |path: &Path| {
                    policy.hides(tool, path, false) || policy.keeps_secret(tool, path)
                };
                opened.expose(shows);
            }
            Some(Level::Bwrap) => {
                let is_secret = |path: &Path| {
                    policy.keeps_secret(tool, path) && !policy.hides(tool, path, false)
                };
                opened.mask(is_secret, || self.secret_files.below(&policy.roots));
                opened.look_for_unseen(|| self.secret_files.is_cut(&policy.roots));
                if policy.auto_allow {
                    opened.cannot_hold(unheld_rule(policy));
                }
            }
            None => {}
        }
        opened
    }

    /// Refuses a file that a rule without a wildcard denies, whatever path led to it: a hard link
    /// and a bind mount give it another one.
    fn not_denied(&self, tool: &str, kind: AccessKind, target: Target) -> Result<Target, Refusal> {
        let is_it = |id: FileId| {
            target.metadata().is_ok_and(|metadata| FileId::from_metadata(&metadata) == id)
        };
        match denied_files(&self.policy, tool, kind).find(|(id, _)| is_it(*id)) {
            Some((_, rule)) => Err(Refusal::Policy(denied_by(rule, tool))),
            None => Ok(target),
        }
    }

    /// What the policy has to know of an opened access.
    fn effect_of<'a>(&self, access: &'a Access) -> AccessEffect<'a> {
        match access {
            Access::Read(target) => AccessEffect::Read(self.reached(target)),
            Access::Search(scope) => AccessEffect::Read(self.reached(scope.target())),
            Access::Write(target) => {
                AccessEffect::Write { path: self.reached(target), names: target.names() }
            }
            Access::Command(command) => AccessEffect::Command(command.analysis()),
            Access::Named(name) => AccessEffect::Named(name),
            Access::Fetch(page) => AccessEffect::Fetch(page),
            Access::WebSearch(_) => AccessEffect::WebSearch,
            Access::Mcp(call) => {
                AccessEffect::Mcp { server: &call.server, is_read_only: call.is_read_only }
            }
            Access::Consent => AccessEffect::Consent,
            Access::Nothing => AccessEffect::Nothing,
        }
    }

    fn reached<'a>(&self, target: &'a Target) -> ReachedPath<'a> {
        let (asked, real) = (target.path(), target.real_path());
        let below_roots = [asked, real].map(|path| self.workspace.below_root(path));
        let is_directory = target.metadata().is_ok_and(|metadata| metadata.is_dir());
        let is_outside = self.policy.roots.below(real).is_none();
        ReachedPath { asked, real, below_roots, is_directory, is_outside }
    }

    fn resolve_file(&self, path: &Path) -> Result<Target, Refusal> {
        let target = self.resolve(path)?;
        if names_directory(path) && target.is_missing() {
            return Err(Refusal::Path(format!(
                "{} ends in a slash, so it is the name of a directory; give that of a file",
                path.display()
            )));
        }
        Ok(target)
    }

    /// Finds what the path leads to, inside the workspace or outside.
    fn resolve(&self, path: &Path) -> Result<Target, Refusal> {
        let target = match self.workspace.resolve(path) {
            Ok(target) => target,
            Err(error @ ResolveError::Outside { .. }) => self.resolve_outside(path, &error)?,
            Err(error @ ResolveError::Magic(_)) => return Err(Refusal::Policy(error.to_string())),
            Err(error) => return Err(Refusal::Path(error.to_string())),
        };
        if self.excluded.covers(path) || self.excluded.covers_target(&target, &self.workspace) {
            return Err(state_directory(path));
        }
        Ok(target)
    }

    /// What cannot be opened there is refused in the same words, whatever is in the way: nobody
    /// has allowed the model to look.
    fn resolve_outside(&self, path: &Path, error: &ResolveError) -> Result<Target, Refusal> {
        if let ResolveError::Outside { leads_to, .. } = error
            && self.excluded.covers(leads_to)
        {
            return Err(state_directory(path));
        }
        let refused = || Refusal::Policy(format!("{error}, at a place that file tools do not use"));
        let target = Workspace::resolve_outside(path).map_err(|_| refused())?;
        let is_of_kernel =
            KERNEL_DIRECTORIES.iter().any(|kernel| target.real_path().starts_with(kernel));
        if is_of_kernel { Err(refused()) } else { Ok(target) }
    }
}

/// The files that rules without a wildcard deny the tool, with the rules. Reads the
/// disk.
/// The text of a rule that denies to change what no mount can hold: files of a pattern, or something
/// that is not there. Reads the disk.
fn unheld_rule(policy: &Policy) -> Option<String> {
    let (whole, other) = policy.rules.whole_denied_paths(&policy.roots);
    let missing = || whole.iter().find(|(path, _)| !path.exists()).map(|(_, rule)| *rule);
    other.or_else(missing).map(|rule| rule.text.clone())
}

fn denied_files<'a>(
    policy: &'a Policy,
    tool: &'a str,
    kind: AccessKind,
) -> impl Iterator<Item = (FileId, &'a RuleOrigin)> {
    let denied = policy.rules.denied_paths(tool, kind, &policy.roots);
    denied.filter_map(|(path, rule)| {
        let metadata = fs::metadata(path).ok()?;
        Some((FileId::from_metadata(&metadata), rule))
    })
}

/// Says what commands of a session have left, and which were interrupted before anybody had looked
/// at what they left. `None`: nothing that a person has not answered about. Reads the disk.
fn left_behind(files: &SessionFiles) -> Option<String> {
    let finds = files.unanswered_finds();
    let left = (!finds.is_empty()).then(|| format!("an earlier command left {}", finds.join("; ")));
    let said: Vec<String> = left.into_iter().chain(files.interrupted_commands()).collect();
    (!said.is_empty()).then(|| said.join("; and "))
}

/// Why a command asks, with what earlier ones have left.
fn with_finds(why: Option<String>, left_behind: Option<&str>) -> Option<String> {
    let Some(left_behind) = left_behind else { return why };
    let also = why.map(|why| format!("{why}; and ")).unwrap_or_default();
    Some(format!("{also}{left_behind}. Until you answer, `auto_allow` does not count"))
}

fn state_directory(path: &Path) -> Refusal {
    Refusal::Policy(format!(
        "{} is in the server's own state directory, which file tools touch in no mode",
        path.display()
    ))
}

/// The directories that the patterns of rules count from.
fn pattern_roots(workspace: &Workspace, home: PathBuf) -> PatternRoots {
    PatternRoots { home, roots: workspace.real_roots().map(Path::to_owned).collect() }
}

/// One file, for what the request wants with it.
fn access_to(target: Target, access_request: &AccessRequest) -> Access {
    match access_request {
        AccessRequest::Search(_) => Access::Search(SearchScope::of_one_file(target)),
        AccessRequest::Write(_) => Access::Write(Arc::new(target)),
        _ => Access::Read(Arc::new(target)),
    }
}

impl Permit {
    fn new(access: Access) -> Self {
        Self {
            access,
            approved_contents: None,
            choice: None,
            unasked: Unasked::default(),
            is_by_sandbox_alone: false,
        }
    }

    /// The permit of a call that nobody is asked about.
    fn unasked(access: Access, unasked: Unasked) -> Self {
        let command = match &access {
            Access::Command(command) => Some(command),
            _ => None,
        };
        let reads_git = command.is_some_and(|command| command.reads_git());
        let reads_only = command.is_some() && unasked.reads_only;
        Self { unasked: Unasked { reads_only, reads_git, ..unasked }, ..Self::new(access) }
    }

    fn by_sandbox_alone(self, is_by_sandbox_alone: bool) -> Self {
        Self { is_by_sandbox_alone, ..self }
    }

    /// Whether nothing but the sandbox lets the command run, so that it must hold everything.
    pub(crate) fn is_by_sandbox_alone(&self) -> bool {
        self.is_by_sandbox_alone
    }

    /// The permit of a command that a person has approved, though by now nothing asks about it: it
    /// runs with all that a person's approval gives. `effect` is what the person was shown.
    pub(crate) fn approved_as(self, tool: &str, arguments: &Value, effect: &EffectDigest) -> Self {
        let is_command = matches!(self.access, Access::Command(_));
        if is_command && exact_effect(tool, &self.access, arguments, None) == *effect {
            return Self::new(self.access);
        }
        self
    }

    /// Whether the command must be confined to reading.
    pub(crate) fn reads_only(&self) -> bool {
        self.unasked.reads_only
    }

    /// Whether files that may hold secrets must be hidden from the command.
    pub(crate) fn is_unapproved(&self) -> bool {
        self.unasked.unapproved
    }

    /// What becomes of the same command when it comes again because it lacked this.
    pub(crate) fn second_run(&self, lacked: Lacked) -> SecondRun {
        self.unasked.second_runs.after(lacked)
    }

    /// Whether git must run nothing that the repository names.
    pub(crate) fn reads_git(&self) -> bool {
        self.unasked.reads_git
    }

    /// The place of the choice that a person has made among those of the call's own.
    pub(crate) fn choice(&self) -> Option<usize> {
        self.choice.map(usize::from)
    }

    /// The contents that a person has seen and approved.
    pub(crate) fn approved_contents(&self) -> Option<&ContentState> {
        self.approved_contents.as_ref()
    }

    /// The permit of a call that offered choices of its own, of which a person has made this.
    pub(crate) fn by_choice(self, choice: Option<usize>) -> Self {
        let choice = choice.and_then(|place| u8::try_from(place).ok());
        Self { choice, ..self }
    }

    /// Whether the access may change something outside the session.
    pub(crate) fn may_change(&self) -> bool {
        match &self.access {
            Access::Write(_) | Access::Command(_) | Access::Named(_) => true,
            Access::Mcp(access) => !access.is_read_only,
            Access::Read(_)
            | Access::Search(_)
            | Access::Fetch(_)
            | Access::WebSearch(_)
            | Access::Consent
            | Access::Nothing => false,
        }
    }

    /// The permitted file or directory, if the access is to one.
    pub(crate) fn target(&self) -> Option<&Target> {
        match &self.access {
            Access::Read(target) | Access::Write(target) => Some(target),
            Access::Search(scope) => Some(scope.target()),
            _ => None,
        }
    }

    /// The permitted scope of a search.
    pub(crate) fn into_search(self) -> Option<SearchScope> {
        match self.access {
            Access::Search(scope) => Some(scope),
            _ => None,
        }
    }

    /// The permitted file, owned, so that it can move to a thread that may block. With it come
    /// the contents that a person approved an edit of: no others may be replaced.
    pub(crate) fn into_target(self) -> Option<(Arc<Target>, Option<ContentState>)> {
        match self.access {
            Access::Read(target) | Access::Write(target) => Some((target, self.approved_contents)),
            _ => None,
        }
    }

    /// The permitted name, if the access is to what has one.
    pub(crate) fn into_name(self) -> Option<String> {
        match self.access {
            Access::Named(name) => Some(name),
            _ => None,
        }
    }

    /// The permitted page, if the access is to one.
    pub(crate) fn into_page(self) -> Option<PageUrl> {
        match self.access {
            Access::Fetch(page) => Some(page),
            _ => None,
        }
    }

    /// The permitted query of a search engine, if the access is to one.
    pub(crate) fn into_web_search(self) -> Option<String> {
        match self.access {
            Access::WebSearch(query) => Some(query),
            _ => None,
        }
    }

    /// The permitted use of an MCP server, if the access is to one.
    pub(crate) fn into_mcp(self) -> Option<McpAccess> {
        match self.access {
            Access::Mcp(access) => Some(access),
            _ => None,
        }
    }

    pub(crate) fn command(&self) -> Option<&OpenedCommand> {
        match &self.access {
            Access::Command(command) => Some(command),
            _ => None,
        }
    }
}

impl FromStr for SandboxMode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "auto" => Ok(Self::Auto),
            "required" => Ok(Self::Required),
            "off" => Ok(Self::Off),
            _ => {
                Err(format!("{name:?} is no sandbox mode: it is \"auto\", \"required\" or \"off\""))
            }
        }
    }
}

#[cfg(test)]
impl Permit {
    pub(crate) fn for_test(access: Access) -> Self {
        Self::new(access)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use insta::assert_snapshot;

    use super::*;

    const KNOWN: [KnownTool<'_>; 4] = [
        KnownTool { name: "Read", aliases: &[], access: AccessKind::Read },
        KnownTool { name: "Write", aliases: &[], access: AccessKind::Edit },
        KnownTool { name: "Preview", aliases: &[], access: AccessKind::Read },
        KnownTool { name: "Bash", aliases: &[], access: AccessKind::Command },
    ];

    /// A workspace `ws` with the state directory inside, and `ws-evil` outside.
    struct Ground(tempfile::TempDir);

    impl Ground {
        fn new() -> Self {
            let ground = Self(tempfile::tempdir().unwrap());
            for directory in ["ws/state", "ws-evil"] {
                fs::create_dir_all(ground.path(directory)).unwrap();
            }
            for file in ["ws/a.txt", "ws/state/keys.toml", "ws-evil/x"] {
                fs::write(ground.path(file), "x").unwrap();
            }
            ground
        }

        fn path(&self, relative: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(relative)
        }

        fn permissions(&self, mode: Mode) -> Permissions {
            let settings = PermissionSettings { mode, ..PermissionSettings::default() };
            let workspace = Arc::new(Workspace::open(vec![self.path("ws")]).unwrap());
            let state = self.path("ws/state");
            Permissions::new(
                &settings,
                &KNOWN,
                SandboxMode::Auto,
                workspace,
                ExcludedPaths::below(&state),
            )
            .unwrap()
        }

        async fn refusal(&self, tool: &str, access_request: AccessRequest) -> String {
            let permissions = self.permissions(Mode::BypassPermissions);
            let kind = access_request.kind();
            let refusal = permissions.judge(tool, kind, access_request, &Grants::default()).await;
            let refusal = refusal.unwrap_err().to_string();
            refusal.replace(self.path("").to_str().unwrap().trim_end_matches('/'), "$GROUND")
        }
    }

    #[tokio::test]
    async fn a_permit_holds_what_was_judged() {
        let ground = Ground::new();
        let permissions = ground.permissions(Mode::Plan);

        let read = AccessRequest::Read(ground.path("ws/a.txt"));
        let judged =
            permissions.judge("Read", AccessKind::Read, read, &Grants::default()).await.unwrap();

        let Judgement::Permitted(permit) = judged else { panic!("{judged:?}") };
        assert_eq!(permit.target().unwrap().real_path(), ground.path("ws/a.txt"));
    }

    #[tokio::test]
    async fn t7_t22_what_lies_outside_is_asked_about_with_the_place_it_leads_to() {
        let ground = Ground::new();
        symlink(ground.path("ws-evil"), ground.path("ws/link")).unwrap();
        symlink(ground.path("ws-evil"), ground.path("also")).unwrap();
        let permissions = ground.permissions(Mode::BypassPermissions);
        for (path, real) in [
            ("ws-evil/x", "ws-evil/x"),
            ("ws/link/x", "ws-evil/x"),
            ("also/x", "ws-evil/x"),
            ("ws/link/new", "ws-evil/new"),
        ] {
            let request = AccessRequest::Write(ground.path(path));
            let grants = Grants::default();
            let judged = permissions.judge("Write", AccessKind::Edit, request, &grants).await;
            let Ok(Judgement::Asks(asked)) = judged else { panic!("{path}") };
            assert_eq!(asked.target().unwrap().real_path(), ground.path(real));
            let why = asked.why().unwrap_or_default();
            assert!(why.contains(ground.path(real).to_str().unwrap()), "{why}");
        }
    }

    #[tokio::test]
    async fn t11_what_the_kernel_shows_as_files_is_refused_in_every_mode() {
        let ground = Ground::new();
        symlink("/proc/self", ground.path("ws/me")).unwrap();
        for path in ["/proc/self/environ", "/proc/1/root/etc/passwd", "/sys/kernel", "/dev/zero"] {
            let refused = ground.refusal("Read", AccessRequest::Read(path.into())).await;
            assert!(refused.contains("outside the workspace"), "{refused}");
        }
        let through = ground.refusal("Read", AccessRequest::Read(ground.path("ws/me/environ")));
        assert!(through.await.contains("outside the workspace"));
    }

    #[tokio::test]
    async fn the_state_directory_is_denied_by_whatever_name() {
        let ground = Ground::new();
        symlink("state", ground.path("ws/link")).unwrap();

        let by_name =
            ground.refusal("Read", AccessRequest::Read(ground.path("ws/state/keys.toml"))).await;
        let by_link =
            ground.refusal("Write", AccessRequest::Write(ground.path("ws/link/new"))).await;
        let itself = ground.refusal("Grep", AccessRequest::Search(ground.path("ws/link"))).await;

        assert_snapshot!(by_name, @"$GROUND/ws/state/keys.toml is in the server's own state directory, which file tools touch in no mode");
        assert_snapshot!(by_link, @"$GROUND/ws/link/new is in the server's own state directory, which file tools touch in no mode");
        assert_snapshot!(itself, @"$GROUND/ws/link is in the server's own state directory, which file tools touch in no mode");
    }

    #[tokio::test]
    async fn a_search_from_above_learns_what_to_leave_out() {
        let ground = Ground::new();
        let permissions = ground.permissions(Mode::Default);

        let search = AccessRequest::Search(ground.path("ws"));
        let judged = permissions.judge("Read", AccessKind::Read, search, &Grants::default()).await;
        assert!(matches!(judged, Ok(Judgement::Permitted(_))));
    }

    #[tokio::test]
    async fn a_denied_tool_is_named_so_that_it_is_not_offered() {
        let ground = Ground::new();
        let workspace = Arc::clone(ground.permissions(Mode::Default).workspace());
        let settings =
            PermissionSettings { deny: vec!["Read".to_owned()], ..PermissionSettings::default() };

        let permissions = Permissions::new(
            &settings,
            &KNOWN,
            SandboxMode::Auto,
            workspace,
            ExcludedPaths::none(),
        );

        let denied = permissions.unwrap().denied_tools();
        let names = KNOWN.into_iter().filter(|tool| denied.contains(*tool)).map(|tool| tool.name);
        assert_eq!(names.collect::<Vec<_>>(), ["Read", "Write", "Preview"]);
    }

    #[tokio::test]
    async fn a_tool_that_hides_what_it_does_is_refused() {
        let ground = Ground::new();
        let permissions = ground.permissions(Mode::BypassPermissions);
        let read = || AccessRequest::Read(ground.path("ws/a.txt"));

        let grants = Grants::default();
        let refusal =
            permissions.judge("Peek", AccessKind::None, read(), &grants).await.unwrap_err();

        assert_snapshot!(refusal, @"Peek declares access of the kind None and this call has the kind Read; this is a bug of the server");
        assert!(permissions.judge("Peek", AccessKind::Read, read(), &grants).await.is_ok());
    }
}
