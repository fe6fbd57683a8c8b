//! Puts a client's list and the record of what really happened together: the transcript before a
//! turn, and how the turn begins.

mod beginning;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;
use serde_json::{Value, json};

use self::beginning::Start;
pub(crate) use self::beginning::{may_answer, names_code_of};
use super::address::{Chain, ListEnd};
use super::alignment::{Alignment, Group, groups};
use super::message::{ClientMessage, Role};
use super::pairs::{self, Draft};
use super::record::SentMessage;
use super::search::Found;
use super::transcript::{self, Step};
use crate::agent::beginning::{Beginning, HistoryPiece};
use crate::agent::record::{Compacted, INTERRUPTED_HERE, RecordedRound};
use crate::errors::ApiError;
use crate::ids::TurnId;
use crate::json::{self, Object};
use crate::store::rows::TurnStatus;

/// What a turn is made of.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) messages: Vec<ClientMessage>,
    pub(crate) found: Found,
    /// Whether asks of the path's last turn were decided over REST.
    pub(crate) is_decided: bool,
    /// Whether the request is of the session in which the path's last turn asked.
    pub(crate) may_reply: bool,
    /// Whether the whole path goes in front of the client's messages.
    pub(crate) server_history: bool,
}

#[derive(Debug)]
pub(crate) enum Outcome {
    /// The answer is empty, with `stop`: a frontend has sent its cards back, or asks to
    /// continue at an open question.
    NothingToDo,
    Turn(Box<Assembled>),
}

#[derive(Debug)]
pub(crate) struct Assembled {
    pub(crate) pieces: Vec<HistoryPiece>,
    /// A [`Beginning::Resume`] has no decisions yet.
    pub(crate) beginning: Beginning,
    /// What the client answered to the asks of the open round.
    pub(crate) reply: Option<Reply>,
    pub(crate) parent: Option<TurnId>,
    /// As in `TurnBody`.
    pub(crate) instructions: Option<Vec<String>>,
    /// The user messages of the new turn (`TurnBody`).
    pub(crate) user_messages: Vec<SentMessage>,
    pub(crate) continues: bool,
    pub(crate) resumes: bool,
    /// The text of earlier turns that the client shows in one message with this one's.
    pub(crate) shown_before: String,
}

/// A person's reply to a question of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// The turn that asked.
    pub(crate) turn: TurnId,
    pub(crate) said: ReplyForm,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReplyForm {
    /// A user message.
    Message {
        /// The whole text, as it came.
        words: String,
        /// Whether it follows the question in the list.
        is_behind_question: bool,
    },
    /// The contents of the answers to the client's own calls by which we asked, each with its
    /// place in `OpenRound::asked_by`.
    Answers(Vec<(usize, String)>),
}

/// The transcript, as it grows.
#[derive(Debug, Default)]
struct Transcript {
    drafts: Vec<Draft>,
    /// How many instructions the list begins with.
    leading: usize,
    /// Whether it ends with answers of a record of ours.
    ends_with_tool: bool,
    /// Whether all before it is as it was when it was recorded.
    is_unchanged: bool,
}

/// Assembles the transcript of a request whose list has this chain.
pub(crate) fn assemble(chain: &Chain, request: Request) -> Result<Outcome, ApiError> {
    if chain.end == ListEnd::CardAnswers {
        return Ok(Outcome::NothingToDo);
    }
    let Some(start) = beginning::start(chain, &request)? else {
        return Ok(Outcome::NothingToDo);
    };
    let Request { messages, found, server_history, .. } = request;
    let alignment = Alignment::new(&found.path, chain, found.links, found.users);
    let mut transcript = Transcript { is_unchanged: true, ..Transcript::default() };
    let mut before = if server_history { groups(&found.path) } else { Vec::new() };
    // What the list shows is written with it.
    before.truncate(before.len().saturating_sub(alignment.behind.len() + alignment.links.len()));
    let user_messages = start.user_messages(chain, &messages, &found);
    let instructions = instructions(&messages, &found);
    let answers = client_answers(chain, &messages, &alignment);
    let known = known_calls(&found);
    let list = List {
        chain,
        alignment,
        answers,
        start: &start,
        user_messages: &user_messages,
        found: &found,
        recorded_ids: &known,
        own_ids: call_ids(&messages),
    };
    list.write(messages, &before, &mut transcript);
    let pieces = if transcript.drafts.is_empty() && start.is_resume() {
        Vec::new()
    } else {
        pairs::repair(transcript.drafts, |id| known.contains(id))?
    };
    Ok(Outcome::Turn(Box::new(start.finish(chain, pieces, (instructions, user_messages), &found))))
}

