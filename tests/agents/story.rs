//! One story through all of the agent's own tools, as a person lives it in a chat: plan mode is
//! entered and left by replies, two agents explore while the model still speaks, a question is
//! answered, and the plan is carried out with a todo list and a third agent.

mod frontends;
pub(crate) mod sdk;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::prefixes::{assert_one_prefix_of_values, plan_path, requests_of};
use super::{instructions, last_answer, offered, task};
use crate::sessions::asking::tool_answers;
use crate::support::chunks::{call, calls, end, gate, says, text};
use crate::support::client::Client;
use crate::support::upstream::{Request, Step, Upstream};

/// The model of the conversation. The agents have others, so that several can be scripted at once.
const MAIN: &str = "scripted";

/// A person's conversation in some client, which shows what it gets and sends back what it shows.
pub(crate) trait Chat {
    /// Sends what the person writes.
    async fn begin(&mut self, words: &str);

    /// Waits until these words are shown, of an answer that may go on.
    async fn shows(&mut self, words: &str);

    /// The whole text of the answer, once it has ended.
    async fn end(&mut self) -> String;

    async fn say(&mut self, words: &str) -> String {
        self.begin(words).await;
        self.end().await
    }
}

/// Where the story plays.
struct Stage<'a> {
    upstream: &'a Upstream,
    /// For what a person looks up beside the conversation.
    rest: Client,
    workspace: &'a Path,
}

