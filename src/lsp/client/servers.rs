//! The language servers of all workspaces, for the tools.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use futures::stream;
use tokio::time::{Instant, timeout_at};

use super::after_change::AfterChange;
use super::detection::{DetectedServer, Detection, Surroundings, is_of_a_language};
use super::detection_cache::DetectionCache;
use super::documents::Document;
use super::launcher::Launcher;
use super::openings::Openings;
use super::pool::{Lease, MAX_RUNNING, Phase, Pool, ServerKey, Times};
use super::positions::LineColumn;
use super::presence::Presence;
use super::program::ServerProgram;
use super::projects::{Project, projects};
use super::questions::Operation;
use super::report::{ReportedServer, ServerReport, ServerState};
use super::session::{Answer, Question};
use super::source::{self, ReadRules, Reread};
use super::start_rule::{
    Circumstances, LspConfinement, SandboxHere, may_start, without_code_of_the_repository,
};
use crate::blocking::FILES;
use crate::lsp::settings::LspSettings;
use crate::processes::Runner;
use crate::processes::sandbox::Sandbox;
use crate::settings_files::SettingsFiles;
use crate::sync;
use crate::trust::TrustState;
use crate::workspace::Workspace;

/// Files that were changed and are not open yet. A model that changes more has its server by then.
const MAX_CHANGED: usize = 1_000;

/// What language servers need of the rest of the program.
#[derive(Debug)]
pub(crate) struct LanguageServices {
    pub(crate) runner: Runner,
    pub(crate) sandbox: Sandbox,
    pub(crate) is_sandbox_required: bool,
    /// They know which workspaces are trusted.
    pub(crate) settings_files: Arc<SettingsFiles>,
    /// Where programs are looked for.
    pub(crate) search_path: OsString,
}

#[derive(Debug)]
pub(crate) struct LanguageServers {
    settings: LspSettings,
    services: LanguageServices,
    detections: DetectionCache,
    presence: Presence,
    pool: Pool,
    openings: Mutex<Openings>,
    /// Files that were changed before their server was ready, and are not open there yet.
    changed: Mutex<HashSet<PathBuf>>,
}

/// What a model wants to know.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) operation: Operation,
    pub(crate) document: Option<Document>,
    pub(crate) place: Option<LineColumn>,
    pub(crate) query: String,
    /// Whoever asks may see some files.
    pub(crate) rules: Arc<dyn ReadRules>,
}

/// The answers of the servers that were asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Answers {
    pub(crate) answers: Vec<Answer>,
    /// Why other servers have not answered, each in a sentence.
    pub(crate) faults: Vec<String>,
}

/// A server that may start, for a file or a whole workspace.
#[derive(Clone, Debug)]
struct Chosen {
    key: ServerKey,
    program: ServerProgram,
    language: String,
}

impl LanguageServers {
    pub(crate) fn new(settings: &LspSettings, services: LanguageServices) -> Arc<Self> {
        let times =
            Times { idle: settings.idle, start: settings.start_timeout, answer: settings.timeout };
        let launcher = Launcher::new(services.runner.clone(), services.sandbox.clone());
        let pool = Pool::new(Arc::new(launcher), times);
        Arc::new(Self {
            settings: settings.clone(),
            services,
            detections: DetectionCache::default(),
            presence: Presence::default(),
            pool,
            openings: Mutex::default(),
            changed: Mutex::default(),
        })
    }

    /// Ends all servers.
    pub(crate) fn end(&self) {
        sync::lock(&self.openings).give_up();
        self.pool.end();
    }

    /// Whether a server is there that may start in this workspace, and may be of use there.
    pub(crate) async fn is_offered(self: &Arc<Self>, workspace: &Arc<Workspace>) -> bool {
        let (detection, is_trusted) = self.look(workspace).await;
        let mut servers = Vec::new();
        for server in &detection.servers {
            if self.confinement(server, workspace, is_trusted).await.is_ok() {
                servers.push(server.clone());
            }
        }
        if servers.is_empty() || servers.iter().any(|server| server.is_configured) {
            return !servers.is_empty();
        }
        let roots = workspace.real_roots().map(Path::to_owned).collect();
        let this = Arc::clone(self);
        let look = move || this.presence.may_be_of_use(roots, &servers);
        FILES.run(look).await.unwrap_or(true)
    }

