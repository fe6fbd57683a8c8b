//! Tests the state machine without a runtime: chunks and answers in, effects out.

mod asks;
mod cards;
mod continuing;
mod decisions;
mod hooks;
mod pairs;
mod records;
mod wire;

use std::fmt::Write as _;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use self::pairs::Pairs;
use super::*;
use crate::agent::asking::bare_choice::CodeRequirement;
use crate::agent::asking::test_support::shown_effect;
use crate::agent::beginning::{Asking, AskingChannel, Beginning, Decided, Resume};
use crate::agent::compaction::{ContextLimits, KnowsPlans, Plans};
use crate::agent::conversation::{Conversation, Opening};
use crate::agent::events::Finished;
use crate::agent::held_text::ContentRule;
use crate::agent::record::{Asked, End, OpenCall, OpenRound, Outcome, RecordedRound};
use crate::agent::settings::ImageRule;
use crate::agent::settings::{AskedModel, Delivery, TurnSettings};
use crate::execution::ask::{About, Ask, Decision, GrantScope, Question, ShownEffect};
use crate::execution::pipeline::Pipeline;
use crate::hooks::Hooks;
use crate::ids::TurnId;
use crate::openai::error_object::ErrorObject;
use crate::openai::request::ToolChoice;
use crate::permissions::{
    self, AccessKind, AccessRequest, ExcludedPaths, Permissions, Permit, SandboxMode,
};
use crate::tools::tool::{
    AnyTool, CallContext, Concurrency, StartRule as ToolStart, Tool, ToolError, ToolOutput, erase,
};
use crate::tools::toolset::Toolset;
use crate::upstream;
use crate::workspace::Workspace;

#[derive(Deserialize, JsonSchema)]
struct Input {
    /// The path to read.
    at: String,
}

/// Models without limits.
#[derive(Debug)]
struct NoLimits;

impl ContextLimits for NoLimits {
    fn limit(&self, _: &str, _: usize) -> Option<u64> {
        None
    }
}

#[derive(Debug)]
struct NoPlans;

impl KnowsPlans for NoPlans {
    fn plans(&self) -> Plans {
        Plans::default()
    }
}

/// A shared tool that may start at its last brace.
struct Look;

/// An exclusive tool.
struct Change;

macro_rules! test_tool {
    ($tool:ident, $name:literal, $concurrency:ident, $start:ident) => {
        impl Tool for $tool {
            type Input = Input;
            const NAME: &'static str = $name;
            const ACCESS: AccessKind = AccessKind::None;
            const DESCRIPTION: &'static str = "Tests.";
            const START: ToolStart = ToolStart::$start;
            fn concurrency(&self, _: &Input) -> Concurrency {
                Concurrency::$concurrency
            }
            fn access_request(&self, _: &Input, _: &CallContext) -> AccessRequest {
                AccessRequest::Nothing
            }
            fn headline(&self, input: &Input) -> String {
                input.at.clone()
            }
            async fn execute(
                &self,
                _: Input,
                _: Permit,
                _: CallContext,
            ) -> Result<ToolOutput, ToolError> {
                Ok(ToolOutput::text("unused: the reducer runs nothing"))
            }
        }
    };
}

test_tool!(Look, "Look", Shared, Closed);
test_tool!(Change, "Change", Exclusive, Sealed);

/// A turn under test, with a log of its effects, one word each.
struct Bench {
    state: TurnState,
    log: String,
    bodies: Vec<Value>,
    pairs: Pairs,
    records: Vec<Entry>,
    asked: Vec<Asked>,
    finished: Option<Box<Finished>>,
    shows_records: bool,
    /// Whether each commit succeeds at once.
    commits: bool,
    _workspace: TempDir,
}

impl Bench {
    fn new(model: &str, client_tools: &[&str]) -> Self {
        Self::with(model, client_tools, |_| {})
    }

    fn with(model: &str, client_tools: &[&str], change: impl FnOnce(&mut TurnStart)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(vec![directory.path().to_owned()]).unwrap();
        let permissions = Permissions::new(
            &permissions::PermissionSettings::default(),
            &[],
            SandboxMode::Auto,
            Arc::new(workspace),
            ExcludedPaths::below(&directory.path().join("state")),
        );
        let tools: Vec<Arc<dyn AnyTool>> = vec![erase(Look), erase(Change)];
        let pipeline = Pipeline {
            agent_type: None,
            tools: Toolset::new(tools),
            hooks: Hooks::default(),
            permissions: permissions.unwrap(),
            max_result_chars: None,
        };
        let fields = json!({ "model": model }).to_string();
        let mut start = TurnStart {
            cards: false,
            session: "mine".to_owned(),
            turn: TurnId::random(),
            models: vec![asked(model)],
            delivery: Delivery::Streamed,
            content: ContentRule::EveryRound,
            conversation: Conversation::new(Opening {
                fields: serde_json::from_str(&fields).unwrap(),
                pieces: Vec::new(),
                server_tools: bytes::Bytes::new(),
                client_tools: Vec::new(),
                tool_choice: ToolChoice::Auto,
                parallel_tool_calls: None,
            }),
            context_limits: Arc::new(NoLimits),
            context_tokens: None,
            limits_output: false,
            pipeline,
            client_tools: client_tools.iter().map(|name| (*name).to_owned()).collect(),
            settings: TurnSettings::default(),
            model_rules: Arc::default(),
            upstream: Arc::default(),
            max_round_chars: 1000,
            beginning: Beginning::Ask,
            notices: Vec::new(),
            left_behind: Vec::new(),
            asking: Asking { channel: AskingChannel::Nobody, wait: Duration::ZERO },
            code_requirement: CodeRequirement::Optional,
            shown_before: String::new(),
            include_messages: false,
            began_ms: 1000,
        };
        change(&mut start);
        let mut bench = Self {
            state: TurnState::new(start, Arc::new(NoPlans)),
            log: String::new(),
            bodies: Vec::new(),
            pairs: Pairs::default(),
            records: Vec::new(),
            asked: Vec::new(),
            finished: None,
            shows_records: false,
            commits: true,
            _workspace: directory,
        };
        let effects = bench.state.begin();
        bench.note(effects);
        bench
    }

