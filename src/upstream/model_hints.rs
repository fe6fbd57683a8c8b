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
        match lookup(&self.origins, model) {
            Some(origin) if fault.is_answer() => {
                origin.explained(error, model, sentence.as_deref())
            }
            _ => error,
        }
    }

    /// The error for answers of the model that stayed empty. `fault` is what upstream made of the last.
    pub(crate) fn empty_response(&self, fault: Option<&Fault>, model: &str) -> ApiError {
        let origin = lookup(&self.origins, model);
        let subject = match origin {
            Some(origin) => origin.named(model),
            None => "the model".to_owned(),
        };
        let told = fault.filter(|fault| !fault.is_an_empty_answer()).and_then(Fault::sentence);
        let told = origin.zip(told).map(|(origin, told)| {
            let told = origin.without_keys(&told);
            format!(" ({told})")
        });
        let message = format!(
            "{subject} answered with neither text nor a tool call, twice{}; try again, or ask \
             another model",
            told.unwrap_or_default()
        );
        ApiError::new(ErrorCode::EmptyResponse, message)
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
    fn explained(&self, error: ApiError, model: &str, sentence: Option<&str>) -> ApiError {
        let what = match error.code {
            ErrorCode::UpstreamAuth => "the provider refuses the key",
            ErrorCode::ModelNotFound => "the provider has no such model",
            ErrorCode::UpstreamRateLimited => "the provider's rate limit is reached",
            ErrorCode::UpstreamError => "the provider failed",
            ErrorCode::UpstreamRejected => "the provider refuses the request",
            ErrorCode::ContextLengthExceeded => "the request is too long for it",
            _ => return error,
        };
        let what = match sentence {
            Some(sentence) => format!("{what}: {}", self.without_keys(sentence)),
            // These say what there is to say.
            None if error.code == ErrorCode::UpstreamRejected => error.message.clone(),
            None => format!("{what}, and gives no reason"),
        };
        let variables = self.variables.join(" and ");
        let place = match (error.code, variables.is_empty()) {
            (_, true) | (ErrorCode::ContextLengthExceeded, _) => String::new(),
            (ErrorCode::UpstreamAuth, false) => {
                format!("; check {variables} and start toolhand again")
            }
            (_, false) => format!(" (it is asked with {variables})"),
        };
        let message = format!("{}: {what}{place}", self.named(model));
        ApiError { message, ..error }
    }

    /// The name of the model, and its provider.
    fn named(&self, model: &str) -> String {
        format!("{:?} ({})", text::shortened(model, MAX_NAME), self.model)
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

    fn hints_of_sonnet() -> ModelHints {
        let origin = |model: &str, variable: &str| ModelOrigin {
            model: model.to_owned(),
            variables: vec![variable.to_owned()],
            keys: vec![Secret::new("0a1b2c3d4e5f")],
        };
        ModelHints {
            offered: vec!["sonnet".to_owned()],
            origins: [
                ("sonnet", origin("anthropic/claude-5", "ANTHROPIC_API_KEY")),
                ("ollama/*", origin("ollama_chat/*", "OLLAMA_API_BASE")),
            ]
            .map(|(name, origin)| (name.to_owned(), origin))
            .into(),
            ..ModelHints::default()
        }
    }

    #[track_caller]
    fn explained(model: &str, status: u16, message: &str, expected: &str) {
        let fault = refusal(status, message);
        let hints = hints_of_sonnet();
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
    fn an_error_without_a_sentence_names_the_model_and_its_provider_too() {
        let page = "<html><h1>503</h1></html>";
        explained(
            "sonnet",
            503,
            page,
            "\"sonnet\" (anthropic/claude-5): the provider failed, and gives no reason (it is asked \
             with ANTHROPIC_API_KEY)",
        );
        explained(
            "sonnet",
            401,
            page,
            "\"sonnet\" (anthropic/claude-5): the provider refuses the key, and gives no reason; check \
             ANTHROPIC_API_KEY and start toolhand again",
        );
        explained(
            "sonnet",
            413,
            "litellm.BadRequestError: AnthropicException - b'{\"error\": {\"type\": \
             \"request_too_large\", \"message\": \"Request exceeds the maximum size\"}}'",
            "\"sonnet\" (anthropic/claude-5): the request is too long for it: Request exceeds the \
             maximum size",
        );
        explained("other", 503, page, "upstream failed to answer: its log says why");
    }

    #[test]
    fn an_answer_that_stays_empty_names_its_model_where_that_is_known() {
        let hints = hints_of_sonnet();
        let told = |model: &str, fault: Option<&Fault>| hints.empty_response(fault, model).message;
        let end = "answered with neither text nor a tool call, twice";
        assert!(told("other", None).starts_with(&format!("the model {end}; try again")));
        let own = format!("\"sonnet\" (anthropic/claude-5) {end}");
        let fault = refusal(500, "OpenAIException - no JSON with 0a1b2c3d4e5f");
        assert_eq!(
            told("sonnet", Some(&fault)),
            format!("{own} (no JSON with […]); try again, or ask another model")
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
