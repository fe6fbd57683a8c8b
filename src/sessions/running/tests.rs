//! Tests who owns a turn, who looks on, and that no request runs twice.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::HeaderMap;
use indexmap::IndexMap;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::agent::events::{Finished, Headline, Summary, ToolStart, TurnEvent};
use crate::agent::outbox::outbox;
use crate::errors::ErrorCode;
use crate::ids::KeyId;
use crate::openai::chunk::FinishReason;
use crate::sessions::request::Progress;
use crate::store::memory::MemoryStore;
use crate::store::memory::samples;
use crate::store::rows::{Change, EntryRow, SessionRow};

const FORM: AnswerForm =
    AnswerForm { stream: true, include_usage: false, progress: Progress::None };

const HOUR: Duration = Duration::from_secs(3600);

/// The other end of a turn: it says what it is told to, until it is stopped.
#[derive(Clone, Debug)]
struct Script(mpsc::UnboundedSender<TurnEvent>);

impl Script {
    fn say(&self, event: TurnEvent) {
        let _ = self.0.send(event);
    }
}

/// What a test holds of one server.
struct Server {
    running: Running,
    store: Arc<MemoryStore>,
    session: SessionRow,
    scripts: Mutex<Vec<Script>>,
    starts: AtomicUsize,
}

impl Server {
    fn new() -> Self {
        Self::over(MemoryStore::new(), samples::session("a"))
    }

    fn over(store: Arc<MemoryStore>, session: SessionRow) -> Self {
        let as_store: Arc<dyn Store> = store.clone();
        let running = Running::new(as_store);
        Self { running, store, session, scripts: Mutex::default(), starts: AtomicUsize::new(0) }
    }

    /// A turn that ends when it is stopped, unless it `is_stuck`.
    fn started(&self, is_stuck: bool) -> StartedTurn {
        let (script, mut said) = mpsc::unbounded_channel::<TurnEvent>();
        let (outbox, events) = outbox();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let agent = Box::pin(async move {
            loop {
                tokio::select! {
                    biased;
                    () = stopped.cancelled(), if !is_stuck => return,
                    event = said.recv() => {
                        let Some(event) = event else { return std::future::pending().await };
                        let is_last = event.is_terminal();
                        outbox.push(event);
                        outbox.flush();
                        if is_last {
                            return;
                        }
                    }
                }
            }
        });
        sync::lock(&self.scripts).push(Script(script));
        self.starts.fetch_add(1, Ordering::Relaxed);
        let identity = TurnIdentity {
            id: TurnId::random(),
            session: self.session.id.clone(),
            session_name: self.session.id.to_string(),
            scope: self.session.scope,
            started_ms: clock::now_ms(),
        };
        StartedTurn { identity, model: "model".to_owned(), events, stop, decisions: None, agent }
    }

    fn sharing(&self, policy: DisconnectPolicy) -> Sharing {
        let slot = self.running.slots.try_take(&self.session.id);
        assert!(slot.is_some(), "two turns run in one session");
        let held = Held { permit: None, slot };
        let (retention, revoked) = (Retention::All, CancellationToken::new());
        let audience = Audience::default();
        Sharing { form: FORM, policy, retention, held, revoked, resume: None, audience }
    }

    fn begin(&self, policy: DisconnectPolicy) -> (Arc<SharedTurn>, Subscriber, Script) {
        let (turn, subscriber) = self.running.begin(self.started(false), self.sharing(policy));
        (turn, subscriber, self.script())
    }

    fn script(&self) -> Script {
        sync::lock(&self.scripts).last().expect("a turn").clone()
    }

    async fn listen(
        &self,
        fingerprint: RequestFingerprint,
        policy: DisconnectPolicy,
    ) -> Result<Subscriber, ApiError> {
        let start = async || {
            // Others may come meanwhile.
            tokio::task::yield_now().await;
            Ok(Begun::Turn(Box::new((self.started(false), self.sharing(policy)))))
        };
        let listened = self.running.listen(self.session.scope, fingerprint, FORM, start).await?;
        Ok(listened.expect("a turn"))
    }

    fn slot_is_free(&self) -> bool {
        self.running.slots.try_take(&self.session.id).is_some()
    }
}

fn fingerprint(headers: &[(&str, &str)], body: &str) -> RequestFingerprint {
    let headers = headers.iter().map(|(name, value)| {
        (name.parse::<axum::http::HeaderName>().unwrap(), value.parse().unwrap())
    });
    RequestFingerprint::from_request(&headers.collect::<HeaderMap>(), None, body.as_bytes())
}

fn retry() -> RequestFingerprint {
    fingerprint(&[("x-stainless-retry-count", "1")], "body")
}

