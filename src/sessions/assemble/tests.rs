//! Plays conversations: each turn is found, assembled and recorded as the server does it.

mod play;
mod properties;

use serde_json::json;

use self::play::{Script, World, answer, calls, said, system, user};
use super::*;
use crate::agent::record::{Compacted, Entry, Intent, Ran};
use crate::errors::ErrorCode;
use crate::sessions::test_support::CARD;
use crate::store::rows::TurnStatus;

const LONG: &str = "This answer is long enough to be found by its beginning, and by its whole text \
    even if the user messages say something else: it has more than two hundred characters, which \
    is what the rule of a single candidate asks for.";

#[test]
fn a_client_that_resends_visible_messages_keeps_its_hidden_steps() {
    let world = World::new();
    let first = world.turn(&json!([user("read it")]), Script::of("Done.").calling("c1"));
    let list = json!([user("read it"), said("Done."), user("and now?")]);
    let second = world.turn(&list, Script::of("So."));
    assert!(second.begins_with(&first), "{}\n{}", second.before, first.after);
    assert!(second.before.contains("result of c1"));
    let list = json!([user("read it"), said("Done."), user("and now?"), said("So."), user("x")]);
    let third = world.turn(&list, Script::of("."));
    assert!(third.begins_with(&second));
    assert_eq!(third.session, first.session);
}

#[test]
fn an_edit_forks_and_what_is_not_recognised_stays_as_it_came() {
    let world = World::new();
    let first = world.turn(&json!([user("read it")]), Script::of("Done.").calling("c1"));
    let list = json!([user("read it"), said("Done."), user("b")]);
    let second = world.turn(&list, Script::of("B").calling("c2"));
    let fork = world.turn(&json!([user("read it"), said("Done."), user("c")]), Script::of("C"));
    assert_eq!((&fork.parent, &fork.session), (&Some(first.id.clone()), &first.session));
    assert!(fork.begins_with(&first) && !fork.before.contains("c2"));
    let list = json!([user("read it"), said("Done!"), user("c")]);
    let other = world.turn(&list, Script::of("C"));
    assert_ne!(other.session, first.session);
    assert_eq!(other.pieces(), list);
    assert_ne!(second.id, fork.id);
}

#[test]
fn an_edited_user_message_goes_as_it_is_now() {
    let world = World::new();
    world.turn(&json!([user("a")]), Script::of(LONG).calling("c1"));
    let next = world.turn(&json!([user("other"), said(LONG), user("b")]), Script::of("."));
    assert!(next.before.contains("other") && next.before.contains("result of c1"));
    assert!(!next.before.contains("\"a\""));
}

#[test]
fn a_wrapped_message_goes_as_it_was_sent() {
    let world = World::new();
    let wrapped = "### Task:\nAnswer.\n<context>FILE</context>\n\nWhat is it?";
    let first = world.turn(&json!([user(wrapped)]), Script::of("A file.").calling("c1"));
    let list = json!([user("What is it?"), said("A file."), user("And now?")]);
    let second = world.turn(&list, Script::of("."));
    assert!(second.begins_with(&first) && second.before.contains("FILE"));
}

#[test]
fn a_picture_that_changed_goes_as_it_is_now() {
    let world = World::new();
    let picture = |url: &str| {
        json!({ "role": "user", "content": [
        { "type": "text", "text": "what?" }, { "type": "image_url", "image_url": { "url": url } }] })
    };
    world.turn(&json!([picture("data:a")]), Script::of("A cat."));
    let next = world.turn(&json!([picture("data:b"), said("A cat."), user("x")]), Script::of("."));
    assert!(next.before.contains("data:b") && !next.before.contains("data:a"));
}

#[test]
fn other_keys_never_meet() {
    let world = World::new();
    world.turn(&json!([user("a")]), Script::of(LONG).calling("c1"));
    let list = json!([user("a"), said(LONG), user("b")]);
    let other = world.with_key("other").turn(&list, Script::of("."));
    assert_eq!((other.pieces(), &other.parent), (list, &None));
}

#[test]
fn a_first_user_message_alone_never_matches() {
    let world = World::new();
    let first = world.turn(&json!([user("hi")]), Script::of("Hello").calling("c1"));
    let second = world.turn(&json!([user("hi")]), Script::of("Hello"));
    assert_ne!(first.session, second.session);
    assert_eq!(second.parent, None);
}

