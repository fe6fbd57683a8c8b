//! Counts the subscribers of a turn, so that its record says whether anybody listened.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of subscribers of a turn. The recorder of the turn has a clone, so that its end says
/// whether anybody was there to hear it.
#[derive(Clone, Debug)]
pub(crate) struct Audience(Arc<AtomicUsize>);

/// A turn begins for a client: until it has subscribed, it counts as there.
impl Default for Audience {
    fn default() -> Self {
        Self(Arc::new(AtomicUsize::new(1)))
    }
}

impl Audience {
    pub(super) fn set(&self, subscribers: usize) {
        self.0.store(subscribers, Ordering::Relaxed);
    }

    /// Whether nobody listens.
    pub(crate) fn has_left(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}
