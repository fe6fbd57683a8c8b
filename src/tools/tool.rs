//! Defines the trait that every tool implements, and erases it for the rest of the program.
//!
//! A tool implements [`Tool`] and nothing else. This module derives the schema, and validates,
//! decodes and boxes the calls of all tools, so that a tool's file holds only its own work.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::agent_context::AgentContext;
use super::call_progress::CallProgress;
pub(crate) use super::output::{Picture, PictureFormat, ToolError, ToolOutput};
use super::own_choice::OwnChoice;
use super::question::Question;
use super::session_context::SessionContext;
use super::side_usage::SideUsage;
use super::subagent::Subagents;
use super::tasks::BackgroundTask;
use crate::input_schema::{self, InputSchema, PropertyAliases};
use crate::permissions::{AccessKind, AccessRequest, AskedAccess, KnownTool, Permit};
use crate::text::quoted_name;
use crate::workspace::ContentState;

/// A tool that the model can call.
pub(crate) trait Tool: Send + Sync + 'static {
    /// The arguments. The doc comments of the fields go to the model, so write them for it.
    type Input: DeserializeOwned + JsonSchema + Send + Sync + 'static;

    /// The name by which the model calls the tool.
    const NAME: &'static str;

    /// Further names of this tool, in calls and in rules.
    const ALIASES: &'static [&'static str] = &[];

    /// The kind of access that all calls of this tool ask for. Rules and modes know a tool by
    /// it. A call whose [`Self::access_request`] is of another kind does not run.
    const ACCESS: AccessKind;

    /// Tells the model what the tool does.
    const DESCRIPTION: &'static str;

    /// A line that the tool adds to the prompt. The same line of several tools appears once.
    const ADVICE: Option<&'static str> = None;

    /// Further names of properties, as pairs `(accepted, advertised)`.
    const PROPERTY_ALIASES: PropertyAliases = &[];

    /// How soon a shared call may start. See docs/stream.md, "When a call may start".
    const START: StartRule = StartRule::Sealed;

    /// The most characters of an answer. The pipeline cuts a longer answer and adds a note.
    /// `None`: the tool bounds its answers itself.
    const MAX_RESULT_CHARS: Option<usize> = None;

    /// Properties of the input that this server does not offer. In a call they have no effect.
    fn withheld(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether this call may overlap with others. The default, exclusive, is safe for every
    /// tool.
    fn concurrency(&self, _input: &Self::Input) -> Concurrency {
        Concurrency::Exclusive
    }

    /// The access that this call asks for. The permission policy judges it.
    fn access_request(&self, input: &Self::Input, context: &CallContext) -> AccessRequest;

    /// The main argument for progress lines: a path, a pattern or a command.
    fn headline(&self, input: &Self::Input) -> String;

    /// Shows a person what the call would do, before it is approved. Nothing happens yet.
    /// `None`: the arguments are shown. A tool that edits files must compute it with the code
    /// that later makes the edit, and tell the contents it was computed from.
    fn preview(
        &self,
        _input: &Self::Input,
        _asked: &AskedAccess,
        _context: &CallContext,
    ) -> impl Future<Output = Option<Preview>> + Send {
        async { None }
    }

    /// The questions to a person whose answers are the call's answer. `None` for all tools but
    /// the one that asks.
    fn questions(&self, _input: &Self::Input) -> Option<Result<Vec<Question>, ToolError>> {
        None
    }

    /// Does the work with the access that the permit holds.
    fn execute(
        &self,
        input: Self::Input,
        permit: Permit,
        context: CallContext,
    ) -> impl Future<Output = Result<ToolOutput, ToolError>> + Send;
}

/// Whether a call may overlap with others of its turn, like the modes of a read-write lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Concurrency {
    Shared,
    Exclusive,
}

/// When a shared call may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartRule {
    /// When its arguments are closed by their last brace. For local tools without effects.
    Closed,
    /// When the model has moved on to something else, so the arguments cannot change.
    Sealed,
}

/// The data of one call. Services are fields of the tool that needs them.
#[derive(Clone, Debug)]
pub(crate) struct CallContext {
    /// The agent that calls.
    pub(crate) agent: Arc<AgentContext>,
    pub(crate) session: Arc<SessionContext>,
    pub(crate) cancelled: CancellationToken,
    /// The most characters that the answer may have; `None` where nothing limits it.
    pub(crate) max_chars: Option<usize>,
    /// What starts subagents. `None`: nothing does.
    pub(crate) subagents: Option<Arc<dyn Subagents>>,
    /// What the call's own requests upstream cost.
    pub(crate) side_usage: SideUsage,
    /// Tells the client how far the call is.
    pub(crate) progress: CallProgress,
}