#[test]
fn user_messages_decide_among_conversations_with_the_same_answers() {
    let world = World::new();
    let anna = world.turn(&json!([user("my cat")]), Script::of("Tell me more.").calling("c1"));
    let bert = world.turn(&json!([user("my dog")]), Script::of("Tell me more.").calling("c2"));
    let next = |first: &str| {
        let list = json!([user(first), said("Tell me more."), user("it limps")]);
        world.search(&list)
    };
    assert_eq!(next("my cat").session, Some(anna.session.clone()));
    assert_eq!(next("my dog").session, Some(bert.session.clone()));
    let neither = next("my bird");
    assert_eq!((neither.session, neither.path.len()), (None, 0));
    // The other's record is gone: a short answer brings back nobody's steps.
    world.forget(&bert.session);
    assert_eq!(next("my dog").path.len(), 0);
}

#[test]
fn an_ambiguous_list_gets_a_fresh_session_and_steps_that_all_have() {
    let world = World::new();
    for _ in 0..2 {
        world.turn(&json!([user("hi")]), Script::of("Hello").calling("c1"));
    }
    let list = json!([user("hi"), said("Hello"), user("b")]);
    let found = world.search(&list);
    assert_eq!((found.session, found.path.len()), (None, 1));
    world.turn(&json!([user("hi")]), Script::of("Hello").calling("c2"));
    let found = world.search(&list);
    assert_eq!((found.session, found.path.len()), (None, 0));
}

#[test]
fn a_beginning_of_an_answer_matches_from_forty_characters_on() {
    let world = World::new();
    let first = world.turn(&json!([user("a")]), Script::of(LONG).calling("c1"));
    let cut = |chars: usize| world.search(&json!([user("a"), said(&LONG[..chars]), user("b")]));
    assert_eq!(cut(40).session, Some(first.session));
    assert_eq!(cut(39).session, None);
    assert_eq!(world.search(&json!([user("x"), said(&LONG[..40]), user("b")])).session, None);
}

#[test]
fn in_a_named_session_the_list_may_begin_anywhere() {
    let world = World::new().named();
    let mut list = vec![user("u0")];
    let mut known = world.turn(&json!(list), Script::of("a0").calling("c0"));
    for n in 1..5 {
        list.extend([said(&format!("a{}", n - 1)), user(&format!("u{n}"))]);
        let next = world.turn(&json!(list), Script::of(&format!("a{n}")).calling(&format!("c{n}")));
        assert!(next.begins_with(&known));
        known = next;
    }
    let newest = json!([said("a3"), user("u4"), said("a4"), user("u5")]);
    let next = world.turn(&newest, Script::of("."));
    assert_eq!(next.parent, Some(known.id.clone()));
    assert!(next.before.contains("result of c3") && next.before.contains("result of c4"));
    assert!(!next.before.contains("c2"));
    // Nothing is recognised: it hangs on the newest turn, and is taken as it came.
    let alone = world.turn(&json!([user("new")]), Script::of("."));
    assert_eq!((alone.pieces(), alone.parent), (json!([user("new")]), Some(next.id)));
}

#[test]
fn a_stopped_turn_is_spliced_where_the_user_goes_on() {
    for shown in [None, Some("Par"), Some("Partial")] {
        let world = World::new();
        let first = world.turn(&json!([user("a")]), Script::of("One."));
        let list = vec![user("a"), said("One."), user("b")];
        let script = Script::of("Partial").calling("c1").ending(TurnStatus::Cancelled);
        let stopped = world.turn(&json!(list), script);
        let shown = shown.map(said);
        let list: Vec<_> = list.into_iter().chain(shown).chain([user("c")]).collect();
        let next = world.turn(&json!(list), Script::of("."));
        assert!(next.begins_with(&stopped) && stopped.begins_with(&first), "{}", next.before);
        assert_eq!(next.parent, Some(stopped.id));
    }
}

#[test]
fn a_stopped_first_turn_is_known_in_a_named_session() {
    let world = World::new().named();
    let script = Script::of("").calling("c1").ending(TurnStatus::Cancelled);
    let stopped = world.turn(&json!([user("a")]), script);
    let next = world.turn(&json!([user("a"), user("b")]), Script::of("."));
    assert!(next.begins_with(&stopped));
    let between = said(INTERRUPTED_HERE);
    assert_eq!(next.pieces().as_array().unwrap()[3], between);
}

