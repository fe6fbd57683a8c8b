//! Says how each operation of the tool is asked in the protocol, and reads what comes back. Pure.

use std::path::{Path, PathBuf};

use gen_lsp_types::{Position, Range};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::lists::Listed;
use super::message::Params;
use super::texts::MarkedText;
use super::uri;

/// Places that are read of an answer. The tool shows fewer, and counts these.
const MAX_PLACES: usize = 10_000;

/// The items of a call hierarchy that are asked about: a name may stand for some functions.
const MAX_CALL_ITEMS: usize = 8;

/// The longest item of a call hierarchy that is sent back. Some hundred bytes are usual.
const MAX_CALL_ITEM_BYTES: usize = 64 << 10;

/// What is asked of a language server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Definition,
    References,
    Hover,
    DocumentSymbols,
    WorkspaceSymbols,
    Implementation,
    /// The functions at a place whose calls can be asked about.
    PrepareCallHierarchy,
    IncomingCalls,
    OutgoingCalls,
}

/// What a server has found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Found {
    Text(String),
    Places(Vec<FoundPlace>),
}

/// A place in a file, in the units of the server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FoundPlace {
    /// `None`: the server names something that is no file.
    pub(crate) path: Option<PathBuf>,
    pub(crate) position: Position,
    /// What is there, where the place is a symbol.
    pub(crate) symbol: Option<FoundSymbol>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FoundSymbol {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    /// In how many others it lies.
    pub(crate) depth: usize,
}

/// What was read of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reading {
    pub(super) found: Found,
    /// The items besides that are none of the protocol's.
    pub(super) malformed: usize,
}

/// The items of an answer.
type Places<T> = Listed<T, MAX_PLACES>;

/// A location, or a link to one.
#[derive(Deserialize)]
#[serde(try_from = "LocationMembers")]
struct AnyLocation {
    uri: String,
    position: Position,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LocationMembers {
    uri: Option<String>,
    range: Option<Range>,
    target_uri: Option<String>,
    target_selection_range: Option<Range>,
}

/// `gen_lsp_types` marks the older forms deprecated; servers still send them.
#[derive(Deserialize)]
struct Hover {
    contents: Listed<MarkedText, MAX_PLACES>,
}

/// A symbol of a file, nested or flat, or of the workspace, or an item of a call hierarchy.
#[derive(Deserialize)]
#[serde(try_from = "SymbolMembers")]
struct AnySymbol {
    name: String,
    kind: u32,
    /// `None`: it is in the file that was asked about.
    uri: Option<String>,
    position: Position,
    children: Vec<AnySymbol>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SymbolMembers {
    name: String,
    kind: u32,
    uri: Option<String>,
    selection_range: Option<Range>,
    location: Option<SymbolLocation>,
    children: Option<Vec<AnySymbol>>,
}

/// Of a symbol of the workspace, some servers tell the file alone.
#[derive(Deserialize)]
struct SymbolLocation {
    uri: String,
    range: Option<Range>,
}

#[derive(Deserialize)]
struct OutgoingCall {
    to: AnySymbol,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct IncomingCall {
    from: AnySymbol,
    from_ranges: Vec<Range>,
}

impl Operation {
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Definition => "textDocument/definition",
            Self::References => "textDocument/references",
            Self::Hover => "textDocument/hover",
            Self::DocumentSymbols => "textDocument/documentSymbol",
            Self::WorkspaceSymbols => "workspace/symbol",
            Self::Implementation => "textDocument/implementation",
            Self::PrepareCallHierarchy | Self::IncomingCalls | Self::OutgoingCalls => {
                "textDocument/prepareCallHierarchy"
            }
        }
    }

    /// What is asked about each item of a call hierarchy, for the operations that do.
    pub(super) fn calls_method(self) -> Option<&'static str> {
        match self {
            Self::IncomingCalls => Some("callHierarchy/incomingCalls"),
            Self::OutgoingCalls => Some("callHierarchy/outgoingCalls"),
            _ => None,
        }
    }

