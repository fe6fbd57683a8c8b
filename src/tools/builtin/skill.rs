//! Gives the model a written procedure: the text of a skill or command, with the arguments in it.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::blocking::FILES;
use crate::definitions::{DefinitionSet, Definitions};
use crate::permissions::{AccessKind, AccessRequest, Permit};
use crate::text::quoted_name;
use crate::tools::tool::{CallContext, Tool, ToolError, ToolOutput};

/// Names that an error lists.
const MAX_LISTED: usize = 50;

#[derive(Debug)]
pub(crate) struct Skill {
    definitions: Arc<Definitions>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct SkillInput {
    /// The name, as it is listed.
    skill: String,
    /// What the text is to be applied to, if it says that it takes arguments.
    args: Option<String>,
}

impl Skill {
    pub(crate) fn new(definitions: Arc<Definitions>) -> Self {
        Self { definitions }
    }
}

impl Tool for Skill {
    type Input = SkillInput;

    const NAME: &'static str = "Skill";
    const ACCESS: AccessKind = AccessKind::Named;
    const DESCRIPTION: &'static str = "Gives you the text of a skill: instructions for one kind \
        of task. Use one of those that are listed when the task is what its description says, \
        before you begin with it, and then follow the text.";

    fn access_request(&self, input: &SkillInput, _: &CallContext) -> AccessRequest {
        AccessRequest::Named(plain_name(&input.skill).to_owned())
    }

    fn headline(&self, input: &SkillInput) -> String {
        input.skill.clone()
    }

    async fn execute(
        &self,
        input: SkillInput,
        permit: Permit,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        follow(&self.definitions, permit, input.args.unwrap_or_default(), context).await
    }
}

/// The name without the slash with which people type it.
pub(super) fn plain_name(written: &str) -> &str {
    let written = written.trim();
    written.strip_prefix('/').unwrap_or(written)
}

/// The text of the permitted skill.
pub(super) async fn follow(
    definitions: &Arc<Definitions>,
    permit: Permit,
    arguments: String,
    context: CallContext,
) -> Result<ToolOutput, ToolError> {
    let name = permit.into_name().ok_or_else(|| ToolError::failed("no skill was permitted"))?;
    let definitions = Arc::clone(definitions);
    let open = move || {
        let workspace = &context.session.workspace;
        let set = definitions.current(workspace);
        let listed = set.skill(&name).filter(|skill| skill.is_for_model);
        let skill = listed.ok_or_else(|| unknown(&name, &set))?;
        let opened = definitions.open_skill(skill, workspace).map_err(ToolError::Failed)?;
        let told = opened.told(&arguments);
        let directory = opened.directory.as_ref().map(|root| root.path().to_owned());
        let structured = json!({ "skill": name, "base_directory": directory });
        if let Some(root) = opened.directory {
            context.session.readable.add(root);
        }
        Ok(ToolOutput::text(told).with(structured))
    };
    FILES.run(open).await.map_err(ToolError::failed)?
}

fn unknown(name: &str, set: &DefinitionSet) -> ToolError {
    let name = quoted_name(name);
    let listed = set.skills.iter().filter(|skill| skill.is_for_model);
    let mut names: Vec<&str> = listed.map(|skill| skill.name.as_str()).collect();
    if names.is_empty() {
        return ToolError::Failed(format!("no skill is called {name}: there are none here"));
    }
    let more = names.len().saturating_sub(MAX_LISTED);
    names.truncate(MAX_LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    ToolError::Failed(format!("no skill is called {name}; there are {}{more}", names.join(", ")))
}
