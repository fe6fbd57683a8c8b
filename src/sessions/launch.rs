//! Starts the agent on what is prepared, with a recorder for what it leaves behind.

use std::collections::HashSet;
use std::mem;
use std::sync::Arc;

use futures::FutureExt as _;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::agents::SessionAgents;
use super::ask_again::{self, AskedAgain};
use super::assemble::Assembled;
use super::begin::{Caller, NotStarted, Prepared};
use super::matching;
use super::pending_names::NameGuard;
use super::record::{SessionBody, SessionState, TurnBody};
use super::recorder::{CurrentState, Rows, TurnRecorder, json};
use super::request::{ChatRequest, Progress};
use super::resolve::ResolvedSession;
use super::running::limits::RunPermit;
use super::running::{
    Audience, Begun, DisconnectPolicy, Held, ResumeSlot, Retention, SessionSlot, Sharing,
    StartedTurn, TurnIdentity,
};
use super::turn_start::Pieces;
use super::{Sessions, pairs, preface};
use crate::agent::asking::bare_choice::CodeRequirement;
use crate::agent::beginning::{Asking, Beginning, HistoryPiece};
use crate::agent::delegation::StartsAgents;
use crate::agent::outbox::outbox;
use crate::agent::prompt;
use crate::agent::record::{Asked, Entry, NoRecord, Recorder};
use crate::agent::subagents::{AgentFamily, AgentStarter};
use crate::agent::turn::{self, Turn};
use crate::blocking::RESOLVING;
use crate::clock;
use crate::errors::{ApiError, ErrorCode};
use crate::execution::pipeline::Pipeline;
use crate::execution::reminders::{self, Moment};
use crate::files::watcher::Marks;
use crate::files::{ReadState, RoundDigest};
use crate::hooks::Hooks;
use crate::ids::{KeyId, SessionId, TurnId};
use crate::permissions::{GrantHolder, Grants, Permissions, SessionMode};
use crate::session_files::SessionFiles;
use crate::store::rows::{Change, EntryRow, SessionRow, TurnRow, TurnStatus};
use crate::tools::agent_context::AgentContext;
use crate::tools::session_context::SessionContext;
use crate::tools::subagent::TASK;
use crate::tools::tasks::SessionTasks;
use crate::tools::toolset::Toolset;
use crate::upstream::TraceHeaders;
use crate::workspace::ReadableRoots;

/// The members of a request that go along with its subagents' requests: the model, which is
/// replaced by the agent's own, and who is served, for the gateway's own accounts.
const AGENTS_FIELDS: [&str; 4] = ["model", "user", "metadata", "safety_identifier"];

/// A turn whose beginning is recorded, as far as it must be.
pub(super) struct Recorded {
    turn: TurnParts,
    slot: SessionSlot,
    guard: Option<NameGuard>,
    recorder: Arc<dyn Recorder>,
    pieces: Vec<HistoryPiece>,
    beginning: Beginning,
    left_out: Vec<Asked>,
    code_requirement: CodeRequirement,
    shown_before: String,
    context_tokens: Option<u64>,
    notices: Vec<String>,
    left_behind: Vec<String>,
    audience: Audience,
}

/// What a turn has whether it is recorded or not.
struct TurnParts {
    identity: TurnIdentity,
    context: Arc<SessionContext>,
    agent: Arc<AgentContext>,
    permissions: Permissions,
    hooks: Hooks,
    prompt: Option<Arc<str>>,
}

/// What the store keeps of the turn's request. Takes the texts out of what was assembled.
fn turn_body(request: &ChatRequest, assembled: &mut Assembled) -> TurnBody {
    TurnBody {
        model: request.model.clone(),
        session_name: request.named.as_ref().map(|named| named.text().to_owned()),
        instructions: mem::take(&mut assembled.instructions),
        user_messages: mem::take(&mut assembled.user_messages),
        continues: assembled.continues,
        resumes: assembled.resumes,
        include_usage: request.include_usage,
        resumed_by: Vec::new(),
        calls: Vec::new(),
        unheard: false,
        said_so_far: None,
        state: None,
    }
}

