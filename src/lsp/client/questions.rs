//! Says how each operation of the tool is asked in the protocol, and reads what comes back. Pure.

use std::path::{Path, PathBuf};

use gen_lsp_types::{
    CallHierarchyIncomingCall, CallHierarchyItem, CallHierarchyOutgoingCall, DocumentSymbol,
    Location, LocationLink, Position, Range, SymbolInformation, SymbolKind, WorkspaceSymbol,
    WorkspaceSymbolLocation,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::message::Params;
use super::uri;

/// Places that are read of an answer. The tool shows fewer, and counts these.
const MAX_PLACES: usize = 10_000;

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

/// A list that servers leave out, or send as one item alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany<T> {
    Many(Vec<T>),
    One(T),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum AnyLocation {
    Link(LocationLink),
    Plain(Location),
}

/// `gen_lsp_types` marks the older forms deprecated; servers still send them.
#[derive(Deserialize)]
struct Hover {
    contents: OneOrMany<Marked>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Marked {
    Plain(String),
    Code { language: String, value: String },
    Markup { value: String },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum AnyDocumentSymbol {
    Nested(DocumentSymbol),
    Flat(SymbolInformation),
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

    /// Reads the answer to [`Self::method`]. `path` is the file that was asked about.
    pub(super) fn read(
        self,
        answer: &Params,
        path: Option<&Path>,
    ) -> Result<Found, serde_json::Error> {
        Ok(match self {
            Self::Hover => {
                Found::Text(answer.read::<Option<Hover>>()?.map_or_else(String::new, hover))
            }
            Self::Definition | Self::References | Self::Implementation => {
                let all = answer.read::<Option<OneOrMany<AnyLocation>>>()?;
                Found::Places(listed(all).map(AnyLocation::place).collect())
            }
            Self::DocumentSymbols => {
                let all = answer.read::<Option<Vec<AnyDocumentSymbol>>>()?;
                Found::Places(document_symbols(all.unwrap_or_default(), path))
            }
            Self::WorkspaceSymbols => {
                let all = answer.read::<Option<Vec<WorkspaceSymbol>>>()?.unwrap_or_default();
                Found::Places(all.into_iter().take(MAX_PLACES).map(workspace_symbol).collect())
            }
            Self::PrepareCallHierarchy | Self::IncomingCalls | Self::OutgoingCalls => {
                let all = answer.read::<Option<Vec<CallHierarchyItem>>>()?.unwrap_or_default();
                Found::Places(all.iter().take(MAX_PLACES).map(item).collect())
            }
        })
    }

    /// Reads the answer to [`Self::calls_method`]: a place for each call.
    pub(super) fn read_calls(self, answer: &Params) -> Result<Vec<FoundPlace>, serde_json::Error> {
        if self == Self::OutgoingCalls {
            let all = answer.read::<Option<Vec<CallHierarchyOutgoingCall>>>()?.unwrap_or_default();
            return Ok(all.iter().take(MAX_PLACES).map(|call| item(&call.to)).collect());
        }
        let all = answer.read::<Option<Vec<CallHierarchyIncomingCall>>>()?.unwrap_or_default();
        let places = all.iter().flat_map(|call| {
            let caller = item(&call.from);
            let at = |range: &Range| FoundPlace { position: range.start, ..caller.clone() };
            call.from_ranges.iter().map(at).collect::<Vec<_>>()
        });
        Ok(places.take(MAX_PLACES).collect())
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

impl AnyLocation {
    fn place(self) -> FoundPlace {
        match self {
            Self::Plain(it) => place(&it.uri.0, it.range.start),
            Self::Link(it) => place(&it.target_uri.0, it.target_selection_range.start),
        }
    }
}

fn listed<T>(answer: Option<OneOrMany<T>>) -> impl Iterator<Item = T> {
    let all = match answer {
        None => Vec::new(),
        Some(OneOrMany::One(one)) => vec![one],
        Some(OneOrMany::Many(many)) => many,
    };
    all.into_iter().take(MAX_PLACES)
}

fn place(uri: &str, position: Position) -> FoundPlace {
    FoundPlace { path: uri::to_path(uri), position, symbol: None }
}

fn item(item: &CallHierarchyItem) -> FoundPlace {
    let symbol = Some(symbol(&item.name, item.kind, 0));
    FoundPlace { symbol, ..place(&item.uri.0, item.selection_range.start) }
}

fn workspace_symbol(found: WorkspaceSymbol) -> FoundPlace {
    let symbol =
        Some(symbol(&found.base_symbol_information.name, found.base_symbol_information.kind, 0));
    let place = match found.location {
        WorkspaceSymbolLocation::Location(it) => place(&it.uri.0, it.range.start),
        WorkspaceSymbolLocation::LocationUriOnly(it) => place(&it.uri.0, Position::default()),
    };
    FoundPlace { symbol, ..place }
}

/// The symbols in the order of the file. Those inside others follow them.
fn document_symbols(all: Vec<AnyDocumentSymbol>, path: Option<&Path>) -> Vec<FoundPlace> {
    let mut places = Vec::new();
    for found in all {
        match found {
            AnyDocumentSymbol::Flat(it) => {
                let about = &it.base_symbol_information;
                let symbol = Some(symbol(&about.name, about.kind, 0));
                places.push(FoundPlace {
                    symbol,
                    ..place(&it.location.uri.0, it.location.range.start)
                });
            }
            AnyDocumentSymbol::Nested(it) => nested(&it, 0, path, &mut places),
        }
    }
    places.truncate(MAX_PLACES);
    places
}

/// The depth is bounded by that of the JSON it was read from.
fn nested(found: &DocumentSymbol, depth: usize, path: Option<&Path>, into: &mut Vec<FoundPlace>) {
    let symbol = Some(symbol(&found.name, found.kind, depth));
    let position = found.selection_range.start;
    into.push(FoundPlace { path: path.map(Path::to_owned), position, symbol });
    for inner in found.children.iter().flatten() {
        nested(inner, depth + 1, path, into);
    }
}

fn symbol(name: &str, kind: SymbolKind, depth: usize) -> FoundSymbol {
    FoundSymbol { name: name.to_owned(), kind: kind_word(kind), depth }
}

fn hover(hover: Hover) -> String {
    let marked = |it: Marked| match it {
        Marked::Plain(text) | Marked::Markup { value: text } => text,
        Marked::Code { language, value } => format!("```{language}\n{value}\n```"),
    };
    listed(Some(hover.contents)).map(marked).collect::<Vec<_>>().join("\n\n")
}

fn kind_word(kind: SymbolKind) -> &'static str {
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
    let number = u32::from(kind) as usize;
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
            Ok(Found::Text(text)) => text,
            Ok(Found::Places(places)) => shown(&places),
            Err(_) => "unreadable".to_owned(),
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
        let read = |operation: Operation, result| operation.read_calls(&params(result)).unwrap();
        assert_eq!(
            shown(&read(Operation::IncomingCalls, &incoming)),
            "/a.rs:4:1 0 function f; /a.rs:5:1 0 function f"
        );
        let outgoing = json!([{ "to": item, "fromRanges": [range(4)] }]);
        assert_eq!(shown(&read(Operation::OutgoingCalls, &outgoing)), "/a.rs:1:1 0 function f");
        assert!(read(Operation::OutgoingCalls, &json!(null)).is_empty());
    }
}
