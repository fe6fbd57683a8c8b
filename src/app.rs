//! Builds each service once, and the server from them.

pub(crate) mod api_state;
pub(crate) mod client_keys;
mod languages;
mod open_files;
mod readable;
pub(crate) mod running_server;
pub(crate) mod services;
pub(crate) mod state_dir;
mod state_lock;
pub(crate) mod workspace_servers;
pub(crate) mod workspaces;

use std::cell::OnceCell;
use std::fs;
use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::api_state::api_state;
use self::client_keys::FIRST_KEY;
use self::client_keys::live::LiveKeys;
use self::running_server::{Announcement, RunningServer, StartedBy};
use self::services::Services;
use self::state_dir::{StateDir, StateError};
use crate::api::router;
use crate::api::state::ApiState;
use crate::config::{Config, ConfigError, Loaded, Secrets};
use crate::free_memory;
use crate::http::auth::{Key, Keys};
use crate::http::server::{self, Drain};
use crate::limits::Limits;
use crate::lsp::LanguageServers;
use crate::mcp::McpServers;
use crate::permissions;
use crate::processes;
use crate::processes::confinement::Level;
use crate::processes::sandbox::Sandbox;
use crate::session_files;
use crate::sessions::in_use::BusySessions;
use crate::sessions::session_end::{self, EndedSessions, SessionEndHooks};
use crate::store::Store;
use crate::store::sqlite::{Forgotten, OpenError, SqliteStore};
use crate::tools::tasks::AllTasks;

/// How long the store may take to write all that was committed. A disk that hangs must not keep
/// the server from ending.
const CLOSING_TIME: Duration = Duration::from_secs(5);

/// How long turns without a client may take to record that the server ended them.
const TERMINAL_TIME: Duration = Duration::from_secs(2);

/// A server that has bound its address and does not serve yet.
#[derive(Debug)]
pub(crate) struct Server {
    listener: TcpListener,
    address: SocketAddr,
    api: ApiState,
    key_path: Option<PathBuf>,
    /// `None` if no key is asked for.
    live_keys: Option<Arc<LiveKeys>>,
    config: Config,
    /// Cancelled near the end of the grace: turns that still run end with an error.
    turns_over: CancellationToken,
    /// Removed before the lock is released.
    announcement: Option<Announcement>,
    store: Arc<SqliteStore>,
    /// The sessions that the store forgets. Each has a directory of its own.
    forgotten: Forgotten,
    session_end_hooks: SessionEndHooks,
    mcp: Option<McpServers>,
    languages: Option<Arc<LanguageServers>>,
    sandbox: Sandbox,
    /// Holds the lock that keeps a second server away.
    state: StateDir,
}

/// Why the server cannot start, in one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Setting(#[from] ConfigError),
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error("cannot listen on {address}: {source}{}", remedy(*address, source))]
    Listen { address: SocketAddr, source: io::Error },
}

impl Server {
    /// Builds every service and binds the address.
    pub(crate) async fn bind(loaded: Loaded, state: StateDir) -> Result<Self, StartError> {
        let services = Services::from_config(&loaded)?;
        services.read_definitions();
        let forwarded = api_state::forwarded_routes(&loaded)?;
        let Loaded { config, secrets, environment, file, .. } = loaded;
        let found = live_keys(&config, &secrets, &state)?;
        let (live_keys, key_path) = found.map_or((None, None), |(keys, path)| (Some(keys), path));
        let keys = live_keys.clone().map_or(Keys::NotRequired, |keys| Keys::Changing(keys));
        let listen = config.server.listen;
        let refused = |source| StartError::Listen { address: listen, source };
        let listener = TcpListener::bind(listen).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        services.own_endpoints.listens_on(address);
        let (store, forgotten) = open_store(&config)?;
        clean_up_after_killed_servers().await;
        remove_orphans(&store, state.path()).await;
        let turns_over = CancellationToken::new();
        let shared: Arc<dyn Store> = store.clone();
        let api =
            api_state(&config, &services, forwarded, keys, shared, address, turns_over.clone());
        warn_of_dangers(&config, file.as_deref(), &environment.home());
        let announcement = None;
        Ok(Self {
            listener,
            address,
            api,
            key_path,
            live_keys,
            config,
            turns_over,
            announcement,
            store,
            forgotten,
            session_end_hooks: session_end_hooks(&services),
            mcp: services.mcp,
            languages: services.languages,
            sandbox: services.sandbox,
            state,
        })
    }

    /// Writes `server.json`, by which `ask` and `check` find this server until it stops.
    pub(crate) fn announce(&mut self, started_by: StartedBy) {
        let server = RunningServer::this_process(self.address, started_by);
        match server.and_then(|server| Announcement::publish(&server, &self.state)) {
            Ok(announcement) => self.announcement = Some(announcement),
            Err(error) => tracing::warn!(
                %error,
                "server.json cannot be written: `toolhand ask` finds this server with --server only"
            ),
        }
    }

