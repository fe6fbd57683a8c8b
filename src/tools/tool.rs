//! The contract every tool fulfils, and the erased form the rest of the program
//! handles.
//!
//! A tool author implements [`Tool`] and nothing else. Schemas, validation,
//! decoding and boxing happen once, here, so that a tool's file holds only what
//! is particular to that tool.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::schema::{self, InputSchema, InvalidInput, PropertyAliases};
use crate::files::ReadState;
use crate::permissions::{AccessKind, AccessRequest, KnownTool, Permit, Refusal};
use crate::progress_lines::UNKNOWN_TOOL;
use crate::sync;
use crate::workspace::Workspace;

/// A capability the model can call.
pub(crate) trait Tool: Send + Sync + 'static {
    /// The arguments. The model reads the doc comments of the fields, so write
    /// them for the model.
    type Input: DeserializeOwned + JsonSchema + Send + 'static;

    /// The name the model calls.
    const NAME: &'static str;

    /// Further names that reach this tool, in calls and in rules.
    const ALIASES: &'static [&'static str] = &[];

    /// What kind of thing the calls of this tool reach for. Rules and modes know tools by
    /// this; a call whose [`Self::reach`] is of another kind does not run.
    const ACCESS: AccessKind;

    /// What the model is told the tool is for.
    const DESCRIPTION: &'static str;

    /// A line of the prompt that goes with the tool. Tools that give the same advice give
    /// it once.
    const ADVICE: Option<&'static str> = None;

    /// Further names of properties, `(accepted, advertised)`.
    const PROPERTY_ALIASES: PropertyAliases = &[];

    /// How soon a shared call may start; see docs/stream.md, When a call may start.
    const START: StartRule = StartRule::Sealed;

    /// The most characters of an answer that reach the model; what is beyond is
    /// cut by the pipeline, with a note. `None`: the tool bounds itself.
    const MAX_RESULT_CHARS: Option<usize> = None;

    /// Which part of an answer that is too long is worth most.
    const TRUNCATION: Truncation = Truncation::Head;

    /// Whether this call may overlap with others. The default is the safe answer.
    fn concurrency(&self, _input: &Self::Input) -> Concurrency {
        Concurrency::Exclusive
    }

    /// What this call reaches for; the permission policy judges it.
    fn access_request(&self, input: &Self::Input, context: &CallContext) -> AccessRequest;

    /// The main argument in a few words, for progress lines: a path, a pattern,
    /// a command.
    fn headline(&self, input: &Self::Input) -> String;

    /// Does the work, on what the permit holds.
    fn execute(
        &self,
        input: Self::Input,
        permit: Permit,
        context: CallContext,
    ) -> impl Future<Output = Result<ToolOutput, ToolError>> + Send;
}

/// How a call shares its turn with its neighbours, in the manner of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Concurrency {
    Shared,
    Exclusive,
}

/// When a shared call may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartRule {
    /// At its last brace: a local tool without effects.
    Closed,
    /// When the model has moved on from it.
    Sealed,
}

/// What is left of an answer that is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Truncation {
    Head,
    /// For output whose end says how it went.
    HeadAndTail,
}

/// The facts of one call. Services belong to the tool that needs them.
#[derive(Clone, Debug)]
pub(crate) struct CallContext {
    pub(crate) session: Arc<SessionContext>,
    pub(crate) cancelled: CancellationToken,
}

/// What the calls of one session share.
#[derive(Debug)]
pub(crate) struct SessionContext {
    /// The directories that the session may work in.
    pub(crate) workspace: Arc<Workspace>,
    /// Where relative paths start; Bash moves it.
    working_dir: Mutex<PathBuf>,
    /// What `~` stands for.
    home: PathBuf,
    /// What the model knows of files.
    pub(crate) read_state: ReadState,
}

/// What the model is told when a call succeeds, or answers with a failure of its
/// own (a command's exit code).
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ToolOutput {
    pub(crate) text: String,
    /// The same for programs: hooks and `events` progress. `Null` where there is
    /// nothing beyond the text.
    pub(crate) structured: Value,
    /// The members of `structured` that are for hooks alone: what a file held before may be
    /// as long as the file.
    pub(crate) hooks_only: &'static [&'static str],
    /// Set where the answer is a failure although the tool worked.
    pub(crate) is_error: bool,
}

/// What the model is told when a call fails. Write it so the model can recover.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    #[error("{UNKNOWN_TOOL}{name} is available{hint}")]
    Unavailable { name: String, hint: String },
    #[error("invalid input: {0}")]
    InvalidInput(String),
    #[error("not permitted: {0}")]
    Denied(String),
    #[error("interrupted")]
    Cancelled,
    /// There is no such file; the pipeline adds what may have been meant.
    #[error("{0}")]
    Missing(String),
    #[error("{0}")]
    Failed(String),
}

