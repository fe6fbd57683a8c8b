//! Decides how a turn begins: with a question to the model, with the round that an earlier turn
//! left open, or with an answer to go on with.

use std::collections::HashMap;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Assembled, Reply, ReplyForm, Request};
use crate::agent::asking::question_text;
use crate::agent::asking::reply::{is_bare_choice, names_code};
use crate::agent::beginning::{Beginning, HistoryPiece, Resume};
use crate::agent::notes::{with_note, with_note_behind};
use crate::agent::record::{OpenCall, OpenRound};
use crate::errors::ApiError;
use crate::json::{self, Object};
use crate::sessions::address::{Chain, Link, ListEnd, User};
use crate::sessions::alignment::groups;
use crate::sessions::canonical;
use crate::sessions::message::{CallOf, ClientMessage, Role};
use crate::sessions::pairs;
use crate::sessions::record::{SentMessage, TurnRecord};
use crate::sessions::search::Found;
use crate::sessions::transcript::{self, Step};

/// How a turn begins.
#[derive(Debug)]
pub(super) struct Start {
    way: Way,
    /// What attempts at the same request have done, or that the turn before has not ended.
    note: Option<String>,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one of it for each request")]
enum Way {
    Ask,
    /// With the text of the client's last link, if it is shorter than ours.
    Continue {
        shown: String,
    },
    Resume {
        open: OpenRound,
        answers: Vec<Option<Box<RawValue>>>,
        reply: Option<Reply>,
        users: Users,
    },
}

/// What becomes of the user messages behind an open round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Users {
    /// They reply to a question of ours, and never go upstream.
    Reply,
    /// They follow the closed round.
    Follow,
}

/// How the turn begins; `None` if there is nothing to do.
pub(super) fn start(chain: &Chain, request: &Request) -> Result<Option<Start>, ApiError> {
    let Found { attempts, path, .. } = &request.found;
    let note = transcript::note(attempts).or_else(|| transcript::note_of_last(path));
    Ok(way(chain, request)?.map(|way| Start { way, note }))
}

fn way(chain: &Chain, request: &Request) -> Result<Option<Way>, ApiError> {
    let Request { messages, found, is_decided, may_reply, server_history } = request;
    let is_behind = found.links == chain.links.len() && found.users == 0;
    // What does not stand in the list is not answered by it. A decision over REST needs no list.
    let names_code = || found.path.last().is_some_and(|last| names_code_of(chain, last));
    let is_shown = found.links > 0 || *server_history || *is_decided || names_code();
    // An ambiguous list resumes nothing: its open round may be another person's.
    let is_known = is_behind && is_shown && found.session.is_some();
    let Some(last) = found.path.last().filter(|_| is_known) else { return Ok(Some(Way::Ask)) };
    let Some(open) = last.open() else {
        let continues = ends_with_answer(chain, messages);
        let shown = || chain.links.last().map(|link| link.text.clone()).unwrap_or_default();
        return Ok(Some(if continues { Way::Continue { shown: shown() } } else { Way::Ask }));
    };
    let settled = transcript::settled(open, &found.attempts);
    let was_asked = !open.asked.is_empty();
    if was_asked && !may_reply {
        return Ok(Some(Way::Ask));
    }
    let resume = |answers, said: Option<ReplyForm>, users| {
        let said = said.filter(|_| !settled.asked.is_empty());
        let reply = said.map(|said| Reply { turn: last.row.id.clone(), said });
        Ok(Some(Way::Resume { open: settled.clone(), answers, reply, users }))
    };
    let no_answers = || vec![None; open.calls.len()];
    if chain.end == ListEnd::User
        && let Some(said) = dialog_answers(open, chain, messages)
    {
        // The person has answered there: the words behind it are no reply.
        return resume(no_answers(), Some(ReplyForm::Answers(said)), Users::Follow);
    }
    match (chain.end, chain.last_users()) {
        (ListEnd::Answers, _) if !has_calls_of(open, chain) => Ok(Some(Way::Ask)),
        (ListEnd::Answers, _) => {
            let answers = answers_to(open, chain, messages);
            let (answers, asked_by) = complete(open, &answers)?;
            resume(answers, asked_by.map(ReplyForm::Answers), Users::Follow)
        }
        _ if *is_decided && was_asked => resume(no_answers(), None, Users::Follow),
        (ListEnd::Assistant, _) if was_asked => Ok(None),
        (ListEnd::User, [_]) if was_asked && may_answer(chain, last, *server_history) => {
            let words = chain.reply().unwrap_or_default().to_owned();
            let is_behind_question = shows_question(chain, last);
            let said = ReplyForm::Message { words, is_behind_question };
            resume(no_answers(), Some(said), Users::Reply)
        }
        _ => Ok(Some(Way::Ask)),
    }
}

