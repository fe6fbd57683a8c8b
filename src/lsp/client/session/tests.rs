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
