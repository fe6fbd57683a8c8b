//! Tests the whole chain with the real LiteLLM: `up`, tool calls, errors.

mod context;
mod faults;
mod first_key;
mod mcp;
mod providers;
mod traits;
mod wire;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::chunks::{calls, says};
use crate::support::client::Client;
use crate::support::environment;
use crate::support::faults::{Step, answer, framed, head};
use crate::support::server::{Builder as ServerBuilder, Server};
use crate::support::up::{Builder, Up};
use crate::support::upstream::{self, Upstream};

fn ask(request: &str) -> Value {
    json!({ "model": "demo", "messages": [{ "role": "user", "content": request }] })
}

fn streamed(request: &str) -> Value {
    let mut body = ask(request);
    body["stream"] = true.into();
    body["stream_options"] = json!({ "include_usage": true });
    body
}

/// The answer of a provider that refuses a request.
fn refusal(status: &str, message: &str, code: &str) -> Vec<Step> {
    let body = json!({ "error": { "message": message, "type": "x", "param": null, "code": code } });
    vec![Step::Bytes(answer(
        status,
        &["content-type: application/json"],
        body.to_string().as_bytes(),
    ))]
}

/// A streamed answer of a provider, in these pieces.
fn stream(pieces: &[upstream::Step]) -> Vec<Step> {
    let lines = ["content-type: text/event-stream", "transfer-encoding: chunked"];
    let mut steps = vec![Step::Bytes(head("200 OK", &lines))];
    for piece in pieces {
        let upstream::Step::Send(bytes) = piece else { panic!("no piece of a body: {piece:?}") };
        steps.push(Step::Bytes(framed(bytes)));
    }
    steps.extend([Step::Bytes(b"0\r\n\r\n".to_vec()), Step::Fin]);
    steps
}

