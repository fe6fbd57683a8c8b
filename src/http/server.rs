//! Accepts connections, serves HTTP/1.1 on them, and drains them at shutdown.
//!
//! This is a loop of its own over hyper, because ready-made servers lack the deadlines
//! and the limit of the head that [`super::wire`] enforces.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Version};
use axum::response::Response;
use futures::future::BoxFuture;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use tracing::debug;

use super::admission::{Admission, Admissions};
use super::answer::ResponseBody;
use super::connection_state::ConnectionState;
use super::disconnect::disconnect;
use super::peer::Peer;
use super::refusal::Refusal;
use super::wire::{Socket, Wire};
use super::write_stall::WriteStall;
use crate::limits::Limits;

/// How long to wait after an accept has failed for lack of files or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long the client's bytes are still read and dropped after our last byte. Closing
/// with unread bytes resets the connection, and the client may lose the answer.
const LINGER: Duration = Duration::from_secs(1);

/// hyper has one limit for what it reads ahead and for what waits to be written. A head
/// must fit, and little should wait there.
const MAX_UNWRITTEN: usize = 64 << 10;

/// How the server shuts down.
#[derive(Debug)]
pub(crate) struct Drain {
    /// When cancelled, no new connections are accepted.
    pub(crate) stop: CancellationToken,
    /// How long running turns may go on after that.
    pub(crate) grace: Duration,
    /// Cancelled by the server near the end of the grace. Each turn that still runs then
    /// ends with its terminal error.
    pub(crate) turns_over: CancellationToken,
}

/// The part of the grace that is reserved for sending terminal errors, so that they
/// arrive within it: this time at most, and this fraction of the grace at most.
const MAX_TERMINAL_TIME: Duration = Duration::from_secs(2);
const TERMINAL_PART_OF_GRACE: u32 = 10;

/// A grace of milliseconds leaves no time to write errors; shutdown then takes this much
/// longer.
const MIN_TERMINAL_TIME: Duration = Duration::from_millis(500);

/// Serves until it is told to stop. Then it accepts no connections, and each open one has
/// the grace to end its request.
pub(crate) async fn run(listener: TcpListener, router: Router, limits: Arc<Limits>, drain: Drain) {
    let Drain { stop: shutdown, grace, turns_over } = drain;
    let admissions = Admissions::new(&limits);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = accept(&listener) => match accepted {
                Ok((stream, peer)) => {
                    if let Some(admission) = admissions.admit(peer.ip()) {
                        let handler = Handler { router: router.clone(), admission };
                        connections.spawn(
                            serve(stream, handler, limits.clone(), shutdown.clone()));
                    }
                }
                Err(error) => pause_after(&error).await,
            }
        }
    }
    drop(listener);
    let terminal_time = MAX_TERMINAL_TIME.min(grace / TERMINAL_PART_OF_GRACE);
    if timeout(grace.saturating_sub(terminal_time), all_ended(&mut connections)).await.is_ok() {
        return;
    }
    turns_over.cancel();
    if timeout(terminal_time.max(MIN_TERMINAL_TIME), all_ended(&mut connections)).await.is_err() {
        connections.shutdown().await;
    }
}

/// Accepts the next connection and disables Nagle's algorithm, so that each write is sent
/// at once.
async fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, peer) = listener.accept().await?;
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "cannot set TCP_NODELAY");
    }
    Ok((stream, peer))
}

async fn all_ended(connections: &mut JoinSet<()>) {
    while connections.join_next().await.is_some() {}
}

async fn pause_after(error: &io::Error) {
    let is_of_one_connection =
        matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset);
    if !is_of_one_connection {
        tracing::warn!(%error, "cannot accept a connection");
        sleep(ACCEPT_PAUSE).await;
    }
}

async fn serve(
    stream: TcpStream,
    handler: Handler,
    limits: Arc<Limits>,
    shutdown: CancellationToken,
) {
    let state = Arc::new(ConnectionState::default());
    let disconnected = disconnect(&stream, state.clone());
    tokio::select! {
        () = disconnected => debug!("a client left its answer"),
        () = serve_on(stream, handler, &limits, shutdown, state) => {}
    }
}

