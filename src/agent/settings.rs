//! Defines the settings of turns and of models: `[turns]`, `[[models]]`.

use std::num::NonZeroU64;
use std::time::Duration;

use globset::{GlobBuilder, GlobMatcher};
use serde::{Deserialize, Deserializer};

use crate::upstream::{TraitSet, UpstreamTrait};

/// `[turns]`. `toolhand.example.toml` has the reasons for the defaults.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TurnSettings {
    /// Rounds of one turn. Reaching the limit ends the answer with `length`.
    pub(crate) max_rounds: u32,
    #[serde(with = "crate::units::duration")]
    pub(crate) max_duration: Duration,
    /// Tool calls of one round. Further ones are answered with an error.
    pub(crate) max_tool_calls: usize,
    pub(crate) max_parallel_tools: usize,
    /// How long a stream may be silent before a comment is sent.
    #[serde(with = "crate::units::duration")]
    pub(crate) keep_alive: Duration,
    /// How long the response head is held back for the first event, so that a quick failure
    /// still gets its HTTP status.
    #[serde(with = "crate::units::duration")]
    pub(crate) head_hold: Duration,
    /// How long a turn continues without a client that listens.
    #[serde(with = "crate::units::duration")]
    pub(crate) disconnect_grace: Duration,
    /// How long running turns may continue after SIGTERM.
    #[serde(with = "crate::units::duration")]
    pub(crate) shutdown_grace: Duration,
}

impl Default for TurnSettings {
    fn default() -> Self {
        Self {
            max_rounds: 100,
            max_duration: Duration::from_secs(60 * 60),
            max_tool_calls: 32,
            max_parallel_tools: 10,
            keep_alive: Duration::from_secs(10),
            head_hold: Duration::from_secs(10),
            disconnect_grace: Duration::ZERO,
            shutdown_grace: Duration::from_secs(30),
        }
    }
}

/// One entry of `[[models]]`. The first whose pattern matches applies.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelRule {
    /// A glob over the model's name, ignoring case, such as `*claude*`.
    #[serde(rename = "match")]
    pub(crate) pattern: Pattern,
    #[serde(default)]
    pub(crate) start: Option<StartRule>,
    #[serde(default)]
    pub(crate) reasoning: Option<ReasoningRule>,
    #[serde(default)]
    pub(crate) images: Option<ImageRule>,
    /// The most tokens that the model takes.
    #[serde(default)]
    pub(crate) context: Option<NonZeroU64>,
}

/// When the calls of a model may start (docs/stream.md, When a call may start).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StartRule {
    /// Exclusive calls start at the end of the round's stream.
    #[default]
    Safe,
    /// Exclusive calls start when sealed: for models that never revise a call.
    Sealed,
    /// No call starts before the stream ends, not even a shared one.
    AfterStream,
}

/// Whether a model's reasoning is sent back to it within the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReasoningRule {
    #[default]
    Echo,
    Drop,
}

/// Where a model takes the pictures that tools show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ImageRule {
    /// In a user message behind the answers of the round.
    #[default]
    UserMessage,
    /// In the answer itself.
    ToolMessage,
    /// Nowhere: it is not sent pictures of tools.
    None,
}

/// A case-insensitive glob over model names.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(GlobMatcher);

impl Pattern {
    pub(crate) fn new(glob: &str) -> Result<Self, globset::Error> {
        Ok(Self(GlobBuilder::new(glob).case_insensitive(true).build()?.compile_matcher()))
    }

    pub(crate) fn matches(&self, model: &str) -> bool {
        self.0.is_match(model)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

/// Parts of the names of models that finish one call before they begin the next.
const SEALING_FAMILIES: [&str; 4] = ["claude", "sonnet", "opus", "haiku"];

/// A part of the names of models that take no user message right behind tool messages.
const NO_USER_BEHIND_TOOL: &str = "mistral";

/// A model that a turn may ask: the requested one, or a fallback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AskedModel {
    pub(crate) name: String,
    /// What the rules say of its reasoning.
    pub(crate) reasoning: ReasoningRule,
    pub(crate) images: ImageRule,
    /// What its errors have told, in this turn or in earlier ones.
    pub(crate) learnt: TraitSet,
}

impl AskedModel {
    /// Applies the rules to this very model, be it requested or a fallback.
    pub(crate) fn new(name: String, rules: &[ModelRule], learnt: TraitSet) -> Self {
        let ModelTraits { reasoning, images, .. } = traits_of(&[&name], rules);
        let images =
            if learnt.has(UpstreamTrait::RefusesImages) { ImageRule::None } else { images };
        Self { name, reasoning, images, learnt }
    }

    /// Respects from now on what an error has told.
    pub(crate) fn heed(&mut self, learnt: UpstreamTrait) {
        self.learnt.insert(learnt);
        if learnt == UpstreamTrait::RefusesImages {
            self.images = ImageRule::None;
        }
    }

