//! Lets the disk of a running server fail or hang. The request fails, nothing runs that is not
//! recorded, nothing half done is told, and the server goes on without a restart.

use serde_json::json;

use super::scenario::{AGAIN, Kind, Scenario};
use super::{assistant, conversation, user};
use crate::support::chunks::{calls, says, text};
use crate::support::client::{Client, ask, ask_streamed, with};
use crate::support::disk::{BROKEN, Disk, Fault, NO_SPACE};
use crate::support::server::Server;
use crate::support::upstream::Upstream;

/// Of the writes of a turn, every so many is the first that fails.
const STEP: u32 = 11;

fn unavailable() -> (u16, String) {
    (503, "store_unavailable".to_owned())
}

#[tokio::test]
async fn r9_d3_writes_that_fail_anywhere_in_a_turn_fail_it_and_no_later_one() {
    for kind in [Kind::Plain, Kind::Commands, Kind::Detached, Kind::Mixed, Kind::Asking] {
        fail_at_each_write(kind, STEP).await;
    }
}

#[tokio::test]
async fn r9_d3_writes_that_fail_anywhere_in_a_resumed_turn_fail_it_and_no_later_one() {
    fail_at_each_write(Kind::Suspended, 7).await;
}

/// Once a call has run, the status is one that no client answers with the same request.
#[track_caller]
fn assert_unavailable((status, code): &(u16, String), scenario: &Scenario) {
    assert_eq!(code, "store_unavailable", "{scenario:?}");
    assert!([503, 400].contains(status), "{scenario:?}: {status}");
}

/// One server goes through all of it.
async fn fail_at_each_write(kind: Kind, step: u32) {
    let upstream = Upstream::start();
    let disk = Disk::new();
    let server = disk.under(kind.settings(Server::builder(&upstream))).start().await;
    let mut failed = 0;
    for number in 0.. {
        let scenario = Scenario::begin(kind, number, &server, &server, &upstream).await;
        let (fault, after) = ([NO_SPACE, BROKEN][number % 2], number / 4);
        let after = u32::try_from(after).expect("small") * step;
        // A disk that stays full, or one that fails once: what follows must not count either.
        if number % 4 < 2 {
            disk.plan(fault, after);
        } else {
            disk.plan_once(fault, after);
        }
        let answer = scenario.client(&server).chat(&scenario.request()).await;
        let was_hit = disk.was_hit();
        if number < 2 {
            // Nothing has run, so that the same request may be sent again.
            assert_eq!(answer.refusal(), unavailable(), "{scenario:?}");
            scenario.assert_nothing_ran();
        }
        disk.mend();
        let heard = (answer.status() == 200).then(|| answer.json());
        if heard.is_none() {
            assert_unavailable(&answer.refusal(), &scenario);
            failed += 1;
        }
        scenario.check(&server, &upstream, heard.as_ref(), AGAIN[number % AGAIN.len()]).await;
        if !was_hit && number % 4 == 3 {
            break;
        }
    }
    assert!(2 < failed, "{kind:?}: {failed} failed");
    assert!(server.log().contains("the store can be written again"));
    upstream.forget_script();
}

async fn start(upstream: &Upstream, disk: &Disk) -> Server {
    disk.under(Server::builder(upstream).argument("--sandbox=off")).start().await
}

#[tokio::test]
async fn r9_an_end_that_cannot_be_kept_is_an_error_and_no_stop() {
    let upstream = Upstream::start();
    let disk = Disk::new();
    let server = start(&upstream, &disk).await;
    for fault in [NO_SPACE, BROKEN] {
        upstream.round(says("All is well."));
        disk.plan(fault, 0);
        let told = server.client().streamed(&ask_streamed("How are you?")).await;
        assert_eq!(told.finish_reason, None);
        assert_eq!(told.code(), "store_unavailable");
        disk.mend();
        // No turn is left that seems to run, and the same answer is not told as known.
        upstream.round(says("Better."));
        assert_eq!(server.client().chat(&ask("How are you?")).await.text(), "Better.");
    }
}

/// Lets the model ask for a command.
async fn question(upstream: &Upstream, client: &Client) -> String {
    upstream.round(calls(&[("c1", "Bash", json!({ "command": "echo ran >> ran" }))]));
    client.chat(&conversation(&[user("Run it.")])).await.text()
}

