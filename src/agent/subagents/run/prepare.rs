//! Finds what a run of a subagent starts with: its type, tools, model and transcript.

use std::sync::Arc;

use super::Run;
use crate::agent::agent_event::RunCounts;
use crate::agent::beginning::{Beginning, Decided, Resume};
use crate::agent::delegation::Resumption;
use crate::agent::prompt::today;
use crate::agent::record::OpenRound;
use crate::agent::subagents::AgentStarter;
use crate::agent::subagents::prompt;
use crate::agent::subagents::records::{AgentRecord, AgentTranscript, KeptAgent, RunStatus, Whose};
use crate::blocking::RESOLVING;
use crate::definitions::DefinitionSet;
use crate::execution::pipeline::Pipeline;
use crate::files::ReadState;
use crate::ids::AgentId;
use crate::permissions::{AccessKind, AccessRequest, Judgement, Mode};
use crate::text::quoted_name;
use crate::tools::agent_context::{AgentContext, SubagentIdentity};
use crate::tools::agent_types::{self, AgentPlace, AgentType, GENERAL_PURPOSE};
use crate::tools::output::ToolError;
use crate::tools::subagent::{AgentTask, TASK};
use crate::tools::tasks::SavedTasks;
use crate::tools::toolset::Toolset;

impl AgentStarter {
    /// A new agent.
    pub(super) async fn begin(&self, task: &AgentTask) -> Result<Run, ToolError> {
        let name = task.agent_type.as_deref().unwrap_or(GENERAL_PURPOSE);
        let set = self.definitions().await?;
        let agent_type = &type_named(name, &set)?;
        self.expect_startable(agent_type)?;
        let place = self.place(task.in_background);
        let tools = self.tools_of(agent_type, place)?;
        let model = self.model_for(task.model.as_deref(), agent_type)?;
        let id = AgentId::random();
        let context = Arc::new(self.agent.subagent(identity(&id, agent_type)));
        let working_dir = context.working_dir();
        let record = AgentRecord {
            agent_type: agent_type.clone(),
            description: task.description.clone(),
            model,
            prompt: prompt::render(agent_type, &working_dir, &today(), &tools, &set),
            tools: tools.names().map(str::to_owned).collect(),
            in_background: task.in_background,
            working_dir: Some(working_dir),
            read_state: context.read_state.save(),
            todos: None,
            waits_for: Vec::new(),
            status: RunStatus::Running,
            counts: RunCounts::default(),
        };
        let mut transcript = AgentTranscript::new(Vec::new());
        let prompt = transcript.prompt(&task.prompt);
        Ok(Run {
            pipeline: self.pipeline_for(&record, tools),
            max_rounds: self.max_rounds(&record, task),
            id,
            record,
            context,
            pieces: transcript.pieces,
            prompt: Some(prompt),
            beginning: Beginning::Ask,
        })
    }

    /// An agent of this session that has ended, with a further prompt.
    pub(super) async fn resume_with_prompt(
        &self,
        id: &str,
        task: &AgentTask,
    ) -> Result<Run, ToolError> {
        let unknown = || {
            let id = quoted_name(id);
            ToolError::Failed(format!(
                "no agent of this session is called {id}; start one without `resume`"
            ))
        };
        let id = AgentId::parse(id).ok_or_else(unknown)?;
        let kept = self.family.records.load(&id, Whose::Session).await;
        let kept = kept.map_err(|error| ToolError::Failed(error.message))?.ok_or_else(unknown)?;
        let KeptAgent { mut record, entries } = kept;
        self.expect_type(&record.agent_type, task).await?;
        self.expect_startable(&record.agent_type)?;
        if let Some(model) = &task.model {
            record.model = self.model_for(Some(model), &record.agent_type)?;
        }
        record.in_background = task.in_background;
        record.description.clone_from(&task.description);
        record.counts = RunCounts::default();
        let mut transcript = AgentTranscript::new(entries);
        let waits_for = std::mem::take(&mut record.waits_for);
        let is_asked = transcript.open.is_some() && {
            let asked = self.family.records.can_be_decided(waits_for).await;
            asked.map_err(|error| ToolError::Failed(error.message))?
        };
        if is_asked {
            return Err(ToolError::Failed(format!(
                "agent {id} waits for a person's decision about a call of its own and continues \
                 after that; start a new agent if you need one now"
            )));
        }
        let prompt = transcript.prompt(&task.prompt);
        let mut run = self.restored(id, record, task).await?;
        run.pieces = transcript.pieces;
        run.prompt = Some(prompt);
        Ok(run)
    }

