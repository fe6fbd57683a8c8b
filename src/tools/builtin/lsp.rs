//! Asks a language server about the code: definitions, references, types, symbols and calls.

mod render;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use self::render::Rendering;
use crate::blocking::FILES;
use crate::input_schema::PropertyAliases;
use crate::look_alike::{Difference, LooseMatches};
use crate::lsp::{self, Ask, Document, LanguageServers, LineColumn, Operation, ReadRules};
use crate::permissions::{AccessKind, AccessRequest, HiddenFiles, Permit, SearchScope};
use crate::text;
use crate::tools::tool::{CallContext, Concurrency, StartRule, Tool, ToolError, ToolOutput};
use crate::workspace::FileId;

/// The names of the operations, for the model.
const OPERATIONS: [(&str, Operation); 9] = [
    ("goToDefinition", Operation::Definition),
    ("findReferences", Operation::References),
    ("hover", Operation::Hover),
    ("documentSymbol", Operation::DocumentSymbols),
    ("workspaceSymbol", Operation::WorkspaceSymbols),
    ("goToImplementation", Operation::Implementation),
    ("prepareCallHierarchy", Operation::PrepareCallHierarchy),
    ("incomingCalls", Operation::IncomingCalls),
    ("outgoingCalls", Operation::OutgoingCalls),
];

#[derive(Debug)]
pub(crate) struct Lsp {
    /// `None`: nobody asks any.
    servers: Option<Arc<LanguageServers>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct LspInput {
    /// One of `goToDefinition`, `findReferences`, `hover`, `goToImplementation`,
    /// `prepareCallHierarchy`, `incomingCalls`, `outgoingCalls` (these ask about the symbol at a
    /// place), `documentSymbol` (lists the symbols of a file) and `workspaceSymbol` (finds
    /// symbols by name in the whole project).
    operation: String,
    /// The file to ask about; a relative path counts from the working directory. Only
    /// `workspaceSymbol` goes without.
    #[serde(rename = "filePath")]
    file_path: Option<PathBuf>,
    /// The line of the symbol, as Read numbers it.
    #[schemars(range(min = 1))]
    line: Option<u32>,
    /// Which character of the line the symbol begins at, counted from 1.
    #[schemars(range(min = 1))]
    character: Option<u32>,
    /// The symbol itself as it stands on that line, in place of `character`.
    symbol: Option<String>,
    /// The name, or a part of it, that `workspaceSymbol` looks for.
    query: Option<String>,
}

/// What was read under the permit, before the server is asked.
struct Opened {
    document: Option<Document>,
    hidden: Arc<HiddenFiles>,
}

/// What an answer may show, a server may be sent.
impl ReadRules for HiddenFiles {
    fn may_read(&self, path: &Path, file: FileId) -> bool {
        !self.covers(path, false) && !self.keeps_secret(path) && !self.has(file)
    }
}

impl Lsp {
    pub(crate) fn new(servers: Option<Arc<LanguageServers>>) -> Self {
        Self { servers }
    }
}

impl Tool for Lsp {
    type Input = LspInput;

    const NAME: &'static str = super::LSP;
    const ACCESS: AccessKind = AccessKind::Read;
    const DESCRIPTION: &'static str = "Asks the language server of the project about its code: \
        where a symbol is defined, used, implemented or called, its type and documentation, and \
        the symbols of a file or of the project. More exact than a text search.";
    const PROPERTY_ALIASES: PropertyAliases = &[("file_path", "filePath"), ("column", "character")];
    const START: StartRule = StartRule::Closed;
    const MAX_RESULT_CHARS: Option<usize> = Some(30_000);

    fn concurrency(&self, _: &LspInput) -> Concurrency {
        Concurrency::Shared
    }

    /// As for a search: what the answer names besides the file is held against the rules.
    fn access_request(&self, input: &LspInput, context: &CallContext) -> AccessRequest {
        AccessRequest::Search(match &input.file_path {
            Some(path) => context.resolve(Some(path)),
            None => context.session.workspace.root().to_owned(),
        })
    }

    fn headline(&self, input: &LspInput) -> String {
        let LspInput { operation, file_path, line, .. } = input;
        match (file_path, line) {
            (Some(path), Some(line)) => format!("{operation} {}:{line}", path.display()),
            (Some(path), None) => format!("{operation} {}", path.display()),
            (None, _) => operation.clone(),
        }
    }

