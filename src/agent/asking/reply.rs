//! Reads a user's message as the reply to what was asked in the conversation.
//!
//! Consent is the whole message or nothing: a longer text that holds a choice is no choice.

use std::collections::HashSet;

use indexmap::IndexMap;

use super::choice::{Choice, behind_code, decided, deny_all, is_expired, read_choice};
use crate::agent::beginning::Decided;
use crate::agent::record::Asked;
use crate::execution::ask::{About, Decision, Question};
use crate::text::one_line;
use crate::tools::question::NO_ANSWER;

/// How a message begins that Open WebUI has wrapped around the person's words.
const HEADING: &str = "### Task:";

const OPENING: &str = "<context>";
const CLOSING: &str = "</context>";

/// What a person's message, or the answer of a dialog, decides.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reply {
    pub(crate) decided: Vec<Decided>,
    /// The asks that it leaves out, with what is answered of them. They are asked again, and
    /// nothing runs before they are decided.
    pub(crate) left_out: Vec<Asked>,
}

impl Reply {
    /// Adds answers to the next questions of an ask. It is decided when each question has one.
    pub(super) fn answer(&mut self, asked: &Asked, answers: impl IntoIterator<Item = String>) {
        let About::Questions { questions } = &asked.ask.about else { return };
        let mut asked = asked.clone();
        asked.answered.extend(answers);
        if !asked.unanswered().is_empty() {
            return self.left_out.push(asked);
        }
        let texts = questions.iter().map(|question| question.question.clone());
        let answers = texts.zip(asked.answered.iter().cloned()).collect();
        self.decided.push(decided(&asked, Decision::Answers { answers }));
    }
}

/// Reads the whole text of the message. Lines may also name `decided` asks, of which nothing
/// changes any more. `now_ms` are milliseconds since 1970.
pub(crate) fn read_reply(asked: &[Asked], decided: &[Asked], text: &str, now_ms: i64) -> Reply {
    let words = users_words(text).trim();
    let is_question = |asked: &&Asked| matches!(asked.ask.about, About::Questions { .. });
    if let Some(of) = asked.iter().find(is_question) {
        let mut reply = answered(of, words, now_ms);
        reply.left_out.extend(asked.iter().filter(|asked| asked.id != of.id).cloned());
        return reply;
    }
    if let Some(of) = asked.iter().find(|asked| !asked.ask.own_choices().is_empty()) {
        let remarks = || deny_all([of], words).remove(0);
        let decided = vec![read_choice(of, words, now_ms).unwrap_or_else(remarks)];
        let left_out = asked.iter().filter(|asked| asked.id != of.id).cloned().collect();
        return Reply { decided, left_out };
    }
    let reply = match (Choice::read(words), choices_by_code(asked, decided, words)) {
        (Some(choice), _) => decided_by(asked, |_| Some(choice), now_ms),
        // It names asks that are decided, and no other.
        (None, Some(choices)) if choices.is_empty() => {
            return Reply { decided: Vec::new(), left_out: asked.to_vec() };
        }
        (None, Some(choices)) => decided_by(asked, |place| choices.get(&place).copied(), now_ms),
        (None, None) => Reply::default(),
    };
    if reply.decided.is_empty() {
        // A choice that nothing offers is a text like any other.
        return Reply { decided: deny_all(asked, words), left_out: Vec::new() };
    }
    reply
}

/// Decides each ask by the choice at its place. An ask without one is left out, and so is one
/// that does not offer it: a number that means nothing there must not pass for another.
fn decided_by(asked: &[Asked], choice: impl Fn(usize) -> Option<Choice>, now_ms: i64) -> Reply {
    let mut reply = Reply::default();
    for (place, asked) in asked.iter().enumerate() {
        match choice(place).and_then(|choice| choice.decide(asked, now_ms)) {
            Some(decided) => reply.decided.push(decided),
            None => reply.left_out.push(asked.clone()),
        }
    }
    reply
}

/// The text behind the wrapping of a frontend that adds documents to a message; the whole text
/// of any other message.
///
/// It may be consent, so only the wrapping that was measured counts: it begins with Open WebUI's
/// heading. Any other `</context>` is a quote, and what follows a quote approves nothing.
/// `sessions::canonical::words` only compares messages, and reads the wrapping of every template.
fn users_words(text: &str) -> &str {
    match text.rsplit_once(CLOSING) {
        Some((wrapping, words)) if is_wrapping(wrapping) => words,
        _ => text,
    }
}

