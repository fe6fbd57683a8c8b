//! Tests the rows U of docs/threats.md: what upstream may do wrong, and what the client gets
//! for it. Each test is named after its row.

mod calls;
mod connections;
mod limits;
mod stream;
mod timeouts;
mod whole;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::support::chunks;
use crate::support::client::Answer;
use crate::support::faults::{Asked, FaultUpstream, Faults, Step, answer, head};
use crate::support::server::Server;
use crate::support::sync;
use crate::support::upstream;

/// An upstream that plays these rounds in turn, and after them always answers "Done.".
#[derive(Debug)]
struct Rounds {
    accepted: Mutex<usize>,
    on_accept: Vec<Step>,
    script: Mutex<VecDeque<Vec<Step>>>,
    asked: Mutex<Vec<Asked>>,
}

impl Faults for Rounds {
    fn accepted(&self, _number: usize) -> Vec<Step> {
        *sync::lock(&self.accepted) += 1;
        self.on_accept.clone()
    }

    fn asked(&self, request: &Asked) -> Vec<Step> {
        let Asked { head, body } = request;
        let request = Asked { head: head.clone(), body: body.clone() };
        sync::lock(&self.asked).push(request);
        let next = sync::lock(&self.script).pop_front();
        next.unwrap_or_else(|| vec![Step::Bytes(stream_of(&chunks::says("Done.")))])
    }
}

impl Rounds {
    fn start(rounds: impl IntoIterator<Item = Vec<Step>>) -> (Arc<Self>, FaultUpstream) {
        Self::start_with(Vec::new(), rounds)
    }

    /// Like `start`, with these steps at the beginning of each connection.
    fn start_with(
        on_accept: Vec<Step>,
        rounds: impl IntoIterator<Item = Vec<Step>>,
    ) -> (Arc<Self>, FaultUpstream) {
        let rounds = Arc::new(Self {
            accepted: Mutex::default(),
            on_accept,
            script: Mutex::new(rounds.into_iter().collect()),
            asked: Mutex::default(),
        });
        (Arc::clone(&rounds), FaultUpstream::start(rounds))
    }

    fn asked(&self) -> usize {
        sync::lock(&self.asked).len()
    }

    fn connections(&self) -> usize {
        *sync::lock(&self.accepted)
    }
}

/// The head of a stream that ends when the connection closes.
fn stream_head() -> Vec<u8> {
    head("200 OK", &["content-type: text/event-stream", "connection: close"])
}

/// The pieces of an answer, joined to one body.
fn body_of(pieces: &[upstream::Step]) -> Vec<u8> {
    let bytes = pieces.iter().map(|step| match step {
        upstream::Step::Send(bytes) => bytes.clone(),
        other => panic!("no piece of a body: {other:?}"),
    });
    bytes.collect::<Vec<_>>().concat()
}

/// The pieces of an answer as a whole HTTP response.
fn stream_of(pieces: &[upstream::Step]) -> Vec<u8> {
    answer("200 OK", &["content-type: text/event-stream"], &body_of(pieces))
}

fn check_refusal(refusal: &Answer, status: u16, code: &str) {
    assert_eq!(refusal.refusal(), (status, code.to_owned()));
}

/// The most memory that the server has used, in bytes.
fn peak(server: &Server) -> usize {
    let path = format!("/proc/{}/status", server.pid().as_raw_nonzero());
    let status = std::fs::read_to_string(path).expect("procfs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let kibibytes = line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number");
    kibibytes << 10
}
