//! Represents one tool call while it is being assembled.

use std::borrow::Cow;

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::quoted::QuotedText;
use super::scanner::Scanner;
use crate::openai::chunk::{CallDelta, CallKind, surrogates};

/// The most bytes of arguments in one call. Anything longer is a file, or a model that does not
/// stop.
const MAX_ARGUMENTS: usize = 1 << 20;
/// The most bytes of a name that is joined from fragments. OpenAI's names have at most 64.
const MAX_NAME: usize = 256;

/// A tool call as far as it has come.
#[expect(clippy::struct_excessive_bools, reason = "facts that hold apart from each other")]
#[derive(Clone, Debug, Default)]
pub(crate) struct AssembledCall {
    /// Upstream's id, byte for byte, or one made up where that is missing or in use. It may
    /// change until the round has ended, since some models send it late.
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) kind: CallKind,
    /// The object as it came, without the text around it. `{}` once a call without arguments is
    /// sealed.
    pub(crate) arguments: String,
    /// Whether the arguments are complete and parse.
    is_whole: bool,
    /// The parsed arguments, from when they are whole until they are taken.
    pub(super) input: Option<Value>,
    /// Provider-specific members, to be sent back beside `function`.
    pub(crate) members: IndexMap<String, Value>,
    /// Provider-specific members of `function`, to be sent back in it.
    pub(crate) function_members: IndexMap<String, Value>,
    /// Why the call will never run, as a sentence for the model.
    pub(crate) invalid: Option<String>,
    /// What was changed to make its arguments JSON, as a sentence for the model.
    pub(crate) note: Option<&'static str>,
    /// Text after the object, or where it should begin: white space, unless it makes the call
    /// invalid.
    stray: String,
    pub(super) stage: Stage,
    pub(super) index: Option<u64>,
    /// The id as upstream sent it.
    pub(super) wire_id: Option<String>,
    /// The call of the next object in the same arguments.
    pub(super) next: Option<usize>,
    /// The slot of the first object in the same arguments.
    pub(super) first: usize,
    /// Whether an earlier call has the same id, or stands before it in the same arguments.
    pub(super) may_be_echo: bool,
    /// Whether it was compared with the calls before it.
    pub(super) is_compared: bool,
    /// Whether it is one of them, sent once more.
    pub(super) is_echo: bool,
    scanner: Scanner,
    /// The arguments, as long as they come as a JSON text in JSON.
    quoted: Option<QuotedText>,
    /// The last piece, if it begins with all arguments before it: in some streams each piece
    /// repeats them. It counts only where the pieces put together are no object.
    snapshot: Option<String>,
    /// Whether each piece repeats all arguments before it.
    is_cumulative: bool,
    /// All pieces of the name, joined.
    joined_name: String,
    /// How many bytes of arguments came.
    received: usize,
    /// Whether the object has any members.
    has_members: bool,
}

