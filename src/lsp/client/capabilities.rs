//! Says what we are when a server is initialized, and reads what the server is. Pure.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::message::Params;
use super::positions::Encoding;
use super::questions::Operation;
use super::uri;

/// What a server says of itself.
#[derive(Debug, Default)]
pub(super) struct Capabilities {
    pub(super) encoding: Encoding,
    /// Whether it gives the diagnostics of a document when it is asked.
    pub(super) pulls_diagnostics: bool,
    /// Whether it offers each, by name.
    offered: Map<String, Value>,
}

#[derive(Deserialize)]
struct InitializeResult {
    capabilities: Map<String, Value>,
}

impl Capabilities {
    /// Reads the answer to `initialize`. An encoding that was not offered is an error.
    pub(super) fn read(answer: &Params) -> Result<Self, String> {
        let result: InitializeResult =
            answer.read().map_err(|_| "did not say what it can do".to_owned())?;
        let mut capabilities = result.capabilities;
        let encoding = match capabilities.get("positionEncoding") {
            None | Some(Value::Null) => Encoding::default(),
            Some(name) => name
                .as_str()
                .and_then(Encoding::from_name)
                .ok_or_else(|| "chose an encoding of positions that was not offered".to_owned())?,
        };
        // Only the names of capabilities are of use; what they hold may be long.
        for (_, value) in &mut capabilities {
            *value = Value::Bool(is_there(value));
        }
        let pulls_diagnostics = capabilities.get("diagnosticProvider") == Some(&Value::Bool(true));
        Ok(Self { encoding, pulls_diagnostics, offered: capabilities })
    }

    pub(super) fn has(&self, operation: Operation) -> bool {
        self.offered.get(operation.provider()) == Some(&Value::Bool(true))
    }
}

fn is_there(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
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
