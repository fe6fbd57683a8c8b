//! Leads references that lead nowhere to what they can only mean, and mends what others lead to in
//! places that hold no schemas of their own, such as `components`.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::keywords::{Members, SCHEMA_LISTS, holds_schemas};
use super::references::pointer_of;

/// What is mended may hold further references.
const MAX_ROUNDS: usize = 4;

/// The schemas around a reference that may be the document it is about.
const MAX_AROUND: usize = 32;

/// Where the definitions of a document stand, by pointers.
const DEFINITIONS: [&str; 5] =
    ["/$defs", "/definitions", "/components/schemas", "/components", "/schemas"];

/// A schema that refers to something, and what it refers to.
struct Referrer {
    /// The pointer to the schema.
    at: String,
    reference: String,
}

/// Settles all references of a schema whose known places are mended. `mend` mends one part.
pub(super) fn settle(schema: &mut Value, mend: impl Fn(&Value) -> Value) {
    let mut mended = HashSet::new();
    for _ in 0..MAX_ROUNDS {
        let referrers = referrers_in(schema);
        let moved: Vec<Referrer> =
            referrers.iter().filter_map(|referrer| moved(schema, referrer)).collect();
        for Referrer { at, reference } in &moved {
            if let Some(members) = schema.pointer_mut(at).and_then(Value::as_object_mut) {
                members.insert("$ref".to_owned(), reference.as_str().into());
            }
        }
        let unmended: Vec<String> = referrers
            .iter()
            .chain(&moved)
            .filter_map(|referrer| unmended_target(schema, &referrer.reference))
            .filter(|target| mended.insert(in_one_spelling(target)))
            .collect();
        if unmended.is_empty() {
            return;
        }
        for target in unmended {
            if let Some(part) = schema.pointer_mut(&target) {
                *part = mend(part);
            }
        }
    }
}

fn referrers_in(schema: &Value) -> Vec<Referrer> {
    let mut found = Vec::new();
    collect(schema, Members::Keywords, &mut String::new(), &mut found);
    found
}

fn collect(value: &Value, members: Members, at: &mut String, found: &mut Vec<Referrer>) {
    let length = at.len();
    match value {
        _ if members == Members::Data => {}
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                at.push('/');
                at.push_str(&index.to_string());
                collect(item, members, at, found);
                at.truncate(length);
            }
        }
        Value::Object(map) => {
            if members == Members::Keywords
                && let Some(Value::String(reference)) = map.get("$ref")
            {
                found.push(Referrer { at: at.clone(), reference: reference.clone() });
            }
            for (name, member) in map {
                at.push('/');
                at.push_str(&token(name));
                collect(member, members.below(name), at, found);
                at.truncate(length);
            }
        }
        _ => {}
    }
}

/// The same schema with a reference to what is there, where its own leads nowhere.
fn moved(schema: &Value, referrer: &Referrer) -> Option<Referrer> {
    let Referrer { at, reference } = referrer;
    let pointer = pointer_of(reference);
    if pointer.as_ref().is_some_and(|pointer| schema.pointer(pointer).is_some()) {
        return None;
    }
    let pointer = pointer.filter(|pointer| pointer.starts_with('/'));
    let target = pointer
        .and_then(|pointer| around(schema, at, &pointer))
        .or_else(|| by_name(schema, reference))?;
    let reference = format!("#{}", target.replace('%', "%25"));
    Some(Referrer { at: at.clone(), reference })
}

/// What a pointer leads to from one of the schemas around a place: it was a document of its own
/// before it was put there, with its definitions.
fn around(schema: &Value, place: &str, pointer: &str) -> Option<String> {
    let mut outer = place;
    for _ in 0..MAX_AROUND {
        let target = format!("{outer}{pointer}");
        if schema.pointer(&target).is_some() {
            return Some(target);
        }
        outer = &outer[..outer.rfind('/')?];
    }
    None
}