#[test]
fn the_very_same_list_again_runs_anew_and_is_told_what_was_done() {
    let world = World::new();
    let first = world.turn(&json!([user("a")]), Script::of("One."));
    let list = json!([user("a"), said("One."), user("b")]);
    let script = || Script::of("Par").calling("c1").ending(TurnStatus::Cancelled);
    world.turn(&list, script());
    let again = world.turn(&list, Script::of("Done"));
    assert_eq!(again.parent, Some(first.id));
    let pieces = again.pieces();
    assert_eq!(pieces.as_array().unwrap().len(), 3);
    let asked = pieces[2]["content"].as_str().unwrap();
    assert!(asked.starts_with("<reminder>") && asked.ends_with("\n\nb"), "{asked}");
    assert!(asked.contains("result of c1"));
    // The reminder stays in later requests.
    let list = json!([user("a"), said("One."), user("b"), said("Done"), user("c")]);
    assert!(world.turn(&list, Script::of(".")).begins_with(&again));
    // A finished answer is regenerated without a word.
    let list = json!([user("a"), said("One."), user("b"), said("Done"), user("c")]);
    assert!(!world.turn(&list, Script::of(".")).before.ends_with("<reminder>"));
}

#[test]
fn after_a_crash_the_outcome_of_a_call_is_unknown() {
    let world = World::new().named();
    let call = |id: &str| {
        json!({ "id": id, "type": "function",
        "function": { "name": "Bash", "arguments": "{}" } })
    };
    let intent = |slot, id: &str| {
        Entry::Intent(Intent {
            round: 1,
            slot,
            call: call(id),
            model: "m".to_owned(),
            approval: None,
        })
    };
    let ran = Entry::Ran(Ran { round: 1, slot: 0, answer: "done".to_owned() });
    let entries = vec![intent(0, "x"), ran, intent(1, "y")];
    world.turn(&json!([user("a")]), Script::crashed(entries));
    let list = json!([user("a"), said("I saw this"), user("b")]);
    let next = world.turn(&list, Script::of("."));
    let pieces = next.pieces();
    assert_eq!(pieces[1]["tool_calls"], json!([call("x"), call("y")]));
    assert_eq!(pieces[2], answer("x", "done"));
    assert_eq!(pieces[3], answer("y", transcript::OUTCOME_UNKNOWN));
    assert_eq!(pieces[4], said("I saw this"));
}

#[test]
fn a_list_that_ends_with_our_message_is_continued_from_what_the_client_shows() {
    let world = World::new();
    world.turn(&json!([user("a")]), Script::of("Hello wonderful world, this is the whole answer."));
    for (shown, is_continued) in [
        ("Hello wonderful world, this is the whole answer.", true),
        ("Hello wonderful world, this is the whole", true),
        ("Something else that nobody ever said to anyone here.", false),
    ] {
        let list = json!([user("a"), said(shown)]);
        let assembled = world.assembled(&list).unwrap();
        let continued = match &assembled.beginning {
            Beginning::Continue { said } => said.as_str(),
            _ => "",
        };
        assert_eq!(continued, if is_continued { shown } else { "" });
        assert_eq!(assembled.continues, is_continued);
    }
    let list = json!([user("a"), said("Hello wonderful world, this is the whole")]);
    let next = world.turn(&list, Script::of(" truth."));
    let whole = "Hello wonderful world, this is the whole truth.";
    let later = world.turn(&json!([user("a"), said(whole), user("b")]), Script::of("."));
    assert_eq!(later.parent, Some(next.id));
    assert_eq!(later.pieces(), json!([user("a"), said(whole), user("b")]));
}

