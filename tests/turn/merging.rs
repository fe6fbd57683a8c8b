//! Tests that many tiny deltas arrive one by one at a fast client, and merged at a slow one.

use serde_json::json;

use crate::support::chunks::{call, end, gate, says, text};
use crate::support::client::{ask_streamed, with};
use crate::support::faulty_proxy::{Proxy, Toxic};
use crate::support::server::Server;
use crate::support::stream::{Event, Transcript};
use crate::support::upstream::{Step, Upstream};

const DELTAS: usize = 5000;

/// Numbered words, which show whether one is missing or out of order.
fn words() -> Vec<String> {
    (0..DELTAS).map(|number| format!("{number} ")).collect()
}

fn pieces(of: impl Fn(&str) -> Step) -> Vec<Step> {
    words().iter().map(|word| of(word)).collect()
}

fn chunks_with_text(answer: &Transcript) -> usize {
    answer.events.iter().filter(|event| !event.text().is_empty()).count()
}

#[tokio::test]
async fn each_delta_goes_out_at_once_to_a_client_that_keeps_up() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    let names: Vec<String> = (0..50).map(|number| format!("after {number}")).collect();
    let deltas = names.iter().flat_map(|name| [text(name), gate(name)]);
    upstream.round(deltas.chain(end("stop")).collect());

    let mut stream = server.client().stream(&ask_streamed("Count.")).await;
    for name in &names {
        // Upstream waits until this delta has arrived alone before it sends the next.
        assert_eq!(stream.until_text().await, *name);
        upstream.open(name);
    }

    assert_eq!(stream.finish().await.finish_reason.as_deref(), Some("stop"));
}

#[tokio::test]
async fn a_burst_reaches_a_client_that_keeps_up_whole_and_in_order() {
    let upstream = Upstream::start();
    let server = Server::start(&upstream).await;
    upstream.round([pieces(text), end("stop")].concat());

    let answer = server.client().streamed(&ask_streamed("Count.")).await;

    assert_eq!(answer.text(), words().concat());
    assert_eq!(answer.finish_reason.as_deref(), Some("stop"));
}

/// What a client gets that does not read until upstream has sent all of `round`. The next round
/// is requested only once the server has read all of this one. What the client has not taken by
/// then waits in the server.
async fn read_late(round: Vec<Step>) -> Transcript {
    let upstream = Upstream::start();
    let server = Server::builder(&upstream).file("a.txt", "text\n").start().await;
    let script = vec![Toxic::Pass(1), Toxic::Gate("read".into())];
    let proxy = Proxy::before(&server, 4096, script).await;
    let read = call(0, "c1", "Read", &json!({ "file_path": "a.txt" }));
    upstream.round([round, read, end("tool_calls")].concat());
    upstream.round(says("Done."));

    let client = proxy.client();
    let body = with(ask_streamed("Count."), json!({ "toolhand": { "progress": "none" } }));
    let (answer, ()) = tokio::join!(client.streamed(&body), async {
        upstream.request(1).await;
        proxy.open("read");
    });

    answer
}

#[tokio::test]
async fn deltas_that_wait_for_a_client_become_few_chunks() {
    let answer = read_late(pieces(text)).await;

    assert_eq!(answer.text(), words().concat() + "\n\nDone.");
    let chunks = chunks_with_text(&answer);
    assert!(chunks <= DELTAS / 20, "{chunks} chunks");
}

#[tokio::test]
async fn reasoning_and_text_are_merged_each_with_its_own() {
    let thought = pieces(crate::support::chunks::reasoning);
    let answer = read_late([thought, pieces(text)].concat()).await;

    assert_eq!(answer.reasoning(), words().concat());
    assert_eq!(answer.text(), words().concat() + "\n\nDone.");
    let events = answer.events.iter().filter(|event| matches!(event, Event::Chunk(_))).count();
    assert!(events <= DELTAS / 10, "{events} events");
}