    /// The name of the capability in what a server says of itself.
    pub(super) fn provider(self) -> &'static str {
        match self {
            Self::Definition => "definitionProvider",
            Self::References => "referencesProvider",
            Self::Hover => "hoverProvider",
            Self::DocumentSymbols => "documentSymbolProvider",
            Self::WorkspaceSymbols => "workspaceSymbolProvider",
            Self::Implementation => "implementationProvider",
            Self::PrepareCallHierarchy | Self::IncomingCalls | Self::OutgoingCalls => {
                "callHierarchyProvider"
            }
        }
    }

    pub(super) fn params(self, path: Option<&Path>, position: Position, query: &str) -> Value {
        let document = json!({ "uri": path.map(uri::from_path) });
        match self {
            Self::WorkspaceSymbols => json!({ "query": query }),
            Self::DocumentSymbols => json!({ "textDocument": document }),
            Self::References => json!({
                "textDocument": document,
                "position": position,
                "context": { "includeDeclaration": true },
            }),
            _ => json!({ "textDocument": document, "position": position }),
        }
    }

    /// Reads the answer to [`Self::method`]. `path` is the file that was asked about. `None`: it
    /// is none of the protocol's.
    pub(super) fn read(self, answer: &Params, path: Option<&Path>) -> Option<Reading> {
        match self {
            Self::Hover => {
                let hover = answer.read::<Option<Hover>>().ok()?;
                let contents = hover.map(|hover| hover.contents).unwrap_or_default();
                let malformed = contents.malformed;
                let found = Found::Text(texts(contents.items));
                (!found.is_empty() || malformed == 0).then_some(Reading { found, malformed })
            }
            Self::Definition | Self::References | Self::Implementation => {
                places(answer.read().ok()?, |it: AnyLocation, into| {
                    into.push(place(&it.uri, it.position));
                })
            }
            Self::DocumentSymbols => {
                places(answer.read().ok()?, |it: AnySymbol, into| it.nested(0, path, into))
            }
            Self::WorkspaceSymbols => {
                places(answer.read().ok()?, |it: AnySymbol, into| into.push(it.flat()))
            }
            Self::PrepareCallHierarchy | Self::IncomingCalls | Self::OutgoingCalls => {
                places(answer.read().ok()?, |it: AnySymbol, into| into.push(it.flat()))
            }
        }
    }

    /// Reads the answer to [`Self::calls_method`]: a place for each call.
    pub(super) fn read_calls(self, answer: &Params) -> Option<Reading> {
        if self == Self::OutgoingCalls {
            return places(answer.read().ok()?, |it: OutgoingCall, into| into.push(it.to.flat()));
        }
        places(answer.read().ok()?, |it: IncomingCall, into| {
            let caller = it.from.flat();
            let at = |range: Range| FoundPlace { position: range.start, ..caller.clone() };
            let room = MAX_PLACES.saturating_sub(into.len());
            into.extend(it.from_ranges.into_iter().take(room).map(at));
        })
    }
}

/// The items of a call hierarchy as the server sent them, to be asked about. `None`: they are none
/// of the protocol's.
pub(super) fn call_items(answer: &Params) -> Option<Vec<Value>> {
    let all: Listed<Box<RawValue>, MAX_CALL_ITEMS> = answer.read().ok()?;
    let short = all.items.iter().filter(|item| item.get().len() <= MAX_CALL_ITEM_BYTES);
    short.map(|item| serde_json::from_str(item.get()).ok()).collect()
}

impl Reading {
    /// With the places of another one.
    pub(super) fn and(mut self, other: Self) -> Self {
        if let (Found::Places(all), Found::Places(more)) = (&mut self.found, other.found) {
            all.extend(more);
        }
        self.malformed += other.malformed;
        self
    }
}

/// Nothing found.
impl Default for Reading {
    fn default() -> Self {
        Self { found: Found::Places(Vec::new()), malformed: 0 }
    }
}

impl Found {
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Places(places) => places.is_empty(),
        }
    }
}

impl TryFrom<LocationMembers> for AnyLocation {
    type Error = &'static str;

    fn try_from(members: LocationMembers) -> Result<Self, Self::Error> {
        let LocationMembers { uri, range, target_uri, target_selection_range } = members;
        let link = target_uri.zip(target_selection_range);
        let (uri, range) = link.or_else(|| uri.zip(range)).ok_or("no place")?;
        Ok(Self { uri, position: range.start })
    }
}

impl TryFrom<SymbolMembers> for AnySymbol {
    type Error = &'static str;

    fn try_from(members: SymbolMembers) -> Result<Self, Self::Error> {
        let SymbolMembers { name, kind, uri, selection_range, location, children } = members;
        let (uri, position) = match (location, selection_range) {
            (Some(SymbolLocation { uri, range }), _) => {
                (Some(uri), range.unwrap_or_default().start)
            }
            (None, Some(range)) => (uri, range.start),
            (None, None) => return Err("no place"),
        };
        Ok(Self { name, kind, uri, position, children: children.unwrap_or_default() })
    }
}

