//! Tests the REST routes over a store in memory.

use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::agent::asking::test_support::shown_effect;
use crate::agent::events::TurnEvent;
use crate::agent::record::{Asked, Entry};
use crate::clock;
use crate::execution::ask::{About, Ask, Decision, Question};
use crate::ids::{ApprovalId, KeyId, Scope, SessionId};
use crate::memory_budget::MemoryBudget;
use crate::permissions::{GrantHolder, Mode};
use crate::sessions::running::retold_samples;
use crate::sessions::running::{Position, Subscriber};
use crate::store::memory::{MemoryStore, samples};
use crate::store::rows::{
    ApprovalRow, Change, EntryRow, SessionName, SessionRow, TurnRow, TurnStatus,
};
use crate::store::{ApprovalKey, SessionKey};
use crate::tools::tasks::TaskLimits;

fn rest() -> (Rest, Arc<MemoryStore>) {
    let memory = MemoryStore::new();
    let store: Arc<dyn Store> = memory.clone();
    let running = Arc::new(Running::new(Arc::clone(&store)));
    let (memory_budget, tools) = (MemoryBudget::new(1 << 20), ToolCatalogue::default());
    let kept_grants = Arc::new(KeptGrants::new(Path::new("/nonexistent"), &[]));
    let tasks = Arc::new(AllTasks::new(TaskLimits { tasks: 8, agents: 4 }));
    let mode = Mode::Default;
    (Rest { store, running, tasks, memory_budget, tools, kept_grants, mode }, memory)
}

fn holder(scope: Scope) -> GrantHolder {
    GrantHolder { key: KeyId::new("k"), scope }
}

fn named(key: &str, name: &str, model: Option<&str>) -> SessionRow {
    let name = SessionName { text: name.to_owned(), model: model.map(str::to_owned) };
    SessionRow { name: Some(name), ..samples::session(key) }
}

fn entry(turn: &TurnRow, entry: &Entry) -> Change {
    Change::Entry(EntryRow { turn: turn.id.clone(), body: serde_json::to_vec(entry).unwrap() })
}

/// A session with one turn that has ended.
async fn kept(store: &MemoryStore, session: &SessionRow, status: TurnStatus) -> TurnRow {
    let mut turn = samples::turn(session, None);
    turn.status = status;
    let mut changes = vec![Change::Session(session.clone()), Change::Turn(turn.clone())];
    if status != TurnStatus::Crashed {
        changes.push(entry(&turn, &retold_samples::finished("Done.")));
    }
    store.commit(changes).await.unwrap();
    turn
}

fn json<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap()
}

fn effect() -> About {
    About::Effect(shown_effect("`make`", 3))
}

fn question() -> About {
    let (question, header) = ("Which?".to_owned(), "Which".to_owned());
    About::Questions {
        questions: vec![Question { question, header, options: Vec::new(), multi_select: false }],
    }
}

async fn asks(store: &MemoryStore, turn: &TurnRow, scope: Scope, about: About) -> ApprovalId {
    let id = ApprovalId::random();
    let expires_ms = clock::now_ms() + 60_000;
    let ask = Ask { tool: "Bash".to_owned(), headline: "make".to_owned(), about };
    let asked = Asked {
        of_agent: None,
        id: id.clone(),
        code: "abcd".to_owned(),
        slot: 2,
        ask,
        answered: Vec::new(),
        repeated: None,
        created_ms: 1,
        expires_ms,
    };
    let row = ApprovalRow {
        id: id.clone(),
        scope,
        session: turn.session.clone(),
        turn: turn.id.clone(),
        created_ms: 5_999,
        expires_ms,
        body: serde_json::to_vec(&asked).unwrap(),
        decision: None,
    };
    store.commit(vec![Change::Approval(row)]).await.unwrap();
    id
}

