//! Tests the chain of digests over what frontends make of a conversation.

use serde_json::{Value, json};

use super::*;
use crate::ids::KeyId;
use crate::sessions::test_support::{CARD, client_messages};

fn scope(key: &str) -> Scope {
    Scope::new(&KeyId::new(key), None)
}

fn chain(list: &Value) -> Chain {
    Chain::new(&scope("key"), &client_messages(list))
}

fn last(list: &Value) -> Option<LinkDigests> {
    last_of(&chain(list))
}

fn last_of(chain: &Chain) -> Option<LinkDigests> {
    let link = chain.links.last()?;
    Some(LinkDigests { chain: link.chain, link: link.own, head: chain.last_head() })
}

#[track_caller]
fn same(one: &Value, other: &Value) {
    assert_eq!(last(one).expect("a link"), last(other).expect("a link"), "{one} {other}");
}

#[track_caller]
fn different(one: &Value, other: &Value) {
    assert_ne!(last(one).map(|link| link.chain), last(other).map(|link| link.chain));
}

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

fn said(text: &str) -> Value {
    json!({ "role": "assistant", "content": text })
}

fn calls(text: &str, ids: &[&str]) -> Value {
    let calls: Vec<_> = ids
        .iter()
        .map(|id| json!({ "id": id, "type": "function", "function": { "name": "f", "arguments": "{}" } }))
        .collect();
    json!({ "role": "assistant", "content": text, "tool_calls": calls })
}

fn answer(id: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": "x" })
}

#[test]
fn it_does_not_matter_how_an_answer_is_split_or_what_the_user_said() {
    let whole = json!([user("a"), said("One.\n\nTwo.")]);
    same(&whole, &json!([user("b"), said("One."), said("Two.")]));
    same(&whole, &json!([{ "role": "system", "content": "x" }, user("a"), said(" One. Two.")]));
    same(
        &whole,
        &json!([user("a"), user("a"), said("One."), calls("Two.", &[CARD]), answer(CARD)]),
    );
    same(
        &whole,
        &json!([user("a"), said("<details type=\"reasoning\">hm</details>One."), said("Two.")]),
    );
    same(
        &whole,
        &json!([user("a"), calls("One.", &["server_1"]), answer("server_1"), said("Two.")]),
    );
    different(&whole, &json!([user("a"), said("One.")]));
    different(&whole, &json!([user("a"), said("One."), user("b"), said("Two.")]));
    different(&whole, &json!([user("a"), calls("One. Two.", &["a"])]));
    different(&json!([calls("", &["ab"])]), &json!([calls("", &["a", "b"])]));
}

#[test]
fn nothing_matches_a_chain_of_nothing() {
    assert!(chain(&json!([user("a")])).links.is_empty());
    let empty = json!([user("a"), said(" "), user("b"), { "role": "assistant", "content": null }]);
    assert!(chain(&empty).links.is_empty());
    assert_eq!(chain(&empty).tail().after(" ", &[] as &[&str]), (0, None));
    assert_eq!(chain(&empty).users.len(), 1);
}

#[test]
fn the_next_turn_has_the_address_that_the_next_list_shows() {
    for (before, text, ids, after) in [
        (json!([user("a")]), "Hi", vec![], json!([user("a"), said("Hi"), user("b")])),
        (
            json!([user("a"), said("Hi"), user("b")]),
            "Ho",
            vec!["x"],
            json!([user("a"), said("Hi"), user("b"), calls("Ho", &["x"]), answer("x")]),
        ),
        (
            json!([user("a"), calls("Ho", &["x"]), answer("x")]),
            "Done",
            vec![],
            json!([user("a"), calls("Ho", &["x"]), answer("x"), said("Done")]),
        ),
        (
            json!([user("a"), said("Hello wor")]),
            "ld",
            vec![],
            json!([user("a"), said("Hello world")]),
        ),
    ] {
        let chain = chain(&after);
        let depth = u32::try_from(chain.links.len()).unwrap();
        let tail = self::chain(&before).tail();
        assert_eq!(tail.after(text, &ids), (depth, last_of(&chain)), "{before}");
    }
}

#[test]
fn two_keys_and_two_users_of_one_never_meet() {
    let list = client_messages(&json!([user("a"), said(&"Hello! ".repeat(20))]));
    let key = KeyId::new("key");
    let scopes = [Scope::new(&key, None), Scope::new(&key, Some("u")), scope("other")];
    let digests = scopes.map(|scope| last_of(&Chain::new(&scope, &list)).unwrap());
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        assert_ne!(digests[one].chain, digests[other].chain);
        assert_ne!(digests[one].link, digests[other].link);
        assert_ne!(digests[one].head, digests[other].head);
    }
}

#[test]
fn a_prefix_has_the_same_head_from_forty_characters_on() {
    let head = |text: &str| last(&json!([user("a"), said(text)])).unwrap().head;
    let text = "0123456789 123456789 123456789 123456789 and more";
    assert_eq!(head(&text[..40]), head(text));
    assert!(head(text).is_some());
    assert_eq!(head(&text[..39]), None);
    assert_ne!(head(text), head(&text.replace('0', "x")));
}

#[test]
fn the_end_of_the_list_is_known() {
    for (list, end) in [
        (json!([user("a")]), ListEnd::User),
        (json!([user("a"), said("b")]), ListEnd::Assistant),
        (json!([user("a"), said("")]), ListEnd::User),
        (json!([user("a"), calls("", &["x"]), answer("x")]), ListEnd::Answers),
        (json!([calls("", &[CARD, "y"]), answer(CARD), answer("y")]), ListEnd::Answers),
        (json!([calls("", &[CARD]), answer(CARD)]), ListEnd::CardAnswers),
    ] {
        assert_eq!(chain(&list).end, end, "{list}");
    }
}

#[test]
fn a_list_of_ten_thousand_messages_needs_few_look_ups() {
    let pair = [user("a"), said("b")];
    let list: Vec<&Value> = pair.iter().cycle().take(10_000).collect();
    let chain = chain(&json!(list));
    let lookups = chain.lookups();
    assert_eq!((chain.links.len(), lookups.len()), (5000, 4));
    assert_eq!(lookups.iter().map(Vec::len).sum::<usize>(), 5000);
    assert_eq!(lookups[0][0], chain.links[4999].chain);
}

#[test]
fn users_are_told_by_the_link_that_they_precede() {
    let chain = chain(&json!([user("a"), said("b"), user("c"), user("d"), said("e"), user("f")]));
    let words: Vec<Vec<&str>> = chain
        .users
        .iter()
        .map(|users| users.iter().map(|user| user.words.as_str()).collect())
        .collect();
    assert_eq!(words, [vec!["a"], vec!["c", "d"], vec!["f"]]);
    assert_eq!(chain.links[1].range, 4..=4);
}
