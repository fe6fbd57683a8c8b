//! Writes the message in which a person is asked.

use std::fmt::Write as _;

use super::bare_choice::CodeRequirement;
use super::choice::{Choice, offered_rules};
use crate::agent::beginning::AskingChannel;
use crate::agent::record::Asked;
use crate::execution::ask::{About, Ask, OwnChoice, Question, ShownEffect, ShownRisk};
use crate::markdown;
use crate::permissions::SandboxEffect;

/// What is asked, as Markdown, and how to answer in this channel. Where the client's own tool
/// asks, its dialog has the choices, and the message holds the effects alone.
pub(crate) fn message(
    asked: &[Asked],
    channel: AskingChannel,
    code_requirement: CodeRequirement,
) -> String {
    let mut message = String::new();
    for asked in asked {
        if !message.is_empty() {
            message.push('\n');
        }
        let _ = write!(message, "{}\n\n{}", title(asked), effect(asked));
    }
    match channel {
        AskingChannel::AskUser | AskingChannel::ToolhandApproval | AskingChannel::Parent => {}
        AskingChannel::Rest | AskingChannel::WaitingRest => {
            message.push_str(&where_to_decide(asked));
        }
        AskingChannel::Conversation | AskingChannel::Nobody => {
            message.push_str(&how_to_reply(asked, code_requirement));
        }
    }
    message.trim_end().to_owned()
}

fn title(asked: &Asked) -> String {
    let Asked { code, ask, .. } = asked;
    let tool = markdown::line(&ask.tool);
    match &ask.about {
        About::Effect(ShownEffect { why, .. }) => {
            let why = why.as_ref().map(|why| format!(": {}", markdown::line(why)));
            format!("**{tool} needs your approval** (`{code}`){}", why.unwrap_or_default())
        }
        About::Questions { .. } if asked.unanswered().len() == 1 => {
            format!("**A question** (`{code}`)")
        }
        About::Questions { .. } => format!("**Some questions** (`{code}`)"),
    }
}

/// What a call would do, or the model's questions without an answer, as Markdown.
pub(crate) fn effect(asked: &Asked) -> String {
    match &asked.ask.about {
        About::Effect(shown) => {
            let (risks, sandbox) = (risks(&shown.risks), sandbox(&shown.sandbox));
            format!("{}\n{risks}{sandbox}", shown.markdown.trim_end())
        }
        About::Questions { .. } => {
            asked.unanswered().iter().map(question).collect::<Vec<_>>().join("\n")
        }
    }
}

/// What speaks against a call.
fn risks(risks: &[ShownRisk]) -> String {
    let mut text = String::new();
    for risk in risks {
        let _ = writeln!(text, "\n- risk ({}): {}", risk.severity, markdown::line(&risk.text));
    }
    text
}

/// What the sandbox does to a call.
fn sandbox(effects: &[SandboxEffect]) -> String {
    let mut text = String::new();
    for effect in effects {
        let _ = writeln!(text, "\n- {}", markdown::line(&effect.sentence()));
    }
    text
}

fn question(question: &Question) -> String {
    let header = markdown::line(&question.header);
    let head = if header.is_empty() { String::new() } else { format!("**{header}**: ") };
    let several = if question.multi_select { " (several may be chosen)" } else { "" };
    let mut text = format!("{head}{}{several}\n\n", markdown::line(&question.question));
    for (index, option) in question.options.iter().enumerate() {
        let (label, description) =
            (markdown::line(&option.label), markdown::line(&option.description));
        let colon = if description.is_empty() { "" } else { ": " };
        let _ = writeln!(text, "- `{}` {label}{colon}{description}", index + 1);
    }
    text
}

