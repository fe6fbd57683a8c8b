//! Lists what a person is asked, and takes decisions.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::{Page, Rest, not_found, seconds};
use crate::agent::asking::choice::{choices, offered_rules, options};
use crate::agent::asking::decision::read_decision;
use crate::agent::beginning::Decided;
use crate::agent::record::Asked;
use crate::blocking::FILES;
use crate::errors::{ApiError, ErrorCode};
use crate::execution::ask::{About, Decision, Question, ShownEffect, ShownRisk};
use crate::ids::{AgentId, ApprovalId, Scope, SessionId, TurnId};
use crate::permissions::{GrantHolder, KeepError, KeptGrants, SandboxEffect};
use crate::sessions::decisions::{asked, decide, rules_to_keep};
use crate::sessions::kept_rules::not_kept;
use crate::sessions::open_approvals::{approvals_of, is_open, open_approvals};
use crate::store::rows::ApprovalRow;
use crate::store::{ApprovalKey, StoreError, TurnKey};
use crate::tools::question::QuestionOption;

/// An approval in a list.
#[derive(Debug, Serialize)]
pub(crate) struct ApprovalItem {
    id: ApprovalId,
    code: String,
    session: SessionId,
    #[serde(flatten)]
    asked_by: AskedBy,
    tool: String,
    /// What the call would do, as Markdown; null for questions.
    effect: Option<String>,
    /// What speaks against it, the gravest first.
    risks: Vec<ShownRisk>,
    /// What the sandbox does to it, the gravest first.
    sandbox: Vec<SandboxEffect>,
    /// The rules that the scope `rule` keeps. Empty: none can allow this.
    suggestions: Vec<String>,
    /// The wider rules that the choice `rule` keeps, and the scope `rule` if they are named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rules: Vec<String>,
    choices: Vec<String>,
    /// The choices with what they mean, where the call offers its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    options: Vec<QuestionOption>,
    #[serde(skip_serializing_if = "Option::is_none")]
    questions: Option<Vec<Question>>,
    created: i64,
    expires: i64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Closed {
    id: ApprovalId,
    object: &'static str,
    session: SessionId,
    #[serde(flatten)]
    asked_by: AskedBy,
    decided: bool,
}

/// Who waits for the decision: one of the two.
#[derive(Debug, Serialize)]
struct AskedBy {
    turn: Option<TurnId>,
    /// A subagent in the background.
    agent: Option<AgentId>,
}

impl Rest {
    /// What can be decided now.
    pub(crate) async fn approvals(&self, scope: Scope) -> Result<Page<ApprovalItem>, ApiError> {
        let open = open_approvals(&*self.store, &self.running, scope).await?;
        let item = |row: ApprovalRow| Some(item(&row, asked(&row)?, self.asked_by(&row)));
        let readable = open.into_iter().filter_map(item);
        Ok(Page::new(readable.collect(), false))
    }

    /// Records a decision, keeps its rules, and sends it to the turn if that still waits. `body`
    /// is the request's.
    pub(crate) async fn decide(
        &self,
        holder: GrantHolder,
        id: &str,
        body: &Value,
    ) -> Result<Closed, ApiError> {
        let scope = holder.scope;
        let id = ApprovalId::parse(id).unwrap_or_else(ApprovalId::random);
        let rows = self.store.approvals(scope, ApprovalKey::Id(id)).await?;
        let found = rows.into_iter().next().and_then(|row| Some((asked(&row)?, row)));
        let (asked, row) = found.ok_or_else(|| not_found("approval"))?;
        if !is_open(&*self.store, &self.running, &row).await? {
            return Err(closed());
        }
        let asked_by = self.asked_by(&row);
        let decision = read_decision(&asked, body)?;
        self.check_updated_input(&asked.ask.tool, &decision)?;
        let kept = rules_to_keep(&asked, &decision).map(|grant| (holder, grant));
        if let Some((holder, grant)) = kept.clone() {
            // The person can still decide otherwise.
            self.with_kept_grants(move |kept| kept.check(&holder, &grant)).await?;
        }
        match self.store.commit(vec![decide(row.id.clone(), &decision)]).await {
            Ok(()) => {}
            Err(StoreError::Conflict) => return Err(closed()),
            Err(error) => return Err(error.into()),
        }
        let kept = match kept {
            Some((holder, grant)) => {
                self.with_kept_grants(move |kept| kept.keep(&holder, &grant)).await
            }
            None => Ok(()),
        };
        let decided = Decided { approval: row.id.clone(), slot: asked.slot, decision };
        self.running.decide(&row, decided);
        // The call is allowed all the same, this once.
        kept?;
        let ApprovalRow { id, session, .. } = row;
        Ok(Closed { id, object: "approval", session, asked_by, decided: true })
    }