    /// What there is, and what it does, for people.
    pub(crate) async fn report(self: &Arc<Self>, workspace: &Arc<Workspace>) -> ServerReport {
        let (detection, is_trusted) = self.look(workspace).await;
        let mut phases = self.pool.phases();
        phases.sort_by(|(one, _), (other, _)| one.root.cmp(&other.root));
        let mut report =
            ServerReport { faults: detection.faults.clone(), ..ServerReport::default() };
        let roots: Vec<PathBuf> = workspace.real_roots().map(Path::to_owned).collect();
        for server in &detection.servers {
            let rule = self.confinement(server, workspace, is_trusted).await;
            let its = |key: &ServerKey| key.name == server.name;
            let running = phases.iter().filter(|(key, _)| its(key) && key.workspace == roots);
            let of = |root: Option<&Path>, state: ServerState| ReportedServer {
                name: server.name.clone(),
                program: server.program.clone(),
                root: root.map(Path::to_owned),
                state,
            };
            let idle = match rule {
                Err(why) => {
                    report.servers.push(of(None, ServerState::Off(why)));
                    continue;
                }
                Ok(rule) => ServerState::OnDemand { is_confined: rule == LspConfinement::Confined },
            };
            let states =
                running.filter_map(|(key, phase)| Some(of(Some(&key.root), state(phase)?)));
            let states: Vec<ReportedServer> = states.collect();
            let is_idle = states.is_empty();
            report.servers.extend(states);
            report.servers.extend(is_idle.then(|| of(None, idle)));
        }
        report
    }

