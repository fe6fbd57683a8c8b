//! Follows the references of a schema, and finds those that lead back to where they stand.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::keywords::{Members, is_in_place};

/// Where the references of a schema lead.
#[derive(Debug, Default)]
pub(super) struct References {
    /// By the pointer of a part that is referred to: what is referred to within it.
    within: HashMap<String, Vec<Reference>>,
    /// The parts that contain a way back to themselves.
    circular: HashSet<String>,
}

#[derive(Clone, Debug)]
struct Reference {
    to: String,
    /// It is about the same value as the part in which it stands.
    is_in_place: bool,
}

/// The JSON pointer of a reference into the same document. A fragment of an address is
/// percent-encoded.
pub(super) fn pointer_of(reference: &str) -> Option<Cow<'_, str>> {
    percent_decode_str(reference.strip_prefix('#')?).decode_utf8().ok()
}

impl References {
    pub(super) fn of(schema: &Value) -> Self {
        let mut found = Self::default();
        let mut open: Vec<String> = all_in(schema).into_iter().map(|found| found.to).collect();
        while let Some(pointer) = open.pop() {
            if found.within.contains_key(&pointer) {
                continue;
            }
            let within = schema.pointer(&pointer).map(all_in).unwrap_or_default();
            open.extend(within.iter().map(|found| found.to.clone()));
            found.within.insert(pointer, within);
        }
        let circular = found.within.keys().filter(|part| found.leads(part, part, |_| true));
        found.circular = circular.cloned().collect();
        found
    }

    pub(super) fn is_circular(&self, pointer: &str) -> bool {
        self.circular.contains(pointer)
    }

    /// Whether a validator that follows a reference from one part to another, about the same
    /// value, would come back without an end.
    pub(super) fn is_endless(&self, from: &str, to: &str) -> bool {
        from == to || self.leads(to, from, |reference| reference.is_in_place)
    }

    fn leads(&self, from: &str, to: &str, is_taken: impl Fn(&Reference) -> bool) -> bool {
        let mut open = vec![from];
        let mut seen = HashSet::new();
        while let Some(part) = open.pop() {
            for reference in self.within.get(part).into_iter().flatten() {
                if !is_taken(reference) {
                    continue;
                }
                if reference.to == to {
                    return true;
                }
                if seen.insert(reference.to.as_str()) {
                    open.push(&reference.to);
                }
            }
        }
        false
    }
}

/// The references in a schema.
fn all_in(schema: &Value) -> Vec<Reference> {
    let mut found = Vec::new();
    collect(schema, Members::Keywords, true, &mut found);
    found
}

fn collect(value: &Value, members: Members, in_place: bool, found: &mut Vec<Reference>) {
    match value {
        _ if members == Members::Data => {}
        Value::Array(items) => {
            for item in items {
                collect(item, members, in_place, found);
            }
        }
        Value::Object(map) => {
            for (name, member) in map {
                let is_definitions = ["$defs", "definitions"].contains(&name.as_str());
                match (members, member.as_str()) {
                    // What is defined counts where it is used.
                    (Members::Keywords, _) if is_definitions => {}
                    (Members::Keywords, Some(reference)) if name == "$ref" => {
                        let to = pointer_of(reference).map(Cow::into_owned);
                        found.extend(to.map(|to| Reference { to, is_in_place: in_place }));
                    }
                    (Members::Keywords, _) => {
                        let in_place = in_place && is_in_place(name);
                        collect(member, members.below(name), in_place, found);
                    }
                    _ => collect(member, members.below(name), in_place, found),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_leads_back_to_itself_is_told_from_what_is_used_twice() {
        let to = |name: &str| json!({ "$ref": format!("#/$defs/{name}") });
        let schema = json!({
            "properties": { "a": to("tree"), "b": to("leaf"), "c": to("x") },
            "$defs": {
                "leaf": { "type": "string" },
                "tree": { "properties": { "of": { "items": to("tree") }, "leaf": to("leaf") } },
                "x": { "allOf": [to("y")] },
                "y": { "anyOf": [to("x"), to("tree")] },
            },
        });
        let found = References::of(&schema);
        let is_circular = |name: &str| found.is_circular(&format!("/$defs/{name}"));
        assert!(is_circular("tree") && is_circular("x") && is_circular("y"));
        assert!(!is_circular("leaf"));
        assert!(found.is_endless("/$defs/x", "/$defs/y"));
        assert!(found.is_endless("/$defs/y", "/$defs/x"));
        assert!(!found.is_endless("/$defs/y", "/$defs/tree"));
    }
}