    /// The address it listens on, with the real port.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The file with the client key, if there is one.
    pub(crate) fn key_path(&self) -> Option<&Path> {
        self.key_path.as_deref()
    }

    /// Serves until `stop` is cancelled. Running turns then have their grace; `draining` is
    /// told how many they are and how long it lasts.
    pub(crate) async fn run(
        mut self,
        stop: CancellationToken,
        draining: impl FnOnce(usize, Duration),
    ) {
        let connections = open_files::room_for(self.config.limits.connections);
        let limits = Arc::new(Limits { connections, ..self.config.limits });
        let grace = self.config.turns.shutdown_grace;
        log_address(self.address);
        // Not before: programs that start would take the processor from our own start.
        if let Some(servers) = &self.mcp {
            servers.start();
        }
        let chat = Arc::clone(&self.api.chat);
        let tasks = Arc::clone(&chat.turns.tasks);
        let running = Arc::downgrade(&chat.turns.running);
        self.store.spare(Arc::new(BusySessions { running, tasks: Arc::clone(&tasks) }));
        let drain = Drain { stop: CancellationToken::new(), grace, turns_over: self.turns_over };
        let announcement = self.announcement.take();
        let stop_accepting = drain.stop.clone();
        let stopped = OnceCell::new();
        // Once the listener is closed, another process may take the address. Nobody may be
        // led there, so the announcement goes first.
        let stopping = async {
            stop.cancelled().await;
            drop(announcement);
            draining(chat.runs.running(), grace);
            let _ = stopped.set(Instant::now());
            stop_accepting.cancel();
            std::future::pending::<()>().await;
        };
        let turns_over = drain.turns_over.clone();
        let serving = async {
            server::run(self.listener, router::router(self.api), limits, drain).await;
            // Turns that go on without a client.
            let left =
                stopped.get().map_or(grace, |at: &Instant| grace.saturating_sub(at.elapsed()));
            chat.turns.running.end(left, &turns_over, TERMINAL_TIME).await;
        };
        let revoking = async {
            match self.live_keys {
                Some(keys) => {
                    keys.watch(|now| stop_servers_of_revoked_keys(self.mcp.as_ref(), now)).await;
                }
                None => std::future::pending().await,
            }
        };
        let giving_memory_back = free_memory::return_while_quiet(
            || chat.runs.running() == 0,
            || chat.turns.running.forget_ended(),
        );
        let (ended, waiting) = session_end::queue();
        let directories = state_dir::sessions(self.state.path());
        let forgetting = remove_forgotten(self.forgotten, ended, (directories, &tasks));
        tokio::select! {
            () = serving => {}
            () = try_sandbox(&self.sandbox) => {}
            () = forgetting => {}
            () = tasks.end_idle(self.config.sessions.idle) => {}
            () = self.session_end_hooks.run(waiting) => {}
            () = processes::watch_orphans() => {}
            () = giving_memory_back => {}
            () = stopping => {}
            () = revoking => {}
        }
        tasks.end_all().await;
        if let Some(servers) = &self.mcp {
            servers.end().await;
        }
        self.languages.iter().for_each(|servers| servers.end());
        processes::end_supervisors().await;
        if tokio::time::timeout(CLOSING_TIME, self.store.close()).await.is_err() {
            tracing::error!("the disk did not take all that the store has to write");
        }
    }
}

fn session_end_hooks(services: &Services) -> SessionEndHooks {
    SessionEndHooks {
        hooks: services.hooks.clone(),
        mode: services.permissions.mode().to_string(),
        main_workspace: Arc::clone(services.permissions.workspace()),
        further_workspaces: services.workspaces.values().cloned().collect(),
    }
}

/// Opens the store. With it come the sessions that it forgets.
fn open_store(config: &Config) -> Result<(Arc<SqliteStore>, Forgotten), OpenError> {
    let settings = config.sessions.store_settings();
    let (store, forgotten) = SqliteStore::open(&config.server.state_dir, settings)?;
    Ok((Arc::new(store), forgotten))
}

/// Kills bubblewraps that a killed server left half started, and removes the control groups of its
/// commands.
async fn clean_up_after_killed_servers() {
    _ = tokio::task::spawn_blocking(processes::remove_abandoned_control_groups).await;
    if let Ok(ended @ 1..) = tokio::task::spawn_blocking(processes::kill_stranded_bubblewraps).await
    {
        tracing::info!(ended, "ended bubblewraps that a killed server had half started");
    }
}

