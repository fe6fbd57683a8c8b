//! How long a call may take, with a server in memory and a clock that stands still.

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex, split};
use tokio::sync::Notify;
use tokio::time::sleep;

use rmcp::service::{ClientLifecycleMode, ClientServiceExt as _};
use rmcp::transport::async_rw::AsyncRwTransport;

use super::super::client::Handler;
use super::super::progress::ProgressListeners;
use super::super::redaction::Redaction;
use super::*;

/// Answers a call after so many steps, each with a word of progress, that take so long.
async fn serve(stream: DuplexStream, steps: usize, step: Duration) {
    let (read, mut write) = split(stream);
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let request: Value = serde_json::from_str(&line).unwrap();
        let mut messages = Vec::new();
        let answer =
            |result: Value| json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        match request["method"].as_str() {
            Some("initialize") => messages.push(answer(json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "memory", "version": "1"},
            }))),
            Some("tools/call") => {
                let token = &request["params"]["_meta"]["progressToken"];
                messages.extend((1..=steps).map(|number| {
                    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {
                        "progressToken": token, "progress": number, "total": steps, "message": "step",
                    }})
                }));
                messages.push(answer(text("done")));
            }
            _ => {}
        }
        for message in messages {
            if request["method"] == "tools/call" {
                sleep(step).await;
            }
            // The client may have gone.
            let line = format!("{message}\n");
            if write.write_all(line.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

/// The outcome of a call that may be silent for a second and take ten, and what was last said of
/// its progress.
async fn called(steps: usize, step: Duration) -> (Result<Value, RequestFault>, String) {
    let (ours, theirs) = duplex(64 << 10);
    let mut server = JoinSet::new();
    server.spawn(serve(theirs, steps, step));
    let (listeners, redaction) = (ProgressListeners::default(), Redaction::default());
    let handler = Handler {
        server: "memory".into(),
        listeners: listeners.clone(),
        list_changed: Arc::new(Notify::new()),
        redaction: redaction.clone(),
    };
    let (read, write) = split(ours);
    let transport = AsyncRwTransport::new(read, write);
    let running = handler.serve_with_lifecycle(transport, ClientLifecycleMode::Initialize).await;
    let running = running.unwrap();
    let client = Client { peer: running.peer().clone(), listeners, redaction, broken: None };
    let timeouts =
        RequestTimeouts { silent: Duration::from_secs(1), total: Duration::from_secs(10) };
    let (progress, heard) = watch::channel(String::new());

    let answer = client.call("do", Map::new(), timeouts, Some(progress)).await;

    (answer, heard.borrow().clone())
}

#[tokio::test(start_paused = true)]
async fn a_call_that_makes_progress_may_take_longer_than_its_timeout() {
    let (answer, heard) = called(5, Duration::from_millis(900)).await;
    assert_eq!(answer.unwrap()["content"][0]["text"], "done");
    assert_eq!(heard, "5/5 step");
}

#[tokio::test(start_paused = true)]
async fn m6_progress_does_not_keep_a_call_for_ever() {
    let (answer, heard) = called(100, Duration::from_millis(900)).await;
    assert_eq!((answer, &*heard), (Err(RequestFault::TimedOut), "11/100 step"));
}

#[tokio::test(start_paused = true)]
async fn m6_a_call_is_given_up_when_nothing_is_heard_for_its_timeout() {
    let (answer, heard) = called(5, Duration::from_millis(1_100)).await;
    assert_eq!((answer, &*heard), (Err(RequestFault::TimedOut), ""));
}
