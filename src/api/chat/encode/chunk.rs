//! Writes the chunks of one answer as server-sent events.

use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::Envelope;

/// Ends every stream.
pub(super) const DONE: &[u8] = b"data: [DONE]\n\n";

/// The JSON of a chunk up to its choices.
#[derive(Debug)]
pub(super) struct ChunkHead(String);

impl ChunkHead {
    pub(super) fn new(envelope: &Envelope) -> Self {
        Self(format!(
            r#"data: {{"id":{},"object":"chat.completion.chunk","created":{},"model":{},"choices":["#,
            json!(envelope.id),
            envelope.created,
            json!(envelope.model),
        ))
    }

    /// Begins a chunk without choices: `]` follows.
    pub(super) fn begin(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.as_bytes());
    }

    /// Begins a chunk: its delta follows.
    pub(super) fn open(&self, out: &mut Vec<u8>) {
        self.begin(out);
        out.extend_from_slice(br#"{"index":0,"delta":"#);
    }

    /// Writes a whole chunk with this delta.
    pub(super) fn chunk(&self, delta: &str, out: &mut Vec<u8>) {
        self.open(out);
        out.extend_from_slice(delta.as_bytes());
        out.extend_from_slice(br#","finish_reason":null}]}"#);
        end_event(out);
    }
}

pub(super) fn write_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("writing to memory does not fail");
}

/// Copies the JSON that upstream wrote onto one line.
pub(super) fn write_raw(out: &mut Vec<u8>, value: &RawValue) {
    out.extend(value.get().bytes().map(in_one_line));
}

/// Writes a value that holds JSON of upstream or the client onto one line.
pub(super) fn write_on_one_line(out: &mut Vec<u8>, value: &impl Serialize) {
    let start = out.len();
    write_json(out, value);
    for byte in &mut out[start..] {
        *byte = in_one_line(*byte);
    }
}

/// A line break in valid JSON stands between two tokens only, so a space may replace it.
fn in_one_line(byte: u8) -> u8 {
    if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }
}

pub(super) fn end_event(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\n\n");
}