fn named(body: &str) -> RequestFingerprint {
    fingerprint(&[("idempotency-key", "mine")], body)
}

fn text(text: &str) -> TurnEvent {
    TurnEvent::Text(text.to_owned())
}

fn tool() -> TurnEvent {
    TurnEvent::ToolStarted(Box::new(ToolStart {
        call_id: "c1".to_owned(),
        slot: 0,
        arguments: None,
        tool: "Bash".to_owned(),
        headline: Headline::default(),
    }))
}

fn finished() -> TurnEvent {
    TurnEvent::Finished(Box::new(Finished {
        reason: FinishReason::Stop,
        usage: None,
        summary: Summary {
            session: "mine".to_owned(),
            turn: TurnId::random(),
            rounds: 1,
            tool_calls: 0,
            duration: Duration::ZERO,
            rounds_without_usage: 0,
            context_tokens: None,
        },
        messages: None,
        unknown: IndexMap::new(),
        whole: None,
    }))
}

/// Reads to the end: the text, and the code of a failure.
async fn rest(mut subscriber: Subscriber) -> (String, Option<ErrorCode>) {
    let (mut said, mut failed) = (String::new(), None);
    while let Some(events) = subscriber.take().await {
        for event in events {
            match event {
                TurnEvent::Text(text) => said.push_str(&text),
                TurnEvent::Failed(failure) => failed = Some(failure.error.code),
                _ => {}
            }
        }
    }
    (said, failed)
}

#[tokio::test(start_paused = true)]
async fn a_turn_stops_with_its_last_subscriber_and_not_before() {
    let server = Server::new();
    let (turn, first, _script) = server.begin(DisconnectPolicy::Stop);
    let second = Subscriber::new(&turn);

    drop(first);
    tokio::task::yield_now().await;
    assert!(!turn.stop.is_cancelled());
    drop(second);
    turn.over.cancelled().await;

    assert!(server.slot_is_free());
}

#[tokio::test(start_paused = true)]
async fn a_detached_turn_goes_on_and_is_heard_from_its_beginning() {
    let server = Server::new();
    let (turn, first, script) = server.begin(DisconnectPolicy::Detach);
    script.say(text("It is "));
    drop(first);
    script.say(tool());
    script.say(text("done."));
    script.say(finished());
    turn.over.cancelled().await;

    let again = server.running.follow(turn.identity.scope, &turn.identity.id, Position::default());

    assert_eq!(rest(again.expect("it is kept")).await, ("It is done.".to_owned(), None));
}