/// Whether the list ends with the text of our last answer, and asks to go on with it.
fn ends_with_answer(chain: &Chain, messages: &[ClientMessage]) -> bool {
    let Some(link) = chain.links.last().filter(|_| chain.last_users().is_empty()) else {
        return false;
    };
    let shown = messages[link.range.clone()].iter().rev();
    let newest = shown
        .filter(|message| message.role != Role::Instruction)
        .find(|message| !message.calls.is_empty() || !canonical::said(&message.text()).is_empty());
    chain.end == ListEnd::Assistant
        && newest.is_some_and(|newest| newest.calls.iter().all(|call| call.of == CallOf::Card))
}

/// Whether the list's only message behind its last answer is for the person's question, rather
/// than for the model: it follows the question, or names the code of what was asked, or is a bare
/// choice where the question is not shown. Where the server keeps the history, any message is.
pub(crate) fn may_answer(chain: &Chain, asking: &TurnRecord, server_history: bool) -> bool {
    if !asking.has_asked() {
        return false;
    }
    let Some(words) = chain.reply() else { return false };
    let asked = asking.open().map_or(&[][..], |open| &open.asked);
    (server_history && chain.links.is_empty())
        || shows_question(chain, asking)
        || names_code_of(chain, asking)
        || (!chain.links.is_empty() && is_bare_choice(asked, words))
}

/// Whether the person can have seen all that was asked: the beginning of an answer is enough to
/// go on from it, but not to consent to what it does not show.
fn shows_question(chain: &Chain, asking: &TurnRecord) -> bool {
    question_text::shows(chain.last_message(), &asking.question())
}

/// Whether the reply names the code of what the turn asked.
pub(crate) fn names_code_of(chain: &Chain, asking: &TurnRecord) -> bool {
    let asked = asking.open().map_or(&[][..], |open| &open.asked);
    chain.reply().is_some_and(|words| names_code(asked, words))
}

/// What the client shows in one message with what this turn says. Of an answer that is known,
/// what we sent, without what a frontend adds to it.
fn shown_before(chain: &Chain, found: &Found) -> String {
    if !chain.last_users().is_empty() {
        return String::new();
    }
    let is_behind = found.links == chain.links.len() && found.users == 0;
    if !is_behind {
        return chain.last_shown().to_owned();
    }
    let groups = groups(&found.path);
    let Some(last) = groups.last() else {
        return chain.last_shown().to_owned();
    };
    let is_same = |link: &Link| canonical::is_same(&link.text, &last.said());
    if !chain.links.last().is_none_or(is_same) {
        return chain.last_shown().to_owned();
    }
    let texts: Vec<_> = last.turns.iter().map(|turn| turn.said()).collect();
    texts.join("\n\n")
}

/// What the client's own tools answered to our questions, if all of them did.
fn dialog_answers(
    open: &OpenRound,
    chain: &Chain,
    messages: &[ClientMessage],
) -> Option<Vec<(usize, String)>> {
    let answers = answers_to(open, chain, messages);
    let said = open.asked_by.iter().enumerate().map(|(at, asking)| {
        let answer = answers.get(asking.id.as_str())?;
        Some((at, answer.said().whole()))
    });
    said.collect::<Option<Vec<_>>>().filter(|said| !said.is_empty())
}

/// The client's answers to the calls of the last link, by id, wherever they stand behind it. A
/// client that leaves the history to the server sends them alone.
fn answers_to<'a>(
    open: &OpenRound,
    chain: &Chain,
    messages: &'a [ClientMessage],
) -> HashMap<&'a str, &'a ClientMessage> {
    let start = chain.links.last().map_or(0, |link| *link.range.start());
    let behind = &messages[start..];
    let mut answers = HashMap::new();
    for id in client_ids(open) {
        // An id may have been used before: the round's own call is the last one. The calls of
        // one round may stand in several messages.
        let has_call = |message: &ClientMessage| message.calls.iter().any(|call| *call.id == *id);
        let own = &behind[behind.iter().rposition(has_call).unwrap_or(0)..];
        let answer = own.iter().find(|message| message.answers.as_deref() == Some(id));
        if let Some((answer, id)) =
            answer.and_then(|answer| Some((answer, answer.answers.as_deref()?)))
        {
            answers.insert(id, answer);
        }
    }
    answers
}

