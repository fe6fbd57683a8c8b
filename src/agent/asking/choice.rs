//! Defines the choices that a person has about an effect, and turns one into a decision. A call
//! that offers choices of its own is read and decided here as well.

use crate::agent::beginning::Decided;
use crate::agent::record::Asked;
use crate::execution::ask::{About, Ask, Decision, GrantScope, OwnChoice};
use crate::tools::choice_text::ChoiceText;
use crate::tools::own_choice::chosen;
use crate::tools::question::QuestionOption;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    AllowOnce,
    AllowForSession,
    Deny,
    /// Allows the rules that are shown, from now on in this project.
    AllowByRule,
}

impl Choice {
    /// In the order of their numbers.
    pub(crate) const ALL: [Self; 4] =
        [Self::AllowOnce, Self::AllowForSession, Self::Deny, Self::AllowByRule];

    /// The choices about this effect, with their numbers. A choice that is left out leaves the
    /// numbers of the others as they are.
    pub(crate) fn offered(ask: &Ask) -> impl Iterator<Item = (usize, Self)> {
        (1..).zip(Self::ALL).filter(|(_, choice)| choice.is_offered(ask))
    }

    /// Whether the choice says something of its own about this effect.
    pub(crate) fn is_offered(self, ask: &Ask) -> bool {
        let About::Effect(shown) = &ask.about else { return false };
        match self {
            Self::AllowOnce | Self::Deny => true,
            Self::AllowForSession => shown.grant.is_some(),
            Self::AllowByRule => shown.subcommand_grant.is_some(),
        }
    }

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::AllowOnce => "allow once",
            Self::AllowForSession => "allow for this session",
            Self::Deny => "deny",
            Self::AllowByRule => "allow by rule",
        }
    }

    /// The word for programs.
    fn word(self) -> &'static str {
        match self {
            Self::AllowOnce => "allow",
            Self::AllowForSession => "always",
            Self::Deny => "deny",
            Self::AllowByRule => "rule",
        }
    }

    /// The choice, if the whole text is one: its number, a word, the label, or the number and
    /// the label as they stand in the question.
    pub(crate) fn read(text: &str) -> Option<Self> {
        if let Some(choice) = Self::read_one(text) {
            return Some(choice);
        }
        let (number, label) = text.trim().split_once(char::is_whitespace)?;
        let is_label = ChoiceText::new(label).number.is_none();
        let choice = Self::read_one(label)?;
        let agrees =
            ChoiceText::new(number).number.is_some() && Self::read_one(number) == Some(choice);
        (is_label && agrees).then_some(choice)
    }

    fn read_one(text: &str) -> Option<Self> {
        let text = ChoiceText::new(text);
        Some(match (text.number, text.word()) {
            (Some(1), _) | (_, "yes" | "allow" | "allow once") => Self::AllowOnce,
            (Some(2), _) | (_, "always" | "allow for this session") => Self::AllowForSession,
            (Some(3), _) | (_, "no" | "deny") => Self::Deny,
            (Some(4), _) | (_, "rule" | "allow by rule") => Self::AllowByRule,
            _ => return None,
        })
    }

    /// The decision about what `asked` has shown; `None` for a choice that it does not offer. Too
    /// late is no consent.
    pub(crate) fn decide(self, asked: &Asked, now_ms: i64) -> Option<Decided> {
        let decision = match (self, &asked.ask.about) {
            (Self::Deny, _) => Decision::Deny { feedback: None },
            (_, _) if is_expired(asked, now_ms) => Decision::Expired,
            (_, About::Questions { .. }) => Decision::Deny { feedback: None },
            (_, About::Effect(_)) if !self.is_offered(&asked.ask) => return None,
            (Self::AllowOnce, About::Effect(shown)) => {
                Decision::allow(shown.digest, GrantScope::Once)
            }
            (Self::AllowForSession, About::Effect(shown)) => {
                Decision::allow(shown.digest, GrantScope::Session)
            }
            (Self::AllowByRule, About::Effect(shown)) => {
                Decision::allow_by(shown.digest, shown.subcommand_grant.as_deref()?)
            }
        };
        Some(decided(asked, decision))
    }
}

