//! Reads settings of the server, and changes some for the session if a person agrees.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::markdown;
use crate::permissions::{AccessKind, AccessRequest, AskedAccess, Permit};
use crate::tools::readable_settings::{
    MODE, MODEL, PROGRESS, ReadableSettings, SUBAGENT_MODEL, WORKSPACE,
};
use crate::tools::session_context::SessionContext;
use crate::tools::tool::{CallContext, Preview, Tool, ToolError, ToolOutput};

#[derive(Debug)]
pub(crate) struct Config {
    settings: Arc<ReadableSettings>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ConfigInput {
    /// The name of the setting, such as `progress` or `turns.max_rounds`.
    setting: String,
    /// The new value; without it the setting is read.
    value: Option<String>,
}

impl Config {
    pub(crate) fn new(settings: Arc<ReadableSettings>) -> Self {
        Self { settings }
    }

    /// The value that counts now. Every name that is not listed has the same error, so that it
    /// tells nothing of other settings.
    fn value(&self, setting: &str, session: &SessionContext) -> Result<String, ToolError> {
        let preferences = session.preferences.save();
        let configured = || self.settings.values.get(setting).cloned().unwrap_or_default();
        Ok(match setting {
            MODEL => session.model.clone(),
            WORKSPACE => session.workspace.root().display().to_string(),
            MODE => session.mode.current().to_string(),
            PROGRESS => preferences.progress.unwrap_or_else(configured),
            SUBAGENT_MODEL => preferences.subagent_model.unwrap_or_else(configured),
            _ if self.settings.has(setting) => configured(),
            _ => {
                let names = self.settings.names().join(", ");
                return Err(ToolError::Failed(format!(
                    "this setting cannot be read; those that can are {names}"
                )));
            }
        })
    }

    /// Whether the setting can get this value for the session.
    fn check(&self, setting: &str, value: &str) -> Result<(), ToolError> {
        let settable = ReadableSettings::settable(setting, &self.settings.subagent_models);
        let Some(values) = settable else {
            return Err(ToolError::Failed(format!(
                "the operator sets {setting}; for this session only {PROGRESS} and \
                 {SUBAGENT_MODEL} can be changed"
            )));
        };
        if values.iter().any(|known| known == value) {
            return Ok(());
        }
        let values = values.join(", ");
        Err(ToolError::InvalidInput(format!("`value` of {setting} must be one of {values}")))
    }
}

impl Tool for Config {
    type Input = ConfigInput;

    const NAME: &'static str = "Config";
    const ACCESS: AccessKind = AccessKind::Consent;
    const DESCRIPTION: &'static str = "Reads a setting of the server. With `value` it changes one \
        for this conversation, which the user is asked about: `progress` (reasoning, events or \
        none) or `subagents.model`.";

    fn access_request(&self, input: &ConfigInput, context: &CallContext) -> AccessRequest {
        let value = input.value.as_deref();
        let is_known = self.value(&input.setting, &context.session).is_ok();
        let changes = value.is_some_and(|value| self.check(&input.setting, value).is_ok());
        if is_known && changes { AccessRequest::Consent } else { AccessRequest::Nothing }
    }

    fn headline(&self, input: &ConfigInput) -> String {
        match &input.value {
            Some(value) => format!("{} = {value}", input.setting),
            None => input.setting.clone(),
        }
    }

    async fn preview(
        &self,
        input: &ConfigInput,
        _: &AskedAccess,
        context: &CallContext,
    ) -> Option<Preview> {
        let before = self.value(&input.setting, &context.session).ok()?;
        let code = |text: &str| markdown::code(text);
        let (setting, value) = (code(&input.setting), code(input.value.as_deref()?));
        let before = code(&before);
        let shown = format!("Sets {setting} to {value} for this session. It is {before} now.\n");
        Some(Preview::of(shown))
    }

    async fn execute(
        &self,
        input: ConfigInput,
        _: Permit,
        context: CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let ConfigInput { setting, value } = input;
        let session = &context.session;
        let before = self.value(&setting, session)?;
        let Some(value) = value else {
            let structured = json!({ "setting": setting, "value": before });
            return Ok(ToolOutput::text(format!("{setting} = {before}")).with(structured));
        };
        self.check(&setting, &value)?;
        if setting == PROGRESS {
            session.preferences.set_progress(value.clone());
        } else {
            session.preferences.set_subagent_model(value.clone());
        }
        // The answer that is being streamed keeps its form.
        let since = if setting == PROGRESS { ", from the next request on" } else { "" };
        let text = format!("{setting} is {value} for this session{since}; it was {before}");
        let structured = json!({ "setting": setting, "value": value, "previous": before });
        Ok(ToolOutput::text(text).with(structured))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::tool::test_support::Workspace;

    fn config() -> Config {
        let values = [("turns.max_rounds", "100"), ("subagents.model", "inherit")];
        let values = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let subagent_models = vec!["inherit".to_owned(), "fast".to_owned()];
        Config::new(Arc::new(ReadableSettings { values: values.into(), subagent_models }))
    }

    async fn call(workspace: &Workspace, setting: &str, value: Option<&str>) -> String {
        workspace.call(config(), json!({ "setting": setting, "value": value })).await
    }

    #[tokio::test]
    async fn listed_settings_are_read_and_every_other_name_has_the_same_error() {
        let workspace = Workspace::new(&[]);
        assert_eq!(call(&workspace, "turns.max_rounds", None).await, "turns.max_rounds = 100");
        assert_eq!(call(&workspace, "workspace", None).await, "workspace = $WORKSPACE");
        assert_eq!(call(&workspace, "permissions.mode", None).await, "permissions.mode = default");
        let unknown = call(&workspace, "nonsense", None).await;
        insta::assert_snapshot!(unknown, @"Error: this setting cannot be read; those that can are model, permissions.mode, progress, subagents.model, turns.max_rounds, workspace");
        for other in ["upstream.api_key_file", "upstream.url", "", "Turns.max_rounds"] {
            assert_eq!(call(&workspace, other, None).await, unknown, "{other}");
            assert_eq!(call(&workspace, other, Some("x")).await, unknown, "{other}");
        }
    }

    #[tokio::test]
    async fn two_settings_can_be_changed_for_the_session() {
        let workspace = Workspace::new(&[]);
        let set = call(&workspace, "subagents.model", Some("fast")).await;
        assert_eq!(set, "subagents.model is fast for this session; it was inherit");
        assert_eq!(call(&workspace, "subagents.model", None).await, "subagents.model = fast");
        let set = call(&workspace, "progress", Some("events")).await;
        let expected = "progress is events for this session, from the next request on; it was ";
        assert!(set.starts_with(expected), "{set}");
        assert_eq!(call(&workspace, "progress", None).await, "progress = events");
        let cards = call(&workspace, "progress", Some("cards")).await;
        assert!(cards.starts_with("Error: invalid input"), "{cards}");
        let other = call(&workspace, "subagents.model", Some("gpt")).await;
        assert!(other.contains("must be one of inherit, fast"), "{other}");
        let fixed = call(&workspace, "permissions.mode", Some("bypassPermissions")).await;
        assert!(fixed.starts_with("Error: the operator sets permissions.mode"), "{fixed}");
    }
}
