//! Keeps the servers that run: starts each at its first use, ends those that nobody asks, and
//! restarts those that crash, a few times.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::program::{Launch, ServerProgram};
use super::session::Session;
use crate::sync;

/// Servers at once. Each takes some hundred megabytes.
pub(super) const MAX_RUNNING: usize = 4;

/// The waits before a restart. After as many, a server is off.
const BACKOFF: [Duration; 3] =
    [Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(4)];

/// A server that has run for so long has not crashed for the reason of the time before.
const RECOVERED: Duration = Duration::from_secs(10 * 60);

/// Servers that are off and remembered as such.
const MAX_OFF: usize = 64;

/// Which server it is: what it looks at, and what holds it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ServerKey {
    pub(super) name: String,
    pub(super) root: PathBuf,
    /// The roots of the workspace, outside of which a confined server reaches nothing. A project
    /// may lie in several workspaces.
    pub(super) workspace: Vec<PathBuf>,
    /// A trusted workspace's server may run its code.
    pub(super) is_trusted: bool,
    pub(super) is_confined: bool,
}

impl ServerKey {
    /// Whether both are of one workspace, which has come to trust its server more or less.
    fn differs_in_trust(&self, other: &Self) -> bool {
        let what = |key: &Self| (key.name.clone(), key.root.clone(), key.workspace.clone());
        self != other && what(self) == what(other)
    }
}

/// The limits of the operator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) idle: Duration,
    pub(super) start: Duration,
    pub(super) answer: Duration,
}

#[derive(Debug)]
pub(super) struct Pool {
    launcher: Arc<dyn Launch>,
    times: Times,
    instances: Mutex<HashMap<ServerKey, Instance>>,
}

/// What a server does now.
#[derive(Clone, Debug)]
pub(super) enum Phase {
    Starting,
    Ready(Arc<Session>),
    /// It has crashed too often. With the reason of the last time.
    Off(String),
    /// Nobody has asked it for long.
    Ended,
}

/// A server, whatever it does now. Dropping it ends the server.
#[derive(Debug)]
struct Instance {
    shared: Arc<Shared>,
    _life: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    phase: watch::Sender<Phase>,
    use_: Mutex<Use>,
}

#[derive(Debug)]
struct Use {
    users: usize,
    last: Instant,
}

/// A server that is being asked. While there is one, the server is not idle.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) session: Arc<Session>,
    _using: Using,
}

#[derive(Debug)]
struct Using(Arc<Shared>);

impl Pool {
    pub(super) fn new(launcher: Arc<dyn Launch>, times: Times) -> Self {
        Self { launcher, times, instances: Mutex::default() }
    }

    /// The server, once it is initialized. An error says why it is not.
    pub(super) async fn acquire(
        &self,
        key: &ServerKey,
        program: &ServerProgram,
    ) -> Result<Lease, String> {
        let shared = self.started(key, program)?;
        let using = Using::of(&shared);
        let mut phase = shared.phase.subscribe();
        let is_decided = |phase: &Phase| !matches!(phase, Phase::Starting);
        let name = &key.name;
        let decided = timeout(self.times.start, phase.wait_for(is_decided)).await;
        let decided = decided.map_err(|_| format!("{name} is still starting"))?;
        match decided.map(|phase| phase.clone()) {
            Ok(Phase::Ready(session)) => Ok(Lease { session, _using: using }),
            Ok(Phase::Off(why)) => Err(format!("{name} is off: it {why}")),
            _ => Err(format!("{name} has been ended")),
        }
    }

    /// The server, if it is initialized now.
    pub(super) fn ready(&self, key: &ServerKey) -> Option<Lease> {
        let instances = sync::lock(&self.instances);
        let shared = &instances.get(key)?.shared;
        let Phase::Ready(session) = shared.phase.borrow().clone() else { return None };
        (!session.has_ended()).then(|| Lease { session, _using: Using::of(shared) })
    }

    /// Whether any server is initialized now.
    pub(super) fn has_ready(&self) -> bool {
        let is_ready = |it: &Instance| matches!(*it.shared.phase.borrow(), Phase::Ready(_));
        sync::lock(&self.instances).values().any(is_ready)
    }

    /// All servers, with what they do now.
    pub(super) fn phases(&self) -> Vec<(ServerKey, Phase)> {
        let instances = sync::lock(&self.instances);
        let phase =
            |(key, it): (&ServerKey, &Instance)| (key.clone(), it.shared.phase.borrow().clone());
        instances.iter().map(phase).collect()
    }

    /// Ends all servers.
    pub(super) fn end(&self) {
        sync::lock(&self.instances).clear();
    }