/// The definition of the document that has the name with which a reference ends.
fn by_name(schema: &Value, reference: &str) -> Option<String> {
    let fragment = pointer_of(reference);
    let name = fragment.as_deref().unwrap_or(reference).rsplit(['/', '#']).next()?;
    let targets = DEFINITIONS.into_iter().map(|place| format!("{place}/{name}"));
    let mut targets = targets.filter(|_| !name.is_empty());
    targets.find(|target| schema.pointer(target).is_some_and(Value::is_object))
}

/// The pointer of what a reference leads to, where it was not mended because it stands under a
/// keyword that is not known.
fn unmended_target(schema: &Value, reference: &str) -> Option<String> {
    let pointer = pointer_of(reference)?;
    schema.pointer(&pointer).filter(|_| !is_in_known_place(schema, &pointer))?;
    Some(pointer.into_owned())
}

fn is_in_known_place(schema: &Value, pointer: &str) -> bool {
    let (mut value, mut members) = (schema, Members::Keywords);
    for token in pointer.split('/').skip(1) {
        let name = name_of(token);
        match value {
            Value::Object(map) => {
                if members == Members::Data || !is_known(members, map, &name) {
                    return false;
                }
                members = members.below(&name);
                value = &map[&name];
            }
            other => match name.parse::<usize>().ok().and_then(|index| other.get(index)) {
                Some(item) => value = item,
                None => return false,
            },
        }
    }
    members != Members::Data
}

fn is_known(members: Members, map: &Map<String, Value>, name: &str) -> bool {
    let Some(member) = map.get(name) else { return false };
    let is_list = member.is_array();
    members == Members::Schemas
        || holds_schemas(name) && (!is_list || SCHEMA_LISTS.contains(&name) || name == "items")
}

/// A name as a part of a pointer.
fn token(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn name_of(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

/// A pointer in the one spelling that it has for all that mean the same.
fn in_one_spelling(pointer: &str) -> String {
    pointer.split('/').map(|part| token(&name_of(part))).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::mend::mended;

    #[track_caller]
    fn check(written: &serde_json::Value, reference: &str) {
        let found = mended(written);
        assert_eq!(found["properties"]["a"]["$ref"], reference, "{found}");
    }

    #[test]
    fn outside_01_a_reference_that_leads_nowhere_leads_to_what_has_its_name() {
        let a = |reference: &str| json!({ "a": { "$ref": reference } });
        for reference in ["#/definitions/F", "#/components/schemas/F", "F", "#F", "x.json#/$defs/F"]
        {
            let schema =
                json!({ "properties": a(reference), "$defs": { "F": { "type": "null" } } });
            check(&schema, "#/$defs/F");
        }
        let schema = json!({ "properties": a("#/$defs/a%20b%25"), "definitions": { "a b%": {} } });
        check(&schema, "#/definitions/a b%25");
        check(&json!({ "properties": a("#/$defs/F") }), "#/$defs/F");
        check(&json!({ "properties": a("https://a.example/s") }), "https://a.example/s");
    }

    #[test]
    fn outside_01_a_document_inside_of_another_one_keeps_its_definitions() {
        let inner = json!({
            "$ref": "#/$defs/F",
            "$defs": { "F": { "items": { "$ref": "#/$defs/G" } }, "G": { "type": "text" } },
        });
        let found = mended(&json!({ "properties": { "a": inner } }));
        let expected = json!({ "properties": { "a": {
            "$ref": "#/properties/a/$defs/F",
            "$defs": {
                "F": { "items": { "$ref": "#/properties/a/$defs/G" } }, "G": { "type": "string" },
            },
        } } });
        assert_eq!(found, expected);
    }

    #[test]
    fn outside_01_what_stands_under_other_keywords_is_mended_where_it_is_used() {
        let schema = json!({
            "$ref": "#/components/schemas/A",
            "components": { "schemas": {
                "A": { "properties": { "b": { "$ref": "#/components/schemas/B" } } },
                "B": { "type": "STRING", "nullable": true, "properties": [] },
                "C": { "type": "STRING" },
            } },
        });
        let found = mended(&schema);
        let schemas = &found["components"]["schemas"];
        assert_eq!(
            schemas["B"],
            json!({ "type": ["string", "null"], "nullable": true, "properties": {} })
        );
        assert_eq!(schemas["C"], json!({ "type": "STRING" }));
    }
}
