//! Begins the turn of a request: resolves its session, puts list and records together, and starts
//! the agent.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::address::{Chain, ChainTail, ListEnd};
use super::assemble::{self, Assembled, Outcome, may_answer};
use super::context_limits;
use super::decisions::{OpenQuestion, are_decided, decisions};
use super::loading::Loading;
use super::matching::Turn;
use super::message::ClientMessage;
use super::open_approvals::approvals_of;
use super::prompt_hooks::{Prompted, Submitted};
use super::record::{SessionState, TurnRecord};
use super::request::ChatRequest;
use super::resolve::{MAX_WAIT, ResolvedSession};
use super::running::limits::RunPermit;
use super::running::shape::{AnswerForm, AnswerShape};
use super::running::{Begun, Position, RequestFingerprint, ResumeSlot, Subscriber};
use super::{Sessions, preface, typed_command};
use crate::agent::asking::bare_choice::CodeRequirement;
use crate::agent::beginning::Beginning;
use crate::agent::record::{Asked, OpenCall};
use crate::blocking::FILES;
use crate::clock;
use crate::errors::{ApiError, ErrorCode};
use crate::hooks::Hooks;
use crate::ids::{KeyId, Scope, TurnId};
use crate::mcp::McpPrompt;
use crate::permissions::{AccessKind, DeniedTools, KnownTool, RuleGrant};
use crate::store::StoreError;
use crate::store::rows::{ApprovalRow, Change, TurnStatus};
use crate::text;
use crate::upstream::TraceHeaders;
use crate::workspace::ReadableRoot;

/// The most characters of a prompt of an MCP server.
const MAX_PROMPT_CHARS: usize = 100_000;

/// How often a request begins anew because another one was quicker.
const MAX_ATTEMPTS: usize = 5;

/// Who asks, and how.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) scope: Scope,
    /// The client key, for the session's row.
    pub(crate) key: KeyId,
    /// The key's own time for clients that leave, in place of the server's.
    pub(crate) disconnect_grace: Option<Duration>,
    /// Cancelled when the key is revoked.
    pub(crate) revoked: CancellationToken,
    pub(crate) fingerprint: RequestFingerprint,
    pub(crate) form: AnswerForm,
    /// Sent with each upstream request.
    pub(crate) headers: TraceHeaders,
}

/// What is known of a turn before it starts.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) resolved: ResolvedSession,
    /// What held after the turn that the request goes on from.
    pub(super) state: Option<SessionState>,
    /// Of the chain of the client's list.
    pub(super) tail: ChainTail,
    pub(super) assembled: Assembled,
    /// Decisions of the request's reply, which are committed before the turn acts on them.
    pub(super) decided: Vec<Change>,
    /// The rules that the reply keeps, once it is committed.
    pub(super) rules: Vec<RuleGrant>,
    /// Asks that the reply leaves out, with what is answered of them: they are asked again, and
    /// nothing runs.
    pub(super) left_out: Vec<Asked>,
    /// Whether a reply to what is asked again must carry its code.
    pub(super) code_requirement: CodeRequirement,
    /// The tokens of the conversation by the count of the turn before.
    pub(super) context_tokens: Option<u64>,
    /// The turn whose open round the new one takes up.
    pub(super) opener: Option<Turn>,
    /// What hooks told the person.
    pub(super) notices: Vec<String>,
    /// The hooks of the turn.
    pub(super) hooks: Hooks,
    /// The directory of the skill whose name the user has typed.
    pub(super) skill_directory: Option<ReadableRoot>,
}