#[test]
fn answers_to_client_calls_resume_the_round_in_any_order() {
    let world = World::new();
    let open = world.turn(&json!([user("a")]), Script::of("Look.").mixed(&["x", "y"], "server_1"));
    let list = |answers: &[serde_json::Value]| {
        let mut list = vec![user("a"), calls("Look.", &["x", "y"])];
        list.extend_from_slice(answers);
        json!(list)
    };
    let (x, y) = (answer("x", "1"), answer("y", "2"));
    let error = world.assembled(&list(std::slice::from_ref(&y))).unwrap_err();
    assert_eq!(error.code, ErrorCode::MissingToolResults);
    assert!(error.message.contains("\"x\"") && !error.message.contains("server_1"));
    let resumed = world.turn(&list(&[y.clone(), x.clone()]), Script::of("Both."));
    assert_eq!((resumed.parent.clone(), resumed.resumes), (Some(open.id.clone()), true));
    let done = list(&[y.clone(), x.clone(), said("Both."), user("b")]);
    let next = world.turn(&done, Script::of("."));
    assert!(next.begins_with(&resumed));
    let pieces = next.pieces();
    assert_eq!([&pieces[2], &pieces[3], &pieces[4]], [&x, &answer("server_1", "kept"), &y]);
    // The conversation went on: what has no answer was interrupted, what has one is kept.
    let pieces = world.turn(&list(&[y.clone(), user("b")]), Script::of(".")).pieces();
    assert_eq!([&pieces[2], &pieces[4]], [&answer("x", pairs::INTERRUPTED), &y]);
    assert_eq!([&pieces[5], &pieces[6]], [&said(INTERRUPTED_HERE), &user("b")]);
    // What no session fits goes on with the client's calls alone.
    let other = world.with_key("other").turn(&list(&[y, x]), Script::of("."));
    assert!(!other.before.contains("server_1") && !other.resumes);
}

fn message(words: &str) -> ReplyForm {
    ReplyForm::Message { words: words.to_owned(), is_behind_question: true }
}

#[test]
fn one_message_behind_our_question_is_the_reply_and_nothing_else_is() {
    let world = World::new();
    let asked = world.turn(&json!([user("a")]), Script::of("May I?").asking("server_1"));
    let list = |rest: &[serde_json::Value]| json!([&[user("a"), said("May I?")], rest].concat());
    let reply = |list: &serde_json::Value| world.assembled(list).unwrap().reply;
    let said_1 = Reply { turn: asked.id.clone(), said: message("1") };
    assert_eq!(reply(&list(&[user("1")])), Some(said_1));
    assert_eq!(reply(&list(&[user("1"), user("x")])), None);
    assert_eq!(reply(&json!([user("1")])), None);
    let two = json!([user("1"), said("x"), user("1")]);
    assert_eq!(reply(&two), None);
    assert!(matches!(world.outcome(&list(&[])), Ok(Outcome::NothingToDo)));
    let resumed = world.turn(&list(&[user("1")]), Script::of("Did it."));
    let after = list(&[user("1"), said("Did it."), user("b")]);
    let next = world.turn(&after, Script::of("."));
    assert!(next.begins_with(&resumed), "{}\n{}", next.before, resumed.after);
    assert!(!next.before.contains("May I?") && !next.before.contains("\"1\""));
    // A decision stands: the same reply again finds what was recorded.
    let again = world.assembled(&list(&[user("2")])).unwrap();
    assert_eq!(again.reply, None);
    let Beginning::Resume(resume) = again.beginning else { panic!("it resumes") };
    assert!(resume.open.asked.is_empty());
    assert_eq!(json!(resume.open.calls[0]), json!({ "state": "answered", "answer": "allowed" }));
}

#[test]
fn a_question_asked_through_the_clients_tool_never_goes_upstream() {
    let world = World::new();
    world.turn(&json!([user("a")]), Script::of("").asking("server_1").by("call_q"));
    let list = json!([user("a"), calls("", &["call_q"]), answer("call_q", "deny")]);
    let assembled = world.assembled(&list).unwrap();
    let answered = ReplyForm::Answers(vec![(0, "deny".to_owned())]);
    assert_eq!(assembled.reply.map(|reply| reply.said), Some(answered));
    assert!(assembled.continues);
    let resumed = world.turn(&list, Script::of("Fine."));
    let list = json!([
        user("a"),
        calls("", &["call_q"]),
        answer("call_q", "deny"),
        said("Fine."),
        user("b")
    ]);
    let next = world.turn(&list, Script::of("."));
    assert!(next.begins_with(&resumed) && !next.before.contains("call_q"));
}

#[test]
fn a_decision_over_rest_resumes_whatever_the_next_request_says() {
    let world = World::new();
    world.turn(&json!([user("a")]), Script::of("May I?").asking("server_1"));
    let list = json!([user("a"), said("May I?"), user("never mind")]);
    let assembled = world.decided(&list);
    assert_eq!(assembled.reply, None);
    let Beginning::Resume(resume) = assembled.beginning else { panic!("it resumes") };
    assert_eq!(resume.then.len(), 1);
}