impl Sessions {
    /// Makes the recorder of a turn, and commits what the turn will act on.
    pub(super) async fn record(
        &self,
        request: &ChatRequest,
        caller: &Caller,
        prepared: Prepared,
    ) -> Result<Recorded, NotStarted> {
        let Prepared {
            resolved,
            state,
            tail,
            mut assembled,
            mut decided,
            rules: _,
            left_out,
            code_requirement,
            context_tokens,
            opener,
            notices,
            hooks,
            skill_directory,
        } = prepared;
        let holder = GrantHolder { key: caller.key.clone(), scope: caller.scope };
        let files = self.readable_files(&resolved);
        let tasks = self.tasks.of_session(&resolved.session, caller.scope, caller.revoked.clone());
        let mode = self.session_mode(request, state.as_ref(), &assembled);
        let mode = Arc::new(mode.shared_by(Arc::clone(&tasks.newest_turn_plans)));
        let permissions = self.permissions_for(request)?.in_session_mode(Arc::clone(&mode));
        let permissions = permissions.held_by(holder).with_session_files(files);
        let body = stored_body(&resolved);
        let before = StateBefore {
            state: state.clone(),
            body: &body,
            mode,
            tasks,
            parent: assembled.parent.as_ref(),
            model: request.model.clone(),
            key: caller.key.clone(),
        };
        let context = self.context(&permissions, &resolved.session, before);
        let (context, agent) = context.await?;
        // A request that is only asked again tells nothing else.
        let tells_finds = left_out.is_empty() && shows_finds(request, caller, &context);
        let left_behind = if tells_finds { untold_finds(&context).await } else { Vec::new() };
        if let Some(directory) = skill_directory {
            context.readable.add(directory);
        }
        let permissions = permissions.with_readable(Arc::clone(&context.readable));
        retain_shown(&agent.read_state, &assembled.pieces);
        remind(&mut assembled, (&permissions, &request.tools), (&context, &agent)).await;
        let prompt = self.prompt_of(&resolved, request, &permissions).await?;
        let identity = TurnIdentity {
            id: TurnId::random(),
            session: resolved.session.clone(),
            session_name: session_name(request, &resolved),
            scope: caller.scope,
            started_ms: clock::now_ms(),
        };
        let turn =
            TurnParts { identity: identity.clone(), context, agent, permissions, hooks, prompt };
        let current = CurrentState {
            context: Arc::clone(&turn.context),
            turn: identity.id.clone(),
            agent: Arc::clone(&turn.agent),
            before: state,
            audience: Audience::default(),
        };
        let audience = current.audience.clone();
        decided.extend(opener.map(|opener| taken_up(opener, &identity.id)));
        decided.extend(client_answers(&assembled.beginning, &identity.id));
        let acts_on_records = assembled.resumes || request.detach || !decided.is_empty();
        let body = turn_body(request, &mut assembled);
        let rows = Rows {
            session: session_row(&resolved, &turn, request, caller),
            turn: turn_row(identity, assembled.parent, caller),
            body,
            first: decided,
        };
        let address = move |said: &str, ids: &[String]| tail.after(said, ids);
        let store = Arc::clone(&self.store);
        let recorder =
            TurnRecorder::new(store, rows, Box::new(address), current, self.recorders.clone());
        if acts_on_records {
            recorder.begin().await?;
        }
        let ResolvedSession { slot, guard, .. } = resolved;
        let (pieces, beginning) = (assembled.pieces, assembled.beginning);
        let shown_before = assembled.shown_before;
        let recorder: Arc<dyn Recorder> = Arc::new(recorder);
        Ok(Recorded {
            turn,
            slot,
            guard,
            recorder,
            pieces,
            beginning,
            left_out,
            code_requirement,
            shown_before,
            context_tokens,
            notices,
            left_behind,
            audience,
        })
    }

