//! Tests fields that could steer routing or spend someone's key: in any spelling, at any
//! depth and in any body, they do not go upstream.

use serde_json::{Value, json};

use crate::support::chunks::says;
use crate::support::client::{Answer, ask, with};

use super::door;

/// Some names for each rule, and all names added last.
const REFUSED: [&str; 20] = [
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
