//! Rewrites the schema of somebody else's tool into a form that every provider's translation
//! keeps, for the model to read. The arguments are validated against the whole schema.

use serde_json::{Map, Value, json};

/// Keywords that all translations keep.
const KEPT: [&str; 11] = [
    "type",
    "description",
    "required",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "default",
];

/// Values of an enum that a note lists.
const MAX_LISTED: usize = 30;

/// The object schema that is advertised. It has no references. Its description is what of it
/// translations lose.
pub(super) fn simplified(schema: &Value) -> Value {
    let mut whole = schema.clone();
    whole["type"] = "object".into();
    if let Value::Object(members) = &mut whole {
        members.shift_remove("description");
        members.shift_remove("default");
    }
    of(&whole)
}

fn of(schema: &Value) -> Value {
    let Value::Object(written) = schema else {
        // `true`: any value.
        return json!({ "type": "string" });
    };
    let mut notes = Vec::new();
    let schema = merged(written, &mut notes);
    let kind = kind_of(&schema);
    let other_kinds: Vec<&str> =
        kinds_in(&schema).filter_map(known_kind).filter(|other| *other != kind).collect();
    if !other_kinds.is_empty() {
        notes.push(also_of(&other_kinds));
    }
    let mut simple = Map::new();
    simple.insert("type".to_owned(), kind.into());
    for keyword in KEPT.into_iter().filter(|keyword| *keyword != "type") {
        let value = schema.get(keyword).filter(|value| !value.is_null());
        let Some(value) = value.filter(|value| fits(keyword, value)) else { continue };
        match value.as_str().filter(|pattern| keyword == "pattern" && !is_portable(pattern)) {
            Some(pattern) => notes.push(format!("Matches the pattern {pattern}")),
            None => {
                simple.insert(keyword.to_owned(), value.clone());
            }
        }
    }
    if let Some(values) = values_of(&schema) {
        add_values(&mut simple, kind, &values, &mut notes);
    }
    for (exclusive, word) in [("exclusiveMinimum", "more"), ("exclusiveMaximum", "less")] {
        if let Some(limit) = schema.get(exclusive).filter(|limit| limit.is_number()) {
            notes.push(format!("Must be {word} than {limit}."));
        }
    }
    if kind == "string"
        && let Some(Value::String(format)) = schema.get("format")
    {
        notes.push(format!("Format: {format}."));
    }
    match kind {
        "object" => add_properties(&mut simple, &schema),
        "array" => {
            let items = schema.get("items").map_or_else(|| json!({ "type": "string" }), of);
            simple.insert("items".to_owned(), items);
        }
        _ => {}
    }
    describe(&mut simple, &notes);
    Value::Object(simple)
}

/// Whether every provider takes the pattern. Some refuse the whole request for one that is not of the
/// whole text, or in which a bracket or a brace stands for itself.
fn is_portable(pattern: &str) -> bool {
    let (mut in_class, mut is_escaped, mut is_whole) = (false, false, false);
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_last = letters.peek().is_none();
        match letter {
            _ if std::mem::take(&mut is_escaped) => {}
            '\\' => is_escaped = true,
            '[' if in_class => return false,
            '[' => in_class = true,
            ']' if in_class => in_class = false,
            ']' => return false,
            '{' if !in_class && !letters.peek().is_some_and(char::is_ascii_digit) => return false,
            '$' if !in_class => is_whole = is_last,
            _ => {}
        }
    }
    is_whole && pattern.starts_with('^')
}

fn add_properties(simple: &mut Map<String, Value>, schema: &Map<String, Value>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties: Map<String, Value> = properties
        .into_iter()
        .flatten()
        .map(|(name, property)| (name.clone(), of(property)))
        .collect();
    if let Some(Value::Array(required)) = simple.get_mut("required") {
        required.retain(|name| name.as_str().is_some_and(|name| properties.contains_key(name)));
        if required.is_empty() {
            simple.shift_remove("required");
        }
    }
    simple.insert("properties".to_owned(), Value::Object(properties));
}

