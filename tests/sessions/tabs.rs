//! Tabs that send the same list at once: each goes on with the results of its own client calls.
#![expect(clippy::disallowed_methods, reason = "each test awaits the tasks that it starts")]

use futures::future::join_all;
use serde_json::{Value, json};

use super::mixed::weather;
use super::{after, conversation, told, user};
use crate::support::chunks::{call, calls, end, gate, says, text};
use crate::support::client::{Client, ask, with};
use crate::support::server::Server;
use crate::support::upstream::{Request, Step, Upstream};

/// How the tabs name their conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    /// By a frontend's chat id, which they share.
    Chat,
    /// Not at all: by what is said.
    Content,
}

/// What one tab is answered.
#[derive(Clone, Copy, Debug)]
struct Tab {
    says: &'static str,
    id: &'static str,
    city: &'static str,
    /// The file that the server reads in the same round.
    file: &'static str,
}

const LYON: Tab = Tab { says: "", id: "w1", city: "Lyon", file: "lyon.txt" };
const OSLO: Tab = Tab { says: "", id: "w2", city: "Oslo", file: "oslo.txt" };
const ROME: Tab = Tab { says: "", id: "w3", city: "Rome", file: "rome.txt" };

impl Tab {
    fn round(self, wait: Option<&str>) -> Vec<Step> {
        let file = json!({ "file_path": self.file });
        let mut steps: Vec<Step> = wait.map(gate).into_iter().collect();
        if !self.says.is_empty() {
            steps.push(text(self.says));
        }
        steps.extend(call(0, self.id, "weather", &json!({ "city": self.city })));
        steps.extend(call(1, &format!("r{}", self.id), "Read", &file));
        [steps, end("tool_calls")].concat()
    }

    /// The list with which the tab comes back.
    fn back(self, message: &Value) -> Value {
        let content = format!("weather of {}", self.city);
        let result = json!({ "role": "tool", "tool_call_id": self.id, "content": content });
        with(conversation(&[user("Weather?"), message.clone(), result]), weather())
    }

    /// Asserts that the model is told of this tab's round alone.
    #[track_caller]
    fn assert_told(self, request: &Request) {
        let told = told(request);
        let arguments = request.json().to_string();
        assert!(arguments.contains(self.city), "{self:?}: {arguments}");
        assert!(told.iter().any(|line| line == &format!("tool: weather of {}", self.city)));
        let reads = told.iter().filter(|line| line.contains("needle of")).collect::<Vec<_>>();
        let [read] = &reads[..] else { panic!("{self:?}: one file is read: {told:?}") };
        assert!(read.contains(&format!("needle of {}", self.file)), "{self:?}: {told:?}");
        assert!(!told.iter().any(|line| line.contains("interrupted")), "{told:?}");
    }
}

fn client(server: &Server, named: Named) -> Client {
    match named {
        Named::Chat => server.client().header("x-openwebui-chat-id", "chat-1"),
        Named::Content => server.client(),
    }
}

async fn server(upstream: &Upstream) -> Server {
    [LYON, OSLO, ROME]
        .iter()
        .fold(Server::builder(upstream), |builder, tab| {
            builder.file(tab.file, &format!("needle of {}\n", tab.file))
        })
        .start()
        .await
}

/// Sends the same list from each tab while the others wait. Returns what each was answered.
async fn ask_at_once(upstream: &Upstream, client: &Client, tabs: &[Tab]) -> Vec<Value> {
    let names: Vec<String> = (0..tabs.len()).map(|tab| format!("tab-{tab}")).collect();
    let body = with(ask("Weather?"), weather());
    let mut waiting = Vec::new();
    for (tab, name) in tabs.iter().zip(&names) {
        upstream.round(tab.round(Some(name)));
        let (client, body) = (client.clone(), body.clone());
        waiting.push(tokio::spawn(async move { client.chat(&body).await.json() }));
        upstream.reached(name).await;
    }
    for name in &names {
        upstream.open(name);
    }
    let answers = join_all(waiting).await.into_iter();
    answers.map(|answer| answer.expect("an answer")["choices"][0]["message"].clone()).collect()
}

/// Each tab returns its result, in this order, and goes on.
async fn check(named: Named, tabs: &[Tab], order: &[usize], restart: bool) {
    let upstream = Upstream::start();
    let mut server = server(&upstream).await;
    let messages = ask_at_once(&upstream, &client(&server, named), tabs).await;
    if restart {
        server.stop();
        server = after(&upstream, &server).start().await;
    }
    let client = client(&server, named);
    for tab in order {
        let (message, tab) = (&messages[*tab], tabs[*tab]);
        assert_eq!(message["tool_calls"][0]["id"], tab.id);
        upstream.round(says(&format!("Done with {}.", tab.city)));
        let asked = upstream.requests().len();

        let answer = client.chat(&tab.back(message)).await;

        assert_eq!(answer.status(), 200, "{named:?} {tab:?}: {:?}", answer.refusal());
        assert_eq!(answer.text(), format!("Done with {}.", tab.city));
        tab.assert_told(&upstream.request(asked).await);
    }
}

#[tokio::test]
async fn each_of_two_tabs_goes_on_with_its_own_call() {
    for named in [Named::Chat, Named::Content] {
        for order in [[0, 1], [1, 0]] {
            check(named, &[LYON, OSLO], &order, false).await;
        }
    }
}