    /// Starts the turn's task.
    pub(super) fn launch(
        &self,
        mut request: ChatRequest,
        mut caller: Caller,
        recorded: Recorded,
        (permit, resume): (RunPermit, Option<ResumeSlot>),
    ) -> Begun {
        let Recorded { turn, slot, guard, recorder, pieces, beginning, .. } = recorded;
        let Recorded { left_out, code_requirement, shown_before, context_tokens, .. } = recorded;
        let Recorded { notices, left_behind, audience, .. } = recorded;
        if let Some(progress) = preferred_progress(&request, &turn.context) {
            request.progress = Some(progress);
            caller.form.progress = progress;
        }
        let mut sharing = self.sharing(&request, &caller, permit, Some(slot));
        sharing.resume = resume;
        sharing.audience = audience;
        let started = match beginning {
            Beginning::Resume(resume) if !left_out.is_empty() => {
                let channel = self.asking(&request).channel;
                let include_messages = request.include_messages;
                let open = resume.open;
                let asked = AskedAgain {
                    open,
                    left_out,
                    channel,
                    code_requirement,
                    shown_before,
                    include_messages,
                };
                start_asking_again(turn, request.model, recorder, asked)
            }
            beginning => {
                let history = pieces;
                let pieces = Pieces {
                    history,
                    beginning,
                    context_tokens,
                    notices,
                    left_behind,
                    shown_before,
                };
                self.launch_agent(request, caller.headers, turn, recorder, pieces, guard)
            }
        };
        Begun::Turn(Box::new((started, sharing)))
    }

    /// A frontend's own request passes without a session, and leaves no trace.
    pub(super) fn start_background(
        &self,
        mut request: ChatRequest,
        caller: Caller,
        permit: RunPermit,
    ) -> Result<Begun, ApiError> {
        let permissions = self.permissions_for(&request)?;
        let pieces = pairs::without_records(std::mem::take(&mut request.messages))?;
        let context = SessionContext::new(Arc::clone(permissions.workspace()));
        let context = context.at_home(self.home.clone()).with_key(caller.key.clone());
        let context = Arc::new(context);
        let session = SessionId::random();
        let identity = TurnIdentity {
            id: TurnId::random(),
            session_name: session.to_string(),
            session,
            scope: caller.scope,
            started_ms: clock::now_ms(),
        };
        let turn = TurnParts {
            identity,
            agent: Arc::new(AgentContext::main(&context)),
            context,
            permissions,
            hooks: self.hooks.clone(),
            prompt: None,
        };
        let sharing = self.sharing(&request, &caller, permit, None);
        let (context_tokens, notices) = (None, Vec::new());
        let (history, shown_before) = (pieces, String::new());
        let beginning = Beginning::Ask;
        let left_behind = Vec::new();
        let pieces =
            Pieces { history, beginning, context_tokens, notices, left_behind, shown_before };
        let recorder = Arc::new(NoRecord);
        let started = self.launch_agent(request, caller.headers, turn, recorder, pieces, None);
        Ok(Begun::Turn(Box::new((started, sharing))))
    }

    /// What starts the subagents of the turn, if it has the tool for it.
    fn subagents(
        &self,
        request: &ChatRequest,
        headers: &TraceHeaders,
        turn: &TurnParts,
        (asking, pipeline): (&Asking, &Pipeline),
    ) -> Option<Arc<dyn StartsAgents>> {
        request.tools.get(TASK)?;
        let tasks = turn.context.tasks.as_ref()?;
        let fields = AGENTS_FIELDS.iter().filter_map(|name| {
            let value = request.fields.get(*name)?;
            Some(((*name).to_owned(), value.clone()))
        });
        let family = AgentFamily {
            services: Arc::clone(&self.agents),
            headers: headers.clone(),
            session: Arc::clone(&turn.context),
            records: Arc::new(SessionAgents {
                store: Arc::clone(&self.store),
                scope: turn.identity.scope,
                session: turn.identity.session.clone(),
                running: Arc::clone(&self.running),
            }),
            definitions: Arc::clone(&self.definitions),
            model: request.model.clone(),
            fields: fields.collect(),
            asking: asking.clone(),
            running: Arc::clone(&tasks.agents),
        };
        let agent = Arc::clone(&turn.agent);
        Some(Arc::new(AgentStarter::new(Arc::new(family), agent, Arc::new(pipeline.clone()))))
    }

