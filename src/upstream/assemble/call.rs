//! One tool call in the making.

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::scanner::Scanner;
use crate::openai::chunk::{CallDelta, CallKind};

/// The most bytes of arguments one call may have: what is longer is no argument but
/// a file, or a model that does not stop.
const MAX_ARGUMENTS: usize = 1 << 20;
/// A name in fragments is put together up to here; OpenAI's names end at 64.
const MAX_NAME: usize = 256;

/// A call as far as it has come.
#[derive(Clone, Debug, Default)]
pub(crate) struct AssembledCall {
    /// Upstream's, byte for byte, or ours where it gave none or one that was taken.
    /// May change until the round has ended: some models send it late.
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) kind: CallKind,
    /// The text as it came, without what stands around the object; `{}` once a call
    /// without arguments is sealed.
    pub(crate) arguments: String,
    /// The arguments are whole and parse.
    is_whole: bool,
    /// The arguments, parsed; from the moment they are whole until they are taken.
    pub(super) input: Option<Value>,
    /// Provider fields, to be sent back beside `function`, and in it.
    pub(crate) members: IndexMap<String, Value>,
    pub(crate) function_members: IndexMap<String, Value>,
    /// Why the call will never run, for the model.
    pub(crate) invalid: Option<String>,
    /// What stands behind the object, or where one should be: space alone, unless
    /// it makes the call invalid.
    stray: String,
    pub(super) stage: Stage,
    pub(super) index: Option<u64>,
    pub(super) wire_id: Option<String>,
    /// The call of the object that follows in the same place.
    pub(super) next: Option<usize>,
    scanner: Scanner,
    /// All pieces of the name, one behind the other.
    joined_name: String,
    /// Bytes of arguments that came.
    received: usize,
    /// There is more in its object than there is in an empty one.
    has_members: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    #[default]
    Open,
    Closed,
    Sealed,
}

impl AssembledCall {
    pub(super) fn new(id: String, index: Option<u64>, wire_id: Option<String>) -> Self {
        Self { id, index, wire_id, ..Self::default() }
    }

    /// Named, and its object came to its end and parses.
    pub(crate) fn is_closed(&self) -> bool {
        self.stage >= Stage::Closed
    }

    /// Whole, and the model has moved on from it.
    pub(crate) fn is_sealed(&self) -> bool {
        self.stage == Stage::Sealed
    }

    /// The arguments, parsed: of a call that was closed or sealed, once.
    pub(crate) fn take_input(&mut self) -> Option<Value> {
        self.input.take()
    }

    /// Whether its id came from upstream; it may still come.
    pub(crate) fn has_own_id(&self) -> bool {
        self.wire_id.is_some()
    }

    /// Its object began and did not end, or it never got a name.
    pub(crate) fn is_half_open(&self) -> bool {
        let is_begun = self.kind == CallKind::Function && !self.is_over() && !self.is_empty();
        self.name.is_none() || is_begun
    }

    /// The call as an entry of an assistant message's `tool_calls`. Arguments that
    /// are no JSON object are left out: many providers refuse such history.
    pub(crate) fn to_message(&self) -> Value {
        let is_whole = self.is_whole || self.kind == CallKind::Custom;
        let arguments = if is_whole { &self.arguments } else { "{}" };
        let mut function = Map::new();
        function.insert("name".into(), json!(self.name));
        function.insert(self.kind.text().into(), json!(arguments));
        function.extend(self.function_members.clone());
        let mut entry = Map::new();
        entry.insert("id".into(), json!(self.id));
        entry.insert("type".into(), json!(self.kind.as_str()));
        entry.insert(self.kind.as_str().into(), Value::Object(function));
        entry.extend(self.members.clone());
        Value::Object(entry)
    }

    /// What the model said as arguments from byte `start` on, for who judges them
    /// himself: of an invalid call with all that makes it so. Nothing yet of an object
    /// that may turn out to be nothing.
    pub(crate) fn said_from(&self, start: usize) -> String {
        if !self.has_arguments() && !self.is_sealed() {
            return String::new();
        }
        let stray = if self.invalid.is_some() { self.stray.as_str() } else { "" };
        let object = self.arguments.get(start..).unwrap_or_default();
        let beyond = stray.get(start.saturating_sub(self.arguments.len())..).unwrap_or_default();
        [object, beyond].concat()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.arguments.is_empty()
    }

    /// Its arguments have begun, and not only with an empty object, which may turn out to
    /// be nothing.
    pub(crate) fn has_arguments(&self) -> bool {
        self.has_members || self.invalid.is_some()
    }

    /// Whole, and not an empty object, which only the end of the stream makes whole.
    pub(super) fn is_surely_whole(&self) -> bool {
        self.is_whole && (self.has_members || self.kind == CallKind::Custom)
    }