#[test]
fn only_new_words_undo_the_end_that_a_hook_has_set() {
    let world = World::new();
    let script = Script::of("May I?").asking("server_1").ended_by_a_hook();
    world.turn(&json!([user("a")]), script);
    let resumed = |rest: &[serde_json::Value]| {
        let list = json!([&[user("a"), said("May I?")], rest].concat());
        let Beginning::Resume(resume) = world.decided(&list).beginning else { panic!("resumes") };
        resume.open.ends_with
    };
    assert_eq!(resumed(&[]).as_deref(), Some("Enough."));
    assert_eq!(resumed(&[user("never mind")]), None);
}

#[test]
fn cards_are_dropped_and_answers_to_them_alone_start_nothing() {
    let world = World::new();
    let list = json!([user("a"), calls("Look.", &[CARD]), answer(CARD, "x"), user("b")]);
    assert_eq!(
        world.turn(&list, Script::of(".")).pieces(),
        json!([user("a"), said("Look."), user("b")])
    );
    let list = json!([user("a"), calls("", &[CARD]), answer(CARD, "x")]);
    assert!(matches!(world.outcome(&list), Ok(Outcome::NothingToDo)));
    let list = json!([user("a"), calls("", &[CARD]), answer(CARD, "x"), user("b")]);
    assert_eq!(world.turn(&list, Script::of(".")).pieces(), json!([user("a"), user("b")]));
}

#[test]
fn unknown_answers_are_an_error_and_those_of_recorded_calls_are_not() {
    let world = World::new().named();
    let list = json!([user("a"), answer("nobody", "x"), user("b")]);
    assert_eq!(world.assembled(&list).unwrap_err().code, ErrorCode::UnknownToolCall);
    world.turn(&json!([user("a")]), Script::of("Look.").mixed(&["x"], "server_1"));
    let list = json!([answer("x", "late"), user("b")]);
    assert_eq!(world.turn(&list, Script::of(".")).pieces(), json!([user("b")]));
}

#[test]
fn a_client_that_keeps_the_hidden_messages_itself_has_them_used_as_they_are() {
    let world = World::new();
    let first = world.turn(&json!([user("a")]), Script::of("Done.").calling("server_1"));
    let list = json!([
        user("a"),
        calls("", &["server_1"]),
        answer("server_1", "shortened"),
        said("Done."),
        user("b")
    ]);
    let next = world.turn(&list, Script::of("."));
    assert_eq!((next.pieces(), next.session), (list, first.session));
}

#[test]
fn the_servers_history_stands_before_what_is_new() {
    let world = World::new().named();
    let first = world.turn(&json!([system("old"), user("a")]), Script::of("One.").calling("c1"));
    let second = world.with_history().turn(&json!([system("new"), user("b")]), Script::of("Two."));
    let third = world.with_history().turn(&json!([system("new"), user("c")]), Script::of("."));
    assert!(third.begins_with(&second), "{}\n{}", third.before, second.after);
    assert!(second.before.contains("result of c1") && !second.before.contains("old"));
    assert_eq!(second.parent, Some(first.id));
    let pieces = third.pieces();
    let roles: Vec<_> = pieces.as_array().unwrap().iter().map(|piece| &piece["role"]).collect();
    assert_eq!(
        roles,
        ["system", "user", "assistant", "tool", "assistant", "user", "assistant", "user"]
    );
}

#[test]
fn a_compacted_transcript_stands_for_all_before_it() {
    let world = World::new();
    world.turn(&json!([system("s"), user("a")]), Script::of("One.").calling("c1"));
    let summary = play::round(&json!([user("summary")]));
    let compacted = Entry::Compacted(Compacted { rounds: vec![summary] });
    let list = json!([system("s"), user("a"), said("One."), user("b")]);
    world.turn(&list, Script::of("Two.").calling("c2").after(compacted));
    let list = |first: &str| {
        json!([system("s"), user(first), said("One."), user("b"), said("Two."), user("c")])
    };
    let next = world.turn(&list("a"), Script::of("."));
    assert_eq!(next.pieces()[0], system("s"));
    assert_eq!(next.pieces()[1], user("summary"));
    assert!(!next.before.contains("c1") && next.before.contains("c2"));
}

#[test]
fn a_list_of_ten_thousand_messages_costs_few_look_ups() {
    let world = World::new();
    let list: Vec<_> = (0..5000).flat_map(|_| [user("u"), said("ok")]).chain([user("u")]).collect();
    world.search(&json!(list));
    assert!(world.lookups() <= 8, "{}", world.lookups());
}