/// Advertises the allowed values, or tells them where some translation changes them.
fn add_values(
    simple: &mut Map<String, Value>,
    kind: &str,
    values: &[Value],
    notes: &mut Vec<String>,
) {
    let texts: Vec<&Value> =
        values.iter().filter(|value| value.as_str().is_some_and(|text| !text.is_empty())).collect();
    if kind == "string" && texts.len() == values.len() {
        simple.insert("enum".to_owned(), json!(texts));
        return;
    }
    let listed: Vec<String> = values.iter().take(MAX_LISTED).map(Value::to_string).collect();
    notes.push(format!("One of: {}.", listed.join(", ")));
}

/// The schema with what all or one of its parts say in it. Of several choices the first one
/// that is not null is advertised, and the others are told.
fn merged(schema: &Map<String, Value>, notes: &mut Vec<String>) -> Map<String, Value> {
    let mut merged = schema.clone();
    for part in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        let Value::Object(part) = part else { continue };
        add_part(&mut merged, &self::merged(part, notes));
    }
    for keyword in ["anyOf", "oneOf"] {
        let choices = schema.get(keyword).and_then(Value::as_array);
        let choices: Vec<&Map<String, Value>> = choices
            .into_iter()
            .flatten()
            .filter_map(Value::as_object)
            .filter(|choice| choice.get("type").is_none_or(|kind| kind != "null"))
            .collect();
        let values: Option<Vec<Value>> = choices
            .iter()
            .map(|choice| values_of(choice))
            .collect::<Option<Vec<_>>>()
            .map(|lists| lists.concat());
        if let (Some(values), false) = (values, choices.is_empty()) {
            merged.entry("enum").or_insert(values.into());
            continue;
        }
        let Some((first, others)) = choices.split_first() else { continue };
        let is_object = |choice: &Map<String, Value>| {
            let is_part =
                schema.contains_key("properties") || kinds_in(schema).any(|it| it == "object");
            is_part && !choice.contains_key("type") || kind_of(choice) == "object"
        };
        if !others.is_empty() && choices.iter().all(|choice| is_object(choice)) {
            let choices: Vec<_> =
                choices.iter().map(|choice| self::merged(choice, notes)).collect();
            notes.push(forms_of(&choices));
            add_part(&mut merged, &union_of(&choices));
            continue;
        }
        add_part(&mut merged, &self::merged(first, notes));
        let kinds: Vec<&str> = others.iter().map(|choice| kind_of(choice)).collect();
        if !kinds.is_empty() {
            notes.push(also_of(&kinds));
        }
    }
    merged
}

fn also_of(kinds: &[&str]) -> String {
    format!("May also be of the form: {}.", kinds.join(", "))
}

/// One object for several: it has the properties of all, and only what each requires is required.
fn union_of(choices: &[Map<String, Value>]) -> Map<String, Value> {
    let mut properties = Map::new();
    for (name, property) in choices.iter().flat_map(properties_of) {
        let known = properties.entry(name.clone()).or_insert_with(|| property.clone());
        add_values_of(known, property);
    }
    let mut in_all: Vec<&str> = choices.first().into_iter().flat_map(required_by).collect();
    in_all.retain(|name| choices.iter().all(|choice| required_by(choice).any(|it| it == *name)));
    let mut union = Map::new();
    if !properties.is_empty() {
        union.insert("properties".to_owned(), properties.into());
    }
    if !in_all.is_empty() {
        union.insert("required".to_owned(), in_all.into());
    }
    union
}

/// A property that has other values in another choice may have those as well.
fn add_values_of(known: &mut Value, property: &Value) {
    let (Value::Object(known), Value::Object(property)) = (known, property) else { return };
    let (Some(mut values), Some(more)) = (values_of(known), values_of(property)) else { return };
    let new: Vec<Value> = more.into_iter().filter(|value| !values.contains(value)).collect();
    if !new.is_empty() {
        values.extend(new);
        known.shift_remove("const");
        known.insert("enum".to_owned(), values.into());
    }
}

/// What each of several objects requires, in words.
fn forms_of(choices: &[Map<String, Value>]) -> String {
    let form = |choice: &Map<String, Value>| {
        let member = |name: &str| match properties_of(choice).find(|(other, _)| *other == name) {
            Some((_, Value::Object(property))) => match property.get("const") {
                Some(value) => format!("{name}: {value}"),
                None => name.to_owned(),
            },
            _ => name.to_owned(),
        };
        let members: Vec<String> = required_by(choice).map(member).collect();
        if members.is_empty() { "nothing".to_owned() } else { members.join(", ") }
    };
    let forms: Vec<String> = choices.iter().take(MAX_LISTED).map(form).collect();
    format!("Of several forms; what each requires: {}.", forms.join("; or "))
}