    /// Nothing that comes can belong to its object any more.
    pub(super) fn is_over(&self) -> bool {
        self.is_whole || self.invalid.is_some()
    }

    pub(super) fn is_runnable(&self) -> bool {
        self.is_whole && self.invalid.is_none() && self.name.is_some()
    }

    pub(super) fn fill_empty(&mut self) {
        if self.kind == CallKind::Custom {
            // Only the end of the stream ends a text; its client reads it as it is.
            self.is_whole = true;
        } else if self.is_empty() && self.invalid.is_none() {
            self.arguments = "{}".into();
            self.is_whole = true;
            self.input = Some(json!({}));
        }
    }

    pub(super) fn take_members(&mut self, delta: &CallDelta) {
        if delta.kind == CallKind::Custom {
            self.kind = delta.kind;
        }
        self.members.extend(delta.members.clone());
        self.function_members.extend(delta.function_members.clone());
    }

    /// A name that is repeated in each delta is one name; one in fragments is put
    /// together where only that names a tool.
    pub(super) fn take_name(&mut self, piece: &str, is_tool: impl Fn(&str) -> bool) {
        let joined = self.joined_with(piece);
        match &self.name {
            None => self.name = Some(piece.to_owned()),
            Some(name) if self.is_sealed() || is_tool(name) => return,
            Some(_) if is_tool(&joined) => self.name = Some(joined.clone()),
            Some(_) if is_tool(piece) => self.name = Some(piece.to_owned()),
            Some(name) if name == piece => return,
            Some(_) => {}
        }
        if joined.len() <= MAX_NAME {
            self.joined_name = joined;
        }
    }

    pub(super) fn joined_with(&self, piece: &str) -> String {
        format!("{}{piece}", self.joined_name)
    }

    /// Reads a piece of the arguments. What is returned begins a further object.
    pub(super) fn take_arguments<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        if self.invalid.is_some() {
            self.stray.push_str(text);
            return None;
        }
        if self.kind == CallKind::Custom {
            self.take_object(text);
            return None;
        }
        if self.is_whole {
            return self.further_object(text, "after the end of the object");
        }
        let text = if self.is_empty() { self.first_object(text)? } else { text };
        let end = self.scanner.scan(text.as_bytes());
        let (object, rest) = text.split_at(end.unwrap_or(text.len()));
        self.received += object.len();
        if !self.take_object(object) {
            self.stray.push_str(rest);
            return None;
        }
        end.and_then(|_| {
            self.parse();
            self.take_arguments(rest)
        })
    }

    /// False when it is too much.
    fn take_object(&mut self, piece: &str) -> bool {
        let fits = self.arguments.len() + piece.len() <= MAX_ARGUMENTS;
        if fits {
            let is_blank = |byte| matches!(byte, b'{' | b'}' | b' ' | b'\t' | b'\n' | b'\r');
            self.has_members |= self.kind == CallKind::Custom || !piece.bytes().all(is_blank);
            self.arguments.push_str(piece);
        } else {
            let why = "the most that one call may have; do it in smaller pieces";
            self.invalid =
                Some(format!("the arguments are longer than {MAX_ARGUMENTS} bytes, {why}"));
            self.stray.push_str(piece);
        }
        fits
    }

    fn first_object<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        let object = self.further_object(text, "where an object should begin")?;
        self.stray.clear();
        Some(object)
    }

    /// Goes over white space; anything but an object is no arguments.
    fn further_object<'a>(&mut self, text: &'a str, place: &str) -> Option<&'a str> {
        let rest = text.trim_start_matches([' ', '\t', '\n', '\r']);
        self.received += text.len() - rest.len();
        match rest.chars().next() {
            Some('{') => return Some(rest),
            Some(other) => self.invalid = Some(self.unexpected(other, place)),
            None => {}
        }
        self.stray.push_str(text);
        None
    }

    fn unexpected(&self, what: char, place: &str) -> String {
        format!("{NOT_ONE_OBJECT}: unexpected {what:?} {place}, at byte {}", self.received + 1)
    }

    /// The one strict parse, at the last brace. What does not parse is never repaired.
    fn parse(&mut self) {
        match serde_json::from_str(&self.arguments) {
            Ok(input) => {
                self.is_whole = true;
                self.input = Some(input);
            }
            Err(error) => self.invalid = Some(format!("{NOT_ONE_OBJECT}: {error}")),
        }
    }

    /// Forgets an empty object that another one follows: it was nothing.
    pub(super) fn reopen(&mut self) {
        self.arguments.clear();
        self.stray.clear();
        self.scanner = Scanner::default();
        self.is_whole = false;
        self.input = None;
        self.stage = Stage::Open;
    }
}

/// What the model is told of arguments that do not parse; the position follows.
const NOT_ONE_OBJECT: &str = "the arguments are not one JSON object";
