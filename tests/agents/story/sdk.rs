//! The story over the OpenAI SDK for Python, with the real LiteLLM before the scripted upstream.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::{Chat, MAIN, Stage};
use crate::agents::prefixes::{assert_one_prefix_of_values, requests_of};
use crate::support::up::{Builder, Up};
use crate::support::upstream::Upstream;
use crate::support::{environment, watch};

/// `tests/sdk/chat.py` as a process. It ends with this.
pub(crate) struct Script {
    /// Killed on drop.
    _child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Script {
    pub(crate) async fn start(up: &Up, model: &str) -> Self {
        let python = environment("sdk").await.join("bin/python");
        let mut child = Command::new(python)
            .args(["tests/sdk/chat.py", &up.base_url(), &up.key, model])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the SDK's interpreter");
        let stdin = child.stdin.take().expect("piped");
        let stdout = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self { _child: child, stdin, stdout }
    }

    /// The next piece of an answer, or its end.
    async fn next(&mut self) -> Value {
        let line = watch("the script to print", self.stdout.next_line()).await;
        let line = line.expect("text").expect("the script goes on");
        serde_json::from_str(&line).expect("JSON")
    }
}

impl Chat for Script {
    async fn begin(&mut self, words: &str) {
        let line = format!("{}\n", Value::from(words));
        self.stdin.write_all(line.as_bytes()).await.expect("the script reads");
    }

    async fn shows(&mut self, words: &str) {
        let mut shown = String::new();
        while !shown.contains(words) {
            let told = self.next().await;
            shown.push_str(told["piece"].as_str().unwrap_or_else(|| panic!("ended: {told}")));
        }
    }

    async fn end(&mut self) -> String {
        loop {
            let told = self.next().await;
            if let Some(text) = told["text"].as_str() {
                assert_eq!(told["finish"], "stop", "{told}");
                return text.to_owned();
            }
        }
    }
}

/// A chain whose models are those of the upstream.
pub(crate) async fn builder(upstream: &Upstream, models: &[&str]) -> Builder {
    // Installs LiteLLM if necessary.
    drop(Up::shared().await);
    let entries = models.iter().map(|model| {
        format!(
            "  - model_name: {model}\n    litellm_params:\n      model: openai/{model}\n      \
             api_base: {}\n      api_key: none-needed\n",
            upstream.url()
        )
    });
    let entries: String = entries.collect();
    Builder::borrowing().with_litellm(&format!("model_list:\n{entries}"))
}

/// Starts a chain in which a person is asked.
async fn start(upstream: &Upstream) -> Up {
    let builder = builder(upstream, &[MAIN, "sonnet", "haiku", "opus"]).await;
    builder.argument("--sandbox=off").start_aside().await
}

#[tokio::test]
async fn over_the_python_sdk_and_litellm() {
    let upstream = Upstream::start();
    let up = start(&upstream).await;
    let workspace = up.workspace();
    Stage::set(&workspace);
    let mut chat = Script::start(&up, MAIN).await;

    let stage = Stage { upstream: &upstream, rest: up.client(), workspace: &workspace };
    stage.play(&mut chat).await;

    assert_one_prefix_of_values(&requests_of(&upstream, MAIN));
    let ending = tokio::task::spawn_blocking(move || drop(up));
    ending.await.expect("nothing is left");
}