impl SessionContext {
    /// A session that starts at the root of `workspace`.
    pub(crate) fn new(workspace: Arc<Workspace>) -> Self {
        Self {
            working_dir: Mutex::new(workspace.root().to_owned()),
            workspace,
            home: PathBuf::from("/"),
            read_state: ReadState::default(),
        }
    }

    pub(crate) fn at_home(self, home: PathBuf) -> Self {
        Self { home, ..self }
    }

    pub(crate) fn working_dir(&self) -> PathBuf {
        sync::lock(&self.working_dir).clone()
    }

    pub(crate) fn set_working_dir(&self, directory: PathBuf) {
        *sync::lock(&self.working_dir) = directory;
    }
}

impl CallContext {
    /// `path` as the model wrote it, against the working directory and `~`.
    pub(crate) fn resolve(&self, path: Option<&Path>) -> PathBuf {
        let base = self.session.working_dir();
        path.map_or_else(
            || base.clone(),
            |path| crate::workspace::absolute_from_home(&base, &self.session.home, path),
        )
    }
}

impl ToolOutput {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    pub(crate) fn with(mut self, structured: Value) -> Self {
        self.structured = structured;
        self
    }

    pub(crate) fn hooks_only(mut self, members: &'static [&'static str]) -> Self {
        self.hooks_only = members;
        self
    }
}

impl From<InvalidInput> for ToolError {
    fn from(InvalidInput(reason): InvalidInput) -> Self {
        Self::InvalidInput(reason)
    }
}

impl ToolError {
    pub(crate) fn failed(reason: impl fmt::Display) -> Self {
        Self::Failed(reason.to_string())
    }
}

impl From<Refusal> for ToolError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Policy(reason) => Self::Denied(reason),
            Refusal::Path(reason) => Self::Failed(reason),
        }
    }
}

/// A tool of unknown type: any [`Tool`], or one known only at run time.
pub(crate) trait AnyTool: Send + Sync {
    fn name(&self) -> &str;
    fn aliases(&self) -> &[&'static str];
    fn access(&self) -> AccessKind;
    fn description(&self) -> &str;
    fn advice(&self) -> Option<&'static str>;
    /// The `parameters` schema as advertised: flat, every property typed.
    fn input_schema(&self) -> &Value;
    fn start(&self) -> StartRule;
    fn max_result_chars(&self) -> Option<usize>;
    fn truncation(&self) -> Truncation;

    /// The tool as rules know it.
    fn known(&self) -> KnownTool<'_> {
        KnownTool { name: self.name(), aliases: self.aliases(), access: self.access() }
    }

    /// Normalises, validates and decodes the arguments. Nothing past this point
    /// sees raw JSON.
    fn parse(self: Arc<Self>, arguments: Value) -> Result<Box<dyn ParsedCall>, ToolError>;
}

/// A tool together with arguments it understands.
pub(crate) trait ParsedCall: Send {
    fn concurrency(&self) -> Concurrency;
    fn access_request(&self, context: &CallContext) -> AccessRequest;
    fn headline(&self) -> String;
    /// What of the input had no effect, for the answer to mention.
    fn notes(&self) -> &[String];
    fn execute(self: Box<Self>, permit: Permit, context: CallContext) -> ToolFuture;
}

pub(crate) type ToolFuture = BoxFuture<'static, Result<ToolOutput, ToolError>>;

/// Makes a tool ready for use: its schema is derived and compiled here, once.
pub(crate) fn erase<T: Tool>(tool: T) -> Arc<dyn AnyTool> {
    let schema = InputSchema::for_type::<T::Input>(T::PROPERTY_ALIASES);
    Arc::new(ErasedTool { tool: Arc::new(tool), schema })
}

struct ErasedTool<T> {
    tool: Arc<T>,
    schema: InputSchema,
}

struct BoundCall<T: Tool> {
    tool: Arc<T>,
    input: T::Input,
    notes: Vec<String>,
}

impl<T: Tool> AnyTool for ErasedTool<T> {
    fn name(&self) -> &str {
        T::NAME
    }

    fn aliases(&self) -> &[&'static str] {
        T::ALIASES
    }

    fn access(&self) -> AccessKind {
        T::ACCESS
    }

    fn description(&self) -> &str {
        T::DESCRIPTION
    }

    fn advice(&self) -> Option<&'static str> {
        T::ADVICE
    }

    fn input_schema(&self) -> &Value {
        self.schema.advertised()
    }

    fn start(&self) -> StartRule {
        T::START
    }

    fn max_result_chars(&self) -> Option<usize> {
        T::MAX_RESULT_CHARS
    }

    fn truncation(&self) -> Truncation {
        T::TRUNCATION
    }

    fn parse(self: Arc<Self>, arguments: Value) -> Result<Box<dyn ParsedCall>, ToolError> {
        let (arguments, notes) = self.schema.accept(arguments)?;
        let input = schema::decode(arguments)?;
        Ok(Box::new(BoundCall { tool: Arc::clone(&self.tool), input, notes }))
    }
}