/// The instructions that the list begins with, if no turn of the path has recorded the same.
fn instructions(messages: &[ClientMessage], found: &Found) -> Option<Vec<String>> {
    let leading = messages.iter().take_while(|message| message.role == Role::Instruction);
    let leading: Vec<String> = leading.map(|message| message.json.get().to_owned()).collect();
    let is_new = recorded_instructions(found) != Some(leading.as_slice());
    (is_new && !leading.is_empty()).then_some(leading)
}

/// The instructions that the client sent last on this path.
fn recorded_instructions(found: &Found) -> Option<&[String]> {
    found.path.iter().rev().find_map(|turn| turn.body.instructions.as_deref())
}

/// The ids of the calls that clients were sent.
fn known_calls(found: &Found) -> HashSet<&str> {
    let turns = found.path.iter().chain(&found.attempts);
    let ends = turns.filter_map(|turn| turn.end());
    let calls = ends.flat_map(|end| &end.client_calls);
    calls.filter_map(|call| call["id"].as_str()).collect()
}

/// The ids of the calls in the client's list.
fn call_ids(messages: &[ClientMessage]) -> HashSet<Box<str>> {
    messages.iter().flat_map(|message| &message.calls).map(|call| call.id.clone()).collect()
}

/// Tool messages by their ids.
type Answers = HashMap<String, Value>;

/// The tool messages of the links that a record with an open round stands for. Of several with
/// one id the first counts.
fn client_answers(
    chain: &Chain,
    messages: &[ClientMessage],
    alignment: &Alignment<'_>,
) -> HashMap<usize, Answers> {
    let is_open = |group: &Group<'_>| group.last().is_some_and(|turn| turn.open().is_some());
    let links = alignment.links.iter().filter(|(_, group)| is_open(group));
    let answers = links.map(|(link, _)| {
        let mut answers = Answers::new();
        for message in &messages[chain.links[*link].range.clone()] {
            if let Some(id) = message.answers.as_deref()
                && let Ok(json) = serde_json::from_str(message.json.get())
            {
                answers.entry(id.to_owned()).or_insert(json);
            }
        }
        (*link, answers)
    });
    answers.collect()
}

/// The client's list with its records.
struct List<'a> {
    chain: &'a Chain,
    alignment: Alignment<'a>,
    answers: HashMap<usize, Answers>,
    start: &'a Start,
    /// The new turn's user messages by their place in the list.
    user_messages: &'a [(usize, SentMessage)],
    found: &'a Found,
    /// The ids of the calls that clients were sent.
    recorded_ids: &'a HashSet<&'a str>,
    /// The ids of the calls in the list itself.
    own_ids: HashSet<Box<str>>,
}