/// Serves one connection until it ends.
async fn serve_on<IO>(
    stream: IO,
    handler: Handler,
    limits: &Limits,
    shutdown: CancellationToken,
    state: Arc<ConnectionState>,
) where
    IO: Socket,
{
    let stall = Arc::<WriteStall>::default();
    let slow_client = limits.slow_client;
    let admission = handler.admission.clone();
    let service =
        TrackedHandler { handler, state: state.clone(), stall: stall.clone(), slow_client };
    let wire = Wire::new(stream, state, stall, admission, limits);
    let mut connection = http1::Builder::new()
        .header_read_timeout(None)
        .writev(false)
        .max_buf_size(limits.head_bytes + MAX_UNWRITTEN)
        .serve_connection(TokioIo::new(wire), service);
    let mut is_stopping = false;
    let ended = loop {
        tokio::select! {
            ended = std::future::poll_fn(|cx| connection.poll_without_shutdown(cx)) => break ended,
            () = shutdown.cancelled(), if !is_stopping => {
                is_stopping = true;
                std::pin::Pin::new(&mut connection).graceful_shutdown();
            }
        }
    };
    let mut wire = connection.into_parts().io.into_inner();
    let refusal = wire.refusal();
    if let Err(error) = &ended {
        debug!(%error, "a connection ended");
    }
    if refusal.is_some() || ended.is_ok() && wire.has_written() {
        close(wire.get_mut(), refusal).await;
    }
}

/// Writes the refusal, if there is one. Then waits up to [`LINGER`] for the client to
/// read what was sent.
async fn close<IO>(stream: &mut IO, refusal: Option<Refusal>)
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let closing = async {
        if let Some(refusal) = refusal {
            stream.write_all(refusal.response().as_bytes()).await?;
        }
        stream.shutdown().await?;
        // On the heap: every open connection would else carry it in its future.
        let mut unread = vec![0; 8192];
        while stream.read(&mut unread).await? > 0 {}
        io::Result::Ok(())
    };
    if let Ok(Err(error)) = timeout(LINGER, closing).await {
        debug!(%error, "a connection ended before its last answer was read");
    }
}

/// Answers the requests of one connection.
#[derive(Clone)]
struct Handler {
    router: Router,
    admission: Arc<Admission>,
}

impl Handler {
    fn answer(&self, request: hyper::Request<Incoming>) -> BoxFuture<'static, Response> {
        let mut request: Request = request.map(Body::new);
        request.extensions_mut().insert(Peer(self.admission.peer));
        request.extensions_mut().insert(self.admission.clone());
        let version = request.version();
        let answer = self.router.clone().oneshot(request);
        let admission = self.admission.clone();
        Box::pin(async move {
            let Ok(mut response) = answer.await;
            if !admission.may_stay() || ends_with_connection(version, &response) {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                // In an answer of HTTP/1.1 to a request of HTTP/1.0, hyper adds `keep-alive`.
                *response.version_mut() = version;
            }
            response
        })
    }
}

/// Whether only the end of the connection can end the answer: HTTP/1.0 knows no chunks.
fn ends_with_connection(version: Version, response: &Response) -> bool {
    version == Version::HTTP_10 && response.body().size_hint().exact().is_none()
}

/// A [`Handler`] that reports to the wire when a head is complete and when its answer has
/// been sent.
struct TrackedHandler {
    handler: Handler,
    state: Arc<ConnectionState>,
    stall: Arc<WriteStall>,
    /// `limits.slow_client`.
    slow_client: Duration,
}

impl Service<hyper::Request<Incoming>> for TrackedHandler {
    type Response = hyper::Response<ResponseBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn call(&self, request: hyper::Request<Incoming>) -> Self::Future {
        let guard = self.state.head_complete(request.body());
        let answer = self.handler.answer(request);
        let (stall, slow_client) = (self.stall.clone(), self.slow_client);
        Box::pin(async move { Ok(ResponseBody::wrap(answer.await, stall, slow_client, guard)) })
    }
}

#[cfg(test)]
mod tests;
