//! Defines what a call asks of a person, and what the person decided.

use std::borrow::Cow;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::markdown;
pub(crate) use crate::permissions::{EffectDigest, NoAnswer};
use crate::permissions::{Risk, RuleGrant, SandboxEffect, unanswered};
pub(crate) use crate::tools::own_choice::OwnChoice;
pub(crate) use crate::tools::question::Question;
use crate::tools::tool::ToolError;

/// A call that needs a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ask {
    pub(crate) tool: String,
    /// The call's main argument. Where the model describes the call, what it would really do.
    pub(crate) headline: String,
    pub(crate) about: About,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
#[expect(clippy::large_enum_variant, reason = "nearly every ask is about an effect")]
pub(crate) enum About {
    /// May the call do this?
    Effect(ShownEffect),
    /// The model's own questions (`AskUserQuestion`).
    Questions { questions: Vec<Question> },
}

/// The most characters of what a call would do, on one line. Open WebUI's dialog has no more
/// room for it.
pub(crate) const MAX_LINE: usize = 300;

/// What a call would do, exactly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShownEffect {
    /// The resolved path, command, diff or host, as Markdown for a person.
    pub(crate) markdown: String,
    /// The same on one line without Markdown, cut if it is long: the command, path or host.
    #[serde(default)]
    pub(crate) line: String,
    /// Of the exact effect: for edits with the hash of the file's contents.
    pub(crate) digest: EffectDigest,
    /// What `allow for this session` would cover. `None` if it would cover nothing but this call.
    pub(crate) grant: Option<EffectDigest>,
    /// The same in words, for a person.
    #[serde(default)]
    pub(crate) grant_covers: String,
    /// Why it asks, for a person.
    pub(crate) why: Option<String>,
    /// What would allow it without asking, for the model where nobody can be asked.
    pub(crate) remedy: String,
    /// What speaks against it, the gravest first.
    #[serde(default)]
    pub(crate) risks: Vec<ShownRisk>,
    /// What the sandbox does to it, the gravest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sandbox: Vec<SandboxEffect>,
    /// What the scope `rule` would keep. `None` if no rule would allow this.
    #[serde(default)]
    pub(crate) rule_grant: Option<Box<RuleGrant>>,
    /// What the choice of a rule would keep: a rule `PROGRAM SUBCOMMAND *` for each part of a
    /// command. `None` where there is no such choice.
    #[serde(default)]
    pub(crate) subcommand_grant: Option<Box<RuleGrant>>,
    /// What the model says that the call does.
    #[serde(default)]
    pub(crate) described: Option<String>,
    /// What the person can choose, if the call offers choices of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) choices: Vec<OwnChoice>,
}

/// What speaks against a call, for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShownRisk {
    pub(crate) kind: String,
    pub(crate) severity: String,
    pub(crate) text: String,
}

impl From<&Risk> for ShownRisk {
    fn from(risk: &Risk) -> Self {
        let (kind, severity) = (risk.kind.as_str().to_owned(), risk.severity.as_str().to_owned());
        Self { kind, severity, text: risk.text.clone() }
    }
}

/// What a person decided about one [`Ask`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "decision")]
pub(crate) enum Decision {
    Allow {
        /// Of the effect that was shown. If the call would have another effect by now, it is
        /// asked about anew.
        digest: EffectDigest,
        scope: GrantScope,
        /// The rules that are kept by the scope `rule`, as they were shown.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rules: Vec<String>,
        /// The person's own input for the call, instead of the model's. The approval is then
        /// for the effect that it makes.
        updated_input: Option<serde_json::Value>,
    },
    /// Allows a call that offers choices of its own.
    Choose {
        /// Of the effect that was shown, as for `Allow`.
        digest: EffectDigest,
        /// The place of the choice.
        place: usize,
    },
    Deny {
        /// Stands in the call's answer.
        feedback: Option<String>,
    },
    /// The person answered when the ask had expired. Nothing runs.
    Expired,
    /// The answer to each question, by its text.
    Answers { answers: IndexMap<String, String> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum GrantScope {
    Once,
    Session,
    /// In this workspace, by rules that are kept.
    Rule,
}

impl Decision {
    /// Whether a person has answered, and not too late.
    pub(crate) fn is_a_persons(&self) -> bool {
        !matches!(self, Self::Expired)
    }

    /// Allows what was shown, as it was shown.
    pub(crate) fn allow(digest: EffectDigest, scope: GrantScope) -> Self {
        Self::Allow { digest, scope, rules: Vec::new(), updated_input: None }
    }

    /// Allows what was shown, and from now on what these rules allow.
    pub(crate) fn allow_by(digest: EffectDigest, grant: &RuleGrant) -> Self {
        let rules = grant.rules.clone();
        Self::Allow { digest, scope: GrantScope::Rule, rules, updated_input: None }
    }
}

impl Ask {
    /// Puts a text in front of what the call would do.
    pub(crate) fn put_in_front(&mut self, heading: &str) {
        if let About::Effect(effect) = &mut self.about {
            effect.markdown.insert_str(0, heading);
        }
    }

    /// What the call would do, on one line. Records of earlier versions have the headline alone.
    pub(crate) fn effect_line(&self) -> Cow<'_, str> {
        match &self.about {
            About::Effect(shown) if !shown.line.is_empty() => Cow::Borrowed(&shown.line),
            _ => Cow::Owned(markdown::plain_within(&self.headline, MAX_LINE)),
        }
    }

    /// The choices that the call offers in the place of the usual ones.
    pub(crate) fn own_choices(&self) -> &[OwnChoice] {
        match &self.about {
            About::Effect(shown) => &shown.choices,
            About::Questions { .. } => &[],
        }
    }

    /// The rules that a person has decided to keep, if they were shown. `rules` is empty in
    /// records of earlier versions, which had one list of them.
    pub(crate) fn grant_of(&self, rules: &[String]) -> Option<&RuleGrant> {
        let About::Effect(shown) = &self.about else { return None };
        if rules.is_empty() {
            return shown.rule_grant.as_deref();
        }
        let grants = [&shown.rule_grant, &shown.subcommand_grant];
        grants.into_iter().flatten().map(|grant| &**grant).find(|grant| grant.rules == rules)
    }

    /// The error for the model where nobody answers.
    pub(crate) fn unanswered(&self, no_answer: NoAnswer) -> ToolError {
        match &self.about {
            About::Effect(ShownEffect { why, remedy, .. }) => {
                ToolError::Denied(unanswered(&self.tool, why.as_deref(), remedy, no_answer))
            }
            About::Questions { .. } => nobody_answers(&self.tool, "nobody can be asked here"),
        }
    }
}

/// The error for a question that reaches no person.
pub(super) fn nobody_answers(tool: &str, why: &str) -> ToolError {
    ToolError::Failed(format!(
        "{tool} needs a person, and {why}. Go on with what you know, and say what you assumed"
    ))
}