    /// Asks the server for the file; without one, every server that has a project in the
    /// workspace. An error says why none has answered.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        workspace: &Arc<Workspace>,
        ask: Ask,
    ) -> Result<Answers, String> {
        let path = ask.document.as_ref().map(|document| document.path.as_path());
        let chosen = match path {
            Some(path) => {
                let chosen = self.for_file(workspace, path).await?;
                vec![Ok(chosen.ok_or_else(|| no_server(path))?)]
            }
            None => self.for_workspace(workspace).await?,
        };
        let asked = chosen.into_iter().map(|chosen| async {
            let chosen = chosen?;
            self.ask_one(workspace, &chosen, ask.clone()).await
        });
        // The pool has room for no more at once, and in it the others follow.
        let mut outcomes = stream::iter(asked).buffered(MAX_RUNNING);
        let mut answers = Answers::default();
        while let Some(outcome) = outcomes.next().await {
            match outcome {
                Ok(answer) => answers.answers.push(answer),
                Err(why) => answers.faults.push(why),
            }
        }
        if answers.answers.is_empty() { Err(answers.faults.join("; ")) } else { Ok(answers) }
    }

    async fn ask_one(
        &self,
        workspace: &Arc<Workspace>,
        chosen: &Chosen,
        ask: Ask,
    ) -> Result<Answer, String> {
        let Lease { session, .. } = &self.pool.acquire(&chosen.key, &chosen.program).await?;
        let Ask { operation, document, place, query, rules } = ask;
        let document = document.map(|document| (document, chosen.language.clone()));
        let reread = Reread::Permitted(rules);
        session.ask(&Question { operation, document, place, query, reread }, workspace).await
    }

    /// Starts the server for a file, in the background, and opens the file there.
    pub(crate) fn opened(self: &Arc<Self>, workspace: &Arc<Workspace>, path: &Path) {
        if !self.may_have_server(path) {
            return;
        }
        let file = (workspace.root().to_owned(), path.to_owned());
        let open = || Arc::clone(self).open(Arc::clone(workspace), path.to_owned());
        sync::lock(&self.openings).open(file, open);
    }

    async fn open(self: Arc<Self>, workspace: Arc<Workspace>, path: PathBuf) {
        let Ok(Some(chosen)) = self.for_file(&workspace, &path).await else { return };
        let Ok(lease) = self.pool.acquire(&chosen.key, &chosen.program).await else { return };
        if let Ok(document) = read(&workspace, &path).await {
            let was_changed = sync::lock(&self.changed).remove(&path);
            lease.session.open((document, chosen.language), &workspace, was_changed).await;
        }
    }

    /// The same for a file that was changed. The next change finds the server ready, and is told
    /// what was wrong before it, too: nobody has heard of it.
    fn open_changed(self: &Arc<Self>, workspace: &Arc<Workspace>, path: &Path) {
        let mut changed = sync::lock(&self.changed);
        if MAX_CHANGED <= changed.len() {
            changed.clear();
        }
        changed.insert(path.to_owned());
        drop(changed);
        self.opened(workspace, path);
    }

    /// What a server says of a file that was changed, if one runs. Does not wait for one that is
    /// still starting.
    pub(crate) async fn after_change(
        self: &Arc<Self>,
        workspace: &Arc<Workspace>,
        path: &Path,
    ) -> Option<AfterChange> {
        let budget = self.settings.diagnostics;
        if budget.is_zero() || !self.may_have_server(path) {
            return None;
        }
        if !self.pool.has_ready() {
            self.open_changed(workspace, path);
            return None;
        }
        let deadline = Instant::now() + budget;
        let ready = timeout_at(deadline, self.ready(workspace, path)).await;
        let (lease, chosen, document) = ready.ok()??;
        let server = chosen.key.name;
        let document = (document, chosen.language);
        let found = lease.session.after_change(document, workspace, deadline).await;
        Some(match found {
            Some(findings) => AfterChange::Findings { server, findings },
            None => AfterChange::Pending { server },
        })
    }

    /// The server for a file, if it is initialized, and the file as it is now.
    async fn ready(
        self: &Arc<Self>,
        workspace: &Arc<Workspace>,
        path: &Path,
    ) -> Option<(Lease, Chosen, Document)> {
        let chosen = self.for_file(workspace, path).await.ok()??;
        let Some(lease) = self.pool.ready(&chosen.key) else {
            self.open_changed(workspace, path);
            return None;
        };
        let document = read(workspace, path).await.ok()?;
        Some((lease, chosen, document))
    }

    async fn for_file(
        self: &Arc<Self>,
        workspace: &Arc<Workspace>,
        path: &Path,
    ) -> Result<Option<Chosen>, String> {
        if !self.may_have_server(path) {
            return Ok(None);
        }
        let roots: Vec<PathBuf> = workspace.real_roots().map(Path::to_owned).collect();
        let innermost = roots.iter().filter(|root| path.starts_with(root));
        let innermost = innermost.max_by_key(|root| root.components().count());
        let Some(workspace_root) = innermost.cloned() else { return Ok(None) };
        let (detection, is_trusted) = self.look(workspace).await;
        let Some((server, language)) = detection.server_for(path) else { return Ok(None) };
        let (server, language) = (server.clone(), language.to_owned());
        let (finder, path) = (server.clone(), path.to_owned());
        let root = FILES.run(move || finder.root_of(&path, &workspace_root)).await;
        let root = root.map_err(|error| error.to_string())?;
        self.chosen(&server, language, root, workspace, is_trusted).await.map(Some)
    }

    /// The servers for the projects of the workspace, or why one may not start.
    async fn for_workspace(
        self: &Arc<Self>,
        workspace: &Arc<Workspace>,
    ) -> Result<Vec<Result<Chosen, String>>, String> {
        let (detection, is_trusted) = self.look(workspace).await;
        let roots: Vec<PathBuf> = workspace.real_roots().map(Path::to_owned).collect();
        let find = move || projects(&roots, &detection.servers);
        let projects = FILES.run(find).await.map_err(|error| error.to_string())?;
        if projects.is_empty() {
            return Err(
                "nothing in the workspace tells which language server to ask; name a file \
                        of the language in filePath"
                    .to_owned(),
            );
        }
        let mut chosen = Vec::new();
        for Project { server, root } in projects {
            let language = String::new();
            chosen.push(self.chosen(&server, language, root, workspace, is_trusted).await);
        }
        Ok(chosen)
    }

    async fn chosen(
        &self,
        server: &DetectedServer,
        language: String,
        root: PathBuf,
        workspace: &Arc<Workspace>,
        is_trusted: bool,
    ) -> Result<Chosen, String> {
        let rule = self.confinement(server, workspace, is_trusted).await?;
        let is_confined = rule == LspConfinement::Confined;
        let roots: Vec<PathBuf> = workspace.real_roots().map(Path::to_owned).collect();
        let (name, workspace) = (server.name.clone(), roots.clone());
        let key = ServerKey { name, root: root.clone(), workspace, is_trusted, is_confined };
        let mut settings = server.settings.clone();
        let mut initialization = server.initialization.clone();
        if server.is_rust_analyzer() {
            if !is_trusted {
                initialization = without_code_of_the_repository(&initialization);
            }
            // It asks for its settings by its own name.
            settings = serde_json::json!({ "rust-analyzer": initialization });
        }
        let program = ServerProgram {
            name: server.name.clone(),
            program: server.program.clone(),
            arguments: server.arguments.clone(),
            root,
            roots,
            settings,
            initialization,
            is_confined,
            is_trusted,
        };
        Ok(Chosen { key, program, language })
    }

    async fn confinement(
        &self,
        server: &DetectedServer,
        workspace: &Arc<Workspace>,
        is_trusted: bool,
    ) -> Result<LspConfinement, String> {
        let sandbox = match self.services.sandbox.level().await {
            Some(_) => SandboxHere::Holds,
            None if self.services.is_sandbox_required => SandboxHere::NoneButRequired,
            None => SandboxHere::None,
        };
        let circumstances = Circumstances {
            workspace: workspace.root(),
            sandbox,
            is_trusted,
            is_configured: server.is_configured,
        };
        may_start(circumstances).map_err(|why| format!("{} {why}", server.name))
    }

    /// Whether there could be a server for a file. Most files are of no language, and so cost
    /// nothing more. Reads nothing.
    fn may_have_server(&self, path: &Path) -> bool {
        !self.settings.is_off() && is_of_a_language(&self.settings, path)
    }

    /// Reads the disk.
    fn detect(&self, workspace: &Workspace) -> Arc<Detection> {
        if self.settings.is_off() {
            return Arc::default();
        }
        let roots: Vec<PathBuf> = workspace.real_roots().map(Path::to_owned).collect();
        let search_path = &self.services.search_path;
        self.detections.detection(&self.settings, Surroundings { search_path, roots: &roots })
    }

    /// The servers that there are, and whether the workspace is trusted.
    async fn look(self: &Arc<Self>, workspace: &Arc<Workspace>) -> (Arc<Detection>, bool) {
        let (servers, workspace) = (Arc::clone(self), Arc::clone(workspace));
        let look = move || {
            let trust = servers.services.settings_files.trust(&workspace);
            (servers.detect(&workspace), trust == TrustState::Trusted)
        };
        // Where the disk does not answer, there is none.
        FILES.run(look).await.unwrap_or_default()
    }
}

/// What a server that has been started does; `None` if it has been ended since.
fn state(phase: &Phase) -> Option<ServerState> {
    match phase {
        Phase::Starting => Some(ServerState::Starting),
        Phase::Ready(_) => Some(ServerState::Ready),
        Phase::Off(why) => Some(ServerState::Off(format!("it {why}"))),
        Phase::Ended => None,
    }
}

fn no_server(path: &Path) -> String {
    format!("no language server for files like {} is there", path.display())
}

async fn read(workspace: &Arc<Workspace>, path: &Path) -> Result<Document, String> {
    let (workspace, path) = (Arc::clone(workspace), path.to_owned());
    let read = move || source::document(&workspace, &path);
    FILES.run(read).await.map_err(|error| error.to_string())?
}

#[cfg(test)]
mod tests;
