//! Gives a named session that is not in the store yet one id, for all requests that name it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::ids::{Scope, SessionId};
use crate::store::rows::SessionName;
use crate::sync;

/// The names whose sessions may not be stored yet: turns that would make them are under way.
#[derive(Debug, Default)]
pub(crate) struct PendingNames(Arc<Mutex<HashMap<Key, PendingName>>>);

type Key = (Scope, SessionName);

#[derive(Debug)]
struct PendingName {
    session: SessionId,
    holders: usize,
}

/// Keeps the id of a name until the session is stored, or its turn has come to nothing.
#[derive(Debug)]
pub(super) struct NameGuard {
    names: Arc<Mutex<HashMap<Key, PendingName>>>,
    key: Key,
    pub(super) session: SessionId,
}

impl PendingNames {
    pub(super) fn take(&self, scope: Scope, name: SessionName) -> NameGuard {
        let key = (scope, name);
        let mut names = sync::lock(&self.0);
        let taken = names
            .entry(key.clone())
            .or_insert_with(|| PendingName { session: SessionId::random(), holders: 0 });
        taken.holders += 1;
        let session = taken.session.clone();
        NameGuard { names: Arc::clone(&self.0), key, session }
    }
}

impl Drop for NameGuard {
    fn drop(&mut self) {
        let mut names = sync::lock(&self.names);
        if let Some(taken) = names.get_mut(&self.key) {
            taken.holders -= 1;
            if taken.holders == 0 {
                names.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::KeyId;

    #[test]
    fn a_name_has_one_id_as_long_as_somebody_holds_it() {
        let names = PendingNames::default();
        let scope = Scope::new(&KeyId::new("a"), None);
        let name = |text: &str| SessionName { text: text.to_owned(), model: None };

        let one = names.take(scope, name("x"));
        let two = names.take(scope, name("x"));
        let other = names.take(Scope::new(&KeyId::new("b"), None), name("x"));
        assert_eq!(one.session, two.session);
        assert_ne!(one.session, other.session);

        let before = one.session.clone();
        drop((one, two));
        assert_ne!(names.take(scope, name("x")).session, before);
    }
}
