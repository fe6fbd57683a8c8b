//! Remembers what upstream's models take and what they refuse, as far as only their errors tell.
//!
//! A lesson is drawn from a request that was refused, and that succeeded once the member in
//! question was left out or added. It belongs to one model. Whoever met the error goes on with
//! what was learnt; other turns are changed only while [`PROOFS`] turns have met it, and for no
//! longer than [`LIFETIME`].

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::sync;

/// How many turns must have met an error before it changes the request of another one. A single
/// one may be the fault of its client.
const PROOFS: u32 = 2;

/// How long a lesson holds. Providers change, and a gateway's name may stand for another model.
const LIFETIME: Duration = Duration::from_secs(10 * 60);

/// The most lessons that are kept: more than the models of any gateway need, but bounded, since
/// names come from clients.
const MAX_LESSONS: usize = 1024;

/// Something about a model that its errors tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum UpstreamTrait {
    /// It takes no reasoning in earlier messages.
    RefusesReasoning,
    /// It wants `reasoning_content` in each message of the assistant's, be it empty.
    MissesReasoning,
    /// The same, and an empty text is not enough: it gets a blank.
    MissesReasoningText,
    /// It takes no `eager_input_streaming` in the definitions of the server's tools.
    RefusesEagerInput,
    /// It takes no `stream_options`.
    RefusesStreamOptions,
    /// It takes no tools.
    RefusesTools,
    /// It takes no tools beside a `response_format`.
    RefusesToolsBesideFormat,
    /// It takes no pictures of tools.
    RefusesImages,
    /// It answers only in one piece.
    RefusesStreaming,
    /// It answers only in a stream.
    MissesStreaming,
    /// It takes no instructions in a message of their own.
    RefusesSystem,
    /// It takes no message of the assistant's whose content is null, be there calls or not.
    RefusesNullContent,
}

impl UpstreamTrait {
    const ALL: [Self; 12] = [
        Self::RefusesReasoning,
        Self::MissesReasoning,
        Self::MissesReasoningText,
        Self::RefusesEagerInput,
        Self::RefusesStreamOptions,
        Self::RefusesTools,
        Self::RefusesToolsBesideFormat,
        Self::RefusesImages,
        Self::RefusesStreaming,
        Self::MissesStreaming,
        Self::RefusesSystem,
        Self::RefusesNullContent,
    ];

    /// The part of a request that it is about.
    pub(crate) fn member(self) -> &'static str {
        match self {
            Self::RefusesReasoning | Self::MissesReasoning => "reasoning",
            Self::MissesReasoningText => "text in reasoning",
            Self::RefusesEagerInput => "eager_input_streaming",
            Self::RefusesStreamOptions => "stream_options",
            Self::RefusesTools => "tools",
            Self::RefusesToolsBesideFormat => "tools beside response_format",
            Self::RefusesImages => "pictures",
            Self::RefusesStreaming | Self::MissesStreaming => "stream",
            Self::RefusesSystem => "system messages",
            Self::RefusesNullContent => "null content",
        }
    }

    pub(crate) fn sense(self) -> Sense {
        match self {
            Self::MissesReasoning | Self::MissesReasoningText | Self::MissesStreaming => {
                Sense::Missing
            }
            Self::RefusesReasoning
            | Self::RefusesEagerInput
            | Self::RefusesStreamOptions
            | Self::RefusesTools
            | Self::RefusesToolsBesideFormat
            | Self::RefusesImages
            | Self::RefusesStreaming
            | Self::RefusesSystem
            | Self::RefusesNullContent => Sense::Refused,
        }
    }

    /// The traits that cannot be true of one model together with this one.
    fn opposites(self) -> &'static [Self] {
        match self {
            Self::RefusesReasoning => &[Self::MissesReasoning, Self::MissesReasoningText],
            Self::MissesReasoning => &[Self::RefusesReasoning, Self::MissesReasoningText],
            Self::MissesReasoningText => &[Self::RefusesReasoning, Self::MissesReasoning],
            Self::RefusesStreaming => &[Self::MissesStreaming],
            Self::MissesStreaming => &[Self::RefusesStreaming],
            _ => &[],
        }
    }

    fn bit(self) -> u16 {
        1 << (self as u16)
    }
}

/// Whether a member was too much or too little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sense {
    Refused,
    Missing,
}

impl Sense {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Missing => "missing",
        }
    }
}

/// A set of traits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TraitSet(u16);

impl TraitSet {
    pub(crate) fn has(self, of: UpstreamTrait) -> bool {
        self.0 & of.bit() != 0
    }

    /// Adds a trait beside those that contradict it.
    pub(crate) fn note(&mut self, new: UpstreamTrait) {
        self.0 |= new.bit();
    }

    /// Adds a trait in place of those that contradict it.
    pub(crate) fn insert(&mut self, new: UpstreamTrait) {
        for opposite in new.opposites() {
            self.0 &= !opposite.bit();
        }
        self.0 |= new.bit();
    }
}

/// A trait of a model, and what the provider said that shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lesson {
    pub(crate) model: String,
    pub(crate) learnt: UpstreamTrait,
    /// The provider's sentence, redacted.
    pub(crate) evidence: String,
}

/// A lesson as the status shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownLesson {
    pub(crate) lesson: Lesson,
    /// How many turns have met the error.
    pub(crate) proofs: u32,
    /// Whether the requests of other turns are changed.
    pub(crate) is_applied: bool,
    pub(crate) expires_in: Duration,
}

