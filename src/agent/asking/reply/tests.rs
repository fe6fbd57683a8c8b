//! Replies in a few words, and what they decide.

use super::*;
use crate::agent::asking::test_support::{
    NOW, ask_of, effect_ask, own_ask, question, question_ask, rule_ask, shown,
};
use crate::execution::ask::{Decision, GrantScope};

/// The question that these asks are shown in.
const QUESTION: &str = "**Bash needs your approval** (`KXRT`)\n\nReply with the number alone.";

#[track_caller]
fn check(asked: &[Asked], text: &str, expected: &str) {
    check_with(CodeRequirement::Optional, asked, text, expected);
}

#[track_caller]
fn check_with(code_requirement: CodeRequirement, asked: &[Asked], text: &str, expected: &str) {
    let to = ReplyTarget { asked, decided: &[], question: QUESTION, code_requirement };
    let reply = read_reply(to, text, NOW);
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
    for once in [
        "1",
        " 1\n",
        "1.",
        "1)",
        "\u{ff11}",
        "\u{ff11})",
        "yes",
        "YES",
        "Yes.",
        "y",
        "Y.",
        "ok",
        "OK",
        "Allow",
        "allow once",
        "Allow  Once",
        "Allow once.",
        "> Reply with the number alone.\n\n1",
        "1\n\nReply with the number alone.",
        "1 allow once",
        "1. Allow once",
        "`KXRT 1`",
    ] {
        check(&asked, once, "0=once");
    }
    for session in ["2", "2.", "2)", "\u{ff12}", "always", "Always.", "allow for this session."] {
        check(&asked, session, "0=session");
    }
    for deny in ["3", "3)", "no", "No.", "n", "deny", "DENY"] {
        check(&asked, deny, "0=no");
    }
    for with_code in ["KXRT 1", "kxrt 1", "KXRT: yes", "KXRT  1.", "1 KXRT", "allow once kxrt"] {
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
        let code_requirement = CodeRequirement::Optional;
        let to = ReplyTarget { asked: &asked, decided: &[], question: QUESTION, code_requirement };
        let reply = read_reply(to, text, NOW);
        let Decision::Allow { scope, rules, .. } = &reply.decided[0].decision else {
            panic!("{text}")
        };
        assert_eq!((*scope, rules.join(" ")), (GrantScope::Rule, "Bash(npm test *)".to_owned()));
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
        "\u{ff11}\u{ff0e}",
        "\u{b9}",
        "\u{661}",
        "\u{2460}",
        "1\u{20e3}",
        "1\u{200b}",
        "\u{feff}1",
        "y\u{200d}es",
        "1\u{202e}",
        "yes..",
        "yes!",
        "o\u{212a}",
        "> The document says\n1",
        "yes please",
        "y\u{435}s",
        "\u{212a}XRT 1",
        "okay then",
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
fn where_the_code_is_required_a_bare_choice_decides_nothing() {
    let check = |asked: &[Asked], text, expected| {
        check_with(CodeRequirement::Required, asked, text, expected);
    };
    let asked = [effect_ask(0, "KXRT"), effect_ask(1, "BCDF")];
    for bare in ["1", "yes", "Always", "3", "no", "\u{ff11}", "> Reply with the number alone.\n1"] {
        check(&asked, bare, " again [0, 1]");
        check(
            &[own_ask("KXRT")],
            bare,
            if bare == "Always" { "0=no:Always" } else { " again [0]" },
        );
    }
    check(&asked, "KXRT 1\nbcdf: no", "0=once 1=no");
    check(&asked, "KXRT 1", "0=once again [1]");
    check(&asked, "not now", "0=no:not now 1=no");
    check(&[own_ask("KXRT")], "kxrt 2", "0=choice 2");
    let questions = [question_ask()];
    for bare in ["1", "1\n1", "Red", "green\n2, 1", "yes", "9"] {
        check(&questions, bare, " again [0]");
    }
    check(&questions, "KXRT 1\n2", "Red | 2");
    check(&questions, "KXRT:\nred\n3", "Red | Large, very");
    check(&questions, "2 KXRT", "Green | (no answer)");
    check(&questions, "mauve\n1", "mauve | 1");
}

#[test]
fn the_code_of_another_question_decides_nothing() {
    for code_requirement in [CodeRequirement::Optional, CodeRequirement::Required] {
        for asked in [[effect_ask(0, "KXRT")], [own_ask("KXRT")], [question_ask()]] {
            for other in ["BCDF 1", "BCDF 3", "bcdf: yes", "1 BCDF", "BCDF 1\nGHJK 1"] {
                check_with(code_requirement, &asked, other, " again [0]");
            }
        }
        check_with(code_requirement, &[effect_ask(0, "KXRT")], "BCDF 1\nKXRT 3", "0=no");
    }
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
        ("BCDF 1", " again [0]"),
        ("ABCD 1", "0=no:ABCD 1"),
        ("KXRT", "0=no:KXRT"),
        ("Go on.", "0=choice 1"),
        ("y", "0=choice 1"),
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
        ("\u{ff11}\nx", "Red | x"),
        ("green.\n2\u{ff0c}1", "Green | 2, 1"),
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
        ("-1\n1 or 2", "-1 | 1 or 2"),
    ] {
        check(&asked, text, expected);
    }
}

#[test]
fn several_single_choices_may_stand_on_one_line() {
    let one = |text: &str| question(text, text, &["Red", "Green", "a, b"], false);
    let asked = [ask_of(vec![one("A?"), one("B?")])];
    for (text, expected) in [
        ("1, 2", "Red | Green"),
        ("2,1", "Green | Red"),
        ("\u{ff12}\u{ff0c}1.", "Green | Red"),
        ("green, 1)", "Green | Red"),
        ("KXRT 1, 2", "Red | Green"),
        ("1, 2\n1", "1, 2 | Red"),
        ("1, 2, 3", "1, 2, 3 | (no answer)"),
        ("1 2", "1 2 | (no answer)"),
        ("1, blue", "1, blue | (no answer)"),
        ("a, b", "a, b | (no answer)"),
    ] {
        check(&asked, text, expected);
    }
    check(&[ask_of(vec![one("A?")])], "1, 2", "1, 2");
}

#[test]
fn a_number_beyond_the_options_is_asked_again_once() {
    let again = |asked: &[Asked], text: &str| {
        let code_requirement = CodeRequirement::Optional;
        let reply = read_reply(
            ReplyTarget { asked, decided: &[], question: QUESTION, code_requirement },
            text,
            NOW,
        );
        assert!(reply.decided.is_empty(), "{text:?}: {:?}", reply.decided);
        reply.left_out
    };
    for text in ["3\n9", "0\n0", "9", "99999999999999999999999\n1", "\u{ff19}"] {
        let asked = again(&[question_ask()], text);
        assert_eq!((asked[0].answered.len(), asked[0].repeated), (0, Some(0)), "{text:?}");
    }
    check(&again(&[question_ask()], "9"), "9\n1", "9 | 1");
    check(&again(&[question_ask()], "9"), "1\n2", "Red | 2");
    for text in ["green\n9", "green\n1, 9", "green\n0"] {
        let asked = again(&[question_ask()], text);
        assert_eq!(asked[0].answered, ["Green"], "{text:?}");
        check(&asked, "9", "Green | 9");
        check(&asked, "1, 9", "Green | 1, 9");
    }
    // Each question is asked again by itself.
    let asked = again(&again(&[question_ask()], "9"), "9\n9");
    assert_eq!((asked[0].answered.as_slice(), asked[0].repeated), (&["9".to_owned()][..], Some(1)));
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
    for text in ["1", "KXRT 1", "allow", "always"] {
        let asked = [question_ask(), effect_ask(1, "BCDF")];
        let code_requirement = CodeRequirement::Optional;
        let to = ReplyTarget { asked: &asked, decided: &[], question: QUESTION, code_requirement };
        let reply = read_reply(to, text, NOW);
        assert_eq!(reply.left_out, asked[1..]);
        assert!(matches!(reply.decided[0].decision, Decision::Answers { .. }), "{text}");
    }
}