#[tokio::test]
async fn r9_a_decision_that_cannot_be_kept_is_none_and_can_be_made_again() {
    for fault in [NO_SPACE, BROKEN] {
        let upstream = Upstream::start();
        let disk = Disk::new();
        let server = start(&upstream, &disk).await;
        let client = server.client();
        let asked = question(&upstream, &client).await;
        let open = client.get("/toolhand/v1/approvals").await.json();
        let id = open["data"][0]["id"].as_str().expect("an approval").to_owned();
        let path = format!("/toolhand/v1/approvals/{id}");
        let allow = json!({ "decision": "allow" });

        disk.plan(fault, 0);
        assert_eq!(client.post(&path, &allow).await.refusal(), unavailable());
        let reply = conversation(&[user("Run it."), assistant(&asked), user("1")]);
        assert_eq!(client.chat(&reply).await.refusal(), unavailable());
        assert!(!server.workspace().join("ran").exists());
        disk.mend();

        assert_eq!(client.get("/toolhand/v1/approvals").await.json(), open);
        assert_eq!(client.post(&path, &allow).await.status(), 200);
        upstream.round(says("It ran."));
        assert_eq!(client.chat(&reply).await.text(), "It ran.");
        assert_eq!(server.file("ran"), "ran\n");
    }
}

#[tokio::test]
async fn r9_a_question_that_cannot_be_kept_is_not_asked() {
    let upstream = Upstream::start();
    let disk = Disk::new();
    let server = start(&upstream, &disk).await;
    let client = server.client();
    upstream.round(calls(&[("c1", "Bash", json!({ "command": "echo ran >> ran" }))]));
    disk.plan(NO_SPACE, 0);

    let told = client.streamed(&ask_streamed("Run it.")).await;

    assert_eq!((told.finish_reason.as_deref(), told.code()), (None, "store_unavailable"));
    assert_eq!(told.text(), "", "nobody is asked");
    disk.mend();
    let open = client.get("/toolhand/v1/approvals").await.json();
    assert_eq!(open["data"], json!([]));
    assert!(!server.workspace().join("ran").exists());
}

#[tokio::test]
async fn r9_a_disk_that_hangs_holds_up_only_who_needs_it() {
    let upstream = Upstream::start();
    let disk = Disk::new();
    let server = start(&upstream, &disk).await;
    let client = server.client();
    let _question = question(&upstream, &client).await;
    disk.plan(Fault::Hang, 0);
    upstream.round_of("held", says("At last."));
    let held = with(ask("Wait."), json!({ "model": "held" }));
    let waiting = client.chat(&held);
    let others = async {
        upstream.request(1).await;
        while !disk.was_hit() {
            tokio::task::yield_now().await;
        }
        for path in ["/health", "/toolhand/v1/sessions", "/toolhand/v1/approvals"] {
            assert_eq!(client.get(path).await.status(), 200, "{path}");
        }
        // A turn that only begins, as far as its text.
        upstream.round_of("text", vec![text("It goes on."), crate::support::chunks::gate("on")]);
        let body = with(ask_streamed("Talk."), json!({ "model": "text" }));
        let mut stream = client.stream(&body).await;
        assert_eq!(stream.until_text().await, "It goes on.");
        disk.mend();
        drop(stream);
        upstream.open("on");
    };

    let (answer, ()) = tokio::join!(waiting, others);

    assert_eq!(answer.text(), "At last.");
    upstream.forget_script();
}

#[tokio::test]
async fn r9_a_server_whose_disk_hangs_ends_when_it_is_told_to() {
    let upstream = Upstream::start();
    let disk = Disk::new();
    let mut server = disk
        .under(Server::builder(&upstream).config("turns.shutdown_grace", r#""100ms""#))
        .start()
        .await;
    upstream.round(says("Never heard."));
    disk.plan(Fault::Hang, 0);
    let client = server.client();
    let body = ask("Wait.");
    let stopping = async {
        upstream.request(0).await;
        while !disk.was_hit() {
            tokio::task::yield_now().await;
        }
        server.terminate();
    };
    let (answer, ()) = tokio::join!(client.try_chat(&body), stopping);
    assert!(answer.is_none(), "nothing was kept, so nothing is told: {answer:?}");
    assert!(server.stop().is_some());
    disk.mend();
}
