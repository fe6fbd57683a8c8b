//! Serves the scripted model. The model's name chooses the answer.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use futures::{Stream, StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::agents::PACE;
use super::client::contains;

/// Twenty chunks of text, as fast as possible.
pub(crate) const CHUNKS: &str = "chunks";
/// One chunk of text, and no end.
pub(crate) const OPEN: &str = "open";
/// Waiting calls that close at the times of [`Script`], then a line of text.
pub(crate) const TIMED: &str = "timed";
/// One call that ends at once. Records when its last brace was sent and when its tool
/// started.
pub(crate) const BRACE: &str = "brace";

/// The same with a tool that counts as one with an effect, so that its intent is committed
/// first.
pub(crate) const INTENT: &str = "intent";

/// One waiting call for each question, then a line of text.
pub(crate) const STEPS: &str = "steps";
/// In a user message: [`STEPS`] answers without a call.
pub(crate) const PLAIN: &str = "Without a call: ";

/// The calls that [`Upstream::calls`] has set, then a line of text.
pub(crate) const CALLS: &str = "calls";

/// The calls that [`Upstream::round`] has set, all in one round, then a line of text. Records when
/// the round ended and when its answers came.
pub(crate) const ROUND: &str = "round";

/// As many calls of Task as the question says. The agents go three rounds, each as long as
/// [`PACE`], or read [`KNOWN`], or answer at once, or never.
pub(crate) const AGENTS: &str = "agents";

/// The file that a reading agent reads.
pub(crate) const KNOWN: &str = "known.txt";

/// A part of the first word of every answer.
pub(crate) const FIRST_WORD: &str = "word";

/// When the calls of [`TIMED`] close, and how long they wait.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) closes: Vec<Duration>,
    pub(crate) waits: Duration,
    pub(crate) ends: Duration,
}

