//! Tests which names are refused where, and that the page on requests says the same.

use std::collections::BTreeSet;

use super::*;

const PAGE: &str = include_str!("../../../docs/requests.md");

fn is_refused(name: &str, place: Place) -> bool {
    reason(name, place).is_some()
}

/// Each listed name, completed to a whole field, with its list.
fn examples() -> Vec<(String, &'static NameList)> {
    let mut examples = Vec::new();
    for list in &names::LISTS {
        for name in list.names {
            let example = match list.part {
                NamePart::Whole => (*name).to_owned(),
                NamePart::Start => format!("{name}x"),
                NamePart::Anywhere => format!("a_{name}_b"),
                NamePart::End => format!("some{name}"),
            };
            examples.push((example, list));
        }
    }
    examples
}

#[test]
fn v10_refuses_by_name_prefix_part_and_end() {
    for (name, list) in examples() {
        for place in [Place::Chat, Place::Forwarded, Place::Metadata] {
            let expected = place.is_within(list.extent);
            assert_eq!(is_refused(&name, place), expected, "{name} {place:?}");
            assert_eq!(is_refused(&name.to_ascii_uppercase(), place), expected, "{name}");
            assert_eq!(is_refused(&format!(" {name}\n"), place), expected, "{name}");
        }
    }
    // A match must not hide another one that starts at the same byte.
    for name in ["litellm", "cache", "aws_api_key_x", "x_url_token", "mock_", "api_key"] {
        assert_eq!(is_refused(name, Place::Metadata), name != "litellm", "{name}");
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
        "timestamp_granularities[]",
        "",
        "my_cache",
        "cached",
        "headers_x",
        "a_mock_",
        "_url_x",
        "callback",
    ] {
        assert!(!is_refused(name, Place::Chat) || name == "_url_x", "{name}");
        assert!(!is_refused(name, Place::Metadata), "{name}");
    }
    // Fields of other routes, which are no ones of a chat completion.
    let forwarded = ["input", "prompt", "instructions", "documents", "background", "speed", "echo"];
    for name in forwarded.into_iter().chain(["file", "image", "image[]", "order", "truncate"]) {
        assert!(check_form_field(name).is_ok() && !is_refused(name, Place::Forwarded), "{name}");
    }
}

