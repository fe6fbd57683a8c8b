//! Tests hostile and broken clients at real sockets, and commands that misbehave. The
//! name of a test begins with its row in `docs/threats.md`: H for HTTP, V for requests, P
//! for processes.

mod bodies;
mod budget;
mod concurrency;
mod environment;
mod heads;
mod history;
mod limits;
mod origins;
mod own_files;
mod processes;
mod refused;
mod replacing;
mod retries;
mod shell_lines;
mod slow;
mod supervisors;
mod values;

use crate::support::server::Server;
use crate::support::upstream::Upstream;

/// A server whose upstream must get no request: an unscripted one fails the test.
async fn door() -> (Upstream, Server) {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    (upstream, server)
}
