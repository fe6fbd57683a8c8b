//! Serves a scripted upstream. It records every byte that it is sent, and answers by
//! script, held by gates that the test opens. It runs on a thread of its own, so that it
//! continues while a test blocks.

mod connection;

use std::collections::{HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::http::Head;
use super::watch;
use super::wire_rules::unpaired;

use crate::support::sync;

const CHAT: &str = "/v1/chat/completions";

/// The next step of an answer. At the end of the script the body ends properly.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Bytes of the body. The first ones send `200 text/event-stream` ahead, unless
    /// a `Head` came.
    Send(Vec<u8>),
    /// The head of a chunked answer.
    Head { status: u16, headers: Vec<(String, String)> },
    /// A whole answer that is no stream.
    Answer { status: u16, headers: Vec<(String, String)>, body: Vec<u8> },
    /// Bytes on the bare socket, whatever they are.
    Garbage(Vec<u8>),
    /// Nothing until the test opens the gate of this name.
    Gate(String),
    /// Closes the connection without the body's proper end.
    Close,
    /// Closes the connection with a reset.
    Reset,
    /// Sends nothing more, until the peer leaves.
    Hang,
    /// Sends these bytes of the body repeatedly, until the peer leaves.
    Flood(Vec<u8>),
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) head: Head,
    /// The exact bytes.
    pub(crate) body: Vec<u8>,
    /// Whether the peer left before the answer had ended.
    abandoned: bool,
}

/// One answer of the script.
#[derive(Debug)]
struct Round {
    path: String,
    /// Only for requests with this model.
    model: Option<String>,
    steps: VecDeque<Step>,
}

#[derive(Debug, Default)]
struct State {
    rounds: VecDeque<Round>,
    /// The answer to every POST that no round takes.
    otherwise: Option<Vec<Step>>,
    requests: Vec<Request>,
    open: HashSet<String>,
    reached: HashSet<String>,
    faults: Vec<String>,
    /// How many bytes floods have sent.
    flooded: u64,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Incremented at every change of `state`.
    changed: watch::Sender<u64>,
}

/// The scripted upstream. Checks on drop that the whole script was used, and that every
/// tool call in a request has exactly one answer.
#[derive(Debug)]
pub(crate) struct Upstream {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Request {
    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the body sent upstream is JSON")
    }
}

impl Upstream {
    pub(crate) fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        listener.set_nonblocking(true).expect("a listener for tokio");
        let shared = Arc::new(Shared { state: Mutex::default(), changed: watch::channel(0).0 });
        let stop = CancellationToken::new();
        let (serving, stopped) = (Arc::clone(&shared), stop.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                tokio::select! {
                    () = accept(listener, serving) => {}
                    () = stopped.cancelled() => {}
                }
            });
        });
        Self { address, shared, stop, thread: Some(thread) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The value for `upstream.url`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Scripts the answer to the next chat completion that no earlier round takes.
    pub(crate) fn round(&self, steps: Vec<Step>) {
        self.script(CHAT, None, steps);
    }

    /// Scripts an answer to a request with `model`, so that several turns can run at
    /// once.
    pub(crate) fn round_of(&self, model: &str, steps: Vec<Step>) {
        self.script(CHAT, Some(model.to_owned()), steps);
    }

    /// Scripts an answer for another path under the base, such as `/v1/embeddings`.
    pub(crate) fn answer(&self, path: &str, steps: Vec<Step>) {
        self.script(path, None, steps);
    }

    /// Scripts the answer to every POST to any path that no round takes.
    pub(crate) fn otherwise(&self, steps: Vec<Step>) {
        self.shared.change(|state| state.otherwise = Some(steps));
    }

    /// Drops the rest of the script: the server that would have asked for it was killed.
    pub(crate) fn forget_script(&self) {
        self.shared.change(|state| {
            state.rounds.clear();
            state.otherwise = None;
        });
    }

    /// Opens a gate permanently.
    pub(crate) fn open(&self, gate: &str) {
        self.shared.change(|state| state.open.insert(gate.to_owned()));
    }

    /// Waits until the script has reached a gate: everything before it has been sent.
    pub(crate) async fn reached(&self, gate: &str) {
        let reached = |state: &State| state.reached.contains(gate).then_some(());
        watch(&format!("upstream to reach gate {gate}"), self.shared.wait(reached)).await;
    }

    /// Waits for chat completion `number`, counted from 0.
    pub(crate) async fn request(&self, number: usize) -> Request {
        self.request_to(CHAT, number).await
    }

    /// Waits for request `number`, counted from 0, of those to `path`.
    pub(crate) async fn request_to(&self, path: &str, number: usize) -> Request {
        let found = |state: &State| state.requests_to(path).nth(number).cloned();
        watch(&format!("request {number} to {path}"), self.shared.wait(found)).await
    }

    /// Waits until the peer has left chat completion `number` before the end of its
    /// answer.
    pub(crate) async fn abandoned(&self, number: usize) {
        let abandoned = |state: &State| {
            state.requests_to(CHAT).nth(number).and_then(|request| request.abandoned.then_some(()))
        };
        watch(&format!("the end of request {number}"), self.shared.wait(abandoned)).await;
    }

    /// How many bytes the floods of this upstream have sent so far.
    pub(crate) fn flooded(&self) -> u64 {
        self.shared.state().flooded
    }

    /// The chat completions so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.state().requests_to(CHAT).cloned().collect()
    }

    /// The requests to any path so far.
    pub(crate) fn all_requests(&self) -> Vec<Request> {
        self.shared.state().requests.clone()
    }

    fn script(&self, path: &str, model: Option<String>, steps: Vec<Step>) {
        let round = Round { path: path.to_owned(), model, steps: steps.into() };
        self.shared.change(|state| state.rounds.push_back(round));
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.stop.cancel();
        let thread = self.thread.take().map(JoinHandle::join);
        if std::thread::panicking() {
            return;
        }
        assert!(thread.is_none_or(|ended| ended.is_ok()), "the scripted upstream panicked");
        let state = self.shared.state();
        assert!(state.faults.is_empty(), "upstream was asked for more: {:#?}", state.faults);
        assert!(state.rounds.is_empty(), "rounds never asked for: {:#?}", state.rounds);
        for request in state.requests_to(CHAT) {
            assert_eq!(unpaired(&request.json()), None);
        }
    }
}