#[tokio::test]
async fn a_session_is_shown_by_its_id_and_by_its_name() {
    let (rest, store) = rest();
    let own = named("a", "mine", None);
    let chat = named("a", "chat-1", Some("model"));
    kept(&store, &own, TurnStatus::Finished).await;
    kept(&store, &chat, TurnStatus::Finished).await;

    for (id, session) in [(own.id.as_str(), &own), ("mine", &own), ("chat-1", &chat)] {
        let shown = json(&rest.export(own.scope, None, id).await.unwrap());
        let name = session.name.as_ref().map(|name| name.text.clone());
        let expected = json!({
            "id": session.id, "name": name, "model": "model",
            "created": 1, "updated": 2, "turns": 1, "messages": [],
            "mode": "default", "plan": null, "todos": [],
        });
        assert_eq!(shown, expected);
    }
    let list = json(&rest.sessions(own.scope, None, 1).await.unwrap());
    assert_eq!((&list["object"], &list["has_more"]), (&json!("list"), &json!(true)));
    assert_eq!(list["data"][0]["id"], json!(chat.id));
    let next = json(&rest.sessions(own.scope, Some("chat-1"), 1).await.unwrap());
    assert_eq!((&next["data"][0]["id"], &next["has_more"]), (&json!(own.id), &json!(false)));
}

#[tokio::test]
async fn a_chat_is_found_behind_however_many_newer_sessions() {
    let (rest, store) = rest();
    let chats = [named("a", "chat-1", Some("one")), named("a", "chat-1", Some("two"))];
    let newer = (0..1100).map(|_| samples::session("a"));
    let all = chats.iter().cloned().chain(newer).map(Change::Session);
    store.commit(all.collect()).await.unwrap();

    // Of the models of a chat, the one used last.
    for chat in chats.iter().rev() {
        let shown = json(&rest.export(chat.scope, None, "chat-1").await.unwrap());
        assert_eq!(shown["id"], json!(chat.id));
        let deleted = json(&rest.delete(chat.scope, "chat-1").await.unwrap());
        assert_eq!(deleted["id"], json!(chat.id));
    }
    assert!(rest.export(chats[0].scope, None, "chat-1").await.is_err());
}

/// The ids that a curious client tries.
fn curious(own: &str) -> Vec<String> {
    let mut tries = vec![
        own.to_uppercase(),
        format!("{own} "),
        own[..own.len() - 1].to_owned(),
        own.replacen('_', "-", 1),
        String::new(),
        "x".repeat(10_000),
        "a\0b\r\n".to_owned(),
        "../status".to_owned(),
        "'; drop table sessions; --".to_owned(),
    ];
    tries.push(own.to_owned());
    tries
}

#[tokio::test]
async fn what_is_anothers_reads_as_unknown_everywhere() {
    let (rest, store) = rest();
    let session = named("a", "mine", None);
    let turn = kept(&store, &session, TurnStatus::Suspended).await;
    let approval = asks(&store, &turn, session.scope, effect()).await;
    let other = samples::scope("b");
    let allow = &json!({ "decision": "allow" });

    for id in curious(session.id.as_str()).into_iter().chain(["mine".to_owned()]) {
        let unknown = rest.export(other, None, SessionId::random().as_str()).await.unwrap_err();
        assert_eq!(rest.export(other, None, &id).await.unwrap_err(), unknown);
        assert_eq!(rest.delete(other, &id).await.unwrap_err(), unknown);
        assert_eq!(rest.sessions(other, Some(&id), 20).await.unwrap_err(), unknown);
    }
    for id in curious(turn.id.as_str()) {
        let unknown = rest.cancel(other, "turn_0").await.unwrap_err();
        assert_eq!(rest.cancel(other, &id).await.unwrap_err(), unknown);
        let stream = rest.follow(other, &id, Position::default()).await;
        assert_eq!(stream.unwrap_err(), unknown);
    }
    for id in curious(approval.as_str()) {
        let unknown = rest.decide(holder(other), "appr_0", allow).await.unwrap_err();
        assert_eq!(rest.decide(holder(other), &id, allow).await.unwrap_err(), unknown);
    }
    for list in [
        json(&rest.sessions(other, None, 20).await.unwrap()),
        json(&rest.turns(other).await.unwrap()),
        json(&rest.approvals(other).await.unwrap()),
    ] {
        assert_eq!(list, json!({ "object": "list", "data": [], "has_more": false }));
    }
    assert_eq!(
        json(&rest.approvals(session.scope).await.unwrap())["data"][0]["id"],
        json!(approval)
    );
}