    fn launch_agent(
        &self,
        request: ChatRequest,
        headers: TraceHeaders,
        turn: TurnParts,
        recorder: Arc<dyn Recorder>,
        mut pieces: Pieces,
        guard: Option<NameGuard>,
    ) -> StartedTurn {
        let asking = self.asking(&request);
        let pipeline = self.pipeline(&request, turn.permissions.clone(), turn.hooks.clone());
        let subagents = self.subagents(&request, &headers, &turn, (&asking, &pipeline));
        let TurnParts { identity, context, agent, prompt, .. } = turn;
        if let Some(prompt) = prompt.filter(|_| !request.tools.tools().is_empty()) {
            pieces.history = prompt::apply(self.prompt.mode, &prompt, pieces.history);
        }
        let model = request.model.clone();
        let start = self.turn_start(request, (asking, pipeline), pieces, &identity);
        let (decisions, decided) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let turn = Turn {
            start,
            upstream: Arc::clone(&self.upstream),
            headers,
            session: context,
            agent,
            subagents,
            reservation: self.memory_budget.reservation(),
            recorder,
            stop: stop.clone(),
            decisions: decided,
            shutdown: self.shutdown.clone(),
        };
        let (outbox, events) = outbox();
        let agent = turn::run(turn, outbox).map(move |()| drop(guard)).boxed();
        let decisions = Some(decisions);
        StartedTurn { identity, model, events, stop, decisions, agent }
    }

    fn sharing(
        &self,
        request: &ChatRequest,
        caller: &Caller,
        permit: RunPermit,
        slot: Option<SessionSlot>,
    ) -> Sharing {
        let grace = caller.disconnect_grace.unwrap_or(self.settings.disconnect_grace);
        let policy = if request.is_background {
            DisconnectPolicy::Stop
        } else {
            DisconnectPolicy::new(request.detach, grace)
        };
        // Without tools there is nothing that must not run twice: it simply runs anew.
        let may_be_joined = request.tools.names().next().is_some()
            || caller.fingerprint.is_named()
            || policy != DisconnectPolicy::Stop;
        Sharing {
            form: caller.form,
            policy,
            retention: if may_be_joined { Retention::All } else { Retention::Nothing },
            held: Held { permit: Some(permit), slot },
            revoked: caller.revoked.clone(),
            resume: None,
            audience: Audience::default(),
        }
    }

    /// The server's permissions, narrowed by the request's mode and moved to its workspace.
    pub(super) fn permissions_for(&self, request: &ChatRequest) -> Result<Permissions, ApiError> {
        let tightened = self.permissions.tightened(Some(request.base_mode));
        let tightened = tightened.and_then(|tightened| tightened.tightened(request.mode));
        let permissions = tightened.map_err(|error| {
            ApiError::new(ErrorCode::ModeNotAllowed, error.to_string()).param("toolhand.mode")
        })?;
        Ok(match &request.workspace {
            Some(workspace) => permissions.with_workspace(Arc::clone(workspace)),
            None => permissions,
        })
    }

    /// The files of the session, and of those whose turns it goes on from: answers in its
    /// transcript name them.
    fn readable_files(&self, resolved: &ResolvedSession) -> Arc<[Arc<SessionFiles>]> {
        let earlier = resolved.found.path.iter().rev().map(|turn| &turn.row.session);
        let mut sessions: Vec<&SessionId> = Vec::new();
        for session in std::iter::once(&resolved.session).chain(earlier) {
            if !sessions.contains(&session) {
                sessions.push(session);
            }
        }
        sessions.into_iter().map(|session| self.directories.files_of(session)).collect()
    }