impl State {
    fn requests_to(&self, path: &str) -> impl Iterator<Item = &Request> {
        self.requests.iter().filter(move |request| request.head.path() == path)
    }

    /// Takes the round that answers `request`, or records that there is none.
    fn round_for(&mut self, request: &Request) -> Option<VecDeque<Step>> {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let fits = |round: &Round| {
            let of_model = round.model.as_ref().is_none_or(|model| body["model"] == model.as_str());
            round.path == request.head.path() && of_model
        };
        let at = self.rounds.iter().position(fits)?;
        self.rounds.remove(at).map(|round| round.steps)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        sync::lock(&self.state)
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let value = change(&mut self.state());
        self.changed.send_modify(|count| *count += 1);
        value
    }

    /// Waits until `found` returns something.
    async fn wait<T>(&self, found: impl Fn(&State) -> Option<T>) -> T {
        let mut changes = self.changed.subscribe();
        loop {
            if let Some(value) = found(&self.state()) {
                return value;
            }
            changes.changed().await.expect("the sender lives as long as we");
        }
    }
}

async fn accept(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let listener = TcpListener::from_std(listener).expect("a listener");
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted.expect("a connection");
                connections.spawn(connection::serve(stream, Arc::clone(&shared)));
            }
            Some(ended) = connections.join_next() => ended.expect("no connection panics"),
        }
    }
}

impl State {
    /// Records a request and finds its answer: the script's, or the default one.
    fn admit(&mut self, request: Request) -> (usize, VecDeque<Step>) {
        let steps = self.round_for(&request).unwrap_or_else(|| {
            if request.head.method() == "GET" {
                return unscripted(request.head.path()).into();
            }
            if let Some(steps) = &self.otherwise {
                return steps.clone().into();
            }
            let body = String::from_utf8_lossy(&request.body);
            self.faults.push(format!("{} {body}", request.head.line));
            refusal(500, "no round is scripted").into()
        });
        self.requests.push(request);
        (self.requests.len() - 1, steps)
    }
}

fn unscripted(path: &str) -> Vec<Step> {
    if path != "/v1/models" {
        return refusal(404, "not found");
    }
    let model = |id: &str| serde_json::json!({ "id": id, "object": "model", "created": 1, "owned_by": "script" });
    let models = [model("scripted"), model("other")];
    super::chunks::status(200, &serde_json::json!({ "object": "list", "data": models }))
}

fn refusal(status: u16, message: &str) -> Vec<Step> {
    let error = serde_json::json!({ "message": message, "type": null, "code": status.to_string() });
    super::chunks::status(status, &serde_json::json!({ "error": error }))
}

#[tokio::test]
async fn a_script_goes_on_when_its_gate_opens() {
    use super::chunks::{end, gate, text};
    use super::client::{Client, ask_streamed};

    let upstream = Upstream::start();
    upstream.round([vec![text("one "), gate("half"), text("two")], end("stop")].concat());

    let client = Client::new(upstream.address(), "any");
    let mut stream = client.stream(&ask_streamed("Count.")).await;
    assert_eq!(stream.until_text().await, "one ");
    upstream.reached("half").await;
    upstream.open("half");

    assert_eq!(stream.until_text().await, "two");
    assert_eq!(upstream.request(0).await.json()["messages"][0]["content"], "Count.");
}

#[tokio::test]
async fn who_leaves_at_a_gate_is_seen_to_leave() {
    use super::chunks::{gate, text};
    use super::client::{Client, ask_streamed};

    let upstream = Upstream::start();
    upstream.round(vec![text("one "), gate("never")]);

    let mut stream = Client::new(upstream.address(), "any").stream(&ask_streamed("Count.")).await;
    stream.until_text().await;
    drop(stream);

    upstream.abandoned(0).await;
}