/// Runs a line of the greeting in a shell, with the SDK's Python first on the path.
fn type_in(line: &str, path: &Path) -> String {
    let search = std::env::var_os("PATH").unwrap_or_default();
    let mut paths = vec![path.to_owned()];
    paths.extend(std::env::split_paths(&search));
    let output = Command::new("bash")
        .args(["-c", line])
        .env("PATH", std::env::join_paths(paths).expect("no colon"))
        .stdin(Stdio::null())
        .output()
        .expect("bash");
    assert!(output.status.success(), "{line}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Runs the commands that `up` prints, as they stand there.
async fn run_printed_lines(greeting: &str) {
    let sdk = environment("sdk").await.join("bin");
    let lines: Vec<&str> = greeting.lines().map(str::trim).collect();
    for heading in ["Ask it:", "or with curl:", "or with the OpenAI SDK (pip install openai):"] {
        let at = lines.iter().position(|line| *line == heading);
        // A blank line stands between them.
        let line = at.and_then(|at| lines.get(at + 2));
        let line = line.unwrap_or_else(|| panic!("no {heading:?}:\n{greeting}"));
        let answer = type_in(line, &sdk);
        assert!(answer.contains("# The quince project"), "{line}\n{answer}");
    }
}

#[tokio::test]
async fn the_printed_lines_give_an_answer_that_quotes_a_file() {
    let up = Up::shared().await;
    run_printed_lines(&up.greeting).await;
}

#[tokio::test]
async fn on_a_terminal_up_has_colours_listens_once_and_ends_with_ctrl_c() {
    // Installs LiteLLM if necessary.
    drop(Up::shared().await);
    let state = "it's \"my\" $state `of` \\ two!!words";
    let builder = Builder::borrowing_in(state);
    let mut terminal = builder.start_on_terminal();
    terminal.written_at_last("listening on http://127.0.0.1:").await;

    let greeting = terminal.screen().replace("\r\n", "\n");
    let plain = ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[36m"]
        .iter()
        .fold(greeting.clone(), |text, escape| text.replace(escape, ""));
    assert!(greeting.contains("  base URL  \u{1b}[1mhttp://127.0.0.1:"), "{greeting}");
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
    // Its names are quoted so that a shell takes them as they are.
    run_printed_lines(&plain).await;

    terminal.press("\u{3}");
    let (code, screen) = terminal.end().await;
    assert_eq!(code, Some(0), "{screen}");
    assert_eq!(screen.matches("listening").count(), 1, "{screen}");
    // The line with the echo of Ctrl-C was ended. The echo itself may come late.
    assert!(screen.replace("^C", "").ends_with("\r\n\r\nstopped\r\n"), "{screen:?}");
}

#[tokio::test]
async fn up_prints_url_and_key_first_and_what_is_left_out_in_one_line() {
    let up = Up::shared().await;

    let lines: Vec<&str> = up.greeting.lines().filter(|line| !line.is_empty()).collect();

    assert_eq!(lines[0], format!("  base URL  {}", up.base_url()));
    assert_eq!(lines[1], format!("  key       in {}", up.key_path().display()));
    assert_eq!(lines[2], "  models    demo");
    assert!(lines[3].starts_with("  left out  sonnet, "), "{}", up.greeting);
    for variable in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OLLAMA_API_BASE"] {
        assert!(lines[3].contains(&format!(": set {variable}")), "{}", up.greeting);
        assert_eq!(up.greeting.matches(variable).count(), 1, "{}", up.greeting);
    }
    let (state, program) = (up.key_path(), env!("CARGO_BIN_EXE_toolhand"));
    let state = state.parent().expect("a directory").display();
    assert_eq!(lines[5], format!("  TOOLHAND_STATE_DIR={state} {program} ask \"read README.md\""));
    assert_eq!(lines[7], format!("  TOOLHAND_STATE_DIR={state} {program} chat"));
    assert!(!up.greeting.contains('\x1b'), "no colours in a pipe: {}", up.greeting);
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
async fn in_the_default_mode_reading_works_and_a_person_is_asked_about_the_rest() {
    let up = Up::shared().await;
    let mut body = ask("list *.txt and write x to y.txt and run touch z.txt");
    body["toolhand"] = json!({ "mode": "default" });

    let text = up.client().chat(&body).await.text();

    // The list was made; the other two stand in one question.
    assert!(text.contains("y.txt") && text.contains("allow once"), "{text}");
    assert!(text.contains("Bash needs your approval"), "{text}");
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
    let builder = Builder::borrowing()
        .with_litellm(KEYLESS)
        .argument("--litellm-workers=2")
        .environment("HTTPS_PROXY", "http://127.0.0.1:9")
        .environment("HTTP_PROXY", "http://127.0.0.1:9");
    let mut up = builder.start_aside().await;
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
    let yaml = format!(
        "model_list:\n  - model_name: provided\n    litellm_params:\n      model: openai/provided\n      \
         api_base: {}\n      api_key: os.environ/A_PROVIDERS_KEY\n",
        provider.url()
    );
    let builder = Builder::borrowing()
        .free()
        .with_litellm(&yaml)
        .environment("A_PROVIDERS_KEY", &key)
        .environment("TOOLHAND_UP_LITELLM_WORKERS", &workers.to_string())
        // LiteLLM's own variable does not count.
        .environment("NUM_WORKERS", "4");
    let up = builder.start_aside().await;
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
    assert!(stderr.contains(" demo-model --listen "), "{stderr}");
}

/// Replaces Python: agrees to every check, copies itself as an environment, installs (or
/// fails, or never ends), and then is a LiteLLM that exits at once.
const PYTHON: &str = r#"#!/bin/sh
case "$4" in
  venv) mkdir -p "$5/bin" && cp "$0" "$5/bin/python" ;;
  pip)
    for package in 1 2 3 4 5 6 7 8 9 10 11; do echo "Collecting package$package==1"; done
    [ -e "$HOME/broken" ] && { cat "$HOME/broken" >&2; exit 1; }
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
    write_program(&programs.join("python3"), PYTHON);
    let path = format!("{}:/usr/bin:/bin", programs.display());
    let home = builder.home().to_str().expect("UTF-8").to_owned();
    builder.environment("PATH", &path).environment("HOME", &home)
}

fn write_program(path: &Path, text: &str) {
    fs::write(path, text).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("our own");
}

const INSTALLING: &str = "Installing LiteLLM into the state directory.";

