//! Reads the settings of `[subagents]`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

/// Names of models that mean themselves, unless the operator says otherwise.
const MODELS: [&str; 3] = ["sonnet", "opus", "haiku"];

/// Deeper than this nobody follows what agents do.
const MAX_DEPTH: u32 = 3;

/// `[subagents]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SubagentSettings {
    /// The upstream model that a name means. No other model can be asked for.
    pub(crate) models: BTreeMap<String, String>,
    /// A name of `models` for agents that name none, or `inherit`.
    pub(crate) model: String,
    /// How many run at once in a session. Further ones wait.
    pub(crate) max_running: usize,
    /// 1: subagents start none of their own.
    pub(crate) max_depth: u32,
    /// Upstream requests of one run.
    pub(crate) max_rounds: u32,
    #[serde(with = "crate::units::duration")]
    pub(crate) max_duration: Duration,
}

/// The word for the model of the conversation.
pub(crate) const INHERIT: &str = "inherit";

impl Default for SubagentSettings {
    fn default() -> Self {
        Self {
            models: BTreeMap::new(),
            model: INHERIT.to_owned(),
            max_running: 4,
            max_depth: 1,
            max_rounds: 50,
            max_duration: Duration::from_secs(30 * 60),
        }
    }
}

impl SubagentSettings {
    /// The upstream model that a name means. `Ok(None)`: that of the conversation. The error says
    /// which names there are.
    pub(crate) fn model_named(&self, name: &str) -> Result<Option<String>, String> {
        if name == INHERIT {
            return Ok(None);
        }
        if let Some(model) = self.models.get(name) {
            return Ok(Some(model.clone()));
        }
        if MODELS.contains(&name) {
            return Ok(Some(name.to_owned()));
        }
        Err(format!(
            "there is no model {name:?} for agents; use one of: {}",
            self.names().join(", ")
        ))
    }

    /// What the model of an agent can be called.
    pub(crate) fn names(&self) -> Vec<&str> {
        let configured = self.models.keys().map(String::as_str);
        let shipped = MODELS.into_iter().filter(|name| !self.models.contains_key(*name));
        [INHERIT].into_iter().chain(shipped).chain(configured).collect()
    }

    /// The key that cannot be followed, and why.
    pub(crate) fn fault(&self) -> Option<(&'static str, String)> {
        if let Err(reason) = self.model_named(&self.model) {
            return Some(("subagents.model", reason));
        }
        if self.max_running == 0 {
            return Some(("subagents.max_running", "must be at least 1".to_owned()));
        }
        if self.max_rounds == 0 {
            return Some(("subagents.max_rounds", "must be at least 1".to_owned()));
        }
        if self.max_duration.is_zero() {
            return Some(("subagents.max_duration", "must be longer than 0s".to_owned()));
        }
        if !(1..=MAX_DEPTH).contains(&self.max_depth) {
            return Some(("subagents.max_depth", format!("must be from 1 to {MAX_DEPTH}")));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_one_of_the_names_that_are_configured() {
        let settings: SubagentSettings =
            toml::from_str("[models]\nopus = \"anthropic/big\"\nfast = \"small\"").unwrap();
        assert_eq!(settings.model_named("opus"), Ok(Some("anthropic/big".to_owned())));
        assert_eq!(settings.model_named("fast"), Ok(Some("small".to_owned())));
        assert_eq!(settings.model_named("haiku"), Ok(Some("haiku".to_owned())));
        assert_eq!(settings.model_named("inherit"), Ok(None));
        insta::assert_snapshot!(
            settings.model_named("anthropic/big").unwrap_err(),
            @r#"there is no model "anthropic/big" for agents; use one of: inherit, sonnet, haiku, fast, opus"#
        );
    }

    #[test]
    fn what_cannot_be_followed_is_named() {
        let fault = |text: &str| {
            let settings: SubagentSettings = toml::from_str(text).unwrap();
            settings.fault().map(|(key, _)| key)
        };
        assert_eq!(fault(""), None);
        assert_eq!(fault("model = \"gpt\""), Some("subagents.model"));
        assert_eq!(fault("max_running = 0"), Some("subagents.max_running"));
        assert_eq!(fault("max_rounds = 0"), Some("subagents.max_rounds"));
        assert_eq!(fault("max_duration = \"0s\""), Some("subagents.max_duration"));
        assert_eq!(fault("max_depth = 4"), Some("subagents.max_depth"));
    }
}