#[track_caller]
fn refused(metadata: &str) -> Option<String> {
    let body = format!(r#"{{"metadata": {metadata}}}"#);
    check(&Object::parse(&body).unwrap()).err().and_then(|error| error.param)
}

#[test]
fn v10_a_form_has_no_lists_or_objects_of_refused_fields() {
    let is_refused = |name: &str| check_form_field(name).is_err();
    for name in ["tags[]", "fallbacks[]", "Cache[a]", "guardrails[][]", "timeout [x]"] {
        assert!(is_refused(name), "{name}");
    }
    for name in ["metadata", " Metadata", "metadata[]", "metadata[api_key]", "a[b_token]x_url"] {
        assert!(is_refused(name), "{name}");
    }
    for name in ["mcp_servers", "mcp_servers[0][url]", "Container[id]", "skills[]", "betas[]"] {
        assert!(is_refused(name), "{name}");
    }
    for name in ["image[]", "timestamp_granularities[]", "model", "", "[]", "metadata_x"] {
        assert!(!is_refused(name), "{name}");
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
        (r#"{"mcp_servers": []}"#, Some("metadata.mcp_servers")),
        (r#"{"a": {}, "b": [1, "x", {"c": {"x_token": 1}}]}"#, Some("metadata.b.c.x_token")),
        (r#"[{"\u0061pi_key": null}]"#, Some("metadata.api_key")),
        (r#"{"a": {"b": {"c": {"d": {"tags": 1}}}}}"#, Some("metadata.a.….d.tags")),
        (r#"{"a": "api_key", "b": ["api_key", 1.5, -1, true, null]}"#, None),
        (r#"{"container": 1, "skills": [], "betas": {}, "provider": "x", "_id": 1}"#, None),
        ("null", None),
    ] {
        assert_eq!(refused(metadata).as_deref(), place, "{metadata}");
    }
}

#[test]
fn v10_the_arguments_of_a_template_are_switches_and_no_messages() {
    let refused = |arguments: &str| {
        let body = format!(r#"{{"chat_template_kwargs": {arguments}}}"#);
        check_chat(&Object::parse(&body).unwrap()).err().and_then(|error| error.param)
    };
    for plain in [r#"{"enable_thinking": false, "budget": 5, "effort": "low"}"#, "{}", "null"] {
        assert_eq!(refused(plain), None, "{plain}");
    }
    for (arguments, place) in [
        (r#"{"chat_template": "x"}"#, "chat_template_kwargs.chat_template"),
        (r#"{"tools": []}"#, "chat_template_kwargs.tools"),
        (r#"{"messages": [{"role": "user"}]}"#, "chat_template_kwargs.messages"),
        (r#"{"add_generation_prompt": false}"#, "chat_template_kwargs.add_generation_prompt"),
        (r#"{"x": {}}"#, "chat_template_kwargs.x"),
        (r#""{}""#, "chat_template_kwargs"),
        ("[]", "chat_template_kwargs"),
    ] {
        assert_eq!(refused(arguments).as_deref(), Some(place), "{arguments}");
    }
}

#[test]
fn v10_the_error_says_why_it_refuses() {
    let message = |field: &str| {
        let body = format!(r#"{{"{field}": 1}}"#);
        check_chat(&Object::parse(&body).unwrap()).unwrap_err().message
    };
    assert!(message("api_base").contains("where requests go"));
    assert!(message("mcp_servers").contains("act by itself"));
    assert!(message("context_management").contains("what the model is told"));
}

/// A row of a table of the page: its fields, and in which places they are refused.
struct DocumentedRow {
    fields: Vec<String>,
    extent: Option<Extent>,
}

/// The rows of the tables of fields: names, where they are refused, why.
fn documented() -> Vec<DocumentedRow> {
    let mut rows = Vec::new();
    for line in PAGE.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [fields, decision, reason] = cells[..] else { panic!("three cells: {line}") };
        assert!(!reason.is_empty(), "each decision has a reason: {line}");
        let extent = match decision {
            "refused, in `metadata` too" => Some(Extent::WithMetadata),
            "refused" => Some(Extent::TopLevel),
            "refused outside of chat" => Some(Extent::Forwarded),
            "refused in chat" => Some(Extent::Chat),
            "passes" => None,
            other => panic!("no decision: {other}"),
        };
        let fields = fields.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        rows.push(DocumentedRow { fields, extent });
    }
    rows
}

/// The name as the page writes it: `…` stands for the rest of it.
fn as_documented(name: &str, part: NamePart) -> String {
    match part {
        NamePart::Whole => name.to_owned(),
        NamePart::Start => format!("{name}…"),
        NamePart::Anywhere => format!("…{name}…"),
        NamePart::End => format!("…{name}"),
    }
}

#[test]
fn v10_the_page_on_requests_lists_every_decision() {
    let mut listed = BTreeSet::new();
    for list in &names::LISTS {
        for name in list.names {
            listed.insert((as_documented(name, list.part), format!("{:?}", list.extent)));
        }
    }
    let mut documented_names = BTreeSet::new();
    for row in documented() {
        for field in row.fields {
            let Some(extent) = row.extent else {
                assert!(!is_refused(&field, Place::Chat), "{field} passes, says the page");
                continue;
            };
            documented_names.insert((field, format!("{extent:?}")));
        }
    }
    let missing: Vec<_> = listed.difference(&documented_names).collect();
    assert!(missing.is_empty(), "not on the page: {missing:?}");
    let wrong: Vec<_> = documented_names.difference(&listed).collect();
    assert!(wrong.is_empty(), "only on the page: {wrong:?}");
}

#[test]
fn every_field_that_openai_documents_has_a_decision_of_its_own() {
    let passes: BTreeSet<String> = documented()
        .into_iter()
        .filter(|row| row.extent.is_none())
        .flat_map(|row| row.fields)
        .collect();
    for name in ["web_search_options", "store", "service_tier", "prediction", "modalities"] {
        assert!(passes.contains(name), "{name}");
    }
}
