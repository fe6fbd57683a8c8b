//! Recognises a call whose arguments came before, and were sent once more.
//!
//! Some gateways stream the arguments of a call in pieces and then send them once more, whole,
//! in the same place or under the same id. Nothing new was asked for.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

use serde_json::Value;

/// The objects that were asked for so far. Equal objects have equal hashes, whatever the order of
/// their members; the hashes are seeded, so that nobody can make others collide.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownObjects {
    hashes: HashSet<u64>,
    seeds: RandomState,
}

/// The place in which equal objects for one tool are one.
#[derive(Clone, Copy, Debug, Hash)]
enum Place<'a> {
    /// Objects in one text or under one index, by the slot of the first.
    Text(usize),
    /// Calls under one id of upstream's.
    Id(&'a str),
}

impl KnownObjects {
    /// Notes an object for the tool `name`. Returns whether it was asked for before: in the text
    /// that began in slot `first`, or under the same id.
    pub(super) fn is_echo(
        &mut self,
        object: &Value,
        first: usize,
        id: Option<&str>,
        name: &str,
    ) -> bool {
        let text = self.seeds.hash_one((Place::Text(first), name, object));
        let id = id.map(|id| self.seeds.hash_one((Place::Id(id), name, object)));
        let is_known = |hash: &u64| self.hashes.contains(hash);
        let is_echo = is_known(&text) || id.as_ref().is_some_and(is_known);
        self.hashes.insert(text);
        self.hashes.extend(id);
        is_echo
    }
}
