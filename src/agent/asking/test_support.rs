//! Makes asks, and shows decisions in short, for the tests of what a person is asked.

use crate::agent::beginning::Decided;
use crate::agent::record::Asked;
use crate::execution::ask::{About, Ask, Decision, OwnChoice, Question, ShownEffect};
use crate::ids::ApprovalId;
use crate::permissions::SandboxEffect;
use crate::tools::question::QuestionOption;

pub(crate) const NOW: i64 = 1_000;

/// An effect of which no more is known than how it is shown.
pub(crate) fn shown_effect(markdown: &str, digest: u8) -> ShownEffect {
    ShownEffect {
        markdown: markdown.to_owned(),
        line: String::new(),
        digest: [digest; 32],
        grant: None,
        why: None,
        remedy: String::new(),
        risks: Vec::new(),
        sandbox: Vec::new(),
        grant_covers: "exactly this command, in this directory".to_owned(),
        rule_grant: None,
        subcommand_grant: None,
        described: None,
        choices: Vec::new(),
    }
}

/// An ask about the command `make SLOT`.
pub(crate) fn effect_ask(slot: u8, code: &str) -> Asked {
    let about = About::Effect(ShownEffect {
        grant: Some([slot; 32]),
        why: Some("there is no sandbox to run it in".to_owned()),
        remedy: "with a rule".to_owned(),
        ..shown_effect(&format!("```sh\nmake {slot}\n```\n"), slot)
    });
    asked(slot, code, Ask { tool: "Bash".to_owned(), headline: format!("make {slot}"), about })
}

/// An ask about a command to which the sandbox does this.
pub(crate) fn sandboxed_ask(texts: &[&str]) -> Asked {
    let mut asked = effect_ask(0, "KXRT");
    let About::Effect(shown) = &mut asked.ask.about else { unreachable!() };
    let effect = |text: &&str| SandboxEffect {
        text: (*text).to_owned(),
        settings: vec!["sandbox.network".to_owned()],
    };
    shown.sandbox = texts.iter().map(effect).collect();
    asked
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
        repeated: None,
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
