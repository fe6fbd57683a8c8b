//! Tests `toolhand ask`: the real binary against the real server over a scripted upstream,
//! in a pipe and on a terminal.

mod chat;
mod finding;
mod foreign;
mod outputs;
mod prompts;
mod rendering;
mod suspended;
mod terminal;

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Output, Stdio};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use crate::support::pseudo_terminal::PseudoTerminal;
use crate::support::server::{KEY, Server};
use crate::support::upstream::Upstream;
use crate::support::watch;

/// The program with its arguments and nothing of our environment.
struct Ask(Command);

/// How it ended, and what it said.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ask {
    /// Asks the server of this state directory.
    fn on(state_dir: &Path, arguments: &[&str]) -> Self {
        Self::command_on("ask", state_dir, arguments)
    }

    /// Starts a chat with this server.
    fn chat(server: &Server, arguments: &[&str]) -> Self {
        let chat = Self::command_on("chat", &server.state_dir(), arguments);
        chat.variable("TOOLHAND_API_KEY", KEY)
    }

    fn command_on(command_name: &str, state_dir: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolhand"));
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", state_dir.parent().expect("a home"))
            .env("TOOLHAND_STATE_DIR", state_dir)
            .arg(command_name)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        Self(command)
    }

    /// Asks this server with its key.
    fn of(server: &Server, arguments: &[&str]) -> Self {
        Self::on(&server.state_dir(), arguments).variable("TOOLHAND_API_KEY", KEY)
    }

    /// Asks a server that is named and has no state directory.
    fn at(url: &str, arguments: &[&str]) -> Self {
        Self::on(Path::new("/nowhere/state"), &[&["--server", url], arguments].concat())
    }

    fn variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.0.env(name, value);
        self
    }

    fn stdin(mut self, stdin: impl Into<Stdio>) -> Self {
        self.0.stdin(stdin);
        self
    }

    fn start(mut self) -> Child {
        self.0.spawn().expect("the binary")
    }

    fn on_terminal(&self) -> PseudoTerminal {
        PseudoTerminal::start(self.0.as_std())
    }

    async fn run(self) -> Ended {
        let output = watch("ask to end", self.start().wait_with_output()).await;
        Ended::from_output(&output.expect("our child"))
    }

    /// Runs it with this on stdin.
    async fn run_with(self, stdin: &[u8]) -> Ended {
        let mut child = self.stdin(Stdio::piped()).start();
        let mut pipe = child.stdin.take().expect("piped");
        let bytes = stdin.to_vec();
        let writing = async move {
            // It may end before it has read everything.
            _ = pipe.write_all(&bytes).await;
        };
        let both = async { tokio::join!(writing, child.wait_with_output()).1 };
        Ended::from_output(&watch("ask to end", both).await.expect("our child"))
    }
}

impl Ended {
    fn from_output(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
        Self {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    /// A failure before any answer: one line on stderr.
    #[track_caller]
    fn check_failed(&self, code: i32, reason: &str) {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), ""), "{self:?}");
        // On a busy machine it may have said that it waits for stdin.
        let is_error = |line: &&str| !line.contains("</dev/null");
        let lines: Vec<_> = self.stderr.lines().filter(is_error).collect();
        let [line] = lines[..] else { panic!("one line: {self:?}") };
        assert!(line.starts_with("toolhand: ") && line.contains(reason), "{reason}: {self:?}");
        assert!(!line.contains(char::is_control), "{self:?}");
    }
}

/// The next `count` bytes of a child's stdout.
async fn read_exactly(child: &mut Child, count: usize) -> String {
    let stdout = child.stdout.as_mut().expect("piped");
    let mut bytes = vec![0; count];
    watch("the answer's beginning", stdout.read_exact(&mut bytes)).await.expect("so many bytes");
    String::from_utf8(bytes).expect("UTF-8")
}

/// What was asked of upstream last.
async fn asked(upstream: &Upstream) -> String {
    let request = upstream.request(upstream.requests().len().saturating_sub(1)).await.json();
    let last = request["messages"].as_array().and_then(|messages| messages.last()).cloned();
    last.expect("a message")["content"].as_str().expect("text").to_owned()
}
