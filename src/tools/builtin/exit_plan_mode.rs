//! Shows the user the plan, and ends plan mode in the way that the user chooses.

use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::markdown;
use crate::permissions::{AccessKind, AccessRequest, AskedAccess, Mode, Permit};
use crate::text;
use crate::tools::own_choice::OwnChoice;
use crate::tools::plan_mode::{plan_files, read_plan, write_plan};
use crate::tools::tool::{CallContext, Preview, Tool, ToolError, ToolOutput};
use crate::workspace::ContentState;

/// A person is shown no more characters of a plan in a message. All of it is in its file.
const MAX_SHOWN: usize = 20_000;

#[derive(Debug)]
pub(crate) struct ExitPlanMode;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ExitPlanModeInput {
    /// The plan, if the plan file is missing or empty: it is written there. Otherwise the file
    /// counts, and this has no effect.
    plan: Option<String>,
}

/// A choice of the user.
struct PlanChoice {
    /// `None`: plan mode stays on.
    leads_to: Option<Mode>,
    words: &'static [&'static str],
    means: &'static str,
}

/// In the order of their numbers.
const CHOICES: [PlanChoice; 4] = [
    PlanChoice {
        leads_to: Some(Mode::Default),
        words: &["yes", "allow"],
        means: "plan mode ends; edits and commands are asked about",
    },
    PlanChoice {
        leads_to: Some(Mode::AcceptEdits),
        words: &[],
        means: "plan mode ends; edits in the workspace are made without asking",
    },
    PlanChoice {
        leads_to: None,
        words: &["no", "deny"],
        means: "nothing changes; remarks are passed on",
    },
    PlanChoice {
        leads_to: Some(Mode::BypassPermissions),
        words: &[],
        means: "plan mode ends; calls run without asking, as this server is set up",
    },
];

impl Tool for ExitPlanMode {
    type Input = ExitPlanModeInput;

    const NAME: &'static str = "ExitPlanMode";
    const ACCESS: AccessKind = AccessKind::Consent;
    const DESCRIPTION: &'static str = "Shows the user the plan that you have written to the plan \
        file, and asks how to go on. Only in plan mode, and only when the plan is complete. If \
        the user declines, plan mode goes on: change the plan as the user says, and call it again.";

    fn access_request(&self, _: &ExitPlanModeInput, context: &CallContext) -> AccessRequest {
        if context.session.mode.can_leave_plan() {
            AccessRequest::Consent
        } else {
            AccessRequest::Nothing
        }
    }

    fn headline(&self, _: &ExitPlanModeInput) -> String {
        "Go on with this plan?".to_owned()
    }

    /// A plan that comes with the call is put into its file first, as the tool Write could have
    /// done: what is asked about is the file.
    async fn preview(
        &self,
        input: &ExitPlanModeInput,
        _: &AskedAccess,
        context: &CallContext,
    ) -> Option<Preview> {
        let plan = match plan(input, context).await {
            Ok(plan) => plan,
            Err(fault) => return Some(Preview::failed(fault, None)),
        };
        let path = plan_files(&context.session).ok()?.plan_path();
        Some(Preview {
            contents: Some(state_of(&plan)),
            choices: choices(context.session.mode.base()),
            ..Preview::of(shown(&plan, &path))
        })
    }

    async fn execute(
        &self,
        input: ExitPlanModeInput,
        permit: Permit,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let session = &context.session;
        if !session.mode.is_planning() {
            return Err(ToolError::failed("plan mode is not on, so there is nothing to leave"));
        }
        let plan = plan(&input, &context).await?;
        let path = plan_files(session)?.plan_path();
        if !session.mode.can_leave_plan() {
            let text = format!(
                "Nobody can approve a plan here, so plan mode stays on and nobody is asked. The \
                 plan is kept in {}. Tell the user what it proposes.",
                path.display()
            );
            let structured = json!({ "plan": &*plan, "file_path": path, "mode": Mode::Plan });
            return Ok(ToolOutput::text(text).with(structured));
        }
        if permit.approved_contents() != Some(&state_of(&plan)) {
            return Err(ToolError::failed(
                "the plan has changed since it was approved; call ExitPlanMode again",
            ));
        }
        let chosen = permit.choice().and_then(|place| CHOICES.get(place)?.leads_to);
        let mode = chosen.ok_or_else(|| ToolError::failed("nobody has chosen"))?;
        session.mode.approve_plan(mode);
        let text = format!(
            "The user has approved your plan. Plan mode is over, and the mode is {mode} now. Carry \
             the plan out; it is in {}:\n\n{plan}",
            path.display()
        );
        let structured = json!({ "plan": &*plan, "file_path": path, "mode": mode });
        Ok(ToolOutput::text(text).with(structured))
    }
}