    /// An agent with an open round, about whose calls a person has decided.
    pub(super) async fn continue_after_decision(
        &self,
        resumption: Resumption,
        task: &AgentTask,
    ) -> Result<Run, ToolError> {
        let Resumption { agent: id, decisions } = resumption;
        let gone = || {
            ToolError::failed(
                "what the agent was about to do is not kept any more; start a new agent",
            )
        };
        let kept = self.family.records.load(&id, Whose::Client).await;
        let kept = kept.map_err(|error| ToolError::Failed(error.message))?.ok_or_else(gone)?;
        let KeptAgent { record, entries } = kept;
        let transcript = AgentTranscript::new(entries);
        let open: OpenRound = transcript.open.ok_or_else(gone)?;
        let decided = decisions.into_iter().filter_map(|(approval, decision)| {
            let asked = open.asked.iter().find(|asked| asked.id == approval)?;
            Some(Decided { approval, slot: asked.slot, decision })
        });
        let decisions = decided.collect();
        let mut run = self.restored(id, record, task).await?;
        run.pieces = transcript.pieces;
        run.beginning = Beginning::Resume(Box::new(Resume {
            open,
            client_answers: Vec::new(),
            decisions,
            then: Vec::new(),
        }));
        Ok(run)
    }

    /// A known agent as it was after its last run.
    async fn restored(
        &self,
        id: AgentId,
        record: AgentRecord,
        task: &AgentTask,
    ) -> Result<Run, ToolError> {
        let place = self.place(record.in_background);
        let tools = self.tools_of(&record.agent_type, place)?.only(&record.tools);
        let context = self.agent.subagent(identity(&id, &record.agent_type));
        let session = Arc::clone(&self.family.session);
        let context = context.with_todos(record.todos.clone().unwrap_or_default());
        let (working_dir, saved) = (record.working_dir.clone(), record.read_state.clone());
        // The directory may be gone, which only the disk tells.
        let restore = move || {
            let read_state = ReadState::load(&saved);
            context.restored(&session, working_dir, read_state, SavedTasks::default())
        };
        let context: AgentContext = RESOLVING.run(restore).await.map_err(ToolError::failed)?;
        Ok(Run {
            pipeline: self.pipeline_for(&record, tools),
            max_rounds: self.max_rounds(&record, task),
            id,
            record,
            context: Arc::new(context),
            pieces: Vec::new(),
            prompt: None,
            beginning: Beginning::Ask,
        })
    }

    /// What files define now.
    async fn definitions(&self) -> Result<Arc<DefinitionSet>, ToolError> {
        let definitions = Arc::clone(&self.family.definitions);
        let workspace = Arc::clone(&self.family.session.workspace);
        RESOLVING.run(move || definitions.current(&workspace)).await.map_err(ToolError::failed)
    }

    /// While the session plans, only agents that change nothing start.
    fn expect_startable(&self, agent_type: &AgentType) -> Result<(), ToolError> {
        if self.pipeline.permissions.mode() == Mode::Plan && !agent_type.only_reads {
            let name = &agent_type.name;
            return Err(ToolError::Denied(format!(
                "in plan mode only Explore and Plan can be started, and not {name}; use one of \
                 them, or finish the plan first"
            )));
        }
        Ok(())
    }

