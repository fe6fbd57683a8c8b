//! Asks a person by a tool of the client: Open WebUI's `ask_user`, or `toolhand_approval`.

use serde_json::{Value, json};

use super::answers::answer;
use super::choice::{
    Choice, choices, decide_own, decided, deny_all, is_expired, meaning, read_choice,
};
use super::header::header;
use super::message::effect;
use super::outcome::ReplyOutcome;
use crate::agent::beginning::Decided;
use crate::agent::record::Asked;
use crate::execution::ask::{About, Ask, Decision, OwnChoice, Question};
use crate::markdown;
use crate::text;
use crate::tools::question::{NO_ANSWER, QuestionOption};

/// Open WebUI's tool that shows a dialog.
pub(crate) const ASK_USER: &str = "ask_user";

/// A client's tool that was made for us: it decides one approval.
pub(crate) const TOOLHAND_APPROVAL: &str = "toolhand_approval";

/// What `ask_user` can show: docs of Open WebUI's dialog, measured.
const MAX_QUESTIONS: usize = 3;
const OPTIONS: std::ops::RangeInclusive<usize> = 2..=3;
const MAX_QUESTION_CHARS: usize = 500;

/// Characters of the parts of an approval's question. With the line of the effect, of which the
/// whole stands in the message before, they are within what a question may have.
const MAX_TOOL_CHARS: usize = 60;
const MAX_DESCRIPTION_CHARS: usize = 80;

/// One call of `ask_user`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Dialog {
    pub(crate) arguments: Value,
    /// The asks that it is about, as places in the list.
    pub(crate) asks: Vec<usize>,
}

/// The calls of `ask_user` that ask about all of this, one after another. `None` if something
/// does not fit into any dialog: then all is asked in the conversation.
pub(crate) fn dialogs(asked: &[Asked]) -> Option<Vec<Dialog>> {
    let mut dialogs: Vec<Dialog> = Vec::new();
    let mut approvals = Vec::new();
    for (place, asked) in asked.iter().enumerate() {
        match &asked.ask.about {
            About::Effect(shown) if !shown.choices.is_empty() => {
                let questions = [own_choices(asked, &shown.choices)?];
                let arguments = json!({ "questions": questions });
                dialogs.push(Dialog { arguments, asks: vec![place] });
            }
            About::Effect(_) => approvals.push((place, approval(asked))),
            About::Questions { .. } => dialogs.extend(of_questions(place, asked)?),
        }
    }
    let approvals = approvals.chunks(MAX_QUESTIONS).map(|chunk| {
        let (asks, questions): (Vec<_>, Vec<_>) = chunk.iter().cloned().unzip();
        Dialog { arguments: json!({ "questions": questions }), asks }
    });
    // Approvals come first, a question alone after them.
    Some(approvals.chain(dialogs).collect())
}

/// The first option is badged as recommended, so it denies. There is room for two more: where a
/// rule can be kept, that stands in the place of the session, which a reply by its label still
/// chooses.
fn approval(asked: &Asked) -> Value {
    let mut choices = vec![Choice::Deny, Choice::AllowOnce];
    let wider = [Choice::AllowByRule, Choice::AllowForSession];
    choices.extend(wider.into_iter().find(|choice| choice.is_offered(&asked.ask)));
    let options: Vec<_> = choices
        .into_iter()
        .map(|choice| option(choice.label(), &capitalised(&meaning(choice, &asked.ask))))
        .collect();
    question_of(asked, &options)
}

/// The choices that a call offers itself, those first that decline it. `None` if they do not fit.
fn own_choices(asked: &Asked, choices: &[OwnChoice]) -> Option<Value> {
    let (allowing, declining): (Vec<_>, Vec<_>) = choices.iter().partition(|choice| choice.allows);
    let ordered = declining.into_iter().chain(allowing);
    let options: Vec<_> =
        ordered.map(|choice| option(&choice.label, &choice.description)).collect();
    OPTIONS.contains(&options.len()).then(|| question_of(asked, &options))
}

fn option(label: &str, description: &str) -> Value {
    json!({ "label": capitalised(label), "description": description })
}

/// The effect stands first, as in the message, and the model's words for it behind it.
fn question_of(asked: &Asked, options: &[Value]) -> Value {
    let Asked { code, ask, .. } = asked;
    let tool = markdown::plain_within(&ask.tool, MAX_TOOL_CHARS);
    let effect = ask.effect_line();
    let described = described(ask).map(|words| {
        let words = markdown::plain_within(&text::one_line(words), MAX_DESCRIPTION_CHARS);
        format!(" (in the model's words: “{}”)", words.replace(['“', '”'], "\""))
    });
    let question = format!("{tool} ({code}): {effect}{}", described.unwrap_or_default());
    json!({
        "id": code,
        "header": header(&ask.tool),
        "question": text::first_chars(&question, MAX_QUESTION_CHARS),
        "options": options,
        "allow_other": true,
    })
}

fn described(ask: &Ask) -> Option<&str> {
    match &ask.about {
        About::Effect(shown) => shown.described.as_deref(),
        About::Questions { .. } => None,
    }
}