impl AnySymbol {
    fn flat(&self) -> FoundPlace {
        let place = place(self.uri.as_deref().unwrap_or_default(), self.position);
        FoundPlace { symbol: Some(self.symbol(0)), ..place }
    }

    /// With those inside it, in the order of the file. The depth is bounded by that of the JSON
    /// it was read from.
    fn nested(&self, depth: usize, path: Option<&Path>, into: &mut Vec<FoundPlace>) {
        if MAX_PLACES <= into.len() {
            return;
        }
        into.push(match self.uri {
            Some(_) => self.flat(),
            None => FoundPlace {
                path: path.map(Path::to_owned),
                position: self.position,
                symbol: Some(self.symbol(depth)),
            },
        });
        for inner in &self.children {
            inner.nested(depth + 1, path, into);
        }
    }

    fn symbol(&self, depth: usize) -> FoundSymbol {
        FoundSymbol { name: self.name.clone(), kind: kind_word(self.kind), depth }
    }
}

/// The places of the items that could be read; `None` where there were items, and none could.
fn places<T>(all: Places<T>, mut add: impl FnMut(T, &mut Vec<FoundPlace>)) -> Option<Reading> {
    if all.is_unreadable() {
        return None;
    }
    let mut places = Vec::new();
    for item in all.items {
        add(item, &mut places);
    }
    Some(Reading { found: Found::Places(places), malformed: all.malformed })
}

fn place(uri: &str, position: Position) -> FoundPlace {
    FoundPlace { path: uri::to_path(uri), position, symbol: None }
}

fn texts(all: Vec<MarkedText>) -> String {
    let text = |MarkedText { language, value }| match language {
        Some(language) => format!("```{language}\n{value}\n```"),
        None => value,
    };
    all.into_iter().map(text).collect::<Vec<_>>().join("\n\n")
}

fn kind_word(kind: u32) -> &'static str {
    const WORDS: [&str; 26] = [
        "file",
        "module",
        "namespace",
        "package",
        "class",
        "method",
        "property",
        "field",
        "constructor",
        "enum",
        "interface",
        "function",
        "variable",
        "constant",
        "string",
        "number",
        "boolean",
        "array",
        "object",
        "key",
        "null",
        "enum member",
        "struct",
        "event",
        "operator",
        "type parameter",
    ];
    let number = kind as usize;
    number.checked_sub(1).and_then(|at| WORDS.get(at)).unwrap_or(&"symbol")
}

#[cfg(test)]
mod tests {
    use super::super::message::Incoming;
    use super::*;

    fn params(result: &Value) -> Params {
        let body = json!({ "id": 1, "result": result }).to_string();
        match Incoming::parse(body.as_bytes()) {
            Ok(Incoming::Response { outcome: Ok(params), .. }) => params,
            other => panic!("{other:?}"),
        }
    }

    fn read(operation: Operation, result: &Value) -> String {
        match operation.read(&params(result), Some(Path::new("/asked.rs"))) {
            Some(Reading { found: Found::Text(text), .. }) => text,
            Some(Reading { found: Found::Places(places), .. }) => shown(&places),
            None => "unreadable".to_owned(),
        }
    }

    fn shown(places: &[FoundPlace]) -> String {
        let one = |it: &FoundPlace| {
            let path = it.path.as_ref().map_or("none".into(), |path| path.display().to_string());
            let symbol =
                it.symbol.as_ref().map(|it| format!(" {} {} {}", it.depth, it.kind, it.name));
            let Position { line, character } = it.position;
            format!("{path}:{line}:{character}{}", symbol.unwrap_or_default())
        };
        places.iter().map(one).collect::<Vec<_>>().join("; ")
    }

    fn range(line: u32) -> Value {
        json!({ "start": { "line": line, "character": 1 }, "end": { "line": line, "character": 2 } })
    }