impl List<'_> {
    fn write(&self, messages: Vec<ClientMessage>, before: &[Group<'_>], out: &mut Transcript) {
        let is_instruction = |message: &&ClientMessage| message.role == Role::Instruction;
        let leading = messages.iter().take_while(is_instruction).count();
        out.leading = leading;
        let count = messages.len();
        let (mut link, mut skipped) = (0, None);
        for (at, message) in messages.into_iter().enumerate() {
            if at == leading {
                self.write_before(before, out);
            }
            while self.chain.links.get(link).is_some_and(|known| *known.range.end() < at) {
                link += 1;
            }
            if self.chain.links.get(link).is_some_and(|known| *known.range.start() == at) {
                skipped = self.spliced(link).map(|group| {
                    self.write_group(group, Some(link), out);
                    *self.chain.links[link].range.end()
                });
                out.is_unchanged &= skipped.is_some();
            }
            match message.role {
                Role::User => self.write_user(at, message, out),
                Role::Instruction => out.drafts.push(Draft::Client(message)),
                // The answer to a call that nobody knows is refused below.
                _ if skipped.is_some_and(|end| at <= end) && !self.is_stray(&message) => {}
                _ => out.push_client(message),
            }
            if let Some(group) = self.alignment.behind.get(&at) {
                self.write_group(*group, None, out);
            }
        }
        if leading == count {
            self.write_before(before, out);
        }
    }

    /// Whether the message answers a call that neither the list nor a record has.
    fn is_stray(&self, message: &ClientMessage) -> bool {
        let Some(id) = message.answers.as_deref() else { return false };
        !message.answers_card() && !self.recorded_ids.contains(id) && !self.own_ids.contains(id)
    }

    /// The record of a link, unless the client keeps the hidden messages itself.
    fn spliced(&self, link: usize) -> Option<Group<'_>> {
        let group = self.alignment.links.get(&link).copied()?;
        let is_last = link + 1 == self.chain.links.len();
        let is_open = is_last && group.next.is_none() && self.start.is_resume();
        let has_answers = is_last && self.chain.end == ListEnd::Answers;
        // The round that was open behind our question stands before this link already.
        let first = group.turns.first();
        let closes_before = first.is_some_and(|turn| turn.body.resumes && !turn.body.continues);
        let is_kept = (self.chain.links[link].has_hidden_calls && !closes_before) || has_answers;
        (is_open || !is_kept).then_some(group)
    }

    /// The newest branch, for a client that sends only what is new. Instructions that it sends
    /// stand for the earlier ones.
    fn write_before(&self, groups: &[Group<'_>], out: &mut Transcript) {
        if !groups.is_empty() && out.leading == 0 {
            let earlier = recorded_instructions(self.found).unwrap_or_default();
            let earlier = earlier.iter().map(|message| Draft::Known(client_piece(message)));
            out.drafts.extend(earlier);
            out.leading = out.drafts.len();
        }
        for group in groups {
            for sent in group.turns.iter().flat_map(|turn| &turn.body.user_messages) {
                if !sent.sent.is_empty() {
                    out.push_user(Draft::Known(client_piece(&sent.sent)));
                }
            }
            self.write_group(*group, None, out);
        }
    }

    fn write_user(&self, at: usize, message: ClientMessage, out: &mut Transcript) {
        if let Ok(own) = self.user_messages.binary_search_by_key(&at, |(index, _)| *index) {
            let (_, own) = &self.user_messages[own];
            // The beginning has the user messages that do not stand in front of the turn.
            if self.start.keeps_users() || own.sent.is_empty() {
                return;
            }
            let is_unchanged = *own.sent == *message.json.get();
            let piece = if is_unchanged {
                HistoryPiece::Client(message.json)
            } else {
                client_piece(&own.sent)
            };
            out.push_user(Draft::Known(piece));
            return;
        }
        match self.alignment.sent.get(&at) {
            Some(sent) if sent.sent.is_empty() => {}
            Some(sent) if *sent.sent == *message.json.get() => {
                out.push_user(Draft::Known(HistoryPiece::Client(message.json)));
            }
            Some(sent) if has_same_parts(&message.json, &sent.sent) => {
                out.push_user(Draft::Known(client_piece(&sent.sent)));
            }
            _ => {
                out.is_unchanged = false;
                out.push_user(Draft::Client(message));
            }
        }
    }

    /// What really happened. The link is the client's face of it, where there is one.
    fn write_group(&self, group: Group<'_>, link: Option<usize>, out: &mut Transcript) {
        let mut steps = transcript::steps(group.turns, group.next.map(|next| &**next));
        if group.next.is_none() {
            steps = self.start.cut(steps);
        }
        for step in steps {
            match step {
                Step::Round(round) => out.push_round(round),
                Step::Compacted(compacted) => out.compact(compacted),
            }
        }
        if let Some(unrecorded) = link.and_then(|link| self.unrecorded(group, link)) {
            let message = json!({ "role": "assistant", "content": unrecorded });
            out.drafts.push(Draft::Known(client_piece(&message.to_string())));
            out.ends_with_tool = false;
        }
        let Some(open) = group.last().and_then(|turn| turn.open()) else { return };
        // The next turn has closed it, or has left it open in its turn: it asked again, or asked
        // about the next of its calls.
        let next = group.next.map(|next| &**next).filter(|next| next.body.resumes);
        let is_closed =
            next.is_some_and(|next| transcript::has_closed_round(next) || next.open().is_some());
        let is_last = group.next.is_none();
        if is_closed || (is_last && self.start.is_resume()) {
            return;
        }
        let attempts = if is_last { self.found.attempts.as_slice() } else { &[] };
        let attempts = group.next.map_or(attempts, std::slice::from_ref);
        let answers = link.and_then(|link| self.answers.get(&link));
        let shown = |id: &str| answers.and_then(|answers| answers.get(id).cloned());
        let answer =
            |id: &str| shown(id).or_else(|| transcript::recorded_answer(open, attempts, id));
        out.push_round(transcript::closed(&transcript::settled(open, attempts), answer));
    }

    /// What the client shows of a turn that has crashed or still runs, and the record does not have.
    fn unrecorded(&self, group: Group<'_>, link: usize) -> Option<String> {
        let turn = group.last().filter(|turn| turn.end().is_none())?;
        let may_show_more = turn.row.status == TurnStatus::Crashed || turn.delivery().goes_on();
        may_show_more.then_some(())?;
        let shown = &self.chain.links[link].text;
        let rest = super::canonical::behind(shown, &group.recorded_text()).trim();
        (!rest.is_empty()).then(|| rest.to_owned())
    }
}

