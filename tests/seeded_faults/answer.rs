//! Generates one answer of a model as a list of events, and computes what its first events mean
//! when the rest does not arrive.

use serde_json::{Value, json};

use crate::support::seeded::SeededRandom;

/// One event of an answer.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) means: Means,
    /// The payload after `data: `, or a whole line of another kind.
    pub(super) line: String,
}

/// What an event adds to the answer.
#[derive(Clone, Debug)]
pub(super) enum Means {
    Nothing,
    Text(String),
    Reasoning,
    /// A part of the call with this number. The first one opens the call.
    Call(usize, String),
    Finish(&'static str),
    Done,
    /// A payload that is not a chunk, with the error code that follows. The flag says whether
    /// the request is repeated while nothing of the answer counts yet.
    Fault(&'static str, bool),
}

/// The tool that a call names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    /// Appends its label to a file, so each run is counted. Exclusive.
    Bash,
    /// Starts as soon as it is whole.
    Read,
    /// No tool has this name.
    Unknown,
}

/// A call that the model makes.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) tool: Tool,
    pub(super) label: String,
    pub(super) arguments: String,
}

/// What a part of an answer amounts to.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) text: String,
    pub(super) reasoning: bool,
    pub(super) calls: Vec<SaidCall>,
    pub(super) end: End,
}

/// A call, as far as it arrived.
#[derive(Clone, Debug)]
pub(super) struct SaidCall {
    pub(super) call: Call,
    /// The arguments that arrived.
    pub(super) came: String,
    pub(super) sealed: bool,
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// In order, with a reason that is not a cut.
    Whole,
    /// By the output limit or a filter.
    CutOff(&'static str),
    /// It broke off. Has the client's error code, and whether a repeated request may help.
    Broken(&'static str, bool),
}

impl SaidCall {
    pub(super) fn is_whole(&self) -> bool {
        self.came == self.call.arguments
    }

    pub(super) fn is_half_open(&self) -> bool {
        !self.came.is_empty() && !self.is_whole()
    }

    /// The arguments as they are sent back upstream.
    pub(super) fn key(&self) -> Value {
        let text = if self.is_whole() { &self.came } else { "{}" };
        serde_json::from_str(text).expect("arguments are JSON")
    }
}

/// An answer: its events, and the calls in them.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) pieces: Vec<Piece>,
    pub(super) calls: Vec<Call>,
}

impl Answer {
    /// A whole answer. `name` makes the labels of its calls unique.
    pub(super) fn new(
        dice: &mut SeededRandom,
        name: &str,
        may_call: bool,
        of_one_kind: bool,
    ) -> Self {
        let calls = if may_call { calls(dice, name, of_one_kind) } else { Vec::new() };
        let has_text = !may_call || dice.happens(if calls.is_empty() { 85 } else { 50 });
        let mut pieces = Vec::new();
        if dice.happens(20) {
            pieces.push(delta(Means::Reasoning, &json!({ "reasoning_content": "Hm, ä 🙂 …" })));
        }
        if has_text {
            pieces.extend(text(dice, name));
        }
        let style = Style::new(dice);
        for (index, call) in calls.iter().enumerate() {
            pieces.extend(style.pieces(dice, index, call));
        }
        if has_text && !calls.is_empty() && dice.happens(20) {
            pieces.push(delta(Means::Text("After.".to_owned()), &json!({ "content": "After." })));
        }
        for _ in 0..dice.below(3) {
            pieces.insert(dice.below(pieces.len() + 1), noise(dice));
        }
        Self { pieces, calls }
    }

    /// Adds the rest of a good answer.
    pub(super) fn end(&mut self, dice: &mut SeededRandom) {
        let reason = match dice.below(20) {
            0 => "length",
            1 => "content_filter",
            2 => "eos_token",
            3 => return self.done(),
            _ if self.calls.is_empty() || dice.happens(20) => "stop",
            _ => "tool_calls",
        };
        self.finish(reason);
        if dice.happens(70) {
            self.pieces.push(usage());
        }
        if dice.happens(85) {
            self.done();
        }
    }

    pub(super) fn finish(&mut self, reason: &'static str) {
        let choice = json!({ "index": 0, "delta": {}, "finish_reason": reason });
        self.pieces.push(chunk(Means::Finish(reason), &json!([choice])));
    }

    pub(super) fn done(&mut self) {
        self.pieces.push(Piece { means: Means::Done, line: "data: [DONE]".to_owned() });
    }

    /// Inserts an event that no answer may have, at a random place.
    pub(super) fn break_it(&mut self, dice: &mut SeededRandom) {
        let frame = |code: Value| json!({ "error": { "message": "it broke", "code": code } });
        let data = |value: Value| format!("data: {value}");
        let (code, again, line) = match dice.below(7) {
            0 => ("upstream_error", true, data(frame(json!("500")))),
            1 => ("upstream_error", true, data(frame(json!("None")))),
            2 => ("upstream_rate_limited", true, data(frame(json!(429)))),
            3 => ("upstream_rejected", false, data(frame(json!("400")))),
            4 => ("upstream_invalid", true, "data: {\"choices\": garbage".to_owned()),
            5 => {
                let choice = json!({ "index": 0, "delta": {}, "finish_reason": "network_error" });
                ("upstream_error", true, chunk(Means::Nothing, &json!([choice])).line)
            }
            _ => ("upstream_invalid", false, format!(": {}", "x".repeat(70 << 10))),
        };
        let at = dice.below(self.pieces.len() + 1);
        self.pieces.insert(at, Piece { means: Means::Fault(code, again), line });
    }

