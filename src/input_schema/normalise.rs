//! Converts arguments to the types of their schema, where the meaning is certain.

use serde_json::{Map, Number, Value};

use super::unrolled::resolved;

/// 2^53. Doubles represent every integer up to this one exactly.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// How many choices within choices of a schema are looked at.
const MAX_CHOICES: usize = 8;

/// Whose tool the arguments are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conventions {
    /// One of ours: its schema is flat, and some names always mean the same.
    Ours,
    /// Somebody else's: nothing is known but its schema, whose only references are those of parts
    /// that refer to themselves.
    Foreign,
}

/// Optional properties that are dropped if they are empty. An empty path or glob means none.
const EMPTY_IS_NONE: [&str; 3] = ["path", "glob", "type"];

/// Properties with ids that are text and look like numbers.
const NUMBERED: [&str; 3] = ["taskId", "addBlocks", "addBlockedBy"];

/// Converts integers written as whole floats or as digits, ids written as integers, and booleans,
/// lists and objects written as text. Drops `null` and empty paths of optional properties. Removes
/// unknown keys and returns their names.
pub(super) fn normalise(
    schema: &Value,
    arguments: &mut Value,
    conventions: Conventions,
) -> Vec<String> {
    let mut walk = Walk { root: schema, conventions, unknown: Vec::new() };
    walk.convert(schema, arguments, "");
    walk.unknown
}

struct Walk<'a> {
    /// The whole schema, in which what refers to itself is defined.
    root: &'a Value,
    conventions: Conventions,
    unknown: Vec<String>,
}

impl Walk<'_> {
    fn convert(&mut self, schema: &Value, value: &mut Value, path: &str) {
        let root = self.root;
        let schema = resolved(root, only_choice(resolved(root, schema)));
        if let Some(meant) = value.as_str().and_then(|text| meant_by_text(root, schema, text)) {
            *value = meant;
        }
        let schema = choice_for(root, schema, value);
        match (kind_of(schema), value) {
            (Some("integer"), value) => {
                if let Some(integer) = integer(value) {
                    *value = integer;
                }
            }
            (Some("boolean"), value) => match value.as_str() {
                Some("true") => *value = true.into(),
                Some("false") => *value = false.into(),
                _ => {}
            },
            (Some("array"), Value::Array(items)) => {
                let first = schema["prefixItems"].as_array().map_or(&[][..], Vec::as_slice);
                for (index, item) in items.iter_mut().enumerate() {
                    let schema = first.get(index).unwrap_or(&schema["items"]);
                    self.convert(schema, item, &format!("{path}[{index}]"));
                }
            }
            (Some("object"), Value::Object(members)) if !self.is_any_object(schema, path) => {
                self.convert_members(schema, members, path);
            }
            _ => {}
        }
    }

    fn convert_members(&mut self, schema: &Value, members: &mut Map<String, Value>, path: &str) {
        let properties = schema["properties"].as_object();
        if let Some(properties) = properties {
            self.keep_known(schema, properties, members, path);
        }
        for (name, member) in members {
            if self.conventions == Conventions::Ours && NUMBERED.contains(&name.as_str()) {
                id_as_text(member);
            }
            let property = properties.and_then(|properties| properties.get(name));
            let others = || Some(&schema["additionalProperties"]).filter(|it| it.is_object());
            if let Some(property) = property.or_else(others) {
                self.convert(property, member, &joined(path, name));
            }
        }
    }

    /// Whether an object within somebody else's arguments may be any: they write one that lists
    /// no properties for that, where a tool without arguments has the same at the top.
    fn is_any_object(&self, schema: &Value, path: &str) -> bool {
        let has_none = schema["properties"].as_object().is_some_and(Map::is_empty);
        let is_closed = schema["additionalProperties"] == false;
        self.conventions == Conventions::Foreign && !path.is_empty() && has_none && !is_closed
    }

    fn keep_known(
        &mut self,
        schema: &Value,
        properties: &Map<String, Value>,
        members: &mut Map<String, Value>,
        path: &str,
    ) {
        let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
        let is_foreign = self.conventions == Conventions::Foreign;
        let takes_others = is_foreign && takes_others(schema);
        members.retain(|name, value| {
            let Some(property) = properties.get(name) else {
                if !takes_others && !name.starts_with('_') {
                    self.unknown.push(joined(path, name));
                }
                return takes_others;
            };
            let is_none = if is_foreign {
                value.is_null() && !takes_null(resolved(self.root, property))
            } else {
                let may_be_empty = || EMPTY_IS_NONE.contains(&name.as_str());
                value.is_null() || (value.as_str() == Some("") && may_be_empty())
            };
            !is_none || required.iter().any(|needed| needed == name)
        });
    }
}

/// The one alternative that takes a list or object like this one, where there are several.
fn choice_for<'s>(root: &'s Value, schema: &'s Value, value: &Value) -> &'s Value {
    let kind = match value {
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        _ => return schema,
    };
    if !schema["type"].is_null() || !schema["properties"].is_null() {
        return schema;
    }
    let choices = [&schema["anyOf"], &schema["oneOf"]].into_iter().find_map(Value::as_array);
    let choices = choices.into_iter().flatten().map(|choice| resolved(root, choice));
    let mut fitting = choices.filter(|choice| takes(root, choice, kind) == Some(true));
    match (fitting.next(), fitting.next()) {
        (Some(only), None) => only,
        _ => schema,
    }
}

