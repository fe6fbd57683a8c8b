//! Plays turns against a store in memory, and records them as the agent does.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::FutureExt as _;
use serde_json::{Value, json};

use super::super::{Assembled, Outcome, Request, assemble};
use crate::agent::asking::bare_choice::CodeRequirement;
use crate::agent::beginning::{Beginning, HistoryPiece};
use crate::agent::record::{
    Asked, AskingCall, End, Entry, OpenCall, OpenRound, Outcome as Ended, RecordedRound,
    RecordedSummary, ShownQuestion,
};
use crate::errors::ApiError;
use crate::execution::ask::{About, Ask};
use crate::ids::{ApprovalId, KeyId, Scope, SessionId, TurnId};
use crate::memory_budget::MemoryBudget;
use crate::sessions::address::Chain;
use crate::sessions::client_calls::call_digest;
use crate::sessions::known_turns::KnownTurns;
use crate::sessions::loading::Loading;
use crate::sessions::record::TurnBody;
use crate::sessions::search::{Found, Search};
use crate::sessions::test_support::{MemoryStore, client_messages};
use crate::sessions::transcript;
use crate::store::rows::{TurnRow, TurnStatus};

pub(super) fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

pub(super) fn system(text: &str) -> Value {
    json!({ "role": "system", "content": text })
}

pub(super) fn said(text: &str) -> Value {
    json!({ "role": "assistant", "content": text })
}

pub(super) fn answer(id: &str, text: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": text })
}

fn call(id: &str) -> Value {
    json!({ "id": id, "type": "function", "function": { "name": "f", "arguments": "{}" } })
}

pub(super) fn calls(text: &str, ids: &[&str]) -> Value {
    let calls: Vec<_> = ids.iter().map(|id| call(id)).collect();
    json!({ "role": "assistant", "content": text, "tool_calls": calls })
}

pub(super) fn round(messages: &Value) -> RecordedRound {
    RecordedRound { messages: messages.to_string(), model: "m".to_owned(), has_reasoning: false }
}

/// What a turn does.
#[derive(Clone, Debug)]
pub(super) struct Script {
    text: String,
    entries: Vec<Entry>,
    status: TurnStatus,
    open: Option<OpenRound>,
    client_calls: Vec<Value>,
}

impl Script {
    pub(super) fn of(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            entries: Vec::new(),
            status: TurnStatus::Finished,
            open: None,
            client_calls: Vec::new(),
        }
    }

    pub(super) fn crashed(entries: Vec<Entry>) -> Self {
        Self { entries, status: TurnStatus::Crashed, ..Self::of("") }
    }

    /// Before the text, a round with a call of the server.
    pub(super) fn calling(mut self, id: &str) -> Self {
        let messages = json!([calls("", &[id]), answer(id, &format!("result of {id}"))]);
        self.entries.push(Entry::Round(round(&messages)));
        self
    }

    pub(super) fn after(mut self, entry: Entry) -> Self {
        self.entries.insert(0, entry);
        self
    }

    pub(super) fn ending(mut self, status: TurnStatus) -> Self {
        self.status = status;
        self
    }

    /// Ends with client calls around one of the server's.
    pub(super) fn mixed(mut self, clients: &[&str], server: &str) -> Self {
        let mut ids: Vec<&str> = clients.to_vec();
        ids.insert(1, server);
        let open = |id: &&str| {
            if *id == server {
                OpenCall::Answered { answer: "kept".to_owned(), pictures: Vec::new() }
            } else {
                OpenCall::Clients { id: (*id).to_owned() }
            }
        };
        self.open = Some(OpenRound {
            message: calls(&self.text, &ids),
            model: "m".to_owned(),
            has_reasoning: false,
            calls: ids.iter().map(open).collect(),
            asked: Vec::new(),
            asked_by: Vec::new(),
            ends_with: None,
            question: None,
        });
        self.client_calls = clients.iter().map(|id| call(id)).collect();
        self
    }

    /// Ends with a question about a call of the server's.
    pub(super) fn asking(mut self, id: &str) -> Self {
        let asked = Asked {
            of_agent: None,
            id: ApprovalId::random(),
            code: "abcd".to_owned(),
            slot: 0,
            ask: Ask {
                tool: "f".to_owned(),
                headline: String::new(),
                about: About::Questions { questions: Vec::new() },
            },
            answered: Vec::new(),
            repeated: None,
            created_ms: 0,
            expires_ms: 0,
        };
        self.open = Some(OpenRound {
            message: calls("", &[id]),
            model: "m".to_owned(),
            has_reasoning: false,
            calls: vec![OpenCall::Waiting],
            asked: vec![asked],
            asked_by: Vec::new(),
            ends_with: None,
            question: Some(ShownQuestion::new(&self.text, CodeRequirement::Optional)),
        });
        self
    }

    /// A hook has ended the turn behind this round.
    pub(super) fn ended_by_a_hook(mut self) -> Self {
        self.open.as_mut().expect("a question").ends_with = Some("Enough.".to_owned());
        self
    }

    /// The question is a call of the client's own tool.
    pub(super) fn by(mut self, id: &str) -> Self {
        let tool = "ask_user".to_owned();
        let asking = AskingCall { id: id.to_owned(), tool, asks: vec![0] };
        self.open.as_mut().expect("a question").asked_by.push(asking);
        self.client_calls.push(call(id));
        self
    }
}