#[tokio::test]
async fn an_approval_is_listed_and_decided_once() {
    let (rest, store) = rest();
    let session = samples::session("a");
    let turn = kept(&store, &session, TurnStatus::Suspended).await;
    let id = asks(&store, &turn, session.scope, effect()).await;

    let listed = json(&rest.approvals(session.scope).await.unwrap())["data"][0].clone();
    let expected = json!({
        "id": id, "code": "abcd", "session": session.id, "turn": turn.id, "agent": null, "tool": "Bash",
        "effect": "`make`", "risks": [], "sandbox": [], "suggestions": [], "choices": ["allow", "deny"],
        "created": 5, "expires": listed["expires"],
    });
    assert_eq!(listed, expected);
    let turns = json(&rest.turns(session.scope).await.unwrap());
    let expected =
        json!([{ "id": turn.id, "session": session.id, "started": 1, "state": "suspended" }]);
    assert_eq!(turns["data"], expected);

    let for_session = json!({ "decision": "allow", "scope": "session" });
    let refused = rest.decide(holder(session.scope), id.as_str(), &for_session).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::InvalidValue, "it is not on offer");
    let allow = json!({ "decision": "allow" });
    rest.decide(holder(session.scope), id.as_str(), &allow).await.unwrap();
    for body in [allow, json!({ "decision": "deny" }), json!("junk")] {
        let refused = rest.decide(holder(session.scope), id.as_str(), &body).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::ApprovalClosed);
    }

    let rows = store.approvals(session.scope, ApprovalKey::Id(id.clone())).await.unwrap();
    let decision: Decision = serde_json::from_slice(rows[0].decision.as_deref().unwrap()).unwrap();
    assert!(matches!(decision, Decision::Allow { digest, .. } if digest == [3; 32]));
    assert_eq!(json(&rest.approvals(session.scope).await.unwrap())["data"], json!([]));
    assert_eq!(json(&rest.turns(session.scope).await.unwrap())["data"], json!([]));
}

#[tokio::test]
async fn a_decision_that_says_something_else_decides_nothing() {
    let (rest, store) = rest();
    let session = samples::session("a");
    let turn = kept(&store, &session, TurnStatus::Suspended).await;
    let of_effect = asks(&store, &turn, session.scope, effect()).await;
    let of_question = asks(&store, &turn, session.scope, question()).await;
    for (id, body, code) in [
        (&of_effect, json!(["allow"]), ErrorCode::InvalidValue),
        (&of_effect, json!({}), ErrorCode::MissingField),
        (&of_effect, json!({ "decision": true }), ErrorCode::InvalidValue),
        (&of_effect, json!({ "answers": { "Which?": "this" } }), ErrorCode::InvalidValue),
        (&of_question, json!({ "decision": "allow" }), ErrorCode::InvalidValue),
        (&of_question, json!({ "answers": { "What?": "this" } }), ErrorCode::InvalidValue),
    ] {
        let refused = rest.decide(holder(session.scope), id.as_str(), &body).await.unwrap_err();
        assert_eq!(refused.code, code, "{body}");
    }
    let answers = json!({ "answers": { "Which?": "this" } });
    rest.decide(holder(session.scope), of_question.as_str(), &answers).await.unwrap();
    rest.decide(holder(session.scope), of_effect.as_str(), &json!({ "decision": "deny" }))
        .await
        .unwrap();
}

