//! Tries one level after the other, each by attacking the server from inside.

use std::fs::{self, Permissions};
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::{Outcome, SandboxSettings, base};
use crate::processes::confinement::{Confinement, Level, Mask, MaskKind, Network, Shown};
use crate::processes::handles;
use crate::processes::outcome::{Finished, Limits};
use crate::processes::probe::{Attempt, Probe, Targets};
use crate::processes::protocol::Exit;
use crate::processes::runner::{Command, Runner};

/// The trial takes milliseconds. A sandbox that hangs is none.
const LIMITS: Limits =
    Limits { time: Some(Duration::from_secs(10)), output: 64 << 10, shown: 16_000 };

/// What the attacked file holds, and its mode.
const UNTOUCHED: &[u8] = b"untouched\n";
const MODE: u32 = 0o600;

/// What must still work inside: the shell, and writing into a root.
const WORKING: &str = "echo made >made && echo works";

/// The same where files can be masked: then one that is cannot be read.
const WORKING_MASKED: &str = "! (: <closed) 2>/dev/null && echo made >made && echo works";

/// How one level did.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Trial {
    pub(crate) level: Level,
    pub(crate) passed: bool,
    /// Why it did not pass, in a sentence.
    pub(crate) why: Option<String>,
    /// Each forbidden thing, and whether it failed. Empty if the level could not start.
    pub(crate) probes: Vec<Attempt>,
}

/// Tries the levels up to the first that passes.
pub(super) async fn choose(
    runner: &Runner,
    settings: &SandboxSettings,
    readable: &[Shown],
) -> Outcome {
    let mut outcome = Outcome::default();
    for level in &settings.levels {
        let trial = try_level(runner, *level, settings.network, readable).await;
        outcome.level = trial.passed.then_some(*level);
        outcome.trials.push(trial);
        if outcome.level.is_some() {
            break;
        }
    }
    outcome
}

async fn try_level(runner: &Runner, level: Level, network: Network, readable: &[Shown]) -> Trial {
    let confinement = Confinement { readable: readable.to_vec(), ..base(runner, level, network) };
    match attack(runner, confinement).await {
        Ok(probes) => judged(level, network, probes),
        Err(why) => Trial { level, passed: false, why: Some(why), probes: Vec::new() },
    }
}

/// Whether the level holds. With the network, TCP and UDP are allowed.
fn judged(level: Level, network: Network, mut probes: Vec<Attempt>) -> Trial {
    if network == Network::Full {
        probes.retain(|attempt| !matches!(attempt.probe, Probe::Tcp | Probe::Udp));
    }
    let failed = probes.iter().filter(|attempt| !attempt.held);
    let failed: Vec<&str> = failed.map(|attempt| attempt.probe.name()).collect();
    let why = (!failed.is_empty()).then(|| format!("it does not prevent {}", failed.join(", ")));
    Trial { level, passed: why.is_none(), why, probes }
}

async fn attack(runner: &Runner, mut confinement: Confinement) -> Result<Vec<Attempt>, String> {
    let ground = Ground::new().map_err(|error| format!("nothing can be tried: {error}"))?;
    confinement.writable = vec![Shown::as_it_is(&ground.path("inside"))];
    confinement.temporary = ground.path("temporary").into();
    let is_bwrap = confinement.level == Level::Bwrap;
    let working = if is_bwrap { WORKING_MASKED } else { WORKING };
    if is_bwrap {
        let mask = ground.mask().map_err(|error| format!("nothing can be tried: {error}"))?;
        confinement.masks.push(mask);
    }
    let command = Command {
        program: "/bin/bash".into(),
        arguments: ["--noprofile", "--norc", "-c", working].map(str::to_owned).to_vec(),
        directory: ground.path("inside"),
        confinement: Some(Arc::new(confinement)),
        kept_alive: None,
    };
    let targets = ground.targets().map_err(|error| format!("nothing can be tried: {error}"))?;
    let never = CancellationToken::new();
    let finished = runner.run_probing(&command, Some(targets), LIMITS, &never).await;
    let finished = finished.map_err(|error| error.to_string())?;
    let told = told(&finished)?;
    Ok(ground.checked(told))
}

/// What the command told: a line with the attempts, and that the shell works.
fn told(finished: &Finished) -> Result<Vec<Attempt>, String> {
    let output = finished.output.render(LIMITS.shown, "");
    let (attempts, rest) = output.split_once('\n').unwrap_or_default();
    if finished.exit != Some(Exit::Code(0)) || rest != "works\n" {
        let said: String = output.chars().take(200).collect();
        return Err(format!("a command does not work in it: {}", said.trim()));
    }
    let attempts: Vec<Attempt> =
        serde_json::from_str(attempts).map_err(|_| "its attempts are not told".to_owned())?;
    let is_whole = Probe::ALL.iter().all(|probe| attempts.iter().any(|it| it.probe == *probe));
    if is_whole { Ok(attempts) } else { Err("not everything was tried".to_owned()) }
}

