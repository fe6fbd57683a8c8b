//! Defines the choices that a person has about an effect, and turns one into a decision.

use crate::agent::beginning::Decided;
use crate::agent::record::Asked;
use crate::execution::ask::{About, Ask, Decision, GrantScope};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    AllowOnce,
    AllowForSession,
    Deny,
}

impl Choice {
    /// In the order of their numbers.
    pub(crate) const ALL: [Self; 3] = [Self::AllowOnce, Self::AllowForSession, Self::Deny];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::AllowOnce => "allow once",
            Self::AllowForSession => "allow for this session",
            Self::Deny => "deny",
        }
    }

    /// The word for programs.
    fn word(self) -> &'static str {
        match self {
            Self::AllowOnce => "allow",
            Self::AllowForSession => "always",
            Self::Deny => "deny",
        }
    }

    /// The choice, if the whole text is one: its number, also as `1.` and `1)`, a word, or the
    /// label. White space around and between words does not matter.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ").to_ascii_lowercase();
        let number = text.strip_suffix(['.', ')']).unwrap_or(&text);
        Some(match (number, text.as_str()) {
            ("1", _) | (_, "yes" | "allow" | "allow once") => Self::AllowOnce,
            ("2", _) | (_, "always" | "allow for this session") => Self::AllowForSession,
            ("3", _) | (_, "no" | "deny") => Self::Deny,
            _ => return None,
        })
    }

    /// The decision about what `asked` has shown. Too late is no consent.
    pub(crate) fn decide(self, asked: &Asked, now_ms: i64) -> Decided {
        let decision = match (self, &asked.ask.about) {
            (Self::Deny, _) => Decision::Deny { feedback: None },
            (_, _) if is_expired(asked, now_ms) => Decision::Expired,
            (_, About::Questions { .. }) => Decision::Deny { feedback: None },
            (Self::AllowOnce, About::Effect(shown)) => Decision::Allow {
                digest: shown.digest,
                scope: GrantScope::Once,
                updated_input: None,
            },
            (Self::AllowForSession, About::Effect(shown)) => Decision::Allow {
                digest: shown.digest,
                scope: GrantScope::Session,
                updated_input: None,
            },
        };
        decided(asked, decision)
    }
}

/// The words that decide it, in the order of a conversation's numbers. There are none for
/// questions, whose options stand with them.
pub(crate) fn choices(ask: &Ask) -> Vec<&'static str> {
    match &ask.about {
        About::Questions { .. } => Vec::new(),
        About::Effect(shown) => {
            let counts =
                |choice: &Choice| *choice != Choice::AllowForSession || shown.grant.is_some();
            Choice::ALL.into_iter().filter(counts).map(Choice::word).collect()
        }
    }
}

pub(super) fn decided(asked: &Asked, decision: Decision) -> Decided {
    Decided { approval: asked.id.clone(), slot: asked.slot, decision }
}

pub(crate) fn is_expired(asked: &Asked, now_ms: i64) -> bool {
    asked.expires_ms <= now_ms
}

/// Denies all. The person's words stand in the answer to the first call.
pub(crate) fn deny_all<'a>(
    asked: impl IntoIterator<Item = &'a Asked>,
    words: &str,
) -> Vec<Decided> {
    let words = words.trim();
    let mut feedback = (!words.is_empty()).then(|| words.to_owned());
    let deny = |asked| decided(asked, Decision::Deny { feedback: feedback.take() });
    asked.into_iter().map(deny).collect()
}