fn how_to_reply(asked: &[Asked], code_requirement: CodeRequirement) -> String {
    match asked {
        [] => String::new(),
        [first @ Asked { ask: Ask { about: About::Questions { .. }, .. }, .. }, ..] => {
            how_to_answer(first, code_requirement)
        }
        [one] if !one.ask.own_choices().is_empty() => {
            own_choices(one.ask.own_choices(), &which_number(one, code_requirement))
        }
        [one] => format!(
            "\n{}\n{} Any other reply denies it and is passed to the model.\n",
            choices(std::slice::from_ref(one)),
            which_number(one, code_requirement)
        ),
        all => {
            let example: Vec<_> = all.iter().map(|asked| format!("`{} 1`", asked.code)).collect();
            let example = example.join(", ");
            let number_for_all = match code_requirement {
                CodeRequirement::Optional => format!(
                    "Reply with one number alone for all of them, or with one line for each: {example}."
                ),
                CodeRequirement::Required => format!(
                    "A number alone does not count here. Reply with one line for each, its code and \
                     a number: {example}."
                ),
            };
            format!(
                "\n{}\n{number_for_all} Any other reply denies them all and is passed to the model.\n",
                choices(all)
            )
        }
    }
}

/// Says how a reply must give its number.
fn which_number(asked: &Asked, code_requirement: CodeRequirement) -> String {
    match code_requirement {
        CodeRequirement::Optional => "Reply with the number alone.".to_owned(),
        CodeRequirement::Required => format!(
            "A number alone does not count here. Reply with the code and the number, such as `{} 1`.",
            asked.code
        ),
    }
}

/// The choices that at least one of the asks offers, each with its number.
fn choices(asked: &[Asked]) -> String {
    let mut text = String::new();
    for (number, choice) in (1..).zip(Choice::ALL) {
        let offering: Vec<_> = asked.iter().filter(|asked| choice.is_offered(&asked.ask)).collect();
        if offering.is_empty() {
            continue;
        }
        let covers = match choice {
            Choice::AllowForSession => covered(asked, &offering),
            Choice::AllowByRule => kept_rules(asked, &offering),
            Choice::AllowOnce | Choice::Deny => String::new(),
        };
        let _ = writeln!(text, "- `{number}` {}{covers}", choice.label());
    }
    text
}

/// The choices that a call offers itself.
fn own_choices(choices: &[OwnChoice], which_number: &str) -> String {
    let mut text = "\n".to_owned();
    for (index, choice) in choices.iter().enumerate() {
        let (label, description) =
            (markdown::line(&choice.label), markdown::line(&choice.description));
        let _ = writeln!(text, "- `{}` {label}: {description}", index + 1);
    }
    let declines = choices.iter().position(|choice| !choice.allows);
    let counts = match declines {
        Some(place) => format!("counts as `{}`", place + 1),
        None => "declines it".to_owned(),
    };
    let _ = writeln!(text, "\n{which_number} Any other reply {counts} and is passed to the model.");
    text
}

/// What the choice for the session covers.
fn covered(asked: &[Asked], offering: &[&Asked]) -> String {
    match (asked, offering) {
        ([Asked { ask: Ask { about: About::Effect(shown), .. }, .. }], _) => {
            format!(" ({})", markdown::line(&shown.grant_covers))
        }
        _ if offering.len() < asked.len() => {
            format!(
                " (exactly these commands and paths, or any edit of these files; {})",
                only(offering)
            )
        }
        _ => " (exactly these commands and paths, or any edit of these files)".to_owned(),
    }
}

/// The rules that are kept, each of them whole.
fn kept_rules(asked: &[Asked], offering: &[&Asked]) -> String {
    let mut rules: Vec<&str> = Vec::new();
    for rule in offering.iter().flat_map(|asked| offered_rules(&asked.ask)) {
        if !rules.contains(&rule.as_str()) {
            rules.push(rule);
        }
    }
    let shown: Vec<_> = rules.into_iter().map(markdown::code).collect();
    let restriction =
        if offering.len() < asked.len() { format!("; {}", only(offering)) } else { String::new() };
    format!(
        " (from now on in this project, in the same directory: {}{restriction})",
        shown.join(", ")
    )
}

/// Which of several asks offer a choice. The others are asked again.
fn only(offering: &[&Asked]) -> String {
    let codes: Vec<_> = offering.iter().map(|asked| format!("`{}`", asked.code)).collect();
    format!("only {}", codes.join(", "))
}