/// The traits of all models that were learnt so far. Times are arguments, so that tests need not
/// wait.
#[derive(Debug, Default)]
pub(crate) struct UpstreamTraits(Mutex<HashMap<(String, UpstreamTrait), Proof>>);

#[derive(Debug)]
struct Proof {
    evidence: String,
    count: u32,
    last: Instant,
}

impl Proof {
    fn holds(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) < LIFETIME
    }
}

impl UpstreamTraits {
    /// What a new turn has to respect of this model.
    pub(crate) fn of(&self, model: &str, now: Instant) -> TraitSet {
        let proofs = sync::lock(&self.0);
        let mut set = TraitSet::default();
        if proofs.is_empty() {
            return set;
        }
        for known in UpstreamTrait::ALL {
            let proof = proofs.get(&(model.to_owned(), known));
            if proof.is_some_and(|proof| proof.count >= PROOFS && proof.holds(now)) {
                set.insert(known);
            }
        }
        set
    }

    /// Keeps what one turn has learnt.
    pub(crate) fn learn(&self, lesson: Lesson, now: Instant) {
        let Lesson { model, learnt, evidence } = lesson;
        let mut proofs = sync::lock(&self.0);
        proofs.retain(|_, proof| proof.holds(now));
        for opposite in learnt.opposites() {
            proofs.remove(&(model.clone(), *opposite));
        }
        let has_room = proofs.len() < MAX_LESSONS;
        let key = (model, learnt);
        if let Some(proof) = proofs.get_mut(&key) {
            proof.count += 1;
            proof.evidence = evidence;
            proof.last = now;
        } else if has_room {
            proofs.insert(key, Proof { evidence, count: 1, last: now });
        }
    }

    /// The lessons that hold, in the order of their models.
    pub(crate) fn known(&self, now: Instant) -> Vec<KnownLesson> {
        let proofs = sync::lock(&self.0);
        let holding = proofs.iter().filter(|(_, proof)| proof.holds(now));
        let mut known: Vec<_> = holding
            .map(|((model, learnt), proof)| KnownLesson {
                lesson: Lesson {
                    model: model.clone(),
                    learnt: *learnt,
                    evidence: proof.evidence.clone(),
                },
                proofs: proof.count,
                is_applied: proof.count >= PROOFS,
                expires_in: LIFETIME.saturating_sub(now.saturating_duration_since(proof.last)),
            })
            .collect();
        known.sort_by(|one, other| {
            let key = |known: &KnownLesson| (known.lesson.model.clone(), known.lesson.learnt);
            key(one).cmp(&key(other))
        });
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lesson(model: &str, learnt: UpstreamTrait) -> Lesson {
        Lesson { model: model.to_owned(), learnt, evidence: "no".to_owned() }
    }

    const REFUSES: UpstreamTrait = UpstreamTrait::RefusesReasoning;
    const MISSES: UpstreamTrait = UpstreamTrait::MissesReasoning;

    #[test]
    fn wire_13_a_single_proof_changes_no_other_turn() {
        let (traits, now) = (UpstreamTraits::default(), Instant::now());
        traits.learn(lesson("m", REFUSES), now);
        assert_eq!(traits.of("m", now), TraitSet::default());
        assert!(!traits.known(now)[0].is_applied);

        traits.learn(lesson("m", REFUSES), now);
        assert!(traits.of("m", now).has(REFUSES));
        assert_eq!(traits.of("n", now), TraitSet::default());
        let known = &traits.known(now)[0];
        assert_eq!((known.proofs, known.is_applied), (2, true));
        assert_eq!(known.lesson.evidence, "no");
    }

    #[test]
    fn a_lesson_is_forgotten_after_ten_minutes() {
        let (traits, now) = (UpstreamTraits::default(), Instant::now());
        traits.learn(lesson("m", REFUSES), now);
        let later = now + LIFETIME / 2;
        traits.learn(lesson("m", REFUSES), later);
        let last = later + LIFETIME - Duration::from_secs(1);
        assert!(traits.of("m", last).has(REFUSES));
        assert_eq!(traits.known(last)[0].expires_in, Duration::from_secs(1));

        let over = later + LIFETIME;
        assert_eq!(traits.of("m", over), TraitSet::default());
        assert!(traits.known(over).is_empty());
        // What has expired is no proof any more.
        traits.learn(lesson("m", REFUSES), over);
        assert_eq!(traits.of("m", over), TraitSet::default());
    }

    #[test]
    fn the_opposite_takes_the_place_of_a_lesson() {
        let (traits, now) = (UpstreamTraits::default(), Instant::now());
        for learnt in [REFUSES, REFUSES, MISSES] {
            traits.learn(lesson("m", learnt), now);
        }
        assert_eq!(traits.of("m", now), TraitSet::default());
        let known: Vec<_> = traits.known(now).iter().map(|known| known.lesson.learnt).collect();
        assert_eq!(known, [MISSES]);

        let mut set = TraitSet::default();
        set.insert(REFUSES);
        set.insert(UpstreamTrait::RefusesTools);
        set.insert(MISSES);
        assert!(set.has(MISSES) && !set.has(REFUSES) && set.has(UpstreamTrait::RefusesTools));
    }

    #[test]
    fn names_of_models_do_not_fill_the_memory() {
        let (traits, now) = (UpstreamTraits::default(), Instant::now());
        for number in 0..2 * MAX_LESSONS {
            traits.learn(lesson(&number.to_string(), REFUSES), now);
        }
        assert_eq!(traits.known(now).len(), MAX_LESSONS);
    }
}