impl Sessions {
    /// Begins the turn of a request. `permit` lets one more turn run.
    pub(crate) async fn begin(
        &self,
        mut request: ChatRequest,
        caller: Caller,
        permit: RunPermit,
    ) -> Result<Begun, ApiError> {
        if request.is_background {
            return self.start_background(request, caller, permit);
        }
        let permissions = self.permissions_for(&request)?;
        let denied = permissions.tools_denied_now().await?;
        request.take_away(&denied)?;
        let mut messages = std::mem::take(&mut request.messages);
        let mut resume: Option<ResumeSlot> = None;
        let mut prompted: Option<Prompted> = None;
        let chain = Chain::new(&caller.scope, &messages);
        for attempt in 0..MAX_ATTEMPTS {
            // Until the turn counts what it keeps of it.
            let loading = Loading::new(&self.memory_budget);
            let resolved = self.resolve(caller.scope, &request, &chain, &loading).await?;
            match self.resumed(&caller, &chain, &resolved, &request) {
                Resumed::Known(subscriber) => return Ok(Begun::Known(subscriber)),
                // It has just ended: its record tells more by now.
                Resumed::JustEnded if attempt + 1 < MAX_ATTEMPTS => continue,
                Resumed::No | Resumed::JustEnded => {}
            }
            if let Some(turn) = open_turn(&resolved)
                && resume.as_ref().map(ResumeSlot::id) != Some(&turn)
            {
                // The session must be free for whoever takes the round up now.
                drop(resolved);
                resume = Some(self.running.resumes.take(&turn, MAX_WAIT).await?);
                continue;
            }
            let approvals = self.approvals(caller.scope, &resolved).await?;
            // Only a request that takes up a round may have to look again.
            let may_look_again =
                resolved.found.path.last().is_some_and(|turn| turn.open().is_some());
            let list =
                if may_look_again { messages.clone() } else { std::mem::take(&mut messages) };
            let prepared = self.prepare(&request, list, &chain, resolved, &approvals)?;
            let Some(mut prepared) = prepared else { return Ok(Begun::Nothing) };
            let prompted = match &prompted {
                Some(prompted) => prompted,
                None => prompted.insert(self.submit(&request, &prepared).await?),
            };
            self.put_in_command(&request, (&caller.key, &denied), &mut prepared).await?;
            prompted.apply_to(&mut prepared.assembled);
            prepared.notices.clone_from(&prompted.notices);
            prepared.hooks = prompted.hooks.clone();
            let rules = std::mem::take(&mut prepared.rules);
            self.check_rules(&caller, &rules).await?;
            match self.record(&request, &caller, prepared).await {
                Err(NotStarted::Conflict) => {}
                Err(NotStarted::Failed(error)) => return Err(error),
                Ok(recorded) => {
                    self.keep_rules(&caller, &rules).await;
                    return Ok(self.launch(request, caller, recorded, (permit, resume)));
                }
            }
        }
        Err(StoreError::Conflict.into())
    }

    /// Asks the hooks about what the request brings, once however often it looks again.
    async fn submit(
        &self,
        request: &ChatRequest,
        prepared: &Prepared,
    ) -> Result<Prompted, ApiError> {
        let Prepared { resolved, state, assembled, .. } = prepared;
        let state = state.as_ref();
        let mode = Arc::new(self.session_mode(request, state, assembled));
        let permissions = &self.permissions_for(request)?.in_session_mode(mode);
        let workspace = &*permissions.workspace_now().await?;
        let submitted = Submitted { resolved, state, assembled, permissions, workspace };
        self.ask_prompt_hooks(submitted).await
    }

    /// Puts the text of a command in the place of its name, if the user has typed one.
    async fn put_in_command(
        &self,
        request: &ChatRequest,
        (key, denied): (&KeyId, &DeniedTools),
        prepared: &mut Prepared,
    ) -> Result<(), ApiError> {
        let Some(message) = typed_command::message(&prepared.assembled) else { return Ok(()) };
        let typed = message.to_owned();
        let message = typed.clone();
        let workspace = Arc::clone(self.permissions_for(request)?.workspace());
        let definitions = Arc::clone(&self.definitions);
        let replace = move || typed_command::replaced(&message, &definitions, &workspace);
        if let Some(replaced) = FILES.run(replace).await? {
            preface::replace_words(&mut prepared.assembled, |_| Some(replaced.message));
            prepared.skill_directory = replaced.directory;
        } else if let Some((name, words)) = typed_command::named_prompt(&typed) {
            let told = self.prompt_of_server((key, denied), &name, &words).await?;
            let message = told.and_then(|told| typed_command::with_prompt(&typed, &told));
            preface::replace_words(&mut prepared.assembled, |_| message);
        }
        Ok(())
    }

