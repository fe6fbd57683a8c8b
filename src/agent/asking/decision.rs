//! Reads a decision that comes over REST.

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::choice::allows;
use crate::agent::record::Asked;
use crate::errors::{ApiError, ErrorCode};
use crate::execution::ask::{About, Decision, GrantScope, Question, ShownEffect};
use crate::tools::question::NO_ANSWER;

/// The most characters of feedback, and of one answer.
const MAX_TEXT: usize = 10_000;

/// Reads `{decision, scope, rules, feedback, updated_input}`, or where the call offers choices of
/// its own `{choice, feedback}`, or for questions `{answers}`, or `{decision: "deny", feedback}`
/// for each.
///
/// Questions that an earlier dialog has answered keep those answers, unless there are others.
pub(crate) fn read_decision(asked: &Asked, body: &Value) -> Result<Decision, ApiError> {
    let Some(body) = body.as_object() else {
        return Err(ApiError::new(ErrorCode::InvalidValue, "The body must be a JSON object."));
    };
    match &asked.ask.about {
        About::Effect(shown) if !shown.choices.is_empty() => of_choice(shown, body),
        About::Effect(shown) => of_effect(shown, body),
        About::Questions { questions } => of_questions(questions, &asked.answered, body),
    }
}

fn of_effect(shown: &ShownEffect, body: &Map<String, Value>) -> Result<Decision, ApiError> {
    only(body, &["decision", "scope", "rules", "feedback", "updated_input"])?;
    let scope = scope(body)?;
    let rules = rules(shown, body, scope)?;
    let feedback = text(body.get("feedback"), "feedback")?;
    let updated_input = match body.get("updated_input") {
        None | Some(Value::Null) => None,
        Some(input @ Value::Object(_)) => Some(input.clone()),
        Some(_) => return Err(invalid("updated_input", "must be an object")),
    };
    match decision(body)? {
        "allow" if scope == GrantScope::Rule && updated_input.is_some() => {
            Err(invalid("scope", "cannot be \"rule\" for a changed input: its rules are not known"))
        }
        "allow" if scope == GrantScope::Rule && rules.is_empty() => Err(invalid(
            "scope",
            "cannot be \"rule\" here: no rule would allow this call without asking",
        )),
        "allow" if scope == GrantScope::Session && shown.grant.is_none() => Err(invalid(
            "scope",
            "cannot be \"session\" here: this is asked about each time; leave it out to allow it \
             once",
        )),
        "allow" => Ok(Decision::Allow { digest: shown.digest, scope, rules, updated_input }),
        _ if updated_input.is_some() => {
            Err(invalid("updated_input", "goes with the decision \"allow\" alone"))
        }
        _ => Ok(Decision::Deny { feedback }),
    }
}

/// The rules that the scope `rule` keeps: those that are named, if they were shown, and else the
/// narrowest. None for another scope.
fn rules(
    shown: &ShownEffect,
    body: &Map<String, Value>,
    scope: GrantScope,
) -> Result<Vec<String>, ApiError> {
    let offered = [&shown.rule_grant, &shown.subcommand_grant];
    let mut offered = offered.into_iter().flatten().map(|grant| &grant.rules);
    let named = match body.get("rules") {
        None | Some(Value::Null) if scope != GrantScope::Rule => return Ok(Vec::new()),
        None | Some(Value::Null) => return Ok(offered.next().cloned().unwrap_or_default()),
        Some(_) if scope != GrantScope::Rule => {
            return Err(invalid("rules", "go with the scope \"rule\" alone"));
        }
        Some(named) => named,
    };
    let is_named = |rules: &&Vec<String>| json!(rules) == *named;
    offered.find(is_named).cloned().ok_or_else(|| {
        invalid("rules", "must be the approval's `suggestions` or its `rules`, as they stand there")
    })
}

/// What is chosen, by its number.
fn of_choice(shown: &ShownEffect, body: &Map<String, Value>) -> Result<Decision, ApiError> {
    only(body, &["choice", "decision", "feedback"])?;
    let feedback = text(body.get("feedback"), "feedback")?;
    if body.contains_key("decision") {
        if body.contains_key("choice") {
            return Err(invalid("choice", "and a decision exclude each other"));
        }
        return match decision(body)? {
            "deny" => Ok(Decision::Deny { feedback }),
            _ => Err(invalid("decision", "must be \"deny\" here, or give `choice`")),
        };
    }
    let number = body.get("choice").ok_or_else(|| missing("choice"))?;
    let most = shown.choices.len();
    let place = number.as_u64().and_then(|number| usize::try_from(number).ok()?.checked_sub(1));
    match place.filter(|place| *place < most) {
        Some(place) if allows(&shown.choices, place) => {
            Ok(Decision::Choose { digest: shown.digest, place })
        }
        Some(_) => Ok(Decision::Deny { feedback }),
        None => Err(invalid("choice", &format!("must be a number from 1 to {most}"))),
    }
}

