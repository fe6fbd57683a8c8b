//! Makes arguments that fit a schema.

use jsonschema::Validator;
use serde_json::{Map, Value, json};

/// Texts of which one fits most patterns and formats that there are.
const TEXTS: [&str; 24] = [
    "text",
    "a",
    "abc-123",
    "1",
    "0",
    "12345678",
    "https://example.com/a",
    "user@example.com",
    "2024-01-31",
    "2024-01-31T10:20:30Z",
    "2024-01-31T10:20:30",
    "2024-01-31T10:20:30+00:00",
    "10:20",
    "10:20:30",
    "123e4567-e89b-42d3-a456-426614174000",
    "0123456789abcdef0123456789abcdef",
    "507f1f77bcf86cd799439011",
    "#a0b1c2",
    "example.com",
    "a/b",
    "1.5",
    "PROJ-1",
    "en",
    "key-0123456789-key-0123456789-key-0123456789",
];

/// How deep values are made at most.
const MAX_DEPTH: usize = 12;

/// How much of a schema's properties arguments have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    Required,
    All,
}

/// Makes arguments of one tool.
pub(super) struct Examples<'a> {
    root: &'a Value,
    whole: Option<Validator>,
}

impl<'a> Examples<'a> {
    pub(super) fn of(schema: &'a Value) -> Self {
        Self { root: schema, whole: jsonschema::validator_for(schema).ok() }
    }

    /// Arguments that fit, if some could be made.
    pub(super) fn arguments(&self, extent: Extent) -> Option<Value> {
        let whole = self.whole.as_ref()?;
        let made = self.value(self.root, extent, 0)?;
        (made.is_object() && whole.is_valid(&made)).then_some(made)
    }

    fn resolved(&self, schema: &'a Value) -> &'a Value {
        let pointer = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
        match pointer.and_then(|pointer| self.root.pointer(pointer)) {
            Some(target) => self.resolved(target),
            None => schema,
        }
    }

    /// A value that fits the schema, as far as it is looked at.
    fn value(&self, schema: &'a Value, extent: Extent, depth: usize) -> Option<Value> {
        let schema = self.resolved(schema);
        if MAX_DEPTH < depth {
            return None;
        }
        if let Some(value) = schema.get("const") {
            return Some(value.clone());
        }
        if let Some(values) = schema["enum"].as_array() {
            return values.iter().find(|value| !value.is_null()).or(values.first()).cloned();
        }
        let choices = ["anyOf", "oneOf"].into_iter().find_map(|name| schema[name].as_array());
        if let Some(choices) = choices.filter(|_| schema["properties"].is_null()) {
            let mut values = choices.iter().filter(|choice| choice["type"] != "null");
            return values.find_map(|choice| self.value(choice, extent, depth + 1));
        }
        match kind(schema) {
            "object" => self.object(schema, extent, depth),
            "array" => self.array(schema, extent, depth),
            "boolean" => Some(true.into()),
            "integer" | "number" => number(schema),
            "null" => Some(Value::Null),
            _ => text(schema),
        }
    }

    fn object(&self, schema: &'a Value, extent: Extent, depth: usize) -> Option<Value> {
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut members = Map::new();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let is_required = required.contains(&name.as_str());
            if !is_required && extent == Extent::Required {
                continue;
            }
            match self.value(property, extent, depth + 1) {
                Some(value) => _ = members.insert(name.clone(), value),
                None if is_required => return None,
                None => {}
            }
        }
        let is_open = schema["properties"].is_null() && schema["additionalProperties"] != false;
        if is_open && extent == Extent::All {
            let value = match &schema["additionalProperties"] {
                of @ Value::Object(_) => self.value(of, extent, depth + 1)?,
                _ => json!({ "inner": [1, null] }),
            };
            members.insert("anything".to_owned(), value);
        }
        Some(members.into())
    }

    fn array(&self, schema: &'a Value, extent: Extent, depth: usize) -> Option<Value> {
        let least = schema["minItems"].as_u64().unwrap_or_default();
        let least = if extent == Extent::All { least.max(1) } else { least };
        let items = &schema["items"];
        if let Some(each) = items.as_array() {
            return each.iter().map(|item| self.value(item, extent, depth + 1)).collect();
        }
        (0..least).map(|_| self.value(items, extent, depth + 1)).collect()
    }
}

/// The first type that is not null.
fn kind(schema: &Value) -> &str {
    match &schema["type"] {
        Value::String(kind) => kind,
        Value::Array(kinds) => {
            kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or("null")
        }
        _ if schema["properties"].is_object() => "object",
        _ if schema["items"].is_object() => "array",
        _ => "string",
    }
}

fn number(schema: &Value) -> Option<Value> {
    let validator = jsonschema::validator_for(schema).ok()?;
    let limits = ["minimum", "maximum"].into_iter().filter_map(|name| schema.get(name).cloned());
    let above = schema["exclusiveMinimum"].as_i64().map(|limit| json!(limit + 1));
    let usual = [1, 10, 100, 0, 1_000, 5_000].into_iter().map(Value::from);
    usual.chain(limits).chain(above).find(|number| validator.is_valid(number))
}

fn text(schema: &Value) -> Option<Value> {
    let validator = jsonschema::validator_for(schema).ok()?;
    let least = usize::try_from(schema["minLength"].as_u64().unwrap_or_default()).ok()?;
    let long = "x".repeat(least);
    let texts = TEXTS.into_iter().chain([long.as_str()]).map(Value::from);
    let of_format = match schema["format"].as_str() {
        Some("uri" | "url") => Some("https://example.com/a"),
        Some("email") => Some("user@example.com"),
        Some("date") => Some("2024-01-31"),
        Some("date-time") => Some("2024-01-31T10:20:30Z"),
        Some("uuid") => Some("123e4567-e89b-42d3-a456-426614174000"),
        _ => None,
    };
    let of_format = of_format.into_iter().map(Value::from);
    of_format.chain(texts).find(|text| validator.is_valid(text))
}
