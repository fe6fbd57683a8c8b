//! Says what is wrong with the name of a model that upstream does not have.

use std::collections::BTreeMap;

use crate::errors::{ApiError, ErrorCode};
use crate::text;

/// The similarity from which a name is suggested; 1 means equal.
const MIN_SIMILARITY: f64 = 0.6;

/// The most names that one is compared with.
const MAX_COMPARED: usize = 1_000;

/// The longest name that is compared, and the most of a name that an error repeats.
const MAX_NAME: usize = 200;

/// What whoever started upstream knows of its models. Empty if that was somebody else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ModelHints {
    /// Models that upstream has.
    pub(crate) offered: Vec<String>,
    /// Models that upstream could have, and what would bring each, such as
    /// `set ANTHROPIC_API_KEY`. A name may end in `*`.
    pub(crate) left_out: BTreeMap<String, String>,
}

impl ModelHints {
    /// Names the model in an error that says that upstream does not have it. Other errors stay
    /// as they are.
    pub(crate) fn explain(&self, error: ApiError, model: &str) -> ApiError {
        match error.code {
            ErrorCode::ModelNotFound => self.unknown_model(model, &[]),
            _ => error,
        }
    }

    /// The error for a model that upstream does not have. `further` are names of upstream's
    /// own list.
    pub(crate) fn unknown_model(&self, model: &str, further: &[String]) -> ApiError {
        let named = format!("upstream has no model {:?}", text::shortened(model, MAX_NAME));
        let message = match (self.remedy(model), self.closest(model, further)) {
            (Some(remedy), _) => format!("{named} (left out: {remedy})"),
            (None, Some(near)) => {
                let remedy = self.remedy(near).map(|remedy| format!(" (left out: {remedy})"));
                let near = text::did_you_mean(Some(near));
                format!("{named}{near}{}", remedy.unwrap_or_default())
            }
            (None, None) => format!("{named}: GET /v1/models lists those it has"),
        };
        ApiError::new(ErrorCode::ModelNotFound, message).param("model")
    }

    /// What would bring the model.
    fn remedy(&self, model: &str) -> Option<&str> {
        let exact = self.left_out.get(model);
        let matches = |name: &str| {
            name.strip_suffix('*').is_some_and(|beginning| model.starts_with(beginning))
        };
        let pattern = || self.left_out.iter().find(|(name, _)| matches(name));
        exact.or_else(|| pattern().map(|(_, remedy)| remedy)).map(String::as_str)
    }

    fn closest<'a>(&'a self, model: &str, further: &'a [String]) -> Option<&'a str> {
        if model.len() > MAX_NAME {
            return None;
        }
        let wanted = model.to_lowercase();
        let names = self.offered.iter().chain(further).chain(self.left_out.keys());
        let names = names.map(String::as_str).take(MAX_COMPARED);
        let comparable = names.filter(|name| name.len() <= MAX_NAME && !name.ends_with('*'));
        let rated = comparable.map(|name| (likeness(&wanted, &name.to_lowercase()), name));
        text::closest(rated, MIN_SIMILARITY).next()
    }
}

/// Compares with the whole name, and with the part behind the provider's.
fn likeness(wanted: &str, known: &str) -> f64 {
    let likeness = strsim::normalized_damerau_levenshtein;
    let short = known.rsplit('/').next().unwrap_or(known);
    likeness(wanted, known).max(likeness(wanted, short))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(model: &str, expected: &str) {
        let hints = ModelHints {
            offered: vec!["demo".to_owned(), "openai/gpt-5.6".to_owned()],
            left_out: [("sonnet", "set ANTHROPIC_API_KEY"), ("ollama/*", "set OLLAMA_API_BASE")]
                .map(|(name, remedy)| (name.to_owned(), remedy.to_owned()))
                .into(),
        };
        let error = hints.unknown_model(model, &["scripted".to_owned()]);
        assert_eq!(error.message, format!("upstream has no model {expected}"));
        assert_eq!(error.param.as_deref(), Some("model"));
    }

    #[test]
    fn a_model_that_is_left_out_names_what_would_bring_it() {
        check("sonnet", "\"sonnet\" (left out: set ANTHROPIC_API_KEY)");
        check("ollama/llama", "\"ollama/llama\" (left out: set OLLAMA_API_BASE)");
    }

    #[test]
    fn a_near_name_is_suggested() {
        check("Demo", "\"Demo\"; did you mean demo?");
        check("gpt-5.5", "\"gpt-5.5\"; did you mean openai/gpt-5.6?");
        check("script", "\"script\"; did you mean scripted?");
        check("sonet", "\"sonet\"; did you mean sonnet? (left out: set ANTHROPIC_API_KEY)");
    }

    #[test]
    fn another_name_is_told_where_the_list_is() {
        check("xyz", "\"xyz\": GET /v1/models lists those it has");
        check("a\n\u{1b}", "\"a\\n\\u{1b}\": GET /v1/models lists those it has");
        let long = ModelHints::default().unknown_model(&"é".repeat(10_000), &[]);
        assert!(long.message.len() < 400, "{}", long.message.len());
    }
}
