mod asking_again;

use futures::future::BoxFuture;
use futures::{FutureExt as _, SinkExt as _, StreamExt as _};
use tokio::io::{DuplexStream, duplex, empty, split};
use tokio_util::codec::Framed;

use super::super::codec::MessageCodec;
use super::super::documents::tests::document;
use super::super::program::StartedProgram;
use super::*;

/// The server's end of a connection.
type Peer = Framed<DuplexStream, MessageCodec>;

const LIMIT: Duration = Duration::from_secs(30);

/// "Starts" the server that a test plays itself.
#[derive(Debug)]
struct InMemory(Mutex<Option<DuplexStream>>);

impl Launch for InMemory {
    fn launch<'a>(&'a self, _: &'a ServerProgram) -> BoxFuture<'a, Result<StartedProgram, String>> {
        let stream = sync::lock(&self.0).take().expect("it is started once");
        let (output, input) = split(stream);
        let started = StartedProgram {
            input: Box::new(input),
            output: Box::new(output),
            errors: Box::new(empty()),
            end: ProgramEnd::new(std::future::pending()),
        };
        async { Ok(started) }.boxed()
    }
}

async fn received(peer: &mut Peer) -> Value {
    serde_json::from_slice(&peer.next().await.unwrap().unwrap()).unwrap()
}

async fn say(peer: &mut Peer, message: Value) {
    peer.send(message.to_string().into()).await.unwrap();
}

/// A session with a server that has been initialized, and the end that plays the server.
async fn start() -> (Session, Peer) {
    let (ours, theirs) = duplex(1 << 10);
    let mut peer = Framed::new(theirs, MessageCodec::default());
    let launcher = InMemory(Mutex::new(Some(ours)));
    let program = ServerProgram {
        name: "server".to_owned(),
        program: "/none".into(),
        arguments: Vec::new(),
        root: "/".into(),
        roots: Vec::new(),
        settings: json!({}),
        initialization: json!({}),
        is_confined: true,
        is_trusted: false,
    };
    let initialize = async {
        let asked = received(&mut peer).await;
        let can = json!({ "hoverProvider": true, "definitionProvider": true });
        say(&mut peer, json!({ "id": asked["id"], "result": { "capabilities": can } })).await;
        for method in ["initialized", "workspace/didChangeConfiguration"] {
            assert_eq!(received(&mut peer).await["method"], method);
        }
    };
    let (session, ()) = tokio::join!(Session::start(&launcher, &program, LIMIT), initialize);
    (session.unwrap(), peer)
}

fn workspace() -> (tempfile::TempDir, Arc<Workspace>) {
    let directory = tempfile::tempdir().unwrap();
    let workspace = Workspace::open(vec![directory.path().to_owned()]).unwrap();
    (directory, Arc::new(workspace))
}