impl Transcript {
    fn push_round(&mut self, round: RecordedRound) {
        self.ends_with_tool = transcript::ends_with_tool(&round);
        self.drafts.push(Draft::Known(HistoryPiece::Recorded(round)));
    }

    /// A user message must not stand directly behind tool answers of ours.
    fn push_user(&mut self, draft: Draft) {
        if std::mem::take(&mut self.ends_with_tool) {
            self.drafts.push(Draft::Known(interrupted_here()));
        }
        self.drafts.push(draft);
    }

    /// Cards are dropped where nothing is known of them.
    fn push_client(&mut self, message: ClientMessage) {
        if !message.answers_card()
            && let Some(message) = beginning::without_cards(message)
        {
            self.ends_with_tool = false;
            self.drafts.push(Draft::Client(message));
        }
    }

    /// Whether the compacted form has the instructions that stand between the other messages.
    fn has_all_instructions(&self, compacted: &Compacted) -> bool {
        self.drafts.iter().skip(self.leading).all(|draft| match draft {
            Draft::Client(message) if message.role == Role::Instruction => {
                compacted.rounds.iter().any(|round| round.messages.contains(message.json.get()))
            }
            _ => true,
        })
    }

    /// The compacted form stands for all that was before, if that is still the same.
    fn compact(&mut self, compacted: Compacted) {
        if self.is_unchanged && self.has_all_instructions(&compacted) {
            self.drafts.truncate(self.leading);
            compacted.rounds.into_iter().for_each(|round| self.push_round(round));
        }
    }
}

/// An assistant message of ours between tool answers and the user's words.
fn interrupted_here() -> HistoryPiece {
    let message = json!({ "role": "assistant", "content": INTERRUPTED_HERE });
    client_piece(&message.to_string())
}

fn client_piece(message: &str) -> HistoryPiece {
    HistoryPiece::Client(json::raw(message.to_owned()))
}

/// Whether both messages have the same parts beside text: pictures, files.
fn has_same_parts(one: &RawValue, sent: &str) -> bool {
    let parts = |message: &str| -> Vec<Value> {
        let content = Object::parse(message).and_then(|message| message.get("content"));
        let items = content.and_then(|content| json::items(content, usize::MAX - 1));
        let values = items.unwrap_or_default().into_iter().filter_map(|part| {
            let is_text = Object::from_raw(part)?.string("type").as_deref() == Some("text");
            if is_text { None } else { serde_json::from_str(part.get()).ok() }
        });
        values.collect()
    };
    parts(one.get()) == parts(sent)
}