    fn on(&mut self, event: Event) -> &mut Self {
        let effects = self.state.on(event, Duration::ZERO);
        self.note(effects);
        self
    }

    /// Sends one chunk with this delta.
    fn delta(&mut self, delta: &Value) -> &mut Self {
        self.chunk(&json!({ "choices": [{ "index": 0, "delta": delta }] }))
    }

    fn chunk(&mut self, chunk: &Value) -> &mut Self {
        self.on(Event::Chunk(Box::new(Chunk::parse(&chunk.to_string()).unwrap())))
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.delta(&json!({ "content": text }))
    }

    /// Sends a whole call in one delta.
    fn call(&mut self, index: u64, name: &str, arguments: &str) -> &mut Self {
        let id = format!("id{index}");
        let function = json!({ "name": name, "arguments": arguments });
        self.delta(&json!({ "tool_calls": [{ "index": index, "id": id, "function": function }] }))
    }

    fn finish(&mut self, reason: &str) -> &mut Self {
        self.chunk(&json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] }))
    }

    fn done(&mut self) -> &mut Self {
        self.on(Event::StreamEnded { jitter: 0.5 })
    }

    fn die(&mut self) -> &mut Self {
        self.on(Event::Faulted { fault: Fault::Died("cut".to_owned()), jitter: 0.5 })
    }

    fn refuse_reasoning(&mut self) -> &mut Self {
        let error = ErrorObject {
            message: "property 'reasoning_content' is unsupported".to_owned(),
            ..ErrorObject::default()
        };
        let refusal =
            upstream::fault::Refusal { status: 400, error, retry_after: None, is_keyless: false };
        self.on(Event::Faulted { fault: Fault::Status(refusal), jitter: 0.5 })
    }

    /// The call starts, and is permitted.
    fn started(&mut self, position: usize) -> &mut Self {
        self.on(Event::Started(position)).permit(position, false)
    }

    fn permit(&mut self, position: usize, has_effect: bool) -> &mut Self {
        self.on(Event::Judged { position, judgement: Judgement::Permitted { has_effect } })
    }

    fn answer(&mut self, position: usize, text: &str) -> &mut Self {
        let result = ToolResult { text: text.into(), ..ToolResult::default() };
        self.on(Event::Answered { position, result, duration: Duration::ZERO, usage: None })
    }

    fn note(&mut self, effects: Vec<TurnEffect>) {
        for effect in effects {
            if let TurnEffect::FinishRound { .. } = effect {
                self.on(Event::RoundFinished(FinishedRound::default()));
                continue;
            }
            let Some(effect) = self.note_record(effect) else { continue };
            if let TurnEffect::Emit(event) = &effect {
                self.pairs.note(event);
            }
            let word = match effect {
                TurnEffect::ForgetShown => "forget_shown".to_owned(),
                TurnEffect::Shown { lines, .. } => format!("shown:{}", lines.len()),
                TurnEffect::Emit(event) => match event {
                    TurnEvent::RoundStarted(round) => format!("round{round}"),
                    TurnEvent::Begun => "begun".to_owned(),
                    TurnEvent::CallBegan(began) => format!("card{}:{}", began.slot, began.tool),
                    TurnEvent::CallsComplete => "complete".to_owned(),
                    TurnEvent::Text(text) => format!("text{text:?}"),
                    TurnEvent::TextBeforeCalls(text) => format!("before{text:?}"),
                    TurnEvent::Agent(report) => format!("agent:{}", report.call_id),
                    TurnEvent::HookSaid(text) => format!("hook{text:?}"),
                    TurnEvent::LeftBehind(line) => format!("left{line:?}"),
                    TurnEvent::Member { name, text } => format!("{name}{text:?}"),
                    TurnEvent::Raw(_) => "raw".to_owned(),
                    TurnEvent::ToolStarted(start) => format!("started:{}", start.call_id),
                    TurnEvent::ToolProgress(line) => format!("said:{}", line.call_id),
                    TurnEvent::ToolEnded(end) => match end.error {
                        Some(error) => format!("failed:{}({error})", end.call_id),
                        None => format!("ended:{}", end.call_id),
                    },
                    TurnEvent::ClientCall(call) => {
                        let head = call.head.map(|(id, name)| format!("{id}={name}"));
                        format!(
                            "client{}:{}{}",
                            call.index,
                            head.unwrap_or_default(),
                            call.arguments
                        )
                    }
                    TurnEvent::Finished(finished) => {
                        let word = format!("FINISHED:{}", finished.reason.as_str());
                        self.finished = Some(finished);
                        word
                    }
                    TurnEvent::Asked(asked) => {
                        let slots: Vec<_> = asked.iter().map(|asked| asked.slot).collect();
                        self.asked.extend(asked);
                        format!("asked:{slots:?}")
                    }
                    TurnEvent::TodosWritten(todos) => format!("todos:{}", todos.len()),
                    TurnEvent::Failed(failure) => format!("FAILED:{}", failure.error.code.as_str()),
                },
                TurnEffect::Ask { body, wait } => {
                    self.bodies.push(serde_json::from_slice(&body.to_vec()).unwrap());
                    if wait.is_zero() {
                        "ask".to_owned()
                    } else {
                        format!("ask+{}ms", wait.as_millis())
                    }
                }
                TurnEffect::CloseStream => "hang".to_owned(),
                TurnEffect::Reserve => "reserve".to_owned(),
                TurnEffect::Ready(position, _) => format!("ready:{position}"),
                TurnEffect::Withdraw(positions) => {
                    let positions: Vec<_> = positions.iter().map(ToString::to_string).collect();
                    format!("withdraw:{}", positions.join(","))
                }
                TurnEffect::RememberRefusal(refused, model) => {
                    format!("refuses:{model}:{refused:?}")
                }
                TurnEffect::JudgeAhead(positions) => format!("ahead:{positions:?}"),
                TurnEffect::Decide(position, _) => format!("decide:{position}"),
                TurnEffect::AnswerFinds { call_id } => format!("answer-finds:{call_id}"),
                TurnEffect::ResumeAgent(position, resumption) => {
                    format!("resume:{position}:{}", resumption.decisions.len())
                }
                TurnEffect::Release(position) => format!("release:{position}"),
                TurnEffect::AskStopHooks { is_held } => format!("stopping:{is_held}"),
                TurnEffect::AwaitDecisions(wait) => format!("wait:{}", wait.as_secs()),
                TurnEffect::Run(..)
                | TurnEffect::Abort
                | TurnEffect::FinishRound { .. }
                | TurnEffect::Record(_)
                | TurnEffect::Commit(_) => unreachable!("noted as records"),
                TurnEffect::Stop => "STOP".to_owned(),
            };
            write!(self.log, "{word} ").unwrap();
        }
    }

    /// Notes what is recorded, and shows it where the test is about records. Commits succeed at
    /// once, unless the test decides.
    fn note_record(&mut self, effect: TurnEffect) -> Option<TurnEffect> {
        let word = match effect {
            TurnEffect::Run(position, None) => format!("run:{position}"),
            TurnEffect::Run(position, Some(entry)) => {
                let word = format!("{}>run:{position}", self.keep(entry));
                word
            }
            TurnEffect::Abort => "abort".to_owned(),
            TurnEffect::Record(entry) => self.keep(entry),
            TurnEffect::Commit(entry) => format!("commit:{}", self.keep(entry)),
            other => return Some(other),
        };
        if self.shows_records {
            write!(self.log, "{word} ").unwrap();
        }
        if word.starts_with("commit:") && self.commits {
            let effects = self.state.on(Event::Committed, Duration::ZERO);
            self.note(effects);
        }
        None
    }

    /// Keeps an entry as the store would. Returns its kind.
    #[expect(clippy::needless_pass_by_value, reason = "it is as the effect holds it")]
    fn keep(&mut self, entry: Entry) -> String {
        let entry = serde_json::to_value(&entry).unwrap();
        let word = entry["kind"].as_str().unwrap().to_owned();
        self.records.push(serde_json::from_value(entry).unwrap());
        word
    }

    /// The effects since the last call of this function.
    fn log(&mut self) -> String {
        std::mem::take(&mut self.log).trim_end().to_owned()
    }

    #[track_caller]
    fn expect(&mut self, expected: &str) -> &mut Self {
        assert_eq!(self.log(), expected);
        self
    }

    /// The last request.
    fn last_body(&self) -> &Value {
        self.bodies.last().unwrap()
    }

    /// The messages of the last request.
    fn messages(&self) -> &Value {
        &self.bodies.last().unwrap()["messages"]
    }
}

