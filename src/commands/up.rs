//! Runs `toolhand up`: LiteLLM, the demo model and the server, on a fresh machine.
//!
//! Installs a pinned LiteLLM if it is missing, starts it and the demo model on loopback,
//! and serves in front of them. All of them end with this process.

mod error;
mod greeting;
mod install;
mod install_fault;
mod litellm;
pub(super) mod litellm_config;
mod log;
mod models;
mod python;
mod without_litellm;

use std::fs::DirBuilder;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use tokio_util::sync::CancellationToken;

use self::error::UpError;
use self::greeting::{Access, Greeting};
use self::litellm::{LaunchPlan, Litellm};
use self::litellm_config::LitellmConfig;
use super::ending::{StoppedLine, say_stopped, say_waiting};
use super::flags::{LitellmFlags, LogFlag, ServerFlags};
use super::invocation::Invocation;
use super::signals::{Outcome, run_to_outcome};
use super::style::Style;
use super::{Failure, print, print_error, say};
use crate::app::Server;
use crate::app::running_server::StartedBy;
use crate::app::state_dir::StateDir;
use crate::config::environment::Variables;
use crate::config::{self, ConfigInput, Loaded};
use crate::upstream::ModelHints;
use crate::{demo_model, telemetry};

/// The variable that tells LiteLLM where the demo model listens.
const DEMO_BASE: &str = "TOOLHAND_DEMO_BASE";

/// The flags of `up`: those of `serve` but `--upstream`, and its own.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    #[command(flatten)]
    server: ServerFlags,
    #[command(flatten)]
    log: LogFlag,
    #[command(flatten)]
    litellm: LitellmFlags,
}

impl Flags {
    /// All settings from outside of the file.
    pub(crate) fn input(&self, variables: &Variables) -> ConfigInput {
        let others = [self.log.setting(), self.litellm.setting()];
        self.server.input(others.into_iter().flatten(), variables)
    }

    /// The server binds its address after the others have chosen theirs, so that it would be
    /// the one to fail, or LiteLLM would.
    fn check_ports(&self, server: SocketAddr) -> Result<(), UpError> {
        let ports = [
            ("LiteLLM", self.litellm.litellm_port, "--litellm-port"),
            ("the demo model", self.litellm.demo_port, "--demo-port"),
        ];
        match ports.into_iter().find(|(_, port, _)| *port != 0 && *port == server.port()) {
            None => Ok(()),
            Some((what, port, flag)) => {
                let source = io::Error::other("the server itself is to listen there");
                Err(UpError::Port { what, port, flag, source })
            }
        }
    }
}

pub(crate) fn run(flags: &Flags, given: &ConfigInput) -> Result<ExitCode, Failure> {
    let mut loaded = config::load(given)?;
    telemetry::start(&loaded.config.log);
    let state = StateDir::open(&loaded.config.server.state_dir)?;
    let workers = loaded.config.up.litellm_workers;
    flags.check_ports(loaded.config.server.listen)?;
    let chain = Chain::plan(flags, workers, &state, &given.variables)?;
    loaded.config.upstream.model_hints = Arc::clone(&chain.model_hints);
    loaded.config.upstream.url = chain.litellm.url().parse().map_err(Failure::new)?;
    loaded.secrets.upstream_key = Some(chain.litellm.key.clone());
    run_to_outcome(|stop| chain.run(given, loaded, state, stop))
}

/// What runs behind the server, before it is started.
struct Chain {
    litellm: LaunchPlan,
    /// Bound from the beginning, so that no other process takes the port.
    demo: Option<TcpListener>,
    /// The names of the models.
    models: Vec<String>,
    left_out: Vec<String>,
    /// The same for clients that ask for such a model.
    model_hints: Arc<ModelHints>,
}

impl Chain {
    fn plan(
        flags: &Flags,
        workers: u16,
        state: &StateDir,
        variables: &Variables,
    ) -> Result<Self, UpError> {
        let directory = state.path().join("litellm");
        make_directory(&directory)?;
        let config =
            LitellmConfig::new(flags.litellm.litellm_config.as_deref(), &directory, variables)?;
        let demo = config
            .yaml
            .contains(DEMO_BASE)
            .then(|| listen("the demo model", flags.litellm.demo_port, "--demo-port"));
        let demo = demo.transpose()?;
        let demo_base = demo.as_ref().and_then(|demo| demo.local_addr().ok());
        let litellm = LaunchPlan {
            directory,
            config: config.path,
            address: free_address("LiteLLM", flags.litellm.litellm_port, "--litellm-port")?,
            workers,
            key: litellm::random_key(),
            demo_base: demo_base.map(|address| format!("http://{address}/v1")),
            variables: config.variables,
        };
        let models = models::names(&config.yaml);
        let LitellmConfig { left_out, model_hints, .. } = config;
        Ok(Self { litellm, demo, models, left_out, model_hints: Arc::new(model_hints) })
    }