    /// Whether a message of the assistant's may have null for its content.
    pub(crate) fn takes_null_content(&self) -> bool {
        !self.learnt.has(UpstreamTrait::RefusesNullContent)
    }

    /// The form in which it is asked to answer, where `usual` is the one that suits the turn.
    pub(crate) fn delivery(&self, usual: Delivery) -> Delivery {
        if self.learnt.has(UpstreamTrait::RefusesStreaming) {
            Delivery::Whole
        } else if self.learnt.has(UpstreamTrait::MissesStreaming) {
            Delivery::Streamed
        } else {
            usual
        }
    }

    /// Whether its reasoning is sent back to it: no rule drops it, and it has not refused it.
    pub(crate) fn takes_reasoning(&self) -> bool {
        self.reasoning == ReasoningRule::Echo && !self.learnt.has(UpstreamTrait::RefusesReasoning)
    }

    /// The `reasoning_content` of a message that the model wrote without any.
    pub(crate) fn reasoning_filler(&self) -> Option<&'static str> {
        if self.learnt.has(UpstreamTrait::MissesReasoningText) {
            Some(" ")
        } else if self.learnt.has(UpstreamTrait::MissesReasoning) {
            Some("")
        } else {
            None
        }
    }
}

/// The form in which upstream is asked to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Delivery {
    #[default]
    Streamed,
    /// In one piece, which costs LiteLLM less: for rounds whose beginning is of no use.
    Whole,
}

/// How one model is treated: by the operator's rules, and by the shipped defaults where those
/// say nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct ModelTraits {
    pub(crate) start: StartRule,
    pub(crate) reasoning: ReasoningRule,
    pub(crate) images: ImageRule,
    /// The most tokens that the model takes, if the operator has said so.
    pub(crate) context: Option<NonZeroU64>,
}

/// Applies the first of `rules` that matches one of `names`: the requested name, and the one
/// the model gives itself.
pub(crate) fn traits_of(names: &[&str], rules: &[ModelRule]) -> ModelTraits {
    let rule = rules.iter().find(|rule| names.iter().any(|name| rule.pattern.matches(name)));
    ModelTraits {
        start: rule.and_then(|rule| rule.start).unwrap_or_else(|| shipped_start(names)),
        reasoning: rule.and_then(|rule| rule.reasoning).unwrap_or_default(),
        images: rule.and_then(|rule| rule.images).unwrap_or_else(|| shipped_images(names)),
        context: rule.and_then(|rule| rule.context),
    }
}

/// The image rule where the operator has set none.
fn shipped_images(names: &[&str]) -> ImageRule {
    if names.iter().any(|name| name.to_lowercase().contains(NO_USER_BEHIND_TOOL)) {
        ImageRule::ToolMessage
    } else {
        ImageRule::UserMessage
    }
}

/// The start rule where the operator has set none.
fn shipped_start(names: &[&str]) -> StartRule {
    let seals = |name: &str| {
        let name = name.to_lowercase();
        SEALING_FAMILIES.iter().any(|family| name.contains(family))
    };
    if names.iter().any(|name| seals(name)) { StartRule::Sealed } else { StartRule::Safe }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(model: &str, rules: &str, start: StartRule, reasoning: ReasoningRule) {
        #[derive(Deserialize)]
        struct File {
            #[serde(default)]
            models: Vec<ModelRule>,
        }
        let file: File = toml::from_str(rules).unwrap();
        let traits = traits_of(&[model], &file.models);
        assert_eq!((traits.start, traits.reasoning), (start, reasoning));
    }

    #[test]
    fn claude_models_seal_their_calls() {
        check("anthropic/Claude-Opus-9", "", StartRule::Sealed, ReasoningRule::Echo);
        check("haiku", "", StartRule::Sealed, ReasoningRule::Echo);
        check("gpt-9", "", StartRule::Safe, ReasoningRule::Echo);
    }

    #[test]
    fn the_first_fitting_rule_of_the_operator_counts() {
        let rules = r#"
            [[models]]
            match = "*opus*"
            start = "after_stream"
            [[models]]
            match = "*"
            reasoning = "drop"
        "#;
        check("opus", rules, StartRule::AfterStream, ReasoningRule::Echo);
        check("sonnet", rules, StartRule::Sealed, ReasoningRule::Drop);
    }

    #[test]
    fn a_context_is_a_number_of_tokens_above_zero() {
        let rule = |context: &str| {
            toml::from_str::<ModelRule>(&format!("match = \"*\"\ncontext = {context}"))
        };
        let traits = traits_of(&["any"], &[rule("128000").unwrap()]);
        assert_eq!(traits.context.map(NonZeroU64::get), Some(128_000));
        for wrong in ["0", "-1", "\"128k\""] {
            assert!(rule(wrong).is_err(), "{wrong}");
        }
    }
}