    /// The session and its main agent as they were after the turn that the request goes on from.
    async fn context(
        &self,
        permissions: &Permissions,
        session: &SessionId,
        StateBefore { state, body, mode, tasks, parent, model, key }: StateBefore<'_>,
    ) -> Result<(Arc<SessionContext>, Arc<AgentContext>), ApiError> {
        let files = self.directories.files_of(session);
        let saved = state.as_ref().and_then(|state| state.plan.clone());
        let plan = self.restore_plan(&files, saved, (body, parent)).await?;
        let context = SessionContext::new(permissions.workspace_now().await?);
        let grants = Arc::new(Grants::load(body.grants.iter().copied()));
        let context = context.at_home(self.home.clone()).with_grants(grants);
        let context = context.named(session.to_string());
        let context = context.with_files(files).with_mode(mode).with_plan(plan);
        let context = context.with_preferences(body.preferences.clone()).with_model(model);
        let context = context.with_key(key);
        let readable = state.as_ref().map(|state| state.readable.clone()).unwrap_or_default();
        let readable = Arc::new(match readable.as_slice() {
            [] => ReadableRoots::default(),
            _ => RESOLVING.run(move || ReadableRoots::load(readable)).await?,
        });
        let context = context.with_tasks(tasks).with_readable(readable);
        let marks = Arc::clone(&self.watcher) as Arc<dyn Marks>;
        let encodings = Arc::clone(self.definitions.encodings());
        let Some(state) = state else {
            let agent = AgentContext::main(&context).watched_by(marks).reading_in(encodings);
            return Ok((Arc::new(context), Arc::new(agent)));
        };
        let planned_tasks = state.planned_tasks.unwrap_or_default();
        let context = Arc::new(context.with_planned_tasks(planned_tasks));
        let agent = AgentContext::main(&context).watched_by(marks).reading_in(encodings);
        let agent = agent.with_todos(state.todos.unwrap_or_default());
        // The directory may be gone, which only the disk tells.
        let restored = Arc::clone(&context);
        let restore = move || {
            let read_state = ReadState::load(&state.read_state);
            agent.restored(&restored, state.working_dir, read_state, state.known_tasks)
        };
        Ok((context, Arc::new(RESOLVING.run(restore).await?)))
    }
}

/// The progress that the session prefers, where the request names none.
fn preferred_progress(request: &ChatRequest, context: &SessionContext) -> Option<Progress> {
    let preferred = context.preferences.save().progress?;
    Progress::from_word(&preferred).filter(|_| !request.names_progress)
}

/// Whether the answer shows the person what commands have left. Where it does not, a later one may.
fn shows_finds(request: &ChatRequest, caller: &Caller, context: &SessionContext) -> bool {
    let preferred = preferred_progress(request, context);
    let is_shown = match preferred.unwrap_or(caller.form.progress) {
        Progress::Reasoning | Progress::Events => true,
        Progress::Cards | Progress::None => false,
    };
    caller.form.stream && is_shown
}

/// What background tasks have left that other programs obey, and nobody was told of.
async fn untold_finds(context: &SessionContext) -> Vec<String> {
    let Some(files) = context.files.clone() else { return Vec::new() };
    let taken = RESOLVING.run(move || files.take_untold_finds()).await;
    taken.unwrap_or_default()
}

/// Puts what the model is to be reminded of in front of the user's words, if there are any.
async fn remind(
    assembled: &mut Assembled,
    (permissions, tools): (&Permissions, &Toolset),
    (context, agent): (&SessionContext, &Arc<AgentContext>),
) {
    if preface::has_words(assembled)
        && let Some(reminder) =
            reminders::gather(Moment::TurnBegins, permissions, tools, (context, agent)).await
        && preface::put_in_front(assembled, reminder.text())
    {
        reminder.told(agent);
    }
}