fn properties_of(schema: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

fn required_by(schema: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let required = schema.get("required").and_then(Value::as_array);
    required.into_iter().flatten().filter_map(Value::as_str)
}

/// The types that are written.
fn kinds_in(schema: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let kinds = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.as_slice(),
        Some(kind) => std::slice::from_ref(kind),
        None => &[],
    };
    kinds.iter().filter_map(Value::as_str)
}

fn add_part(whole: &mut Map<String, Value>, part: &Map<String, Value>) {
    for (name, value) in part {
        match (whole.get_mut(name), value) {
            (Some(Value::Object(known)), Value::Object(more)) if name == "properties" => {
                for (property, schema) in more {
                    known.entry(property.clone()).or_insert_with(|| schema.clone());
                }
            }
            (Some(Value::Array(known)), Value::Array(more)) if name == "required" => {
                let new: Vec<Value> =
                    more.iter().filter(|name| !known.contains(name)).cloned().collect();
                known.extend(new);
            }
            (Some(_), _) => {}
            (None, value) => {
                whole.insert(name.clone(), value.clone());
            }
        }
    }
}

/// The values that an enum or a constant allows, without null.
fn values_of(schema: &Map<String, Value>) -> Option<Vec<Value>> {
    if let Some(only) = schema.get("const") {
        return Some(vec![only.clone()]);
    }
    let Some(Value::Array(values)) = schema.get("enum") else { return None };
    Some(values.iter().filter(|value| !value.is_null()).cloned().collect())
}

/// The type to advertise: the one that is written, else the one that the rest implies.
fn kind_of(schema: &Map<String, Value>) -> &'static str {
    let written = kinds_in(schema).find(|kind| *kind != "null");
    if let Some(kind) = written.and_then(known_kind) {
        return kind;
    }
    let first = values_of(schema).and_then(|values| values.first().cloned());
    match first {
        Some(Value::Bool(_)) => "boolean",
        Some(Value::Number(number)) if number.is_f64() => "number",
        Some(Value::Number(_)) => "integer",
        _ if schema.contains_key("properties") => "object",
        _ if schema.contains_key("items") => "array",
        _ if schema.contains_key("minimum") || schema.contains_key("maximum") => "number",
        _ => "string",
    }
}

fn known_kind(kind: &str) -> Option<&'static str> {
    ["string", "integer", "number", "boolean", "array", "object"]
        .into_iter()
        .find(|known| *known == kind)
}

/// Whether a keyword has a value of the kind that it should.
fn fits(keyword: &str, value: &Value) -> bool {
    match keyword {
        "description" | "pattern" => value.is_string(),
        "required" => value.is_array(),
        "default" => !value.is_object() && !value.is_array(),
        _ => value.is_number(),
    }
}

