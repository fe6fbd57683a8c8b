//! Runs `toolhand demo-model`: the demo model alone, as an upstream for trials.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Args;
use tokio::net::TcpListener;

use super::ending::StoppedLine;
use super::signals::run_until_stopped;
use super::{Failure, print};
use crate::demo_model;

#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// Loopback address to listen on; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

pub(crate) fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    let listen = flags.listen;
    if !listen.ip().is_loopback() {
        return Err(Failure::new(format!(
            "the demo model asks for no key: it listens on loopback only, not on {listen}"
        )));
    }
    run_until_stopped(|stop| async move {
        let refused = |error| Failure::new(format!("cannot listen on {listen}: {error}"));
        let listener = TcpListener::bind(listen).await.map_err(refused)?;
        let _stopped = StoppedLine;
        print(&format!("listening on http://{}\n", listener.local_addr()?));
        match stop.run_until_cancelled(demo_model::serve(listener)).await {
            Some(served) => Ok(served?),
            None => Ok(()),
        }
    })
}