    async fn execute(
        &self,
        input: LspInput,
        permit: Permit,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let (name, operation) = input.operation()?;
        let servers = self.servers.as_ref();
        let servers = servers.ok_or_else(|| ToolError::failed("no language server is there"))?;
        let scope =
            permit.into_search().ok_or_else(|| ToolError::failed("nothing was permitted"))?;
        let has_file = input.file_path.is_some();
        let shown_path = has_file.then(|| scope.path().to_owned());
        let is_of_all = operation == Operation::WorkspaceSymbols;
        let opened = FILES.run(move || open(&scope, has_file, is_of_all)).await;
        let Opened { document, hidden } = opened.map_err(ToolError::failed)??;
        let place = input.place(operation, document.as_ref())?;
        let query = input.wanted_name().unwrap_or_default().to_owned();
        let asked_line = place.zip(document.as_ref()).and_then(|(place, document)| {
            lsp::line(&document.text, place.line).map(|line| (place, line.to_owned()))
        });
        let rules = Arc::<HiddenFiles>::clone(&hidden);
        let ask = Ask { operation, document, place, query, rules };
        let workspace = Arc::clone(&context.session.workspace);
        let answers = tokio::select! {
            answers = servers.ask(&workspace, ask) => answers.map_err(ToolError::failed)?,
            () = context.cancelled.cancelled() => return Err(ToolError::Cancelled),
        };
        let working_dir = context.agent.working_dir();
        let rendering =
            Rendering { operation: name, answers, asked_line, shown_path, working_dir, hidden };
        FILES.run(move || rendering.output(&workspace)).await.map_err(ToolError::failed)
    }
}

/// Where the line only nearly has the symbol, in words.
fn near_miss(line: &str, symbol: &str) -> Option<String> {
    let found = LooseMatches::find(line.as_bytes(), symbol)?;
    let column = line[..found.first].chars().count() + 1;
    let difference = Difference::find((&line[found.first..], symbol), (1, column))?;
    let column = difference.column;
    Some(format!(". At character {column} {}", difference.between("the line", "symbol")))
}

impl LspInput {
    /// By its name, however it is written: `goto_definition` is one as well.
    fn operation(&self) -> Result<(&'static str, Operation), ToolError> {
        let plain = |name: &str| name.replace(['_', '-'], "").to_lowercase();
        let wanted = plain(&self.operation);
        let found = OPERATIONS.into_iter().find(|(name, _)| plain(name) == wanted);
        found.ok_or_else(|| {
            let names = OPERATIONS.map(|(name, _)| name).join(", ");
            let given = text::quoted_name(&self.operation);
            ToolError::InvalidInput(format!("`operation`: expected one of {names}; got {given}"))
        })
    }

    /// The name that `workspaceSymbol` looks for. Where it is not said, it is the symbol's.
    fn wanted_name(&self) -> Option<&str> {
        let names = [&self.query, &self.symbol].into_iter().flatten();
        names.map(|name| name.trim()).find(|name| !name.is_empty())
    }

    /// The place that is asked about, for the operations that ask about one.
    fn place(
        &self,
        operation: Operation,
        document: Option<&Document>,
    ) -> Result<Option<LineColumn>, ToolError> {
        let invalid = |reason: String| Err(ToolError::InvalidInput(reason));
        if operation == Operation::WorkspaceSymbols {
            return match self.wanted_name() {
                None => invalid("`query` is missing: the name to look for".to_owned()),
                Some(_) => Ok(None),
            };
        }
        let Some(document) = document else {
            return invalid("`filePath` is missing: the file to ask about".to_owned());
        };
        if operation == Operation::DocumentSymbols {
            return Ok(None);
        }
        let Some(number) = self.line else {
            return invalid("`line` is missing: the line of the symbol".to_owned());
        };
        let path = document.path.display();
        let Some(line) = lsp::line(&document.text, number) else {
            let lines = document.text.lines().count();
            return Err(ToolError::Failed(format!(
                "{path} has {lines} lines, so no line {number}"
            )));
        };
        let column = match (&self.symbol, self.character) {
            (Some(symbol), _) if !symbol.is_empty() => {
                lsp::column_of(line, symbol).ok_or_else(|| {
                    let shown = text::shown_line(text::first_chars(line, render::MAX_LINE_CHARS));
                    let given = symbol;
                    let symbol = text::quoted_name(symbol);
                    let near = near_miss(line, given).unwrap_or_default();
                    ToolError::Failed(format!(
                        "line {number} of {path} has no {symbol}: {shown}{near}"
                    ))
                })?
            }
            (_, Some(character)) => character.max(1),
            _ => {
                return invalid(
                    "`symbol` or `character` is missing: what is meant on that line".to_owned(),
                );
            }
        };
        Ok(Some(LineColumn { line: number, column }))
    }
}

/// Opens the file, if there is one. A question about all files may come with a directory for it.
fn open(scope: &SearchScope, has_file: bool, is_of_all: bool) -> Result<Opened, ToolError> {
    let hidden = Arc::new(scope.hidden());
    let is_directory = || scope.metadata().is_ok_and(|metadata| metadata.is_dir());
    if !has_file || (is_of_all && is_directory()) {
        return Ok(Opened { document: None, hidden });
    }
    let file = scope.open_file().map_err(|error| {
        let path = scope.path().display();
        match error.kind() {
            io::ErrorKind::NotFound => ToolError::Missing(format!("File not found: {path}")),
            _ => ToolError::Failed(format!("could not read {path}: {error}")),
        }
    })?;
    let document = lsp::read_document(scope.real_path(), &file).map_err(ToolError::Failed)?;
    Ok(Opened { document: Some(document), hidden })
}

#[cfg(test)]
mod tests;