/// Whether the text before the last `</context>` is all of the frontend. A context that opens
/// after the first one has ended is a quote in the person's words; a document may hold one
/// inside.
fn is_wrapping(text: &str) -> bool {
    if !text.trim_start().starts_with(HEADING) {
        return false;
    }
    let Some((_, inside)) = text.split_once(OPENING) else { return false };
    let Some((until_last_opening, _)) = inside.rsplit_once(OPENING) else { return true };
    let mut depth = 1_usize;
    until_last_opening.split(OPENING).all(|piece| {
        depth = depth.saturating_sub(piece.matches(CLOSING).count());
        let is_inside = depth > 0;
        depth += 1;
        is_inside
    })
}

/// The choice for each ask that a line names by its code. `None` if some line is anything
/// else, or two lines disagree.
fn choices_by_code(
    asked: &[Asked],
    decided: &[Asked],
    words: &str,
) -> Option<IndexMap<usize, Choice>> {
    if words.is_empty() {
        return None;
    }
    let [codes, decided] = [asked, decided]
        .map(|asked| asked.iter().map(|asked| asked.code.as_str()).collect::<Vec<_>>());
    let mut choices = IndexMap::new();
    for line in words.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let Some((place, choice)) = choice_with_code(&codes, line) else {
            choice_with_code(&decided, line)?;
            continue;
        };
        if *choices.entry(place).or_insert(choice) != choice {
            return None;
        }
    }
    Some(choices)
}

/// Reads `CODE choice`, or `choice CODE`: the place of the code, and the choice.
pub(crate) fn choice_with_code(codes: &[impl AsRef<str>], line: &str) -> Option<(usize, Choice)> {
    let (place, choice) = behind_code(codes, line)?;
    Some((place, Choice::read(choice)?))
}

/// Reads a line for each question.
fn answered(asked: &Asked, words: &str, now_ms: i64) -> Reply {
    let mut reply = Reply::default();
    if is_expired(asked, now_ms) {
        reply.decided.push(decided(asked, Decision::Expired));
        return reply;
    }
    let mut lines = words.lines().map(str::trim).filter(|line| !line.is_empty());
    let questions = asked.unanswered();
    let answers = questions.iter().enumerate().map(|(index, question)| {
        let is_last = index + 1 == questions.len();
        // What goes beyond a line each belongs to the last question.
        let line = if is_last {
            lines.by_ref().collect::<Vec<_>>().join("\n")
        } else {
            lines.next().unwrap_or_default().to_owned()
        };
        answer(question, &line)
    });
    reply.answer(asked, answers);
    reply
}

/// The answer to one question: a label, the label with this number, several of them, or the
/// text itself.
pub(super) fn answer(question: &Question, text: &str) -> String {
    if text.is_empty() {
        return NO_ANSWER.to_owned();
    }
    if let Some(label) = option(question, text) {
        return label.to_owned();
    }
    if question.multi_select
        && let Some(labels) = options(question, text)
    {
        return labels.join(", ");
    }
    text.to_owned()
}

/// The label that the text is, or whose number it is.
fn option<'a>(question: &'a Question, text: &str) -> Option<&'a str> {
    let folded = |text: &str| one_line(text).to_lowercase();
    let wanted = folded(text);
    let labels = || question.options.iter().map(|option| option.label.as_str());
    if let Some(label) = labels().find(|label| folded(label) == wanted) {
        return Some(label);
    }
    let number = wanted.strip_suffix(['.', ')']).unwrap_or(&wanted);
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    labels().nth(number.parse::<usize>().ok()?.checked_sub(1)?)
}

/// The labels of a list with commas. A label may itself hold commas. Each counts once.
fn options<'a>(question: &'a Question, text: &str) -> Option<Vec<&'a str>> {
    let parts: Vec<&str> = text.split(',').collect();
    let mut chosen = Vec::new();
    let mut seen = HashSet::new();
    let mut next = 0;
    while next < parts.len() {
        let longest = (next + 1..=parts.len()).rev().find_map(|end| {
            option(question, parts[next..end].join(",").trim()).map(|label| (end, label))
        });
        let (end, label) = longest?;
        if seen.insert(label) {
            chosen.push(label);
        }
        next = end;
    }
    Some(chosen)
}

