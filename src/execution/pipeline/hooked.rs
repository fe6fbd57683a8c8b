//! Asks hooks about a call, before it is judged, before a person is asked about
//! it, and after it has run.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{AdmittedCall, HookedCall, Pipeline, ToolResult};
use crate::hooks::{HookDecision, HookEvent, HookOutcome, HookScene, Hooks};
use crate::permissions::{AccessKind, HookOpinion};
use crate::reminder::Reminder;
use crate::tools::tool::{AnyTool, CallContext, ParsedCall, ToolError, ToolOutput};

/// Arguments that are paths, of the tools that use files.
const PATHS: [&str; 3] = ["file_path", "path", "notebook_path"];

/// A call in the form in which it is judged and run.
pub(super) struct Candidate {
    pub(super) id: String,
    pub(super) tool: Arc<dyn AnyTool>,
    pub(super) parsed: Box<dyn ParsedCall>,
    /// The arguments that `parsed` was made from.
    pub(super) arguments: Value,
    pub(super) opinion: HookOpinion,
    /// What hooks tell the model about the call.
    pub(super) remarks: Option<String>,
    pub(super) hooked: Arc<HookedCall>,
}

/// What the hooks that run after a call need.
pub(super) struct AfterCall {
    hooks: Hooks,
    mode: String,
    remarks: Option<String>,
    /// `None` where no hook runs after it.
    input: Option<Value>,
    hooked: Arc<HookedCall>,
}

impl Candidate {
    /// The same call once more.
    pub(super) fn again(&self) -> Result<Self, ToolError> {
        let Self { id, tool, arguments, opinion, remarks, hooked, .. } = self;
        Ok(Self {
            id: id.clone(),
            tool: Arc::clone(tool),
            parsed: Arc::clone(tool).parse(arguments.clone())?,
            arguments: arguments.clone(),
            opinion: opinion.clone(),
            remarks: remarks.clone(),
            hooked: Arc::clone(hooked),
        })
    }
}

impl Pipeline {
    /// Asks the hooks about a call, once. What they changed is validated again.
    pub(super) async fn hook(
        &self,
        admitted: AdmittedCall,
        context: &CallContext,
    ) -> Result<Candidate, ToolError> {
        let AdmittedCall { call, tool, parsed, hooked } = admitted;
        let candidate = Candidate {
            id: call.id,
            tool,
            parsed,
            arguments: call.input,
            opinion: HookOpinion::None,
            remarks: None,
            hooked: Arc::clone(&hooked),
        };
        let event = HookEvent::PreToolUse;
        if !self.hooks.fires(event, &names(candidate.tool.as_ref())) {
            return Ok(candidate);
        }
        let ask = async || hooked.words.heed(self.ask_hooks(event, &candidate, context).await);
        let outcome = hooked.before.get_or_init(ask).await.clone();
        self.follow(candidate, outcome, context).await
    }

    /// Asks the hooks that answer in a person's place, once. `None` if there are none.
    pub(super) async fn requested(
        &self,
        candidate: &Candidate,
        context: &CallContext,
    ) -> Option<HookOutcome> {
        let event = HookEvent::PermissionRequest;
        if !self.hooks.fires(event, &names(candidate.tool.as_ref())) {
            return None;
        }
        let words = &candidate.hooked.words;
        let ask = async || words.heed(self.ask_hooks(event, candidate, context).await);
        Some(candidate.hooked.requested.get_or_init(ask).await.clone())
    }

    /// Tells the hooks, once, that a person is asked about the call.
    pub(super) async fn notify(&self, candidate: &Candidate, context: &CallContext) {
        const KIND: &str = "permission_prompt";
        let event = HookEvent::Notification;
        if !self.hooks.fires(event, &[KIND]) {
            return;
        }
        let mode = self.permissions.mode().to_string();
        let tell = async || {
            let message = format!("{} needs an approval", candidate.tool.name());
            let members = members(json!({ "message": message, "notification_type": KIND }));
            let said = run(&self.hooks, event, &[KIND], (&mode, context), members).await;
            // It may end nothing.
            candidate.hooked.words.heed(HookOutcome { ends_turn: None, ..said })
        };
        candidate.hooked.notified.get_or_init(tell).await;
    }

