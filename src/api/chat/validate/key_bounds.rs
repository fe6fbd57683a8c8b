//! Narrows what a request is validated against to what its client key may do.

use std::sync::Arc;

use super::{Context, invalid, quoted};
use crate::errors::ApiError;
use crate::http::client_key::ClientKey;
use crate::permissions::Mode;
use crate::workspace::Workspace;

/// What the key of a request adds to the server's settings. The default adds nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyBounds {
    /// The mode of a request that names none, if it is stricter than the server's.
    pub(super) mode: Option<Mode>,
    workspace: Option<(String, Arc<Workspace>)>,
}

impl KeyBounds {
    pub(super) fn default_workspace(&self) -> Option<Arc<Workspace>> {
        self.workspace.as_ref().map(|(_, workspace)| Arc::clone(workspace))
    }

    /// Refuses another workspace than the key's.
    pub(super) fn allow_workspace(&self, name: &str, at: &str) -> Result<(), ApiError> {
        match &self.workspace {
            Some((own, _)) if own != name => {
                let message = format!(
                    "This API key works in the workspace {}, and in no other.",
                    quoted(own)
                );
                Err(invalid(at, message))
            }
            _ => Ok(()),
        }
    }
}

/// The rules for the requests of `key`.
pub(super) fn bounded(rules: Arc<Context>, key: &ClientKey) -> Result<Arc<Context>, ApiError> {
    let ClientKey { mode: None, workspace: None, client_tools: None, .. } = key else {
        return narrowed(&rules, key).map(Arc::new);
    };
    Ok(rules)
}

fn narrowed(rules: &Context, key: &ClientKey) -> Result<Context, ApiError> {
    let mut rules = rules.clone();
    if let Some(mode) = key.mode.filter(|mode| *mode < rules.mode) {
        rules.mode = mode;
        rules.key.mode = Some(mode);
    }
    if let Some(name) = &key.workspace {
        // Nothing may run in another workspace because the configuration has changed.
        let workspace = rules.workspaces.get(name).cloned().ok_or_else(|| {
            let message = format!(
                "This API key works in the workspace {}, which this server does not have now.",
                quoted(name)
            );
            invalid("toolhand.workspace", message)
        })?;
        rules.key.workspace = Some((name.clone(), workspace));
    }
    if let Some(client_tools) = &key.client_tools {
        rules.tools.client_tools = client_tools.clone();
    }
    Ok(rules)
}
