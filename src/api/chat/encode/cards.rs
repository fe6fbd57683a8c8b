//! Decides what the cards of a turn show: one for each call of the server's tools. Pure.
//!
//! Open WebUI goes on with a conversation by itself while a card is open, so each is closed on
//! every exit. It sorts calls and outputs by their order: the calls of a round come first, and
//! an output never comes within a run of text.

mod running_text;

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use self::running_text::RunningText;
use crate::agent::events::{AgentReport, CallBegan, ToolEnd, ToolLine, ToolStart, TurnEvent};
use crate::ids::{CardId, TurnId};
use crate::progress_lines;
use crate::tools::todos::{Todo, checklist};

/// The most that a card shows of an output, in characters, its note included.
const MAX_OUTPUT: usize = 10_000;

/// Positions far behind any text: a frontend appends items with such a position.
const FIRST_INDEX: u64 = 1_000_000;

/// A call that does not run because its turn or its round is over.
const DID_NOT_RUN: &str = "This call did not run.";
/// A call that was cut off by the end of the turn.
const INTERRUPTED: &str = "interrupted";
/// A call that waits for a person, or behind one that does.
const WAITS: &str = "This call waits for an answer.";
/// In a stream that is told again.
const NOT_KEPT: &str = "(The output is not shown again.)";

/// One item of a chunk: a call or its output.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item {
    pub(super) output_index: u64,
    pub(super) item: Value,
}

/// Why the open cards are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// The round is over.
    Round,
    /// The turn has failed.
    Failure,
    /// The turn goes on with a person's answer, or with the client's to its own calls.
    Waiting,
}

/// The cards that are open, in the order in which they were announced.
#[derive(Clone, Debug)]
pub(super) struct Cards {
    /// The turn, which every card names.
    turn: TurnId,
    open: Vec<Card>,
    /// The number of cards that have been announced.
    announced: usize,
    /// Whether outputs may go out: all calls of the round were announced, and no text goes on.
    takes_outputs: bool,
    next_index: u64,
}

#[derive(Clone, Debug)]
struct Card {
    /// The call's place in its round.
    slot: usize,
    id: CardId,
    /// Of the call; the output has the next one.
    index: u64,
    /// The id that the model or we gave the call, which tells it from others that run.
    call_id: Arc<str>,
    tool: Arc<str>,
    /// The main argument.
    headline: Arc<str>,
    arguments: Arc<str>,
    /// The end of what the call has printed so far, or the steps of its agent.
    running: RunningText,
    state: CardState,
}

#[derive(Clone, Debug)]
enum CardState {
    /// The model writes the call, or it waits.
    Preparing,
    Executing,
    /// It has ended, and its output waits for its moment.
    Ended {
        output: Arc<str>,
        failed: bool,
    },
}

impl Cards {
    pub(super) fn new(turn: TurnId) -> Self {
        Self { turn, open: Vec::new(), announced: 0, takes_outputs: false, next_index: FIRST_INDEX }
    }

