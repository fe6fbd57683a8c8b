//! Follows the references of a schema, and finds those that lead back to where they stand.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ptr;

use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::keywords::{Members, is_in_place, takes_parts};

/// The parts that the references of a schema lead to.
#[derive(Debug)]
pub(super) struct References {
    /// The number of each part that is referred to, by its pointers: a part may have several.
    parts: HashMap<String, usize>,
    /// Whether a part contains a way back to itself, by its number.
    are_circular: Vec<bool>,
    /// The group of a part, by its number: those that lead to each other, about the same value.
    groups_in_place: Vec<usize>,
}

/// A reference in a part of the schema.
#[derive(Clone, Debug)]
struct Reference {
    /// The pointer of the part that it leads to.
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
        let mut parts = HashMap::new();
        let mut numbers: HashMap<*const Value, usize> = HashMap::new();
        let mut within: Vec<Vec<Reference>> = Vec::new();
        let mut open = all_in(schema);
        while let Some(Reference { to, .. }) = open.pop() {
            if parts.contains_key(&to) {
                continue;
            }
            let Some(part) = schema.pointer(&to) else { continue };
            let number = *numbers.entry(ptr::from_ref(part)).or_insert(within.len());
            if number == within.len() {
                within.push(all_in(part));
                open.extend(within[number].iter().cloned());
            }
            parts.insert(to, number);
        }
        let led_to = |is_taken: fn(&Reference) -> bool| -> Vec<Vec<usize>> {
            let taken_from = |within: &Vec<Reference>| {
                let taken = within.iter().filter(|reference| is_taken(reference));
                taken.filter_map(|reference| parts.get(&reference.to).copied()).collect()
            };
            within.iter().map(taken_from).collect()
        };
        let everywhere = led_to(|_| true);
        let groups = grouped(&everywhere);
        let is_circular = |(part, to): (usize, &Vec<usize>)| {
            to.iter().any(|other| groups[*other] == groups[part])
        };
        let are_circular = everywhere.iter().enumerate().map(is_circular).collect();
        let groups_in_place = grouped(&led_to(|reference| reference.is_in_place));
        Self { parts, are_circular, groups_in_place }
    }

    pub(super) fn is_circular(&self, pointer: &str) -> bool {
        self.parts.get(pointer).is_some_and(|part| self.are_circular[*part])
    }

    /// Whether a validator that follows a reference from one part to another, about the same
    /// value, would come back without an end.
    pub(super) fn is_endless(&self, from: &str, to: &str) -> bool {
        let group = |pointer| self.parts.get(pointer).map(|part| self.groups_in_place[*part]);
        group(from) == group(to)
    }
}

/// Finds the group of each part: a group's parts all lead to each other. `led_to` has the parts
/// that each one leads to. (Kosaraju's algorithm for strongly connected components.)
fn grouped(led_to: &[Vec<usize>]) -> Vec<usize> {
    let mut order = Vec::new();
    let mut seen = vec![false; led_to.len()];
    for part in 0..led_to.len() {
        follow(part, led_to, &mut seen, &mut order);
    }
    let mut led_from: Vec<Vec<usize>> = vec![Vec::new(); led_to.len()];
    for (part, others) in led_to.iter().enumerate() {
        for other in others {
            led_from[*other].push(part);
        }
    }
    // From the last part backwards, nothing leads out of its group but to groups that are known.
    let mut groups = vec![0; led_to.len()];
    seen.fill(false);
    for part in order.into_iter().rev() {
        let mut group = Vec::new();
        follow(part, &led_from, &mut seen, &mut group);
        for member in group {
            groups[member] = part;
        }
    }
    groups
}

/// Goes from a part to all that were not yet seen, and notes each behind those that it leads to.
fn follow(from: usize, led_to: &[Vec<usize>], seen: &mut [bool], noted: &mut Vec<usize>) {
    if seen[from] {
        return;
    }
    seen[from] = true;
    let mut open = vec![(from, led_to[from].iter())];
    while let Some((part, others)) = open.last_mut() {
        match others.next() {
            Some(other) if !seen[*other] => {
                seen[*other] = true;
                open.push((*other, led_to[*other].iter()));
            }
            Some(_) => {}
            None => {
                noted.push(*part);
                open.pop();
            }
        }
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
                    // What is no keyword is not expanded.
                    (Members::Keywords, None) if !takes_parts(name) => {}
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

    #[test]
    fn m5_a_part_with_many_names_is_one_part() {
        // `~` and `~0` are the same in a pointer.
        let sign = |name: usize, place: usize| if name >> place & 1 == 0 { "~" } else { "~0" };
        let name = |name: usize| (0..10).map(|place| sign(name, place)).collect::<String>();
        let to = |name: &str| json!({ "$ref": format!("#/$defs/{name}") });
        let to_itself: Vec<Value> = (0..1_000).map(|at| to(&name(at))).collect();
        let (first, to_first) = (name(0), vec![to(&name(0)); 400]);
        let schema = json!({
            "properties": { "a": to("x") },
            "$defs": {
                first: { "allOf": to_itself },
                "x": { "allOf": to_first, "properties": { "x": to("x") } },
            },
        });
        let found = References::of(&schema);
        assert_eq!(found.are_circular, [true, true]);
        let [x, one, other] = ["x", &name(1), &name(999)].map(|name| format!("/$defs/{name}"));
        assert!(found.is_endless(&one, &other) && !found.is_endless(&x, &one));
    }
}
