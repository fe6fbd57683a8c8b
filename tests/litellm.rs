//! Tests the whole chain with the real LiteLLM: `up`, tool calls, errors.

mod faults;
mod providers;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::chunks::{calls, says};
use crate::support::environment;
use crate::support::server::{Builder as ServerBuilder, Server};
use crate::support::up::{Builder, Up};
use crate::support::upstream::Upstream;

fn ask(request: &str) -> Value {
    json!({ "model": "demo", "messages": [{ "role": "user", "content": request }] })
}

fn streamed(request: &str) -> Value {
    let mut body = ask(request);
    body["stream"] = true.into();
    body["stream_options"] = json!({ "include_usage": true });
    body
}

/// Runs a line of the greeting in a shell, with the SDK's Python first on the path.
fn type_in(line: &str, path: &Path) -> String {
    let search = std::env::var_os("PATH").unwrap_or_default();
    let mut paths = vec![path.to_owned()];
    paths.extend(std::env::split_paths(&search));
    let output = Command::new("bash")
        .args(["-c", line])
        .env("PATH", std::env::join_paths(paths).expect("no colon"))
        .output()
        .expect("bash");
    assert!(output.status.success(), "{line}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[tokio::test]
async fn the_printed_lines_give_an_answer_that_quotes_a_file() {
    let up = Up::shared().await;
    let sdk = environment("sdk").await.join("bin");
    let printed = |start: &str| {
        let line = up.greeting.lines().map(str::trim).find(|line| line.starts_with(start));
        line.unwrap_or_else(|| panic!("no {start} line:\n{}", up.greeting)).to_owned()
    };

    for line in [printed("curl "), printed("python3 ")] {
        let answer = type_in(&line, &sdk);
        assert!(answer.contains("# The quince project"), "{line}\n{answer}");
    }
    assert!(up.greeting.contains("sonnet"), "what is left out is named:\n{}", up.greeting);
    assert!(up.greeting.contains("ANTHROPIC_API_KEY"), "{}", up.greeting);
}

/// The first example in the README that begins with `fence`, with this chain's address
/// and key.
fn example(fence: &str, up: &Up) -> String {
    const README: &str = include_str!("../README.md");
    let (_, rest) = README.split_once(fence).expect("README has the example");
    let (example, _) = rest.split_once("\n```").expect("README closes the example");
    let key = up.key_path().display().to_string();
    let start = fence.split_once('\n').map_or("", |(_, start)| start);
    format!("{start}{example}\n")
        .replace("127.0.0.1:8787", &up.address.to_string())
        .replace("~/.local/share/toolhand/api-key", &key)
        .replace("/root/.local/share/toolhand/api-key", &key)
}

#[tokio::test]
async fn the_examples_of_readme_work() {
    let up = Up::shared().await;
    up.write("Some.toml", "version = \"quince\"\n");
    let sdk = environment("sdk").await.join("bin");

    let answer = type_in(&example("```sh\ncurl ", &up), &sdk);
    assert!(answer.contains("# The quince project"), "{answer}");

    let program = example("```python\nfrom openai", &up);
    let answer = type_in(&format!("python3 - <<'END'\n{program}END\n"), &sdk);
    assert!(answer.contains("Some.toml:1:version"), "{answer}");
}

#[tokio::test]
async fn a_tool_round_trip_streamed_and_not() {
    let up = Up::shared().await;
    let client = up.client();

    let answer = client.chat(&ask("read notes.txt")).await;
    assert_eq!(answer.status(), 200, "{}", answer.json());
    assert!(answer.text().contains("the quince is ripe"), "{}", answer.text());
    assert_eq!(answer.json()["toolhand"]["rounds"], 2);
    assert_eq!(answer.json()["toolhand"]["tool_calls"], 1);

    let transcript = client.streamed(&streamed("read notes.txt")).await;
    assert!(transcript.text().contains("the quince is ripe"), "{:?}", transcript.message);
    assert_eq!(transcript.finish_reason.as_deref(), Some("stop"));
    assert!(transcript.usage.expect("figures")["total_tokens"].as_u64() > Some(0));
    assert!(transcript.events.iter().any(|event| event.reasoning().contains("Read")));
}

#[tokio::test]
async fn calls_side_by_side_and_rounds_one_after_the_other() {
    let up = Up::shared().await;
    up.write("plums.txt", "blue plums\n");

    let request = "read plums.txt and find quince in . and list *.md \
                   then replace blue with yellow in plums.txt then run cat plums.txt";
    let transcript = up.client().streamed(&streamed(request)).await;

    assert_eq!(up.file("plums.txt"), "yellow plums\n");
    assert_eq!(transcript.toolhand["tool_calls"], 5, "{:?}", transcript.message);
    assert_eq!(transcript.toolhand["rounds"], 4);
    for quoted in ["blue plums", "the quince is ripe", "README.md", "Bash (cat plums.txt) answered"]
    {
        assert!(transcript.text().contains(quoted), "{quoted}: {}", transcript.text());
    }
}

#[tokio::test]
async fn a_failed_call_is_told() {
    let up = Up::shared().await;

    let answer = up.client().chat(&ask("read no-such-file.txt")).await;

    assert!(answer.text().contains("Read (no-such-file.txt) failed"), "{}", answer.text());
    assert!(answer.text().contains("Error: "), "{}", answer.text());
}

#[tokio::test]
async fn in_the_default_mode_reading_works_and_the_rest_says_what_would_allow_it() {
    let up = Up::shared().await;
    let mut body = ask("list *.txt and write x to y.txt and run true");
    body["toolhand"] = json!({ "mode": "default" });

    let text = up.client().chat(&body).await.text();

    assert!(text.contains("notes.txt"), "{text}");
    assert!(text.contains("Write (y.txt) failed"), "{text}");
    assert!(text.contains("Bash (true) failed"), "{text}");
    assert!(!up.workspace().join("y.txt").exists());
}

#[tokio::test]
async fn its_errors_get_our_codes() {
    let up = Up::shared().await;
    let mut body = ask("hello");
    body["model"] = "no-such-model".into();
    assert_eq!(up.client().chat(&body).await.refusal(), (404, "model_not_found".into()));

    let upstream = format!("http://127.0.0.1:{}/v1", up.litellm_port);
    for key in ["sk-wrong", "wrong"] {
        let builder = ServerBuilder::new(&upstream);
        let server: Server = builder.environment("TOOLHAND_UPSTREAM_API_KEY", key).start().await;
        let refusal = server.client().chat(&ask("hello")).await.refusal();
        assert_eq!(refusal, (502, "upstream_auth".into()), "{key}");
    }
    let server = ServerBuilder::new(&upstream).start().await;
    let refusal = server.client().chat(&ask("hello")).await.refusal();
    assert_eq!(refusal, (502, "upstream_auth".into()), "no key at all");
}

/// Models whose provider needs a key that is not set.
const KEYLESS: &str = "\
model_list:
  - model_name: keyless-openai
    litellm_params:
      model: openai/keyless
      api_base: http://127.0.0.1:9/v1
      api_key: os.environ/NO_SUCH_KEY
  - model_name: keyless-anthropic
    litellm_params:
      model: anthropic/claude-sonnet-5-5
      api_key: os.environ/NO_SUCH_KEY
";

#[tokio::test]
async fn a_second_start_needs_no_network_and_even_a_killed_chain_leaves_nothing() {
    // Installs LiteLLM if necessary.
    drop(Up::shared().await);
    let builder = Builder::borrowing();
    let config = builder.home().join("keyless.yaml");
    fs::write(&config, KEYLESS).expect("a new file");
    let config = config.to_str().expect("UTF-8").to_owned();
    let builder = builder
        .argument(&format!("--litellm-config={config}"))
        .argument("--litellm-workers=2")
        .environment("HTTPS_PROXY", "http://127.0.0.1:9")
        .environment("HTTP_PROXY", "http://127.0.0.1:9");
    let starting = tokio::task::spawn_blocking(move || builder.start());
    let mut up = starting.await.expect("up starts");
    assert!(!up.log().contains("Installing"), "{}", up.log());
    assert!(up.greeting.contains(r#""model":"keyless-openai""#), "{}", up.greeting);

    // LiteLLM answers 500 for one and 401 for the other.
    for model in ["keyless-openai", "keyless-anthropic"] {
        let mut body = ask("hello");
        body["model"] = model.into();
        let refusal = up.client().chat(&body).await.refusal();
        assert_eq!(refusal, (502, "upstream_auth".into()), "{model}");
    }

    let ending = tokio::task::spawn_blocking(move || up.end(Signal::KILL));
    let status = ending.await.expect("no panic").expect("it ran");
    assert!(!status.success());
}

#[tokio::test]
async fn p13_litellm_alone_gets_the_provider_keys_and_its_environment_shows_none() {
    let up = start_with_a_provider_key(1).await;
    assert_eq!(up.litellm().len(), 1);
    drop_up(up).await;
}

#[tokio::test]
async fn p13_litellms_workers_show_no_keys_and_end_with_the_process_that_forked_them() {
    let mut up = start_with_a_provider_key(2).await;
    // The one that listens, and its workers.
    assert_eq!(up.litellm().len(), 3);

    let ending = tokio::task::spawn_blocking(move || {
        let status = up.end_litellm();
        (status, up.log())
    });
    let (status, log) = ending.await.expect("no worker is left");
    assert_eq!(status.and_then(|status| status.code()), Some(1), "{log}");
    assert!(log.contains("LiteLLM ended; its log is "), "{log}");
}

async fn drop_up(up: Up) {
    let ending = tokio::task::spawn_blocking(move || drop(up));
    ending.await.expect("nothing is left");
}

/// Starts a chain whose LiteLLM has a provider's key, and checks that the key arrives at the
/// provider and that no process shows it.
async fn start_with_a_provider_key(workers: usize) -> Up {
    // Installs LiteLLM if necessary.
    drop(Up::shared().await);
    let provider = Upstream::start();
    let key = format!("sk-{}", uuid::Uuid::new_v4().simple());
    let builder = Builder::borrowing().free();
    let config = builder.home().join("provided.yaml");
    let yaml = format!(
        "model_list:\n  - model_name: provided\n    litellm_params:\n      model: openai/provided\n      \
         api_base: {}\n      api_key: os.environ/A_PROVIDERS_KEY\n",
        provider.url()
    );
    fs::write(&config, yaml).expect("a new file");
    let builder = builder
        .argument(&format!("--litellm-config={}", config.display()))
        .environment("A_PROVIDERS_KEY", &key)
        .environment("TOOLHAND_UP_LITELLM_WORKERS", &workers.to_string())
        // LiteLLM's own variable does not count.
        .environment("NUM_WORKERS", "4");
    let starting = tokio::task::spawn_blocking(move || builder.start());
    let up = starting.await.expect("up starts");
    let look = format!(
        "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -ac {key}; \
         cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -q '[l]itellm.proxy.proxy_cli' \
         && echo LiteLLM runs"
    );
    provider.round(calls(&[("c1", "Bash", json!({ "command": look }))]));
    provider.round(says("Done."));
    let mut body = streamed("Look.");
    body["model"] = "provided".into();

    let transcript = up.client().streamed(&body).await;

    assert_eq!(transcript.text(), "Done.");
    let request = provider.request(0).await;
    assert_eq!(request.head.header("authorization"), Some(format!("Bearer {key}").as_str()));
    assert_eq!(crate::turn::answers(&provider, 1).await, ["0\nLiteLLM runs"]);
    up
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("bound").port();

    for flag in ["--litellm-port", "--demo-port"] {
        let (status, stderr) = Builder::fresh().argument(&format!("{flag}={port}")).run();
        assert_eq!(status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(&format!("127.0.0.1:{port}")), "{stderr}");
        assert!(stderr.contains(flag), "{stderr}");
    }
}

#[test]
fn without_python_it_says_what_to_install() {
    let builder = Builder::fresh();
    let empty = builder.home().join("empty");
    fs::create_dir(&empty).expect("a new directory");

    let (status, stderr) = builder.environment("PATH", empty.to_str().expect("UTF-8")).run();

    assert_eq!(status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("apt install python3 python3-venv"), "{stderr}");
}

/// Replaces Python: agrees to every check, copies itself as an environment, installs (or
/// fails, or never ends), and then is a LiteLLM that exits at once.
const PYTHON: &str = r#"#!/bin/sh
case "$4" in
  venv) mkdir -p "$5/bin" && cp "$0" "$5/bin/python" ;;
  pip)
    for package in 1 2 3 4 5 6 7 8 9 10 11; do echo "Collecting package$package==1"; done
    [ -e "$HOME/broken" ] && { echo "no space left" >&2; exit 1; }
    # As the real one, which is started by a file that watches its standard input.
    [ -e "$HOME/slow" ] && { sleep 60 & cat; kill $!; exit 1; }
    echo "Installing collected packages: a" ;;
  litellm*) echo "cannot import x"; exit 1 ;;
esac
"#;

/// A start that uses the program above as Python.
fn with_stand_in() -> Builder {
    let builder = Builder::fresh();
    let programs = builder.home().join("bin");
    fs::create_dir(&programs).expect("a new directory");
    fs::write(programs.join("python3"), PYTHON).expect("a new file");
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(programs.join("python3"), mode).expect("our own");
    let path = format!("{}:/usr/bin:/bin", programs.display());
    let home = builder.home().to_str().expect("UTF-8").to_owned();
    builder.environment("PATH", &path).environment("HOME", &home)
}

#[test]
fn a_broken_installation_is_told_and_the_next_start_makes_it_anew() {
    let builder = with_stand_in();
    fs::write(builder.home().join("broken"), "").expect("a new file");

    let (_, broken) = builder.run();
    assert!(broken.contains("LiteLLM could not be installed"), "{broken}");
    assert!(broken.contains("no space left"), "{broken}");
    fs::remove_file(builder.home().join("broken")).expect("it is there");
    let half = builder.state().join("litellm/venv/half-written");
    fs::write(&half, "").expect("a new file");

    let (_, anew) = builder.run();
    for told in [
        "Installing LiteLLM into the state directory.",
        "  making a virtual environment",
        "  fetching packages: 1 of about ",
        "  fetching packages: 10 of about ",
        "  unpacking 11 packages",
        "LiteLLM is installed.",
    ] {
        assert_eq!(anew.matches(told).count(), 1, "{told}: {anew}");
    }
    assert!(anew.contains("LiteLLM ended"), "{anew}");
    assert!(anew.contains("cannot import x"), "{anew}");
    assert!(!half.exists());

    let (status, again) = builder.run();
    assert_eq!(status.code(), Some(1));
    assert!(!again.contains("Installing"), "{again}");
}

#[test]
fn an_installation_can_be_interrupted_and_the_next_start_makes_it_anew() {
    for signal in [Signal::INT, Signal::TERM] {
        let builder = with_stand_in();
        let slow = builder.home().join("slow");
        fs::write(&slow, "").expect("a new file");

        let (status, stderr) = builder.interrupt(signal, "fetching packages: 10");
        assert_eq!(status.code(), Some(0), "{stderr}");
        fs::remove_file(slow).expect("it is there");

        let (_, anew) = builder.run();
        assert!(anew.contains("LiteLLM is installed."), "{anew}");
    }
}