    /// Whether hooks may keep a turn from ending.
    pub(crate) fn asks_before_stopping(&self) -> bool {
        let (event, names) = self.stop_event();
        self.hooks.fires(event, &names)
    }

    /// The event of the end of a turn, and what its hooks are matched with.
    fn stop_event(&self) -> (HookEvent, Vec<&str>) {
        match &self.agent_type {
            Some(agent_type) => (HookEvent::SubagentStop, vec![agent_type]),
            None => (HookEvent::Stop, Vec::new()),
        }
    }

    /// Asks the hooks whether the turn may end. `is_held`: they have said no before.
    pub(crate) async fn before_stopping(
        &self,
        is_held: bool,
        context: &CallContext,
    ) -> HookOutcome {
        let mut told = json!({ "stop_hook_active": is_held });
        if let Some(agent) = &context.agent.subagent {
            told["agent_id"] = agent.id.as_str().into();
            told["agent_type"] = agent.agent_type.as_str().into();
        }
        let members = members(told);
        let mode = self.permissions.mode().to_string();
        let (event, names) = self.stop_event();
        run(&self.hooks, event, &names, (&mode, context), members).await
    }

    async fn ask_hooks(
        &self,
        event: HookEvent,
        candidate: &Candidate,
        context: &CallContext,
    ) -> HookOutcome {
        let Candidate { id, tool, arguments, .. } = candidate;
        let names = names(tool.as_ref());
        let mut input = told_input(tool.as_ref(), arguments, context);
        if self.hooks.fires(event, &names) {
            self.tell_real_name(candidate, &mut input, context).await;
        }
        let members = members(json!({
            "tool_name": tool.name(),
            "tool_input": input,
            "tool_use_id": id,
        }));
        let mode = self.permissions.mode().to_string();
        run(&self.hooks, event, &names, (&mode, context), members).await
    }

    /// Puts the path that the call will reach in the place of one that only looks the same: a hook
    /// must see the name that it guards.
    async fn tell_real_name(
        &self,
        candidate: &Candidate,
        input: &mut Value,
        context: &CallContext,
    ) {
        let Candidate { tool, parsed, .. } = candidate;
        if !matches!(tool.access(), AccessKind::Read | AccessKind::Edit) {
            return;
        }
        let access_request = parsed.access_request(context);
        let found = self.permissions.real_name(tool.name(), access_request).await;
        let Some((given, real)) = found else { return };
        for name in PATHS {
            if let Some(Value::String(path)) = input.get_mut(name)
                && Path::new(path) == given
            {
                *path = real.to_string_lossy().into_owned();
            }
        }
    }

    /// The call as the hooks leave it.
    pub(super) async fn follow(
        &self,
        mut candidate: Candidate,
        outcome: HookOutcome,
        context: &CallContext,
    ) -> Result<Candidate, ToolError> {
        candidate.opinion = match (outcome.decision, candidate.opinion) {
            (HookDecision::Deny(reason), _) => return Err(ToolError::Denied(reason)),
            (HookDecision::Ask(reason), _) => HookOpinion::Asks(reason),
            (HookDecision::Allow, HookOpinion::None) => HookOpinion::Allows,
            (HookDecision::Allow | HookDecision::None, before) => before,
        };
        if outcome.ends_turn.is_some() {
            let ends = "a hook ends the turn before this call; nothing was done";
            return Err(ToolError::Denied(ends.to_owned()));
        }
        candidate.remarks = outcome.context.or(candidate.remarks);
        match outcome.changed_input {
            Some(input) => self.revise(candidate, input, context).await,
            None => Ok(candidate),
        }
    }

    /// The call with a hook's input in the place of the model's. Deny rules hold for both.
    async fn revise(
        &self,
        candidate: Candidate,
        input: Value,
        context: &CallContext,
    ) -> Result<Candidate, ToolError> {
        let tool = Arc::clone(&candidate.tool);
        if input == told_input(tool.as_ref(), &candidate.arguments, context) {
            return Ok(candidate);
        }
        let access_request = candidate.parsed.access_request(context);
        self.permissions.refuse_denied(tool.name(), access_request).await?;
        let revised = Arc::clone(&tool).parse(input.clone())?;
        // The scheduler placed the call by its old concurrency, so a change of it cannot be
        // honoured.
        if revised.concurrency() != candidate.parsed.concurrency() {
            return Err(ToolError::failed("a hook changed what this call does; call it again"));
        }
        tracing::info!(tool = tool.name(), id = candidate.id, "a hook changed the input");
        Ok(Candidate { parsed: revised, arguments: input, ..candidate })
    }

