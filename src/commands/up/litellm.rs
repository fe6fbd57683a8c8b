//! Starts LiteLLM on loopback with a key of its own, waits for it, and ends it.

use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdin};
use tokio::time::{Instant, MissedTickBehavior, interval};
use uuid::Uuid;

use super::error::UpError;
use super::python::Python;
use super::{DEMO_BASE, log};
use crate::config::environment::Variables;
use crate::secret::Secret;

/// How often a starting LiteLLM is polled. It takes ten seconds or more.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// LiteLLM imports thousands of files, which takes minutes on a busy machine with a slow
/// disk.
const START_TIMEOUT: Duration = Duration::from_secs(300);

/// How much of the answer to a poll is read: the start of its first line.
const STATUS_LINE: usize = 16;

/// Variables that would enable more in LiteLLM than this setup wants.
const NOT_HANDED_DOWN: [&str; 5] =
    ["DATABASE_URL", "DIRECT_URL", "LITELLM_SALT_KEY", "CONFIG_FILE_PATH", "WORKER_CONFIG"];

/// The prefix of our own variables, which LiteLLM does not get.
const OWN_PREFIX: &str = "TOOLHAND_";

const SET: [(&str, &str); 8] = [
    // Do not read `.env` files in the directories above.
    ("LITELLM_MODE", "PRODUCTION"),
    // The list of prices and context sizes is part of the package; do not fetch it at
    // each start.
    ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
    ("LITELLM_TELEMETRY", "False"),
    ("DO_NOT_TRACK", "1"),
    ("DISABLE_ADMIN_UI", "True"),
    ("NO_DOCS", "True"),
    ("NO_REDOC", "True"),
    ("PYTHONUNBUFFERED", "1"),
];

/// How LiteLLM is to be started.
#[derive(Clone, Debug)]
pub(super) struct LaunchPlan {
    /// LiteLLM's directory in the state directory.
    pub(super) directory: PathBuf,
    pub(super) config: PathBuf,
    pub(super) address: SocketAddr,
    /// How many processes answer requests.
    pub(super) workers: u16,
    pub(super) key: Secret,
    pub(super) demo_base: Option<String>,
    /// The variables that this process was given.
    pub(super) variables: Variables,
}

impl LaunchPlan {
    pub(super) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The file that its output goes to.
    pub(super) fn log(&self) -> PathBuf {
        self.directory.join("litellm.log")
    }

    /// LiteLLM's own command line. It names the number of workers even if that is 1, because
    /// LiteLLM also takes it from the environment.
    fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        arguments.extend(["--host", "127.0.0.1", "--port"].map(OsString::from));
        arguments.push(self.address.port().to_string().into());
        arguments.extend(["--config".into(), self.config.clone().into()]);
        arguments.extend(["--num_workers".into(), self.workers.to_string().into()]);
        if self.workers > 1 {
            // This server forks its workers. The default one starts each as a new program,
            // whose initial environment would show the provider keys, and which is killed
            // when the import of LiteLLM takes longer than five seconds.
            arguments.push("--run_gunicorn".into());
        }
        arguments
    }
}

/// Makes a master key that no other process knows.
pub(super) fn random_key() -> Secret {
    Secret::new(format!("sk-{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple()))
}

/// A running LiteLLM. Dropping it ends the process.
#[derive(Debug)]
pub(super) struct Litellm {
    child: Child,
    /// LiteLLM ends when this closes, even when this process is killed.
    lifeline: Option<ChildStdin>,
    address: SocketAddr,
    key: Secret,
    log: PathBuf,
}

impl Litellm {
    /// Starts LiteLLM. It gets the variables of this process over a pipe, so that its
    /// initial environment does not show them.
    pub(super) async fn start(python: &Python, plan: &LaunchPlan) -> Result<Self, UpError> {
        let log = plan.log();
        let output = log::create(&log)?;
        let errors = output.try_clone().map_err(|error| UpError::file(&log, error))?;
        let module = python.module("litellm.proxy.proxy_cli", plan.arguments(), &plan.directory);
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

    /// Waits until LiteLLM answers a request with the key.
    pub(super) async fn ready(&mut self) -> Result<(), UpError> {
        let started = Instant::now();
        let mut ticks = interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let poll = async {
                ticks.tick().await;
                answers(self.address, &self.key).await
            };
            // Another program may have its port, and never answer.
            let has_answered = tokio::select! {
                biased;
                _ = self.child.wait() => return Err(self.ended()),
                has_answered = poll => has_answered,
            };
            if has_answered {
                return Ok(());
            }
            if started.elapsed() > START_TIMEOUT {
                return Err(UpError::Silent { log: self.log.clone(), tail: log::tail(&self.log) });
            }
        }
    }

    /// Waits for LiteLLM to end unexpectedly.
    pub(super) async fn end(&mut self) -> UpError {
        _ = self.child.wait().await;
        self.ended()
    }

    /// Ends LiteLLM and waits until it has ended.
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

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[tokio::test]
    async fn its_end_is_seen_even_if_another_program_holds_the_port_and_is_silent() {
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut command = tokio::process::Command::new("sh");
        // Ends when its input closes, as LiteLLM does.
        let mut child = command.args(["-c", "read line"]).stdin(Stdio::piped()).spawn().unwrap();
        let lifeline = child.stdin.take();
        let address = silent.local_addr().unwrap();
        let log = "/nowhere/log".into();
        let mut litellm = Litellm { child, lifeline: None, address, key: random_key(), log };

        let ending = async {
            // It is asked first: the connection is there.
            let asking = tokio::task::spawn_blocking(move || silent.accept());
            let connection = asking.await.unwrap().unwrap();
            drop(lifeline);
            connection
        };
        let both = async { tokio::join!(litellm.ready(), ending) };
        let waited = tokio::time::timeout(Duration::from_secs(60), both).await;

        let (outcome, _connection) = waited.expect("it does not wait for an answer");
        assert!(matches!(outcome, Err(UpError::Ended { .. })), "{outcome:?}");
    }
}
