//! Refuses fields that could steer routing or spend someone's key.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, PatternID};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::strict_json;
use crate::errors::{ApiError, ErrorCode};
use crate::json::{self, Key, Object};
use crate::text;

const NAMES: [&str; 38] = [
    "api_base",
    "base_url",
    "api_key",
    "api_version",
    "api_type",
    "custom_llm_provider",
    "extra_headers",
    "extra_body",
    "extra_query",
    "headers",
    "organization",
    "deployment_id",
    "fallbacks",
    "context_window_fallbacks",
    "content_policy_fallbacks",
    "model_list",
    "model_info",
    "user_config",
    "proxy_server_request",
    "num_retries",
    "max_retries",
    "timeout",
    "stream_timeout",
    "cache",
    "caching",
    "no-log",
    "tags",
    "guardrails",
    "prompt_id",
    "prompt_variables",
    "router_settings_override",
    "use_litellm_proxy",
    "specific_deployment",
    "ssl_verify",
    "disable_fallbacks",
    "callbacks",
    "policies",
    "shared_session",
];

const PREFIXES: [&str; 9] = [
    "litellm_",
    "mock_",
    "aws_",
    "azure_",
    "vertex_",
    "watsonx_",
    "oci_",
    "input_cost",
    "output_cost",
];

const PARTS: [&str; 8] =
    ["api_key", "api_base", "base_url", "endpoint", "credential", "secret", "password", "role_arn"];

const SUFFIXES: [&str; 4] = ["_url", "_token", "_callback", "_callbacks"];

/// Where in a name a pattern must match.
#[derive(Clone, Copy)]
enum Rule {
    Whole,
    Start,
    Anywhere,
    End,
}

/// All rules in one automaton, so that each name is scanned once.
struct Rules {
    patterns: AhoCorasick,
    /// Indexed by the pattern's number.
    rules: Vec<Rule>,
}

static RULES: LazyLock<Rules> = LazyLock::new(|| {
    let lists: [(&[&str], Rule); 4] = [
        (&NAMES, Rule::Whole),
        (&PREFIXES, Rule::Start),
        (&PARTS, Rule::Anywhere),
        (&SUFFIXES, Rule::End),
    ];
    let of_each = |(names, rule): (&'static [&'static str], Rule)| {
        names.iter().map(move |name| (*name, rule))
    };
    let (names, rules): (Vec<_>, Vec<_>) = lists.into_iter().flat_map(of_each).unzip();
    let patterns = AhoCorasick::builder().ascii_case_insensitive(true).build(names);
    Rules { patterns: patterns.expect("a few short patterns"), rules }
});

impl Rules {
    fn rule(&self, pattern: PatternID) -> Rule {
        self.rules[pattern.as_usize()]
    }
}

/// Whether a top-level field or a member of `metadata` with this name is refused. Case
/// and surrounding spaces do not matter.
pub(crate) fn is_denied(name: &str) -> bool {
    let name = name.trim();
    RULES.patterns.find_overlapping_iter(name).any(|found| match RULES.rule(found.pattern()) {
        Rule::Whole => found.range() == (0..name.len()),
        Rule::Start => found.start() == 0,
        Rule::Anywhere => true,
        Rule::End => found.end() == name.len(),
    })
}

/// Returns an error if the body has such a field, or `metadata` such a member.
pub(crate) fn check(fields: &Object<'_>) -> Result<(), ApiError> {
    if let Some(name) = fields.keys().find(|name| is_denied(name)) {
        return Err(refusal(name));
    }
    let Some(metadata) = fields.get("metadata") else { return Ok(()) };
    match json::string(metadata) {
        None => check_metadata(metadata.get()),
        Some(text) => check_metadata_text(&text),
    }
}

fn check_metadata(metadata: &str) -> Result<(), ApiError> {
    let mut names = Names { path: vec![Cow::Borrowed("metadata")], is_found: false };
    // A denied name stops the deserializer. Nothing else can: the JSON was checked
    // before.
    let _ended = names.deserialize(&mut serde_json::Deserializer::from_str(metadata));
    if names.is_found { Err(refusal(&place(&names.path))) } else { Ok(()) }
}

/// LiteLLM reads a text in place of `metadata` as JSON. It accepts more than we do, so a text
/// that may be an object must be JSON that both read alike.
fn check_metadata_text(text: &str) -> Result<(), ApiError> {
    match strict_json::check(text.as_bytes()) {
        Ok(()) => check_metadata(text),
        Err(_) if text.contains('{') => Err(refusal("metadata")),
        Err(_) => Ok(()),
    }
}

/// Whether a field of a form is refused: by its name, or by what stands before the first
/// bracket, since LiteLLM makes lists and objects of `name[]` and `name[member]`. So is
/// `metadata`, which LiteLLM reads as JSON. No form of OpenAI's has it.
pub(crate) fn is_denied_in_form(name: &str) -> bool {
    let base = name.split('[').next().unwrap_or_default();
    is_denied(name) || is_denied(base) || base.trim().eq_ignore_ascii_case("metadata")
}

/// Visits the names of all members at any depth, because LiteLLM may read nested
/// metadata. Reads the text once and keeps only the names on the current path.
struct Names<'de> {
    path: Vec<Cow<'de, str>>,
    /// The last name of `path` is denied.
    is_found: bool,
}