/// Whether the list shows a call of the round. One that shows other calls alone is of another
/// answer, and has no answers for this round. A list of answers alone shows none.
fn has_calls_of(open: &OpenRound, chain: &Chain) -> bool {
    let Some(link) = chain.links.last().filter(|link| !link.call_ids.is_empty()) else {
        return true;
    };
    client_ids(open).any(|id| link.call_ids.iter().any(|shown| **shown == *id))
}

/// The ids under which the client was sent calls of the round.
fn client_ids(open: &OpenRound) -> impl Iterator<Item = &str> {
    let own = open.calls.iter().filter_map(|call| match call {
        OpenCall::Clients { id } => Some(id.as_str()),
        OpenCall::Answered { .. }
        | OpenCall::Given { .. }
        | OpenCall::Waiting
        | OpenCall::Suspended(_) => None,
    });
    own.chain(open.asked_by.iter().map(|asking| asking.id.as_str()))
}

type Complete = (Vec<Option<Box<RawValue>>>, Option<Vec<(usize, String)>>);

/// The client's answers in the order of the calls, and what it answered to our questions. Some
/// of them alone are an error.
fn complete(
    open: &OpenRound,
    answers: &HashMap<&str, &ClientMessage>,
) -> Result<Complete, ApiError> {
    let missing: Vec<&str> = client_ids(open).filter(|id| !answers.contains_key(id)).collect();
    if !missing.is_empty() {
        return Err(pairs::missing_results(&missing));
    }
    let own = open.calls.iter().map(|call| match call {
        OpenCall::Clients { id } => answers.get(id.as_str()).map(|answer| answer.json.clone()),
        OpenCall::Answered { .. }
        | OpenCall::Given { .. }
        | OpenCall::Waiting
        | OpenCall::Suspended(_) => None,
    });
    let replies: Vec<_> = open
        .asked_by
        .iter()
        .enumerate()
        .filter_map(|(at, asking)| Some((at, answers.get(asking.id.as_str())?.said().whole())))
        .collect();
    Ok((own.collect(), (!replies.is_empty()).then_some(replies)))
}

impl Start {
    pub(super) fn is_resume(&self) -> bool {
        matches!(self.way, Way::Resume { .. })
    }

    /// Whether the user messages of the new turn do not stand in front of it.
    pub(super) fn keeps_users(&self) -> bool {
        self.is_resume()
    }

    /// The steps of the last link, without what the client does not show of the answer that it
    /// wants continued: the new text begins where the client's ends.
    pub(super) fn cut(&self, mut steps: Vec<Step>) -> Vec<Step> {
        let Way::Continue { shown } = &self.way else { return steps };
        let texts: Vec<String> = steps.iter().map(text).collect();
        let said = texts.iter().map(|text| canonical::said(text)).collect::<String>();
        let Some(last) = texts.last() else { return steps };
        let hidden =
            canonical::solid(&said).count().saturating_sub(canonical::solid(shown).count());
        let kept = canonical::solid(last).count().saturating_sub(hidden);
        if hidden == 0 {
            return steps;
        }
        let Some(Step::Round(mut round)) = steps.pop() else { return steps };
        if kept > 0 && !transcript::ends_with_tool(&round) {
            let start: String = canonical::solid(last).take(kept).collect();
            let kept = &last[..last.len() - canonical::behind(last, &start).len()];
            round.messages = json!([{ "role": "assistant", "content": kept }]).to_string();
            steps.push(Step::Round(round));
        }
        steps
    }

    /// The user messages of the new turn, by their place in the list.
    pub(super) fn user_messages(
        &self,
        chain: &Chain,
        messages: &[ClientMessage],
        found: &Found,
    ) -> Vec<(usize, SentMessage)> {
        let is_behind = found.links == chain.links.len();
        let users = &chain.last_users()[if is_behind { found.users } else { 0 }..];
        let is_reply = matches!(self.way, Way::Resume { users: Users::Reply, .. });
        let sent = |(at, user): (usize, &User)| {
            let json = &messages[user.index].json;
            let sent = match &self.note {
                _ if is_reply => String::new(),
                Some(note) if at + 1 == users.len() => {
                    with_note_in_front(json, note).get().to_owned()
                }
                _ => json.get().to_owned(),
            };
            (user.index, SentMessage { words: user.words.clone(), sent })
        };
        users.iter().enumerate().map(sent).collect()
    }

