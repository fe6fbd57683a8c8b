//! Notices that a client has closed its connection during an answer.
//!
//! hyper stops looking for the end of the stream once a byte of the next request, or a
//! stray line end, waits in its buffer. A turn would then go on for a client that has
//! left. So this module watches the socket beside hyper.

use std::future::pending;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::connection_state::{ConnectionState, Phase};

/// How often a closed connection is checked again: a request that was sent whole before
/// the close may still have to be answered.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Resolves when nobody will read the current answer. A half-closed connection counts as
/// closed.
pub(super) fn disconnect(
    stream: &TcpStream,
    state: Arc<ConnectionState>,
) -> impl Future<Output = ()> + Send + use<> {
    let twin = stream.as_fd().try_clone_to_owned();
    let watched = twin.and_then(|socket| TcpStream::from_std(socket.into()));
    async move {
        let Ok(watched) = watched else { return pending().await };
        loop {
            match watched.ready(Interest::READABLE).await {
                Ok(ready) if ready.is_read_closed() => break,
                Ok(_) => wait_for_more(&watched),
                Err(_) => return pending().await,
            }
        }
        while state.phase() != Phase::Answering {
            sleep(POLL_INTERVAL).await;
        }
    }
}

/// Makes the socket ready only for new bytes. hyper reads those that are already there.
fn wait_for_more(socket: &TcpStream) {
    let nothing = || io::Result::<()>::Err(io::ErrorKind::WouldBlock.into());
    let _ = socket.try_io(Interest::READABLE, nothing);
}
