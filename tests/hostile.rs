//! Hostile and broken clients at real sockets, and commands that do what they should
//! not. Tests carry the row of the threat list they stand for in their names: H for
//! what HTTP allows, V for bodies, P for processes.

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
mod slow;
mod supervisors;
mod values;

use crate::support::server::Server;
use crate::support::upstream::Upstream;

/// A server and an upstream that must not be asked for anything: an unscripted
/// request fails the test.
async fn door() -> (Upstream, Server) {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    (upstream, server)
}