    /// Imitates what LiteLLM makes of a clean cut: the last pieces of a call are missing, and
    /// the end looks good.
    pub(super) fn lose_the_tail(&mut self, dice: &mut SeededRandom) {
        while matches!(self.pieces.last(), Some(Piece { means: Means::Nothing, .. })) {
            self.pieces.pop();
        }
        let is_part = |piece: &Piece| matches!(piece.means, Means::Call(..));
        let parts = self.pieces.iter().rev().take_while(|piece| is_part(piece)).count();
        let lost = dice.below(parts.max(1));
        self.pieces.truncate(self.pieces.len() - lost);
    }

    /// What the first `count` events amount to, if the answer ends behind them with `behind`.
    pub(super) fn said(&self, count: usize, behind: End) -> Said {
        let mut said =
            Said { text: String::new(), reasoning: false, calls: Vec::new(), end: behind };
        let mut order: Vec<usize> = Vec::new();
        let mut finish = None;
        for piece in &self.pieces[..count] {
            match &piece.means {
                Means::Nothing => {}
                Means::Text(text) => said.text.push_str(text),
                Means::Reasoning => said.reasoning = true,
                Means::Call(number, part) => {
                    if !order.contains(number) {
                        seal_last(&mut said);
                        order.push(*number);
                        let call = self.calls[*number].clone();
                        said.calls.push(SaidCall { call, came: String::new(), sealed: false });
                    }
                    said.calls.last_mut().expect("just opened").came.push_str(part);
                }
                Means::Finish(reason) => {
                    finish.get_or_insert(*reason);
                    said.end = end_of(reason);
                    said.seal_at_the_end();
                }
                Means::Done => {
                    if finish.is_none() {
                        said.end = End::Whole;
                        said.seal_at_the_end();
                    }
                    return said;
                }
                Means::Fault(code, again) => {
                    said.end = End::Broken(code, *again);
                    return said;
                }
            }
        }
        said
    }

    /// The whole answer as an unstreamed completion.
    pub(super) fn completion(&self) -> Value {
        let said = self.said(self.pieces.len(), End::Whole);
        let calls = self.calls.iter().enumerate().map(|(index, call)| {
            json!({ "index": index, "id": format!("whole_{}", call.label), "type": "function",
                    "function": { "name": call.name(), "arguments": call.arguments } })
        });
        let calls: Vec<Value> = calls.collect();
        let mut message = json!({ "role": "assistant", "content": said.text });
        if !calls.is_empty() {
            message["tool_calls"] = calls.into();
        }
        json!({
            "id": "x", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }],
        })
    }
}

impl Said {
    /// Seals the calls at the end. A call that is half open means a cut, and then none is
    /// sealed.
    fn seal_at_the_end(&mut self) {
        let is_cut = self.calls.iter().any(SaidCall::is_half_open);
        if self.end == End::Whole && !is_cut {
            self.calls.iter_mut().for_each(|call| call.sealed = true);
        }
    }
}

fn seal_last(said: &mut Said) {
    if let Some(last) = said.calls.last_mut() {
        last.sealed |= last.is_whole();
    }
}

fn end_of(reason: &'static str) -> End {
    match reason {
        "length" | "content_filter" => End::CutOff(reason),
        _ => End::Whole,
    }
}

impl Call {
    pub(super) fn name(&self) -> &'static str {
        match self.tool {
            Tool::Bash => "Bash",
            Tool::Read => "Read",
            Tool::Unknown => "bash_command",
        }
    }
}

fn calls(dice: &mut SeededRandom, name: &str, of_one_kind: bool) -> Vec<Call> {
    let count = *dice.pick(&[0, 0, 1, 1, 2, 3]);
    let kind = *dice.pick(&[Tool::Bash, Tool::Read, Tool::Read]);
    let call = |number: usize| {
        let other = *dice.pick(&[Tool::Bash, Tool::Read, Tool::Read, Tool::Unknown]);
        let tool = if of_one_kind { kind } else { other };
        let label = format!("{name}c{number}");
        let arguments = match tool {
            Tool::Read => json!({ "file_path": "notes.txt", "offset": 1 + dice.below(1_000_000) }),
            _ => json!({ "command": format!("echo {label} >> ran.txt # ä🙂") }),
        };
        Call { tool, label, arguments: arguments.to_string() }
    };
    (0..count).map(call).collect()
}

fn text(dice: &mut SeededRandom, name: &str) -> Vec<Piece> {
    let words = ["Words ", "für ", "日本 ", "🙂 ", "and \n more", "\u{1b}[31m"];
    let count = 1 + dice.below(4);
    let words = (0..count).map(|_| (*dice.pick(&words)).to_owned());
    let words: Vec<String> = words.chain([name.to_owned()]).collect();
    words.iter().map(|word| said_text(dice, word)).collect()
}