/// What a call would do, shown to a person who is asked about it.
#[derive(Debug)]
pub(crate) struct Preview {
    /// Markdown in which nothing of the model's can break out of its place.
    pub(crate) shown: String,
    /// The contents of the file that would be changed, from which `shown` was made.
    pub(crate) contents: Option<ContentState>,
    /// Why the call would fail if it ran now. Then nobody is asked about it.
    pub(crate) fault: Option<ToolError>,
    /// What the person can choose. Empty: to allow the call once, or for the session, or to deny
    /// it. The permit holds what was chosen.
    pub(crate) choices: Vec<OwnChoice>,
    /// What the model says that the call does. It stands behind `shown`, as the model's words.
    pub(crate) described: Option<String>,
}

impl CallContext {
    /// The context of all calls of one agent's turn. The pipeline adds what differs per call.
    pub(crate) fn new(
        agent: Arc<AgentContext>,
        session: Arc<SessionContext>,
        cancelled: CancellationToken,
    ) -> Self {
        Self {
            agent,
            session,
            cancelled,
            max_chars: None,
            subagents: None,
            side_usage: SideUsage::default(),
            progress: CallProgress::default(),
        }
    }

    /// Makes a path of the model absolute. `None` is the working directory.
    pub(crate) fn resolve(&self, path: Option<&Path>) -> PathBuf {
        let base = self.agent.working_dir();
        path.map_or_else(
            || base.clone(),
            |path| crate::workspace::absolute_from_home(&base, self.session.home(), path),
        )
    }

    /// The background task of the session with this id.
    pub(crate) fn task(&self, id: &str) -> Result<Arc<BackgroundTask>, ToolError> {
        let found = self.session.tasks.as_ref().and_then(|tasks| tasks.find(id));
        found.ok_or_else(|| {
            let id = quoted_name(id);
            ToolError::Failed(format!("no background task is called {id}; ListTasks shows them"))
        })
    }
}

impl Preview {
    pub(crate) fn of(shown: String) -> Self {
        Self { shown, contents: None, fault: None, choices: Vec::new(), described: None }
    }

    pub(crate) fn failed(fault: ToolError, contents: Option<ContentState>) -> Self {
        Self { contents, fault: Some(fault), ..Self::of(String::new()) }
    }
}

/// A tool of any type: an erased [`Tool`], or one that is known only at run time.
pub(crate) trait AnyTool: Send + Sync {
    fn name(&self) -> &str;
    fn aliases(&self) -> &[&'static str];
    fn access(&self) -> AccessKind;
    fn description(&self) -> &str;
    fn advice(&self) -> Option<&'static str>;
    /// The schema for `parameters`: flat, with a type for every property.
    fn input_schema(&self) -> &Value;
    fn start(&self) -> StartRule;
    fn max_result_chars(&self) -> Option<usize>;

    /// The properties of the tool that rules use.
    fn known(&self) -> KnownTool<'_> {
        KnownTool { name: self.name(), aliases: self.aliases(), access: self.access() }
    }

    /// The arguments under their advertised names, in the types of the schema; as they are if
    /// they do not fit it.
    fn normalised(&self, arguments: Value) -> Value;

    /// Normalises, validates and decodes the arguments. Later steps never see raw JSON.
    fn parse(self: Arc<Self>, arguments: Value) -> Result<Box<dyn ParsedCall>, ToolError>;
}

/// A call whose arguments have been validated and decoded.
pub(crate) trait ParsedCall: Send + Sync {
    fn concurrency(&self) -> Concurrency;
    fn access_request(&self, context: &CallContext) -> AccessRequest;
    fn headline(&self) -> String;
    fn preview<'a>(
        &'a self,
        asked: &'a AskedAccess,
        context: &'a CallContext,
    ) -> BoxFuture<'a, Option<Preview>>;
    fn questions(&self) -> Option<Result<Vec<Question>, ToolError>>;
    /// Notes for the answer on arguments that the tool ignored.
    fn notes(&self) -> &[String];
    fn execute(self: Box<Self>, permit: Permit, context: CallContext) -> ToolFuture;
}

pub(crate) type ToolFuture = BoxFuture<'static, Result<ToolOutput, ToolError>>;