    pub(super) fn finish(
        self,
        chain: &Chain,
        mut pieces: Vec<HistoryPiece>,
        (instructions, user_messages): (Option<Vec<String>>, Vec<(usize, SentMessage)>),
        found: &Found,
    ) -> Assembled {
        let user_messages: Vec<SentMessage> =
            user_messages.into_iter().map(|(_, sent)| sent).collect();
        let is_behind = found.links == chain.links.len() && found.users == 0;
        let continues = is_behind && !chain.links.is_empty() && chain.last_users().is_empty();
        let resumes = self.is_resume();
        let shown_before = shown_before(chain, found);
        let (beginning, reply) = match self.way {
            Way::Ask => (Beginning::Ask, None),
            Way::Continue { .. } => (Beginning::Continue { said: last_text(&pieces) }, None),
            Way::Resume { mut open, mut answers, reply, .. } => {
                let mut then = followers(&user_messages);
                if !then.is_empty() {
                    // New words begin another turn than the one that a hook has ended.
                    open.ends_with = None;
                }
                if let Some(note) = self.note.filter(|_| then.is_empty()) {
                    match answers.iter_mut().rev().flatten().next() {
                        Some(answer) => *answer = with_note_behind(answer, &note),
                        None => then = vec![user(&note)],
                    }
                }
                let resume = Resume { open, client_answers: answers, decisions: Vec::new(), then };
                (Beginning::Resume(Box::new(resume)), reply)
            }
        };
        pieces.shrink_to_fit();
        let parent = found.path.last().map(|turn| turn.row.id.clone());
        Assembled {
            pieces,
            beginning,
            reply,
            parent,
            instructions,
            user_messages,
            continues,
            resumes,
            shown_before,
        }
    }
}

/// The user messages that follow a closed round.
fn followers(users: &[SentMessage]) -> Vec<HistoryPiece> {
    let users = users.iter().filter(|sent| !sent.sent.is_empty());
    users.map(|sent| HistoryPiece::Client(json::raw(sent.sent.clone()))).collect()
}

fn user(text: &str) -> HistoryPiece {
    HistoryPiece::Client(json::raw(json!({ "role": "user", "content": text }).to_string()))
}

fn text(step: &Step) -> String {
    match step {
        Step::Round(round) => round.text(),
        Step::Compacted(_) => String::new(),
    }
}

/// What the assistant says at the end of the transcript.
fn last_text(pieces: &[HistoryPiece]) -> String {
    match pieces.last() {
        Some(HistoryPiece::Recorded(round)) => round.text(),
        Some(HistoryPiece::Client(message)) => {
            crate::openai::message::text_of(message).into_owned()
        }
        None => String::new(),
    }
}

/// What interrupted attempts have done stands in front of the user's text.
fn with_note_in_front(message: &RawValue, note: &str) -> Box<RawValue> {
    let add = |parts: &mut Vec<Value>, note| parts.insert(0, note);
    with_note(message, note, |text| format!("{note}\n\n{text}"), add)
}

/// The message without the cards in it; `None` if it says nothing else.
pub(super) fn without_cards(mut message: ClientMessage) -> Option<ClientMessage> {
    if message.calls.iter().all(|call| call.of != CallOf::Card) {
        return Some(message);
    }
    let object = Object::from_raw(&message.json).expect("it was read as one");
    let calls = object.get("tool_calls").and_then(|calls| json::items(calls, message.calls.len()));
    let kept: Vec<&RawValue> = calls
        .unwrap_or_default()
        .into_iter()
        .zip(&message.calls)
        .filter(|(_, call)| call.of != CallOf::Card)
        .map(|(json, _)| json)
        .collect();
    let calls = (!kept.is_empty()).then(|| json::array(&kept));
    let is_silent = kept.is_empty() && message.text().trim().is_empty();
    let json = object.with(&[("tool_calls", calls.as_deref())]);
    message.json = json;
    message.calls.retain(|call| call.of != CallOf::Card);
    (!is_silent).then_some(message)
}
