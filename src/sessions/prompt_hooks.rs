//! Asks the hooks about a new session and about a prompt, before anything goes upstream.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::Sessions;
use super::assemble::Assembled;
use super::preface;
use super::record::SessionState;
use super::resolve::ResolvedSession;
use crate::agent::beginning::{Beginning, HistoryPiece};
use crate::errors::{ApiError, ErrorCode};
use crate::execution::ask::Decision;
use crate::hooks::{HookDecision, HookEvent, HookOutcome, HookScene, Hooks};
use crate::openai::message::text_of;
use crate::permissions::Permissions;
use crate::reminder::Reminder;
use crate::workspace::Workspace;

/// What a request brings, for the hooks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Submitted<'a> {
    pub(super) resolved: &'a ResolvedSession,
    pub(super) state: Option<&'a SessionState>,
    pub(super) assembled: &'a Assembled,
    /// Those of the request.
    pub(super) permissions: &'a Permissions,
    /// With the additional directories of settings files.
    pub(super) workspace: &'a Workspace,
}

/// What the hooks said before a turn.
#[derive(Clone, Debug, Default)]
pub(super) struct Prompted {
    /// For the model, in front of the user's words.
    context: Option<String>,
    /// For the person.
    pub(super) notices: Vec<String>,
    /// Those that were asked. The turn asks the same ones.
    pub(super) hooks: Hooks,
}

impl Sessions {
    /// Asks the hooks about what the request brings. An error: they block it.
    pub(super) async fn ask_prompt_hooks(
        &self,
        submitted: Submitted<'_>,
    ) -> Result<Prompted, ApiError> {
        let hooks = self.hooks.in_workspace(submitted.permissions.workspace()).await;
        let mut prompted = Prompted { hooks: hooks.clone(), ..Prompted::default() };
        if submitted.resolved.row.is_none() {
            let source = if submitted.resolved.origin.is_some() { "resume" } else { "startup" };
            let told = (HookEvent::SessionStart, source, json!({ "source": source }));
            prompted.heed(run_hooks(&hooks, told, submitted).await);
        }
        // A prompt may be large: it is copied only where a hook wants it.
        if !hooks.fires(HookEvent::UserPromptSubmit, &[""]) {
            return Ok(prompted);
        }
        let Some(prompt) = prompt_of(submitted.assembled) else { return Ok(prompted) };
        let told = (HookEvent::UserPromptSubmit, "", json!({ "prompt": prompt }));
        let outcome = run_hooks(&hooks, told, submitted).await;
        let blocked = match (&outcome.decision, &outcome.ends_turn) {
            (HookDecision::Deny(reason), _) | (_, Some(reason)) => Some(reason),
            _ => None,
        };
        if let Some(reason) = blocked {
            let message = format!("a hook of this server blocks this prompt: {reason}");
            tracing::info!("a hook blocked a prompt");
            return Err(ApiError::new(ErrorCode::PromptBlocked, message));
        }
        prompted.heed(outcome);
        Ok(prompted)
    }
}

async fn run_hooks(
    hooks: &Hooks,
    (event, kind, members): (HookEvent, &str, Value),
    Submitted { resolved, state, permissions, workspace, .. }: Submitted<'_>,
) -> HookOutcome {
    if !hooks.fires(event, &[kind]) {
        return HookOutcome::default();
    }
    let known = state.and_then(|state| state.working_dir.as_deref());
    let session = resolved.session.to_string();
    let scene = HookScene {
        session: Some(&session),
        workspace,
        working_dir: known.unwrap_or(workspace.root()),
        mode: &permissions.mode().to_string(),
        // Dropping the request ends the hooks.
        cancelled: &CancellationToken::new(),
    };
    let members = match members {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    hooks.run(event, &[kind], scene, members).await
}

impl Prompted {
    fn heed(&mut self, outcome: HookOutcome) {
        self.notices.extend(outcome.notices);
        self.context = match (self.context.take(), outcome.context) {
            (Some(first), Some(second)) => Some(format!("{first}\n{second}")),
            (first, second) => first.or(second),
        };
    }

    /// Puts the context in front of the user's words.
    pub(super) fn apply_to(&self, assembled: &mut Assembled) {
        if let Some(context) = &self.context {
            let said = format!("A hook of this server, not the user, says:\n{context}");
            preface::put_in_front(assembled, &Reminder::new(said).to_string());
        }
    }
}

/// What the user says in the request, if it is new words and not a choice.
fn prompt_of(assembled: &Assembled) -> Option<String> {
    let texts: Vec<String> = match &assembled.beginning {
        Beginning::Continue { .. } => return None,
        Beginning::Ask => {
            let mut sent = assembled.user_messages.iter().rev();
            let last = sent.find(|own| !own.sent.is_empty())?;
            vec![text_of(serde_json::from_str::<&RawValue>(&last.sent).ok()?).into_owned()]
        }
        Beginning::Resume(resume) => {
            let feedback = resume.decisions.iter().filter_map(|decided| match &decided.decision {
                Decision::Deny { feedback } => feedback.clone(),
                _ => None,
            });
            let then = resume.then.iter().filter_map(|piece| match piece {
                HistoryPiece::Client(message) => Some(text_of(message).into_owned()),
                HistoryPiece::Recorded(_) => None,
            });
            let mut texts: Vec<String> = feedback.chain(then).collect();
            texts.dedup();
            texts
        }
    };
    (!texts.is_empty()).then(|| texts.join("\n"))
}