    async fn run(
        self,
        given: &ConfigInput,
        loaded: Loaded,
        state: StateDir,
        stop: CancellationToken,
    ) -> Result<Outcome, Failure> {
        let settings = GreetingSettings::new(&loaded, given);
        // Bind first, so that a port in use is reported before an installation of
        // minutes.
        let mut server = Server::bind(loaded, state).await?;
        let Some(started) = stop.run_until_cancelled(start(&self.litellm)).await else {
            say_interrupted(&self.litellm.directory);
            return Ok(Outcome::Interrupted);
        };
        let mut litellm = started.map_err(|error| with_way_without_litellm(&error, given))?;
        let _stopped = StoppedLine;
        let model = models::usual(&self.models).to_owned();
        server.announce(StartedBy::Up { model, litellm: self.litellm.url() });
        print(&self.greeting(&server, &settings).to_string());
        print(&format!("listening on http://{}\n", server.address()));
        let fault = tokio::select! {
            () = server.run(stop, say_waiting) => None,
            fault = litellm.end() => Some(fault),
            fault = serve_demo(self.demo) => Some(fault),
        };
        litellm.stop().await;
        let Some(fault) = fault else { return Ok(Outcome::Done) };
        print_error(&fault.to_string());
        Ok(Outcome::Failed)
    }

    fn greeting<'a>(&'a self, server: &'a Server, given: &'a GreetingSettings) -> Greeting<'a> {
        Greeting {
            address: server.address(),
            access: Access::from_key_path(server.key_path(), given.is_open),
            model: models::usual(&self.models),
            models: &self.models,
            request: &given.request,
            left_out: &self.left_out,
            invocation: &given.invocation,
            style: given.style,
        }
    }
}

/// What the greeting shows of the settings. Kept, because the server takes the settings.
struct GreetingSettings {
    is_open: bool,
    request: String,
    invocation: Invocation,
    style: Style,
}

impl GreetingSettings {
    fn new(loaded: &Loaded, given: &ConfigInput) -> Self {
        let server = &loaded.config.server;
        let is_default_place = loaded.layers.source("server.state_dir").is_none();
        let state_dir = (!is_default_place).then_some(server.state_dir.as_path());
        Self {
            is_open: !loaded.config.auth.required,
            request: greeting::request(&server.workspace),
            invocation: Invocation::for_this_process(state_dir),
            style: Style::for_stdout(&given.variables),
        }
    }
}

/// Says how it ends before LiteLLM was ready.
fn say_interrupted(directory: &Path) {
    if install::is_unfinished(directory) {
        say("The installation of LiteLLM is unfinished; the next start does it anew.");
    }
    say_stopped();
}

/// The error, with the commands that work without LiteLLM if that is what is missing.
fn with_way_without_litellm(error: &UpError, given: &ConfigInput) -> Failure {
    if !error.is_lack_of_litellm() {
        return Failure::new(error.to_string());
    }
    // The flags of `up` name the state directory, if any does.
    let commands = without_litellm::commands(&Invocation::for_this_process(None), given);
    Failure::new(format!("{error}\n{commands}"))
}

async fn start(plan: &LaunchPlan) -> Result<Litellm, UpError> {
    let python = install::ensure(&plan.directory, &plan.variables).await?;
    say(&format!("Starting LiteLLM. Its output goes to {}.", plan.log().display()));
    let mut litellm = Litellm::start(&python, plan).await?;
    litellm.ready().await?;
    Ok(litellm)
}

/// Serves the demo model. Returns only when that fails.
async fn serve_demo(listener: Option<TcpListener>) -> UpError {
    let Some(listener) = listener else { return std::future::pending().await };
    let served = async {
        listener.set_nonblocking(true)?;
        demo_model::serve(tokio::net::TcpListener::from_std(listener)?).await
    };
    UpError::DemoEnded(served.await.err().unwrap_or_else(|| io::Error::other("no reason given")))
}

fn make_directory(path: &Path) -> Result<(), UpError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| UpError::file(path, error))
}

/// Binds a port; 0 takes any free one.
fn listen(what: &'static str, port: u16, flag: &'static str) -> Result<TcpListener, UpError> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|source| UpError::Port {
        what,
        port,
        flag,
        source,
    })
}

/// A free address for a program that binds it itself a moment later.
fn free_address(what: &'static str, port: u16, flag: &'static str) -> Result<SocketAddr, UpError> {
    let listener = listen(what, port, flag)?;
    listener.local_addr().map_err(|source| UpError::Port { what, port, flag, source })
}
