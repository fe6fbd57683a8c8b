//! Keeps what a person has let the model set for a session.

use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::sync;

/// The settings of a session beside those of the configuration.
#[derive(Debug, Default)]
pub(crate) struct SessionPreferences(Mutex<SavedPreferences>);

/// The form in which the session keeps them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SavedPreferences {
    /// How its streams tell of tools, where a request does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) progress: Option<String>,
    /// The model of subagents that name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subagent_model: Option<String>,
}

impl SessionPreferences {
    pub(crate) fn load(saved: SavedPreferences) -> Self {
        Self(Mutex::new(saved))
    }

    pub(crate) fn save(&self) -> SavedPreferences {
        sync::lock(&self.0).clone()
    }

    pub(crate) fn set_progress(&self, progress: String) {
        sync::lock(&self.0).progress = Some(progress);
    }

    pub(crate) fn set_subagent_model(&self, model: String) {
        sync::lock(&self.0).subagent_model = Some(model);
    }
}