fn of_questions(
    questions: &[Question],
    answered: &[String],
    body: &Map<String, Value>,
) -> Result<Decision, ApiError> {
    only(body, &["answers", "decision", "feedback"])?;
    let feedback = text(body.get("feedback"), "feedback")?;
    if body.contains_key("decision") {
        if body.contains_key("answers") {
            return Err(invalid("answers", "and a decision exclude each other"));
        }
        return match decision(body)? {
            "deny" => Ok(Decision::Deny { feedback }),
            _ => Err(invalid("decision", "must be \"deny\" for a question, or give `answers`")),
        };
    }
    let answers = match body.get("answers") {
        None => return Err(missing("answers")),
        Some(Value::Object(answers)) => answers,
        Some(_) => return Err(invalid("answers", "must be an object")),
    };
    let is_known = |name: &&String| questions.iter().any(|question| question.question == **name);
    if let Some(unknown) = answers.keys().find(|name| !is_known(name)) {
        let param = format!("answers.{}", crate::text::prefix(unknown, 200));
        return Err(invalid(&param, "is the answer to a question that was not asked"));
    }
    let answer = |(at, question): (usize, &Question)| {
        let given = text(answers.get(&question.question), "answers")?;
        let answer = given.or_else(|| answered.get(at).cloned());
        Ok((question.question.clone(), answer.unwrap_or_else(|| NO_ANSWER.to_owned())))
    };
    let answers =
        questions.iter().enumerate().map(answer).collect::<Result<IndexMap<_, _>, ApiError>>()?;
    Ok(Decision::Answers { answers })
}

fn decision(body: &Map<String, Value>) -> Result<&str, ApiError> {
    match body.get("decision") {
        None => Err(missing("decision")),
        Some(Value::String(word)) if matches!(word.as_str(), "allow" | "deny") => Ok(word),
        Some(_) => Err(invalid(
            "decision",
            "must be \"allow\" or \"deny\"; \"always\" is \"allow\" with the scope \"session\"",
        )),
    }
}

fn scope(body: &Map<String, Value>) -> Result<GrantScope, ApiError> {
    match body.get("scope") {
        None | Some(Value::Null) => Ok(GrantScope::Once),
        Some(Value::String(word)) if word == "once" => Ok(GrantScope::Once),
        Some(Value::String(word)) if word == "session" => Ok(GrantScope::Session),
        Some(Value::String(word)) if word == "rule" => Ok(GrantScope::Rule),
        Some(_) => Err(invalid("scope", "must be \"once\", \"session\" or \"rule\"")),
    }
}

fn text(value: Option<&Value>, name: &str) -> Result<Option<String>, ApiError> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.chars().count() > MAX_TEXT => {
            Err(invalid(name, &format!("may have at most {MAX_TEXT} characters")))
        }
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(invalid(name, "must be text")),
    }
}

fn only(body: &Map<String, Value>, known: &[&str]) -> Result<(), ApiError> {
    match body.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(unknown) => {
            let fields = known.join("`, `");
            Err(invalid(
                crate::text::prefix(unknown, 200),
                &format!("is no field of this decision; the fields are `{fields}`"),
            ))
        }
    }
}

fn invalid(param: &str, what: &str) -> ApiError {
    let message = format!("`{param}` {what}.");
    ApiError::new(ErrorCode::InvalidValue, message).param(param)
}