/// The messages of a recorded round.
fn messages_of(round: &RecordedRound) -> Value {
    serde_json::from_str(&round.messages).unwrap()
}

impl Bench {
    /// The end of the turn as it was recorded.
    fn end(&self) -> &End {
        let end = self.records.iter().rev().find_map(|entry| match entry {
            Entry::End(end) => Some(&**end),
            _ => None,
        });
        end.expect("the turn has ended")
    }

    /// The rounds that were recorded.
    fn rounds(&self) -> Vec<&RecordedRound> {
        let rounds = self.records.iter().filter_map(|entry| match entry {
            Entry::Round(round) => Some(round),
            _ => None,
        });
        rounds.collect()
    }

    /// The call starts, and needs a person.
    fn asks(&mut self, position: usize, ask: Ask) -> &mut Self {
        let judgement = Judgement::Asked { ask: Box::new(ask), notices: vec![] };
        self.on(Event::Started(position)).on(Event::Judged { position, judgement })
    }

    /// What the driver tells when nothing more starts.
    fn settle(&mut self) -> &mut Self {
        let effects = self.state.settle(Duration::ZERO);
        self.note(effects);
        self
    }

    fn showing_records(mut self) -> Self {
        self.shows_records = true;
        self.log.clear();
        self
    }
}

/// An effect that a person must approve.
fn effect(digest: u8) -> Ask {
    Ask {
        tool: "Change".to_owned(),
        headline: "a".to_owned(),
        about: About::Effect(ShownEffect {
            remedy: "a rule would allow it".to_owned(),
            ..shown_effect("`rm a`", digest)
        }),
    }
}

fn question() -> Ask {
    let about = About::Questions {
        questions: vec![Question {
            question: "Which?".to_owned(),
            header: "Choice".to_owned(),
            options: Vec::new(),
            multi_select: false,
        }],
    };
    Ask { tool: "AskUserQuestion".to_owned(), headline: "Which?".to_owned(), about }
}

