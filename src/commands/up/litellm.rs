//! The LiteLLM process: started on loopback with a key of its own, awaited, watched.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdin};
use tokio::time::{Instant, MissedTickBehavior, interval};
use uuid::Uuid;

use super::python::Python;
use super::{DEMO_BASE, UpError, log};
use crate::config::environment::Variables;
use crate::secret::Secret;

/// How often a starting LiteLLM is asked; it takes ten seconds and more.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// It imports thousands of files: on a busy machine with a slow disk that takes minutes.
const START_TIMEOUT: Duration = Duration::from_secs(300);

/// Bytes of an answer that are looked at: its first line.
const STATUS_LINE: usize = 16;

/// What of the environment would make it do more than this one does.
const NOT_HANDED_DOWN: [&str; 5] =
    ["DATABASE_URL", "DIRECT_URL", "LITELLM_SALT_KEY", "CONFIG_FILE_PATH", "WORKER_CONFIG"];

/// Ours, and no concern of its.
const OWN_PREFIX: &str = "TOOLHAND_";

const SET: [(&str, &str); 8] = [
    // Does not read `.env` files of the directories above.
    ("LITELLM_MODE", "PRODUCTION"),
    // Prices and context sizes come with it; the list is not fetched at each start.
    ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
    ("LITELLM_TELEMETRY", "False"),
    ("DO_NOT_TRACK", "1"),
    ("DISABLE_ADMIN_UI", "True"),
    ("NO_DOCS", "True"),
    ("NO_REDOC", "True"),
    ("PYTHONUNBUFFERED", "1"),
];

/// What is to be started, known before it is.
#[derive(Clone, Debug)]
pub(super) struct LaunchPlan {
    /// Its own, in the state directory.
    pub(super) directory: PathBuf,
    pub(super) config: PathBuf,
    pub(super) address: SocketAddr,
    pub(super) key: Secret,
    pub(super) demo_base: Option<String>,
    /// Those that we were given.
    pub(super) variables: Variables,
}

impl LaunchPlan {
    pub(super) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }
}

/// A master key that nobody else knows.
pub(super) fn random_key() -> Secret {
    Secret::new(format!("sk-{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple()))
}

/// A running LiteLLM. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Litellm {
    child: Child,
    /// When this closes it ends, even when we are killed.
    lifeline: Option<ChildStdin>,
    address: SocketAddr,
    key: Secret,
    log: PathBuf,
}

impl Litellm {
    /// It alone gets the environment that we were given, and not where it can be read from
    /// outside.
    pub(super) async fn start(python: &Python, plan: &LaunchPlan) -> Result<Self, UpError> {
        let log = plan.directory.join("litellm.log");
        let output = log::create(&log)?;
        let errors = output.try_clone().map_err(|error| UpError::file(&log, error))?;
        let port = plan.address.port().to_string();
        let options = ["--host".as_ref(), "127.0.0.1".as_ref(), "--port".as_ref(), port.as_ref()];
        let config = ["--config".as_ref(), plan.config.as_os_str()];
        let module = python.module(
            "litellm.proxy.proxy_cli",
            options.into_iter().chain(config),
            &plan.directory,
        );
        let (child, lifeline) = module
            .output(Stdio::from(output), Stdio::from(errors))
            .handing(plan.variables.iter().filter(|(name, _)| is_handed_down(name)))
            .handing(SET)
            .handing([("LITELLM_MASTER_KEY", plan.key.expose())])
            .handing(plan.demo_base.as_ref().map(|base| (DEMO_BASE, base)))
            .start()
            .await?;
        Ok(Self { child, lifeline, address: plan.address, key: plan.key.clone(), log })
    }

    /// Waits until it serves its models to whoever has the key.
    pub(super) async fn ready(&mut self) -> Result<(), UpError> {
        let started = Instant::now();
        let mut ticks = interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = self.child.wait() => return Err(self.ended()),
            }
            if answers(self.address, &self.key).await {
                return Ok(());
            }
            if started.elapsed() > START_TIMEOUT {
                return Err(UpError::Silent { log: self.log.clone(), tail: log::tail(&self.log) });
            }
        }
    }

    /// Waits for an end that nobody asked for.
    pub(super) async fn end(&mut self) -> UpError {
        _ = self.child.wait().await;
        self.ended()
    }

    /// Ends it and waits until it is gone.
    pub(super) async fn stop(self) {
        let Self { mut child, lifeline, .. } = self;
        drop(lifeline);
        _ = child.wait().await;
    }

    fn ended(&self) -> UpError {
        UpError::Ended { log: self.log.clone(), tail: log::tail(&self.log) }
    }
}

fn is_handed_down(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    !name.starts_with(OWN_PREFIX) && !NOT_HANDED_DOWN.contains(&name.as_ref())
}

async fn answers(address: SocketAddr, key: &Secret) -> bool {
    tokio::time::timeout(START_TIMEOUT, status_line(address, key))
        .await
        .is_ok_and(|line| line.is_ok_and(|line| line.starts_with(b"HTTP/1.1 200")))
}

async fn status_line(address: SocketAddr, key: &Secret) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!(
        "GET /v1/models HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\nconnection: close\r\n\r\n",
        key.expose()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut line = Vec::new();
    stream.take(STATUS_LINE as u64).read_to_end(&mut line).await?;
    Ok(line)
}