#[tokio::test]
async fn who_cancels_a_suspended_turn_denies_what_it_asked() {
    let (rest, store) = rest();
    let session = samples::session("a");
    let turn = kept(&store, &session, TurnStatus::Suspended).await;
    let decided = asks(&store, &turn, session.scope, effect()).await;
    let open = asks(&store, &turn, session.scope, question()).await;
    let allow = json!({ "decision": "allow" });
    rest.decide(holder(session.scope), decided.as_str(), &allow).await.unwrap();

    for is_first in [true, false] {
        let cancelled = json(&rest.cancel(session.scope, turn.id.as_str()).await.unwrap());
        assert_eq!(cancelled["cancelled"], is_first);
    }

    let refused = rest.decide(holder(session.scope), open.as_str(), &allow).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::ApprovalClosed);
    let rows = store.approvals(session.scope, ApprovalKey::Turn(turn.id)).await.unwrap();
    let decision = |id| {
        let row = rows.iter().find(|row| row.id == id).unwrap();
        serde_json::from_slice::<Decision>(row.decision.as_deref().unwrap()).unwrap()
    };
    assert!(matches!(decision(decided), Decision::Allow { .. }), "what was decided stands");
    assert_eq!(decision(open), Decision::Deny { feedback: None });
}

#[tokio::test]
async fn a_deleted_session_is_gone_with_its_turns_and_approvals() {
    let (rest, store) = rest();
    let session = named("a", "mine", None);
    let turn = kept(&store, &session, TurnStatus::Suspended).await;
    asks(&store, &turn, session.scope, effect()).await;

    let deleted = json(&rest.delete(session.scope, "mine").await.unwrap());

    let expected = json!({ "id": session.id, "object": "session.deleted", "deleted": true });
    assert_eq!(deleted, expected);
    assert!(rest.delete(session.scope, "mine").await.is_err());
    assert!(rest.follow(session.scope, turn.id.as_str(), Position::default()).await.is_err());
    assert_eq!(json(&rest.approvals(session.scope).await.unwrap())["data"], json!([]));
    let by_id = SessionKey::Id(session.id.clone());
    assert!(store.session(session.scope, by_id).await.unwrap().is_none());
}

async fn heard(mut subscriber: Subscriber) -> (String, Option<ErrorCode>) {
    let (mut said, mut failed) = (String::new(), None);
    while let Some(events) = subscriber.take().await {
        for event in events {
            match event {
                TurnEvent::Text(text) => said.push_str(&text),
                TurnEvent::Failed(failure) => failed = Some(failure.error.code),
                _ => {}
            }
        }
    }
    (said, failed)
}

#[tokio::test]
async fn a_turn_that_is_over_is_told_from_its_record_behind_any_place() {
    let (rest, store) = rest();
    let session = samples::session("a");
    let turn = kept(&store, &session, TurnStatus::Finished).await;
    let crashed = kept(&store, &session, TurnStatus::Crashed).await;
    let follow = |turn: &TurnRow, position: &str| {
        let (id, position) = (turn.id.to_string(), position.parse().unwrap());
        let rest = &rest;
        async move { heard(rest.follow(session.scope, &id, position).await.unwrap()).await }
    };

    assert_eq!(follow(&turn, "0.-.0.0.0.0").await, ("Done.".to_owned(), None));
    assert_eq!(follow(&turn, "7.3.3.0.0.0").await, ("e.".to_owned(), None));
    assert_eq!(follow(&turn, "99.-.999.9.9.0").await, (String::new(), None));
    assert_eq!(follow(&crashed, "0.-.0.0.0.0").await.1, Some(ErrorCode::Cancelled));
    let cancelled = json(&rest.cancel(session.scope, turn.id.as_str()).await.unwrap());
    assert_eq!(cancelled["cancelled"], json!(false));
}

#[tokio::test]
async fn a_store_that_is_broken_is_told_as_such() {
    let (rest, store) = rest();
    store.set_broken(true);
    let scope = samples::scope("a");
    let code = rest.sessions(scope, None, 20).await.unwrap_err().code;
    assert_eq!(code, ErrorCode::StoreUnavailable);
    assert_eq!(rest.turns(scope).await.unwrap_err().code, ErrorCode::StoreUnavailable);
}
