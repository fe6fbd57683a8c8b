//! Keeps what the plan of a session holds.

use std::sync::{Arc, Mutex};

use crate::sync;

/// The plan as it was seen last, for the turns that go on from this one.
#[derive(Debug, Default)]
pub(crate) struct SessionPlan(Mutex<Option<Arc<str>>>);

impl SessionPlan {
    pub(crate) fn text(&self) -> Option<Arc<str>> {
        sync::lock(&self.0).clone()
    }

    pub(crate) fn keep(&self, text: Option<Arc<str>>) {
        *sync::lock(&self.0) = text;
    }
}