fn describe(simple: &mut Map<String, Value>, notes: &[String]) {
    if notes.is_empty() {
        return;
    }
    let written = simple.get("description").and_then(Value::as_str).unwrap_or_default();
    let sentences: Vec<&str> = std::iter::once(written.trim_end())
        .filter(|text| !text.is_empty())
        .chain(notes.iter().map(String::as_str))
        .collect();
    let whole = sentences.join(" ");
    simple.insert("description".to_owned(), whole.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(property: &Value, expected: &Value) {
        let schema = json!({ "properties": { "p": property } });
        assert_eq!(simplified(&schema)["properties"]["p"], *expected);
    }

    #[test]
    fn every_property_has_one_type() {
        check(&json!({}), &json!({ "type": "string" }));
        check(&json!(true), &json!({ "type": "string" }));
        check(&json!({ "type": ["null", "integer"] }), &json!({ "type": "integer" }));
        check(
            &json!({ "type": "array" }),
            &json!({ "type": "array", "items": { "type": "string" } }),
        );
        check(
            &json!({ "items": { "type": "number" } }),
            &json!({ "type": "array", "items": { "type": "number" } }),
        );
        check(&json!({ "properties": {} }), &json!({ "type": "object", "properties": {} }));
        check(&json!({ "type": "any" }), &json!({ "type": "string" }));
    }

    #[test]
    fn what_translations_lose_is_told_in_words() {
        check(
            &json!({ "type": "integer", "enum": [1, 2], "description": "Level." }),
            &json!({ "type": "integer", "description": "Level. One of: 1, 2." }),
        );
        check(
            &json!({ "enum": ["", "a"] }),
            &json!({ "type": "string", "description": "One of: \"\", \"a\"." }),
        );
        check(&json!({ "const": "a" }), &json!({ "type": "string", "enum": ["a"] }));
        check(
            &json!({ "type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 5 }),
            &json!({ "type": "number", "description": "Must be more than 0. Must be less than 5." }),
        );
        check(
            &json!({ "type": "string", "format": "date", "title": "Day", "examples": ["x"] }),
            &json!({ "type": "string", "description": "Format: date." }),
        );
    }

    #[test]
    fn outside_03_a_pattern_that_some_provider_refuses_is_told_in_words() {
        for pattern in ["^[a-z]+$", "^\\d{4}-\\d{2}$", "^(a|b)$", "^[a-z{}$]*$", "^\\[x\\]$", "^$"]
        {
            check(
                &json!({ "type": "string", "pattern": pattern }),
                &json!({ "type": "string", "pattern": pattern }),
            );
        }
        for pattern in
            ["[a-z]+", "^a", "a$", "^a\\$", "^[+\\-=[\\]{}]*$", "^a]$", "^{a}$", "^a$b", "x"]
        {
            check(
                &json!({ "type": "string", "pattern": pattern }),
                &json!({ "type": "string", "description": format!("Matches the pattern {pattern}") }),
            );
        }
    }

    #[test]
    fn choices_become_one_form() {
        check(
            &json!({ "anyOf": [{ "type": "null" }, { "type": "string", "minLength": 1 }], "default": null }),
            &json!({ "type": "string", "minLength": 1 }),
        );
        check(
            &json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] }),
            &json!({ "type": "string", "description": "May also be of the form: array." }),
        );
        check(
            &json!({ "oneOf": [{ "const": "a" }, { "const": "b" }] }),
            &json!({ "type": "string", "enum": ["a", "b"] }),
        );
        check(
            &json!({ "allOf": [
                { "properties": { "a": { "type": "string" } }, "required": ["a"] },
                { "properties": { "b": { "type": "boolean" } } },
            ] }),
            &json!({
                "type": "object", "required": ["a"],
                "properties": { "a": { "type": "string" }, "b": { "type": "boolean" } },
            }),
        );
    }

    #[test]
    fn of_several_objects_no_more_is_required_than_each_requires() {
        let op = |name: &str, more: &str| {
            json!({
                "type": "object", "required": ["op", more],
                "properties": { "op": { "const": name }, more: { "type": "string" } },
            })
        };
        check(
            &json!({ "oneOf": [op("add", "value"), op("del", "key")] }),
            &json!({
                "type": "object", "required": ["op"],
                "properties": {
                    "op": { "type": "string", "enum": ["add", "del"] },
                    "value": { "type": "string" }, "key": { "type": "string" },
                },
                "description": "Of several forms; what each requires: op: \"add\", value; or op: \"del\", key.",
            }),
        );
        let properties = json!({ "id": { "type": "string" }, "name": { "type": "string" } });
        let either = json!([{ "required": ["id"] }, { "required": ["name"] }]);
        assert_eq!(
            simplified(&json!({ "properties": properties, "anyOf": either, "description": "d" })),
            json!({
                "type": "object", "properties": properties,
                "description": "Of several forms; what each requires: id; or name.",
            })
        );
        check(
            &json!({ "type": ["integer", "string", "null"], "description": "It." }),
            &json!({ "type": "integer", "description": "It. May also be of the form: string." }),
        );
    }

    #[test]
    fn the_whole_is_an_object_with_properties() {
        let schema =
            json!({ "description": "d", "additionalProperties": false, "required": ["x"] });
        assert_eq!(simplified(&schema), json!({ "type": "object", "properties": {} }));
    }
}
