//! Says what we are when a server is initialized, and reads what the server is. Pure.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::message::Params;
use super::positions::Encoding;
use super::questions::Operation;
use super::uri;

/// How the names of those capabilities end that anybody asks for.
const PROVIDER: &str = "Provider";

/// What a server says of itself.
#[derive(Debug, Default)]
pub(super) struct Capabilities {
    pub(super) encoding: Encoding,
    /// Whether it gives the diagnostics of a document when it is asked.
    pub(super) pulls_diagnostics: bool,
    /// The names of those that it offers.
    offered: HashSet<String>,
}

/// Only the names of capabilities are of use; what they hold may be long, and is not read.
#[derive(Deserialize)]
struct InitializeResult<'a> {
    #[serde(borrow)]
    capabilities: HashMap<Cow<'a, str>, &'a RawValue>,
}

impl Capabilities {
    /// Reads the answer to `initialize`. An encoding that was not offered is an error.
    pub(super) fn read(answer: &Params) -> Result<Self, String> {
        let InitializeResult { capabilities } =
            answer.read().map_err(|_| "did not say what it can do".to_owned())?;
        let encoding = match capabilities.get("positionEncoding").map(|json| json.get()) {
            None | Some("null") => Encoding::default(),
            Some(json) => serde_json::from_str(json)
                .ok()
                .and_then(|name: &str| Encoding::from_name(name))
                .ok_or_else(|| "chose an encoding of positions that was not offered".to_owned())?,
        };
        let there = capabilities.iter().filter(|(name, json)| {
            name.ends_with(PROVIDER) && !["null", "false"].contains(&json.get())
        });
        let offered: HashSet<String> = there.map(|(name, _)| name.to_string()).collect();
        let pulls_diagnostics = offered.contains("diagnosticProvider");
        Ok(Self { encoding, pulls_diagnostics, offered })
    }

    pub(super) fn has(&self, operation: Operation) -> bool {
        self.offered.contains(operation.provider())
    }
}

/// The parameters of `initialize`.
pub(super) fn initialize(root: &Path, initialization: &Value) -> Value {
    let uri = uri::from_path(root);
    let name = root.file_name().map(|name| name.to_string_lossy().into_owned());
    json!({
        "processId": null,
        "clientInfo": { "name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION") },
        "rootPath": root.to_string_lossy(),
        "rootUri": uri,
        "workspaceFolders": [{ "uri": uri, "name": name.unwrap_or_default() }],
        "initializationOptions": initialization,
        "capabilities": {
            "general": { "positionEncodings": Encoding::NAMES.map(|(name, _)| name) },
            "workspace": {
                "configuration": true,
                "workspaceFolders": false,
                "applyEdit": false,
                "symbol": {},
            },
            "window": { "workDoneProgress": true, "showDocument": { "support": false } },
            "textDocument": {
                "synchronization": { "didSave": true },
                "definition": { "linkSupport": true },
                "implementation": { "linkSupport": true },
                "references": {},
                "hover": { "contentFormat": ["markdown", "plaintext"] },
                "documentSymbol": { "hierarchicalDocumentSymbolSupport": true },
                "callHierarchy": {},
                "publishDiagnostics": { "versionSupport": true },
                "diagnostic": {},
            },
            // rust-analyzer tells by it when it has read the project.
            "experimental": { "serverStatusNotification": true },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::super::message::Incoming;
    use super::*;

    fn read(capabilities: &Value) -> Result<Capabilities, String> {
        let body = json!({ "id": 1, "result": { "capabilities": capabilities } }).to_string();
        match Incoming::parse(body.as_bytes()) {
            Ok(Incoming::Response { outcome: Ok(params), .. }) => Capabilities::read(&params),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn reads_what_a_server_can_do() {
        let some = read(&json!({
            "positionEncoding": "utf-8", "hoverProvider": true, "definitionProvider": {},
            "referencesProvider": false, "diagnosticProvider": { "interFileDependencies": true },
        }));
        let some = some.unwrap();
        assert_eq!((some.encoding, some.pulls_diagnostics), (Encoding::Utf8, true));
        assert!(some.has(Operation::Hover) && some.has(Operation::Definition));
        assert!(!some.has(Operation::References) && !some.has(Operation::WorkspaceSymbols));
        assert_eq!(read(&json!({})).unwrap().encoding, Encoding::Utf16);
        assert!(read(&json!({ "positionEncoding": "ebcdic" })).is_err());
        assert!(read(&json!([])).is_err());
    }
}
