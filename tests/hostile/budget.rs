//! Tests the memory budget: what all requests may hold, and which ones end when it is
//! used up.

use serde_json::{Value, json};

use crate::support::chunks::{call_head, end, gate, reasoning, says, status, text};
use crate::support::client::{ask, ask_streamed, with};
use crate::support::server::Server;
use crate::support::upstream::{Step, Upstream};

/// A server with a budget of 2 MiB.
async fn small(upstream: &Upstream) -> Server {
    Server::builder(upstream).config("limits.buffers", r#""2400KiB""#).start().await
}

fn long(bytes: usize) -> String {
    "x".repeat(bytes)
}

fn times(count: usize, step: &Step) -> Vec<Step> {
    vec![step.clone(); count]
}

/// Requests that fit pass repeatedly, because earlier reservations were released.
async fn takes_what_fits(upstream: &Upstream, server: &Server) {
    upstream.round([times(2, &text(&long(100_000))), end("stop")].concat());
    let answer = server.client().chat(&ask("Hi")).await;
    assert_eq!(answer.text().len(), 200_000);
}

/// Before its head is sent, a stream that needs too much is refused.
#[tokio::test]
async fn what_needs_more_memory_than_is_left_is_refused() {
    let upstream = Upstream::start();
    let server = small(&upstream).await;
    let client = server.client();
    let overloaded = (503, "overloaded".to_owned());
    for _ in 0..3 {
        // One line of upstream, whole and in endless pieces.
        upstream.round([vec![text(&long(3 << 20))], end("stop")].concat());
        assert_eq!(client.chat(&ask_streamed("Hi")).await.refusal(), overloaded);
        upstream.round(times(40, &Step::Send(vec![b'x'; 100_000])));
        assert_eq!(client.chat(&ask_streamed("Hi")).await.refusal(), overloaded);
        // One answer collected from many pieces of text, reasoning or arguments.
        for delta in [text(&long(100_000)), reasoning(&long(100_000))] {
            upstream.round([times(40, &delta), end("stop")].concat());
            assert_eq!(client.chat(&ask("Hi")).await.refusal(), overloaded);
        }
        // Endless calls. Each is small, and each is kept.
        let heads = (0..4000).map(|number| call_head(number, &format!("c{number}"), "Read"));
        upstream.round(heads.chain(end("tool_calls")).collect());
        assert_eq!(client.chat(&ask("Hi")).await.refusal(), overloaded);
        // A large body of the client.
        let body = with(ask("Hi"), json!({ "user": long(3 << 20) }));
        assert_eq!(client.chat(&body).await.refusal(), overloaded);
        // A large body on a forwarded route.
        let large: Value = long(3 << 20).into();
        upstream.answer("/v1/models", status(200, &json!({ "data": [large] })));
        assert_eq!(client.get("/v1/models").await.refusal(), overloaded);
        let body = json!({ "input": large });
        assert_eq!(client.post("/v1/embeddings", &body).await.refusal(), overloaded);

        takes_what_fits(&upstream, &server).await;
    }
}

/// After its head, such a stream ends with an error, and no other stream does.
#[tokio::test]
async fn a_stream_that_needs_more_memory_than_is_left_ends_alone() {
    let upstream = Upstream::start();
    let server = small(&upstream).await;
    upstream.round([vec![text("One "), gate("other"), text("two.")], end("stop")].concat());
    let mut other = server.client().stream(&ask_streamed("Hi")).await;
    other.until_text().await;

    for hungry in [vec![text(&long(3 << 20))], times(40, &text(&long(100_000)))] {
        upstream.round([vec![text("I begin. ")], hungry, end("stop")].concat());
        let answer = server.client().streamed(&ask_streamed("Hi")).await;
        assert_eq!(answer.code(), "overloaded", "{:?}", answer.error);
    }
    upstream.open("other");

    assert_eq!(other.finish().await.text(), "One two.");
    upstream.round(says("Done."));
    assert_eq!(server.client().chat(&ask("Hi")).await.text(), "Done.");
}