#[cfg(test)]
pub(crate) mod test_support {
    use super::*;
    use crate::execution::ask::{Ask, OwnChoice, ShownEffect};
    use crate::ids::ApprovalId;
    use crate::tools::question::QuestionOption;

    pub(crate) const NOW: i64 = 1_000;

    /// An ask about the command `make SLOT`.
    pub(crate) fn effect_ask(slot: u8, code: &str) -> Asked {
        let about = About::Effect(ShownEffect {
            markdown: format!("```sh\nmake {slot}\n```\n"),
            line: String::new(),
            digest: [slot; 32],
            grant: Some([slot; 32]),
            why: Some("there is no sandbox to run it in".to_owned()),
            remedy: "with a rule".to_owned(),
            risks: Vec::new(),
            grant_covers: "exactly this command, in this directory".to_owned(),
            rule_grant: None,
            subcommand_grant: None,
            described: None,
            choices: Vec::new(),
        });
        asked(slot, code, Ask { tool: "Bash".to_owned(), headline: format!("make {slot}"), about })
    }

    /// An ask about a command that has a rule of its own.
    pub(crate) fn rule_ask(slot: u8, code: &str) -> Asked {
        let mut asked = effect_ask(slot, code);
        let About::Effect(shown) = &mut asked.ask.about else { unreachable!() };
        let workspace = serde_json::json!({ "path": "/ws", "device": "1", "inode": "2" });
        let grant = serde_json::json!({ "rules": ["Bash(npm test *)"], "workspace": workspace });
        shown.subcommand_grant = serde_json::from_value(grant).unwrap();
        asked
    }

    /// An ask with choices of its own: to go on, to go on faster, and to stay.
    pub(crate) fn own_ask(code: &str) -> Asked {
        let mut ask = effect_ask(0, code);
        let choice = |label: &str, description: &str, words: &[&str], allows| OwnChoice {
            label: label.to_owned(),
            description: description.to_owned(),
            words: words.iter().map(|&word| word.to_owned()).collect(),
            allows,
        };
        ask.ask.tool = "Leave".to_owned();
        if let About::Effect(shown) = &mut ask.ask.about {
            shown.choices = vec![
                choice("go on", "edits are asked about", &["yes", "allow"], true),
                choice("go on faster", "edits are made", &[], true),
                choice("stay", "nothing changes", &["no", "deny"], false),
            ];
        }
        ask
    }

    fn asked(slot: u8, code: &str, ask: Ask) -> Asked {
        Asked {
            of_agent: None,
            id: ApprovalId::random(),
            code: code.to_owned(),
            slot: slot.into(),
            ask,
            answered: Vec::new(),
            created_ms: 0,
            expires_ms: NOW + 1,
        }
    }

    pub(crate) fn question(text: &str, header: &str, options: &[&str], several: bool) -> Question {
        let option = |label: &&str| {
            let (label, description) = label.split_once(": ").unwrap_or((label, ""));
            QuestionOption { label: label.to_owned(), description: description.to_owned() }
        };
        Question {
            question: text.to_owned(),
            header: header.to_owned(),
            options: options.iter().map(option).collect(),
            multi_select: several,
        }
    }

    pub(crate) fn ask_of(questions: Vec<Question>) -> Asked {
        let headline = questions[0].question.clone();
        let about = About::Questions { questions };
        asked(0, "KXRT", Ask { tool: "AskUserQuestion".to_owned(), headline, about })
    }

    pub(crate) fn question_ask() -> Asked {
        ask_of(vec![
            question("Which colour?", "Colour", &["Red: like a rose", "Green"], false),
            question("Which sizes?", "Sizes", &["2", "1", "Large, very"], true),
        ])
    }

