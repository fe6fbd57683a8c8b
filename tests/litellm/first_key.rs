//! Tests what a person is told whose provider refuses the first real key: the model, its provider,
//! the provider's own words, and where to look.

use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::json;

use super::{Builder, Up, ask, drop_up};
use crate::support::faults::{Asked, FaultUpstream, Step, answer};

/// `(model, status line, the provider's words, what a client is told)`.
const CASES: [(&str, &str, &str, &str); 4] = [
    (
        "wrong-key",
        "401 U",
        "invalid x-api-key",
        "\"wrong-key\" (anthropic/wrong-key): the provider refuses the key: invalid x-api-key; check \
         ANTHROPIC_API_KEY and start toolhand again",
    ),
    (
        "gone",
        "404 N",
        "model: gone not found",
        "\"gone\" (anthropic/gone): the provider has no such model: model: gone not found (it is \
         asked with ANTHROPIC_API_KEY)",
    ),
    (
        "overloaded",
        "529 O",
        "Overloaded",
        "\"overloaded\" (anthropic/overloaded): the provider failed: Overloaded (it is asked with \
         ANTHROPIC_API_KEY)",
    ),
    (
        "limited",
        "429 T",
        "Slow down, please",
        "\"limited\" (anthropic/limited): the provider's rate limit is reached: Slow down, please \
         (it is asked with ANTHROPIC_API_KEY)",
    ),
];

fn provider(request: &Asked) -> Vec<Step> {
    let model = request.json()["model"].as_str().expect("a model").to_owned();
    let case = CASES.iter().find(|(name, ..)| *name == model);
    let (_, status, message, _) = case.unwrap_or_else(|| panic!("no script for {model}"));
    let body = json!({ "type": "error", "error": { "type": "x", "message": message } });
    let body = body.to_string();
    vec![Step::Bytes(answer(status, &["content-type: application/json"], body.as_bytes()))]
}

fn config(provider: &str) -> String {
    let entries = CASES.map(|(model, ..)| {
        format!(
            "  - model_name: {model}\n    litellm_params:\n      model: anthropic/{model}\n      \
             api_base: {provider}\n      api_key: os.environ/ANTHROPIC_API_KEY\n"
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
        .environment("TOOLHAND_UPSTREAM_BACKOFF", r#"["1ms", "1ms"]"#);
    let up = builder.start_aside().await;

    for (model, _, _, expected) in CASES {
        let mut body = ask("Go on.");
        body["model"] = model.into();
        let refused = up.client().chat(&body).await.json();
        assert_eq!(refused["error"]["message"], expected);
    }
    let log = up.log();
    assert!(!log.contains("Traceback") && !log.contains(key), "{log}");
    assert_eq!(log.matches("litellm.log").count(), 1, "{log}");

    let told = checked(&up);
    assert!(told.contains("\nmodels: wrong-key, gone, overloaded, limited\n"), "{told}");
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
