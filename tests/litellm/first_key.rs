//! Tests what a person is told whose provider refuses the first real key: the model, its provider,
//! the provider's own words, and where to look.

use std::process::{Command, Stdio};
use std::sync::Arc;

use super::{Builder, Up, ask, drop_up};
use crate::support::faults::{Asked, FaultUpstream, Step, answer};

/// What a provider answers, and what a client is told of it.
struct Case {
    model: &'static str,
    status: &'static str,
    body: &'static str,
    told: &'static str,
}

const CASES: [Case; 7] = [
    Case {
        model: "anthropic/wrong-key",
        status: "401 U",
        body: r#"{"type": "error", "error": {"type": "x", "message": "invalid x-api-key"}}"#,
        told: "the provider refuses the key: invalid x-api-key; check ANTHROPIC_API_KEY and start \
               toolhand again",
    },
    Case {
        model: "anthropic/gone",
        status: "404 N",
        body: r#"{"type": "error", "error": {"type": "x", "message": "model: gone not found"}}"#,
        told: "the provider has no such model: model: gone not found (it is asked with \
               ANTHROPIC_API_KEY)",
    },
    Case {
        model: "anthropic/overloaded",
        status: "529 O",
        body: r#"{"type": "error", "error": {"type": "x", "message": "Overloaded"}}"#,
        told: "the provider failed: Overloaded (it is asked with ANTHROPIC_API_KEY)",
    },
    Case {
        model: "anthropic/limited",
        status: "429 T",
        body: r#"{"type": "error", "error": {"type": "x", "message": "Slow down, please"}}"#,
        told: "the provider's rate limit is reached: Slow down, please (it is asked with \
               ANTHROPIC_API_KEY)",
    },
    // What stands between the provider and us answers with a page.
    Case {
        model: "anthropic/behind-a-proxy",
        status: "502 B",
        body: "<html><head><title>502 Bad Gateway</title></head><h1>nginx</h1></html>",
        told: "the provider failed: 502 Bad Gateway (it is asked with ANTHROPIC_API_KEY)",
    },
    Case {
        model: "anthropic/blocked",
        status: "403 F",
        body: "<!DOCTYPE html><html><title>Blocked</title></html>",
        told: "the provider refuses the key: Blocked; check ANTHROPIC_API_KEY and start toolhand \
               again",
    },
    // Its key comes with a line break, which no header may have.
    Case {
        model: "openai/broke",
        status: "429 T",
        body: r#"{"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}"#,
        told: "the provider's rate limit is reached: You exceeded your quota (it is asked with \
               OPENAI_API_KEY)",
    },
];

impl Case {
    /// The name that clients know.
    fn name(&self) -> &'static str {
        self.model.split('/').next_back().expect("a name")
    }
}

fn provider(request: &Asked) -> Vec<Step> {
    let model = request.json()["model"].as_str().expect("a model").to_owned();
    let case = CASES.iter().find(|case| case.name() == model);
    let Case { status, body, .. } = case.unwrap_or_else(|| panic!("no script for {model}"));
    let kind = if body.starts_with('<') { "text/html" } else { "application/json" };
    vec![Step::Bytes(answer(status, &[&format!("content-type: {kind}")], body.as_bytes()))]
}

fn config(provider: &str) -> String {
    let entries = CASES.map(|Case { model, .. }| {
        let (kind, name) = model.split_once('/').expect("two parts");
        let base = if kind == "openai" { "/v1" } else { "" };
        format!(
            "  - model_name: {name}\n    litellm_params:\n      model: {model}\n      \
             api_base: {provider}{base}\n      api_key: os.environ/{}_API_KEY\n",
            kind.to_uppercase()
        )
    });
    format!("model_list:\n{}", entries.concat())
}

/// What `check` says beside a chain that runs.
fn checked(up: &Up) -> String {
    let key = up.key_path();
    let state = key.parent().expect("a directory");
    let mut check = Command::new(env!("CARGO_BIN_EXE_toolhand"));
    check.env_clear().env("HOME", state).env("TOOLHAND_STATE_DIR", state).arg("check");
    let checked = check.stdin(Stdio::null()).output().expect("the binary");
    String::from_utf8_lossy(&checked.stdout).into_owned()
}

#[tokio::test]
async fn an_error_of_a_provider_names_it_and_where_to_look() {
    // Installs LiteLLM if necessary.
    let _installed = Up::shared().await;
    let failing = FaultUpstream::start(Arc::new(provider));
    let base = failing.url();
    let base = base.strip_suffix("/v1").expect("a base URL");
    let key = "sk-ant-verysecretverysecret";
    let builder = Builder::borrowing()
        .with_litellm(&config(base))
        .environment("ANTHROPIC_API_KEY", key)
        .environment("OPENAI_API_KEY", "sk-proj-verysecretverysecret\r\n")
        .environment("TOOLHAND_UPSTREAM_BACKOFF", r#"["1ms", "1ms"]"#);
    let up = builder.start_aside().await;

    for case in CASES {
        let mut body = ask("Go on.");
        body["model"] = case.name().into();
        let refused = up.client().chat(&body).await.json();
        let expected = format!("\"{}\" ({}): {}", case.name(), case.model, case.told);
        assert_eq!(refused["error"]["message"], expected);
    }
    let log = up.log();
    assert!(!log.contains("Traceback") && !log.contains("verysecret"), "{log}");
    assert_eq!(log.matches("litellm.log").count(), 1, "{log}");

    let told = checked(&up);
    assert!(told.contains("\nmodels: wrong-key, gone, overloaded, limited, "), "{told}");
    drop_up(up).await;
}

#[tokio::test]
async fn check_lists_the_models_and_those_left_out() {
    let up = Up::shared().await;
    let told = checked(&up);
    assert!(told.contains("\nmodels: demo"), "{told}");
    assert!(
        told.lines().any(|line| {
            line.starts_with("left out: ")
                && line.contains("sonnet")
                && line.ends_with("set ANTHROPIC_API_KEY")
        }),
        "{told}"
    );
}