/// The list or object that a text stands for, where the schema takes one and no text. The
/// whole text must be its JSON, which may be quoted once more.
fn meant_by_text(root: &Value, schema: &Value, text: &str) -> Option<Value> {
    let is_quoted = text.trim_start().starts_with('"');
    let unquoted: Option<String> = if is_quoted { serde_json::from_str(text).ok() } else { None };
    let text = unquoted.as_deref().unwrap_or(text);
    let kind = match text.trim_start().as_bytes().first() {
        Some(b'[') => "array",
        Some(b'{') => "object",
        _ => return None,
    };
    let is_wanted =
        takes(root, schema, kind) == Some(true) && takes(root, schema, "string") == Some(false);
    if !is_wanted {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// Whether the schema takes values of this type; `None` where it does not say.
fn takes(root: &Value, schema: &Value, kind: &str) -> Option<bool> {
    takes_within(root, schema, kind, MAX_CHOICES)
}

/// `levels`: so many choices within choices are looked at.
fn takes_within(root: &Value, schema: &Value, kind: &str, levels: usize) -> Option<bool> {
    let schema = resolved(root, schema);
    let names = |value: &Value| value.as_str() == Some(kind);
    match &schema["type"] {
        Value::String(only) => return Some(only == kind),
        Value::Array(kinds) => return Some(kinds.iter().any(names)),
        _ => {}
    }
    let levels = levels.checked_sub(1)?;
    let members = |keyword: &str| schema[keyword].as_array();
    if let Some(choices) = members("anyOf").or_else(|| members("oneOf")) {
        let each = choices.iter().map(|choice| takes_within(root, choice, kind, levels));
        let known = each.collect::<Option<Vec<bool>>>()?;
        return Some(known.contains(&true));
    }
    if let Some(all) = members("allOf") {
        let mut each = all.iter().map(|part| takes_within(root, part, kind, levels));
        return each.find_map(|takes| takes);
    }
    // A schema that lists properties is one of objects, and one with items one of lists.
    let implied = [("properties", "object"), ("items", "array"), ("prefixItems", "array")];
    let implied = implied.into_iter().find(|(keyword, _)| !schema[*keyword].is_null());
    implied.map(|(_, implied)| implied == kind)
}

/// The one alternative to null, where that is what the schema says, or the one part of it.
fn only_choice(schema: &Value) -> &Value {
    let choices = ["anyOf", "oneOf", "allOf"].map(|keyword| &schema[keyword]);
    let choices = choices.into_iter().find_map(Value::as_array);
    let mut choices = choices.into_iter().flatten().filter(|choice| choice["type"] != "null");
    match (choices.next(), choices.next()) {
        (Some(only), None) if schema["type"].is_null() => only,
        _ => schema,
    }
}

/// The type of all values but null. `None`: there are several, or any.
fn kind_of(schema: &Value) -> Option<&str> {
    match &schema["type"] {
        Value::String(kind) => Some(kind),
        Value::Array(kinds) => {
            let mut kinds = kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null");
            kinds.next().filter(|_| kinds.next().is_none())
        }
        // A schema that lists properties is one of objects, and one with items one of lists.
        _ if schema["properties"].is_object() => Some("object"),
        _ => (schema["items"].is_object() || schema["prefixItems"].is_array()).then_some("array"),
    }
}

/// Whether an object of this schema may have members that it does not list.
fn takes_others(schema: &Value) -> bool {
    let open = |name: &str| matches!(&schema[name], Value::Bool(true) | Value::Object(_));
    open("additionalProperties")
        || open("unevaluatedProperties")
        || ["patternProperties", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"]
            .into_iter()
            .any(|keyword| !schema[keyword].is_null())
}

/// Whether null is one of the values.
fn takes_null(schema: &Value) -> bool {
    let is_null = |kind: &Value| kind == "null";
    let by_type = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().any(is_null),
        kind => is_null(kind),
    };
    let choices = ["anyOf", "oneOf"].into_iter().filter_map(|keyword| schema[keyword].as_array());
    let by_enum = schema["enum"].as_array().is_some_and(|values| values.iter().any(Value::is_null));
    by_type || by_enum || choices.flatten().any(takes_null)
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Converts `5` to `"5"`, also as one of several.
fn id_as_text(value: &mut Value) {
    if let Value::Array(items) = value {
        items.iter_mut().for_each(id_as_text);
    } else if value.is_number() {
        let whole = integer(value).unwrap_or_else(|| value.clone());
        if whole.is_u64() || whole.is_i64() {
            *value = whole.to_string().into();
        }
    }
}

/// Converts `5.0` and `"5"` to `5`. `None` if the value is an integer already, or cannot be
/// read as one.
fn integer(value: &Value) -> Option<Value> {
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().filter(|float| float.abs() <= MAX_EXACT)?;
            (float.fract() == 0.0).then(|| exact(float))
        }
        Value::String(text) => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let number: Option<Number> = text
                .parse::<i64>()
                .map(Number::from)
                .or_else(|_| text.parse::<u64>().map(Number::from))
                .ok();
            number.filter(|_| plain).map(Value::Number)
        }
        _ => None,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "whole, and within the exact range")]
fn exact(float: f64) -> Value {
    Value::from(float as i64)
}
