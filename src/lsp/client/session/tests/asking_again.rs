//! Questions that a server cannot answer yet.

use std::collections::VecDeque;
use std::fs;

use tokio::time::sleep;

use super::*;

/// A session with a server in memory, and a workspace with the files `a.py` and `b.py`.
struct Ground {
    session: Session,
    workspace: Arc<Workspace>,
    directory: tempfile::TempDir,
}

impl Ground {
    /// The server takes so many bytes before somebody reads them.
    async fn new(buffer: usize, timeout: Duration) -> (Self, Peer) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for name in ["a.py", "b.py"] {
            fs::write(root.join(name), "old\n").unwrap();
        }
        let workspace = Arc::new(Workspace::open(vec![root.clone()]).unwrap());
        let program = ServerProgram {
            name: "server".to_owned(),
            program: "/none".into(),
            arguments: Vec::new(),
            root,
            roots: Vec::new(),
            settings: json!({}),
            initialization: json!({}),
            is_confined: true,
            is_trusted: false,
        };
        let (ours, theirs) = duplex(buffer);
        let mut peer = Framed::new(theirs, MessageCodec::default());
        let launcher = InMemory(Mutex::new(Some(ours)));
        let serve = async {
            let asked = received(&mut peer).await;
            let can = json!({ "definitionProvider": true, "callHierarchyProvider": true });
            answer(&mut peer, &asked, json!({ "result": { "capabilities": can } })).await;
            for _ in ["initialized", "workspace/didChangeConfiguration"] {
                received(&mut peer).await;
            }
        };
        let (session, ()) = tokio::join!(Session::start(&launcher, &program, timeout), serve);
        (Self { session: session.unwrap(), workspace, directory }, peer)
    }

    fn document(&self, name: &str) -> (Document, String) {
        let path = self.directory.path().canonicalize().unwrap().join(name);
        (source::document(&self.workspace, &path).unwrap(), "python".to_owned())
    }

    fn definition(&self, name: &str) -> Question {
        Question {
            operation: Operation::Definition,
            document: Some(self.document(name)),
            place: Some(LineColumn { line: 1, column: 1 }),
            query: String::new(),
            reread: Reread::SameFiles,
        }
    }

    /// Without a look at the disk, so that the clock may be paused.
    async fn answer(&self, limit: Duration) -> Result<Answer, String> {
        self.session.answer(&self.definition("a.py"), Instant::now() + limit).await
    }
}

async fn answer(peer: &mut Peer, asked: &Value, mut with: Value) {
    with["id"] = asked["id"].clone();
    say(peer, with).await;
}

/// Answers each request with the next of these.
async fn serve(peer: &mut Peer, answers: &[Value]) {
    let mut answers: VecDeque<&Value> = answers.iter().collect();
    while let Some(with) = answers.front() {
        let message = received(peer).await;
        if !message["id"].is_null() {
            answer(peer, &message, (*with).clone()).await;
            answers.pop_front();
        }
    }
}

/// Tells that the project is read.
async fn settle(peer: &mut Peer) {
    let params = json!({ "quiescent": true });
    say(peer, json!({ "method": "experimental/serverStatus", "params": params })).await;
}

fn place(line: i32) -> Value {
    let at = json!({ "line": line, "character": 0 });
    json!({ "uri": "file:///x.py", "range": { "start": at, "end": at } })
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_answer_now_is_asked_again() {
    for code in [-32800, -32801, -32802] {
        let (ground, mut peer) = Ground::new(1 << 16, LIMIT).await;
        settle(&mut peer).await;
        let refused = json!({ "error": { "code": code, "message": "content modified" } });
        let answers = [refused.clone(), refused, json!({ "result": place(4) })];
        let (answer, ()) = tokio::join!(ground.answer(LIMIT), serve(&mut peer, &answers));
        let Found::Places(places) = answer.unwrap().found else { panic!("{code}") };
        assert_eq!(places[0].position.line, 4);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_answer_within_the_limit_has_not_found_nothing() {
    let (ground, mut peer) = Ground::new(1 << 16, LIMIT).await;
    settle(&mut peer).await;
    let refused = vec![json!({ "error": { "code": -32801, "message": "content modified" } }); 9];
    let began = Instant::now();
    let limit = 9 * ASK_AGAIN;
    let (answer, ()) = tokio::join!(ground.answer(limit), serve(&mut peer, &refused));
    let why = "server cannot answer now: content modified (-32801); ask again later";
    assert_eq!((answer.unwrap_err().as_str(), began.elapsed()), (why, 8 * ASK_AGAIN));
}

#[tokio::test(start_paused = true)]
async fn nothing_in_the_first_seconds_of_a_server_may_be_too_early() {
    let nothing = [json!({ "result": [] })];
    let (ground, mut peer) = Ground::new(1 << 16, LIMIT).await;
    let (answer, ()) = tokio::join!(ground.answer(ASK_AGAIN), serve(&mut peer, &nothing));
    assert!(answer.unwrap().is_still_indexing);
    let something = [json!({ "result": place(0) })];
    let (answer, ()) = tokio::join!(ground.answer(ASK_AGAIN), serve(&mut peer, &something));
    assert!(!answer.unwrap().is_still_indexing);
    sleep(FIRST_SECONDS).await;
    let (answer, ()) = tokio::join!(ground.answer(ASK_AGAIN), serve(&mut peer, &nothing));
    assert!(!answer.unwrap().is_still_indexing);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_tells_of_its_progress_without_end_is_asked_at_an_interval() {
    let (ground, mut peer) = Ground::new(1 << 16, LIMIT).await;
    let progress = json!({ "token": 1, "value": { "kind": "begin" } });
    let progress = json!({ "method": "$/progress", "params": progress });
    let flood = async {
        let mut questions = 0;
        loop {
            let message = received(&mut peer).await;
            say(&mut peer, progress.clone()).await;
            if !message["id"].is_null() {
                questions += 1;
                answer(&mut peer, &message, json!({ "result": [] })).await;
                say(&mut peer, progress.clone()).await;
            }
            if questions == 7 {
                return;
            }
        }
    };
    let began = Instant::now();
    let (answer, ()) = tokio::join!(ground.answer(Duration::from_millis(2100)), flood);
    assert!(answer.unwrap().is_still_indexing);
    assert_eq!(began.elapsed(), 6 * ASK_AGAIN);
}
