//! Speaks JSON-RPC with a language server: matches answers with requests, answers what the server
//! asks, and hands on what it tells.
//!
//! The connection ends with its value, and for good: at the first message that cannot be read,
//! when the server closes its output, or when it does not read a message within the limit.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::codec::{FramedRead, FramedWrite};

use super::answers::answer;
use super::codec::MessageCodec;
use super::documents::Notification;
use super::message::{self, Incoming, Params, ResponseError};
use crate::sync;

/// Messages that wait for a server that does not read. Whoever sends more waits.
const MAX_WAITING: usize = 64;

/// A notification of the server.
pub(super) type OnNotification = Box<dyn Fn(&str, &Params) + Send + Sync>;

/// Why a request has no result.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error("refused the request: {0}")]
    Refused(ResponseError),
    #[error("did not answer within {0:?}; the request was cancelled")]
    TimedOut(Duration),
    /// The answer to this method is none of the protocol's.
    #[error("answered {0} with something else")]
    Unreadable(&'static str),
    /// With what it did last.
    #[error("{0}")]
    Ended(String),
}

/// A connection to a server. Dropping it closes the server's input.
#[derive(Debug)]
pub(super) struct Connection {
    outgoing: mpsc::Sender<Bytes>,
    pending: Arc<Pending>,
    next_id: AtomicI64,
    ended: watch::Receiver<Option<String>>,
    _tasks: JoinSet<()>,
}

/// Room for the notifications of one document.
pub(super) struct Room<'c>(mpsc::PermitIterator<'c, Bytes>);

/// How writing has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    /// Nothing more is to be written, or the server has closed its input.
    Done,
    /// The server did not read a message within the limit.
    Stalled,
}

/// The requests that wait for their answers.
#[derive(Debug, Default)]
struct Pending(Mutex<HashMap<i64, oneshot::Sender<Result<Params, ResponseError>>>>);

/// A request that waits. Dropped without its answer, it is cancelled.
struct Waiting<'c> {
    connection: &'c Connection,
    id: i64,
}

impl Connection {
    /// `settings` are for the server, when it asks for its configuration. It must read each
    /// message within `read_limit`.
    pub(super) fn open(
        input: impl AsyncWrite + Send + Unpin + 'static,
        output: impl AsyncRead + Send + Unpin + 'static,
        settings: Value,
        read_limit: Duration,
        on_notification: OnNotification,
    ) -> Self {
        let (outgoing, to_write) = mpsc::channel(MAX_WAITING);
        let (end, ended) = watch::channel(None);
        let pending = Arc::new(Pending::default());
        let end = Arc::new(end);
        let (stalled, waiting) = (Arc::clone(&end), Arc::clone(&pending));
        let reader = Reader {
            pending: Arc::clone(&pending),
            outgoing: outgoing.downgrade(),
            settings,
            on_notification,
        };
        let read = async move {
            let why = reader.read_all(output).await;
            end_with(&end, why);
            reader.pending.fail_all();
        };
        let write = async move {
            if write_all(input, to_write, read_limit).await == Written::Stalled {
                end_with(&stalled, format!("did not read what it was sent within {read_limit:?}"));
                waiting.fail_all();
            }
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(read);
        tasks.spawn(write);
        Self { outgoing, pending, next_id: AtomicI64::new(1), ended, _tasks: tasks }
    }

    /// Asks the server. Where nobody waits for the answer any more, the server is told.
    pub(super) async fn request(
        &self,
        method: &str,
        params: &Value,
        limit: Duration,
    ) -> Result<Params, RequestError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let answered = self.pending.register(id);
        let _waiting = Waiting { connection: self, id };
        let answer = async {
            self.send(message::request(id, method, params)).await?;
            answered.await.map_err(|_| self.why_ended())?.map_err(RequestError::Refused)
        };
        timeout(limit, answer).await.map_err(|_| RequestError::TimedOut(limit))?
    }

    /// Tells the server.
    pub(super) async fn notify(&self, method: &str, params: &Value) -> Result<(), RequestError> {
        self.send(message::notification(method, params)).await
    }

    /// Waits until there is room for the notifications of one document. What is told then is
    /// told at once, so that it cannot be given up half-way.
    pub(super) async fn room(&self, notifications: usize) -> Result<Room<'_>, RequestError> {
        if self.has_ended() {
            return Err(self.why_ended());
        }
        let room = self.outgoing.reserve_many(notifications).await;
        room.map(Room).map_err(|_| self.why_ended())
    }

    /// Why the connection has ended, once it has.
    pub(super) async fn ended(&self) -> String {
        let mut ended = self.ended.clone();
        let why = ended.wait_for(Option::is_some).await;
        why.ok().and_then(|why| why.clone()).unwrap_or_default()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.borrow().is_some()
    }

    async fn send(&self, body: Bytes) -> Result<(), RequestError> {
        if self.has_ended() {
            return Err(self.why_ended());
        }
        self.outgoing.send(body).await.map_err(|_| self.why_ended())
    }

    fn why_ended(&self) -> RequestError {
        let why = self.ended.borrow().clone();
        RequestError::Ended(why.unwrap_or_else(|| "has closed its input".to_owned()))
    }
}

