//! Collects what stands beside the delta of a round's chunks: unknown top-level members, such as
//! `citations`, `system_fingerprint` and `service_tier`, or all members of a whole answer.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::deltas::is_readable;
use crate::openai::chunk::{RawMembers, WholeAnswer};

/// The most bytes that are kept: more than any provider sends, and affordable for a turn.
const MAX_BYTES: usize = 64 << 10;

/// The last value of each member.
#[derive(Debug, Default)]
pub(super) struct Unknown {
    members: RawMembers,
    bytes: usize,
    /// The members of the last chunk. Most chunks of a stream share one object.
    last: Option<Arc<RawMembers>>,
    whole: Option<Box<WholeAnswer>>,
}

impl Unknown {
    /// Adds what one chunk brought.
    pub(super) fn take(
        &mut self,
        members: Option<Arc<RawMembers>>,
        whole: Option<Box<WholeAnswer>>,
    ) {
        if let Some(mut whole) = whole {
            whole.retain(is_readable);
            self.whole = Some(whole);
        }
        let Some(members) = members else { return };
        if self.last.as_ref().is_some_and(|last| Arc::ptr_eq(last, &members)) {
            return;
        }
        for (name, value) in &*members {
            self.set(name, value);
        }
        self.last = Some(members);
    }

    /// Sets one member. A value that is too large or nested too deeply removes it.
    fn set(&mut self, name: &str, value: &RawValue) {
        let known = self.members.get(name).map(|known| known.get());
        if known == Some(value.get()) {
            return;
        }
        if let Some(known) = known {
            self.bytes -= size(name, known);
        }
        let bytes = self.bytes + size(name, value.get());
        if bytes <= MAX_BYTES && is_readable(value) {
            self.bytes = bytes;
            self.members.insert(name.to_owned(), value.to_owned());
        } else {
            self.members.swap_remove(name);
        }
    }

    /// The estimated memory, in bytes. `last` may hold the same bytes a second time.
    pub(super) fn size_estimate(&self) -> usize {
        2 * self.bytes + self.whole.as_ref().map_or(0, |whole| whole.size_estimate())
    }

    pub(super) fn into_parts(self) -> (RawMembers, Option<Box<WholeAnswer>>) {
        (self.members, self.whole)
    }
}

fn size(name: &str, value: &str) -> usize {
    /// The overhead of an entry beside its texts.
    const ENTRY: usize = 96;
    ENTRY + name.len() + value.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(unknown: &mut Unknown, members: &str) {
        unknown.take(Some(Arc::new(serde_json::from_str(members).unwrap())), None);
    }

    fn shown(unknown: &Unknown) -> String {
        serde_json::to_string(&unknown.members).unwrap()
    }

    #[test]
    fn the_last_value_of_a_member_counts() {
        let mut unknown = Unknown::default();
        take(&mut unknown, r#"{"a":1,"b":[2]}"#);
        take(&mut unknown, r#"{"b":3}"#);
        assert_eq!(shown(&unknown), r#"{"a":1,"b":3}"#);
    }

    #[test]
    fn what_is_shared_counts_again_behind_something_else() {
        let mut unknown = Unknown::default();
        let shared: Arc<RawMembers> = Arc::new(serde_json::from_str(r#"{"a":1}"#).unwrap());
        unknown.take(Some(Arc::clone(&shared)), None);
        take(&mut unknown, r#"{"a":2}"#);
        unknown.take(Some(shared), None);
        assert_eq!(shown(&unknown), r#"{"a":1}"#);
    }

    #[test]
    fn too_much_is_left_out() {
        let mut unknown = Unknown::default();
        take(&mut unknown, r#"{"a":1,"b":2}"#);
        take(&mut unknown, &format!(r#"{{"a":"{}"}}"#, "x".repeat(MAX_BYTES)));
        take(&mut unknown, &format!(r#"{{"c":{}{}}}"#, "[".repeat(200), "]".repeat(200)));
        assert_eq!(shown(&unknown), r#"{"b":2}"#);
        for at in 0..10_000 {
            take(&mut unknown, &format!(r#"{{"n{at}":0}}"#));
        }
        assert!(unknown.size_estimate() <= 2 * MAX_BYTES && unknown.members.len() < 1000);
        for at in 0..10_000 {
            take(&mut unknown, &format!(r#"{{"n{at}":null}}"#));
        }
    }
}