    /// The text of an MCP server's prompt; `None` if there is none of that name.
    async fn prompt_of_server(
        &self,
        (key, denied): (&KeyId, &DeniedTools),
        name: &str,
        words: &str,
    ) -> Result<Option<String>, ApiError> {
        let whole = format!("mcp__{name}");
        let tool = KnownTool { name: &whole, aliases: &[], access: AccessKind::Mcp };
        let Some(servers) = self.mcp.as_ref().filter(|_| !denied.contains(tool)) else {
            return Ok(None);
        };
        servers.end_untrusted().await;
        let prompts = servers.snapshot().prompts;
        let is_it = |prompt: &&McpPrompt| name == format!("{}__{}", prompt.server, prompt.name);
        let Some(prompt) = prompts.iter().find(is_it) else { return Ok(None) };
        let told = servers.prompt(key.as_str(), prompt, words).await.map_err(|fault| {
            let message = format!("The prompt /{whole} has no text: {fault}.");
            ApiError::new(ErrorCode::InvalidValue, message).param("messages")
        })?;
        Ok(Some(text::first_chars(&told, MAX_PROMPT_CHARS).to_owned()))
    }

    /// Puts the list and the records together; `None` if there is nothing to do.
    fn prepare(
        &self,
        request: &ChatRequest,
        messages: Vec<ClientMessage>,
        chain: &Chain,
        mut resolved: ResolvedSession,
        approvals: &[ApprovalRow],
    ) -> Result<Option<Prepared>, ApiError> {
        let is_decided = is_decided(&resolved, approvals);
        let state = resolved.recall();
        let may_reply = resolved.may_reply(request.named.as_ref());
        let found = std::mem::take(&mut resolved.found);
        let before = found.path.last().and_then(|turn| turn.context_tokens());
        let opener = found.path.last().filter(|turn| turn.open().is_some());
        let question = opener.map(|turn| turn.question()).unwrap_or_default();
        let opener = opener.map(|turn| Turn { row: turn.row.clone(), body: turn.body.clone() });
        let server_history = request.server_history;
        let list = assemble::Request { messages, found, is_decided, may_reply, server_history };
        let Outcome::Turn(mut assembled) = assemble::assemble(chain, list)? else {
            return Ok(None);
        };
        let (mut decided, mut left_out) = (Vec::new(), Vec::new());
        let mut code_requirement = CodeRequirement::where_history_is_kept(server_history);
        let mut rules = Vec::new();
        if let Beginning::Resume(resume) = &mut assembled.beginning {
            let reply = assembled.reply.as_ref().map(|reply| &reply.said);
            let channel = self.asking(request).channel;
            let question = OpenQuestion { open: &resume.open, text: &question, channel };
            let known = decisions(question, approvals, reply, clock::now_ms());
            (decided, left_out) = (known.new, known.left_out);
            code_requirement = code_requirement.or(known.code_requirement);
            rules = known.rules;
            resume.decisions = known.decided;
        }
        let context_tokens =
            before.map(|before| context_limits::with(before, &assembled.user_messages));
        let assembled = *assembled;
        let opener = opener.filter(|_| assembled.resumes);
        let tail = chain.tail();
        Ok(Some(Prepared {
            resolved,
            state,
            tail,
            assembled,
            decided,
            rules,
            left_out,
            code_requirement,
            context_tokens,
            opener,
            notices: Vec::new(),
            hooks: Hooks::default(),
            skill_directory: None,
        }))
    }