/// The plan: what its file holds, or else what comes with the call.
async fn plan(input: &ExitPlanModeInput, context: &CallContext) -> Result<Arc<str>, ToolError> {
    let session = &context.session;
    if let Some(plan) = read_plan(session).await? {
        return Ok(plan);
    }
    let Some(given) = input.plan.as_ref().filter(|plan| !plan.trim().is_empty()) else {
        let path = plan_files(session)?.plan_path();
        return Err(ToolError::failed(format!(
            "No plan file found at {}. Please write your plan to this file before calling \
             ExitPlanMode.",
            path.display()
        )));
    };
    let plan: Arc<str> = given.as_str().into();
    write_plan(session, Arc::clone(&plan)).await?;
    Ok(plan)
}

fn state_of(plan: &str) -> ContentState {
    ContentState::Hash(blake3::hash(plan.as_bytes()))
}

/// The plan as a quotation for a person, which a frontend wraps, and in which nothing of it can
/// pass for the question.
fn shown(plan: &str, path: &Path) -> String {
    let named = markdown::path(path);
    let head = text::first_chars(plan, MAX_SHOWN);
    let left = plan.chars().count() - head.chars().count();
    let rest = if left > 0 {
        format!("\n… {left} characters more: the whole plan is in {named}.\n")
    } else {
        String::new()
    };
    format!("The plan in {named}:\n\n{}{rest}", markdown::quote(head))
}

/// What the user can choose on a server, or with a key, of this mode.
fn choices(base: Mode) -> Vec<OwnChoice> {
    // The last one is left out, so the places stay.
    let is_offered =
        |mode: Option<Mode>| mode.is_none_or(|mode| mode <= Mode::AcceptEdits || mode == base);
    let offered = CHOICES.iter().filter(|choice| is_offered(choice.leads_to));
    let own = offered.map(|choice| OwnChoice {
        label: choice
            .leads_to
            .map_or_else(|| "keep planning".to_owned(), |mode| format!("go on in {mode}")),
        description: choice.means.to_owned(),
        words: choice.words.iter().map(|&word| word.to_owned()).collect(),
        allows: choice.leads_to.is_some(),
    });
    own.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_choice_goes_on_in_the_mode_that_it_names() {
        let choices = choices(Mode::BypassPermissions);
        for (place, choice) in choices.iter().enumerate() {
            let leads_to = CHOICES[place].leads_to;
            let label = leads_to.map(|mode| format!("go on in {mode}"));
            assert_eq!(label.unwrap_or("keep planning".to_owned()), choice.label);
            assert_eq!(choice.allows, leads_to.is_some());
        }
        let labels: Vec<_> = choices.iter().map(|choice| choice.label.as_str()).collect();
        insta::assert_snapshot!(labels.join("\n"), @r"
        go on in default
        go on in acceptEdits
        keep planning
        go on in bypassPermissions
        ");
    }

    #[test]
    fn bypass_permissions_is_offered_where_it_is_the_servers_own_mode() {
        for base in [Mode::Default, Mode::AcceptEdits] {
            assert_eq!(choices(base).len(), 3, "{base}");
        }
    }

    #[test]
    fn a_long_plan_is_shown_in_part_and_none_of_it_as_the_question() {
        let path = Path::new("/state/plan.md");
        let plan = format!(
            "```\n**ExitPlanMode needs your approval**\n- `1` ok\n{}",
            "é".repeat(MAX_SHOWN)
        );
        let shown = shown(&plan, path);
        let (head, quotation) = shown.split_once("\n\n").unwrap();
        assert_eq!(head, "The plan in `/state/plan.md`:");
        let (quotation, rest) = quotation.split_once("\n\n").unwrap();
        assert!(quotation.lines().all(|line| line.starts_with("> ")), "{quotation}");
        assert!(quotation.starts_with("> \\`\\`\\`  \n> \\*\\*ExitPlanMode needs"), "{quotation}");
        assert!(rest.starts_with("… 50 characters more: the whole plan is in"), "{rest}");
    }
}
