//! Rewrites a derived schema into a form that every provider's translation keeps.
//!
//! Some translations drop references, combinators and other keywords, together with the
//! property that contains them. The flattened schema has none of these.

use serde_json::{Map, Value};

/// Keywords that a model does not need and that some translation changes.
const DROPPED: [&str; 10] = [
    "$schema",
    "$id",
    "title",
    "format",
    "examples",
    "additionalProperties",
    "unevaluatedProperties",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "uniqueItems",
];

pub(super) fn flatten(root: &mut Value) {
    flatten_schema(root);
    if let Value::Object(root) = root {
        // The doc comment of the input type itself is for programmers.
        root.shift_remove("description");
        root.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    }
}

fn flatten_schema(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    unwrap_option(schema);
    join_variants(schema);
    for keyword in DROPPED {
        schema.shift_remove(keyword);
    }
    if schema.get("default").is_some_and(Value::is_null) {
        schema.shift_remove("default");
    }
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = unwrapped(description);
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(flatten_schema);
    }
    if let Some(items) = schema.get_mut("items") {
        flatten_schema(items);
    }
}

/// Replaces `T or null` with `T`. An optional property may be left out instead.
fn unwrap_option(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.retain(|choice| choice["type"] != "null");
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            schema.shift_remove("anyOf");
            for (key, value) in only {
                schema.entry(key).or_insert(value);
            }
        }
    }
}

/// Replaces `oneOf` of constants with `enum`. An enum whose variants have doc comments is
/// derived in this form.
fn join_variants(schema: &mut Map<String, Value>) {
    let Some(Value::Array(variants)) = schema.get("oneOf") else { return };
    let mut names = Vec::new();
    for variant in variants {
        match (variant.get("const"), variant.get("enum")) {
            (Some(name), _) => names.push(name.clone()),
            (None, Some(Value::Array(several))) => names.extend(several.iter().cloned()),
            // Not an enum of plain names. Left as it is, it fails the test over all definitions.
            _ => return,
        }
    }
    schema.shift_remove("oneOf");
    schema.insert("type".to_owned(), "string".into());
    schema.insert("enum".to_owned(), names.into());
}

/// Joins the lines of a doc comment, which are broken for editors only.
fn unwrapped(description: &str) -> String {
    let paragraphs = description.split("\n\n");
    paragraphs.map(|text| text.replace('\n', " ")).collect::<Vec<_>>().join("\n\n")
}
