//! Reads what the server asks a person, and writes it for one who did not see the message.

use std::fmt::Write as _;

use serde::Deserialize;

use super::reply::Expected;

/// One approval or question.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Asked {
    #[serde(default)]
    code: String,
    #[serde(default)]
    tool: String,
    #[serde(default)]
    effect: Option<String>,
    #[serde(default)]
    choices: Vec<String>,
    /// What the choice `rule` keeps.
    #[serde(default)]
    rules: Vec<String>,
    /// The choices with what they mean, where the call offers its own.
    #[serde(default)]
    options: Vec<QuestionOption>,
    #[serde(default)]
    questions: Vec<Question>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Question {
    question: String,
    #[serde(default)]
    options: Vec<QuestionOption>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct QuestionOption {
    label: String,
    #[serde(default)]
    description: String,
}

/// What a reply to them has to hold. A question comes without approvals.
pub(super) fn expected(asked: &[Asked]) -> Expected {
    let with_questions = asked.iter().find(|asked| !asked.questions.is_empty());
    if let Some(of) = with_questions {
        let count = asked.iter().map(|asked| asked.questions.len()).sum();
        return Expected::Questions { code: of.code.clone(), count };
    }
    let labels = asked.iter().flat_map(|asked| &asked.options).map(|option| option.label.clone());
    Expected::Approvals {
        codes: asked.iter().map(|asked| asked.code.clone()).collect(),
        labels: labels.collect(),
    }
}

/// All of them as text.
pub(super) fn as_text(asked: &[Asked]) -> String {
    asked.iter().map(Asked::as_text).collect::<Vec<_>>().join("\n")
}

impl Asked {
    fn as_text(&self) -> String {
        let mut text = format!("{} {}\n", self.code, self.tool);
        if let Some(effect) = &self.effect {
            _ = writeln!(text, "{effect}");
        }
        for question in &self.questions {
            _ = writeln!(text, "{}", question.question);
            text.push_str(&numbered(&question.options));
        }
        if !self.options.is_empty() {
            text.push_str(&numbered(&self.options));
        } else if !self.choices.is_empty() {
            _ = writeln!(text, "Answer with {}.", self.choices.join(", "));
            if !self.rules.is_empty() {
                let rules = self.rules.join(", ");
                _ = writeln!(text, "The choice `rule` allows from now on: {rules}.");
            }
        }
        text
    }
}

/// A line for each.
fn numbered(options: &[QuestionOption]) -> String {
    let mut text = String::new();
    for (number, QuestionOption { label, description }) in (1..).zip(options) {
        let description =
            if description.is_empty() { String::new() } else { format!(": {description}") };
        _ = writeln!(text, "  {number}. {label}{description}");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_asked_can_be_read_without_the_message() {
        let asked: Vec<Asked> = serde_json::from_value(json!([
            { "type": "approval", "code": "KXQZ", "tool": "Bash", "effect": "Runs `make`.",
              "choices": ["allow", "deny", "rule"], "rules": ["Bash(npm test *)"] },
            { "type": "approval", "code": "BCDF", "tool": "ExitPlanMode", "effect": "The plan.",
              "choices": ["go on", "keep planning"], "options": [
                { "label": "go on", "description": "edits are asked about" },
                { "label": "keep planning", "description": "" },
            ] },
            { "type": "question", "code": "ABCD", "tool": "AskUserQuestion", "questions": [
                { "question": "Which base?", "options": [
                    { "label": "SQLite", "description": "one file" }, { "label": "None" },
                ] },
            ] },
        ]))
        .unwrap();

        insta::assert_snapshot!(as_text(&asked), @"
        KXQZ Bash
        Runs `make`.
        Answer with allow, deny, rule.
        The choice `rule` allows from now on: Bash(npm test *).

        BCDF ExitPlanMode
        The plan.
          1. go on: edits are asked about
          2. keep planning

        ABCD AskUserQuestion
        Which base?
          1. SQLite: one file
          2. None
        ");
    }
}
