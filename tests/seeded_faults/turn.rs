//! Computes how a conversation must go by the rules alone: what is repeated, what is salvaged,
//! what has run, and how it ends.

use std::collections::BTreeMap;

use serde_json::Value;

use super::answer::{End, Said, SaidCall, Tool};
use super::attempt::{Attempt, Fate};

/// How many failures of one round are repeated.
const RETRIES: u32 = 2;

/// How many rounds in a row may be cut off within a call before the turn ends.
const CUT_OFF_ROUNDS: u32 = 2;

/// How a conversation must end.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// With this `finish_reason`.
    Success(&'static str),
    /// With this error code.
    Failure(&'static str),
}

/// The expected state of one conversation.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// What each answer of upstream amounted to, for a person who examines a seed.
    pub(super) history: Vec<String>,
    pub(super) verdict: Option<Verdict>,
    pub(super) problems: Vec<String>,
    /// All text that the client must have got.
    pub(super) text: String,
    pub(super) tools_ran: bool,
    /// The labels of commands that may have run, each with whether it must have.
    pub(super) owed: BTreeMap<String, bool>,
    /// The calls of each closed round, by their arguments.
    closed: Vec<Vec<Value>>,
    failures: u32,
    was_empty: bool,
    /// Upstream failed where it was asked again after an empty answer: LiteLLM fails so where the
    /// answer stays empty.
    pub(super) may_be_empty: bool,
    was_salvaged: bool,
    /// Rounds in a row that were cut off within a call.
    cut_off_rounds: u32,
}

impl Turn {
    pub(super) fn attempts(&self) -> u64 {
        self.history.len() as u64
    }

    /// Checks that upstream was sent the closed rounds, and no other calls.
    pub(super) fn check_history(&mut self, body: &Value) {
        let messages = body["messages"].as_array().expect("messages");
        let told = messages.iter().filter_map(|message| message["tool_calls"].as_array());
        let told: Vec<Vec<Value>> =
            told.map(|calls| calls.iter().map(arguments).collect()).collect();
        if told != self.closed {
            self.problems.push(format!("told of {told:?}, not of {:?}", self.closed));
        }
        if self.verdict.is_some() {
            self.problems.push("upstream was asked after the end".to_owned());
        }
    }

    pub(super) fn heard(&mut self, attempt: &Attempt) {
        self.history.push(format!("{:?}", attempt.fate));
        match &attempt.fate {
            Fate::Refused { code, again } => self.failed(code, *again),
            Fate::Said(said) => self.said(said, attempt.starts_sealed),
        }
    }

    fn said(&mut self, said: &Said, starts_sealed: bool) {
        self.forward(&said.text);
        match said.end {
            End::Broken(code, again) => self.broken(said, code, again, starts_sealed),
            End::Whole if said.calls.iter().any(SaidCall::is_half_open) => {
                self.broken(said, "stream_died", true, starts_sealed);
            }
            End::Whole if said.calls.is_empty() && said.text.is_empty() => self.empty(),
            End::Whole if said.calls.is_empty() => self.end(Verdict::Success("stop")),
            End::CutOff(reason) if said.calls.is_empty() => self.end(Verdict::Success(reason)),
            End::Whole | End::CutOff(_) => {
                self.was_salvaged = false;
                self.close(said, |_| true);
                self.cut_off(said);
            }
        }
    }

    /// The model is told of a call that was cut off, and asked again, once.
    fn cut_off(&mut self, said: &Said) {
        let is_cut_off = |at: usize| !said.calls[at].sealed && !has_started(said, at);
        match said.end {
            End::CutOff(reason) if (0..said.calls.len()).any(is_cut_off) => {
                self.cut_off_rounds += 1;
                if self.cut_off_rounds == CUT_OFF_ROUNDS {
                    self.end(Verdict::Success(reason));
                }
            }
            _ => self.cut_off_rounds = 0,
        }
    }

    fn forward(&mut self, text: &str) {
        if !text.is_empty() && !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
        self.text.push_str(text);
    }

    /// The stream failed after `said`.
    fn broken(&mut self, said: &Said, code: &'static str, again: bool, starts_sealed: bool) {
        let started: Vec<bool> = (0..said.calls.len()).map(|at| has_started(said, at)).collect();
        let is_kept = |at: usize| said.calls[at].sealed || started[at];
        if !(0..said.calls.len()).any(is_kept) {
            let was_heard = !said.text.is_empty() || said.reasoning;
            // If nothing of the answer came, no stream has died.
            let code = if code == "stream_died" && !was_heard { "upstream_error" } else { code };
            return self.failed(code, again && !was_heard);
        }
        if self.was_salvaged {
            // Whether a call that was judged meanwhile has begun before the stream broke, only
            // the server knows.
            if starts_sealed {
                self.owe(said.calls.iter().filter(|call| call.sealed), false);
            }
            return self.end(Verdict::Failure(code));
        }
        self.was_salvaged = true;
        self.cut_off_rounds = 0;
        self.close(said, is_kept);
    }

    fn failed(&mut self, code: &'static str, again: bool) {
        self.failures += 1;
        self.may_be_empty |= self.was_empty && code == "upstream_error";
        if !again || self.failures > RETRIES {
            self.end(Verdict::Failure(code));
        }
    }

    fn empty(&mut self) {
        if !self.was_empty {
            self.was_empty = true;
        } else if self.tools_ran && !self.text.is_empty() {
            self.end(Verdict::Success("stop"));
        } else {
            self.end(Verdict::Failure("empty_response"));
        }
    }

    /// Closes the round with the calls that are kept. The next round must be asked for.
    fn close(&mut self, said: &Said, is_kept: impl Fn(usize) -> bool) {
        let is_cut_off = matches!(said.end, End::CutOff(_));
        let kept = || (0..said.calls.len()).filter(|at| is_kept(*at)).map(|at| &said.calls[at]);
        self.closed.push(kept().map(SaidCall::key).collect());
        self.owe(kept().filter(|call| call.sealed), true);
        self.tools_ran |= kept().any(|call| match call.call.tool {
            Tool::Unknown => false,
            Tool::Read => call.is_whole() && !is_cut_off,
            Tool::Bash => call.is_whole() && call.sealed,
        });
        self.failures = 0;
        self.was_empty = false;
    }

    fn owe<'a>(&mut self, calls: impl Iterator<Item = &'a SaidCall>, must: bool) {
        let commands = calls.filter(|call| call.call.tool == Tool::Bash && call.is_whole());
        self.owed.extend(commands.map(|call| (call.call.label.clone(), must)));
    }

    fn end(&mut self, verdict: Verdict) {
        self.verdict = Some(verdict);
    }
}

/// Whether a call that only looks starts while the model still writes.
fn has_started(said: &Said, at: usize) -> bool {
    let call = &said.calls[at];
    let waits = said.calls[..at].iter().any(|call| call.call.tool == Tool::Bash);
    call.call.tool == Tool::Read && call.is_whole() && !waits
}

/// The arguments of a call in a transcript.
fn arguments(call: &Value) -> Value {
    let text = call["function"]["arguments"].as_str().unwrap_or_default();
    serde_json::from_str(text).unwrap_or_default()
}