    fn asked_by(&self, row: &ApprovalRow) -> AskedBy {
        if self.running.background_agents.have_asked(row) {
            AskedBy { turn: None, agent: Some(AgentId::of_row(&row.turn)) }
        } else {
            AskedBy { turn: Some(row.turn.clone()), agent: None }
        }
    }
}

impl Rest {
    async fn with_kept_grants(
        &self,
        change: impl FnOnce(&KeptGrants) -> Result<(), KeepError> + Send + 'static,
    ) -> Result<(), ApiError> {
        let kept = Arc::clone(&self.kept_grants);
        let done = FILES.run(move || change(&kept)).await?;
        done.map_err(|error| not_kept(&error).param("scope"))
    }

    /// Refuses an input that the tool cannot read, while the person can still correct it. A tool
    /// that is gone is told of when the call is judged.
    fn check_updated_input(&self, tool: &str, decision: &Decision) -> Result<(), ApiError> {
        let Decision::Allow { updated_input: Some(input), .. } = decision else { return Ok(()) };
        let tools = self.tools.tools();
        let Some(tool) = tools.get(tool) else { return Ok(()) };
        let read = Arc::clone(tool).parse(input.clone());
        read.map(drop).map_err(|fault| {
            let message = format!("`updated_input` does not fit the tool: {fault}.");
            ApiError::new(ErrorCode::InvalidValue, message).param("updated_input")
        })
    }

    /// Denies what a turn has asked and nobody has decided. Returns whether there was anything.
    pub(super) async fn close_approvals(
        &self,
        scope: Scope,
        turn: TurnId,
    ) -> Result<bool, StoreError> {
        let mut closed = false;
        let record = self.running.records().newest(scope, TurnKey::Id(turn.clone())).await?;
        let open = record.as_ref().and_then(|record| record.open());
        for row in approvals_of(&*self.store, scope, &turn, open).await? {
            if row.decision.is_some() {
                continue;
            }
            let denied = decide(row.id, &Decision::Deny { feedback: None });
            match self.store.commit(vec![denied]).await {
                Ok(()) => closed = true,
                // Somebody was quicker.
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(closed)
    }
}

fn item(row: &ApprovalRow, asked: Asked, asked_by: AskedBy) -> ApprovalItem {
    let choices = choices(&asked.ask).into_iter().map(str::to_owned).collect();
    let options = options(&asked.ask);
    let rules = offered_rules(&asked.ask).to_vec();
    let questions = asked.unanswered().to_vec();
    let (effect, questions, risks, sandbox, suggestions) = match asked.ask.about {
        About::Effect(ShownEffect {
            markdown,
            risks,
            sandbox,
            rule_grant,
            subcommand_grant,
            ..
        }) => {
            let narrowest = rule_grant.or(subcommand_grant);
            let suggestions = narrowest.map(|grant| grant.rules).unwrap_or_default();
            (Some(markdown), None, risks, sandbox, suggestions)
        }
        About::Questions { .. } => (None, Some(questions), Vec::new(), Vec::new(), Vec::new()),
    };
    ApprovalItem {
        id: row.id.clone(),
        code: asked.code,
        session: row.session.clone(),
        asked_by,
        tool: asked.ask.tool,
        effect,
        risks,
        sandbox,
        suggestions,
        rules,
        choices,
        options,
        questions,
        created: seconds(row.created_ms),
        expires: seconds(row.expires_ms),
    }
}

fn closed() -> ApiError {
    let message = "This approval is closed: it was decided before, or has expired. What was \
                   decided first stands.";
    ApiError::new(ErrorCode::ApprovalClosed, message)
}
