//! Counts what a call costs upstream beside the turn's own requests.

use std::sync::{Arc, Mutex};

use crate::openai::usage::Usage;
use crate::sync;

/// The usage of one call's own requests. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SideUsage(Arc<Mutex<Option<Usage>>>);

impl SideUsage {
    pub(crate) fn add(&self, usage: Usage) {
        let mut total = sync::lock(&self.0);
        match &mut *total {
            Some(total) => total.add(&usage),
            None => *total = Some(usage),
        }
    }

    pub(crate) fn take(&self) -> Option<Usage> {
        sync::lock(&self.0).take()
    }
}