/// A piece of text. Sometimes half of an emoji is in an escape, with or without text behind it,
/// which counts as a replacement character: the other half never comes.
fn said_text(dice: &mut SeededRandom, word: &str) -> Piece {
    if !dice.happens(5) {
        return delta(Means::Text(word.to_owned()), &json!({ "content": word }));
    }
    let behind = *dice.pick(&["!", ""]);
    let means = Means::Text(format!("\u{fffd}{behind}"));
    let piece = delta(means, &json!({ "content": format!("HALF{behind}") }));
    Piece { line: piece.line.replace("HALF", "\\ud83d"), ..piece }
}

/// An event without meaning.
fn noise(dice: &mut SeededRandom) -> Piece {
    let elsewhere = json!([{ "index": 1, "delta": { "content": "not this" } }]);
    let line = match dice.below(7) {
        5 => "data: {\"type\": \"ping\"}".to_owned(),
        6 => "data: {\"id\": \"x\", \"choices\": null}".to_owned(),
        0 => ": keep-alive".to_owned(),
        1 => "event: ping".to_owned(),
        2 => "data:".to_owned(),
        3 => return chunk(Means::Nothing, &elsewhere),
        _ => return usage(),
    };
    Piece { means: Means::Nothing, line }
}

fn usage() -> Piece {
    let piece = chunk(Means::Nothing, &json!([{ "index": 0, "delta": {} }]));
    let odd =
        ",\"usage\":{\"prompt_tokens\":-3,\"completion_tokens\":1e30,\"total_tokens\":\"x\"}}";
    Piece { line: piece.line.strip_suffix('}').expect("an object").to_owned() + odd, ..piece }
}

fn delta(means: Means, delta: &Value) -> Piece {
    chunk(means, &json!([{ "index": 0, "delta": delta, "finish_reason": null }]))
}

fn chunk(means: Means, choices: &Value) -> Piece {
    let chunk = json!({ "id": "x", "object": "chat.completion.chunk", "created": 1,
                        "model": "scripted-1", "choices": choices });
    Piece { means, line: format!("data: {chunk}") }
}

/// How a provider writes its calls.
#[derive(Clone, Copy, Debug)]
enum Style {
    /// The head first, then pieces of the arguments.
    Pieces { first_index: usize },
    /// Each call in one delta at index 0, with a new id.
    AtOnce,
    /// Id and name in each delta.
    Repeating,
    /// Without ids.
    NoIds,
    /// Without indexes.
    NoIndex,
    /// One id for all calls.
    OneId,
    /// Arguments as an object.
    Object,
}

impl Style {
    fn new(dice: &mut SeededRandom) -> Self {
        *dice.pick(&[
            Self::Pieces { first_index: 0 },
            Self::Pieces { first_index: 0 },
            Self::Pieces { first_index: 1 },
            Self::AtOnce,
            Self::Repeating,
            Self::NoIds,
            Self::NoIndex,
            Self::OneId,
            Self::Object,
        ])
    }

    fn pieces(self, dice: &mut SeededRandom, number: usize, call: &Call) -> Vec<Piece> {
        let parts = match self {
            Self::AtOnce | Self::Object => vec![call.arguments.clone()],
            _ => [vec![String::new()], in_parts(dice, &call.arguments)].concat(),
        };
        let parts = parts.into_iter().enumerate();
        parts.map(|(at, part)| self.piece(number, call, at == 0, part)).collect()
    }

    fn piece(self, number: usize, call: &Call, is_head: bool, part: String) -> Piece {
        let mut function = json!({ "arguments": part });
        if let Self::Object = self {
            function["arguments"] = serde_json::from_str(&part).expect("whole");
        }
        let mut entry = json!({ "type": "function" });
        if is_head || matches!(self, Self::Repeating) {
            function["name"] = call.name().into();
            match self {
                Self::NoIds => {}
                Self::OneId => entry["id"] = call.label.split('c').next().into(),
                _ => entry["id"] = format!("call_{}", call.label).into(),
            }
        }
        match self {
            Self::NoIndex => {}
            Self::AtOnce => entry["index"] = 0.into(),
            Self::Pieces { first_index } => entry["index"] = (first_index + number).into(),
            _ => entry["index"] = number.into(),
        }
        entry["function"] = function;
        delta(Means::Call(number, part), &json!({ "tool_calls": [entry] }))
    }
}

/// A text in one to four parts, none of them empty.
fn in_parts(dice: &mut SeededRandom, text: &str) -> Vec<String> {
    let mut cuts: Vec<usize> = (0..dice.below(4)).map(|_| dice.below(text.len())).collect();
    cuts.retain(|cut| *cut > 0 && text.is_char_boundary(*cut));
    cuts.extend([0, text.len()]);
    cuts.sort_unstable();
    cuts.dedup();
    cuts.windows(2).map(|pair| text[pair[0]..pair[1]].to_owned()).collect()
}
