//! Judges a call: by hooks, by permissions, and by what a person decided about it.

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Value, json};

use super::hooked::Candidate;
use super::permitted::with_similar;
use super::{AdmittedCall, Judged, PermittedCall, Pipeline, ToolCall};
use crate::execution::ask::{
    About, Ask, Decision, EffectDigest, GrantScope, MAX_LINE, Question, ShownEffect, ShownRisk,
    nobody_answers,
};
use crate::markdown;
use crate::permissions::{AskedAccess, CommandSummary, Judgement, Permit};
use crate::text::one_line;
use crate::tools::question::NO_ANSWER;
use crate::tools::tool::{CallContext, Preview, ToolError, ToolOutput};

/// A person's consent.
#[derive(Clone, Copy)]
struct Approval<'a> {
    /// Of the effect that the person was shown.
    digest: &'a EffectDigest,
    scope: GrantScope,
    updated_input: Option<&'a Value>,
    /// The place of the choice, where the call offers its own.
    choice: Option<usize>,
}

/// What the permissions say of a candidate, before a person's decision counts.
enum Weighed {
    Permit(Permit),
    Asks(Box<WeighedAsk>),
}

struct WeighedAsk {
    asked: Box<AskedAccess>,
    preview: Preview,
    digest: EffectDigest,
}

impl Pipeline {
    pub(super) async fn try_judge(
        &self,
        call: AdmittedCall,
        context: &CallContext,
        decision: Option<&Decision>,
    ) -> Result<Judged, ToolError> {
        if decision.is_some_and(Decision::is_a_persons) {
            self.permissions.answer_finds(&call.call.id).await;
        }
        let (approval, answers) = match decision {
            None => (None, None),
            Some(Decision::Deny { feedback }) => {
                return Err(ToolError::Declined(feedback.clone()));
            }
            Some(Decision::Expired) => return Err(ToolError::Expired),
            Some(Decision::Answers { answers }) => (None, Some(answers)),
            Some(Decision::Allow { digest, scope, updated_input, .. }) => (
                Some(Approval {
                    digest,
                    scope: *scope,
                    updated_input: updated_input.as_ref(),
                    choice: None,
                }),
                None,
            ),
            Some(Decision::Choose { digest, place }) => {
                let (scope, choice) = (GrantScope::Once, Some(*place));
                (Some(Approval { digest, scope, updated_input: None, choice }), None)
            }
        };
        let candidate = self.hook(call, context).await?;
        let questions = candidate.parsed.questions().transpose()?;
        let weighed = self.weigh(&candidate, context).await?;
        if let Some(questions) = questions {
            // The access was judged as well, so that a deny rule holds.
            return self.judge_questions(&candidate, questions, answers);
        }
        let (ask, approval) = match (weighed, approval) {
            (Weighed::Permit(permit), None) => {
                return Ok(Judged::Permitted(self.permitted(candidate, permit, context)));
            }
            (Weighed::Permit(permit), Some(approval)) => {
                if let Some(input) = approval.updated_input {
                    return self.judge_updated(candidate, input, approval.scope, context).await;
                }
                let (tool, arguments) = (candidate.tool.name(), &candidate.arguments);
                let permit = permit.approved_as(tool, arguments, approval.digest);
                return Ok(Judged::Permitted(self.permitted(candidate, permit, context)));
            }
            (Weighed::Asks(ask), None) => return self.request(candidate, *ask, context).await,
            (Weighed::Asks(ask), Some(approval)) => (*ask, approval),
        };
        if *approval.digest != ask.digest {
            return self.ask(&candidate, ask, true).await;
        }
        match approval.updated_input {
            None => self.approve(candidate, ask, (approval.scope, approval.choice), context),
            Some(input) => self.judge_updated(candidate, input, approval.scope, context).await,
        }
    }

    /// Judges the input that the person gave instead of the model's. What it makes is
    /// approved; what a rule denies stays denied, and so does what leads out of the workspace:
    /// nobody was shown where.
    async fn judge_updated(
        &self,
        candidate: Candidate,
        input: &Value,
        scope: GrantScope,
        context: &CallContext,
    ) -> Result<Judged, ToolError> {
        let Candidate { id, tool, parsed, hooked, .. } = candidate;
        let updated = Arc::clone(&tool).parse(input.clone())?;
        if updated.concurrency() != parsed.concurrency() {
            return Err(ToolError::failed("the changed input makes another kind of call of this"));
        }
        let call = ToolCall { id, name: tool.name().to_owned(), input: input.clone() };
        let hooked = Arc::new(hooked.with_other_input());
        // The hooks have seen another input. What they deny, nobody can approve.
        let updated = AdmittedCall { call, tool, parsed: updated, hooked };
        let candidate = self.hook(updated, context).await?;
        match self.weigh(&candidate, context).await? {
            Weighed::Permit(permit) => {
                Ok(Judged::Permitted(self.permitted(candidate, permit, context)))
            }
            Weighed::Asks(ask) if ask.asked.is_outside() => {
                let why = ask.asked.why().unwrap_or("it leads out of the workspace");
                Err(ToolError::Denied(format!("the changed input is not approved: {why}")))
            }
            Weighed::Asks(ask) => self.approve(candidate, *ask, (scope, None), context),
        }
    }