    /// The turn that a reply to the same question has begun: it runs, or its outcome stands.
    /// Another reply finds it as well. Where a client's answers are what the round waited for,
    /// only the same request does, and those of a dialog find the dialog that they led to.
    fn resumed(
        &self,
        caller: &Caller,
        chain: &Chain,
        resolved: &ResolvedSession,
        request: &ChatRequest,
    ) -> Resumed {
        if !resolved.may_reply(request.named.as_ref()) {
            return Resumed::No;
        }
        let Some(turn) = resolved.found.attempts.iter().find(|turn| turn.body.resumes) else {
            return Resumed::No;
        };
        let replies = || replies(chain, resolved, request.server_history);
        let is_same = turn.row.request == Some(caller.fingerprint.request());
        match turn.row.status {
            TurnStatus::Running if is_same || replies() => {
                match self.running.join(caller.scope, &turn.row.id) {
                    Some(subscriber) => Resumed::Known(Box::new(subscriber.in_form(caller.form))),
                    None => Resumed::JustEnded,
                }
            }
            TurnStatus::Finished | TurnStatus::AwaitsClient | TurnStatus::Suspended
                if replies() || leads_on(turn, chain, resolved) =>
            {
                let shape = AnswerShape::of_record(turn, caller.form);
                let subscriber = Subscriber::of_record(turn, shape, Position::default());
                Resumed::Known(Box::new(subscriber))
            }
            _ => Resumed::No,
        }
    }

    /// The approvals of the round that the request may take up.
    async fn approvals(
        &self,
        scope: Scope,
        resolved: &ResolvedSession,
    ) -> Result<Vec<ApprovalRow>, StoreError> {
        let Some(last) = resolved.found.path.last() else { return Ok(Vec::new()) };
        let Some(open) = last.open().filter(|open| !open.asked.is_empty()) else {
            return Ok(Vec::new());
        };
        approvals_of(&*self.store, scope, &last.row.id, Some(open)).await
    }
}

/// The turn that has taken up the open round already.
enum Resumed {
    No,
    /// It runs, or its outcome stands.
    Known(Box<Subscriber>),
    /// It ran when it was found.
    JustEnded,
}

/// The turn whose open round the request may take up, if calls of the server's wait in it. Only
/// one request does so: what a person has approved runs once.
fn open_turn(resolved: &ResolvedSession) -> Option<TurnId> {
    let last = resolved.found.path.last()?;
    let waits = last.open()?.calls.iter().any(OpenCall::waits);
    waits.then(|| last.row.id.clone())
}

/// Why a turn did not start.
pub(super) enum NotStarted {
    Failed(ApiError),
    /// Another request has decided an approval first.
    Conflict,
}

impl From<ApiError> for NotStarted {
    fn from(error: ApiError) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for NotStarted {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Conflict => Self::Conflict,
            StoreError::Unavailable | StoreError::Exhausted => Self::Failed(error.into()),
        }
    }
}

/// Whether the list ends with one user message behind a question of ours.
fn replies(chain: &Chain, resolved: &ResolvedSession, server_history: bool) -> bool {
    let asking = resolved.found.path.last();
    asking.is_some_and(|asking| may_answer(chain, asking, server_history))
}

/// Whether the turn asked further, and the list ends with the answers that led to it: those of
/// the dialog before, or the client's own results, as long as nobody has answered the question.
fn leads_on(turn: &TurnRecord, chain: &Chain, resolved: &ResolvedSession) -> bool {
    let open = resolved.found.path.last().and_then(|turn| turn.open());
    let is_answered = || {
        let mut attempts = resolved.found.attempts.iter();
        attempts.any(|further| further.row.parent.as_ref() == Some(&turn.row.id))
    };
    turn.row.status == TurnStatus::Suspended
        && chain.end == ListEnd::Answers
        && open.is_some_and(|open| !open.asked_by.is_empty() || !is_answered())
}

/// Whether all asks of the open round were decided over REST, and no turn has acted on it yet.
fn is_decided(resolved: &ResolvedSession, approvals: &[ApprovalRow]) -> bool {
    let open = resolved.found.path.last().and_then(|turn| turn.open());
    let was_resumed = resolved.found.attempts.iter().any(|turn| turn.body.resumes);
    !was_resumed && open.is_some_and(|open| are_decided(open, approvals))
}
