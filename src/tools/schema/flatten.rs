//! Rewrites a derived schema so that nothing of it is lost on the way to a model.
//!
//! Some providers' translations drop references, combinators and a good deal more,
//! and with them the property they stand in. What is left here they all keep.

use serde_json::{Map, Value};

/// Keywords that add nothing a model needs and that some translation changes.
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
        // The input type's own docs are for programmers.
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

/// `T or null` becomes `T`: an optional property is one that may be left out.
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

/// An enum whose variants have docs is derived as `oneOf` of constants.
fn join_variants(schema: &mut Map<String, Value>) {
    let Some(Value::Array(variants)) = schema.get("oneOf") else { return };
    let mut names = Vec::new();
    for variant in variants {
        match (variant.get("const"), variant.get("enum")) {
            (Some(name), _) => names.push(name.clone()),
            (None, Some(Value::Array(several))) => names.extend(several.iter().cloned()),
            // Not an enum of plain names; the test over all definitions objects.
            _ => return,
        }
    }
    schema.shift_remove("oneOf");
    schema.insert("type".to_owned(), "string".into());
    schema.insert("enum".to_owned(), names.into());
}

/// Doc comments are broken into lines for editors, not for models.
fn unwrapped(description: &str) -> String {
    let paragraphs = description.split("\n\n");
    paragraphs.map(|text| text.replace('\n', " ")).collect::<Vec<_>>().join("\n\n")
}
