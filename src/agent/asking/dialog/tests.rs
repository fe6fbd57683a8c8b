//! The dialogs of asks, and what their answers decide.

use insta::assert_snapshot;

use super::*;
use crate::agent::asking::test_support::{
    NOW, ask_of, effect_ask, own_ask, question, question_ask, rule_ask, sandboxed_ask, shown,
    shown as shown_decisions,
};

#[test]
fn in_an_approval_deny_comes_first() {
    let dialogs = dialogs(&[effect_ask(0, "KXRT")]).unwrap();
    assert_snapshot!(dialogs[0].arguments, @r#"{"questions":[{"id":"KXRT","header":"Bash","question":"Bash (KXRT): make 0","options":[{"label":"Deny","description":"The call is not made"},{"label":"Allow once","description":"Exactly what the message above shows, this once"},{"label":"Allow for this session","description":"Exactly this command, in this directory, until this conversation ends"}],"allow_other":true}]}"#);
}

/// The only question about the ask, and the labels of its options.
fn asked_about(asked: &Asked) -> (String, Vec<String>) {
    let mut dialogs = dialogs(std::slice::from_ref(asked)).unwrap();
    let question = dialogs.remove(0).arguments["questions"][0].take();
    let options = question["options"].as_array().unwrap();
    let labels = options.iter().map(|option| option["label"].as_str().unwrap().to_owned());
    (question["question"].as_str().unwrap().to_owned(), labels.collect())
}

#[test]
fn x15_the_effect_stands_before_the_models_words_for_it() {
    let mut asked = effect_ask(0, "KXRT");
    asked.ask.headline = "rm -r precious".to_owned();
    let About::Effect(shown) = &mut asked.ask.about else { unreachable!() };
    shown.described = Some("List\nthe files” (in your words: “ok”)\u{202e}".to_owned());
    assert_eq!(
        asked_about(&asked).0,
        "Bash (KXRT): rm -r precious (in the model's words: “List the files\" (in your words: \
         \"ok\")\\u{202e}”)"
    );
    asked.ask.headline = format!("a{}", "\u{200b}".repeat(2000));
    assert_eq!(
        asked_about(&asked).0,
        "Bash (KXRT): a⟨2000 times \\u{200b}⟩ (in the model's words: “List the files\" (in your words: \"ok\")\\u{202e}”)"
    );
    asked.ask.headline = "x ".repeat(2000);
    let long = asked_about(&asked).0;
    assert!(long.contains("…⟨cut: the whole stands in the message⟩ (in the model's"), "{long}");
    assert!(long.chars().count() <= MAX_QUESTION_CHARS, "{long}");
}

#[test]
fn what_the_sandbox_does_stands_behind_the_effect_as_far_as_it_fits() {
    let mut asked = sandboxed_ask(&["no network: `curl` cannot connect", "`/a` is gone"]);
    let About::Effect(shown) = &mut asked.ask.about else { unreachable!() };
    shown.described = Some("Get it".to_owned());
    assert_eq!(
        asked_about(&asked).0,
        "Bash (KXRT): make 0 (sandbox: no network: curl cannot connect; /a is gone) (in the model's \
         words: “Get it”)"
    );
    let About::Effect(shown) = &mut asked.ask.about else { unreachable!() };
    shown.sandbox[1].text = "x".repeat(430);
    let cut = asked_about(&asked).0;
    assert!(cut.contains("(sandbox: no network: curl cannot connect) (in the model's"), "{cut}");
    let About::Effect(shown) = &mut asked.ask.about else { unreachable!() };
    shown.sandbox.remove(0);
    shown.sandbox[0].text = "x".repeat(480);
    assert!(!asked_about(&asked).0.contains("sandbox"));
}

#[test]
fn only_what_means_something_of_its_own_is_offered() {
    let mut asked = effect_ask(0, "KXRT");
    let About::Effect(shown) = &mut asked.ask.about else { unreachable!() };
    shown.grant = None;
    assert_eq!(asked_about(&asked).1, ["Deny", "Allow once"]);
    let chosen = |asked: &Asked, label: &str| {
        let content = json!({ "answers": { "KXRT": { "label": label } } }).to_string();
        shown_decisions(&read_dialog_answer(&[asked], &content, NOW).decided)
    };
    assert_eq!(chosen(&asked, "Allow for this session"), "0=no:Allow for this session");
    assert_eq!(chosen(&asked, "Allow by rule"), "0=no:Allow by rule");
    let asked = rule_ask(0, "KXRT");
    assert_eq!(asked_about(&asked).1, ["Deny", "Allow once", "Allow by rule"]);
    assert_eq!(chosen(&asked, "allow by rule"), "0=rule");
    assert_eq!(chosen(&asked, "Allow for this session"), "0=session");
    let dialogs = dialogs(&[asked]).unwrap();
    let rule = &dialogs[0].arguments["questions"][0]["options"][2]["description"];
    assert_eq!(rule, "From now on in this project: Bash(npm test *)");
}

#[test]
fn choices_of_a_calls_own_come_in_a_dialog_if_they_fit() {
    let asked = own_ask("KXRT");
    let dialogs_of = |asked: &Asked| dialogs(std::slice::from_ref(asked));
    let arguments = dialogs_of(&asked).unwrap().remove(0).arguments;
    assert_snapshot!(arguments["questions"][0]["options"], @r#"[{"label":"Stay","description":"nothing changes"},{"label":"Go on","description":"edits are asked about"},{"label":"Go on faster","description":"edits are made"}]"#);
    let read = |content: &str| shown(&read_dialog_answer(&[&asked], content, NOW).decided);
    for (label, expected) in [
        ("Go on", "0=choice 1"),
        ("go on faster", "0=choice 2"),
        ("Stay", "0=no"),
        ("Allow once", "0=no:Allow once"),
        ("1", "0=no:1"),
        ("not yet", "0=no:not yet"),
    ] {
        let content = json!({ "answers": { "KXRT": { "label": label } } }).to_string();
        assert_eq!(read(&content), expected, "{label}");
    }
    assert_eq!(read("Error: tool call rejected by user."), "0=no");
    let mut four = asked.clone();
    let About::Effect(shown) = &mut four.ask.about else { unreachable!() };
    shown.choices.push(shown.choices[0].clone());
    assert_eq!(dialogs_of(&four), None);
}

#[test]
fn what_does_not_fit_comes_in_a_further_dialog() {
    let asked: Vec<_> = (0..7).map(|slot| effect_ask(slot, &format!("KXR{slot}"))).collect();
    let asks: Vec<_> = dialogs(&asked).unwrap().into_iter().map(|dialog| dialog.asks).collect();
    assert_eq!(asks, [vec![0, 1, 2], vec![3, 4, 5], vec![6]]);
    let mut long = effect_ask(0, "KXRT");
    long.ask.headline = "\u{1b}é".repeat(5000);
    let dialog = dialogs(&[long]).unwrap().remove(0);
    let question = dialog.arguments["questions"][0]["question"].as_str().unwrap();
    assert!(question.chars().count() <= MAX_QUESTION_CHARS && !question.contains('\u{1b}'));
}

#[test]
fn questions_within_the_limits_are_asked_in_a_dialog_and_others_are_not() {
    let two = || question("How?", "How", &["Fast", "Slow"], false);
    assert!(dialogs(&[ask_of(vec![two(), two(), two()])]).is_some());
    let four = question("How?", "How", &["1", "2", "3", "4"], false);
    assert!(dialogs(&[ask_of(vec![four])]).is_none());
    let long = question(&"é".repeat(501), "How", &["Fast", "Slow"], false);
    assert!(dialogs(&[ask_of(vec![long])]).is_none());
    assert!(dialogs(&[question_ask()]).is_none(), "several may be chosen");
}

#[test]
fn a_dialogs_answer_decides_by_code_and_label() {
    let asked = [effect_ask(0, "KXRT"), effect_ask(1, "BCDF"), effect_ask(2, "GHJK")];
    let read = |content: &str| {
        let reply = read_dialog_answer(&asked.iter().collect::<Vec<_>>(), content, NOW);
        assert_eq!(reply.left_out, []);
        shown(&reply.decided)
    };
    for (content, expected) in [
        (
            r#"{"answers":{"KXRT":{"label":"Allow once"},"BCDF":{"label":"Deny"},"GHJK":{"label":"Allow for this session"}}}"#,
            "0=once 1=no 2=session",
        ),
        (r#"{"answers":{"GHJK":{"label":"allow once"}}}"#, "0=no 1=no 2=once"),
        (r#"{"answers":{"KXRT":{"label":"not so fast"}}}"#, "0=no:not so fast 1=no 2=no"),
        (r#"{"answers":{"KXRT":{"label":"1"}}}"#, "0=no:1 1=no 2=no"),
        (r#"{"answers":{"KXRT":"Allow once"}}"#, "0=no 1=no 2=no"),
        (r#"{"answers":{"KXRT":{"label":["Allow once"]}}}"#, "0=no 1=no 2=no"),
        (r#"{"answers":["Allow once"]}"#, "0=no 1=no 2=no"),
        (r#"{"answers":{}}"#, "0=no 1=no 2=no"),
        ("Error: tool call rejected by user.", "0=no 1=no 2=no"),
        ("Allow once", "0=no 1=no 2=no"),
        ("1", "0=no 1=no 2=no"),
        ("", "0=no 1=no 2=no"),
    ] {
        assert_eq!(read(content), expected, "{content}");
    }
}

#[test]
fn a_dialogs_answer_to_questions_is_a_label_or_the_persons_words() {
    let asked = ask_of(vec![
        question("How?", "How", &["Fast", "Slow"], false),
        question("When?", "When", &["Now", "Later"], false),
    ]);
    let read = |content: &str| shown(&read_dialog_answer(&[&asked], content, NOW).decided);
    let both = r#"{"answers":{"q1":{"label":"slow"},"q2":{"label":"at noon"}}}"#;
    assert_eq!(read(both), "Slow | at noon");
    assert_eq!(read(r#"{"answers":{"q2":{"label":"Now"}}}"#), "(no answer) | Now");
    assert_eq!(read("Error: tool call rejected by user."), "0=no");
}

/// Questions of one ask: each has two options.
fn questions(texts: &[&str]) -> Vec<Question> {
    texts.iter().map(|text| question(text, "One", &["Yes", "No"], false)).collect()
}

/// The ids of the questions in each dialog.
fn ids(dialogs: &[Dialog]) -> Vec<Vec<String>> {
    let id = |question: &Value| question["id"].as_str().unwrap().to_owned();
    let of_dialog = |dialog: &Dialog| {
        dialog.arguments["questions"].as_array().unwrap().iter().map(id).collect()
    };
    dialogs.iter().map(of_dialog).collect()
}

#[test]
fn questions_that_do_not_fit_come_in_a_further_dialog() {
    let asked = ask_of(questions(&["a?", "b?", "c?", "d?"]));
    let both = dialogs(std::slice::from_ref(&asked)).unwrap();
    assert_eq!(ids(&both), [vec!["q1", "q2", "q3"], vec!["q4"]]);
    assert!(both.iter().all(|dialog| dialog.asks == [0]));

    let first = r#"{"answers":{"q1":{"label":"yes"},"q3":{"label":"maybe"},"q4":{"label":"No"}}}"#;
    let reply = read_dialog_answer(&[&asked], first, NOW);
    assert!(reply.decided.is_empty());
    let [rest] = &reply.left_out[..] else { panic!("{reply:?}") };
    assert_eq!(rest.answered, ["Yes", "(no answer)", "maybe"]);
    assert_eq!(Asked { answered: Vec::new(), ..rest.clone() }, asked, "the same ask");
    assert_eq!(ids(&dialogs(std::slice::from_ref(rest)).unwrap()), [vec!["q4"]]);

    let read = |content: &str, now_ms| {
        let reply = read_dialog_answer(&[rest], content, now_ms);
        assert_eq!(reply.left_out, []);
        shown(&reply.decided)
    };
    let last = r#"{"answers":{"q1":{"label":"No"},"q4":{"label":"no"}}}"#;
    assert_eq!(read(last, NOW), "Yes | (no answer) | maybe | No");
    assert_eq!(read("Error: tool call rejected by user.", NOW), "0=no");
    assert_eq!(read(last, rest.expires_ms), "0=late");
}

#[test]
fn an_ask_that_was_recorded_before_there_were_further_dialogs_is_read() {
    let mut recorded = serde_json::to_value(question_ask()).unwrap();
    recorded.as_object_mut().unwrap().remove("answered").unwrap();
    let asked: Asked = serde_json::from_value(recorded).unwrap();
    assert_eq!(asked.unanswered().len(), 2);
}

#[test]
fn toolhand_approval_is_answered_with_a_choice_word() {
    let asked = effect_ask(0, "KXRT");
    let arguments = toolhand_approval(&asked).unwrap();
    assert_eq!(arguments["approval_id"], asked.id.as_str());
    assert_eq!(arguments["choices"], json!(["allow", "always", "deny"]));
    let own = own_ask("KXRT");
    let labels = json!(["go on", "go on faster", "stay"]);
    assert_eq!(toolhand_approval(&own).unwrap()["choices"], labels);
    for (content, expected) in
        [("\"go on faster\"", "0=choice 2"), ("1", "0=choice 1"), ("Error: x", "0=no")]
    {
        assert_eq!(shown(&[read_toolhand_approval(&own, content, NOW)]), expected);
    }
    assert_eq!(toolhand_approval(&question_ask()), None);
    for (content, expected) in [
        ("allow", "0=once"),
        ("\"always\"", "0=session"),
        ("deny", "0=no"),
        ("Error: cancelled", "0=no"),
        ("timed out", "0=no:timed out"),
        (r#"{"decision":"allow"}"#, r#"0=no:{"decision":"allow"}"#),
        ("", "0=no"),
    ] {
        assert_eq!(shown(&[read_toolhand_approval(&asked, content, NOW)]), expected);
    }
}