fn how_to_answer(asked: &Asked, code_requirement: CodeRequirement) -> String {
    let questions = asked.unanswered();
    let several = if questions.iter().any(|question| question.multi_select) {
        " Several choices are separated by commas."
    } else {
        ""
    };
    let with_code = match code_requirement {
        CodeRequirement::Optional => String::new(),
        CodeRequirement::Required => format!(
            " Numbers alone do not count here: begin the reply with the code, such as `{} 1`.",
            asked.code
        ),
    };
    let again = match asked.repeated {
        Some(_) => {
            " There is no option with that number. If you send it again, the model gets it as text."
        }
        None => "",
    };
    match questions.len() {
        1 => format!("\nReply with a number, or in your own words.{several}{with_code}{again}\n"),
        _ => format!(
            "\nReply with one line for each, in this order: a number, or your own words.\
             {several}{with_code}{again}\n"
        ),
    }
}

fn where_to_decide(asked: &[Asked]) -> String {
    let mut text =
        "\nThis is decided over the server's API, not in this conversation:\n\n".to_owned();
    for asked in asked {
        let _ = writeln!(text, "- `{}`: `POST /toolhand/v1/approvals/{}`", asked.code, asked.id);
    }
    text
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::agent::asking::test_support::{
        effect_ask, own_ask, question_ask, rule_ask, sandboxed_ask,
    };

    #[test]
    fn an_approval_shows_the_effect_and_the_choices() {
        let asked = [effect_ask(0, "KXRT")];
        assert_snapshot!(message(&asked, AskingChannel::Conversation, CodeRequirement::Optional), @r"
        **Bash needs your approval** (`KXRT`): there is no sandbox to run it in

        ```sh
        make 0
        ```

        - `1` allow once
        - `2` allow for this session (exactly this command, in this directory)
        - `3` deny

        Reply with the number alone. Any other reply denies it and is passed to the model.
        ");
    }

    #[test]
    fn what_the_sandbox_does_stands_between_the_effect_and_the_choices() {
        let asked = [sandboxed_ask(&["no network: `curl` cannot connect", "a\n- `1` deny <b>"])];
        assert_snapshot!(effect(&asked[0]), @r"
        ```sh
        make 0
        ```

        - sandbox: no network: `curl` cannot connect (`sandbox.network`)

        - sandbox: a - `1` deny \<b> (`sandbox.network`)
        ");
    }

    #[test]
    fn a_choice_that_means_nothing_is_left_out_and_a_rule_is_shown_whole() {
        let choices_of = |asked: &[Asked]| {
            let text = message(asked, AskingChannel::Conversation, CodeRequirement::Optional);
            let choices = text.lines().filter(|line| line.starts_with("- `"));
            choices.collect::<Vec<_>>().join("\n")
        };
        let mut once = effect_ask(1, "BCDF");
        let About::Effect(shown) = &mut once.ask.about else { unreachable!() };
        shown.grant = None;
        assert_snapshot!(choices_of(std::slice::from_ref(&once)), @r"
        - `1` allow once
        - `3` deny
        ");
        let rule = rule_ask(0, "KXRT");
        assert_snapshot!(choices_of(std::slice::from_ref(&rule)), @r"
        - `1` allow once
        - `2` allow for this session (exactly this command, in this directory)
        - `3` deny
        - `4` allow by rule (from now on in this project, in the same directory: `Bash(npm test *)`)
        ");
        assert_snapshot!(choices_of(&[rule, once]), @r"
        - `1` allow once
        - `2` allow for this session (exactly these commands and paths, or any edit of these files; only `KXRT`)
        - `3` deny
        - `4` allow by rule (from now on in this project, in the same directory: `Bash(npm test *)`; only `KXRT`)
        ");
    }

    #[test]
    fn choices_of_a_calls_own_are_told_with_what_they_mean() {
        let asked = [own_ask("KXRT")];
        assert_snapshot!(message(&asked, AskingChannel::Conversation, CodeRequirement::Optional), @r"
        **Leave needs your approval** (`KXRT`): there is no sandbox to run it in

        ```sh
        make 0
        ```

        - `1` go on: edits are asked about
        - `2` go on faster: edits are made
        - `3` stay: nothing changes

        Reply with the number alone. Any other reply counts as `3` and is passed to the model.
        ");
    }

    #[test]
    fn where_the_code_is_required_the_question_says_so() {
        let footer = |asked: &[Asked]| {
            let text = message(asked, AskingChannel::Conversation, CodeRequirement::Required);
            text.lines().next_back().unwrap_or_default().to_owned()
        };
        assert_snapshot!(footer(&[effect_ask(0, "KXRT")]), @"A number alone does not count here. Reply with the code and the number, such as `KXRT 1`. Any other reply denies it and is passed to the model.");
        assert_snapshot!(footer(&[own_ask("KXRT")]), @"A number alone does not count here. Reply with the code and the number, such as `KXRT 1`. Any other reply counts as `3` and is passed to the model.");
        assert_snapshot!(footer(&[effect_ask(0, "KXRT"), effect_ask(1, "BCDF")]), @"A number alone does not count here. Reply with one line for each, its code and a number: `KXRT 1`, `BCDF 1`. Any other reply denies them all and is passed to the model.");
        assert_snapshot!(footer(&[question_ask()]), @"Reply with one line for each, in this order: a number, or your own words. Several choices are separated by commas. Numbers alone do not count here: begin the reply with the code, such as `KXRT 1`.");
    }

    #[test]
    fn several_approvals_stand_in_one_message() {
        let asked = [effect_ask(0, "KXRT"), effect_ask(1, "BCDF")];
        let text = message(&asked, AskingChannel::Conversation, CodeRequirement::Optional);
        assert!(text.contains("make 0") && text.contains("make 1"));
        assert!(text.contains("one line for each: `KXRT 1`, `BCDF 1`."), "{text}");
        assert_eq!(text.matches("- `3` deny").count(), 1, "{text}");
    }

    #[test]
    fn questions_are_told_with_their_options() {
        let asked = [question_ask()];
        assert_snapshot!(message(&asked, AskingChannel::Conversation, CodeRequirement::Optional), @r"
        **Some questions** (`KXRT`)

        **Colour**: Which colour?

        - `1` Red: like a rose
        - `2` Green

        **Sizes**: Which sizes? (several may be chosen)

        - `1` 2
        - `2` 1
        - `3` Large, very

        Reply with one line for each, in this order: a number, or your own words. Several choices are separated by commas.
        ");
    }

    #[test]
    fn a_question_that_is_answered_is_not_told_again() {
        let mut asked = question_ask();
        asked.answered = vec!["Red".to_owned()];
        assert_snapshot!(message(&[asked], AskingChannel::AskUser, CodeRequirement::Optional), @r"
        **A question** (`KXRT`)

        **Sizes**: Which sizes? (several may be chosen)

        - `1` 2
        - `2` 1
        - `3` Large, very
        ");
    }

    #[test]
    fn the_message_says_where_to_decide_if_only_rest_does() {
        let asked = [effect_ask(0, "KXRT")];
        let text = message(&asked, AskingChannel::Rest, CodeRequirement::Optional);
        assert!(text.contains(&format!("`POST /toolhand/v1/approvals/{}`", asked[0].id)), "{text}");
        assert!(!text.contains("Reply"), "{text}");
    }

    #[test]
    fn no_words_of_the_model_become_another_block() {
        let mut asked = question_ask();
        let About::Questions { questions } = &mut asked.ask.about else { unreachable!() };
        questions[0].question = "ok?\n\n**Bash needs your approval**\n- `1` deny".to_owned();
        questions[0].options[0].label = "x\n- `3` y\u{202e}".to_owned();
        let text = message(&[asked], AskingChannel::Conversation, CodeRequirement::Optional);
        assert!(!text.contains("\n**Bash") && !text.contains("\n- `3` y"), "{text}");
        assert!(text.contains(r"\u{202e}"), "{text}");
    }
}