impl<T: Tool> ParsedCall for BoundCall<T> {
    fn concurrency(&self) -> Concurrency {
        self.tool.concurrency(&self.input)
    }

    fn access_request(&self, context: &CallContext) -> AccessRequest {
        self.tool.access_request(&self.input, context)
    }

    fn headline(&self) -> String {
        self.tool.headline(&self.input)
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn execute(self: Box<Self>, permit: Permit, context: CallContext) -> ToolFuture {
        Box::pin(async move { self.tool.execute(self.input, permit, context).await })
    }
}

#[cfg(test)]
pub(crate) mod test_support {
    //! A throw-away directory to call tools in.

    use std::fs::{self, File};
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::permissions::{Access, ExcludedPaths, SearchScope};
    use crate::workspace;

    /// The calls of one workspace share a session: what one reads, the next knows.
    pub(crate) struct Workspace {
        root: PathBuf,
        _directory: Option<tempfile::TempDir>,
        born: SystemTime,
        context: CallContext,
        excluded: ExcludedPaths,
    }

    impl Workspace {
        pub(crate) fn new(files: &[(&str, &str)]) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let workspace = Self::at(directory.path());
            let workspace = Self { _directory: Some(directory), ..workspace };
            for (path, text) in files {
                workspace.write(path, text.as_bytes());
            }
            workspace
        }

        /// A directory that stays when this is dropped.
        pub(crate) fn at(root: &Path) -> Self {
            let root = root.canonicalize().unwrap();
            let open = workspace::Workspace::open(vec![root.clone()]).unwrap();
            let session = Arc::new(SessionContext::new(Arc::new(open)));
            Self {
                root,
                _directory: None,
                born: SystemTime::now(),
                context: CallContext { session, cancelled: CancellationToken::new() },
                excluded: ExcludedPaths::none(),
            }
        }

        /// Hides a directory from searches, as the server does with its own.
        pub(crate) fn hide(&mut self, directory: &Path) {
            self.excluded = ExcludedPaths::below(directory);
        }

        pub(crate) fn root(&self) -> PathBuf {
            self.root.clone()
        }

        pub(crate) fn path(&self, relative: &str) -> PathBuf {
            self.root().join(relative)
        }

        pub(crate) fn write(&self, relative: &str, bytes: &[u8]) {
            let path = self.path(relative);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }

        pub(crate) fn read(&self, relative: &str) -> Vec<u8> {
            fs::read(self.path(relative)).unwrap()
        }

        /// The context of every call; cancel its token to cancel them.
        pub(crate) fn context(&self) -> CallContext {
            self.context.clone()
        }

        /// Makes `relative` look as if it had been written `seconds` ago; files of the
        /// same age have the same time.
        pub(crate) fn age(&self, relative: &str, seconds: u64) {
            let file = File::options().write(true).open(self.path(relative)).unwrap();
            file.set_modified(self.born - Duration::from_secs(seconds)).unwrap();
        }

        /// Permits what lies in the workspace, and every command.
        pub(crate) fn permit(&self, access_request: AccessRequest) -> Result<Permit, ToolError> {
            let root = Arc::clone(&self.context.session.workspace);
            let resolve = |path: PathBuf| {
                root.resolve(&path).map_err(|error| ToolError::Denied(error.to_string()))
            };
            Ok(Permit::for_test(match access_request {
                AccessRequest::Read(path) => Access::Read(resolve(path)?),
                AccessRequest::Search(path) => {
                    Access::Search(SearchScope::new(resolve(path)?, self.excluded.clone()))
                }
                AccessRequest::Write(path) => Access::Write(resolve(path)?),
                AccessRequest::Command(command) => Access::Command(command),
                AccessRequest::Nothing => Access::Nothing,
            }))
        }

        /// Calls `tool` the way the model does: JSON in, text out.
        pub(crate) async fn call(&self, tool: impl Tool, arguments: Value) -> String {
            self.text(self.run(&erase(tool), arguments).await)
        }

        /// The same with the whole answer, for a tool that is called several times.
        pub(crate) async fn run(
            &self,
            tool: &Arc<dyn AnyTool>,
            arguments: Value,
        ) -> Result<ToolOutput, ToolError> {
            let call = Arc::clone(tool).parse(arguments)?;
            let notes = call.notes().join("\n");
            let permit = self.permit(call.access_request(&self.context))?;
            let mut output = call.execute(permit, self.context()).await?;
            if !notes.is_empty() {
                output.text = format!("{}\n{notes}", output.text);
            }
            Ok(output)
        }

        /// As the model reads it, with the workspace's path replaced.
        pub(crate) fn text(&self, answer: Result<ToolOutput, ToolError>) -> String {
            let text = match answer {
                Ok(ToolOutput { text, is_error: true, .. }) => format!("Error: {text}"),
                Ok(output) => output.text,
                Err(error) => format!("Error: {error}"),
            };
            text.replace(self.root().to_str().unwrap(), "$WORKSPACE")
        }
    }
}