    /// The call was judged by the type that it names. An agent that goes on may be of another.
    async fn expect_type(&self, agent_type: &AgentType, task: &AgentTask) -> Result<(), ToolError> {
        let name = &agent_type.name;
        match &task.agent_type {
            Some(named) if named == name => return Ok(()),
            None if name == GENERAL_PURPOSE => return Ok(()),
            Some(_) => {
                return Err(ToolError::Failed(format!(
                    "this agent is of the type {name} and stays so; leave out subagent_type"
                )));
            }
            None => {}
        }
        let request = AccessRequest::Named(name.clone());
        let grants = &self.family.session.grants;
        let permissions = &self.pipeline.permissions;
        match permissions.judge(TASK, AccessKind::Named, request, grants).await? {
            Judgement::Permitted(_) => Ok(()),
            Judgement::Asks(_) => Err(ToolError::Failed(format!(
                "this agent is of the type {name}, which needs an approval; call again with \
                 subagent_type {name}"
            ))),
        }
    }

    fn place(&self, in_background: bool) -> AgentPlace {
        AgentPlace { in_background, may_delegate: self.may_delegate() }
    }

    fn tools_of(&self, agent_type: &AgentType, place: AgentPlace) -> Result<Toolset, ToolError> {
        let tools = agent_type.tools_of(&self.pipeline.tools, place);
        if tools.tools().is_empty() {
            return Err(ToolError::Failed(format!(
                "no tool is left for an agent of the type {} here, so it was not started",
                agent_type.name
            )));
        }
        Ok(tools)
    }

    /// The upstream model: what the call names, else the type, else `subagents.model`, which a
    /// person may have changed for the session.
    fn model_for(&self, named: Option<&str>, agent_type: &AgentType) -> Result<String, ToolError> {
        let settings = &self.family.services.settings;
        let chosen = self.family.session.preferences.save().subagent_model;
        let usual = chosen.as_deref().unwrap_or(&settings.model);
        let name = named.or(agent_type.model.as_deref()).unwrap_or(usual);
        let model = settings.model_named(name).map_err(ToolError::Failed)?;
        Ok(model.unwrap_or_else(|| self.model.clone()))
    }

    /// How its calls are judged and run: as its parent's, but for its tools and what its type
    /// takes away.
    fn pipeline_for(&self, record: &AgentRecord, tools: Toolset) -> Arc<Pipeline> {
        let permissions = self.pipeline.permissions.for_agent(
            &record.agent_type.name,
            record.agent_type.only_reads,
            record.agent_type.mode,
        );
        let agent_type = Some(record.agent_type.name.as_str().into());
        Arc::new(Pipeline { tools, permissions, agent_type, ..Pipeline::clone(&self.pipeline) })
    }

    fn max_rounds(&self, record: &AgentRecord, task: &AgentTask) -> u32 {
        let limits = [task.max_rounds, record.agent_type.max_rounds].into_iter().flatten();
        let most = limits.fold(self.family.services.settings.max_rounds, u32::min);
        // What a person was asked in between is of the same run.
        most.saturating_sub(record.counts.rounds).max(1)
    }
}

fn type_named(name: &str, set: &DefinitionSet) -> Result<AgentType, ToolError> {
    let types = agent_types::all(set);
    let names: Vec<&str> = types.iter().map(|known| known.name.as_str()).collect();
    if let Some(place) = names.iter().position(|known| *known == name) {
        return Ok(types[place].clone());
    }
    let (name, names) = (quoted_name(name), names.join(", "));
    Err(ToolError::Failed(format!("there is no agent type {name}; use one of: {names}")))
}

fn identity(id: &AgentId, agent_type: &AgentType) -> SubagentIdentity {
    SubagentIdentity { id: id.clone(), agent_type: agent_type.name.clone() }
}