fn missing(param: &str) -> ApiError {
    ApiError::new(ErrorCode::MissingField, format!("`{param}` is missing.")).param(param)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::asking::test_support::{effect_ask, own_ask, question_ask};

    /// The decision in short, or the error's code and parameter.
    fn read(ask: &Asked, body: &Value) -> String {
        match read_decision(ask, body) {
            Ok(Decision::Allow { digest, scope, updated_input, .. }) => {
                assert_eq!(digest, [0; 32]);
                let updated = updated_input.map(|input| format!(" {input}")).unwrap_or_default();
                format!("{scope:?}{updated}")
            }
            Ok(Decision::Deny { feedback }) => format!("deny {}", feedback.unwrap_or_default()),
            Ok(Decision::Answers { answers }) => {
                answers.values().map(String::as_str).collect::<Vec<_>>().join(" | ")
            }
            Ok(Decision::Expired) => "expired".to_owned(),
            Ok(Decision::Choose { digest, place }) => {
                assert_eq!(digest, [0; 32]);
                format!("choice {}", place + 1)
            }
            Err(error) => format!("{:?} {}", error.code, error.param.unwrap_or_default()),
        }
    }

    #[test]
    fn reads_decisions_about_effects_strictly() {
        let ask = effect_ask(0, "KXRT");
        for (body, expected) in [
            (json!({ "decision": "allow" }), "Once"),
            (json!({ "decision": "allow", "scope": "session" }), "Session"),
            (json!({ "decision": "allow", "scope": null, "feedback": null }), "Once"),
            (json!({ "decision": "allow", "updated_input": { "a": 1 } }), r#"Once {"a":1}"#),
            (json!({ "decision": "deny", "feedback": "later" }), "deny later"),
            (json!({ "decision": "deny", "updated_input": {} }), "InvalidValue updated_input"),
            (json!({ "decision": "allow", "updated_input": "x" }), "InvalidValue updated_input"),
            (json!({ "decision": "allow", "scope": "rule" }), "InvalidValue scope"),
            (json!({ "decision": "deny", "scope": "rule" }), "deny "),
            (json!({ "decision": "allow", "scope": "Session" }), "InvalidValue scope"),
            (json!({ "decision": "allow", "scope": 1 }), "InvalidValue scope"),
            (json!({ "decision": "Allow" }), "InvalidValue decision"),
            (json!({ "decision": true }), "InvalidValue decision"),
            (json!({ "decision": null }), "InvalidValue decision"),
            (json!({}), "MissingField decision"),
            (json!({ "decision": "deny", "feedback": 5 }), "InvalidValue feedback"),
            (
                json!({ "decision": "deny", "feedback": "é".repeat(10_001) }),
                "InvalidValue feedback",
            ),
            (json!({ "decision": "allow", "answers": {} }), "InvalidValue answers"),
            (json!({ "decision": "allow", "scop": "once" }), "InvalidValue scop"),
            (json!([]), "InvalidValue "),
            (json!("allow"), "InvalidValue "),
        ] {
            assert_eq!(read(&ask, &body), expected, "{body}");
        }
    }

    #[test]
    fn rules_are_kept_only_where_some_would_do_and_for_what_was_shown() {
        let mut ask = effect_ask(0, "KXRT");
        let rule = json!({ "decision": "allow", "scope": "rule" });
        assert_eq!(read(&ask, &rule), "InvalidValue scope");
        if let About::Effect(shown) = &mut ask.ask.about {
            let workspace = json!({ "path": "/ws", "device": "1", "inode": "2" });
            let grant = json!({ "rules": ["Bash(make)"], "workspace": workspace });
            shown.rule_grant = serde_json::from_value(grant).unwrap();
        }
        assert_eq!(read(&ask, &rule), "Rule");
        let changed = json!({ "decision": "allow", "scope": "rule", "updated_input": {} });
        assert_eq!(read(&ask, &changed), "InvalidValue scope");
    }

    #[test]
    fn reads_choices_of_a_calls_own_by_their_numbers() {
        let ask = own_ask("KXRT");
        for (body, expected) in [
            (json!({ "choice": 1 }), "choice 1"),
            (json!({ "choice": 2, "feedback": "fine" }), "choice 2"),
            (json!({ "choice": 3, "feedback": "not yet" }), "deny not yet"),
            (json!({ "decision": "deny", "feedback": "no" }), "deny no"),
            (json!({ "choice": 0 }), "InvalidValue choice"),
            (json!({ "choice": 4 }), "InvalidValue choice"),
            (json!({ "choice": -1 }), "InvalidValue choice"),
            (json!({ "choice": "1" }), "InvalidValue choice"),
            (json!({ "choice": 1.5 }), "InvalidValue choice"),
            (json!({ "choice": null }), "InvalidValue choice"),
            (json!({ "decision": "allow" }), "InvalidValue decision"),
            (json!({ "decision": "deny", "choice": 1 }), "InvalidValue choice"),
            (json!({ "choice": 1, "scope": "session" }), "InvalidValue scope"),
            (json!({}), "MissingField choice"),
        ] {
            assert_eq!(read(&ask, &body), expected, "{body}");
        }
        assert_eq!(read(&effect_ask(0, "KXRT"), &json!({ "choice": 1 })), "InvalidValue choice");
    }

    #[test]
    fn reads_answers_to_the_questions_that_were_asked() {
        let ask = question_ask();
        for (body, expected) in [
            (
                json!({ "answers": { "Which sizes?": "1, 2", "Which colour?": "Red" } }),
                "Red | 1, 2",
            ),
            (json!({ "answers": {} }), "(no answer) | (no answer)"),
            (json!({ "answers": { "Which colour?": null } }), "(no answer) | (no answer)"),
            (json!({ "decision": "deny", "feedback": "no" }), "deny no"),
            (json!({ "answers": { "Which?": "Red" } }), "InvalidValue answers.Which?"),
            (json!({ "answers": { "Which colour?": 1 } }), "InvalidValue answers"),
            (json!({ "answers": ["Red"] }), "InvalidValue answers"),
            (json!({ "decision": "allow" }), "InvalidValue decision"),
            (json!({ "decision": "deny", "answers": {} }), "InvalidValue answers"),
            (json!({ "scope": "once", "answers": {} }), "InvalidValue scope"),
            (json!({}), "MissingField answers"),
        ] {
            assert_eq!(read(&ask, &body), expected, "{body}");
        }
    }

    #[test]
    fn answers_of_an_earlier_dialog_stand_unless_there_are_others() {
        let mut half = question_ask();
        half.answered = vec!["Red".to_owned()];
        let read = |answers: Value| read(&half, &json!({ "answers": answers }));
        assert_eq!(read(json!({ "Which sizes?": "2" })), "Red | 2");
        assert_eq!(read(json!({ "Which colour?": "Green", "Which sizes?": "2" })), "Green | 2");
    }
}