/// The row of a turn that begins.
fn turn_row(identity: TurnIdentity, parent: Option<TurnId>, caller: &Caller) -> TurnRow {
    TurnRow {
        id: identity.id,
        session: identity.session,
        parent,
        status: TurnStatus::Running,
        started_ms: identity.started_ms,
        depth: 0,
        digests: None,
        request: Some(caller.fingerprint.request()),
        idempotency: caller.fingerprint.idempotency(),
        body: Vec::new(),
    }
}

/// What held before a turn.
struct StateBefore<'a> {
    /// After the turn that the request goes on from.
    state: Option<SessionState>,
    body: &'a SessionBody,
    mode: Arc<SessionMode>,
    tasks: Arc<SessionTasks>,
    /// That turn.
    parent: Option<&'a TurnId>,
    /// The one that the request names.
    model: String,
    key: KeyId,
}

/// Forgets the lines of files that the model was shown in rounds which are not sent to it again.
fn retain_shown(read_state: &ReadState, pieces: &[HistoryPiece]) {
    if !read_state.has_shown() {
        return;
    }
    let digests = pieces.iter().filter_map(|piece| match piece {
        HistoryPiece::Recorded(round) => Some(round.digest()),
        HistoryPiece::Client(_) => None,
    });
    let sent: HashSet<RoundDigest> = digests.collect();
    read_state.retain_shown(|round| sent.contains(&round));
}

/// Notes in the row of the turn that left a round open which turn takes it up.
fn taken_up(opener: matching::Turn, by: &TurnId) -> Change {
    let matching::Turn { mut row, mut body } = opener;
    body.resumed_by.push(by.clone());
    row.body = json(&body);
    Change::Turn(row)
}

/// Records what the client answered to its calls of the round that the turn takes up: the server
/// may be killed before the round is closed.
fn client_answers(beginning: &Beginning, turn: &TurnId) -> Option<Change> {
    let Beginning::Resume(resume) = beginning else { return None };
    let text = |answer: &Option<Box<RawValue>>| answer.as_ref().map(|json| json.get().to_owned());
    let answers: Vec<Option<String>> = resume.client_answers.iter().map(text).collect();
    if answers.iter().all(Option::is_none) {
        return None;
    }
    let body = json(&Entry::ClientAnswers { answers });
    Some(Change::Entry(EntryRow { turn: turn.clone(), body }))
}

/// What the session's row holds.
fn stored_body(resolved: &ResolvedSession) -> SessionBody {
    let stored = resolved.row.as_ref().and_then(|row| serde_json::from_slice(&row.body).ok());
    stored.unwrap_or_default()
}

/// The client's own name if it gave one.
fn session_name(request: &ChatRequest, resolved: &ResolvedSession) -> String {
    let named = request.named.as_ref().map(|named| named.text().to_owned());
    named.unwrap_or_else(|| resolved.session.to_string())
}

fn session_row(
    resolved: &ResolvedSession,
    turn: &TurnParts,
    request: &ChatRequest,
    caller: &Caller,
) -> SessionRow {
    let known = resolved.row.as_ref();
    SessionRow {
        id: turn.identity.session.clone(),
        scope: caller.scope,
        key: caller.key.clone(),
        name: known.map_or_else(|| resolved.name.clone(), |row| row.name.clone()),
        model: request.model.clone(),
        created_ms: known.map_or(turn.identity.started_ms, |row| row.created_ms),
        updated_ms: turn.identity.started_ms,
        prompt: turn.prompt.clone(),
        body: Vec::new(),
    }
}

/// Starts a turn that only asks again what the person's reply leaves out.
fn start_asking_again(
    turn: TurnParts,
    model: String,
    recorder: Arc<dyn Recorder>,
    asked: AskedAgain,
) -> StartedTurn {
    let identity = turn.identity;
    let (outbox, events) = outbox();
    let ids = (identity.session_name.clone(), identity.id.clone());
    let agent = Box::pin(ask_again::run(recorder, outbox, asked, ids));
    let (stop, decisions) = (CancellationToken::new(), None);
    StartedTurn { identity, model, events, stop, decisions, agent }
}