impl Room<'_> {
    /// Tells the server. There is room for no more than a document needs.
    pub(super) fn tell(self, notifications: &[Notification]) {
        debug_assert!(notifications.len() <= self.0.len(), "a document needs more room");
        for ((method, params), permit) in notifications.iter().zip(self.0) {
            permit.send(message::notification(method, params));
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.connection.pending.forget(self.id) {
            let params = json!({ "id": self.id });
            // A server that reads nothing is not helped by one more message.
            let cancel = message::notification("$/cancelRequest", &params);
            _ = self.connection.outgoing.try_send(cancel);
        }
    }
}

impl Pending {
    fn register(&self, id: i64) -> oneshot::Receiver<Result<Params, ResponseError>> {
        let (answer, answered) = oneshot::channel();
        sync::lock(&self.0).insert(id, answer);
        answered
    }

    /// Whether it was still waiting.
    fn forget(&self, id: i64) -> bool {
        sync::lock(&self.0).remove(&id).is_some()
    }

    /// What answers nothing, or a second time, is passed over.
    fn resolve(&self, id: i64, outcome: Result<Params, ResponseError>) {
        let waiting = sync::lock(&self.0).remove(&id);
        if let Some(waiting) = waiting {
            _ = waiting.send(outcome);
        }
    }

    fn fail_all(&self) {
        sync::lock(&self.0).clear();
    }
}

/// Takes what the server says.
struct Reader {
    pending: Arc<Pending>,
    outgoing: mpsc::WeakSender<Bytes>,
    settings: Value,
    on_notification: OnNotification,
}

impl Reader {
    /// Returns why nothing more comes.
    async fn read_all(&self, output: impl AsyncRead + Send + Unpin) -> String {
        let mut messages = FramedRead::new(output, MessageCodec::default());
        while let Some(body) = messages.next().await {
            let message = match body {
                Ok(body) => Incoming::parse(&body),
                Err(error) => return error.to_string(),
            };
            match message {
                Ok(message) => self.take(message).await,
                Err(_) => return "sent a message that is no JSON-RPC".to_owned(),
            }
        }
        "has ended".to_owned()
    }

    async fn take(&self, message: Incoming) {
        match message {
            Incoming::Response { id, outcome } => self.pending.resolve(id, outcome),
            Incoming::Notification { method, params } => (self.on_notification)(&method, &params),
            Incoming::Request { id, method, params } => {
                let outcome = answer(&method, &params, &self.settings);
                if let Some(outgoing) = self.outgoing.upgrade() {
                    _ = outgoing.send(message::response(&id, outcome)).await;
                }
            }
            Incoming::Stray => {}
        }
    }
}

/// The first reason stands.
fn end_with(end: &watch::Sender<Option<String>>, why: String) {
    end.send_if_modified(|ended| {
        let is_first = ended.is_none();
        ended.get_or_insert(why);
        is_first
    });
}

async fn write_all(
    input: impl AsyncWrite + Send + Unpin,
    mut to_write: mpsc::Receiver<Bytes>,
    read_limit: Duration,
) -> Written {
    let mut messages = FramedWrite::new(input, MessageCodec::default());
    while let Some(body) = to_write.recv().await {
        match timeout(read_limit, messages.send(body)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => break,
            Err(_) => return Written::Stalled,
        }
    }
    Written::Done
}

#[cfg(test)]
mod tests {
    use std::future::Future;

    use tokio::io::{AsyncWriteExt as _, DuplexStream, duplex, split};
    use tokio_util::codec::Framed;

    use super::*;

    /// The other end of a connection.
    type Peer = Framed<DuplexStream, MessageCodec>;

    fn connect() -> (Connection, Peer, mpsc::UnboundedReceiver<String>) {
        let (ours, theirs) = duplex(1 << 16);
        let (output, input) = split(ours);
        let (told, notified) = mpsc::unbounded_channel();
        let on_notification: OnNotification =
            Box::new(move |method, _| _ = told.send(method.to_owned()));
        let settings = json!({ "a": 1 });
        let connection = Connection::open(input, output, settings, READ_LIMIT, on_notification);
        (connection, Framed::new(theirs, MessageCodec::default()), notified)
    }