#[tokio::test]
async fn each_of_three_tabs_goes_on_after_a_restart() {
    for named in [Named::Chat, Named::Content] {
        check(named, &[LYON, OSLO, ROME], &[2, 0, 1], true).await;
    }
}

#[tokio::test]
async fn tabs_whose_model_counts_its_calls_anew_are_told_apart_by_what_they_ask() {
    let tabs = [Tab { id: "call_0", ..LYON }, Tab { id: "call_0", ..OSLO }];
    for named in [Named::Chat, Named::Content] {
        for order in [[0, 1], [1, 0]] {
            check(named, &tabs, &order, false).await;
        }
        check(named, &tabs, &[1, 0], true).await;
    }
}

#[tokio::test]
async fn tabs_that_are_told_the_same_text_differ_by_their_calls() {
    let short = "Let me look.";
    let long = "I look at the weather of the city that you have asked me about, and then tell you.";
    for says in [short, long] {
        let tabs = [Tab { says, ..LYON }, Tab { says, ..OSLO }];
        for named in [Named::Chat, Named::Content] {
            check(named, &tabs, &[1, 0], false).await;
        }
    }
}

/// A tab was told a text alone, and the other one the same text with a call.
#[tokio::test]
async fn a_text_is_not_taken_for_the_same_text_with_a_call() {
    for named in [Named::Chat, Named::Content] {
        for text_first in [true, false] {
            let upstream = Upstream::start();
            let server = server(&upstream).await;
            let client = client(&server, named);
            let mixed = Tab { says: "Let me look.", ..LYON };
            let rounds = [says("Let me look."), mixed.round(None)];
            let order = if text_first { [0, 1] } else { [1, 0] };
            let body = with(ask("Weather?"), weather());
            upstream.round([vec![gate("first")], rounds[order[0]].clone()].concat());
            let first = tokio::spawn({
                let (client, body) = (client.clone(), body.clone());
                async move { client.chat(&body).await.json() }
            });
            upstream.reached("first").await;
            upstream.round(rounds[order[1]].clone());
            let second = client.chat(&body).await.json();
            upstream.open("first");
            let answers = [first.await.expect("an answer"), second];
            let message = answers[usize::from(text_first)]["choices"][0]["message"].clone();

            upstream.round(says("Done."));
            let answer = client.chat(&mixed.back(&message)).await;
            assert_eq!(answer.status(), 200, "{named:?}: {:?}", answer.refusal());
            mixed.assert_told(&upstream.request(2).await);

            // The other tab goes on from its text, without a call that it never saw.
            upstream.round(says("Done too."));
            let list = [user("Weather?"), super::assistant("Let me look."), user("And now?")];
            client.chat(&with(conversation(&list), weather())).await;
            let told = told(&upstream.request(3).await);
            assert_eq!(told[1..], ["assistant: Let me look.", "user: And now?"], "{named:?}");
        }
    }
}

/// The tabs share all that a client sees: none is stuck.
#[tokio::test]
async fn tabs_that_cannot_be_told_apart_both_go_on() {
    let tab = Tab { id: "call_0", ..LYON };
    for named in [Named::Chat, Named::Content] {
        let upstream = Upstream::start();
        let server = server(&upstream).await;
        let client = client(&server, named);
        let messages = ask_at_once(&upstream, &client, &[tab, tab]).await;
        for message in &messages {
            upstream.round(says("Done."));
            let answer = client.chat(&tab.back(message)).await;
            assert_eq!(answer.status(), 200, "{named:?}: {:?}", answer.refusal());
        }
    }
}

#[tokio::test]
async fn a_tab_that_was_stopped_does_not_take_the_result_of_the_other() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = client(&server, Named::Chat);
    upstream.round(vec![gate("first")]);
    let body = with(ask("Weather?"), weather());
    let first = client.stream(&with(body.clone(), json!({ "stream": true }))).await;
    upstream.reached("first").await;
    upstream.round(LYON.round(None));
    let message = client.chat(&body).await.json()["choices"][0]["message"].clone();
    drop(first);
    upstream.abandoned(0).await;
    upstream.open("first");

    upstream.round(says("Done."));
    let answer = client.chat(&LYON.back(&message)).await;

    assert_eq!(answer.text(), "Done.");
    LYON.assert_told(&upstream.request(2).await);
}

#[tokio::test]
async fn a_second_call_of_the_same_tab_is_its_own_too() {
    let upstream = Upstream::start();
    let server = server(&upstream).await;
    let client = client(&server, Named::Chat);
    let messages = ask_at_once(&upstream, &client, &[LYON, OSLO]).await;
    let mut lists = Vec::new();
    for (tab, message) in [LYON, OSLO].iter().zip(&messages) {
        let again = [("again", "weather", json!({ "city": format!("{} again", tab.city) }))];
        upstream.round(calls(&again));
        let mut list = tab.back(message);
        let answer = client.chat(&list).await.json();
        let result = json!({ "role": "tool", "tool_call_id": "again", "content": "fine" });
        let all = list["messages"].as_array_mut().expect("messages");
        all.extend([answer["choices"][0]["message"].clone(), result]);
        lists.push(list);
    }
    for (tab, list) in [LYON, OSLO].iter().zip(&lists) {
        upstream.round(says("Done."));
        let asked = upstream.requests().len();
        let answer = client.chat(list).await;
        assert_eq!(answer.status(), 200, "{tab:?}: {:?}", answer.refusal());
        let request = upstream.request(asked).await;
        tab.assert_told(&request);
        assert!(request.json().to_string().contains(&format!("{} again", tab.city)));
    }
}