    /// Permits what a person approved: the effect of this very judgement.
    fn approve(
        &self,
        candidate: Candidate,
        ask: WeighedAsk,
        (scope, choice): (GrantScope, Option<usize>),
        context: &CallContext,
    ) -> Result<Judged, ToolError> {
        let WeighedAsk { asked, preview, digest } = ask;
        if let Some(fault) = preview.fault {
            return Err(fault);
        }
        let is_offered = match choice {
            None => preview.choices.is_empty(),
            Some(place) => preview.choices.get(place).is_some_and(|choice| choice.allows),
        };
        if !is_offered {
            return Err(ToolError::failed("what was chosen is not on offer any more"));
        }
        let grant = asked.grant().filter(|_| scope == GrantScope::Session);
        match asked.approve(&digest, &candidate.arguments, preview.contents) {
            Ok(permit) => {
                if let Some(grant) = grant {
                    context.session.grants.add(grant);
                }
                let permit = permit.by_choice(choice);
                Ok(Judged::Permitted(self.permitted(candidate, permit, context)))
            }
            Err(_) => Err(ToolError::failed("this call is not what was approved")),
        }
    }

    fn permitted(
        &self,
        candidate: Candidate,
        permit: Permit,
        context: &CallContext,
    ) -> PermittedCall {
        let after = self.after(&candidate, context);
        let Candidate { id, tool, parsed, .. } = candidate;
        let limit = self.answer_limit(tool.as_ref());
        let permissions = self.permissions.clone();
        PermittedCall { id, tool, parsed, permit, permissions, limit, after }
    }

    /// Lets the hooks answer in a person's place, and else asks the person. An allow of theirs
    /// is worth an allow rule; what asks in spite of it asks the person, as it was.
    async fn request(
        &self,
        candidate: Candidate,
        ask: WeighedAsk,
        context: &CallContext,
    ) -> Result<Judged, ToolError> {
        let outcome = match ask.preview.fault {
            None => self.requested(&candidate, context).await,
            // Nobody is asked about it.
            Some(_) => None,
        };
        if let Some(outcome) = outcome {
            let revised = self.follow(candidate.again()?, outcome, context).await?;
            if let Weighed::Permit(permit) = self.weigh(&revised, context).await? {
                return Ok(Judged::Permitted(self.permitted(revised, permit, context)));
            }
        }
        self.notify(&candidate, context).await;
        self.ask(&candidate, ask, false).await
    }

    /// Asks the permissions, and where they ask, computes the exact effect.
    async fn weigh(
        &self,
        candidate: &Candidate,
        context: &CallContext,
    ) -> Result<Weighed, ToolError> {
        let Candidate { tool, parsed, arguments, opinion, .. } = candidate;
        let access_request = parsed.access_request(context);
        let grants = &context.session.grants;
        let permissions = self.permissions.with_hooks(opinion.clone());
        let judgement = permissions.judge(tool.name(), tool.access(), access_request, grants);
        let asked = match judgement.await? {
            Judgement::Permitted(permit) => return Ok(Weighed::Permit(permit)),
            Judgement::Asks(asked) => asked,
        };
        let preview = parsed.preview(&asked, context).await;
        let preview = preview.unwrap_or_else(|| Preview::of(shown_call(&asked, arguments)));
        let digest = asked.effect(arguments, preview.contents.as_ref());
        Ok(Weighed::Asks(Box::new(WeighedAsk { asked, preview, digest })))
    }