    fn started(&self, key: &ServerKey, program: &ServerProgram) -> Result<Arc<Shared>, String> {
        let mut instances = sync::lock(&self.instances);
        // One that was started when the trust was another must not go on.
        instances.retain(|other, _| !other.differs_in_trust(key));
        if let Some(instance) = instances.get(key)
            && !matches!(*instance.shared.phase.borrow(), Phase::Ended)
        {
            return Ok(Arc::clone(&instance.shared));
        }
        instances.remove(key);
        make_room(&mut instances)?;
        let instance = Instance::start(Arc::clone(&self.launcher), program.clone(), self.times);
        let shared = Arc::clone(&instance.shared);
        instances.insert(key.clone(), instance);
        Ok(shared)
    }
}

/// Ends the server that was asked longest ago, if there are as many as may be.
fn make_room(instances: &mut HashMap<ServerKey, Instance>) -> Result<(), String> {
    instances.retain(|_, it| !matches!(*it.shared.phase.borrow(), Phase::Ended));
    let (off, running): (Vec<_>, Vec<_>) = instances
        .iter()
        .map(|(key, it)| (key, it, matches!(*it.shared.phase.borrow(), Phase::Off(_))))
        .partition(|(_, _, is_off)| *is_off);
    let oldest = |all: Vec<(&ServerKey, &Instance, bool)>| {
        let unused = all.into_iter().filter(|(_, it, _)| it.last_use().is_some());
        unused.min_by_key(|(_, it, _)| it.last_use()).map(|(key, _, _)| key.clone())
    };
    let forgotten = if MAX_OFF <= off.len() { oldest(off) } else { None };
    let is_full = MAX_RUNNING <= running.len();
    let ended = if is_full { oldest(running) } else { None };
    if is_full && ended.is_none() {
        return Err(format!("{MAX_RUNNING} language servers are at work already; ask again later"));
    }
    for key in [forgotten, ended].into_iter().flatten() {
        instances.remove(&key);
    }
    Ok(())
}

impl Instance {
    fn start(launcher: Arc<dyn Launch>, program: ServerProgram, times: Times) -> Self {
        let shared = Arc::new(Shared {
            phase: watch::Sender::new(Phase::Starting),
            use_: Mutex::new(Use { users: 0, last: Instant::now() }),
        });
        let life = live(Arc::clone(&shared), launcher, program, times);
        let mut task = JoinSet::new();
        task.spawn(life);
        Self { shared, _life: task }
    }

    /// When it was used last; `None` while it is.
    fn last_use(&self) -> Option<Instant> {
        let use_ = sync::lock(&self.shared.use_);
        (use_.users == 0).then_some(use_.last)
    }
}

async fn live(
    shared: Arc<Shared>,
    launcher: Arc<dyn Launch>,
    program: ServerProgram,
    times: Times,
) {
    let mut crashes = 0;
    loop {
        let began = Instant::now();
        let why = match start(launcher.as_ref(), &program, times).await {
            Err(why) => why,
            Ok(session) => {
                let session = Arc::new(session);
                shared.phase.send_replace(Phase::Ready(Arc::clone(&session)));
                tokio::select! {
                    why = session.ended() => why,
                    () = shared.idle(times.idle) => {
                        shared.phase.send_replace(Phase::Ended);
                        return session.shut_down().await;
                    }
                }
            }
        };
        if RECOVERED <= began.elapsed() {
            crashes = 0;
        }
        tracing::warn!(server = program.name, crashes, why, "a language server has ended");
        let Some(wait) = BACKOFF.get(crashes) else {
            shared.phase.send_replace(Phase::Off(why));
            return;
        };
        crashes += 1;
        shared.phase.send_replace(Phase::Starting);
        sleep(*wait).await;
    }
}

async fn start(
    launcher: &dyn Launch,
    program: &ServerProgram,
    times: Times,
) -> Result<Session, String> {
    let limit = times.start;
    let started = timeout(limit, Session::start(launcher, program, times.answer)).await;
    let session = started.map_err(|_| format!("was not initialized within {limit:?}"))??;
    tracing::info!(server = program.name, root = %program.root.display(), "a language server runs");
    Ok(session)
}

impl Shared {
    /// Waits until nobody has asked for so long.
    async fn idle(&self, idle: Duration) {
        loop {
            let due = {
                let use_ = sync::lock(&self.use_);
                let since = if use_.users == 0 { use_.last } else { Instant::now() };
                since + idle
            };
            if due <= Instant::now() {
                return;
            }
            sleep_until(due).await;
        }
    }
}

impl Using {
    fn of(shared: &Arc<Shared>) -> Self {
        sync::lock(&shared.use_).users += 1;
        Self(Arc::clone(shared))
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        let mut use_ = sync::lock(&self.0.use_);
        use_.users -= 1;
        use_.last = Instant::now();
    }
}

#[cfg(test)]
mod tests;
