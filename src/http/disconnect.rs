//! Notices that a client has closed its connection while it is being answered.
//!
//! hyper looks for the end of the stream while it answers, but no longer when a byte
//! of a next request (or a stray line end) waits in its buffer. Then a turn would go on
//! for a client that has left. So the socket is watched beside hyper.

use std::future::pending;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::connection_state::{ConnectionState, Phase};

/// How often the state of a closed connection is polled: a request that was sent whole
/// before the close may only now begin to be answered.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Resolves when nobody is left to read the answer that is under way. A half-closed
/// connection counts as closed.
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

/// Makes the socket ready again only when more bytes have come. Those that are there
/// are hyper's to read.
fn wait_for_more(socket: &TcpStream) {
    let nothing = || io::Result::<()>::Err(io::ErrorKind::WouldBlock.into());
    let _ = socket.try_io(Interest::READABLE, nothing);
}