    /// What this event changes on the cards.
    pub(super) fn on(&mut self, event: &TurnEvent) -> Vec<Item> {
        match event {
            TurnEvent::CallBegan(began) => vec![self.began(began)],
            TurnEvent::ToolStarted(start) => vec![self.started(start)],
            TurnEvent::ToolProgress(line) => self.printed(line),
            TurnEvent::Agent(report) => self.agent_step(report),
            TurnEvent::ToolEnded(end) => self.ended(end),
            TurnEvent::CallsComplete => {
                self.takes_outputs = true;
                self.flush()
            }
            TurnEvent::RoundStarted(_) => self.close(Closing::Round),
            TurnEvent::Text(_) | TurnEvent::Raw(_) => {
                self.takes_outputs = false;
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Closes all that are open.
    pub(super) fn close(&mut self, why: Closing) -> Vec<Item> {
        for card in &mut self.open {
            let (note, failed) = match (&card.state, why) {
                (CardState::Ended { .. }, _) => continue,
                (CardState::Executing, Closing::Round | Closing::Failure) => (INTERRUPTED, true),
                (CardState::Preparing, Closing::Round | Closing::Failure) => (DID_NOT_RUN, true),
                // A tick would say that it is done, and a card must not stay open.
                (_, Closing::Waiting) => (WAITS, true),
            };
            card.state = CardState::Ended { output: note.into(), failed };
        }
        self.takes_outputs = false;
        self.flush()
    }

    fn began(&mut self, began: &CallBegan) -> Item {
        // The model may have been asked again, and its first attempt's call stays unfinished.
        let position = self.open_call(began.slot).unwrap_or_else(|| self.announce(began.slot));
        let card = &mut self.open[position];
        card.tool = began.tool.as_str().into();
        card.state = CardState::Preparing;
        card.call()
    }

    fn started(&mut self, start: &ToolStart) -> Item {
        let position = self.open_call(start.slot).unwrap_or_else(|| self.announce(start.slot));
        let card = &mut self.open[position];
        card.call_id = start.call_id.as_str().into();
        card.tool = start.tool.as_str().into();
        card.headline = start.headline.as_str().into();
        card.arguments = arguments(start).into();
        card.state = CardState::Executing;
        card.call()
    }

    /// Shows what a running call has printed. The card's output cannot: with one, a frontend takes
    /// the call for finished.
    fn printed(&mut self, line: &ToolLine) -> Vec<Item> {
        let Some(card) = self.executing(&line.call_id) else { return Vec::new() };
        card.running.tell(&line.told);
        vec![card.call()]
    }

    /// Shows what the agent of a running call does.
    fn agent_step(&mut self, report: &AgentReport) -> Vec<Item> {
        let Some(card) = self.executing(&report.call_id) else { return Vec::new() };
        if card.running.push_step(&report.event.step) { vec![card.call()] } else { Vec::new() }
    }

    fn executing(&mut self, call_id: &str) -> Option<&mut Card> {
        let is_it = |card: &&mut Card| {
            &*card.call_id == call_id && matches!(card.state, CardState::Executing)
        };
        self.open.iter_mut().find(is_it)
    }

    fn ended(&mut self, end: &ToolEnd) -> Vec<Item> {
        let mut items = Vec::new();
        let position = self.open_call(end.slot).unwrap_or_else(|| {
            let position = self.announce(end.slot);
            self.open[position].tool = end.tool.as_str().into();
            self.open[position].headline = end.headline.as_str().into();
            items.push(self.open[position].call());
            position
        });
        let output = output(end).into();
        self.open[position].state = CardState::Ended { output, failed: end.error.is_some() };
        if self.takes_outputs {
            items.extend(self.flush());
        }
        items
    }

    /// The card of a call that has not ended.
    fn open_call(&self, slot: usize) -> Option<usize> {
        let is_open = |card: &Card| !matches!(card.state, CardState::Ended { .. });
        self.open.iter().position(|card| card.slot == slot && is_open(card))
    }

    fn announce(&mut self, slot: usize) -> usize {
        let index = self.next_index;
        self.next_index += 2;
        self.open.push(Card {
            slot,
            id: CardId::of_turn(&self.turn, self.announced),
            index,
            call_id: "".into(),
            tool: "".into(),
            headline: "".into(),
            arguments: NO_ARGUMENTS.into(),
            running: RunningText::default(),
            state: CardState::Preparing,
        });
        self.announced += 1;
        self.open.len() - 1
    }

    /// Shows the outputs that wait, and forgets their cards.
    fn flush(&mut self) -> Vec<Item> {
        let (ended, open) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|card| matches!(card.state, CardState::Ended { .. }));
        self.open = open;
        let ended: Vec<Card> = ended;
        ended.iter().flat_map(|card| [card.call(), card.output()]).collect()
    }
}

/// The arguments of a call that none are known of.
const NO_ARGUMENTS: &str = "{}";

impl Card {
    fn call(&self) -> Item {
        let status = match self.state {
            CardState::Preparing => "in_progress",
            CardState::Executing | CardState::Ended { failed: false, .. } => "completed",
            CardState::Ended { failed: true, .. } => "failed",
        };
        let item = json!({
            "type": "function_call",
            "id": format!("fc_{}", self.id),
            "call_id": self.id.as_str(),
            "name": self.name(),
            "arguments": self.input(),
            // What the frontend sends back: a name that every provider takes.
            "provider_function": { "name": &*self.tool, "arguments": &*self.arguments },
            "status": status,
        });
        Item { output_index: self.index, item }
    }

    /// The tool, its main argument, and what its agent does now.
    fn name(&self) -> String {
        let name = progress_lines::subject(&self.tool, &self.headline);
        match (&self.state, self.running.step()) {
            (CardState::Executing, Some(step)) => format!("{name} · {step}"),
            _ => name,
        }
    }

    /// The text under the card's heading "Input": the arguments, or something that people rather
    /// read.
    fn input(&self) -> String {
        if let Some(todos) = todos(&self.arguments).filter(|todos| !todos.is_empty()) {
            return checklist(&todos);
        }
        match (&self.state, self.running.text()) {
            (CardState::Executing, Some(text)) => format!("{}\n\n{text}", self.heading()),
            _ => (*self.arguments).to_owned(),
        }
    }

    /// A line that names what runs, which no frontend takes for JSON.
    fn heading(&self) -> String {
        let arguments = serde_json::from_str::<Value>(&self.arguments).unwrap_or_default();
        match arguments["command"].as_str() {
            Some(command) => format!("$ {command}"),
            None => format!("{}:", progress_lines::subject(&self.tool, &self.headline)),
        }
    }

    fn output(&self) -> Item {
        let (text, failed) = match &self.state {
            CardState::Ended { output, failed } => (&**output, *failed),
            CardState::Preparing | CardState::Executing => ("", false),
        };
        let item = json!({
            "type": "function_call_output",
            "id": format!("fco_{}", self.id),
            "call_id": self.id.as_str(),
            // A text in place of the list would break the chat for good.
            "output": [{ "type": "input_text", "text": text }],
            "status": if failed { "failed" } else { "completed" },
        });
        Item { output_index: self.index + 1, item }
    }
}

/// The todo list in the arguments of a call that writes one.
fn todos(arguments: &str) -> Option<Vec<Todo>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Arguments {
        todos: Vec<Todo>,
    }
    let is_possible = arguments.contains("\"todos\"");
    let arguments: Arguments = is_possible.then(|| serde_json::from_str(arguments).ok())??;
    Some(arguments.todos)
}

/// The arguments, or the main one alone where they are too long or not kept.
fn arguments(start: &ToolStart) -> String {
    let main = start.headline.as_str();
    match &start.arguments {
        Some(arguments) => arguments.clone(),
        None if main.is_empty() => NO_ARGUMENTS.to_owned(),
        None => json!({ "argument": main }).to_string(),
    }
}

fn output(end: &ToolEnd) -> String {
    let text = end.text.as_ref().or(end.error.as_ref());
    let Some(text) = text else { return NOT_KEPT.to_owned() };
    let chars = end.chars.max(text.chars().count());
    if chars <= MAX_OUTPUT {
        return text.clone();
    }
    let note = format!("\n… ({chars} characters in all; the model got more than is shown here)");
    let shown = MAX_OUTPUT - note.chars().count();
    text.chars().take(shown).chain(note.chars()).collect()
}

#[cfg(test)]
mod tests;