impl Stage<'_> {
    /// Makes the files that the story needs.
    fn set(workspace: &Path) {
        fs::write(workspace.join("notes.txt"), "needle\n").expect("a new file");
    }

    async fn play(&self, chat: &mut impl Chat) {
        let plan = self.plan_mode_is_entered_by_a_reply(chat).await;
        self.two_agents_explore_while_the_model_speaks(chat).await;
        self.a_question_is_answered(chat).await;
        self.the_plan_is_approved_by_a_number(chat, &plan).await;
        self.an_agent_asks_in_the_conversation(chat).await;
        self.the_record_is_complete().await;
    }

    /// Returns the path of the plan.
    async fn plan_mode_is_entered_by_a_reply(&self, chat: &mut impl Chat) -> String {
        self.round(calls(&[("e", "EnterPlanMode", json!({}))]));
        let question = chat.say("Replace the needle. Make a plan first.").await;
        assert!(question.contains("Enter plan mode?"), "{question}");
        let told = self.last_request().json();
        assert!(told["messages"].to_string().contains("Replace the needle."), "{told}");
        self.round(says("I look around."));

        assert_eq!(chat.say("yes").await, "I look around.");

        let plan = plan_path(&self.last_request());
        let refused = json!({ "file_path": "notes.txt", "content": "pin\n" });
        self.round(calls(&[("w", "Write", refused)]));
        self.round(says("Not yet."));
        assert_eq!(chat.say("Write it now.").await, "Not yet.");
        let told = last_answer(&self.last_request());
        assert!(told.contains("Write is not available in the mode plan"), "{told}");
        plan
    }

    async fn two_agents_explore_while_the_model_speaks(&self, chat: &mut impl Chat) {
        let explores = |model: &str| task("Explore", "Where is it?", json!({ "model": model }));
        let mut parent = call(0, "t1", "Task", &explores("sonnet"));
        parent.extend(call(1, "t2", "Task", &explores("haiku")));
        // A call that follows seals the one before.
        parent.extend(call(2, "l", "Glob", &json!({ "pattern": "*.txt" })));
        parent.extend([text("Two of them search, "), gate("speaking"), text("and they found it.")]);
        parent.extend(end("tool_calls"));
        self.round(parent);
        for (model, answer) in [("sonnet", "One found it."), ("haiku", "Two found it.")] {
            let grep = json!({ "pattern": "needle", "output_mode": "content" });
            self.upstream.round_of(model, calls(&[("g", "Grep", grep)]));
            self.upstream.round_of(model, [vec![gate(model)], says(answer)].concat());
        }
        self.round(says("It is in the notes."));

        chat.begin("Let two agents look for it.").await;
        // Both have searched, while the model and each other's answers are still to come.
        chat.shows("Two of them search, ").await;
        self.upstream.reached("speaking").await;
        self.upstream.reached("sonnet").await;
        self.upstream.reached("haiku").await;
        self.upstream.open("haiku");
        self.upstream.open("sonnet");
        self.upstream.open("speaking");
        let shown = chat.end().await;

        assert!(shown.contains("and they found it."), "{shown}");
        assert!(shown.ends_with("It is in the notes."), "{shown}");
        for model in ["sonnet", "haiku"] {
            let [first, second] = &requests_of(self.upstream, model)[..] else { panic!("{model}") };
            assert!(instructions(first).starts_with("You search files for another agent"));
            assert!(!offered(first).iter().any(|name| name == "Write" || name == "Task"));
            assert!(last_answer(second).contains("needle"), "{}", last_answer(second));
        }
        let answers = tool_answers(&self.last_request());
        let [.., one, two, list] = &answers[..] else { panic!("{answers:?}") };
        assert!(one.starts_with("One found it.\nagent_id: "), "{one}");
        assert!(two.starts_with("Two found it.\nagent_id: "), "{two}");
        assert!(list.contains("notes.txt"), "{list}");
    }

    async fn a_question_is_answered(&self, chat: &mut impl Chat) {
        let options: Vec<Value> = ["Thimble", "Pin"]
            .iter()
            .map(|label| json!({ "label": label, "description": "" }))
            .collect();
        let asked = json!({ "questions": [{
            "question": "What instead?", "header": "Instead", "options": options,
            "multiSelect": false,
        }] });
        self.round(calls(&[("q", "AskUserQuestion", asked)]));
        let question = chat.say("What do you need to know?").await;
        assert!(question.contains("What instead?") && question.contains("`2` Pin"), "{question}");
        self.round(says("A pin, then."));

        assert_eq!(chat.say("2").await, "A pin, then.");

        let told = last_answer(&self.last_request());
        let told: Value = serde_json::from_str(&told).expect("JSON");
        assert_eq!(told["answers"], json!({ "What instead?": "Pin" }));
    }

    async fn the_plan_is_approved_by_a_number(&self, chat: &mut impl Chat, plan: &str) {
        let steps = json!({ "file_path": plan, "content": "1. Replace needle by pin.\n" });
        self.round(calls(&[("w", "Write", steps)]));
        self.round(calls(&[("x", "ExitPlanMode", json!({}))]));
        let question = chat.say("Write the plan.").await;
        assert!(question.contains("1. Replace needle by pin."), "{question}");
        assert!(question.contains("`2` go on in acceptEdits"), "{question}");
        assert_eq!(self.file("notes.txt"), "needle\n");

        let todos = |status: &str| {
            let entry =
                json!({ "content": "Replace it", "activeForm": "Replacing it", "status": status });
            json!({ "todos": [entry] })
        };
        let edit = json!({ "file_path": "notes.txt", "old_string": "needle", "new_string": "pin" });
        self.round(calls(&[
            ("d", "TodoWrite", todos("in_progress")),
            ("r", "Read", json!({ "file_path": "notes.txt" })),
        ]));
        self.round(calls(&[("m", "Edit", edit)]));
        self.round(calls(&[("d", "TodoWrite", todos("completed"))]));
        self.round(says("It is a pin now."));

        let answer = chat.say("2").await;

        assert_eq!(answer, "It is a pin now.", "edits ask nobody");
        assert_eq!(self.file("notes.txt"), "pin\n");
        let answers = tool_answers(&self.last_request());
        let [.., approved, _, _, edited, _] = &answers[..] else { panic!("{answers:?}") };
        assert!(approved.contains("the mode is acceptEdits now"), "{approved}");
        assert!(approved.contains("1. Replace needle by pin."), "{approved}");
        assert!(edited.starts_with("Edited "), "{edited}");
    }

    async fn an_agent_asks_in_the_conversation(&self, chat: &mut impl Chat) {
        let input = task("general-purpose", "Note that it was done.", json!({ "model": "opus" }));
        self.round(calls(&[("t", "Task", input)]));
        let command = json!({ "command": "echo done >> log.txt" });
        self.upstream.round_of("opus", calls(&[("b", "Bash", command)]));
        let question = chat.say("Let an agent note it.").await;
        assert!(question.contains("The agent general-purpose asks."), "{question}");
        assert!(question.contains("echo done >> log.txt"), "{question}");
        assert!(!self.workspace.join("log.txt").exists());
        self.upstream.round_of("opus", says("Noted."));
        self.round(says("It is noted."));

        assert_eq!(chat.say("1").await, "It is noted.");

        assert_eq!(self.file("log.txt"), "done\n");
        assert!(last_answer(&self.last_request()).starts_with("Noted.\nagent_id: "));
    }

    /// What the session shows, and what the requests of each agent have in common.
    async fn the_record_is_complete(&self) {
        let sessions = self.rest.get("/toolhand/v1/sessions").await.json();
        assert_eq!(sessions["data"].as_array().map(Vec::len), Some(1), "{sessions:#}");
        let id = sessions["data"][0]["id"].as_str().expect("an id");
        let session = self.rest.get(&format!("/toolhand/v1/sessions/{id}")).await.json();
        assert_eq!(session["mode"], "acceptEdits");
        assert_eq!(session["plan"], "1. Replace needle by pin.\n");
        assert_eq!(session["todos"][0]["status"], "completed", "{}", session["todos"]);
        assert_eq!(session["agents"].as_array().map(Vec::len), Some(3), "{}", session["agents"]);
        for model in ["sonnet", "haiku", "opus"] {
            assert_one_prefix_of_values(&requests_of(self.upstream, model));
        }
    }

    /// The main agent's next round.
    fn round(&self, steps: Vec<Step>) {
        self.upstream.round_of(MAIN, steps);
    }

    /// The last one of the main agent.
    fn last_request(&self) -> Request {
        requests_of(self.upstream, MAIN).pop().expect("a request")
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.workspace.join(name)).expect("a file of the workspace")
    }
}