fn question(operation: Operation, text: &str) -> Question {
    Question {
        operation,
        document: Some((document("/a.py", text), "python".to_owned())),
        place: Some(LineColumn { line: 1, column: 1 }),
        query: String::new(),
        reread: Reread::SameFiles,
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_reads_nothing_holds_nobody_longer_than_the_limit() {
    let (_directory, workspace) = workspace();
    let (session, _peer) = start().await;
    let long = question(Operation::Hover, &"x".repeat(1 << 12));
    let began = Instant::now();

    let asked = join_all((0..100).map(|_| session.ask(&long, &workspace)));
    let answers = timeout(LIMIT * 4, asked).await.expect("all are answered");

    assert!(began.elapsed() < LIMIT * 2, "{:?}", began.elapsed());
    assert!(answers.iter().all(Result::is_err));
    assert_eq!(session.ended().await, "did not read what it was sent within 30s");
}

#[tokio::test(start_paused = true)]
async fn a_change_that_was_given_up_before_it_was_sent_is_told_the_next_time() {
    let (_directory, workspace) = workspace();
    let (session, mut peer) = start().await;
    session.connection.notify("long", &json!("x".repeat(1 << 12))).await.unwrap();
    // Until nobody can send any more.
    while timeout(LIMIT / 30, session.connection.notify("more", &json!({}))).await.is_ok() {}
    let changed = (document("/a.py", "new text"), "python".to_owned());
    let budget = Instant::now() + Duration::from_secs(2);
    assert!(session.after_change(changed, &workspace, budget).await.is_none());

    let serve = async {
        let mut told = Vec::new();
        loop {
            let message = received(&mut peer).await;
            if message["method"] == "textDocument/hover" {
                let result = json!({ "contents": "x" });
                say(&mut peer, json!({ "id": message["id"], "result": result })).await;
                return told;
            }
            told.push(message["params"]["textDocument"]["text"].clone());
        }
    };
    let question = question(Operation::Hover, "new text");
    let (answer, told) = tokio::join!(session.ask(&question, &workspace), serve);

    assert_eq!(answer.unwrap().found, Found::Text("x".to_owned()));
    assert_eq!(told.last(), Some(&json!("new text")), "the server has the document");
}

fn quiescent(is_quiescent: bool) -> Value {
    let params = json!({ "health": "ok", "quiescent": is_quiescent });
    json!({ "method": "experimental/serverStatus", "params": params })
}

fn a_place() -> Value {
    let at = json!({ "line": 0, "character": 0 });
    json!({ "uri": "file:///a.py", "range": { "start": at, "end": at } })
}

/// Answers each question for a definition with the next of these, before which the server says
/// that it has read the project. Returns how often it was asked.
async fn answer_with(peer: &mut Peer, outcomes: Vec<Value>) -> usize {
    let mut asked = 0;
    for outcome in outcomes {
        let mut message = received(peer).await;
        while message["method"] != "textDocument/definition" {
            message = received(peer).await;
        }
        asked += 1;
        say(peer, quiescent(true)).await;
        let mut answer = outcome;
        answer["id"] = message["id"].clone();
        say(peer, answer).await;
    }
    asked
}

#[tokio::test(start_paused = true)]
async fn an_empty_answer_from_before_the_server_had_read_the_project_is_asked_again() {
    let (_directory, workspace) = workspace();
    let (session, mut peer) = start().await;
    say(&mut peer, quiescent(false)).await;
    let question = question(Operation::Definition, "x");
    let outcomes = vec![json!({ "result": [] }), json!({ "result": [a_place()] })];
    let (answer, _) =
        tokio::join!(session.ask(&question, &workspace), answer_with(&mut peer, outcomes));
    let Found::Places(places) = answer.unwrap().found else { panic!("places") };
    assert_eq!(places.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_empty_answer_counts_once_the_server_has_settled() {
    let (_directory, workspace) = workspace();
    let (session, mut peer) = start().await;
    say(&mut peer, quiescent(true)).await;
    let question = question(Operation::Definition, "x");
    let began = Instant::now();
    let serve = answer_with(&mut peer, vec![json!({ "result": [] }); 100]);
    let answer = tokio::select! {
        answer = session.ask(&question, &workspace) => answer,
        _ = serve => panic!("it is not asked without end"),
    };
    assert!(answer.unwrap().found.is_empty());
    assert!(began.elapsed() < 2 * SETTLING, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_passes_is_no_empty_answer() {
    let (_directory, workspace) = workspace();
    let (session, mut peer) = start().await;
    say(&mut peer, quiescent(true)).await;
    tokio::time::sleep(2 * SETTLING).await;
    let question = question(Operation::Definition, "x");
    let refused = json!({ "error": { "code": -32801, "message": "content modified" } });
    let outcomes = vec![refused.clone(), json!({ "result": [a_place()] })];
    let (answer, asked) =
        tokio::join!(session.ask(&question, &workspace), answer_with(&mut peer, outcomes));
    assert!(!answer.unwrap().found.is_empty());
    assert_eq!(asked, 2);

    let serve = answer_with(&mut peer, vec![refused; 1000]);
    let answer = tokio::select! {
        answer = session.ask(&question, &workspace) => answer,
        _ = serve => panic!("it is not asked without end"),
    };
    let error = answer.unwrap_err();
    let why = "server cannot answer now: content modified (-32801); ask again later";
    assert_eq!(error, why);
}

#[tokio::test(start_paused = true)]
async fn a_report_that_came_before_a_file_was_read_is_what_was_wrong_before() {
    let (_directory, workspace) = workspace();
    for version in [json!(1), json!(null)] {
        let (session, mut peer) = start().await;
        let serve = async {
            assert_eq!(received(&mut peer).await["method"], "textDocument/didOpen");
            let at = json!({ "line": 0, "character": 0 });
            let wrong = json!({ "range": { "start": at, "end": at }, "message": "wrong" });
            let params =
                json!({ "uri": "file:///a.py", "version": version, "diagnostics": [wrong] });
            say(
                &mut peer,
                json!({ "method": "textDocument/publishDiagnostics", "params": params }),
            )
            .await;
            let asked = received(&mut peer).await;
            say(&mut peer, json!({ "id": asked["id"], "result": { "contents": "x" } })).await;
        };
        let question = question(Operation::Hover, "x");
        let (answer, ()) = tokio::join!(session.ask(&question, &workspace), serve);
        answer.unwrap();

        session.open((document("/a.py", "x"), "python".to_owned()), &workspace, false).await;
        let known = session.last_findings_of(Path::new("/a.py")).expect("they are known");
        assert_eq!(known.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_a_file_that_was_changed_counts_as_new() {
    let (_directory, workspace) = workspace();
    let (session, mut peer) = start().await;
    session.open((document("/a.py", "x"), "python".to_owned()), &workspace, true).await;

    assert_eq!(session.last_findings_of(Path::new("/a.py")), None);
    let there = received(&mut peer).await;
    assert_eq!(there["method"], "workspace/didChangeWatchedFiles");
    assert_eq!(there["params"]["changes"][0], json!({ "uri": "file:///a.py", "type": 1 }));
    assert_eq!(received(&mut peer).await["method"], "textDocument/didOpen");
}