    /// Puts the effect to a person, unless the call would fail anyway. `is_stale`: the person
    /// has approved another effect of this call.
    async fn ask(
        &self,
        candidate: &Candidate,
        ask: WeighedAsk,
        is_stale: bool,
    ) -> Result<Judged, ToolError> {
        let WeighedAsk { asked, preview, digest } = ask;
        let mut markdown = preview.shown;
        if let Some(fault) = preview.fault {
            // Who approved an edit hears that it is void. Only contents that are known can be
            // approved again.
            if !is_stale || preview.contents.is_none() {
                let target = asked.target();
                let sought = target.map(|target| (target.path().to_owned(), target.is_missing()));
                let access = candidate.tool.access();
                return Err(with_similar(&self.permissions, fault, access, sought).await);
            }
            let fault = markdown::line(&fault.to_string());
            markdown = format!(
                "{}As things are, it would fail: {fault}\n",
                arguments_of(&candidate.arguments)
            );
        }
        if is_stale {
            markdown =
                format!("What it would touch has changed since you were asked.\n\n{markdown}");
        }
        if let Some(described) = &preview.described {
            markdown.push_str(&models_words(described));
        }
        if asked.shows_finds() {
            self.permissions.show_finds(&candidate.id).await;
        }
        let headline = candidate.parsed.headline();
        let line = asked.effect_line(&candidate.arguments);
        let line = shown_line(&asked, line.as_ref().unwrap_or(&headline));
        let headline = if preview.described.is_some() { line.clone() } else { headline };
        Ok(Judged::Asked(Box::new(Ask {
            tool: candidate.tool.name().to_owned(),
            headline,
            about: About::Effect(ShownEffect {
                markdown,
                line,
                digest,
                grant: asked.grant(),
                grant_covers: asked.grant_covers(),
                why: asked.why().map(str::to_owned),
                remedy: asked.remedy().to_owned(),
                risks: asked.risks().iter().map(ShownRisk::from).collect(),
                sandbox: asked.sandbox_effects().to_vec(),
                rule_grant: asked.rule_grant().cloned().map(Box::new),
                subcommand_grant: asked.subcommand_grant().cloned().map(Box::new),
                described: preview.described,
                choices: preview.choices,
            }),
        })))
    }

    /// Puts questions to a person, or answers the call with what the person said. An approval
    /// answers no question.
    fn judge_questions(
        &self,
        candidate: &Candidate,
        questions: Vec<Question>,
        answers: Option<&IndexMap<String, String>>,
    ) -> Result<Judged, ToolError> {
        let tool = candidate.tool.name();
        if let Some(answers) = answers {
            return Ok(Judged::Answered(Ok(answer_to(&questions, answers)).into()));
        }
        if self.permissions.asks_nobody() {
            return Err(nobody_answers(tool, "the mode dontAsk asks nobody"));
        }
        Ok(Judged::Asked(Box::new(Ask {
            tool: tool.to_owned(),
            headline: candidate.parsed.headline(),
            about: About::Questions { questions },
        })))
    }
}

/// What the call would do, on one line. Of a command that does not fit, the programs stand in
/// front: its end is cut off.
fn shown_line(asked: &AskedAccess, line: &str) -> String {
    let fits = markdown::plain(line).chars().count() <= MAX_LINE;
    let programs = match asked.command_summary() {
        Some(CommandSummary::Commands(commands)) if !fits => commands,
        Some(CommandSummary::Doubtful(_)) if !fits => {
            return markdown::plain_within(
                &format!("its programs are not known: {line}"),
                MAX_LINE,
            );
        }
        _ => return markdown::plain_within(line, MAX_LINE),
    };
    let names: Vec<&str> = programs.iter().map(|command| command.program.as_str()).collect();
    let plural = if names.len() == 1 { "" } else { "s" };
    let summary = format!("{} command{plural} ({}): {line}", names.len(), names.join(", "));
    markdown::plain_within(&summary, MAX_LINE)
}

/// The most characters of what the model says that a call does.
const MAX_DESCRIPTION: usize = 200;

/// What the model says that the call does, behind what it really does.
fn models_words(described: &str) -> String {
    let words = markdown::code_within(&one_line(described), MAX_DESCRIPTION);
    format!("\nIn the model's words: {words}\n")
}

/// A call that has no preview of its own: what it was found to lead to, and its arguments.
fn shown_call(asked: &AskedAccess, arguments: &Value) -> String {
    let leads_to = match (asked.target(), asked.page()) {
        (Some(target), _) => format!("{}\n\n", markdown::path(target.real_path())),
        (None, Some(page)) => format!("{}\n\n", markdown::code(page.url().as_str())),
        (None, None) => String::new(),
    };
    format!("{leads_to}{}", arguments_of(arguments))
}

/// The arguments of a call.
fn arguments_of(arguments: &Value) -> String {
    markdown::fence("json", &format!("{arguments:#}"))
}

/// The answer to the model's questions. A question that was left out says so.
fn answer_to(questions: &[Question], answers: &IndexMap<String, String>) -> ToolOutput {
    let answers: serde_json::Map<String, Value> = questions
        .iter()
        .map(|question| {
            let answer = answers.get(&question.question).map_or(NO_ANSWER, String::as_str);
            (question.question.clone(), answer.into())
        })
        .collect();
    let answer = json!({ "answers": answers });
    ToolOutput::text(answer.to_string()).with(answer)
}