fn allow(asked: &Asked) -> Decided {
    let About::Effect(effect) = &asked.ask.about else { panic!("a question") };
    let (digest, scope) = (effect.digest, GrantScope::Once);
    let decision = Decision::allow(digest, scope);
    Decided { approval: asked.id.clone(), slot: asked.slot, decision }
}

fn deny(asked: &Asked, feedback: Option<&str>) -> Decided {
    let decision = Decision::Deny { feedback: feedback.map(str::to_owned) };
    Decided { approval: asked.id.clone(), slot: asked.slot, decision }
}

fn conversation_asks(start: &mut TurnStart) {
    start.asking.channel = AskingChannel::Conversation;
}

/// A turn that goes on with what another one left open.
fn resuming(
    open: OpenRound,
    client_answers: Vec<Option<Box<RawValue>>>,
    decisions: Vec<Decided>,
    then: Vec<HistoryPiece>,
) -> Bench {
    Bench::with("m", &["theirs"], |start| {
        conversation_asks(start);
        let resume = Resume { open, client_answers, decisions, then };
        start.beginning = Beginning::Resume(Box::new(resume));
        start.include_messages = true;
    })
}

fn tool_message(id: &str, content: &str) -> Box<RawValue> {
    closing::raw(&json!({ "role": "tool", "tool_call_id": id, "content": content }))
}

fn asked(model: &str) -> AskedModel {
    AskedModel {
        name: model.to_owned(),
        takes_reasoning: true,
        images: ImageRule::default(),
        takes_eager_input: true,
    }
}

const A: &str = r#"{"at":"a"}"#;
const B: &str = r#"{"at":"b"}"#;

