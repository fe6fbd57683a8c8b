//! Knows which members of a schema are schemas again, and which are data.

use serde_json::{Map, Value};

/// Keywords with one schema.
pub(super) const SCHEMAS: [&str; 12] = [
    "items",
    "additionalProperties",
    "additionalItems",
    "unevaluatedProperties",
    "unevaluatedItems",
    "contains",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
    "contentSchema",
];

/// Keywords with a list of schemas.
pub(super) const SCHEMA_LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];

/// Keywords whose schemas are about the same value as the schema around them.
const IN_PLACE: [&str; 9] =
    ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"];

/// The kind of an object's members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Members {
    /// Keywords of a schema.
    Keywords,
    /// Schemas by name.
    Schemas,
    /// Values, which are no schemas whatever they look like.
    Data,
}

impl Members {
    /// The kind of what is in the value of a member.
    pub(super) fn below(self, name: &str) -> Self {
        match (self, name) {
            (Self::Data, _)
            | (Self::Keywords, "enum" | "const" | "default" | "examples" | "dependentRequired") => {
                Self::Data
            }
            (
                Self::Keywords,
                "properties" | "patternProperties" | "dependentSchemas" | "dependencies" | "$defs"
                | "definitions",
            ) => Self::Schemas,
            (Self::Keywords | Self::Schemas, _) => Self::Keywords,
        }
    }
}

/// Whether a list or an object under this keyword means something.
pub(super) fn takes_parts(keyword: &str) -> bool {
    ["type", "required"].contains(&keyword)
        || holds_schemas(keyword)
        || Members::Keywords.below(keyword) == Members::Data
}

/// Whether what stands under this keyword is a schema, or several.
pub(super) fn holds_schemas(keyword: &str) -> bool {
    SCHEMAS.contains(&keyword)
        || SCHEMA_LISTS.contains(&keyword)
        || Members::Keywords.below(keyword) == Members::Schemas
}

/// Whether what stands under a keyword is about the value itself, and not about a part of it.
pub(super) fn is_in_place(keyword: &str) -> bool {
    IN_PLACE.contains(&keyword)
}

/// Changes each schema in a schema, the inner ones first.
pub(super) fn change_each(schema: &mut Value, change: &mut impl FnMut(&mut Map<String, Value>)) {
    change_below(schema, Members::Keywords, change);
}

fn change_below(
    value: &mut Value,
    members: Members,
    change: &mut impl FnMut(&mut Map<String, Value>),
) {
    match value {
        _ if members == Members::Data => {}
        Value::Array(items) => {
            for item in items {
                change_below(item, members, change);
            }
        }
        Value::Object(map) => {
            for (name, member) in map.iter_mut() {
                change_below(member, members.below(name), change);
            }
            if members == Members::Keywords {
                change(map);
            }
        }
        _ => {}
    }
}

/// Looks at each schema in a schema.
pub(super) fn for_each(schema: &Value, look: &mut impl FnMut(&Map<String, Value>)) {
    look_below(schema, Members::Keywords, look);
}

fn look_below(value: &Value, members: Members, look: &mut impl FnMut(&Map<String, Value>)) {
    match value {
        _ if members == Members::Data => {}
        Value::Array(items) => {
            for item in items {
                look_below(item, members, look);
            }
        }
        Value::Object(map) => {
            for (name, member) in map {
                look_below(member, members.below(name), look);
            }
            if members == Members::Keywords {
                look(map);
            }
        }
        _ => {}
    }
}