/// A turn that was played.
#[derive(Clone, Debug)]
pub(super) struct Played {
    pub(super) id: TurnId,
    pub(super) session: SessionId,
    pub(super) parent: Option<TurnId>,
    pub(super) resumes: bool,
    /// The messages of its first upstream request, and of the next one after its end.
    pub(super) before: String,
    pub(super) after: String,
}

impl Played {
    pub(super) fn begins_with(&self, earlier: &Self) -> bool {
        self.before.starts_with(&earlier.after)
    }

    pub(super) fn pieces(&self) -> Value {
        serde_json::from_str(&format!("[{}]", self.before)).expect("JSON")
    }
}

#[derive(Clone, Debug)]
pub(super) struct World {
    store: Arc<MemoryStore>,
    known: Arc<KnownTurns>,
    scope: Scope,
    named: Option<SessionId>,
    has_history: bool,
    time: RefCell<i64>,
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            store: Arc::default(),
            known: Arc::default(),
            scope: Scope::new(&KeyId::new("key"), None),
            named: None,
            has_history: false,
            time: RefCell::default(),
        }
    }

    pub(super) fn named(self) -> Self {
        Self { named: Some(SessionId::random()), ..self }
    }

    pub(super) fn with_history(&self) -> Self {
        Self { has_history: true, ..self.clone() }
    }

    pub(super) fn with_key(&self, key: &str) -> Self {
        Self { scope: Scope::new(&KeyId::new(key), None), ..self.clone() }
    }

    pub(super) fn forget(&self, session: &SessionId) {
        self.store.forget(session);
    }

    pub(super) fn lookups(&self) -> usize {
        self.store.lookups.load(Ordering::Relaxed)
    }

    fn chain(&self, list: &Value) -> Chain {
        Chain::new(&self.scope, &client_messages(list))
    }

    pub(super) fn search(&self, list: &Value) -> Found {
        let chain = self.chain(list);
        let loading = Loading::new(&MemoryBudget::new(usize::MAX));
        let (store, known) = (&*self.store, &*self.known);
        let (loading, unattended, scope, chain) = (&loading, &HashMap::new(), self.scope, &chain);
        let search = Search { store, known, loading, unattended, scope, chain };
        let found = async {
            match &self.named {
                Some(session) => search.in_session(session).await,
                None => search.by_content().await,
            }
        };
        found.now_or_never().expect("the store is in memory").expect("the store works")
    }

    fn request(&self, list: &Value, is_decided: bool) -> Result<Outcome, ApiError> {
        let found = self.search(list);
        let messages = client_messages(list);
        let server_history = self.has_history;
        assemble(
            &self.chain(list),
            Request { messages, found, is_decided, may_reply: true, server_history },
        )
    }

    pub(super) fn outcome(&self, list: &Value) -> Result<Outcome, ApiError> {
        self.request(list, false)
    }

    #[track_caller]
    pub(super) fn assembled(&self, list: &Value) -> Result<Assembled, ApiError> {
        match self.outcome(list)? {
            Outcome::Turn(assembled) => Ok(*assembled),
            Outcome::NothingToDo => panic!("nothing to do: {list}"),
        }
    }

    pub(super) fn decided(&self, list: &Value) -> Assembled {
        match self.request(list, true) {
            Ok(Outcome::Turn(assembled)) => *assembled,
            other => panic!("{other:?}"),
        }
    }

    /// Plays a turn and records it.
    #[track_caller]
    pub(super) fn turn(&self, list: &Value, script: Script) -> Played {
        let found = self.search(list);
        let own = self.named.clone().or(found.session).unwrap_or_else(SessionId::random);
        let assembled = self.assembled(list).unwrap_or_else(|error| panic!("{list}: {error:?}"));
        let before = written(&assembled.pieces);
        let mut entries = Vec::new();
        let mut answer = script.text.clone();
        let mut pieces = assembled.pieces.clone();
        match &assembled.beginning {
            Beginning::Ask => {}
            Beginning::Continue { said } => {
                answer = format!("{said}{answer}");
                pieces.pop();
            }
            Beginning::Resume(resume) => {
                let mut open = resume.open.clone();
                for call in &mut open.calls {
                    if *call == OpenCall::Waiting {
                        *call = OpenCall::Answered {
                            answer: "allowed".to_owned(),
                            pictures: Vec::new(),
                        };
                    }
                }
                let sent = |id: &str| {
                    let slot = open.calls.iter().position(
                        |call| matches!(call, OpenCall::Clients { id: own } if own == id),
                    )?;
                    serde_json::from_str(resume.client_answers[slot].as_ref()?.get()).ok()
                };
                let closed = transcript::closed(&open, sent);
                pieces.push(HistoryPiece::Recorded(closed.clone()));
                entries.push(Entry::Round(closed));
                pieces.extend(resume.then.iter().cloned());
            }
        }
        entries.extend(script.entries.iter().cloned());
        for entry in &script.entries {
            if let Entry::Round(round) = entry {
                pieces.push(HistoryPiece::Recorded(round.clone()));
            }
        }
        let is_open = script.open.is_some();
        let end = (!answer.is_empty() && !is_open).then(|| round(&json!([said(&answer)])));
        pieces.extend(end.clone().map(HistoryPiece::Recorded));
        let ids: Vec<String> = script
            .client_calls
            .iter()
            .map(|call| call["id"].as_str().unwrap().to_owned())
            .collect();
        let (depth, digests) = self.chain(list).tail().after(&script.text, &ids);
        let is_crashed = script.status == TurnStatus::Crashed;
        let calls = script.client_calls.iter().map(call_digest).collect();
        if !is_crashed {
            entries.push(Entry::End(Box::new(End {
                outcome: Ended::Finished { reason: "stop".to_owned() },
                last: end,
                open: script.open,
                said: script.text,
                client_calls: script.client_calls,
                summary: RecordedSummary::default(),
                tools_ran: true,
            })));
        }
        let body = TurnBody {
            model: "m".to_owned(),
            user_messages: assembled.user_messages,
            continues: assembled.continues,
            resumes: assembled.resumes,
            calls,
            ..TurnBody::default()
        };
        let row = TurnRow {
            id: TurnId::random(),
            session: own.clone(),
            parent: assembled.parent.clone(),
            status: script.status,
            started_ms: self.time.replace_with(|time| *time + 1),
            depth,
            digests: digests.filter(|_| !is_crashed),
            request: None,
            idempotency: None,
            body: serde_json::to_vec(&body).unwrap(),
        };
        self.store.add(self.scope, row.clone(), &entries);
        Played {
            id: row.id,
            session: own,
            parent: assembled.parent,
            resumes: assembled.resumes,
            before,
            after: written(&pieces),
        }
    }
}

/// The messages as they go upstream, with commas between them.
fn written(pieces: &[HistoryPiece]) -> String {
    let text = |piece: &HistoryPiece| match piece {
        HistoryPiece::Client(json) => json.get().to_owned(),
        HistoryPiece::Recorded(round) => {
            round.messages.trim_start_matches('[').trim_end_matches(']').to_owned()
        }
    };
    pieces.iter().map(text).collect::<Vec<_>>().join(",")
}
