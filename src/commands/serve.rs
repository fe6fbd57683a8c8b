//! Runs `toolhand serve`: the server alone, for an upstream that runs already.

use std::process::ExitCode;

use super::ending::{StoppedLine, say_waiting};
use super::signals::run_until_stopped;
use super::{Failure, print};
use crate::app::Server;
use crate::app::running_server::StartedBy;
use crate::app::state_dir::StateDir;
use crate::config::{self, ConfigInput};
use crate::telemetry;

pub(crate) fn run(given: &ConfigInput) -> Result<ExitCode, Failure> {
    let loaded = config::load(given)?;
    telemetry::start(&loaded.config.log);
    let state = StateDir::open(&loaded.config.server.state_dir)?;
    run_until_stopped(|stop| async {
        let mut server = Server::bind(loaded, state).await?;
        let _stopped = StoppedLine;
        if let Some(path) = server.key_path() {
            print(&format!("client key in {}\n", path.display()));
        }
        server.announce(StartedBy::Serve);
        print(&format!("listening on http://{}\n", server.address()));
        server.run(stop, say_waiting).await;
        Ok(())
    })
}
