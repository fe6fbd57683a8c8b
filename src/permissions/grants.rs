//! Keeps what a person allowed for the rest of a session.

use std::sync::Mutex;

use indexmap::IndexSet;

use super::EffectDigest;
use crate::sync;

/// Grants that a session keeps. Beyond it the oldest is forgotten, and asked about again.
const MAX_GRANTS: usize = 1000;

/// The effects that a person allowed for a session. All its turns share one.
#[derive(Debug, Default)]
pub(crate) struct Grants(Mutex<IndexSet<EffectDigest>>);

impl Grants {
    /// The saved grants of a session, the oldest first.
    pub(crate) fn load(saved: impl IntoIterator<Item = EffectDigest>) -> Self {
        let grants = Self::default();
        for grant in saved {
            grants.add(grant);
        }
        grants
    }

    /// What to save, the oldest first.
    pub(crate) fn save(&self) -> Vec<EffectDigest> {
        sync::lock(&self.0).iter().copied().collect()
    }

    pub(crate) fn add(&self, grant: EffectDigest) {
        let mut grants = sync::lock(&self.0);
        if grants.len() == MAX_GRANTS && !grants.contains(&grant) {
            grants.shift_remove_index(0);
        }
        grants.insert(grant);
    }

    pub(super) fn contains(&self, grant: &EffectDigest) -> bool {
        sync::lock(&self.0).contains(grant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_loaded_and_the_oldest_is_forgotten_first() {
        let number = |number: usize| {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&number.to_le_bytes());
            digest
        };
        let grants = Grants::load((0..=MAX_GRANTS).map(number));
        assert!(!grants.contains(&number(0)) && grants.contains(&number(MAX_GRANTS)));
        grants.add(number(1));
        let saved = grants.save();
        assert_eq!(saved.len(), MAX_GRANTS);
        assert_eq!(Grants::load(saved.clone()).save(), saved);
    }
}