#[test]
fn text_alone_is_the_answer() {
    Bench::new("m", &[])
        .text("Hi")
        .finish("stop")
        .done()
        .expect(r#"round1 ask text"Hi" hang FINISHED:stop STOP"#);
}

#[test]
fn a_call_that_looks_starts_at_its_last_brace() {
    let mut bench = Bench::new("m", &[]);
    bench.call(0, "Look", r#"{"at":"#).expect("round1 ask reserve begun");
    bench.delta(&json!({"tool_calls": [{"index": 0, "function": {"arguments": r#""a"}"#}}]}));
    bench.expect("ready:0");
}

#[test]
fn an_exclusive_call_waits_for_the_end_of_the_stream() {
    let mut bench = Bench::new("m", &[]);
    bench.call(0, "Change", A).call(1, "Change", B).finish("tool_calls");
    bench.expect("round1 ask reserve begun reserve begun");
    bench.done().expect("hang ready:0 ready:1");
}

#[test]
fn a_model_that_seals_its_calls_needs_not_wait() {
    let mut bench = Bench::new("claude-x", &[]);
    bench.call(0, "Change", A).expect("round1 ask reserve begun");
    bench.call(1, "Look", B).expect("reserve begun ready:0 ready:1");
}

#[test]
fn a_model_is_known_by_the_name_it_answers_with_too() {
    let mut bench = Bench::new("fast", &[]);
    let delta = json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "Change", "arguments": A}}]});
    bench.chunk(&json!({"model": "claude-9", "choices": [{"index": 0, "delta": delta}]}));
    bench.finish("tool_calls").expect("round1 ask reserve begun ready:0");
}

#[test]
fn where_the_client_has_tools_exclusive_calls_wait_even_so() {
    let mut bench = Bench::new("claude-x", &["theirs"]);
    bench
        .call(0, "Change", A)
        .call(1, "Look", B)
        .expect("round1 ask reserve begun reserve begun ready:1");
}

#[test]
fn answers_go_back_in_call_order_and_free_the_next_round() {
    let mut bench = Bench::new("m", &[]);
    bench.text("Look:").call(0, "Look", A).call(1, "Look", B).finish("tool_calls");
    bench.started(0).started(1).answer(1, "second").done().answer(0, "first");
    bench.expect(
        r#"round1 ask text"Look:" reserve begun ready:0 reserve begun ready:1 started:id0 started:id1 ended:id1 hang ended:id0 round2 ask"#,
    );
    let expected = json!([
        {"role": "assistant", "content": "Look:", "tool_calls": [
            {"id": "id0", "type": "function", "function": {"name": "Look", "arguments": A}},
            {"id": "id1", "type": "function", "function": {"name": "Look", "arguments": B}}]},
        {"role": "tool", "tool_call_id": "id0", "content": "first"},
        {"role": "tool", "tool_call_id": "id1", "content": "second"}]);
    assert_eq!(bench.messages(), &expected);
    bench.text("Done.").finish("stop").done();
    bench.expect(r#"text"\n\nDone." hang FINISHED:stop STOP"#);
}

#[test]
fn unknown_and_broken_calls_are_answered_and_never_run() {
    let mut bench = Bench::new("m", &[]);
    bench.call(0, "Lok", A).call(1, "Look", r#"{"at":5}"#).call(2, "Look", r#"{"at":"a"} x"#);
    bench.finish("tool_calls").done();
    let log = bench.log();
    assert!(!log.contains("ready:0") && !log.contains("ready:1"), "{log}");
    assert!(log.contains("round2 ask"), "{log}");
    let answers = bench.messages().as_array().unwrap()[1..].to_vec();
    assert_eq!(answers.len(), 3);
    for answer in answers {
        assert!(answer["content"].as_str().unwrap().starts_with("Error: "), "{answer}");
    }
    for call in bench.messages()[0]["tool_calls"].as_array().unwrap() {
        let arguments = call["function"]["arguments"].as_str().unwrap();
        assert!(serde_json::from_str::<Value>(arguments).is_ok(), "{arguments}");
    }
}

#[test]
fn what_the_output_limit_cut_off_is_told_and_never_run() {
    let mut bench = Bench::new("m", &[]);
    bench.call(0, "Change", A).call(1, "Change", r#"{"at":"b"#).finish("length").done();
    bench.expect("round1 ask reserve begun reserve begun hang withdraw:1 failed:id1(this call was cut off by the output limit and did not run; ask for it in smaller pieces) ready:0");
}

#[test]
fn length_without_a_call_is_the_answers_finish_reason() {
    let mut bench = Bench::new("m", &[]);
    bench.text("Hi").finish("length").done();
    bench.expect(r#"round1 ask text"Hi" hang FINISHED:length STOP"#);
}

#[test]
fn another_word_for_a_good_end_and_calls_that_never_came_are_stop() {
    for reason in ["eos", "End_Turn", "tool_calls"] {
        let mut bench = Bench::new("m", &[]);
        bench.text("Hi").finish(reason).done();
        bench.expect(r#"round1 ask text"Hi" hang FINISHED:stop STOP"#);
    }
}

#[test]
fn a_clients_call_goes_out_and_ends_the_turn() {
    let mut bench = Bench::new("m", &["theirs"]);
    bench.call(0, "Look", A).call(1, "theirs", r#"{"x":1}"#).call(2, "Change", B);
    bench.finish("tool_calls").done();
    bench.expect(
        r#"round1 ask reserve begun ready:0 reserve begun client0:id1=theirs{"x":1} reserve begun withdraw:1 hang ready:2"#,
    );
    bench.started(0).answer(0, "seen").started(2).expect("started:id0 ended:id0 started:id2");
    bench.answer(2, "done").expect("ended:id2 FINISHED:tool_calls STOP");
}

#[test]
fn an_empty_answer_is_asked_again_once() {
    let mut bench = Bench::new("m", &[]);
    bench.finish("stop").done().expect("round1 ask hang ask");
    bench.finish("stop").done().expect("hang FAILED:empty_response STOP");
}

#[test]
fn an_empty_answer_after_tools_and_text_ends_the_turn_well() {
    let mut bench = Bench::new("m", &[]);
    bench.text("Look:").call(0, "Look", A).finish("tool_calls").started(0).done().answer(0, "x");
    bench.finish("stop").done();
    bench.log();
    bench.finish("stop").done().expect("hang FINISHED:stop STOP");
}

#[test]
fn an_empty_stop_is_asked_again_whole_and_the_round_after_it_is_a_stream() {
    let mut bench = Bench::new("m", &[]);
    bench.finish("stop").done().expect("round1 ask hang ask");
    assert_eq!(bench.last_body()["stream"], false);
    bench.call(0, "Look", A).finish("tool_calls").started(0).done().answer(0, "x");
    assert_eq!(bench.last_body()["stream"], true);
    bench.done();
    assert_eq!(bench.last_body()["stream"], false, "a [DONE] alone is a stop too");
    bench.log();
    bench.delta(&json!({ "refusal": "no" })).finish("stop").done();
    bench.expect(r#"refusal"no" hang FINISHED:stop STOP"#);

    let mut bench = Bench::new("m", &[]);
    bench.finish("tool_calls").done();
    assert_eq!(bench.last_body()["stream"], true);
}

#[test]
fn a_whole_answer_is_judged_before_anything_of_it_is_sent() {
    let call = |name: &str, arguments: &str| json!({ "id": name, "function": { "name": name, "arguments": arguments } });
    let whole = |calls: &[Value]| {
        let message = json!({ "content": "So:", "tool_calls": calls });
        let body = json!({ "choices": [{ "message": message, "finish_reason": "tool_calls" }] });
        Event::Chunk(Box::new(Chunk::parse_whole(&body.to_string()).unwrap()))
    };
    let (half, theirs) = (call("theirs", r#"{"x""#), call("theirs", r#"{"x":1}"#));
    for calls in [vec![half.clone()], vec![theirs.clone(), half.clone()]] {
        let mut bench = Bench::new("m", &["theirs"]);
        bench.on(whole(&calls)).expect("round1 ask");
        bench.done().expect("hang ask+500ms");
        bench.on(whole(std::slice::from_ref(&theirs))).done();
        bench.expect(
            r#"hang text"So:" reserve begun client0:theirs=theirs{"x":1} withdraw:0 FINISHED:tool_calls STOP"#,
        );
    }
    // A whole call of ours is kept, as of a stream that died.
    let mut bench = Bench::new("m", &["theirs"]);
    bench.on(whole(&[call("Look", A), half])).done();
    let log = bench.log();
    assert!(log.contains(r#"text"So:""#) && log.contains("ready:0"), "{log}");
}

/// A turn whose content is its last round's text.
fn of_last_round(client_tools: &[&str]) -> Bench {
    Bench::with("m", client_tools, |start| start.content = ContentRule::LastRound)
}

#[test]
fn text_is_held_until_its_round_is_known_to_be_the_last() {
    let mut bench = of_last_round(&[]);
    bench.text("I ").text("look.").call(0, "Look", A).expect("round1 ask reserve begun ready:0");
    bench.started(0).finish("tool_calls").done().answer(0, "x");
    bench.expect(r#"started:id0 hang before"I look." ended:id0 round2 ask"#);
    bench.text("{").text("}").expect("");
    bench.finish("stop").done().expect(r#"hang text"{}" FINISHED:stop STOP"#);
}

#[test]
fn reasoning_is_not_held_and_refusals_are() {
    let mut bench = of_last_round(&[]);
    bench.delta(&json!({ "reasoning_content": "hm", "refusal": "n" }));
    bench.delta(&json!({ "refusal": "o" })).expect(r#"round1 ask reasoning_content"hm""#);
    bench.finish("stop").done().expect(r#"hang refusal"no" FINISHED:stop STOP"#);
}

#[test]
fn a_clients_call_brings_the_text_that_was_held() {
    let mut bench = of_last_round(&["theirs"]);
    bench.text("So:").call(0, "theirs", r#"{"x":1}"#).text(" more");
    bench.finish("tool_calls").done();
    bench.expect(
        r#"round1 ask reserve begun text"So:" client0:id0=theirs{"x":1} text" more" withdraw:0 hang FINISHED:tool_calls STOP"#,
    );
}

#[test]
fn a_stream_that_dies_while_its_text_is_held_is_asked_again() {
    let mut bench = of_last_round(&[]);
    bench.text("Hal").die().expect("round1 ask hang ask+500ms");
    bench.text("{}").finish("stop").done().expect(r#"hang text"{}" FINISHED:stop STOP"#);

    let mut bench = of_last_round(&[]);
    bench.delta(&json!({ "reasoning_content": "hm" })).text("Hal").die();
    bench.expect(r#"round1 ask reasoning_content"hm" hang FAILED:stream_died STOP"#);

    let mut bench = of_last_round(&[]);
    bench.text("One.").call(0, "Change", A).call(1, "Change", r#"{"at"#).die();
    bench.expect(r#"round1 ask reserve begun reserve begun hang withdraw:1 before"One." ready:0"#);
}

#[test]
fn a_round_limit_leaves_no_content_and_nothing_is_made_of_earlier_text() {
    let mut bench = Bench::with("m", &[], |start| {
        start.content = ContentRule::LastRound;
        start.settings.max_rounds = 1;
    });
    bench.text("I look.").call(0, "Look", A).finish("tool_calls").started(0).done();
    bench.answer(0, "x");
    let log = bench.log();
    assert!(log.ends_with(r#"hang before"I look." ended:id0 FINISHED:length STOP"#), "{log}");

    // What was said before the calls is no content, so the turn has none to end with.
    let mut bench = of_last_round(&[]);
    bench.text("I look.").call(0, "Look", A).finish("tool_calls").started(0).done();
    bench.answer(0, "x").finish("stop").done();
    bench.log();
    bench.finish("stop").done().expect("hang FAILED:empty_response STOP");
}

#[test]
fn what_is_held_counts_as_memory() {
    let size = |rule| {
        let mut bench = Bench::with("m", &[], |start| start.content = rule);
        bench.text(&"x".repeat(100_000));
        bench.state.size_estimate()
    };
    let kept = size(ContentRule::LastRound);
    assert!(kept >= 600_000, "{kept}");
}

#[test]
fn a_stream_that_dies_before_a_word_is_asked_again_after_a_wait() {
    let mut bench = Bench::new("m", &[]);
    bench.die().die().die();
    bench.expect("round1 ask hang ask+500ms hang ask+1500ms hang FAILED:upstream_error STOP");
}

#[test]
fn a_stream_that_dies_after_text_alone_is_an_error() {
    let mut bench = Bench::new("m", &[]);
    bench.text("Hal").die();
    bench.expect(r#"round1 ask text"Hal" hang FAILED:stream_died STOP"#);
}

#[test]
fn a_stream_that_dies_after_a_sealed_call_goes_on_with_its_answer_once() {
    let mut bench = Bench::new("m", &[]);
    bench.text("Two:").call(0, "Change", A).call(1, "Change", r#"{"at"#).die();
    bench.expect(r#"round1 ask text"Two:" reserve begun reserve begun hang withdraw:1 ready:0"#);
    bench.started(0).answer(0, "changed").expect("started:id0 ended:id0 round2 ask");
    assert_eq!(bench.messages()[0]["tool_calls"].as_array().unwrap().len(), 1);
    assert_eq!(bench.messages()[1]["content"], "changed");

    bench.call(0, "Change", A).call(1, "Change", B).die();
    bench.expect("reserve begun reserve begun hang FAILED:stream_died STOP");
}

#[test]
fn a_round_that_ends_well_forgives_the_death_before_it() {
    let mut bench = Bench::new("m", &[]);
    bench.call(0, "Look", A).started(0).die().answer(0, "x");
    bench.call(0, "Look", A).started(0).finish("tool_calls").done().answer(0, "x");
    bench.log();
    bench.call(0, "Look", A).started(0).die().answer(0, "x");
    let log = bench.log();
    assert!(log.ends_with("round4 ask"), "{log}");
}

#[test]
fn a_whole_call_that_was_neither_sealed_nor_started_is_dropped() {
    let mut bench = Bench::new("m", &[]);
    bench.call(0, "Change", A).die();
    bench.expect("round1 ask reserve begun hang ask+500ms");
}

#[test]
fn a_death_with_a_clients_call_in_the_round_is_an_error() {
    let mut bench = Bench::new("m", &["theirs"]);
    bench.call(0, "Look", A).call(1, "theirs", r#"{"a"#).die();
    assert!(bench.log().ends_with("hang FAILED:stream_died STOP"));
}

#[test]
fn a_call_left_half_open_at_a_proper_end_is_a_death() {
    let mut bench = Bench::new("m", &[]);
    bench.call(0, "Look", r#"{"at"#).finish("tool_calls").done();
    bench.expect("round1 ask reserve begun hang hang ask+500ms");
}

#[test]
fn a_model_that_refuses_reasoning_is_asked_without_it_and_remembered() {
    let mut bench = Bench::new("m", &[]);
    bench.delta(&json!({"reasoning_content": "hm"})).call(0, "Look", A).started(0);
    bench.finish("tool_calls").done().answer(0, "x");
    assert_eq!(bench.messages()[0]["reasoning_content"], "hm");
    bench.log();
    bench.refuse_reasoning().expect("hang refuses:m:Reasoning ask");
    assert_eq!(bench.messages()[0]["reasoning_content"], Value::Null);
}

#[test]
fn fallback_models_are_asked_after_the_retries() {
    let mut bench = Bench::with("m", &[], |start| start.models.push(asked("n")));
    bench.die().die().die();
    assert_eq!(bench.bodies.last().unwrap()["model"], "n");
    assert!(bench.log().ends_with("hang ask"));
}

#[test]
fn a_fallback_has_its_own_rule_for_starting() {
    let mut bench = Bench::with("claude-x", &[], |start| start.models.push(asked("n")));
    bench.die().die().die().log();
    bench.call(0, "Change", A).call(1, "Change", B).expect("reserve begun reserve begun");

    let mut bench = Bench::with("m", &[], |start| start.models.push(asked("claude-x")));
    bench.die().die().die().log();
    bench.call(0, "Change", A).call(1, "Change", B).expect("reserve begun reserve begun ready:0");
}

#[test]
fn calls_past_the_limit_of_a_round_are_answered_with_an_error() {
    let mut bench = Bench::with("m", &[], |start| start.settings.max_tool_calls = 1);
    bench.call(0, "Look", A).call(1, "Look", B).finish("tool_calls").started(0).done();
    bench.answer(0, "x");
    assert!(bench.messages()[2]["content"].as_str().unwrap().contains("only 1 tool calls"));
}

#[test]
fn u33_an_answer_of_too_many_calls_is_an_error_and_starts_nothing() {
    let numbers = 0..upstream::assemble::MAX_CALLS;
    let most: String =
        numbers.map(|number| json!({ "at": number.to_string() }).to_string()).collect();
    for (name, tools) in [("Look", &[][..]), ("theirs", &["theirs"])] {
        let mut bench = Bench::new("m", tools);
        bench.call(0, name, &format!("{most}{A}"));
        bench.expect("round1 ask hang FAILED:upstream_invalid STOP");
    }

    let mut bench = Bench::new("m", &[]);
    bench.call(0, "Look", A).started(0).answer(0, "seen").log();
    bench.call(1, "Look", &most).expect("hang FAILED:upstream_invalid STOP");

    let mut bench = Bench::new("m", &[]);
    bench.call(0, "Look", &most);
    let log = bench.log();
    assert!(log.contains("ready:31") && !log.contains("ready:32") && !log.contains("FAILED"));
}

#[test]
fn a_call_with_an_empty_object_in_front_starts_with_the_real_one() {
    let mut bench = Bench::new("claude-x", &[]);
    bench.call(0, "Look", "{}").expect("round1 ask reserve begun");
    bench.delta(&json!({"tool_calls": [{"index": 0, "function": {"arguments": A}}]}));
    bench.expect("ready:0").started(0).answer(0, "seen").finish("tool_calls").done();
    bench.expect("started:id0 ended:id0 hang round2 ask");
    assert_eq!(bench.messages()[0]["tool_calls"][0]["function"]["arguments"], A);
}

#[test]
fn arguments_behind_the_finish_reason_are_their_calls() {
    let mut bench = Bench::new("claude-x", &[]);
    bench.call(0, "Change", "").finish("tool_calls").expect("round1 ask reserve begun");
    bench.delta(&json!({"tool_calls": [{"index": 0, "function": {"arguments": B}}]}));
    bench.finish("length").expect("");
    bench.done();
    assert!(bench.log().contains("cut off by the output limit"));

    let mut bench = Bench::new("m", &[]);
    bench.call(0, "Change", r#"{"at":"#).finish("stop");
    bench.delta(&json!({"tool_calls": [{"index": 0, "function": {"arguments": r#""a"}"#}}]}));
    bench.done().expect("round1 ask reserve begun hang ready:0");
}

#[test]
fn the_round_limit_ends_the_turn_with_length() {
    let mut bench = Bench::with("m", &[], |start| start.settings.max_rounds = 1);
    bench.call(0, "Look", A).started(0).finish("tool_calls").done();
    bench.log();
    bench.answer(0, "x").expect("ended:id0 FINISHED:length STOP");
}

#[test]
fn after_stream_starts_nothing_early() {
    let rule = "match = \"*\"\nstart = \"after_stream\"";
    let mut bench = Bench::with("m", &[], |start| {
        start.model_rules = Arc::new([toml::from_str(rule).unwrap()]);
    });
    bench.call(0, "Look", A).call(1, "Look", B).finish("tool_calls");
    bench.expect("round1 ask reserve begun reserve begun");
    bench.done().expect("hang ready:0 ready:1");
}

#[test]
fn nothing_happens_after_the_end() {
    let mut bench = Bench::new("m", &[]);
    bench.on(Event::ShuttingDown).expect("round1 ask FAILED:shutting_down STOP");
    bench.text("more").done().on(Event::TimeIsUp).expect("");
}

#[test]
fn a_call_that_runs_and_turns_out_to_be_none_is_answered_with_the_error() {
    let mut bench = Bench::new("m", &[]);
    bench.call(0, "Look", A).started(0);
    bench.delta(&json!({"tool_calls": [{"index": 0, "function": {"arguments": "x"}}]}));
    bench.finish("tool_calls").done();
    bench.expect("round1 ask reserve begun ready:0 started:id0 hang");
    bench.answer(0, "too late");
    assert!(bench.messages()[1]["content"].as_str().unwrap().starts_with("Error: "));
}

#[test]
fn a_brace_and_garbage_in_one_chunk_start_nothing() {
    let mut bench = Bench::new("m", &[]);
    bench.delta(&json!({"tool_calls": [
        {"index": 0, "id": "c", "function": {"name": "Look", "arguments": A}},
        {"index": 0, "function": {"arguments": "x"}}]}));
    let log = bench.log();
    assert!(!log.contains("ready") && log.contains("withdraw:0"), "{log}");
}

#[test]
fn a_call_behind_one_that_was_cut_off_does_not_start_by_it() {
    let mut bench = Bench::new("m", &[]);
    bench.call(0, "Change", r#"{"at"#).call(1, "Look", A).finish("length").done();
    let log = bench.log();
    assert!(log.contains("withdraw:0,1"), "{log}");
    bench.started(1).expect("");
    assert!(bench.bodies.len() == 2, "the next round has been asked for");
}

#[test]
fn a_turn_has_its_time() {
    let mut bench = Bench::new("m", &[]);
    bench.text("Hi").on(Event::TimeIsUp);
    bench.expect(r#"round1 ask text"Hi" FAILED:turn_time_limit STOP"#);
}

#[test]
fn rounds_without_figures_are_counted_once_each() {
    let mut bench = Bench::new("m", &[]);
    bench.finish("stop").done();
    bench.call(0, "Look", A).started(0).die().answer(0, "x");
    bench.text("Hi").finish("stop").done();
    assert_eq!(bench.state.stats.rounds_without_usage, 2);
}

#[test]
fn two_rounds_cut_off_within_a_call_end_the_turn() {
    for reason in ["length", "content_filter"] {
        let mut bench = Bench::new("m", &[]);
        bench.call(0, "Change", r#"{"at"#).finish(reason).done();
        assert!(bench.log().ends_with("round2 ask"));
        bench.call(0, "Look", A).call(1, "Change", r#"{"at"#).finish(reason).started(0).done();
        assert!(!bench.log().contains("FINISHED"), "what runs is waited for");
        bench.answer(0, "x").expect(&format!("ended:id0 FINISHED:{reason} STOP"));
    }
}

#[test]
fn a_tool_that_runs_is_told_to_have_ended_however_the_turn_ends() {
    type End = (&'static str, fn(&mut Bench));
    let ends: [End; 5] = [
        ("FAILED:stream_died", |bench| {
            bench.call(1, "theirs", r#"{"a"#).die();
        }),
        ("FAILED:shutting_down", |bench| {
            bench.on(Event::ShuttingDown);
        }),
        ("FAILED:turn_time_limit", |bench| {
            bench.done().on(Event::TimeIsUp);
        }),
        ("FAILED:overloaded", |bench| {
            bench.on(Event::Overloaded);
        }),
        ("FAILED:stream_died", |bench| {
            bench.die().answer(0, "x").call(0, "Look", A).started(0).die();
        }),
    ];
    for (expected, end) in ends {
        let mut bench = Bench::new("m", &["theirs"]);
        bench.call(0, "Look", A).started(0);
        end(&mut bench);
        let log = bench.log();
        assert!(log.ends_with(&format!("failed:id0(interrupted) {expected} STOP")), "{log}");
    }
}

#[test]
fn a_tool_ends_under_the_id_it_started_with() {
    let mut bench = Bench::new("m", &[]);
    let entry = json!({"index": 0, "function": {"name": "Look", "arguments": A}});
    bench.delta(&json!({"tool_calls": [entry]})).started(0);
    bench.delta(&json!({"tool_calls": [{"index": 0, "id": "late"}]})).answer(0, "x");
    let log = bench.log();
    let id = log.split_once("started:").unwrap().1.split(' ').next().unwrap();
    assert!(log.contains(&format!("ended:{id}")), "{log}");
}

#[test]
fn a_clients_call_of_which_nothing_was_sent_is_asked_for_again() {
    let mut bench = Bench::new("m", &["theirs"]);
    bench.call(0, "theirs", "").die();
    bench.expect("round1 ask reserve begun hang ask+500ms");

    let mut bench = Bench::new("m", &["theirs"]);
    bench.call(0, "Look", A).started(0).call(1, "theirs", "").die();
    bench.expect("round1 ask reserve begun ready:0 started:id0 reserve begun hang withdraw:1");
    bench.answer(0, "x").expect("ended:id0 round2 ask");
    assert_eq!(bench.messages()[0]["tool_calls"].as_array().unwrap().len(), 1);
}

#[test]
fn a_clients_call_waits_until_those_before_it_have_gone_out() {
    let mut bench = Bench::new("m", &["theirs"]);
    bench.call(0, "theirs", "").call(1, "theirs", A).log();
    let piece = json!({"tool_calls": [{"index": 0, "function": {"arguments": r#"{"b"#}}]});
    let expected = format!(r#"client0:id0=theirs{{"b client1:id1=theirs{A}"#);
    bench.delta(&piece).expect(&expected);
}
