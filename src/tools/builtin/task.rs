//! Gives a task to a subagent.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::input_schema::PropertyAliases;
use crate::permissions::{AccessKind, AccessRequest, Permit};
use crate::text::{first_chars, shown_line};
use crate::tools::agent_types::GENERAL_PURPOSE;
use crate::tools::subagent::{AgentTask, TASK};
use crate::tools::tool::{CallContext, Concurrency, Tool, ToolError, ToolOutput};

/// The most characters of an agent's answer.
const MAX_RESULT_CHARS: usize = 100_000;

/// Tells the model that an agent which was to go to the background did not.
const IN_FOREGROUND: &str = "(nothing goes to the background here, so the agent ran to its end)";

/// The most characters of a description, which stands in each approval of the agent.
const MAX_DESCRIPTION: usize = 200;

#[derive(Debug)]
pub(crate) struct Task {
    /// Whether anything goes to the background.
    has_tasks: bool,
}

impl Task {
    pub(crate) fn new(has_tasks: bool) -> Self {
        Self { has_tasks }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct TaskInput {
    /// What the agent does, in three to five words, for people.
    description: String,
    /// The whole task. The agent sees nothing else of this conversation, so name paths, facts and
    /// what its answer should hold.
    prompt: String,
    /// One of the built-in agent types, or one that the system prompt lists; general-purpose if
    /// left out.
    #[serde(default)]
    subagent_type: Option<String>,
    /// Another model for the agent: sonnet, opus, haiku, or a name that the operator configured.
    #[serde(default)]
    model: Option<String>,
    /// Answer at once with the agent's id, and let it work on. You are told when it ends.
    #[serde(default)]
    run_in_background: bool,
    /// The id of an agent that has ended: it goes on with what it knows and this prompt.
    #[serde(default)]
    resume: Option<String>,
    /// The most model requests of this run. At the limit the agent's text so far is the answer.
    #[serde(default)]
    #[schemars(range(min = 1))]
    max_turns: Option<u32>,
}

/// The description as people are shown it.
fn described(written: &str) -> String {
    first_chars(&shown_line(written), MAX_DESCRIPTION).to_owned()
}

impl Tool for Task {
    type Input = TaskInput;

    const NAME: &'static str = TASK;
    const ALIASES: &'static [&'static str] = &["Agent", "spawn_agent"];
    const ACCESS: AccessKind = AccessKind::Named;
    const DESCRIPTION: &'static str = "Gives a task to an agent that works by itself with tools of \
        its own, and answers with its last message. Use it for searches and work whose details you \
        need not see. Several calls in one message run side by side. Built-in agent types: \
        general-purpose (several steps, may change files), Explore (searches files), Plan (designs \
        a change) and Bash (runs commands).";
    const ADVICE: Option<&'static str> = Some(
        "What an agent answers to Task is for you: the user does not see it, so tell them what \
         matters.",
    );
    // Accepted from models that know them, and dropped.
    const PROPERTY_ALIASES: PropertyAliases = &[
        ("mode", "_mode"),
        ("allowed_tools", "_allowed_tools"),
        ("team_name", "_team_name"),
        ("name", "_name"),
    ];
    const MAX_RESULT_CHARS: Option<usize> = Some(MAX_RESULT_CHARS);

    fn withheld(&self) -> &'static [&'static str] {
        if self.has_tasks { &[] } else { &["run_in_background"] }
    }

    fn concurrency(&self, _: &TaskInput) -> Concurrency {
        Concurrency::Shared
    }

    fn access_request(&self, input: &TaskInput, _: &CallContext) -> AccessRequest {
        let agent_type = input.agent_type().unwrap_or(GENERAL_PURPOSE);
        AccessRequest::Named(agent_type.to_owned())
    }

    fn headline(&self, input: &TaskInput) -> String {
        match input.agent_type() {
            Some(agent_type) => format!("{agent_type}: {}", described(&input.description)),
            None => described(&input.description),
        }
    }

    async fn execute(
        &self,
        input: TaskInput,
        _: Permit,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let Some(subagents) = &context.subagents else {
            return Err(ToolError::failed("no agent can be started here"));
        };
        if input.prompt.trim().is_empty() {
            return Err(ToolError::InvalidInput("prompt is empty; say what to do".to_owned()));
        }
        // What an agent starts is over with it, and nobody would hear of the end of a task.
        let in_background = input.run_in_background && self.has_tasks && context.agent.is_main();
        let task = AgentTask {
            agent_type: input.agent_type().map(str::to_owned),
            description: described(&input.description),
            prompt: input.prompt,
            model: input.model.filter(|name| !name.is_empty()),
            max_rounds: input.max_turns,
            resume: input.resume.filter(|id| !id.is_empty()),
            in_background,
        };
        let mut output = subagents.run(task).await?;
        if input.run_in_background && !in_background {
            output.text.close(IN_FOREGROUND);
        }
        Ok(output)
    }
}

impl TaskInput {
    fn agent_type(&self) -> Option<&str> {
        self.subagent_type.as_deref().filter(|name| !name.is_empty())
    }
}
