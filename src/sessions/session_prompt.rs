//! Finds the prompt of a session, or renders that of one that begins.

use std::sync::Arc;

use super::Sessions;
use super::request::ChatRequest;
use super::resolve::ResolvedSession;
use crate::agent::prompt::{self, Environment, OddInstructions, PromptMode, WorkspaceWords};
use crate::errors::ApiError;
use crate::permissions::{Permissions, UnaskedFiles};
use crate::tools::agent_types;

impl Sessions {
    /// The prompt that the session began with, or the one that its transcript has. It stays the
    /// same, whatever the files say by now.
    pub(super) async fn prompt_of(
        &self,
        resolved: &ResolvedSession,
        request: &ChatRequest,
        permissions: &Permissions,
    ) -> Result<Option<Arc<str>>, ApiError> {
        let stored = resolved.row.as_ref().or(resolved.origin.as_ref());
        match stored.and_then(|row| row.prompt.clone()) {
            Some(prompt) => Ok(Some(prompt)),
            None => self.render_prompt(request, permissions).await,
        }
    }

    /// The prompt of a new session, if there are tools to speak of.
    async fn render_prompt(
        &self,
        request: &ChatRequest,
        permissions: &Permissions,
    ) -> Result<Option<Arc<str>>, ApiError> {
        if request.tools.tools().is_empty() || self.prompt.mode == PromptMode::None {
            return Ok(None);
        }
        let (definitions, home) = (Arc::clone(&self.definitions), self.home.clone());
        let read = move |files: &UnaskedFiles| {
            let set = definitions.current(files.workspace());
            let words = WorkspaceWords::read(files, definitions.encodings(), &home, set.is_trusted);
            for OddInstructions { path, reason, is_left_out } in &words.odd {
                definitions.log_instructions(path, reason, *is_left_out);
            }
            (set, words)
        };
        let (set, files) = permissions.read_unasked(read).await?;
        let agents = agent_types::all(&set);
        let environment = Environment {
            working_dir: permissions.workspace().root(),
            date: &prompt::today(),
            tools: &request.tools,
            mode: permissions.mode(),
            agents: &agents,
            skills: &set.skills,
            files: &files,
        };
        Ok(Some(prompt::render(environment).into()))
    }
}