impl<'de> DeserializeSeed<'de> for &mut Names<'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Names<'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(Key(name)) = members.next_key()? {
            self.is_found = is_denied(&name);
            self.path.push(name);
            if self.is_found {
                return Err(serde::de::Error::custom("a refused name"));
            }
            members.next_value_seed(&mut *self)?;
            self.path.pop();
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(&mut *self)?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Writes `metadata.a.b`, with `…` for the middle of a long path.
fn place(path: &[Cow<'_, str>]) -> String {
    /// How many names are written at each end.
    const TOLD: usize = 2;
    /// Longer than any denied name.
    const MAX_NAME: usize = 60;
    let names = |names: &[Cow<'_, str>]| {
        names.iter().map(|name| text::shortened(name, MAX_NAME)).collect::<Vec<_>>().join(".")
    };
    if path.len() <= 2 * TOLD {
        return names(path);
    }
    format!("{}.….{}", names(&path[..TOLD]), names(&path[path.len() - TOLD..]))
}

/// The error that names the field.
pub(crate) fn refusal(name: &str) -> ApiError {
    /// Longer than any shortened path.
    const MAX_PLACE: usize = 280;
    let name = text::shortened(name, MAX_PLACE);
    ApiError::new(
        ErrorCode::RefusedField,
        format!("The field {name:?} is not accepted: it could change where requests go."),
    )
    .param(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v10_refuses_by_name_prefix_part_and_end() {
        let whole = NAMES.iter().map(ToString::to_string);
        let starts = PREFIXES.iter().map(|prefix| format!("{prefix}x"));
        let parts = PARTS.iter().map(|part| format!("a_{part}_b"));
        let ends = SUFFIXES.iter().map(|end| format!("some{end}"));
        for name in whole.chain(starts).chain(parts).chain(ends) {
            assert!(is_denied(&name), "{name}");
            assert!(is_denied(&name.to_ascii_uppercase()), "{name}");
            assert!(is_denied(&format!(" {name}\n")), "{name}");
        }
        // A match must not hide another one that starts at the same byte.
        for name in ["litellm", "cache", "aws_api_key_x", "x_url_token", "mock_", "api_key"] {
            assert_eq!(is_denied(name), name != "litellm", "{name}");
        }
    }

    #[test]
    fn lets_what_clients_send_through() {
        for name in [
            "model",
            "messages",
            "max_tokens",
            "max_completion_tokens",
            "prompt_cache_key",
            "safety_identifier",
            "reasoning_effort",
            "metadata",
            "user",
            "logit_bias",
            "top_k",
            "response_format",
            "chat_template_kwargs",
            "web_search_options",
            "service_tier",
            "input",
            "file",
            "image",
            "image[]",
            "timestamp_granularities[]",
            "",
            "my_cache",
            "cached",
            "headers_x",
            "a_mock_",
            "_url_x",
            "callback",
        ] {
            assert!(!is_denied(name), "{name}");
        }
    }

    #[track_caller]
    fn refused(metadata: &str) -> Option<String> {
        let body = format!(r#"{{"metadata": {metadata}}}"#);
        check(&Object::parse(&body).unwrap()).err().and_then(|error| error.param)
    }

    #[test]
    fn v10_a_form_has_no_lists_or_objects_of_refused_fields() {
        for name in ["tags[]", "fallbacks[]", "Cache[a]", "guardrails[][]", "timeout [x]"] {
            assert!(is_denied_in_form(name), "{name}");
        }
        for name in ["metadata", " Metadata", "metadata[]", "metadata[api_key]", "a[b_token]x_url"]
        {
            assert!(is_denied_in_form(name), "{name}");
        }
        for name in ["image[]", "timestamp_granularities[]", "model", "", "[]", "metadata_x"] {
            assert!(!is_denied_in_form(name), "{name}");
        }
    }

    #[test]
    fn v10_looks_into_metadata_that_is_a_text() {
        for (metadata, place) in [
            (r#""{\"a\": {\"api_key\": 1}}""#, Some("metadata.a.api_key")),
            (r#""{\"a\": NaN, \"api_key\": 1}""#, Some("metadata")),
            (r#""{\"a\": 1, \"tags\": []""#, Some("metadata")),
            (r#""[{\"tags\": []}]""#, Some("metadata.tags")),
            (r#""{\"a\": 1}""#, None),
            (r#""tags""#, None),
            (r#""""#, None),
        ] {
            assert_eq!(refused(metadata).as_deref(), place, "{metadata}");
        }
    }

    #[test]
    fn v10_names_the_place_within_metadata() {
        for (metadata, place) in [
            (r#"{"api_key": 1}"#, Some("metadata.api_key")),
            (r#"{"a": {}, "b": [1, "x", {"c": {"x_token": 1}}]}"#, Some("metadata.b.c.x_token")),
            (r#"[{"\u0061pi_key": null}]"#, Some("metadata.api_key")),
            (r#"{"a": {"b": {"c": {"d": {"tags": 1}}}}}"#, Some("metadata.a.….d.tags")),
            (r#"{"a": "api_key", "b": ["api_key", 1.5, -1, true, null]}"#, None),
            ("null", None),
        ] {
            assert_eq!(refused(metadata).as_deref(), place, "{metadata}");
        }
    }
}
