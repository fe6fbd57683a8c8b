//! Several asks of one round, which stand in one message.

use serde_json::json;

use super::after;
use super::asking::{Talk, allow, codes, decide, marks, open, server, times_run, tool_answers};
use crate::support::chunks::{calls, says};
use crate::support::upstream::Upstream;

/// A round with three commands that ask, and a call before them that does not.
fn three(upstream: &Upstream) {
    upstream.round(calls(&[
        ("r", "Read", json!({ "file_path": "notes.txt" })),
        ("a", "Bash", marks("a")),
        ("b", "Bash", marks("b")),
        ("c", "Bash", marks("c")),
    ]));
}

#[tokio::test]
async fn one_choice_decides_all_asks_of_a_message() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let mut talk = Talk::new(server.client());
    three(&upstream);
    let question = talk.say("Do it.").await;
    assert_eq!(codes(&question).len(), 3, "{question}");
    assert_eq!(talk.finish_reason(), "stop");
    upstream.round(says("Done."));

    assert_eq!(talk.say("1").await, "Done.");

    assert_eq!(["a", "b", "c"].map(|file| times_run(&server, file)), [1, 1, 1]);
    let answers = tool_answers(&upstream.request(1).await);
    assert!(answers.len() == 4 && answers[0].contains("needle"), "{answers:?}");
}

#[tokio::test]
async fn a_line_for_each_decides_each() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let mut talk = Talk::new(server.client());
    three(&upstream);
    let question = talk.say("Do it.").await;
    let [a, b, c] = &codes(&question)[..] else { panic!("three codes: {question}") };
    upstream.round(says("Done."));

    talk.say(&format!("{c} yes\n{} 1.\n{b}: no", a.to_lowercase())).await;

    assert_eq!(["a", "b", "c"].map(|file| times_run(&server, file)), [1, 0, 1]);
    let answers = tool_answers(&upstream.request(1).await);
    assert!(answers[2].starts_with("Error: "), "{answers:?}");
}

#[tokio::test]
async fn what_lines_leave_out_is_asked_again_and_nothing_has_run() {
    for restarts in [false, true] {
        let upstream = Upstream::start();
        let mut first = server(&upstream).await;
        let mut talk = Talk::new(first.client());
        three(&upstream);
        let question = talk.say("Do it.").await;
        let [a, b, c] = &codes(&question)[..] else { panic!("three codes: {question}") };

        let again = talk.say(&format!("{a} 1\n{b} 3")).await;

        assert_eq!(codes(&again), [c.clone()], "only what was left out: {again}");
        assert!(!again.contains(">> a") && again.contains(">> c"), "{again}");
        assert_eq!(["a", "b", "c"].map(|file| times_run(&first, file)), [0, 0, 0]);
        assert_eq!(upstream.requests().len(), 1, "no model was asked");
        let still = open(&first.client()).await;
        assert!(still.len() == 1 && still[0]["code"] == c.as_str(), "{still:?}");
        let next = match restarts {
            false => None,
            true => {
                first.stop();
                let next = after(&upstream, &first).argument("--sandbox=off").start().await;
                talk.client = next.client();
                Some(next)
            }
        };
        upstream.round(says("Done."));

        assert_eq!(talk.say("always").await, "Done.");

        assert_eq!(["a", "b", "c"].map(|file| times_run(&first, file)), [1, 0, 1]);
        assert_eq!(tool_answers(&upstream.request(1).await).len(), 4);
        drop(next);
    }
}

#[tokio::test]
async fn words_after_a_partial_reply_deny_the_rest_alone() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let mut talk = Talk::new(server.client());
    three(&upstream);
    let question = talk.say("Do it.").await;
    let [a, ..] = &codes(&question)[..] else { panic!("codes: {question}") };
    talk.say(&format!("{a} 1")).await;
    upstream.round(says("Done."));

    talk.say("rather not the others").await;

    assert_eq!(["a", "b", "c"].map(|file| times_run(&server, file)), [1, 0, 0]);
    let answers = tool_answers(&upstream.request(1).await);
    assert!(answers[2].contains("rather not the others"), "{answers:?}");
    assert!(!answers[3].contains("rather not"), "told once: {answers:?}");
}

#[tokio::test]
async fn what_rest_has_decided_needs_no_line() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let mut talk = Talk::new(client.clone());
    three(&upstream);
    let question = talk.say("Do it.").await;
    let [_, b, c] = &codes(&question)[..] else { panic!("three codes: {question}") };
    let asked = open(&client).await;
    let first = asked.iter().find(|approval| approval["effect"].to_string().contains(">> a"));
    assert_eq!(decide(&client, first.expect("an approval"), &allow()).await.status(), 200);
    upstream.round(says("Done."));

    talk.say(&format!("{b} 3\n{c} 1")).await;

    assert_eq!(["a", "b", "c"].map(|file| times_run(&server, file)), [1, 0, 1]);
}

/// What was decided over REST stands, whatever the reply says.
#[tokio::test]
async fn a_reply_changes_no_decision() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = server.client();
    let mut talk = Talk::new(client.clone());
    three(&upstream);
    talk.say("Do it.").await;
    let deny = json!({ "decision": "deny", "feedback": "not that" });
    let mut asked = open(&client).await;
    asked.retain(|approval| approval["effect"].to_string().contains(">> b"));
    decide(&client, &asked[0], &deny).await;
    upstream.round(says("Done."));

    talk.say("1").await;

    assert_eq!(["a", "b", "c"].map(|file| times_run(&server, file)), [1, 0, 1]);
    let answers = tool_answers(&upstream.request(1).await);
    assert!(answers[2].contains("not that"), "{answers:?}");
}
