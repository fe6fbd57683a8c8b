//! Says of an error which model and provider it is about, where we started upstream ourselves, and
//! what is wrong with the name of a model that upstream does not have.

use std::collections::BTreeMap;

use super::Fault;
use crate::errors::{ApiError, ErrorCode};
use crate::secret::Secret;
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
    /// What stands behind the names of models. A name may end in `*`.
    pub(crate) origins: BTreeMap<String, ModelOrigin>,
}

/// The provider's model that a name stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ModelOrigin {
    /// As LiteLLM is asked for it, such as `anthropic/claude-sonnet-5-5`.
    pub(crate) model: String,
    /// The environment variables that its provider is asked with: its key, its address.
    pub(crate) variables: Vec<String>,
    /// The values of those. A provider may repeat one in its error.
    pub(crate) keys: Vec<Secret>,
}

impl ModelHints {
    /// Names the model in the error for a fault: as one that upstream does not have, or with its
    /// provider and the provider's own words, where we started upstream ourselves.
    pub(crate) fn explain(&self, fault: &Fault, error: ApiError, model: &str) -> ApiError {
        let sentence = fault.sentence();
        let is_unknown = error.code == ErrorCode::ModelNotFound;
        if is_unknown && (sentence.is_none() || fault.is_unknown_to_litellm()) {
            return self.unknown_model(model, &[]);
        }
        match (lookup(&self.origins, model), sentence) {
            (Some(origin), Some(sentence)) => origin.explained(error, model, &sentence),
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
        lookup(&self.left_out, model).map(String::as_str)
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

impl ModelOrigin {
    /// The error with the model, its provider, the provider's sentence, and where the operator can
    /// look.
    fn explained(&self, error: ApiError, model: &str, sentence: &str) -> ApiError {
        let what = match error.code {
            ErrorCode::UpstreamAuth => "the provider refuses the key",
            ErrorCode::ModelNotFound => "the provider has no such model",
            ErrorCode::UpstreamRateLimited => "the provider's rate limit is reached",
            ErrorCode::UpstreamError => "the provider failed",
            ErrorCode::UpstreamRejected => "the provider refuses the request",
            _ => return error,
        };
        let name = text::shortened(model, MAX_NAME);
        let sentence = self.without_keys(sentence);
        let variables = self.variables.join(" and ");
        let place = match (error.code, variables.is_empty()) {
            (_, true) => String::new(),
            (ErrorCode::UpstreamAuth, false) => {
                format!("; check {variables} and start toolhand again")
            }
            (_, false) => format!(" (it is asked with {variables})"),
        };
        let message = format!("{name:?} ({}): {what}: {sentence}{place}", self.model);
        ApiError { message, ..error }
    }

    fn without_keys(&self, sentence: &str) -> String {
        /// A shorter value is no key, and may be a part of any word.
        const MIN_KEY: usize = 8;
        let keys = self.keys.iter().map(Secret::expose).filter(|key| key.len() >= MIN_KEY);
        keys.fold(sentence.to_owned(), |sentence, key| sentence.replace(key, "[…]"))
    }
}

/// What is known under this name, or else under one that ends in `*` and stands for it.
fn lookup<'a, T>(known: &'a BTreeMap<String, T>, model: &str) -> Option<&'a T> {
    let is_match =
        |name: &str| name.strip_suffix('*').is_some_and(|beginning| model.starts_with(beginning));
    let pattern = || known.iter().find(|(name, _)| is_match(name)).map(|(_, value)| value);
    known.get(model).or_else(pattern)
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
    use crate::openai::error_object::ErrorObject;
    use crate::upstream::fault::Refusal;

    #[track_caller]
    fn check(model: &str, expected: &str) {
        let hints = ModelHints {
            offered: vec!["demo".to_owned(), "openai/gpt-5.6".to_owned()],
            left_out: [("sonnet", "set ANTHROPIC_API_KEY"), ("ollama/*", "set OLLAMA_API_BASE")]
                .map(|(name, remedy)| (name.to_owned(), remedy.to_owned()))
                .into(),
            ..ModelHints::default()
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

    fn refusal(status: u16, message: &str) -> Fault {
        let error = ErrorObject { message: message.to_owned(), ..ErrorObject::default() };
        Fault::Status(Refusal { status, error, retry_after: None, is_keyless: false })
    }

    #[track_caller]
    fn explained(model: &str, status: u16, message: &str, expected: &str) {
        let origin = |model: &str, variable: &str| ModelOrigin {
            model: model.to_owned(),
            variables: vec![variable.to_owned()],
            keys: vec![Secret::new("0a1b2c3d4e5f")],
        };
        let hints = ModelHints {
            offered: vec!["sonnet".to_owned()],
            origins: [
                ("sonnet", origin("anthropic/claude-5", "ANTHROPIC_API_KEY")),
                ("ollama/*", origin("ollama_chat/*", "OLLAMA_API_BASE")),
            ]
            .map(|(name, origin)| (name.to_owned(), origin))
            .into(),
            ..ModelHints::default()
        };
        let fault = refusal(status, message);
        assert_eq!(hints.explain(&fault, fault.api_error(), model).message, expected);
    }

    #[test]
    fn an_error_names_the_model_its_provider_and_where_to_look() {
        explained(
            "sonnet",
            401,
            "litellm.AuthenticationError: AnthropicException - {\"type\":\"error\",\"error\":{\"type\":\
             \"authentication_error\",\"message\":\"invalid x-api-key\"}}",
            "\"sonnet\" (anthropic/claude-5): the provider refuses the key: invalid x-api-key; check \
             ANTHROPIC_API_KEY and start toolhand again",
        );
        explained(
            "sonnet",
            404,
            "litellm.NotFoundError: AnthropicException - {\"error\":{\"message\":\"model: claude-5 not \
             found\"}}",
            "\"sonnet\" (anthropic/claude-5): the provider has no such model: model: claude-5 not found \
             (it is asked with ANTHROPIC_API_KEY)",
        );
        explained(
            "sonnet",
            500,
            "litellm.InternalServerError: AnthropicError - Overloaded",
            "\"sonnet\" (anthropic/claude-5): the provider failed: Overloaded (it is asked with \
             ANTHROPIC_API_KEY)",
        );
        explained(
            "sonnet",
            401,
            "no such key: 0a1b2c3d4e5f",
            "\"sonnet\" (anthropic/claude-5): the provider refuses the key: no such key: […]; check \
             ANTHROPIC_API_KEY and start toolhand again",
        );
        explained(
            "ollama/llama",
            429,
            "slow down",
            "\"ollama/llama\" (ollama_chat/*): the provider's rate limit is reached: slow down (it is \
             asked with OLLAMA_API_BASE)",
        );
    }

    #[test]
    fn a_name_that_litellm_does_not_know_is_told_as_such() {
        let own = "/chat/completions: Invalid model name passed in model=sonet";
        explained("sonet", 400, own, "upstream has no model \"sonet\"; did you mean sonnet?");
        explained("sonet", 404, "", "upstream has no model \"sonet\"; did you mean sonnet?");
        explained("other", 404, "model: other not found", "model: other not found");
    }
}
