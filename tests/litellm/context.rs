//! Tests that the context of a model is read from the model info of the real LiteLLM.

use serde_json::{Value, json};

use super::{Builder, Up, drop_up};
use crate::support::chunks::says;
use crate::support::upstream::Upstream;

fn conversation(messages: &[Value]) -> Value {
    json!({ "model": "small", "messages": messages, "stream": true })
}

#[tokio::test]
async fn a_conversation_is_summarised_before_it_fills_the_context_that_litellm_tells() {
    // Installs LiteLLM if necessary.
    drop(Up::shared().await);
    let provider = Upstream::start();
    let yaml = format!(
        "model_list:\n  - model_name: small\n    litellm_params:\n      model: openai/small\n      \
         api_base: {}\n      api_key: none-needed\n    model_info:\n      max_input_tokens: 10000\n",
        provider.url()
    );
    let up = Builder::borrowing().with_litellm(&yaml).start_aside().await;
    let message = |role: &str, content: &str| json!({ "role": role, "content": content });
    let mut messages = Vec::new();
    for number in 1..=4 {
        messages.push(message("user", &"of plums and pears ".repeat(600)));
        messages.push(message("assistant", &format!("Answer {number}.")));
    }
    messages.push(message("user", "And?"));
    provider.round(says("The fifth answer."));
    assert_eq!(up.client().streamed(&conversation(&messages)).await.text(), "The fifth answer.");
    while !up.log().contains("upstream told the contexts of models") {
        tokio::task::yield_now().await;
    }
    messages.push(message("assistant", "Another fifth answer."));
    messages.push(message("user", "And then?"));
    provider.round(says("They spoke of plums."));
    provider.round(says("The sixth answer."));

    let answer = up.client().streamed(&conversation(&messages)).await;

    assert_eq!(answer.text(), "The sixth answer.");
    assert!(provider.request(1).await.json().get("tools").is_none());
    let sent = provider.request(2).await.json().to_string();
    assert!(sent.contains("They spoke of plums.") && sent.len() < 60_000, "{sent}");
    drop_up(up).await;
}