#[test]
fn a_broken_installation_is_told_and_the_next_start_makes_it_anew() {
    let builder = with_stand_in();
    let pip = "ERROR: Could not install packages: [Errno 28] No space left on device\n";
    fs::write(builder.home().join("broken"), pip).expect("a new file");

    let (status, broken) = builder.run();
    assert_eq!(status.code(), Some(1), "{broken}");
    let log = builder.state().join("litellm/install.log");
    assert!(
        broken.contains("LiteLLM could not be installed, because the disk is full"),
        "{broken}"
    );
    assert!(broken.contains(&format!("(log: {})", log.display())), "{broken}");
    assert!(!broken.contains("Errno 28"), "pip's words are in the log: {broken}");
    assert!(fs::read_to_string(log).expect("a log").contains("Errno 28"));
    fs::remove_file(builder.home().join("broken")).expect("it is there");
    let half = builder.state().join("litellm/venv/half-written");
    fs::write(&half, "").expect("a new file");

    let (_, anew) = builder.run();
    for told in [
        "The last installation of LiteLLM was not finished.",
        INSTALLING,
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
fn an_environment_of_another_python_or_version_is_made_anew() {
    let builder = with_stand_in();
    let (_, first) = builder.run();
    assert!(first.contains("LiteLLM is installed."), "{first}");
    let venv = builder.state().join("litellm/venv");
    let python = venv.join("bin/python");
    let gone = || {
        fs::remove_file(&python).expect("it is there");
        symlink("/usr/bin/python3.2", &python).expect("a new link");
    };
    let replaced = || write_program(&python, "#!/bin/sh\nexit 1\n");
    let outdated = || fs::write(venv.join(".toolhand-installed"), "another").expect("a file");
    let no_directory = || {
        fs::remove_dir_all(&venv).expect("it is there");
        fs::write(&venv, "").expect("a new file");
    };
    let cases: [(&dyn Fn(), &str); 4] = [
        (&gone, "The installed LiteLLM does not run: its Python is gone or was replaced."),
        (&replaced, "The installed LiteLLM does not run: its Python is gone or was replaced."),
        (&outdated, "The installed LiteLLM is not the version that this toolhand needs."),
        (&no_directory, "The last installation of LiteLLM was not finished."),
    ];
    for (change, reason) in cases {
        change();
        let (_, anew) = builder.run();
        for told in [reason, INSTALLING, "LiteLLM is installed."] {
            assert!(anew.contains(told), "{told}: {anew}");
        }
        assert!(!builder.run().1.contains("Installing"), "once is enough: {anew}");
    }
}

#[test]
fn an_installation_can_be_interrupted_and_the_next_start_makes_it_anew() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let builder = with_stand_in();
        let slow = builder.home().join("slow");
        fs::write(&slow, "").expect("a new file");

        let (status, stderr) = builder.interrupt(signal, "fetching packages: 10");
        assert_eq!(status.code(), Some(code), "{stderr}");
        let told =
            "The installation of LiteLLM is unfinished; the next start does it anew.\nstopped\n";
        assert!(stderr.ends_with(told), "{stderr}");
        fs::remove_file(slow).expect("it is there");

        let (_, anew) = builder.run();
        assert!(anew.contains("The last installation of LiteLLM was not finished."), "{anew}");
        assert!(anew.contains("LiteLLM is installed."), "{anew}");
    }
}

/// What pip prints without a network.
const NO_NETWORK: &str = "\
WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(': [Errno -3] \
Temporary failure in name resolution')': /simple/a/
ERROR: Could not find a version that satisfies the requirement a==1 (from versions: none)
ERROR: No matching distribution found for a==1
";

/// Starts a printed command and reads the address on which it listens.
fn start_printed(line: &str, home: &Path) -> (Child, SocketAddr) {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec {}", line.trim_end_matches(" &"))]).current_dir(home);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a shell");
    let stdout = BufReader::new(child.stdout.take().expect("piped"));
    let address = stdout.lines().map_while(Result::ok).find_map(|line| {
        line.strip_prefix("listening on http://").map(|address| address.parse().expect("one"))
    });
    (child, address.expect("it listens"))
}

#[tokio::test]
async fn without_a_network_the_cause_is_one_line_and_the_printed_way_without_litellm_works() {
    let builder = with_stand_in();
    fs::write(builder.home().join("broken"), NO_NETWORK).expect("a new file");
    let (status, stderr) = builder.run();
    assert_eq!(status.code(), Some(1), "{stderr}");
    let (_, told) = stderr.split_once("toolhand: ").expect("an error");
    let lines: Vec<&str> = told.lines().map(str::trim).collect();
    assert_eq!(lines.len(), 4, "{stderr}");
    assert!(lines[0].contains("because the package index cannot be reached: check the network"));
    assert_eq!(lines[1], "Without LiteLLM, the demo model alone can answer:");

    let (mut demo, _) = start_printed(lines[2], builder.home());
    let (mut server, address) = start_printed(lines[3], builder.home());
    let key = fs::read_to_string(builder.state().join("api-key")).expect("the first key");
    let answer = Client::new(address, key.trim()).chat(&ask("read README.md")).await;
    assert!(answer.text().contains("# The quince project"), "{}", answer.text());

    for child in [&mut server, &mut demo] {
        kill_process(Pid::from_child(child), Signal::TERM).expect("our child");
        assert!(child.wait().expect("our child").success());
    }
}