/// What is attacked.
struct Ground {
    directory: TempDir,
    tcp: TcpListener,
    udp: UdpSocket,
    _unix: UnixListener,
}

impl Ground {
    fn new() -> io::Result<Self> {
        let directory = TempDir::with_prefix("toolhand-sandbox-")?;
        let root = directory.path();
        for name in ["inside", "temporary", "outside"] {
            fs::create_dir(root.join(name))?;
        }
        let file = root.join("outside/file");
        fs::write(&file, UNTOUCHED)?;
        fs::set_permissions(&file, Permissions::from_mode(MODE))?;
        fs::write(root.join("inside/closed"), UNTOUCHED)?;
        let tcp = TcpListener::bind("127.0.0.1:0")?;
        let udp = UdpSocket::bind("127.0.0.1:0")?;
        tcp.set_nonblocking(true)?;
        udp.set_nonblocking(true)?;
        let unix = UnixListener::bind(root.join("inside/socket"))?;
        Ok(Self { directory, tcp, udp, _unix: unix })
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        let directory = self.directory.path();
        directory.canonicalize().unwrap_or_else(|_| directory.to_owned()).join(name)
    }

    /// Closes a file of the root.
    fn mask(&self) -> io::Result<Mask> {
        let path = self.path("inside/closed");
        let id = handles::id(handles::open(&path)?)?;
        Ok(Mask { place: path.into(), kind: MaskKind::Closed, id })
    }

    fn targets(&self) -> io::Result<Targets> {
        let server = rustix::process::getpid().as_raw_nonzero().get();
        Ok(Targets {
            file: self.path("outside/file").into(),
            tcp: self.tcp.local_addr()?,
            udp: self.udp.local_addr()?,
            socket: self.path("inside/socket").into(),
            server,
            pid_namespace: fs::read_link("/proc/self/ns/pid")?.into(),
        })
    }

    /// Believes no attempt that says it failed and left something all the same.
    fn checked(&self, mut attempts: Vec<Attempt>) -> Vec<Attempt> {
        for attempt in &mut attempts {
            attempt.held &= !self.is_changed(attempt.probe);
        }
        attempts
    }

    fn is_changed(&self, probe: Probe) -> bool {
        let file = self.path("outside/file");
        match probe {
            Probe::WriteOutside => fs::read(&file).map_or(true, |bytes| bytes != UNTOUCHED),
            Probe::ChmodOutside => mode_of(&file) != Some(MODE),
            Probe::Tcp => self.tcp.accept().is_ok(),
            Probe::Udp => self.udp.recv(&mut [0]).is_ok(),
            Probe::UnixSocket | Probe::ParentEnviron | Probe::SignalParent => false,
        }
    }
}

fn mode_of(file: &Path) -> Option<u32> {
    Some(fs::metadata(file).ok()?.permissions().mode() & 0o7777)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts(open: Option<Probe>) -> Vec<Attempt> {
        Probe::ALL.map(|probe| Attempt { probe, held: Some(probe) != open }).to_vec()
    }

    #[test]
    fn a_level_passes_only_if_every_forbidden_thing_fails() {
        assert!(judged(Level::Landlock, Network::None, attempts(None)).passed);
        for probe in Probe::ALL {
            let trial = judged(Level::Landlock, Network::None, attempts(Some(probe)));
            assert!(!trial.passed, "{probe}");
            assert_eq!(trial.why, Some(format!("it does not prevent {probe}")));
        }
    }

    /// A probe that attacks nothing would hold everywhere.
    #[test]
    fn each_attempt_succeeds_and_leaves_its_trace_where_nothing_confines() {
        let ground = Ground::new().unwrap();
        let tried = ground.targets().unwrap().attempt();
        assert_eq!(tried, Probe::ALL.map(|probe| Attempt { probe, held: false }));
        let traceless = [Probe::UnixSocket, Probe::ParentEnviron, Probe::SignalParent];
        for attempt in ground.checked(attempts(None)) {
            assert_eq!(attempt.held, traceless.contains(&attempt.probe), "{}", attempt.probe);
        }
    }

    #[test]
    fn what_the_network_allows_is_not_held_against_a_level() {
        for (probe, passed) in [(Probe::Tcp, true), (Probe::Udp, true), (Probe::UnixSocket, false)]
        {
            let trial = judged(Level::Bwrap, Network::Full, attempts(Some(probe)));
            assert_eq!(trial.passed, passed, "{probe}");
        }
    }
}
