//! Notices that a client has gone.
//!
//! hyper looks for the end of the stream while it answers, but not once a byte of
//! a next request (or a stray line end) waits in its buffer: then a client that
//! left would keep its turn running. So the socket is watched beside it.

use std::future::pending;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::phase::Phase;

/// How often a connection whose client has gone is looked at: a request that was
/// sent whole before that may only now begin to be answered.
const LOOK: Duration = Duration::from_millis(100);

/// Resolves when nobody is left to read the answer that is under way. A half-closed
/// connection counts as one that is left.
pub(super) fn departure(
    stream: &TcpStream,
    phase: Arc<Phase>,
) -> impl Future<Output = ()> + Send + use<> {
    let twin = stream.as_fd().try_clone_to_owned();
    let watched = twin.and_then(|socket| TcpStream::from_std(socket.into()));
    async move {
        let Ok(watched) = watched else { return pending().await };
        loop {
            match watched.ready(Interest::READABLE).await {
                Ok(ready) if ready.is_read_closed() => break,
                Ok(_) => wait_for_news(&watched),
                Err(_) => return pending().await,
            }
        }
        while !phase.is_answering() {
            sleep(LOOK).await;
        }
    }
}

/// Makes the socket ready again only when something more has come. The bytes that
/// are there are hyper's to read.
fn wait_for_news(socket: &TcpStream) {
    let nothing = || io::Result::<()>::Err(io::ErrorKind::WouldBlock.into());
    let _ = socket.try_io(Interest::READABLE, nothing);
}