    async fn received(peer: &mut Peer) -> Value {
        serde_json::from_slice(&peer.next().await.unwrap().unwrap()).unwrap()
    }

    async fn say(peer: &mut Peer, message: Value) {
        peer.send(message.to_string().into()).await.unwrap();
    }

    /// Runs both sides to their ends.
    async fn both<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
        tokio::join!(one, other)
    }

    const LIMIT: Duration = Duration::from_secs(5);
    const READ_LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn answers_find_their_requests_in_any_order() {
        let (connection, mut peer, _) = connect();
        let ask = |method: &'static str| {
            let connection = &connection;
            async move {
                let params = connection.request(method, &json!({}), LIMIT).await.unwrap();
                params.read::<String>().unwrap()
            }
        };
        let serve = async {
            let (one, other) = (received(&mut peer).await, received(&mut peer).await);
            say(&mut peer, json!({ "id": 900, "result": "for nobody" })).await;
            for asked in [&other, &one, &one] {
                say(&mut peer, json!({ "id": asked["id"], "result": asked["method"] })).await;
            }
        };
        let ((one, other), ()) = both(both(ask("one"), ask("other")), serve).await;
        assert_eq!((one.as_str(), other.as_str()), ("one", "other"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_given_up_is_cancelled_once() {
        let (connection, mut peer, _) = connect();
        let error = connection.request("slow", &json!({}), LIMIT).await.unwrap_err();
        assert_eq!(error.to_string(), "did not answer within 5s; the request was cancelled");
        assert_eq!(received(&mut peer).await["method"], "slow");
        let cancel = received(&mut peer).await;
        assert_eq!(cancel["method"], "$/cancelRequest");
        assert_eq!(cancel["params"], json!({ "id": 1 }));
        say(&mut peer, json!({ "id": 1, "result": "late" })).await;
        let answer = async {
            let asked = received(&mut peer).await;
            assert_eq!(asked["method"], "next");
            say(&mut peer, json!({ "id": asked["id"], "result": "in time" })).await;
        };
        let (answered, ()) = both(connection.request("next", &json!({}), LIMIT), answer).await;
        assert_eq!(answered.unwrap().read::<String>().unwrap(), "in time");
    }

    #[tokio::test]
    async fn what_the_server_asks_is_answered_beside_requests() {
        let (connection, mut peer, mut notified) = connect();
        say(&mut peer, json!({ "id": "x", "method": "workspace/applyEdit", "params": {} })).await;
        say(&mut peer, json!({ "id": 4, "method": "sampling/createMessage" })).await;
        say(&mut peer, json!({ "method": "window/logMessage", "params": {} })).await;
        let refused = received(&mut peer).await;
        assert_eq!((&refused["id"], &refused["result"]["applied"]), (&json!("x"), &json!(false)));
        let unknown = received(&mut peer).await;
        assert_eq!((&unknown["id"], &unknown["error"]["code"]), (&json!(4), &json!(-32601)));
        assert_eq!(notified.recv().await.as_deref(), Some("window/logMessage"));
        drop(connection);
    }

    #[tokio::test]
    async fn what_cannot_be_read_ends_the_connection_and_its_requests() {
        for (sent, why) in [
            (&b"Content-Length: 1\r\n\r\n{"[..], "sent a message that is no JSON-RPC"),
            (b"HTTP/1.1 200 OK\r\n\r\n", "sent a header without a valid Content-Length"),
            (&[b'x'; 9000], "sent a header of more than 8192 bytes"),
        ] {
            let (connection, mut peer, _) = connect();
            let answer = async {
                received(&mut peer).await;
                peer.get_mut().write_all(sent).await.unwrap();
            };
            let (answered, ()) = both(connection.request("a", &json!({}), LIMIT), answer).await;
            assert!(answered.is_err());
            assert_eq!(connection.ended().await, why);
            let again = connection.request("b", &json!({}), LIMIT).await.unwrap_err();
            assert_eq!(again.to_string(), why);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_read_ends_the_connection() {
        let (connection, _peer, _) = connect();
        let long = json!("x".repeat(1 << 17));
        let error = connection.request("a", &long, Duration::MAX).await.unwrap_err();
        assert_eq!(error.to_string(), "did not read what it was sent within 30s");
        assert_eq!(connection.ended().await, error.to_string());
    }

    #[tokio::test]
    async fn a_server_that_hangs_up_ends_the_connection() {
        let (connection, peer, _) = connect();
        drop(peer);
        assert_eq!(connection.ended().await, "has ended");
        assert!(connection.notify("a", &json!({})).await.is_err());
    }
}