/// Removes the directories of sessions that a server which was killed has left. No session may
/// begin before.
async fn remove_orphans(store: &SqliteStore, state_dir: &Path) {
    let Ok(known) = store.session_ids().await else { return };
    let directory = state_dir.to_owned();
    let remove = move || session_files::remove_orphans(&directory, &known);
    if let Ok(Err(error)) = tokio::task::spawn_blocking(remove).await {
        tracing::warn!(%error, "directories of sessions that are gone could not be removed");
    }
}

/// Finds the level of the sandbox, so that the first command need not wait for it. Never
/// returns.
async fn try_sandbox(sandbox: &Sandbox) {
    let outcome = sandbox.outcome().await;
    if !outcome.trials.is_empty() {
        tracing::info!(level = outcome.level.map_or("none", Level::name), "{}", outcome.sentence());
    }
    std::future::pending::<()>().await;
}

/// Ends the background tasks of forgotten sessions, removes their directories, and passes them
/// on. Never returns.
async fn remove_forgotten(
    mut forgotten: Forgotten,
    ended: EndedSessions,
    (sessions, tasks): (PathBuf, &AllTasks),
) {
    while let Some(session) = forgotten.recv().await {
        ended.push(&session);
        let session = session.id;
        tasks.end_session(&session).await;
        let directory = sessions.join(session.to_string());
        let removed = tokio::task::spawn_blocking(move || fs::remove_dir_all(directory)).await;
        if let Ok(Err(error)) = removed
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%session, %error, "the directory of a forgotten session stays");
        }
    }
    std::future::pending::<()>().await;
}

/// Logs the address, unless the same terminal shows it on stdout already.
fn log_address(address: SocketAddr) {
    if io::stdout().is_terminal() && io::stderr().is_terminal() {
        tracing::debug!(%address, "listening");
    } else {
        tracing::info!(%address, "listening");
    }
}

/// Ends the MCP servers of keys that do not count any more. Turns and tasks of such a key end by
/// its token.
fn stop_servers_of_revoked_keys(servers: Option<&McpServers>, living: &[Key]) {
    if let Some(servers) = servers {
        servers.stop_servers_of_other_keys(|key| {
            living.iter().any(|known| known.client.id.as_str() == key)
        });
    }
}

/// What to do about an address that cannot be had.
fn remedy(address: SocketAddr, error: &io::Error) -> String {
    let ip = match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    };
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!(
                "; stop what uses port {}, or take a free port: --listen {ip}:0",
                address.port()
            )
        }
        io::ErrorKind::PermissionDenied => {
            format!("; take a port from 1024 on, or a free one: --listen {ip}:0")
        }
        io::ErrorKind::AddrNotAvailable => {
            "; no network interface here has this address: --listen 127.0.0.1:8787".to_owned()
        }
        _ => String::new(),
    }
}

/// The keys, and the path of the first one if it is a file.
type FoundKeys = (Arc<LiveKeys>, Option<PathBuf>);

/// The accepted keys: those of `keys.toml`, and the one of the environment or else the one in
/// the state directory, which is returned with its path. `None` if no key is asked for.
fn live_keys(
    config: &Config,
    secrets: &Secrets,
    state: &StateDir,
) -> Result<Option<FoundKeys>, StateError> {
    if !config.auth.required {
        return Ok(None);
    }
    let (secret, path) = if let Some(key) = &secrets.client_key {
        (key.clone(), None)
    } else {
        let kept = state.client_key()?;
        if kept.is_new {
            tracing::info!(path = %kept.path.display(), "made the first client key");
        }
        (kept.key, Some(kept.path))
    };
    let first = Key::from_secret(FIRST_KEY, secret.expose());
    let directory = state.directory().try_clone();
    let directory = directory.map_err(|error| StateError::new(state.path(), error.to_string()))?;
    Ok(Some((Arc::new(LiveKeys::open(state.path(), directory, first)?), path)))
}

/// Warns of dangerous settings at every start.
fn warn_of_dangers(config: &Config, file: Option<&Path>, home: &Path) {
    for warning in workspaces::warnings(config, home) {
        tracing::warn!("{warning}");
    }
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        tracing::warn!("running as root: so does everything the tools do");
    }
    match config.sandbox.mode {
        permissions::SandboxMode::Off if is_root => {
            tracing::error!("the sandbox is off and this is root: a command can do anything here");
        }
        permissions::SandboxMode::Off => {
            tracing::warn!("the sandbox is off: a command can do all that you can");
        }
        permissions::SandboxMode::Auto | permissions::SandboxMode::Required => {}
    }
    let file = file.and_then(|file| file.canonicalize().ok());
    if let Some(file) = file.filter(|file| file.starts_with(&config.server.workspace)) {
        let file = file.display();
        tracing::warn!(%file, "the configuration lies in the workspace, where tools may write");
    }
    if !config.auth.required {
        tracing::warn!("no client key is asked for: everyone on this machine may use the tools");
    }
}