#[tokio::test(start_paused = true)]
async fn who_comes_back_within_the_grace_finds_the_turn_running() {
    let server = Server::new();
    let (turn, first, script) = server.begin(DisconnectPolicy::Grace(HOUR));
    drop(first);
    tokio::time::sleep(HOUR.saturating_sub(Duration::from_secs(1))).await;
    let second = server.running.follow(turn.identity.scope, &turn.identity.id, Position::default());
    tokio::time::sleep(2 * HOUR).await;
    assert!(!turn.stop.is_cancelled());
    script.say(text("Still here."));

    drop(second);
    tokio::time::sleep(HOUR.saturating_sub(Duration::from_secs(1))).await;
    assert!(!turn.stop.is_cancelled());
    tokio::time::sleep(Duration::from_secs(2)).await;

    assert!(turn.is_over());
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_does_not_stop_is_aborted() {
    let server = Server::new();
    let sharing = server.sharing(DisconnectPolicy::Stop);
    let (turn, subscriber) = server.running.begin(server.started(true), sharing);

    turn.stop().await;

    assert!(server.slot_is_free());
    assert_eq!(rest(subscriber).await, (String::new(), Some(ErrorCode::Cancelled)));
}

#[tokio::test(start_paused = true)]
async fn a_revoked_key_stops_its_turns() {
    let server = Server::new();
    let sharing = server.sharing(DisconnectPolicy::Detach);
    let revoked = sharing.revoked.clone();
    let (_turn, subscriber) = server.running.begin(server.started(false), sharing);

    revoked.cancel();

    assert_eq!(rest(subscriber).await.1, Some(ErrorCode::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_stands_still_does_not_keep_the_session() {
    let server = Server::new();
    let (turn, stalled, script) = server.begin(DisconnectPolicy::Stop);
    script.say(text("Read me."));
    script.say(finished());

    turn.over.cancelled().await;

    assert!(server.slot_is_free());
    assert_eq!(rest(stalled).await, ("Read me.".to_owned(), None));
}

#[tokio::test(start_paused = true)]
async fn another_scope_finds_no_turn() {
    let server = Server::new();
    let (turn, _subscriber, _script) = server.begin(DisconnectPolicy::Stop);
    let other = Scope::new(&KeyId::new("b"), None);

    assert!(server.running.find(other, &turn.identity.id).is_none());
    assert!(server.running.of_scope(other).is_empty());
    assert!(server.running.find(turn.identity.scope, &turn.identity.id).is_some());
    assert_eq!(server.running.of_scope(turn.identity.scope).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_too_long_to_keep_is_told_from_the_record() {
    let server = Server::new();
    let (turn, first, script) = server.begin(DisconnectPolicy::Detach);
    let mut second =
        server.running.follow(turn.identity.scope, &turn.identity.id, Position::default()).unwrap();
    script.say(text("It is "));
    assert!(second.take().await.is_some());
    drop(first);
    let long = "x".repeat(100_000);
    for _ in 0..20 {
        script.say(text(&long));
    }
    let said = format!("It is {}", long.repeat(20));
    server.record(&turn.identity.id, &said).await;
    script.say(finished());

    let (one, other) = tokio::join!(rest(second), async {
        let late =
            server.running.follow(turn.identity.scope, &turn.identity.id, Position::default());
        rest(late.expect("it is known")).await
    });

    assert_eq!(one.0.len(), said.len() - "It is ".len());
    assert_eq!(other, (said, None));
}

impl Server {
    /// Records that the turn ended with these words.
    async fn record(&self, turn: &TurnId, said: &str) {
        let mut row = samples::turn(&self.session, None);
        row.id = turn.clone();
        row.idempotency = named("body").idempotency();
        row.request = Some(named("body").request());
        row.started_ms = clock::now_ms();
        let body = serde_json::to_vec(&retold_samples::finished(said)).unwrap();
        let entry = EntryRow { turn: turn.clone(), body };
        let session = Change::Session(self.session.clone());
        let changes = vec![session, Change::Turn(row), Change::Entry(entry)];
        self.store.commit(changes).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_is_known_after_a_restart() {
    let before = Server::new();
    let id = TurnId::random();
    before.record(&id, "Once.").await;
    let after = Server::over(before.store.reopened(), before.session.clone());

    let again = after.listen(named("body"), DisconnectPolicy::Stop).await.unwrap();
    let other = after.listen(named("another"), DisconnectPolicy::Stop).await;

    assert_eq!(again.turn, id);
    assert_eq!(again.shape.envelope.id, id.as_str().replace("turn_", "chatcmpl-"));
    assert_eq!(rest(again).await, ("Once.".to_owned(), None));
    assert_eq!(other.unwrap_err().code, ErrorCode::IdempotencyMismatch);
    assert_eq!(after.starts.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_broken_fails_the_named_request_and_starts_nothing() {
    let server = Server::new();
    server.store.set_broken(true);

    let refused = server.listen(named("body"), DisconnectPolicy::Stop).await.unwrap_err();

    assert_eq!(refused.code, ErrorCode::StoreUnavailable);
    assert_eq!((server.starts.load(Ordering::Relaxed), server.running.requests.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn of_requests_at_once_one_starts_the_turn() {
    let server = Server::new();
    let listen = || server.listen(retry(), DisconnectPolicy::Stop);

    let (one, two, three) = tokio::join!(listen(), listen(), listen());

    let all = [one.unwrap(), two.unwrap(), three.unwrap()];
    assert!(all.iter().all(|heard| heard.turn == all[0].turn));
    assert_eq!(server.starts.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_fails_or_is_given_up_leaves_the_name_free() {
    let server = Server::new();
    let scope = server.session.scope;
    let refused = async || Err(ApiError::new(ErrorCode::TooManyRuns, "full"));
    let failed = server.running.listen(scope, named("body"), FORM, refused).await;
    assert_eq!(failed.unwrap_err().code, ErrorCode::TooManyRuns);
    let hangs = async || std::future::pending().await;
    let hanging = server.running.listen(scope, named("body"), FORM, hangs);
    assert!(timeout(HOUR, hanging).await.is_err());

    assert_eq!(server.running.requests.len(), 0);
    assert!(server.listen(named("body"), DisconnectPolicy::Stop).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_position_goes_on_where_it_was_also_when_text_was_joined_since() {
    let server = Server::new();
    let (turn, first, script) = server.begin(DisconnectPolicy::Detach);
    drop(first);
    let follow =
        |position| server.running.follow(turn.identity.scope, &turn.identity.id, position).unwrap();
    let pieces = ["It ", "is ", "so ", "done."];
    let mut positions: VecDeque<(Position, String)> = VecDeque::new();
    let mut following = follow(Position::default());
    let mut said = String::new();
    for piece in pieces {
        script.say(text(piece));
        let events = std::future::poll_fn(|context| following.poll_numbered(context)).await;
        for (position, event) in events.unwrap() {
            let TurnEvent::Text(text) = event else { panic!("{event:?}") };
            said.push_str(&text);
            positions.push_back((position, said.clone()));
        }
    }
    script.say(finished());

    for (position, seen) in positions {
        let again: Position = position.to_string().parse().unwrap();
        let (behind, _) = rest(follow(again)).await;
        assert_eq!(seen + &behind, pieces.concat());
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_server_waits_for_turns_and_then_stops_them() {
    let server = Server::new();
    let (quick, first, script) = server.begin(DisconnectPolicy::Detach);
    drop(first);
    let ends = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        script.say(finished());
    };
    let over = CancellationToken::new();
    tokio::join!(server.running.end(HOUR, &over, HOUR), ends);
    assert!(quick.is_over() && !quick.stop.is_cancelled() && !over.is_cancelled());

    let (long, second, _script) = server.begin(DisconnectPolicy::Detach);
    drop(second);
    server.running.end(HOUR, &over, HOUR).await;
    assert!(long.is_over() && over.is_cancelled());
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Retry,
    Named,
    Leave(usize),
    Say,
    RunTool,
    Finish,
    Cancel,
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Retry),
        2 => Just(Step::Named),
        3 => (0..4_usize).prop_map(Step::Leave),
        2 => Just(Step::Say),
        1 => Just(Step::RunTool),
        1 => Just(Step::Finish),
        1 => Just(Step::Cancel),
        2 => Just(Step::Wait),
    ]
}

fn policy() -> impl Strategy<Value = DisconnectPolicy> {
    let minute = Duration::from_secs(60);
    let all = [DisconnectPolicy::Stop, DisconnectPolicy::Grace(minute), DisconnectPolicy::Detach];
    proptest::sample::select(all.to_vec())
}

/// Carries the steps out, and checks after each that nothing runs twice.
async fn play(steps: Vec<Step>, policy: DisconnectPolicy) {
    let server = Server::new();
    let mut listening: Vec<Subscriber> = Vec::new();
    // The start by which a tool ran, for the name and for the bytes of the request.
    let mut ran: HashMap<bool, usize> = HashMap::new();
    let mut is_named = false;
    for step in steps {
        match step {
            Step::Retry | Step::Named => {
                let asks_named = matches!(step, Step::Named);
                let running = server.running.of_scope(server.session.scope);
                // Another request of this session has to wait.
                if !running.is_empty() && asks_named != is_named {
                    continue;
                }
                let fingerprint = if asks_named { named("body") } else { retry() };
                let before = server.starts.load(Ordering::Relaxed);
                let listened = timeout(HOUR, server.listen(fingerprint, policy)).await;
                let started = server.starts.load(Ordering::Relaxed) > before;
                assert!(!(started && ran.contains_key(&asks_named)), "a tool ran twice");
                if started {
                    is_named = asks_named;
                }
                listening.extend(listened.expect("no retry waits for ever").ok());
            }
            Step::Leave(index) if index < listening.len() => drop(listening.remove(index)),
            Step::Leave(_) => {}
            Step::Say | Step::RunTool | Step::Finish => {
                let running = server.running.of_scope(server.session.scope);
                let Some(turn) = running.first().filter(|turn| !turn.stop.is_cancelled()) else {
                    continue;
                };
                match step {
                    Step::RunTool => {
                        server.script().say(tool());
                        ran.insert(is_named, server.starts.load(Ordering::Relaxed));
                    }
                    Step::Finish => server.script().say(finished()),
                    _ => server.script().say(text("so ")),
                }
                // The turn says it before anybody can do anything else.
                tokio::time::sleep(Duration::from_millis(1)).await;
                let _ = turn;
            }
            Step::Cancel => {
                for turn in server.running.of_scope(server.session.scope) {
                    turn.stop().await;
                }
            }
            Step::Wait => tokio::time::sleep(Duration::from_secs(90)).await,
        }
        assert!(server.running.of_scope(server.session.scope).len() <= 1);
    }
    drop(listening);
    for turn in server.running.of_scope(server.session.scope) {
        turn.stop().await;
    }
    server.running.all_over().await;
    assert!(server.slot_is_free(), "a slot is lost");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_order_of_retries_leaving_and_cancelling_runs_a_tool_twice_or_loses_a_slot(
        steps in vec(step(), 0..24),
        policy in policy(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(play(steps, policy));
    }
}