/// Erases a tool, and derives and compiles its schema once.
pub(crate) fn erase<T: Tool>(tool: T) -> Arc<dyn AnyTool> {
    let schema = InputSchema::for_type::<T::Input>(T::PROPERTY_ALIASES, tool.withheld());
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

    fn normalised(&self, arguments: Value) -> Value {
        match self.schema.accept(arguments.clone()) {
            Ok((normalised, _)) => normalised,
            Err(_) => arguments,
        }
    }

    fn max_result_chars(&self) -> Option<usize> {
        T::MAX_RESULT_CHARS
    }

    fn parse(self: Arc<Self>, arguments: Value) -> Result<Box<dyn ParsedCall>, ToolError> {
        let (arguments, notes) = self.schema.accept(arguments)?;
        let input = input_schema::decode(arguments)?;
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

    fn preview<'a>(
        &'a self,
        asked: &'a AskedAccess,
        context: &'a CallContext,
    ) -> BoxFuture<'a, Option<Preview>> {
        Box::pin(self.tool.preview(&self.input, asked, context))
    }

    fn questions(&self) -> Option<Result<Vec<Question>, ToolError>> {
        self.tool.questions(&self.input)
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
    //! Calls tools in a temporary workspace.

    use std::fs::{self, File};
    use std::sync::Mutex;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::files::ShownLines;
    use crate::permissions::{
        Access, CommandLine, ExcludedPaths, OpenedCommand, SearchLimits, SearchScope,
    };
    use crate::sync;
    use crate::workspace;

    /// A temporary workspace. Its calls share a session, so a file that one call reads is known
    /// to the next.
    pub(crate) struct Workspace {
        root: PathBuf,
        _directory: Option<tempfile::TempDir>,
        born: SystemTime,
        context: CallContext,
        excluded: ExcludedPaths,
        /// What the answers of the round show.
        shown: Mutex<Vec<ShownLines>>,
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

        /// A workspace in an existing directory, which is not removed on drop.
        pub(crate) fn at(root: &Path) -> Self {
            let root = root.canonicalize().unwrap();
            let open = workspace::Workspace::open(vec![root.clone()]).unwrap();
            let session = Arc::new(SessionContext::new(Arc::new(open)));
            let agent = Arc::new(AgentContext::main(&session));
            Self {
                root,
                _directory: None,
                born: SystemTime::now(),
                context: CallContext::new(agent, session, CancellationToken::new()),
                excluded: ExcludedPaths::none(),
                shown: Mutex::default(),
            }
        }

        /// Begins another session in it.
        pub(crate) fn begin_session(
            &mut self,
            with: impl FnOnce(SessionContext) -> SessionContext,
            restore: impl FnOnce(AgentContext, &SessionContext) -> AgentContext,
        ) {
            let workspace = Arc::clone(&self.context.session.workspace);
            self.context.session = Arc::new(with(SessionContext::new(workspace)));
            let session = &self.context.session;
            self.context.agent = Arc::new(restore(AgentContext::main(session), session));
        }

        /// Limits the answers of all further calls.
        pub(crate) fn limit(&mut self, max_chars: usize) {
            self.context.max_chars = Some(max_chars);
        }

        /// Sends the answers so far to the model.
        pub(crate) fn close_round(&self) {
            let shown = std::mem::take(&mut *sync::lock(&self.shown));
            self.context.agent.read_state.showed(shown, 1);
        }

        /// Hides a directory from searches, as the server hides its own.
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

        /// The context of every call. Its token cancels them.
        pub(crate) fn context(&self) -> CallContext {
            self.context.clone()
        }

        /// Sets the modification time of `relative` to `seconds` ago. Files of the same age get
        /// exactly the same time.
        pub(crate) fn age(&self, relative: &str, seconds: u64) {
            let file = File::options().write(true).open(self.path(relative)).unwrap();
            file.set_modified(self.born - Duration::from_secs(seconds)).unwrap();
        }

        /// Permits every access within the workspace, and every command.
        pub(crate) fn permit(&self, access_request: AccessRequest) -> Result<Permit, ToolError> {
            let root = Arc::clone(&self.context.session.workspace);
            let resolve = |path: PathBuf| {
                root.resolve(&path).map_err(|error| ToolError::Denied(error.to_string()))
            };
            Ok(Permit::for_test(match access_request {
                AccessRequest::Read(path) => Access::Read(Arc::new(resolve(path)?)),
                AccessRequest::Search(path) => Access::Search(SearchScope::new(
                    resolve(path)?,
                    self.excluded.clone(),
                    SearchLimits::default(),
                )),
                AccessRequest::Write(path) => Access::Write(Arc::new(resolve(path)?)),
                AccessRequest::Command { line, directory, outside_sandbox, lacked } => {
                    let real_directory = directory.clone();
                    let command_line =
                        CommandLine { line, directory, real_directory, outside_sandbox, lacked };
                    let workspace = Arc::clone(&root);
                    Access::Command(Box::new(OpenedCommand::for_test(command_line, workspace)))
                }
                AccessRequest::Named(name) => Access::Named(name),
                AccessRequest::Fetch(page) => Access::Fetch(page),
                AccessRequest::WebSearch(query) => Access::WebSearch(query),
                AccessRequest::Mcp(access) => Access::Mcp(access),
                AccessRequest::Consent => Access::Consent,
                AccessRequest::Nothing => Access::Nothing,
            }))
        }

        /// Calls `tool` as the model does: JSON in, text out.
        pub(crate) async fn call(&self, tool: impl Tool, arguments: Value) -> String {
            self.text(self.run(&erase(tool), arguments).await)
        }

        /// Calls an erased tool, and returns the whole answer.
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
                output.text.close(notes);
            }
            sync::lock(&self.shown).extend(output.text.shown_lines());
            Ok(output)
        }

        /// The text of an answer, with the path of the workspace replaced.
        pub(crate) fn text(&self, answer: Result<ToolOutput, ToolError>) -> String {
            let text = match answer {
                Ok(ToolOutput { text, is_error: true, .. }) => format!("Error: {text}"),
                Ok(output) => output.text.to_string(),
                Err(error) => format!("Error: {error}"),
            };
            text.replace(self.root().to_str().unwrap(), "$WORKSPACE")
        }
    }
}