fn capitalised(label: &str) -> String {
    let mut letters = label.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    format!("{}{}", first.unwrap_or_default(), letters.as_str())
}

/// The dialogs for the questions of one ask that have no answer yet.
fn of_questions(place: usize, asked: &Asked) -> Option<Vec<Dialog>> {
    let fits = |question: &Question| {
        OPTIONS.contains(&question.options.len())
            && !question.multi_select
            && question.question.chars().count() <= MAX_QUESTION_CHARS
    };
    let unanswered = asked.unanswered();
    if !unanswered.iter().all(fits) {
        return None;
    }
    let questions: Vec<_> = (asked.answered.len()..).zip(unanswered).map(in_dialog).collect();
    let dialogs = questions
        .chunks(MAX_QUESTIONS)
        .map(|chunk| Dialog { arguments: json!({ "questions": chunk }), asks: vec![place] });
    Some(dialogs.collect())
}

fn in_dialog((index, question): (usize, &Question)) -> Value {
    let option = |option: &QuestionOption| json!({ "label": option.label, "description": option.description });
    json!({
        "id": question_id(index),
        "header": question.header,
        "question": question.question,
        "options": question.options.iter().map(option).collect::<Vec<_>>(),
        "allow_other": true,
    })
}

/// `index` counts all questions of the ask, over its dialogs.
fn question_id(index: usize) -> String {
    format!("q{}", index + 1)
}

/// Reads the answer to a call of `ask_user` about these asks. What is no answer (a dialog that
/// was closed, an error, any other text) denies them. It leaves out an ask with more questions
/// than the dialog had.
pub(crate) fn read_dialog_answer(asked: &[&Asked], content: &str, now_ms: i64) -> ReplyOutcome {
    let mut reply = ReplyOutcome::default();
    let answers = serde_json::from_str::<Value>(content)
        .ok()
        .and_then(|mut answer| answer.get_mut("answers").map(Value::take).filter(Value::is_object));
    let Some(answers) = answers else {
        reply.decided = deny_all(asked.iter().copied(), "");
        return reply;
    };
    let label_of = |id: &str| answers.get(id).and_then(|answer| answer["label"].as_str());
    for asked in asked {
        match &asked.ask.about {
            About::Effect(_) => {
                reply.decided.push(chosen(asked, label_of(&asked.code), now_ms));
            }
            About::Questions { .. } if is_expired(asked, now_ms) => {
                reply.decided.push(decided(asked, Decision::Expired));
            }
            About::Questions { .. } => {
                let of_dialog = (asked.answered.len()..).zip(asked.unanswered());
                let answers = of_dialog.take(MAX_QUESTIONS).map(|(index, question)| {
                    let label = label_of(&question_id(index)).map(str::trim);
                    label.map_or(NO_ANSWER.to_owned(), |label| answer(question, label))
                });
                reply.answer(asked, answers);
            }
        }
    }
    reply
}

/// Only the label of a choice is one. Other words deny, and are passed on.
fn chosen(asked: &Asked, label_of_answer: Option<&str>, now_ms: i64) -> Decided {
    let Some(words) = label_of_answer else {
        return decided(asked, Decision::Deny { feedback: None });
    };
    let is_chosen = |label: &str| words.trim().eq_ignore_ascii_case(label);
    let own = asked.ask.own_choices();
    if let Some(place) = own.iter().position(|choice| is_chosen(&choice.label)) {
        return decide_own(asked, place, now_ms);
    }
    if own.is_empty()
        && let Some(choice) = Choice::ALL.into_iter().find(|choice| is_chosen(choice.label()))
        && let Some(decided) = choice.decide(asked, now_ms)
    {
        return decided;
    }
    deny_all([asked], words).remove(0)
}

/// The arguments of a call of `toolhand_approval` about an effect. `None` for a question, which
/// it cannot ask.
pub(crate) fn toolhand_approval(asked: &Asked) -> Option<Value> {
    match &asked.ask.about {
        About::Questions { .. } => None,
        About::Effect(_) => Some(json!({
            "approval_id": asked.id,
            "code": asked.code,
            "tool": asked.ask.tool,
            "effect": effect(asked),
            "choices": choices(&asked.ask),
        })),
    }
}

/// Reads the answer to a call of `toolhand_approval`: a choice, also as a JSON string. Any
/// other text denies, and is passed on unless it is an error.
pub(crate) fn read_toolhand_approval(asked: &Asked, content: &str, now_ms: i64) -> Decided {
    let unquoted = serde_json::from_str::<String>(content);
    let words = unquoted.as_deref().unwrap_or(content);
    match read_choice(asked, words, now_ms) {
        Some(decided) => decided,
        None if words.trim_start().starts_with("Error") => deny_all([asked], "").remove(0),
        None => deny_all([asked], words).remove(0),
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::agent::asking::reply::test_support::{
        NOW, ask_of, effect_ask, own_ask, question, question_ask, rule_ask, shown,
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

        let first =
            r#"{"answers":{"q1":{"label":"yes"},"q3":{"label":"maybe"},"q4":{"label":"No"}}}"#;
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
}
