//! Reads a decision that came over REST.

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;

use crate::agent::record::Asked;
use crate::errors::{ApiError, ErrorCode};
use crate::execution::ask::{About, Decision, GrantScope, ShownEffect};

/// The body of `POST /toolhand/v1/approvals/{id}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    decision: Option<Verdict>,
    scope: Option<WantedScope>,
    feedback: Option<String>,
    updated_input: Option<Value>,
    answers: Option<IndexMap<String, String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Allow,
    Deny,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WantedScope {
    Once,
    Session,
    Rule,
}

pub(super) fn read_decision(body: &[u8], asked: &Asked) -> Result<Decision, ApiError> {
    let value: Value = serde_json::from_slice(body).map_err(|error| {
        ApiError::new(ErrorCode::InvalidJson, format!("The body is not JSON: {error}."))
    })?;
    // A bare list would else be read as the members in their order.
    if !value.is_object() {
        return Err(ApiError::new(ErrorCode::InvalidValue, "The body must be an object."));
    }
    let body = Body::deserialize(value).map_err(|error| {
        ApiError::new(ErrorCode::InvalidValue, format!("The decision cannot be read: {error}."))
    })?;
    match (&asked.ask.about, body) {
        (_, Body { decision: Some(Verdict::Deny), answers: None, feedback, .. }) => {
            Ok(Decision::Deny { feedback })
        }
        (About::Effect(effect), body @ Body { decision: Some(Verdict::Allow), .. }) => {
            allowed(effect, body)
        }
        (About::Effect(_), _) => Err(missing("decision", "`allow` or `deny`")),
        (About::Questions { questions }, Body { answers: Some(answers), decision: None, .. }) => {
            let is_asked = |text: &str| questions.iter().any(|asked| asked.question == text);
            if let Some(unknown) = answers.keys().find(|text| !is_asked(text)) {
                let message = format!("{unknown:?} is no question of this approval.");
                return Err(ApiError::new(ErrorCode::InvalidValue, message).param("answers"));
            }
            Ok(Decision::Answers { answers })
        }
        (About::Questions { .. }, _) => {
            Err(missing("answers", "an object with the answer to each question, by its text"))
        }
    }
}

fn allowed(effect: &ShownEffect, body: Body) -> Result<Decision, ApiError> {
    if body.answers.is_some() {
        let message = "`answers` is for questions; this approval asks about an effect.";
        return Err(ApiError::new(ErrorCode::InvalidValue, message).param("answers"));
    }
    let scope = match body.scope {
        None | Some(WantedScope::Once) => GrantScope::Once,
        Some(WantedScope::Session) => GrantScope::Session,
        Some(WantedScope::Rule) => {
            let message = "The scope `rule` is not supported yet: take `once` or `session`.";
            return Err(ApiError::new(ErrorCode::UnsupportedValue, message).param("scope"));
        }
    };
    Ok(Decision::Allow { digest: effect.digest, scope, updated_input: body.updated_input })
}

fn missing(param: &str, wanted: &str) -> ApiError {
    let message = format!("The field {param:?} is missing: {wanted}.");
    ApiError::new(ErrorCode::MissingField, message).param(param)
}

/// What a person can choose, in the order of a conversation's numbers; nothing for questions,
/// whose options stand with them.
pub(super) fn choices(asked: &Asked) -> Vec<String> {
    let choices: &[&str] = match &asked.ask.about {
        About::Effect(_) => &["allow once", "allow for this session", "deny"],
        About::Questions { .. } => &[],
    };
    choices.iter().map(|&choice| choice.to_owned()).collect()
}