    #[test]
    fn places_come_in_every_form_that_the_protocol_has() {
        let plain = json!({ "uri": "file:///a.rs", "range": range(3) });
        let link = json!({
            "targetUri": "file:///b.rs", "targetRange": range(1), "targetSelectionRange": range(2),
        });
        let read = |result: &Value| read(Operation::Definition, result);
        assert_eq!(read(&plain), "/a.rs:3:1");
        assert_eq!(read(&json!([plain, link])), "/a.rs:3:1; /b.rs:2:1");
        assert_eq!((read(&json!(null)), read(&json!([]))), (String::new(), String::new()));
        let foreign = json!([{ "uri": "jdt://x", "range": range(0) }]);
        assert_eq!(read(&foreign), "none:0:1");
        for wrong in [json!("x"), json!([1]), json!({ "uri": 1 }), json!([{ "uri": "a" }])] {
            assert_eq!(read(&wrong), "unreadable", "{wrong}");
        }
        let negative = json!({ "start": { "line": -1, "character": 0 }, "end": range(0)["end"] });
        assert_eq!(read(&json!({ "uri": "file:///a", "range": negative })), "unreadable");
    }

    #[test]
    fn a_malformed_place_is_counted_and_the_others_are_found() {
        let plain = json!({ "uri": "file:///a.rs", "range": range(3) });
        let negative = json!({ "start": { "line": -1, "character": 0 }, "end": range(0)["end"] });
        let wrong = json!({ "uri": "file:///a.rs", "range": negative });
        let reading = |operation: Operation, result: Value| {
            let reading = operation.read(&params(&result), None).unwrap();
            let Found::Places(places) = reading.found else { panic!("{reading:?}") };
            (places.len(), reading.malformed)
        };
        let some = json!([plain, wrong, 1, plain, [0, 0]]);
        assert_eq!(reading(Operation::References, some), (2, 3));
        let symbol = |location: &Value| json!({ "name": "f", "kind": 1, "location": location });
        let some = json!([symbol(&plain), symbol(&wrong), { "name": "nowhere", "kind": 1 }]);
        assert_eq!(reading(Operation::WorkspaceSymbols, some), (1, 2));
    }

    #[test]
    fn items_of_a_call_hierarchy_are_few_and_short() {
        let long = "x".repeat(MAX_CALL_ITEM_BYTES);
        let all = json!([{ "data": [1] }, { "data": long }, 3, 4, 5, 6, 7, 8, 9, 10]);
        let items = call_items(&params(&all)).unwrap();
        assert_eq!((items.len(), &items[0]["data"]), (MAX_CALL_ITEMS - 1, &json!([1])));
        assert!(call_items(&params(&json!(null))).unwrap().is_empty());
    }

    #[test]
    fn symbols_are_nested_or_flat() {
        let inner =
            json!({ "name": "m", "kind": 6, "range": range(2), "selectionRange": range(2) });
        let outer = json!({
            "name": "C", "kind": 5, "range": range(1), "selectionRange": range(1),
            "children": [inner],
        });
        let flat = json!({
            "name": "f", "kind": 12, "location": { "uri": "file:///x.rs", "range": range(9) },
        });
        assert_eq!(
            read(Operation::DocumentSymbols, &json!([outer, flat])),
            "/asked.rs:1:1 0 class C; /asked.rs:2:1 1 method m; /x.rs:9:1 0 function f"
        );
        let odd = json!([{ "name": "f", "kind": 99, "location": { "uri": "file:///x.rs" } }]);
        assert_eq!(read(Operation::WorkspaceSymbols, &odd), "/x.rs:0:0 0 symbol f");
    }

    #[test]
    fn hovers_are_text() {
        let read = |contents: Value| read(Operation::Hover, &json!({ "contents": contents }));
        assert_eq!(read(json!({ "kind": "markdown", "value": "**x**" })), "**x**");
        assert_eq!(read(json!(["a", { "language": "rs", "value": "b" }])), "a\n\n```rs\nb\n```");
        assert_eq!(read(json!("plain")), "plain");
    }

    #[test]
    fn a_call_is_where_it_is_made() {
        let item = json!({
            "name": "f", "kind": 12, "uri": "file:///a.rs", "range": range(1),
            "selectionRange": range(1),
        });
        let incoming = json!([{ "from": item, "fromRanges": [range(4), range(5)] }]);
        let read = |operation: Operation, result| match operation
            .read_calls(&params(result))
            .unwrap()
            .found
        {
            Found::Places(places) => places,
            other @ Found::Text(_) => panic!("{other:?}"),
        };
        assert_eq!(
            shown(&read(Operation::IncomingCalls, &incoming)),
            "/a.rs:4:1 0 function f; /a.rs:5:1 0 function f"
        );
        let outgoing = json!([{ "to": item, "fromRanges": [range(4)] }]);
        assert_eq!(shown(&read(Operation::OutgoingCalls, &outgoing)), "/a.rs:1:1 0 function f");
        assert!(read(Operation::OutgoingCalls, &json!(null)).is_empty());
    }
}
