//! Tests fields that could steer routing or spend someone's key: in any spelling, at any
//! depth and in any body, they do not go upstream.

use serde_json::{Value, json};

use crate::support::chunks::says;
use crate::support::client::{Answer, ask, with};

use super::door;

/// Some names for each rule, and all names added last.
const REFUSED: [&str; 26] = [
    "router_settings_override",
    "use_litellm_proxy",
    "specific_deployment",
    "ssl_verify",
    "disable_fallbacks",
    "callbacks",
    "policies",
    "shared_session",
    "success_callback",
    "failure_callbacks",
    "API_KEY",
    "Api_Base",
    "litellm_params",
    "LiteLLM_Anything",
    "my-Api_Key-2",
    "s3_ENDPOINT_x",
    "Some_Url",
    "a_token",
    "input_cost_per_token",
    "x_role_arn_y",
    "mcp_servers",
    "MCP_Servers",
    "langfuse_host",
    "disable_global_guardrails",
    "disable_global_guardrail",
    "applied_policies",
];

fn told(answer: &Answer) -> (String, String) {
    let error = &answer.json()["error"];
    let text = |member: &str| error[member].as_str().unwrap_or_default().to_owned();
    (text("param"), text("message"))
}

#[tokio::test]
async fn v10_every_spelling_is_refused_in_every_body_and_nothing_goes_upstream() {
    let (upstream, server) = door().await;
    for field in REFUSED {
        let inside = [
            json!({ field: 1 }),
            json!({ "a": { "b": { field: 1 } } }),
            json!({ "a": [1, [{ "b": 1 }, { field: null }]] }),
        ];
        let mut members = vec![json!({ field: "x" })];
        members.extend(inside.map(|metadata| json!({ "metadata": metadata })));
        members.push(json!({ "metadata": [{ field: 1 }] }));
        for members in members {
            let is_list = members["metadata"].is_array();
            if !is_list {
                let refused = server.client().chat(&with(ask("Hi"), members.clone())).await;
                assert_eq!(refused.refusal(), (400, "refused_field".to_owned()), "{members}");
                assert!(told(&refused).0.ends_with(field), "{members}");
            }
            let forwarded = with(json!({ "model": "m", "input": "x" }), members.clone());
            let refused = server.client().post("/v1/embeddings", &forwarded).await;
            assert_eq!(refused.refusal(), (400, "refused_field".to_owned()), "{members}");
        }
        let escaped = format!("\\u{:04x}{}", field.as_bytes()[0], &field[1..]);
        let metadata = format!(r#"{{"a":[{{"{escaped}":1}}]}}"#);
        let body = ask("Hi").to_string().replacen('{', &format!("{{\"metadata\":{metadata},"), 1);
        let refused =
            server.client().send("POST", "/v1/chat/completions", Some(body.as_bytes())).await;
        assert_eq!(refused.refusal(), (400, "refused_field".to_owned()), "{body}");
        assert!(upload(&server, field).await.is_err_or_refused(), "{field}");
    }
    let sent = upstream.all_requests();
    for request in sent.iter().filter(|request| request.head.method() != "GET") {
        let body = String::from_utf8_lossy(&request.body).to_ascii_lowercase();
        assert!(!REFUSED.iter().any(|field| body.contains(&field.to_ascii_lowercase())), "{body}");
    }
}

/// An upload whose last field has this name; the first ones are forwarded before it is
/// seen.
async fn upload(server: &crate::support::server::Server, field: &str) -> Upload {
    let part = |name: &str, content: &str| {
        format!("--XX\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{content}\r\n")
    };
    let body = format!("{}{}--XX--\r\n", part("model", "m"), part(field, "x"));
    let request = format!(
        "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
         Content-Type: multipart/form-data; boundary=XX\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        server.address(),
        crate::support::server::KEY,
        body.len()
    );
    Upload(server.client().raw(request.as_bytes()).await)
}

struct Upload(Vec<Answer>);

impl Upload {
    fn is_err_or_refused(&self) -> bool {
        self.0.iter().all(|answer| answer.refusal() == (400, "refused_field".to_owned()))
    }
}

/// Fields by which a provider acts by itself, or another route is chosen. In `metadata` such words
/// are the client's own.
const REFUSED_AT_THE_TOP: [&str; 12] = [
    "container",
    "skills",
    "betas",
    "Betas",
    "plugins",
    "search_parameters",
    "enable_search",
    "models",
    "provider",
    "logits_processors",
    "_skip_mcp_handler",
    "anthropic_beta",
];

#[tokio::test]
async fn v10_a_provider_gets_no_leave_to_act_by_itself() {
    let (upstream, server) = door().await;
    for field in REFUSED_AT_THE_TOP {
        let value = json!([{ "type": "url", "url": "http://evil", "name": "evil" }]);
        let members = json!({ field: value });
        for (path, body) in [
            ("/v1/chat/completions", ask("Hi")),
            ("/v1/embeddings", json!({ "model": "m", "input": "x" })),
            ("/v1/completions", json!({ "model": "m", "prompt": "x" })),
        ] {
            let refused = server.client().post(path, &with(body, members.clone())).await;
            assert_eq!(refused.refusal(), (400, "refused_field".to_owned()), "{path} {field}");
            assert_eq!(told(&refused).0, field, "{path}");
        }
        assert!(upload(&server, field).await.is_err_or_refused(), "{field}");
        assert!(upload(&server, &format!("{field}[]")).await.is_err_or_refused(), "{field}");
    }
    let posted = upstream.all_requests().into_iter().filter(|it| it.head.method() != "GET");
    for request in posted {
        let body = String::from_utf8_lossy(&request.body).to_ascii_lowercase();
        assert!(!body.contains("evil"), "{body}");
    }

    let metadata = json!({ "container": "c", "skills": ["s"], "betas": [], "provider": "p" });
    upstream.round(says("Yes."));
    let answer = server.client().chat(&with(ask("Hi"), json!({ "metadata": metadata }))).await;
    assert_eq!(answer.status(), 200, "{}", answer.json());
}

/// LiteLLM makes a chat completion of a completion, with the tools of its body.
#[tokio::test]
async fn v10_a_completion_brings_no_tools_of_the_provider() {
    let (upstream, server) = door().await;
    let mcp = json!([{ "type": "mcp", "server_label": "x", "server_url": "http://evil" }]);
    for (field, value) in [
        ("tools", mcp),
        ("tool_choice", json!("required")),
        ("functions", json!([])),
        ("web_search_options", json!({})),
    ] {
        let body = json!({ "model": "m", "prompt": "x", field: value });
        let refused = server.client().post("/v1/completions", &body).await;
        assert_eq!(refused.refusal(), (400, "refused_field".to_owned()), "{field}");
        assert_eq!(told(&refused).0, field);
    }
    assert!(upstream.all_requests().iter().all(|request| request.head.method() == "GET"));
}

#[tokio::test]
async fn v10_what_the_model_is_told_stands_in_the_messages_alone() {
    let (upstream, server) = door().await;
    for field in [
        "context_management",
        "system",
        "system_instruction",
        "instructions",
        "prompt",
        "documents",
        "cached_content",
        "previous_response_id",
        "chat_template",
        "Chat_Template",
        "instruction_template_str",
        "transforms",
        "continue_final_message",
    ] {
        let refused = server.client().chat(&with(ask("Hi"), json!({ field: "x" }))).await;
        assert_eq!(refused.refusal(), (400, "refused_field".to_owned()), "{field}");
        assert!(told(&refused).1.contains("what the model is told"), "{field}");
    }
    let arguments = json!({ "chat_template_kwargs": { "tools": [] } });
    let refused = server.client().chat(&with(ask("Hi"), arguments)).await;
    assert_eq!(told(&refused).0, "chat_template_kwargs.tools");
    assert!(upstream.all_requests().iter().all(|request| request.head.method() == "GET"));

    let passing = json!({
        "web_search_options": { "search_context_size": "low" },
        "thinking": { "type": "enabled", "budget_tokens": 1024 },
        "reasoning_effort": "low",
        "chat_template_kwargs": { "enable_thinking": false },
        "guided_json": { "type": "object" },
        "store": false,
    });
    upstream.round(says("Yes."));
    let answer = server.client().chat(&with(ask("Hi"), passing.clone())).await;
    assert_eq!(answer.status(), 200, "{}", answer.json());
    let sent = upstream.request(0).await.json();
    for (field, value) in passing.as_object().expect("an object") {
        assert_eq!(&sent[field], value, "{field}");
    }
}

#[tokio::test]
async fn v10_what_only_looks_like_one_passes_as_it_came() {
    let (upstream, server) = door().await;
    let metadata = json!({
        "tokens": 1, "url": "http://a", "call_back": [{ "keys": ["api_key", "api_base"] }],
        "user_id": "u", "session_id": "s", "text": "{\"api_key\": 1}", "a": { "b": [1, null] },
    });
    upstream.round(says("Yes."));
    let answer = server.client().chat(&with(ask("Hi"), json!({ "metadata": metadata }))).await;
    assert_eq!(answer.status(), 200, "{}", answer.json());
    assert_eq!(upstream.request(0).await.json()["metadata"], metadata);
}

/// 120 levels with keys of 20 kB: the error is short and names the place.
#[tokio::test]
async fn v10_v24_the_place_is_named_in_bounded_words() {
    let (_upstream, server) = door().await;
    let key = "k".repeat(20_000);
    let deep = (0..120).fold(json!({ "api_key": 1 }), |inner, _| json!({ key.clone(): inner }));
    let long = "x".repeat(200_000) + "_token";
    for members in [
        json!({ "metadata": deep }),
        json!({ "metadata": { long.clone(): 1 } }),
        json!({ long: 1 }),
    ] {
        let refused = server.client().chat(&with(ask("Hi"), members)).await;
        assert_eq!(refused.refusal(), (400, "refused_field".to_owned()));
        let (param, message) = told(&refused);
        assert!(param.len() <= 300, "{} bytes", param.len());
        assert!(message.len() <= 600, "{} bytes", message.len());
        assert!(param.ends_with("api_key") || param.ends_with("_token"), "{param}");
    }
}

/// Every other error is short, too.
#[tokio::test]
async fn what_an_error_repeats_of_a_request_is_short() {
    let (_upstream, server) = door().await;
    let long = "\u{200b}".repeat(100_000);
    let many: Vec<Value> = (0..3000)
        .map(|number| json!({ "role": "tool", "tool_call_id": format!("{number}{}", "i".repeat(200)), "content": "" }))
        .collect();
    for members in [
        json!({ "messages": [{ "role": long, "content": "" }] }),
        json!({ "messages": [{ "role": "tool", "tool_call_id": long, "content": "" }] }),
        json!({ "messages": many }),
        json!({ "tools": [{ "type": long }] }),
        json!({ "tool_choice": long }),
        json!({ "toolhand": { long.clone(): 1 } }),
        json!({ "toolhand": { "workspace": long } }),
        json!({ "toolhand": { "tools": { "allow": [long] } } }),
    ] {
        let refused = server.client().chat(&with(ask("Hi"), members)).await;
        assert_eq!(refused.status(), 400);
        assert!(refused.body.len() <= 8_000, "{} bytes", refused.body.len());
    }
    let twice = format!(r#"{{"{long}":1,"{long}":2}}"#);
    let refused =
        server.client().send("POST", "/v1/chat/completions", Some(twice.as_bytes())).await;
    assert_eq!(refused.status(), 400);
    assert!(refused.body.len() <= 8_000, "{} bytes", refused.body.len());
}
