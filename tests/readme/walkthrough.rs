//! Runs the blocks of a document one after the other: servers in one terminal, everything else
//! in a second one.

use std::io::{BufRead, BufReader, Read};
use std::process::Child;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use super::blocks::Block;
use super::exceptions::{self, Check};
use super::kinds::{Kind, last_command};
use super::machine::{Machine, Printed, Terminal};
use super::{sample, spans};

/// Enough for the start of LiteLLM on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(300);

/// What a server prints once it listens: ours, and Python's.
const LISTENS: [&str; 2] = ["listening on http://", "Serving HTTP on "];

const OUR_CONFIG: &str = include_str!("../../litellm-config.yaml");

/// Sends the body on standard input with the key, and prints the answer.
const SEND: &str = r#"python3 -c '
import pathlib, sys, urllib.request
key = pathlib.Path("~/.local/share/toolhand/api-key").expanduser().read_text().strip()
headers = {"Authorization": "Bearer " + key, "Content-Type": "application/json"}
url = "http://127.0.0.1:8787/v1/chat/completions"
body = open(sys.argv[1], "rb").read()
print(urllib.request.urlopen(urllib.request.Request(url, body, headers)).read().decode())
' "#;

/// The run of a document so far.
#[derive(Debug)]
pub(super) struct Walkthrough<'m> {
    servers: Terminal<'m>,
    others: Terminal<'m>,
    running: Vec<Service>,
    /// What the last block printed, and where it stands.
    printed: Option<(String, Printed)>,
}

/// A server that runs in its terminal.
#[derive(Debug)]
struct Service {
    child: Child,
    reading: Vec<JoinHandle<String>>,
}

impl<'m> Walkthrough<'m> {
    pub(super) fn new(machine: &'m Machine) -> Self {
        let (servers, others) = (machine.terminal("servers"), machine.terminal("others"));
        Self { servers, others, running: Vec::new(), printed: None }
    }

    pub(super) fn run(&mut self, block: &Block, kind: &Kind) {
        if let Kind::Output = kind {
            return self.compare(block);
        }
        let printed = match kind {
            Kind::Service => self.serve(block),
            Kind::Beside => self.serve_beside(block),
            Kind::Shell => self.others.run(&block.text),
            Kind::Python => self.program("python3", "example.py", block),
            Kind::Node => self.program("node", "example.mjs", block),
            Kind::Request => self.program(SEND, "request.json", block),
            Kind::Settings => self.program(
                concat!(env!("CARGO_BIN_EXE_toolhand"), " tools --config"),
                "example.toml",
                block,
            ),
            Kind::Litellm => return is_part_of_our_config(block),
            Kind::Exception(Check::Packages) => return spans::packages_are_pinned(block),
            Kind::Exception(Check::Nothing) | Kind::Output => return,
        };
        let Printed { stdout, stderr, is_success } = &printed;
        assert!(is_success, "{} failed:\n{}\n{stdout}\n{stderr}", block.place(), block.text);
        assert!(
            !stdout.trim().is_empty() || matches!(kind, Kind::Shell),
            "{} printed nothing:\n{stderr}",
            block.place()
        );
        self.printed = Some((block.place(), printed));
    }

    /// Stops what still runs.
    pub(super) fn end(&mut self) {
        while let Some(service) = self.running.pop() {
            service.interrupt();
        }
    }

    /// Starts a server in its terminal, in place of the one that runs there.
    fn serve(&mut self, block: &Block) -> Printed {
        self.end();
        if let Some(setup) = exceptions::setup_of(block) {
            let prepared = self.servers.run(setup.script);
            assert!(prepared.is_success, "{}: {prepared:?}", block.place());
            if let Some(command) = setup.service {
                let (service, printed) = Service::start(&self.others, command);
                assert!(printed.is_success, "{}: {printed:?}", block.place());
                self.running.push(service);
            }
        }
        let (before, command) = last_command(&block.text);
        if !before.is_empty() {
            let prepared = self.servers.run(before);
            assert!(prepared.is_success, "{}: {prepared:?}", block.place());
            // The second terminal is opened in the same directory.
            self.others.enter(&self.servers);
        }
        let (service, printed) = Service::start(&self.servers, command);
        self.running.push(service);
        printed
    }

    /// Starts a web server beside what runs.
    fn serve_beside(&mut self, block: &Block) -> Printed {
        let (service, printed) = Service::start(&self.others, &block.text);
        self.running.push(service);
        printed
    }

    fn program(&self, program: &str, name: &str, block: &Block) -> Printed {
        let path = self.others.write(name, &block.text);
        self.others.run(&format!("{program} {path}"))
    }

    fn compare(&self, block: &Block) {
        let (place, printed) = self.printed.as_ref().expect("a block before it ran");
        assert!(
            sample::matches(&block.text, &printed.stdout),
            "{} shows\n{}\nand {place} printed\n{}\n--- stderr ---\n{}",
            block.place(),
            block.text,
            printed.stdout,
            printed.stderr
        );
    }
}

impl Service {
    /// Starts a server, and waits until it listens: what it printed until then.
    fn start(terminal: &Terminal<'_>, command: &str) -> (Self, Printed) {
        let mut child = terminal.command(command).spawn().expect("bash");
        let (listening, is_listening) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut stderr = child.stderr.take().expect("piped");
        let lines = std::thread::spawn(move || {
            let mut said = String::new();
            for line in stdout.lines().map_while(Result::ok) {
                said.extend([line.as_str(), "\n"]);
                if LISTENS.iter().any(|words| line.starts_with(words)) {
                    let _nobody_waits = listening.send(said.clone());
                }
            }
            said
        });
        let errors = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ended = stderr.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let service = Self { child, reading: vec![lines, errors] };
        let Ok(stdout) = is_listening.recv_timeout(START_TIMEOUT) else {
            panic!("{command} does not listen:\n{}", service.interrupt());
        };
        (service, Printed { stdout, stderr: String::new(), is_success: true })
    }

    /// Presses Ctrl-C, and waits for the end of every process that can write to the
    /// terminal. Returns what was printed.
    fn interrupt(mut self) -> String {
        let _gone = kill_process_group(Pid::from_child(&self.child), Signal::INT);
        let _status = self.child.wait();
        let said = self.reading.into_iter().map(|reading| reading.join().expect("no panic"));
        said.collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Walkthrough<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// What the documents say that a LiteLLM needs, the one of `up` has.
fn is_part_of_our_config(block: &Block) {
    let part: Value = serde_saphyr::from_str(&block.text).expect("YAML");
    let ours: Value = serde_saphyr::from_str(OUR_CONFIG).expect("YAML");
    for (section, settings) in part.as_object().expect("an object") {
        for (name, value) in settings.as_object().expect("an object") {
            assert_eq!(ours[section].get(name), Some(value), "{}: {name}", block.place());
        }
    }
}
