//! Takes out of the schema of somebody else's tool what a person would not see and a model reads.

use serde_json::{Map, Value};

use super::SchemaFault;

/// Cleans an advertised schema. Descriptions may be changed. A default, a pattern or one of several
/// values means something to who validates it, so it is left out instead; a schema that cannot do
/// without is refused.
pub(super) fn make_visible(
    schema: &mut Value,
    clean: &dyn Fn(&str) -> String,
) -> Result<(), SchemaFault> {
    let Value::Object(schema) = schema else { return Ok(()) };
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = clean(description);
    }
    for keyword in ["default", "pattern"] {
        if schema.get(keyword).is_some_and(|value| !is_visible(value, clean)) {
            schema.shift_remove(keyword);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| is_visible(value, clean));
        if values.is_empty() {
            return Err(SchemaFault::Hidden);
        }
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        make_properties_visible(properties, clean)?;
    }
    schema.get_mut("items").map_or(Ok(()), |items| make_visible(items, clean))
}

fn make_properties_visible(
    properties: &mut Map<String, Value>,
    clean: &dyn Fn(&str) -> String,
) -> Result<(), SchemaFault> {
    for (name, property) in properties {
        if clean(name) != *name {
            return Err(SchemaFault::Hidden);
        }
        make_visible(property, clean)?;
    }
    Ok(())
}

fn is_visible(value: &Value, clean: &dyn Fn(&str) -> String) -> bool {
    match value {
        Value::String(text) => clean(text) == *text,
        Value::Array(values) => values.iter().all(|value| is_visible(value, clean)),
        Value::Object(members) => {
            members.iter().all(|(name, value)| clean(name) == *name && is_visible(value, clean))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn visible(property: &Value) -> Result<Value, SchemaFault> {
        let mut schema = json!({ "type": "object", "properties": { "p": property } });
        make_visible(&mut schema, &|text| text.replace('\u{202e}', ""))?;
        Ok(schema["properties"]["p"].take())
    }

    #[test]
    fn m3_a_description_is_cleaned_and_what_means_something_is_left_out() {
        let property = json!({
            "type": "array", "default": ["a\u{202e}"], "items": {
                "type": "string", "description": "One\u{202e}.", "pattern": "\u{202e}",
                "enum": ["a", "a\u{202e}"], "default": "a",
            },
        });
        let expected = json!({
            "type": "array", "items": {
                "type": "string", "description": "One.", "enum": ["a"], "default": "a",
            },
        });
        assert_eq!(visible(&property), Ok(expected));
    }

    #[test]
    fn m3_a_schema_whose_names_or_only_values_are_hidden_is_refused() {
        let name = json!({ "type": "object", "properties": { "a\u{202e}": { "type": "string" } } });
        let values = json!({ "type": "string", "enum": ["a\u{202e}"] });
        for property in [name, values] {
            assert_eq!(visible(&property), Err(SchemaFault::Hidden));
        }
    }
}