/// How far a call has come; see `Step`.
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

    /// A whole call from an entry of `tool_calls`.
    pub(super) fn restored(id: String, entry: &Value) -> Self {
        let kind = if entry["type"] == "custom" { CallKind::Custom } else { CallKind::Function };
        let function = &entry[kind.as_str()];
        let arguments = function[kind.text()].as_str().unwrap_or_default().to_owned();
        Self {
            name: function["name"].as_str().map(str::to_owned),
            kind,
            input: serde_json::from_str(&arguments).ok(),
            arguments,
            is_whole: true,
            has_members: true,
            stage: Stage::Sealed,
            ..Self::new(id.clone(), None, Some(id))
        }
    }

    /// Whether the call has a name, and its object has ended and parses.
    pub(crate) fn is_closed(&self) -> bool {
        self.stage >= Stage::Closed
    }

    /// Whether the call is whole and the model has moved on from it.
    pub(crate) fn is_sealed(&self) -> bool {
        self.stage == Stage::Sealed
    }

    /// Takes the parsed arguments. `None` before the call is whole, and after the first call of
    /// this function.
    pub(crate) fn take_input(&mut self) -> Option<Value> {
        self.input.take()
    }

    /// Whether the id came from upstream. It may still come.
    pub(crate) fn has_own_id(&self) -> bool {
        self.wire_id.is_some()
    }

    /// Whether the call is one before it, sent once more: nothing new was asked for.
    pub(crate) fn is_echo(&self) -> bool {
        self.is_echo
    }

    /// Whether the call may turn out to be one before it.
    pub(crate) fn is_undecided(&self) -> bool {
        self.may_be_echo && !self.is_compared && self.invalid.is_none()
    }

    /// Whether the object began and did not end, or the name is missing.
    pub(crate) fn is_half_open(&self) -> bool {
        let is_begun = self.kind == CallKind::Function && self.is_open();
        self.name.is_none() || is_begun
    }

    /// The call as an entry of an assistant message's `tool_calls`, under this name. Arguments
    /// that are not a JSON object become `{}`, since many providers refuse such history.
    pub(super) fn to_message(&self, name: &str) -> Value {
        let is_whole = self.is_whole || self.kind == CallKind::Custom;
        let arguments = if is_whole { &self.arguments } else { "{}" };
        let mut function = Map::new();
        function.insert("name".into(), json!(name));
        function.insert(self.kind.text().into(), json!(arguments));
        function.extend(self.function_members.clone());
        let mut entry = Map::new();
        entry.insert("id".into(), json!(self.id));
        entry.insert("type".into(), json!(self.kind.as_str()));
        entry.insert(self.kind.as_str().into(), Value::Object(function));
        entry.extend(self.members.clone());
        Value::Object(entry)
    }

    /// The arguments from byte `start` on, for a client that judges its calls itself. Of an
    /// invalid call this includes the text that makes it invalid. Empty while the object may
    /// still turn out to be nothing.
    pub(crate) fn arguments_from(&self, start: usize) -> String {
        if !self.has_arguments() && !self.is_sealed() {
            return String::new();
        }
        let stray = if self.invalid.is_some() { self.stray.as_str() } else { "" };
        let object = self.arguments.get(start..).unwrap_or_default();
        let beyond = stray.get(start.saturating_sub(self.arguments.len())..).unwrap_or_default();
        [object, beyond].concat()
    }

    /// Whether no byte of the object has come.
    pub(super) fn is_empty(&self) -> bool {
        self.arguments.is_empty() && self.quoted.is_none()
    }

    /// Whether the object has begun and not ended.
    pub(super) fn is_open(&self) -> bool {
        !self.is_over() && !self.is_empty()
    }

    /// Whether arguments have begun. An empty object does not count, since another one may
    /// replace it.
    pub(crate) fn has_arguments(&self) -> bool {
        self.has_members || self.invalid.is_some()
    }

    /// Whether the call is whole now. An empty object is so only at the end of the stream.
    pub(super) fn is_surely_whole(&self) -> bool {
        self.is_whole && (self.has_members || self.kind == CallKind::Custom)
    }

    /// Whether no further byte can belong to the object.
    pub(super) fn is_over(&self) -> bool {
        self.is_whole || self.invalid.is_some()
    }

    /// Whether the call is whole, valid and named.
    pub(super) fn is_runnable(&self) -> bool {
        self.is_whole && self.invalid.is_none() && self.name.is_some()
    }

    /// At the end of the stream: takes arguments that never came as `{}`.
    pub(super) fn fill_empty(&mut self) {
        if self.kind == CallKind::Custom {
            // A custom tool's input is any text, so only the end of the stream ends it.
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

    /// Reads a name or a piece of one. A name that comes again is the same name. Fragments are
    /// joined only where the joined text names a tool.
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

    /// Reads a piece of the arguments. Returns the rest that begins another object.
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
        let begins_quoted = self.is_empty() && without_blanks(text).starts_with('"');
        if begins_quoted || self.quoted.is_some() {
            return self.take_quoted(text);
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

    /// Reads a piece of arguments that came as a JSON text in JSON.
    fn take_quoted<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        let mut quoted = self.quoted.take().unwrap_or_default();
        let blanks = if quoted.size() == 0 { text.len() - without_blanks(text).len() } else { 0 };
        self.received += blanks;
        let text = &text[blanks..];
        let rest = quoted.push(text);
        if quoted.size() > MAX_ARGUMENTS {
            self.invalid = Some(too_long());
        } else if let Some(rest) = rest {
            if let Some(object) = quoted.object() {
                self.take_object(&object.text);
                self.parse();
                if object.is_repaired {
                    self.note = Some(HALVES_REPLACED);
                }
                return self.take_arguments(rest);
            }
            self.invalid = Some(self.unexpected('"', "where an object should begin"));
        } else {
            self.quoted = Some(quoted);
            return None;
        }
        self.stray.push_str(quoted.raw());
        self.stray.push_str(rest.unwrap_or_default());
        None
    }

    /// Notes a piece that repeats all arguments before it.
    pub(super) fn note_snapshot(&mut self, piece: &str) {
        if piece.is_empty() || self.kind == CallKind::Custom {
            return;
        }
        let piece = without_blanks(piece);
        let known = self.snapshot.as_ref().unwrap_or(&self.arguments);
        let repeats = self.is_open() && !known.is_empty() && piece.starts_with(known.as_str());
        self.snapshot = repeats.then(|| piece.to_owned());
    }

    /// Takes the last piece for all of the arguments, because the pieces put together are no
    /// object. Returns whether that can be.
    pub(super) fn adopt_snapshot(&mut self) -> bool {
        let Some(snapshot) = self.snapshot.take() else { return false };
        let is_adopted = self.restart(&snapshot);
        self.is_cumulative |= is_adopted;
        is_adopted
    }

    /// Takes the next piece of a stream in which each piece repeats all arguments before it.
    /// Returns whether it is one.
    pub(super) fn take_cumulative(&mut self, piece: &str) -> bool {
        let piece = without_blanks(piece);
        let repeats =
            self.is_cumulative && self.is_open() && piece.starts_with(self.arguments.as_str());
        repeats && self.restart(piece)
    }

    /// Reads the object anew from its first byte. Changes nothing, and returns false, if that is
    /// none.
    fn restart(&mut self, text: &str) -> bool {
        let before = self.clone();
        self.arguments.clear();
        self.stray.clear();
        self.scanner = Scanner::default();
        (self.received, self.has_members) = (0, false);
        self.invalid = None;
        let rest = self.take_arguments(text);
        let can_be_one = rest.is_none() && self.invalid.is_none();
        if !can_be_one {
            *self = before;
        }
        can_be_one
    }

    /// Appends to the object. Returns false if it would become too long.
    fn take_object(&mut self, piece: &str) -> bool {
        let fits = self.arguments.len() + piece.len() <= MAX_ARGUMENTS;
        if fits {
            let is_blank = |byte| matches!(byte, b'{' | b'}' | b' ' | b'\t' | b'\n' | b'\r');
            self.has_members |= self.kind == CallKind::Custom || !piece.bytes().all(is_blank);
            self.arguments.push_str(piece);
        } else {
            self.invalid = Some(too_long());
            self.stray.push_str(piece);
        }
        fits
    }

    /// Skips to the beginning of the object.
    fn first_object<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        let object = self.further_object(text, "where an object should begin")?;
        self.stray.clear();
        Some(object)
    }

    /// Skips white space and returns the text from the next `{` on. Any other text makes the
    /// call invalid.
    fn further_object<'a>(&mut self, text: &'a str, place: &str) -> Option<&'a str> {
        let rest = without_blanks(text);
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

    /// Parses the arguments strictly, at the last brace. Text that does not parse is never
    /// repaired, but for halves of surrogate pairs: no text can have them.
    fn parse(&mut self) {
        if let Cow::Owned(repaired) = surrogates::repaired(&self.arguments)
            && let Ok(input) = serde_json::from_str(&repaired)
        {
            self.is_whole = true;
            self.input = Some(input);
            self.arguments = repaired;
            self.note = Some(HALVES_REPLACED);
            return;
        }
        match serde_json::from_str(&self.arguments) {
            Ok(input) => {
                self.is_whole = true;
                self.input = Some(input);
            }
            Err(error) => self.invalid = Some(format!("{NOT_ONE_OBJECT}: {error}")),
        }
    }

    /// Drops an empty object that another one follows.
    pub(super) fn reopen(&mut self) {
        self.arguments.clear();
        self.stray.clear();
        self.scanner = Scanner::default();
        self.is_whole = false;
        self.input = None;
        self.note = None;
        self.stage = Stage::Open;
    }
}

/// What the model reads of arguments over the limit.
fn too_long() -> String {
    let why = "the most that one call may have; do it in smaller pieces";
    format!("the arguments are longer than {MAX_ARGUMENTS} bytes, {why}")
}

/// The text without the white space of JSON in front.
fn without_blanks(text: &str) -> &str {
    text.trim_start_matches([' ', '\t', '\n', '\r'])
}

/// What the model reads of arguments with half of a surrogate pair.
const HALVES_REPLACED: &str = "Note: the arguments had half of a UTF-16 surrogate pair (an escape \
    such as \\ud83d without its other half), which is no character. It was replaced by U+FFFD.";

/// How the error for the model begins; the cause and position follow.
const NOT_ONE_OBJECT: &str = "the arguments are not one JSON object";