#[derive(Debug)]
pub(crate) struct Upstream {
    address: SocketAddr,
    shared: Arc<Shared>,
    _serving: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    chunks: Vec<Bytes>,
    /// The same answer, unstreamed.
    whole: Bytes,
    script: Mutex<Option<Script>>,
    calls: Mutex<Vec<(&'static str, Value)>>,
    /// The events of [`ROUND`].
    round: Mutex<Vec<Bytes>>,
    braces: Mutex<Vec<Duration>>,
    starts: Mutex<Vec<Duration>>,
    /// The agents that hang.
    hanging: watch::Sender<usize>,
}

/// The events of an answer. A pending stream delays them.
type Events = Pin<Box<dyn Stream<Item = Result<Bytes, std::convert::Infallible>> + Send>>;

impl Upstream {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            chunks: chunks(),
            whole: whole(),
            script: Mutex::default(),
            calls: Mutex::default(),
            round: Mutex::default(),
            braces: Mutex::default(),
            starts: Mutex::default(),
            hanging: watch::Sender::new(0),
        });
        let models = json!({ "object": "list", "data": [] }).to_string();
        let router = Router::new()
            .route("/v1/models", get(|| async { models }))
            .route("/v1/chat/completions", post(answer))
            .with_state(Arc::clone(&shared));
        let listener = listener.tap_io(|stream| stream.set_nodelay(true).expect("a TCP socket"));
        let mut serving = JoinSet::new();
        serving.spawn(async { axum::serve(listener, router).await.expect("serves") });
        Self { address, shared, _serving: serving }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub(crate) fn script(&self, script: Script) {
        *lock(&self.shared.script) = Some(script);
    }

    /// Sets the calls of [`CALLS`]: one round after the other, each of one call.
    pub(crate) fn calls(&self, calls: &[(&'static str, Value)]) {
        *lock(&self.shared.calls) = calls.to_vec();
    }

    /// Sets the round of [`ROUND`]: so many calls of a tool, each with these arguments.
    pub(crate) fn round(&self, tool: &str, arguments: &Value, calls: usize) {
        let arguments = arguments.to_string();
        let open = arguments.strip_suffix('}').expect("an object");
        let calls = (0..calls).flat_map(|number| {
            let (head, front, back) = call(tool, number, open);
            [head, front, back]
        });
        *lock(&self.shared.round) = calls.collect();
    }

    /// Waits until so many agents hang.
    pub(crate) async fn agents_hang(&self, agents: usize) {
        let mut hanging = self.shared.hanging.subscribe();
        hanging.wait_for(|count| agents <= *count).await.expect("the sender lives");
    }

    /// The times from the last braces of [`BRACE`] or [`INTENT`] to the starts of their
    /// tools, and from the ends of [`ROUND`] to their answers, since the last time this was
    /// asked, in order.
    pub(crate) fn start_latencies(&self) -> Vec<Duration> {
        let starts = std::mem::take(&mut *lock(&self.shared.starts));
        let braces = std::mem::take(&mut *lock(&self.shared.braces));
        starts.iter().zip(&*braces).map(|(start, brace)| start.saturating_sub(*brace)).collect()
    }
}

/// Locks a mutex, also when a holder has panicked, as the server does.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Searches the body for a few words instead of parsing it, because the cost of upstream
/// should not be measured.
async fn answer(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let asks_for = |model: &str| contains(&body, format!(r#""model":"{model}""#).as_bytes());
    let is_answered = contains(&body, br#""role":"tool""#);
    if is_answered && (asks_for(BRACE) || asks_for(INTENT)) {
        lock(&shared.starts).push(start_of_tool(&body));
    }
    if !contains(&body, br#""stream":true"#) {
        return ([(CONTENT_TYPE, "application/json")], shared.whole.clone()).into_response();
    }
    let is_plain = contains(&body, PLAIN.as_bytes());
    let events: Events = if asks_for(STEPS) && !is_plain && !ends_with_answer(&body) {
        let (head, front, back) = call("Wait", 0, r#"{"ms": 0"#);
        at_once([vec![head, front, back], ending("tool_calls")].concat())
    } else if asks_for(AGENTS) {
        agents(&shared, &body)
    } else if asks_for(CALLS) {
        called(&shared, &body)
    } else if asks_for(ROUND) && is_answered {
        lock(&shared.starts).push(now());
        expect_no_error(&body);
        at_once(shared.chunks.clone())
    } else if asks_for(ROUND) {
        let calls = at_once(lock(&shared.round).clone());
        let sealed = stream::once(async move {
            lock(&shared.braces).push(now());
            Ok(ending("tool_calls").concat().into())
        });
        Box::pin(calls.chain(sealed))
    } else if asks_for(CHUNKS) || is_plain || is_answered {
        at_once(shared.chunks.clone())
    } else if asks_for(OPEN) {
        Box::pin(at_once(shared.chunks[..1].to_vec()).chain(stream::pending()))
    } else if asks_for(TIMED) {
        timed(&shared)
    } else if asks_for(INTENT) {
        brace("Act", shared)
    } else {
        brace("Wait", shared)
    };
    ([(CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response()
}

/// Whether the last message is a tool's answer.
fn ends_with_answer(body: &[u8]) -> bool {
    let last = |role: &[u8]| memchr::memmem::rfind(body, role);
    last(br#""role":"tool""#) > last(br#""role":"user""#)
}

/// When the waiting tool started, by its own answer.
fn start_of_tool(body: &[u8]) -> Duration {
    let body = String::from_utf8_lossy(body);
    let nanos =
        body.split("began at ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    Duration::from_nanos(nanos.expect("the tool tells when it began"))
}

/// The time on a clock that all processes share.
fn now() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().expect("after 1970")
}

/// Sends one event after the other, each in a write of its own.
fn at_once(events: Vec<Bytes>) -> Events {
    Box::pin(stream::unfold(events.into_iter(), |mut events| async {
        let event = events.next()?;
        tokio::task::yield_now().await;
        Some((Ok(event), events))
    }))
}

/// Sends each event at its time.
fn at_times(events: Vec<(Instant, Bytes)>) -> Events {
    Box::pin(stream::unfold(events.into_iter(), |mut events| async {
        let (time, event) = events.next()?;
        sleep_until(time).await;
        Some((Ok(event), events))
    }))
}

fn timed(shared: &Shared) -> Events {
    let start = Instant::now();
    let script = lock(&shared.script).clone().expect("a script");
    let milliseconds = script.waits.as_millis();
    let mut events = vec![(start, event(&json!({ "role": "assistant", "content": "" }), None))];
    for (number, close) in script.closes.iter().enumerate() {
        let (head, front, back) = call("Wait", number, &format!(r#"{{"ms": {milliseconds}"#));
        let opens = start + close.mul_f64(0.9);
        events.extend([(opens, head), (opens, front), (start + *close, back)]);
    }
    let ends = start + script.ends;
    events.extend(ending("tool_calls").into_iter().map(|event| (ends, event)));
    at_times(events)
}

/// A call that failed would be measured as a quick one.
fn expect_no_error(body: &[u8]) {
    assert!(!contains(body, br#""content":"Error:"#), "{}", String::from_utf8_lossy(body));
}

/// The next call that was set, or a line of text behind the last one.
fn called(shared: &Shared, body: &[u8]) -> Events {
    expect_no_error(body);
    let answered = memchr::memmem::find_iter(body, br#""role":"tool""#).count();
    let Some((tool, arguments)) = lock(&shared.calls).get(answered).cloned() else {
        return at_once(shared.chunks.clone());
    };
    let arguments = arguments.to_string();
    let open = arguments.strip_suffix('}').expect("an object");
    let (head, front, back) = call(tool, 0, open);
    at_once([vec![head, front, back], ending("tool_calls")].concat())
}

/// Starts agents, or is one. An agent's prompt begins with `Agent:` and says how it behaves.
fn agents(shared: &Arc<Shared>, body: &[u8]) -> Events {
    let answered = memchr::memmem::find_iter(body, br#""role":"tool""#).count();
    let is =
        |behaviour: &str| contains(body, format!(r#""content":"Agent: {behaviour}""#).as_bytes());
    if is("hanging") {
        shared.hanging.send_modify(|count| *count += 1);
        return Box::pin(stream::pending());
    }
    if is("quick") {
        if answered == 0 {
            lock(&shared.starts).push(now());
        }
        return at_once(shared.chunks.clone());
    }
    if is("paced") {
        let ends = Instant::now() + PACE;
        let (head, front, back) = call("Wait", 0, r#"{"ms": 0"#);
        let events = if answered < 2 {
            [vec![head, front, back], ending("tool_calls")].concat()
        } else {
            shared.chunks.clone()
        };
        return at_times(events.into_iter().map(|event| (ends, event)).collect());
    }
    if is("reading") && answered == 0 {
        let (head, front, back) = call("Read", 0, &format!(r#"{{"file_path": "{KNOWN}""#));
        return at_once([vec![head, front, back], ending("tool_calls")].concat());
    }
    if is("reading") || ends_with_answer(body) {
        return at_once(shared.chunks.clone());
    }
    let question = String::from_utf8_lossy(body);
    let asked = question.split("Start ").nth(1).and_then(|rest| rest.split_once(" agents: "));
    let (count, rest) = asked.expect("a number of agents");
    let behaviour = rest.split('"').next().unwrap_or_default();
    let arguments = format!(
        r#"{{"description": "d", "subagent_type": "general-purpose", "prompt": "Agent: {behaviour}""#
    );
    let calls = (0..count.parse().unwrap_or(1)).flat_map(|number| {
        let (head, front, back) = call("Task", number, &arguments);
        [head, front, back]
    });
    let calls = at_once(calls.collect());
    let (quick, shared) = (behaviour == "quick", Arc::clone(shared));
    let sealed = stream::once(async move {
        if quick {
            lock(&shared.braces).push(now());
        }
        Ok(ending("tool_calls").concat().into())
    });
    Box::pin(calls.chain(sealed))
}

fn brace(tool: &str, shared: Arc<Shared>) -> Events {
    /// Long enough for the tool to start while the stream is open.
    const OPEN: Duration = Duration::from_millis(5);
    let (head, front, back) = call(tool, 0, r#"{"ms": 0"#);
    let before = at_once(vec![head, front]);
    let noted = stream::once(async move {
        lock(&shared.braces).push(now());
        Ok(back)
    });
    let after = stream::once(async {
        tokio::time::sleep(OPEN).await;
        Ok(ending("tool_calls").concat().into())
    });
    Box::pin(before.chain(noted).chain(after))
}

/// The text of every answer.
pub(crate) fn text() -> String {
    pieces().collect()
}

fn pieces() -> impl Iterator<Item = String> {
    (0..20).map(|number| format!("{FIRST_WORD} {number} of twenty. "))
}

fn whole() -> Bytes {
    let message = json!({ "role": "assistant", "content": text() });
    let answer = json!({
        "id": "chatcmpl-bench", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30 },
    });
    answer.to_string().into()
}

fn chunks() -> Vec<Bytes> {
    let mut events: Vec<Bytes> =
        pieces().map(|text| event(&json!({ "content": text }), None)).collect();
    events.extend(ending("stop"));
    events
}

/// The head of a call, its arguments without the last brace, and the brace.
fn call(tool: &str, number: usize, arguments: &str) -> (Bytes, Bytes, Bytes) {
    let piece =
        |function: Value| json!({ "tool_calls": [{ "index": number, "function": function }] });
    let head = json!({ "tool_calls": [{
        "index": number, "id": format!("call_{number}"), "type": "function",
        "function": { "name": tool, "arguments": "" },
    }]});
    (
        event(&head, None),
        event(&piece(json!({ "arguments": arguments })), None),
        event(&piece(json!({ "arguments": "}" })), None),
    )
}

fn ending(reason: &str) -> Vec<Bytes> {
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30 });
    let figures = json!({
        "id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{ "index": 0, "delta": {} }], "usage": usage,
    });
    vec![
        event(&json!({}), Some(reason)),
        format!("data: {figures}\n\n").into(),
        Bytes::from_static(b"data: [DONE]\n\n"),
    ]
}

fn event(delta: &Value, reason: Option<&str>) -> Bytes {
    let chunk = json!({
        "id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }],
    });
    format!("data: {chunk}\n\n").into()
}