    /// What the hooks after the call need.
    pub(super) fn after(&self, candidate: &Candidate, context: &CallContext) -> AfterCall {
        let Candidate { tool, arguments, .. } = candidate;
        let names = names(tool.as_ref());
        let events = [HookEvent::PostToolUse, HookEvent::PostToolUseFailure];
        let fires = events.into_iter().any(|event| self.hooks.fires(event, &names));
        AfterCall {
            hooks: self.hooks.clone(),
            mode: self.permissions.mode().to_string(),
            remarks: candidate.remarks.clone(),
            input: fires.then(|| told_input(tool.as_ref(), arguments, context)),
            hooked: Arc::clone(&candidate.hooked),
        }
    }
}

impl AfterCall {
    /// What hooks are told that the call came to; `None` where none is told.
    pub(super) fn response(&self, outcome: &Result<ToolOutput, ToolError>) -> Option<Value> {
        self.input.as_ref()?;
        Some(match outcome {
            Ok(output) if output.structured.is_null() => output.text.to_string().into(),
            Ok(output) => output.structured.clone(),
            Err(_) => Value::Null,
        })
    }

    /// Runs the hooks after a call, and adds what they say to its answer.
    pub(super) async fn add_to(
        self,
        result: &mut ToolResult,
        (tool, id): (&dyn AnyTool, &str),
        response: Option<Value>,
        duration: Duration,
        context: &CallContext,
    ) {
        remark(result, self.remarks.as_deref());
        let Some(input) = self.input else { return };
        let mut told = members(json!({
            "tool_name": tool.name(),
            "tool_input": input,
            "tool_use_id": id,
            "duration_ms": u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        }));
        let event = if result.is_error {
            told.insert("error".to_owned(), result.text.to_string().into());
            HookEvent::PostToolUseFailure
        } else {
            told.insert("tool_response".to_owned(), response.unwrap_or_default());
            HookEvent::PostToolUse
        };
        let outcome = run(&self.hooks, event, &names(tool), (&self.mode, context), told).await;
        if let HookDecision::Deny(reason) = &outcome.decision {
            remark(result, Some(reason));
        }
        remark(result, outcome.context.as_deref());
        result.ends_turn = outcome.ends_turn;
        result.notices.extend(outcome.notices);
    }

    /// What hooks have told the person before the call ran.
    pub(super) fn notices(&self) -> Vec<String> {
        self.hooked.words.take_notices()
    }
}

/// Adds what a hook says to an answer, marked as such.
fn remark(result: &mut ToolResult, said: Option<&str>) {
    if let Some(said) = said {
        let said = format!("A hook of this server says:\n{said}");
        result.text.close(Reminder::new(said).to_string());
    }
}

async fn run(
    hooks: &Hooks,
    event: HookEvent,
    names: &[&str],
    (mode, context): (&str, &CallContext),
    members: Map<String, Value>,
) -> HookOutcome {
    let session = &context.session;
    let scene = HookScene {
        session: session.name(),
        workspace: &session.workspace,
        working_dir: &context.agent.working_dir(),
        mode,
        cancelled: &context.cancelled,
    };
    hooks.run(event, names, scene, members).await
}

/// The names by which a matcher knows a tool.
fn names(tool: &dyn AnyTool) -> Vec<&str> {
    std::iter::once(tool.name()).chain(tool.aliases().iter().copied()).collect()
}

/// The arguments as hooks are told them: under their advertised names, with absolute paths.
fn told_input(tool: &dyn AnyTool, arguments: &Value, context: &CallContext) -> Value {
    let mut told = tool.normalised(arguments.clone());
    if !matches!(tool.access(), AccessKind::Read | AccessKind::Edit) {
        return told;
    }
    for name in PATHS {
        if let Some(Value::String(path)) = told.get_mut(name) {
            let absolute = context.resolve(Some(Path::new(path.as_str())));
            *path = absolute.to_string_lossy().into_owned();
        }
    }
    told
}

fn members(object: Value) -> Map<String, Value> {
    match object {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