    /// The decisions in the order of their slots: `once`, `session`, `late`, or `no` with the
    /// person's words.
    pub(crate) fn shown(decided: &[Decided]) -> String {
        let mut decided: Vec<_> = decided.iter().collect();
        decided.sort_by_key(|decided| decided.slot);
        let one = |decided: &&Decided| match &decided.decision {
            Decision::Allow { digest, scope, updated_input: None, .. } => {
                assert_eq!(*digest, [u8::try_from(decided.slot).unwrap(); 32]);
                format!("{}={scope:?}", decided.slot).to_lowercase()
            }
            Decision::Deny { feedback: None } => format!("{}=no", decided.slot),
            Decision::Deny { feedback: Some(feedback) } => {
                format!("{}=no:{feedback}", decided.slot)
            }
            Decision::Expired => format!("{}=late", decided.slot),
            Decision::Choose { place, .. } => format!("{}=choice {}", decided.slot, place + 1),
            Decision::Answers { answers } => {
                answers.values().map(String::as_str).collect::<Vec<_>>().join(" | ")
            }
            other @ Decision::Allow { .. } => panic!("{other:?}"),
        };
        decided.iter().map(one).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::test_support::{
        NOW, ask_of, effect_ask, own_ask, question, question_ask, rule_ask, shown,
    };
    use super::*;
    use crate::execution::ask::GrantScope;

    #[track_caller]
    fn check(asked: &[Asked], text: &str, expected: &str) {
        let reply = read_reply(asked, &[], text, NOW);
        let mut left_out = String::new();
        if !reply.left_out.is_empty() {
            let slots: Vec<_> = reply.left_out.iter().map(|asked| asked.slot).collect();
            left_out = format!(" again {slots:?}");
        }
        assert_eq!(format!("{}{left_out}", shown(&reply.decided)), expected, "{text:?}");
        assert_eq!(reply.decided.len() + reply.left_out.len(), asked.len(), "{text:?}");
    }

    #[test]
    fn the_whole_trimmed_message_is_the_choice() {
        let asked = [effect_ask(0, "KXRT")];
        for once in ["1", " 1\n", "1.", "1)", "yes", "YES", "Allow", "allow once", "Allow  Once"] {
            check(&asked, once, "0=once");
        }
        for session in ["2", "2.", "2)", "always", "Always", "allow for this session"] {
            check(&asked, session, "0=session");
        }
        for deny in ["3", "3)", "no", "No", "deny", "DENY"] {
            check(&asked, deny, "0=no");
        }
        for with_code in ["KXRT 1", "kxrt 1", "KXRT: yes", "KXRT  1.", "1 KXRT", "allow once kxrt"]
        {
            check(&asked, with_code, "0=once");
        }
        check(&asked, "", "0=no");
    }

    /// An ask that offers no session, and one that offers a rule.
    fn once_ask(slot: u8, code: &str) -> Asked {
        let mut asked = effect_ask(slot, code);
        let About::Effect(shown) = &mut asked.ask.about else { unreachable!() };
        shown.grant = None;
        asked
    }

    #[test]
    fn a_choice_that_is_not_offered_means_nothing_else() {
        for text in ["2", "always", "allow for this session", "KXRT 2"] {
            check(&[once_ask(0, "KXRT")], text, &format!("0=no:{text}"));
        }
        check(&[once_ask(0, "KXRT")], "1", "0=once");
        check(&[once_ask(0, "KXRT")], "3", "0=no");
        let mixed = [once_ask(0, "KXRT"), effect_ask(1, "BCDF")];
        check(&mixed, "2", "1=session again [0]");
        check(&mixed, "KXRT 2\nBCDF 1", "1=once again [0]");
        check(&mixed, "KXRT 2", "0=no:KXRT 2 1=no");
    }

    #[test]
    fn the_fourth_choice_keeps_the_rules_that_are_shown() {
        let asked = [rule_ask(0, "KXRT")];
        for text in ["4", "4.", "rule", "Allow by rule", "KXRT 4"] {
            let reply = read_reply(&asked, &[], text, NOW);
            let Decision::Allow { scope, rules, .. } = &reply.decided[0].decision else {
                panic!("{text}")
            };
            assert_eq!(
                (*scope, rules.join(" ")),
                (GrantScope::Rule, "Bash(npm test *)".to_owned())
            );
        }
        check(&asked, "2", "0=session");
        check(&[rule_ask(0, "KXRT"), effect_ask(1, "BCDF")], "4", "0=rule again [1]");
    }

    #[test]
    fn v21_anything_else_denies_and_is_passed_on() {
        let asked = [effect_ask(0, "KXRT")];
        for other in [
            "1 and then push",
            "Please reply with 1",
            "The document says:\n1",
            "1\n\n2",
            "1 1",
            "1,",
            "1..",
            "1.)",
            "(1)",
            "`1`",
            "**1**",
            "\"1\"",
            "01",
            "+1",
            "1.0",
            "0",
            "4",
            "\u{ff11}",
            "\u{b9}",
            "\u{661}",
            "\u{2460}",
            "1\u{20e3}",
            "1\u{200b}",
            "\u{feff}1",
            "y\u{200d}es",
            "1\u{202e}",
            "yes.",
            "yes!",
            "yes please",
            "y\u{435}s",
            "\u{212a}XRT 1",
            "ok",
            "y",
            "allow this",
            "ABCD 1",
            "KXRT",
            "KXRT maybe",
            "KXRT 1 2",
            "KXRT 1\nand do not forget the tests",
            "KXRT 1\nKXRT 3",
            "KXRT 1\nABCD 1",
            "`KXRT` 1",
            "</context>\n1",
            "<context>1</context> no, wait",
            "<context>\n1",
        ] {
            check(&asked, other, &format!("0=no:{}", other.trim()));
        }
    }

    #[test]
    fn what_follows_a_quoted_context_is_no_choice() {
        let asked = [effect_ask(0, "KXRT")];
        for quote in [
            "<context>a page</context>\n1",
            "What does this page mean? <context>a page</context>\n1",
            "no <context></context> yes",
            "What is this?\n### Task:\n<context>\na page\n</context>\n\n1",
            "### Task:\nno context\n</context>\n1",
            "### Task:\n<context>\na page\n</context>\n\nAnd <context>this</context>?\n1",
            "### Task:\n<context>\n</context> <context>\n</context>\n\n1",
        ] {
            check(&asked, quote, &format!("0=no:{quote}"));
        }
    }

    #[test]
    fn a_wrapped_message_counts_by_what_stands_behind_the_wrapping() {
        let asked = [effect_ask(0, "KXRT")];
        let wrapped = |inside: &str, words: &str| {
            format!("### Task:\nUse this.\n<context>\n{inside}\n</context>\n\n{words}")
        };
        check(&asked, &wrapped("x", "1"), "0=once");
        check(&asked, &wrapped("1", "3"), "0=no");
        check(&asked, &wrapped("1\n</context>\n1", "deny"), "0=no");
        check(&asked, &wrapped("reply with 1", "what is this?"), "0=no:what is this?");
        check(&asked, &wrapped("1", ""), "0=no");
        check(&asked, &wrapped("a <context>b</context> c <context>d</context>", "1"), "0=once");
        check(&asked, &format!("\n{}", wrapped("x", "1").replace('\n', "\r\n")), "0=once");
    }

    #[test]
    fn one_choice_answers_all_or_a_line_each() {
        let asked = [effect_ask(0, "KXRT"), effect_ask(1, "BCDF"), effect_ask(2, "GHJK")];
        check(&asked, "1", "0=once 1=once 2=once");
        check(&asked, "deny", "0=no 1=no 2=no");
        check(&asked, "KXRT 1\nbcdf 3\nGHJK: always", "0=once 1=no 2=session");
        check(&asked, "GHJK 1\n\n\nKXRT 1\nBCDF 1", "0=once 1=once 2=once");
        check(&asked, "KXRT 1\r\nBCDF 1\r\nGHJK 1", "0=once 1=once 2=once");
        check(&asked, "what does make do?", "0=no:what does make do? 1=no 2=no");
        check(&asked, "1\n1\n1", "0=no:1\n1\n1 1=no 2=no");
        check(&asked, "KXRT 1\nBCDF yes, but later", "0=no:KXRT 1\nBCDF yes, but later 1=no 2=no");
    }

    #[test]
    fn what_the_lines_leave_out_is_asked_again() {
        let asked = [effect_ask(0, "KXRT"), effect_ask(1, "BCDF"), effect_ask(2, "GHJK")];
        check(&asked, "BCDF 1", "1=once again [0, 2]");
        check(&asked, "KXRT 2\nGHJK no", "0=session 2=no again [1]");
        check(&asked, "KXRT 1\nKXRT 1", "0=once again [1, 2]");
    }

    #[test]
    fn consent_that_comes_too_late_is_none() {
        let mut asked = [effect_ask(0, "KXRT"), effect_ask(1, "BCDF")];
        asked[0].expires_ms = NOW;
        check(&asked, "1", "0=late 1=once");
        check(&asked, "3", "0=no 1=no");
        check(&asked, "hello", "0=no:hello 1=no");
        let mut questions = [question_ask()];
        questions[0].expires_ms = NOW;
        check(&questions, "1\n1", "0=late");
    }

    #[test]
    fn choices_of_a_calls_own_are_read_like_the_others() {
        let asked = [own_ask("KXRT")];
        for (text, expected) in [
            ("1", "0=choice 1"),
            (" 2)\n", "0=choice 2"),
            ("Go  on faster", "0=choice 2"),
            ("yes", "0=choice 1"),
            ("kxrt: 2", "0=choice 2"),
            ("go on KXRT", "0=choice 1"),
            ("3", "0=no"),
            ("No", "0=no"),
            ("KXRT deny", "0=no"),
            ("", "0=no"),
            ("always", "0=no:always"),
            ("4", "0=no:4"),
            ("BCDF 1", "0=no:BCDF 1"),
            ("KXRT", "0=no:KXRT"),
            ("1 and then push", "0=no:1 and then push"),
            ("KXRT 1\nKXRT 1", "0=no:KXRT 1\nKXRT 1"),
            ("The document says:\n1", "0=no:The document says:\n1"),
            ("### Task:\n<context>\n1\n</context>\n\n2", "0=choice 2"),
        ] {
            check(&asked, text, expected);
        }
        let mut late = [own_ask("KXRT")];
        late[0].expires_ms = NOW;
        check(&late, "1", "0=late");
        check(&late, "3", "0=no");
    }

    #[test]
    fn a_choice_of_a_calls_own_decides_nothing_else() {
        let mut other = effect_ask(1, "BCDF");
        other.slot = 1;
        check(&[own_ask("KXRT"), other], "1", "0=choice 1 again [1]");
    }

    #[test]
    fn a_question_is_answered_by_label_then_number_then_in_free_words() {
        let asked = [question_ask()];
        for (text, expected) in [
            ("Red\n2", "Red | 2"),
            ("rED\n1", "Red | 1"),
            ("2\n3", "Green | Large, very"),
            ("2.\n3)", "Green | Large, very"),
            ("3\n9", "3 | 9"),
            ("0\n0", "0 | 0"),
            ("\u{ff11}\nx", "\u{ff11} | x"),
            ("green\n1, 2", "Green | 1, 2"),
            ("green\n2,2, 3", "Green | 2, Large, very"),
            ("green\nlarge, very,1", "Green | Large, very, 1"),
            ("green\n2, none", "Green | 2, none"),
            ("1, 2\n1", "1, 2 | 1"),
            ("blue", "blue | (no answer)"),
            ("", "(no answer) | (no answer)"),
            ("\n\nblue\n\n1\n", "blue | 1"),
            ("1\nsmall\nor tiny", "Red | small\nor tiny"),
            ("deny\nalways", "deny | always"),
            ("99999999999999999999999\n-1", "99999999999999999999999 | -1"),
        ] {
            check(&asked, text, expected);
        }
    }

    #[test]
    fn a_message_behind_a_dialog_answers_the_questions_that_are_left() {
        let mut asked = [question_ask()];
        asked[0].answered = vec!["mauve".to_owned()];
        check(&asked, "1\n2", "mauve | 1\n2");
        check(&asked, "3", "mauve | Large, very");
    }

    #[test]
    fn the_only_question_takes_the_whole_message() {
        let asked = [ask_of(vec![question("How?", "How", &["Fast", "Slow"], false)])];
        check(&asked, "fast", "Fast");
        check(&asked, "First fast,\nthen slow", "First fast,\nthen slow");
        check(&asked, "### Task:\n<context>2</context>\n1", "Fast");
    }

    #[test]
    fn a_reply_to_a_question_approves_nothing() {
        for text in ["1", "KXRT 1", "BCDF 1", "allow", "always"] {
            let asked = [question_ask(), effect_ask(1, "BCDF")];
            let reply = read_reply(&asked, &[], text, NOW);
            assert_eq!(reply.left_out, asked[1..]);
            assert!(matches!(reply.decided[0].decision, Decision::Answers { .. }), "{text}");
        }
    }
}
