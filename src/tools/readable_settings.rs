//! Defines the settings that the model may read with the tool Config, and those that it may ask to
//! change.

use std::collections::BTreeMap;

/// Where the session itself has the value.
pub(crate) const MODEL: &str = "model";
pub(crate) const PROGRESS: &str = "progress";
pub(crate) const WORKSPACE: &str = "workspace";
pub(crate) const MODE: &str = "permissions.mode";
pub(crate) const SUBAGENT_MODEL: &str = "subagents.model";

const OF_SESSION: [&str; 5] = [MODEL, PROGRESS, WORKSPACE, MODE, SUBAGENT_MODEL];

/// What a session may set `progress` to.
const PROGRESSES: [&str; 3] = ["reasoning", "events", "none"];

/// The settings of the configuration that may be read. No other is: keys, headers and addresses
/// are the operator's.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadableSettings {
    /// What the configuration says, by name.
    pub(crate) values: BTreeMap<String, String>,
    /// What `subagents.model` may be set to.
    pub(crate) subagent_models: Vec<String>,
}

impl ReadableSettings {
    /// All names, in order.
    pub(crate) fn names(&self) -> Vec<&str> {
        let configured = self.values.keys().map(String::as_str);
        let mut names: Vec<&str> = OF_SESSION.into_iter().chain(configured).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        OF_SESSION.contains(&name) || self.values.contains_key(name)
    }

    /// The values that a session may give to a setting; `None`: the operator sets it.
    pub(crate) fn settable(name: &str, subagent_models: &[String]) -> Option<Vec<String>> {
        match name {
            PROGRESS => Some(PROGRESSES.map(str::to_owned).to_vec()),
            SUBAGENT_MODEL => Some(subagent_models.to_vec()),
            _ => None,
        }
    }
}
