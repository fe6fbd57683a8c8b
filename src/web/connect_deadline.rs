//! Bounds connecting by the time that is left of `web.connect_timeout`.
//!
//! That time includes the lookup of the name, which is over before the HTTP client connects. The
//! client's own limit would begin anew, so a request brings its deadline along.

use std::io;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use tokio::time::{Instant, timeout_at};
use tower::{BoxError, Layer, Service};

tokio::task_local! {
    static DEADLINE: Instant;
}

/// Sends a request through a client that has the layer [`ConnectDeadline`]. It fails with a
/// timeout unless it is connected by `deadline`.
pub(super) async fn connected_by<T>(deadline: Instant, request: impl Future<Output = T>) -> T {
    DEADLINE.scope(deadline, request).await
}

/// A layer of connectors. A client connects in the task of its request.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectDeadline;

#[derive(Clone, Debug)]
pub(super) struct DeadlineConnector<S>(S);

impl<S> Layer<S> for ConnectDeadline {
    type Service = DeadlineConnector<S>;

    fn layer(&self, inner: S) -> DeadlineConnector<S> {
        DeadlineConnector(inner)
    }
}

impl<R, S> Service<R> for DeadlineConnector<S>
where
    S: Service<R, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, destination: R) -> Self::Future {
        let deadline = DEADLINE.try_get();
        let connecting = self.0.call(destination);
        Box::pin(async move {
            let Ok(deadline) = deadline else { return connecting.await };
            let late = |_| io::Error::from(io::ErrorKind::TimedOut);
            timeout_at(deadline, connecting).await.map_err(late)?
        })
    }
}
