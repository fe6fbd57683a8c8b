//! Bounds the fetches that go on at once to one host.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::sync;

/// As many as a browser opens, and less than bothers anyone.
const MAX_AT_ONCE: usize = 4;

#[derive(Debug, Default)]
pub(super) struct HostLimits(Mutex<HashMap<String, Weak<Semaphore>>>);

impl HostLimits {
    /// Waits until one more fetch may go to `host`. It ends with the permit.
    pub(super) async fn enter(&self, host: &str) -> Option<OwnedSemaphorePermit> {
        self.of_host(host).acquire_owned().await.ok()
    }

    fn of_host(&self, host: &str) -> Arc<Semaphore> {
        let mut hosts = sync::lock(&self.0);
        if let Some(semaphore) = hosts.get(host).and_then(Weak::upgrade) {
            return semaphore;
        }
        hosts.retain(|_, semaphore| semaphore.strong_count() > 0);
        let semaphore = Arc::new(Semaphore::new(MAX_AT_ONCE));
        hosts.insert(host.to_owned(), Arc::downgrade(&semaphore));
        semaphore
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_fifth_fetch_to_a_host_waits() {
        let limits = HostLimits::default();
        let mut permits = Vec::new();
        for _ in 0..MAX_AT_ONCE {
            permits.push(limits.enter("a").await.unwrap());
        }
        assert!(limits.enter("a").now_or_never().is_none());
        assert!(limits.enter("b").now_or_never().is_some());
        drop(permits.pop());
        assert!(limits.enter("a").now_or_never().is_some());
        drop(permits);
        drop(limits.enter("c").await.unwrap());
        assert_eq!(sync::lock(&limits.0).len(), 1);
    }
}
