use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use futures::{FutureExt as _, SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{DuplexStream, duplex, empty, split};
use tokio_util::codec::Framed;

use super::super::codec::MessageCodec;
use super::super::program::{ProgramEnd, StartedProgram};
use super::*;

/// Starts servers in memory, which initialize, and then do what their name says.
#[derive(Debug, Default)]
struct InMemory {
    starts: AtomicUsize,
}

impl Launch for InMemory {
    fn launch<'a>(
        &'a self,
        program: &'a ServerProgram,
    ) -> BoxFuture<'a, Result<StartedProgram, String>> {
        async move {
            self.starts.fetch_add(1, Ordering::Relaxed);
            if program.name == "absent" {
                return Err("could not be started: there is no such program".to_owned());
            }
            let (ours, theirs) = duplex(1 << 16);
            let mut serving = JoinSet::new();
            serving.spawn(serve(theirs, program.name.clone()));
            let (output, input) = split(ours);
            Ok(StartedProgram {
                input: Box::new(input),
                output: Box::new(output),
                errors: Box::new(empty()),
                end: ProgramEnd::new(async move { serving.join_next().await.and(None) }),
            })
        }
        .boxed()
    }
}

async fn serve(stream: DuplexStream, name: String) {
    let mut peer = Framed::new(stream, MessageCodec::default());
    while let Some(Ok(body)) = peer.next().await {
        let message: Value = serde_json::from_slice(&body).unwrap();
        match message["method"].as_str() {
            Some("initialize") if name == "dies" => return,
            Some("initialize") if name == "hangs" => {}
            Some("initialize") => {
                let result = json!({ "id": message["id"], "result": { "capabilities": {} } });
                peer.send(result.to_string().into()).await.unwrap();
            }
            Some("initialized") if name == "dies later" => return,
            Some("shutdown") => return,
            _ => {}
        }
    }
}

fn key(name: &str, root: &str) -> ServerKey {
    ServerKey {
        name: name.to_owned(),
        root: root.into(),
        workspace: vec!["/".into()],
        is_trusted: false,
        is_confined: true,
    }
}

fn program(key: &ServerKey) -> ServerProgram {
    ServerProgram {
        name: key.name.clone(),
        program: "/none".into(),
        arguments: Vec::new(),
        root: key.root.clone(),
        roots: Vec::new(),
        settings: json!({}),
        initialization: json!({}),
        is_confined: true,
        is_trusted: false,
    }
}

struct Ground {
    launcher: Arc<InMemory>,
    pool: Pool,
}

impl Ground {
    fn new() -> Self {
        let launcher = Arc::new(InMemory::default());
        let times = Times {
            idle: Duration::from_secs(900),
            start: Duration::from_secs(30),
            answer: Duration::from_secs(30),
        };
        Self { pool: Pool::new(Arc::<InMemory>::clone(&launcher), times), launcher }
    }

    async fn acquire(&self, name: &str, root: &str) -> Result<Lease, String> {
        let key = key(name, root);
        self.pool.acquire(&key, &program(&key)).await
    }

    fn starts(&self) -> usize {
        self.launcher.starts.load(Ordering::Relaxed)
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_is_started_once_for_a_root() {
    let ground = Ground::new();
    let (one, other) = tokio::join!(ground.acquire("s", "/a"), ground.acquire("s", "/a"));
    assert!(Arc::ptr_eq(&one.unwrap().session, &other.unwrap().session));
    ground.acquire("s", "/b").await.unwrap();
    assert_eq!(ground.starts(), 2);
    assert!(ground.pool.ready(&key("s", "/a")).is_some());
    assert!(ground.pool.ready(&key("s", "/c")).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_at_each_start_is_off_after_three_restarts() {
    for name in ["dies", "absent"] {
        let ground = Ground::new();
        let error = ground.acquire(name, "/a").await.unwrap_err();
        assert!(error.starts_with(&format!("{name} is off: it ")), "{error}");
        assert_eq!(ground.starts(), 4);
        assert!(ground.acquire(name, "/a").await.is_err());
        assert_eq!(ground.starts(), 4);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_crashes_again_and_again_is_off_as_well() {
    let ground = Ground::new();
    // It may have ended before it is handed out.
    drop(ground.acquire("dies later", "/a").await);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let error = ground.acquire("dies later", "/a").await.unwrap_err();
    assert_eq!(error, "dies later is off: it has ended");
    assert_eq!(ground.starts(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_initialize_is_waited_for_within_the_limit() {
    let ground = Ground::new();
    let began = Instant::now();
    let error = ground.acquire("hangs", "/a").await.unwrap_err();
    assert_eq!((error.as_str(), began.elapsed().as_secs()), ("hangs is still starting", 30));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_nobody_asks_ends_and_starts_anew() {
    let ground = Ground::new();
    let lease = ground.acquire("s", "/a").await.unwrap();
    tokio::time::sleep(Duration::from_secs(2000)).await;
    assert!(!lease.session.has_ended(), "somebody asks it");
    drop(lease);
    tokio::time::sleep(Duration::from_secs(1000)).await;
    assert!(ground.pool.ready(&key("s", "/a")).is_none());
    ground.acquire("s", "/a").await.unwrap();
    assert_eq!(ground.starts(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_fifth_server_ends_the_one_that_was_asked_longest_ago() {
    let ground = Ground::new();
    for root in ["/1", "/2", "/3", "/4"] {
        drop(ground.acquire("s", root).await.unwrap());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    drop(ground.acquire("s", "/1").await.unwrap());
    let leases = [
        ground.acquire("s", "/5").await.unwrap(),
        ground.acquire("s", "/1").await.unwrap(),
        ground.acquire("s", "/3").await.unwrap(),
        ground.acquire("s", "/4").await.unwrap(),
    ];
    assert_eq!(ground.starts(), 5);
    assert!(ground.pool.ready(&key("s", "/2")).is_none());
    let refused = ground.acquire("s", "/2").await.unwrap_err();
    assert!(refused.starts_with("4 language servers are at work"), "{refused}");
    drop(leases);
    ground.acquire("s", "/2").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_does_not_outlive_the_trust_it_was_started_with() {
    let ground = Ground::new();
    drop(ground.acquire("s", "/a").await.unwrap());
    let trusted = ServerKey { is_trusted: true, ..key("s", "/a") };
    drop(ground.pool.acquire(&trusted, &program(&trusted)).await.unwrap());
    assert!(ground.pool.ready(&key("s", "/a")).is_none());
    assert_eq!(ground.pool.phases().len(), 1);
    let unconfined = ServerKey { is_confined: false, ..trusted.clone() };
    drop(ground.pool.acquire(&unconfined, &program(&unconfined)).await.unwrap());
    assert!(ground.pool.ready(&trusted).is_none());
}

#[tokio::test(start_paused = true)]
async fn each_workspace_has_a_server_of_its_own_and_keeps_it() {
    let ground = Ground::new();
    let outer = key("s", "/a/b");
    let inner = ServerKey { workspace: vec!["/a/b".into()], is_trusted: true, ..key("s", "/a/b") };
    let first = ground.pool.acquire(&outer, &program(&outer)).await.unwrap();
    let second = ground.pool.acquire(&inner, &program(&inner)).await.unwrap();
    assert!(!Arc::ptr_eq(&first.session, &second.session));
    assert_eq!(ground.starts(), 2);
    assert!(ground.pool.ready(&outer).is_some() && ground.pool.ready(&inner).is_some());
}