/// What the text decides about the ask, if the whole of it is a choice. It may have the ask's
/// code with it.
pub(crate) fn read_choice(asked: &Asked, text: &str, now_ms: i64) -> Option<Decided> {
    let own = asked.ask.own_choices();
    if own.is_empty() {
        return Choice::read(text)?.decide(asked, now_ms);
    }
    let place = chosen(own, text).or_else(|| {
        let (_, rest) = behind_code(&[&asked.code], text)?;
        chosen(own, rest)
    });
    Some(decide_own(asked, place?, now_ms))
}

/// The decision for a choice of the call's own. Too late is no consent.
pub(super) fn decide_own(asked: &Asked, place: usize, now_ms: i64) -> Decided {
    let decision = match &asked.ask.about {
        About::Effect(shown) if allows(&shown.choices, place) => {
            if is_expired(asked, now_ms) {
                Decision::Expired
            } else {
                Decision::Choose { digest: shown.digest, place }
            }
        }
        _ => Decision::Deny { feedback: None },
    };
    decided(asked, decision)
}

pub(super) fn allows(choices: &[OwnChoice], place: usize) -> bool {
    choices.get(place).is_some_and(|choice| choice.allows)
}

/// A reply that was copied from the question with the ticks around it.
fn without_ticks(line: &str) -> &str {
    let inside = line.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
    inside.filter(|inside| !inside.contains('`')).unwrap_or(line)
}

/// Splits `CODE rest`, or `rest CODE`: the place of the code, and the rest.
pub(super) fn behind_code<'a>(
    codes: &[impl AsRef<str>],
    line: &'a str,
) -> Option<(usize, &'a str)> {
    let place_of = |code: &str| {
        let code = code.strip_suffix(':').unwrap_or(code);
        codes.iter().position(|known| known.as_ref().eq_ignore_ascii_case(code))
    };
    let line = without_ticks(line.trim());
    let (first, behind) = line.split_once(char::is_whitespace)?;
    if let Some(place) = place_of(first) {
        return Some((place, behind));
    }
    let (before, last) = line.rsplit_once(char::is_whitespace)?;
    Some((place_of(last)?, before))
}

/// The words that decide it, in the order of a conversation's numbers; for choices of the call's
/// own their labels. There are none for questions, whose options stand with them.
pub(crate) fn choices(ask: &Ask) -> Vec<&str> {
    match &ask.about {
        About::Questions { .. } => Vec::new(),
        About::Effect(shown) if !shown.choices.is_empty() => {
            shown.choices.iter().map(|choice| choice.label.as_str()).collect()
        }
        About::Effect(_) => Choice::offered(ask).map(|(_, choice)| choice.word()).collect(),
    }
}

/// What a choice does for this call, in words of ours.
pub(super) fn meaning(choice: Choice, ask: &Ask) -> String {
    match (choice, &ask.about) {
        (Choice::AllowOnce, _) => "exactly what the message above shows, this once".to_owned(),
        (Choice::Deny, _) => "the call is not made".to_owned(),
        (Choice::AllowForSession, About::Effect(shown)) => {
            format!("{}, until this conversation ends", shown.grant_covers)
        }
        (Choice::AllowByRule, About::Effect(shown)) => {
            let rules = shown.subcommand_grant.iter().flat_map(|grant| &grant.rules);
            let rules: Vec<_> = rules.map(String::as_str).collect();
            format!("from now on in this project: {}", rules.join(", "))
        }
        (_, About::Questions { .. }) => String::new(),
    }
}

/// The rules that the choice of a rule would keep; none where there is no such choice.
pub(crate) fn offered_rules(ask: &Ask) -> &[String] {
    match &ask.about {
        About::Effect(shown) => {
            shown.subcommand_grant.as_deref().map_or(&[], |grant| grant.rules.as_slice())
        }
        About::Questions { .. } => &[],
    }
}

/// The choices that the call offers itself, for programs, in the order of their numbers.
pub(crate) fn options(ask: &Ask) -> Vec<QuestionOption> {
    let option = |choice: &OwnChoice| QuestionOption {
        label: choice.label.clone(),
        description: choice.description.clone(),
    };
    ask.own_choices().iter().map(option).collect()
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
