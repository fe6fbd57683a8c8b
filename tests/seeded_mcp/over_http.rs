//! Serves MCP over HTTP, as badly as the argument `do` of each call says, and counts the calls.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};

use super::plan::TOOLS;
use crate::support::faults::{Asked, Faults, Step, answer, framed, head};
use crate::support::sync;

const JSON: &str = "content-type: application/json";
const EVENTS: &str = "content-type: text/event-stream";
const SESSION: &str = "mcp-session-id: s1";

/// A server, and how often each call has come.
#[derive(Debug, Default)]
pub(super) struct OverHttp {
    has_sessions: bool,
    pub(super) calls: Mutex<HashMap<String, usize>>,
}

impl OverHttp {
    pub(super) fn new(has_sessions: bool) -> Self {
        Self { has_sessions, calls: Mutex::default() }
    }

    fn result(&self, id: &Value, result: &Value) -> Vec<Step> {
        let session = if self.has_sessions { SESSION } else { "x-session: none" };
        vec![whole(&[JSON, session], &json!({ "jsonrpc": "2.0", "id": id, "result": result }))]
    }
}

impl Faults for OverHttp {
    fn asked(&self, request: &Asked) -> Vec<Step> {
        if request.head.method() != "POST" {
            return vec![Step::Bytes(answer("200 OK", &[], b""))];
        }
        let message = request.json();
        let id = &message["id"];
        match message["method"].as_str() {
            Some("initialize") => {
                let version = &message["params"]["protocolVersion"];
                let info = json!({ "name": "web", "version": "1" });
                let facts = json!({
                    "protocolVersion": version, "capabilities": { "tools": {} }, "serverInfo": info,
                });
                self.result(id, &facts)
            }
            Some("tools/list") => self.result(id, &tools()),
            Some("tools/call") => {
                let arguments = &message["params"]["arguments"];
                let n = arguments["n"].as_u64().expect("a number");
                *sync::lock(&self.calls).entry(n.to_string()).or_default() += 1;
                let token = &message["params"]["_meta"]["progressToken"];
                called(id, token, n, arguments["do"].as_str().expect("a behaviour"))
            }
            _ => vec![Step::Bytes(answer("202 Accepted", &[], b""))],
        }
    }
}

fn tools() -> Value {
    let tool = |name: &str| json!({ "name": name, "description": "Does it.", "inputSchema": { "type": "object" } });
    json!({ "tools": (TOOLS.map(tool)) })
}

/// The answer to a call.
fn called(id: &Value, token: &Value, n: u64, behaviour: &str) -> Vec<Step> {
    let content = |words: String| json!([{ "type": "text", "text": words }]);
    let of = |id: &Value, words: String| json!({ "jsonrpc": "2.0", "id": id, "result": { "content": content(words) } });
    let done = of(id, format!("done {n}."));
    let foreign = |id: Value| event(&of(&id, "foreign".to_owned()));
    let status = |status: &str, line: &str| vec![Step::Bytes(answer(status, &[line], b""))];
    match behaviour {
        "answers" => vec![whole(&[JSON], &done)],
        "streams" => vec![begun(), piece(b": soon\n\n"), event(&done), ended()],
        "twice" => vec![begun(), event(&done), foreign(id.clone()), ended()],
        "unknown_first" => {
            let unknown = [json!(10_000_000), json!("x"), json!(-1)].map(foreign);
            [vec![begun()], unknown.to_vec(), vec![event(&done), ended()]].concat()
        }
        "refuses" => {
            let error = json!({ "code": -32000, "message": format!("refused {n}.") });
            vec![whole(&[JSON], &json!({ "jsonrpc": "2.0", "id": id, "error": error }))]
        }
        "fails" => {
            let result = json!({ "content": (content(format!("failed {n}."))), "isError": true });
            vec![whole(&[JSON], &json!({ "jsonrpc": "2.0", "id": id, "result": result }))]
        }
        "progress" => {
            let about = json!({ "progressToken": token, "progress": 1, "message": "step" });
            let progress = json!({
                "jsonrpc": "2.0", "method": "notifications/progress", "params": about,
            });
            vec![begun(), event(&progress), event(&progress), event(&done), ended()]
        }
        "never" => vec![Step::Hang],
        "never_ends" => vec![begun(), event(&done), Step::Hang],
        "is_broken" => status("500 No", "x-why: none"),
        "is_gone" => status("404 Not Found", "x-why: none"),
        "redirects" => status("307 Elsewhere", "location: /elsewhere"),
        "is_a_page" => vec![Step::Bytes(answer("200 OK", &["content-type: text/html"], b"<p>"))],
        "resets" => vec![Step::Reset],
        "closes" => vec![Step::Fin],
        "stream_ends" => vec![begun(), piece(b": nothing\n\n"), ended()],
        "half_an_event" => vec![begun(), piece(b"data: {\"jsonrpc\""), Step::Reset],
        "endless_body" => {
            let head = head("200 OK", &[JSON, "transfer-encoding: chunked"]);
            vec![Step::Bytes(head), endless()]
        }
        "endless_event" => vec![begun(), piece(b"data: "), endless()],
        other => panic!("no behaviour: {other}"),
    }
}

fn whole(lines: &[&str], message: &Value) -> Step {
    Step::Bytes(answer("200 OK", lines, message.to_string().as_bytes()))
}

fn begun() -> Step {
    Step::Bytes(head("200 OK", &[EVENTS, "transfer-encoding: chunked"]))
}

fn event(message: &Value) -> Step {
    piece(format!("event: message\ndata: {message}\n\n").as_bytes())
}

fn piece(bytes: &[u8]) -> Step {
    Step::Bytes(framed(bytes))
}

fn ended() -> Step {
    piece(b"")
}

/// Far more than a message may have, for as long as it is taken.
fn endless() -> Step {
    Step::Forever(framed(&vec![b'x'; 1 << 20]), Duration::ZERO)
}
