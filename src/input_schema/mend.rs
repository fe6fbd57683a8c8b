//! Mends the schema of somebody else's tool, where what is wrong with it can mean only one thing:
//! an empty list for an empty object, null for what is absent, a keyword as an older dialect has
//! it. What means nothing is left out.

use std::collections::HashMap;

use serde_json::{Map, Number, Value};

use super::keywords::{Members, SCHEMA_LISTS, SCHEMAS};
use super::targets;

const LIMITS: [&str; 4] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];

const COUNTS: [&str; 8] = [
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minContains",
    "maxContains",
];

const TEXTS: [&str; 2] = ["description", "format"];

/// Names of places that a reference may use in the place of a pointer. They mean nothing else.
const ANCHORS: [&str; 4] = ["$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary"];

/// Keywords that allow and forbid nothing. `$id` would be part of the path of each keyword, and
/// `$schema` could name a dialect that is not known: what is mended is of the latest.
const IGNORED: [&str; 6] = ["$id", "id", "$schema", "$comment", "title", "examples"];

/// The types of schemas, each with the names that other languages give it.
const TYPES: [(&str, &[&str]); 7] = [
    ("string", &["str", "text", "char", "date", "datetime", "date-time", "uuid", "uri", "url"]),
    ("integer", &["int", "int32", "int64", "long", "uint"]),
    ("number", &["float", "double", "decimal", "num"]),
    ("boolean", &["bool"]),
    ("array", &["list", "tuple", "set"]),
    ("object", &["dict", "map", "record", "struct", "json"]),
    ("null", &["none", "nil"]),
];

/// Brings the schema into a form that a validator takes.
pub(super) fn mended(schema: &Value) -> Value {
    let mut anchors = HashMap::new();
    note_anchors(schema, &mut String::new(), &mut anchors);
    let own_address = schema["$id"].as_str().map(|id| id.trim_end_matches('#').to_owned());
    let mending = Mending { anchors, own_address };
    let mut mended = mending.schema(schema);
    targets::settle(&mut mended, |part| mending.schema(part));
    mended
}

/// What is known of the whole schema while its parts are mended.
struct Mending {
    /// Pointers by the names of anchors.
    anchors: HashMap<String, String>,
    /// The address that the document gives itself.
    own_address: Option<String>,
}

/// Collects the pointers of all anchors, whatever kind of members they stand among: an anchor that
/// no reference names does no harm.
fn note_anchors(value: &Value, pointer: &mut String, anchors: &mut HashMap<String, String>) {
    let length = pointer.len();
    match value {
        Value::Object(members) => {
            for keyword in ["$anchor", "$dynamicAnchor"] {
                if let Some(Value::String(name)) = members.get(keyword) {
                    anchors.entry(name.clone()).or_insert_with(|| pointer.clone());
                }
            }
            for (name, member) in members {
                pointer.push('/');
                pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
                note_anchors(member, pointer, anchors);
                pointer.truncate(length);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                pointer.push('/');
                pointer.push_str(&index.to_string());
                note_anchors(item, pointer, anchors);
                pointer.truncate(length);
            }
        }
        _ => {}
    }
}

impl Mending {
    /// A schema, or what stands in its place.
    fn schema(&self, written: &Value) -> Value {
        match written {
            Value::Object(members) => Value::Object(self.members(members)),
            Value::Bool(allows) => Value::Bool(*allows),
            Value::String(text) if text == "false" => Value::Bool(false),
            // The name of a type alone.
            Value::String(name) => kind(name).map_or_else(
                || Value::Object(Map::new()),
                |kind| serde_json::json!({ "type": kind }),
            ),
            // Languages without objects of their own write an empty one as a list.
            _ => Value::Object(Map::new()),
        }
    }

    fn members(&self, written: &Map<String, Value>) -> Map<String, Value> {
        let by_name = with_properties_by_name(written);
        let written = by_name.as_ref().unwrap_or(written);
        let mut members = Map::new();
        for (keyword, value) in written {
            let is_data = ["const", "default"].contains(&keyword.as_str());
            if is_data {
                members.insert(keyword.clone(), value.clone());
            } else if !value.is_null()
                && let Some(value) = self.keyword(keyword, value)
            {
                members.insert(keyword.clone(), value);
            }
        }
        self.put_reference(written, &mut members);
        put_required_of_properties(written, &mut members);
        put_exclusive_limits(written, &mut members);
        put_tuple(&mut members);
        put_dependencies(&mut members);
        put_null(written, &mut members);
        drop_contradiction(&mut members);
        members
    }

    /// The value of a keyword. `None`: it means nothing.
    fn keyword(&self, keyword: &str, value: &Value) -> Option<Value> {
        match keyword {
            "type" => kinds(value),
            "enum" => values(value),
            "required" => names(value),
            "dependentRequired" => Some(Value::Object(
                value
                    .as_object()?
                    .iter()
                    .filter_map(|(name, of)| Some((name.clone(), names(of)?)))
                    .collect(),
            )),
            "multipleOf" => number(value).filter(|number| number.as_f64() > Some(0.0)),
            "uniqueItems" => flag(value),
            // They are put back where they can be followed.
            "$ref" | "$dynamicRef" | "$recursiveRef" => None,
            "items" if value.is_array() => Some(self.tuple(value.as_array()?)),
            _ if ANCHORS.contains(&keyword) || IGNORED.contains(&keyword) => None,
            _ if SCHEMAS.contains(&keyword) => self.one_schema(value),
            _ if SCHEMA_LISTS.contains(&keyword) => self.schema_list(keyword, value.as_array()?),
            _ if Members::Keywords.below(keyword) == Members::Schemas => {
                self.schema_map(keyword, value)
            }
            _ if LIMITS.contains(&keyword) => number(value),
            _ if COUNTS.contains(&keyword) => count(value),
            "pattern" => value.as_str().map(|pattern| of_ecmascript(pattern).into()),
            _ if TEXTS.contains(&keyword) => value.is_string().then(|| value.clone()),
            _ => Some(value.clone()),
        }
    }

    /// The value as a schema. `None`: it is none at all, and so forbids nothing.
    fn one_schema(&self, value: &Value) -> Option<Value> {
        let is_schema = value.is_object()
            || value.is_boolean()
            || value == "false"
            || value.as_array().is_some_and(Vec::is_empty);
        is_schema.then(|| self.schema(value))
    }

    /// A list of schemas for the items of a list. An empty one is what a schema without keywords
    /// looks like.
    fn tuple(&self, items: &[Value]) -> Value {
        if items.is_empty() {
            return Value::Object(Map::new());
        }
        items.iter().map(|item| self.schema(item)).collect()
    }

    fn schema_list(&self, keyword: &str, schemas: &[Value]) -> Option<Value> {
        let is_choice = keyword == "anyOf" || keyword == "oneOf";
        let schema = |written: &Value| match written {
            Value::Null if is_choice => Some(serde_json::json!({ "type": "null" })),
            Value::Null => None,
            written => Some(self.schema(written)),
        };
        let mended: Vec<Value> = schemas.iter().filter_map(schema).collect();
        (!mended.is_empty()).then(|| mended.into())
    }

    fn schema_map(&self, keyword: &str, value: &Value) -> Option<Value> {
        let Value::Object(written) = value else {
            let is_empty = value.as_array().is_some_and(Vec::is_empty);
            return is_empty.then(|| Value::Object(Map::new()));
        };
        let mut schemas = Map::new();
        for (name, schema) in written {
            let schema = match schema {
                // Names of properties that this one needs.
                Value::Array(_) if keyword == "dependencies" => names(schema),
                Value::Null if keyword != "properties" => None,
                schema => Some(self.schema(schema)),
            };
            if let Some(schema) = schema {
                schemas.insert(name.clone(), schema);
            }
        }
        Some(schemas.into())
    }

    /// Each kind of reference as a pointer into the document, where it is one.
    fn put_reference(&self, written: &Map<String, Value>, members: &mut Map<String, Value>) {
        let reference = ["$ref", "$dynamicRef", "$recursiveRef"]
            .into_iter()
            .find_map(|keyword| written.get(keyword)?.as_str());
        let Some(reference) = reference else { return };
        let fragment = self.own_address.as_deref().and_then(|own| reference.strip_prefix(own));
        let reference = match fragment {
            Some("") => "#",
            Some(fragment) if fragment.starts_with('#') => fragment,
            _ => reference,
        };
        let anchor = reference.strip_prefix('#').and_then(|name| self.anchors.get(name));
        let reference = match anchor {
            Some(pointer) => format!("#{pointer}"),
            None => reference.to_owned(),
        };
        members.insert("$ref".to_owned(), reference.into());
    }
}

/// One type or several, by the names that they have in schemas. `None`: any.
fn kinds(value: &Value) -> Option<Value> {
    match each_once(kinds_of(Some(value))?).as_slice() {
        [] => None,
        [only] => Some((*only).into()),
        several => Some(several.into()),
    }
}

/// The types that a value names. `None`: any.
pub(super) fn kinds_of(value: Option<&Value>) -> Option<Vec<&'static str>> {
    let kinds: Vec<&'static str> = match value? {
        Value::String(name) => vec![kind(name)?],
        // One that is not known, or is a schema, may be anything.
        Value::Array(names) => {
            let name = |name: &Value| match name {
                Value::String(name) => kind(name),
                Value::Null => Some("null"),
                _ => None,
            };
            names.iter().map(name).collect::<Option<_>>()?
        }
        _ => return None,
    };
    (!kinds.is_empty()).then_some(kinds)
}

fn kind(name: &str) -> Option<&'static str> {
    let name = name.trim().to_ascii_lowercase();
    let known =
        TYPES.iter().find(|(kind, others)| *kind == name || others.contains(&name.as_str()));
    known.map(|(kind, _)| *kind)
}

fn values(value: &Value) -> Option<Value> {
    let Value::Array(written) = value else { return None };
    let values = each_once(written.clone());
    (!values.is_empty()).then(|| values.into())
}

/// Names of properties, each once.
fn names(value: &Value) -> Option<Value> {
    let names: Vec<&str> = match value {
        // Of the property itself, as a text.
        Value::String(_) if flag(value).is_some() => return None,
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    Some(each_once(names).into())
}

/// The items without repeats, in their order.
fn each_once<T: PartialEq>(items: Vec<T>) -> Vec<T> {
    let mut seen = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}

fn number(value: &Value) -> Option<Value> {
    match value {
        Value::Number(_) => Some(value.clone()),
        Value::String(text) => text.trim().parse::<Number>().ok().map(Value::Number),
        _ => None,
    }
}

fn count(value: &Value) -> Option<Value> {
    let number = number(value)?;
    let is_count = number.as_f64().is_some_and(|count| 0.0 <= count && count.fract() == 0.0);
    is_count.then_some(number)
}

fn flag(value: &Value) -> Option<Value> {
    match value {
        Value::Bool(_) => Some(value.clone()),
        Value::String(text) => text.trim().to_ascii_lowercase().parse().ok().map(Value::Bool),
        _ => None,
    }
}

/// A pattern as ECMAScript has it, where another language has other signs for its ends.
fn of_ecmascript(pattern: &str) -> String {
    let pattern = without_delimiters(pattern);
    let pattern = match pattern.strip_prefix("\\A") {
        Some(rest) => format!("^{rest}"),
        None => pattern,
    };
    let end = ["\\Z", "\\z"].into_iter().find_map(|end| pattern.strip_suffix(end));
    match end.filter(|before| !before.ends_with('\\')) {
        Some(before) => format!("{before}$"),
        None => pattern,
    }
}

/// A pattern that stands between slashes, as some languages write one, without them. In front of
/// `^` or behind `$`, a slash could match nothing. Flags that mean something are put inside.
fn without_delimiters(pattern: &str) -> String {
    let inside = pattern.strip_prefix('/').and_then(|rest| rest.rsplit_once('/'));
    let Some((inside, flags)) = inside else { return pattern.to_owned() };
    let is_delimited = inside.starts_with('^') || inside.ends_with('$') && !inside.ends_with("\\$");
    if !is_delimited || !flags.chars().all(|flag| "dgimsuvyxUAD".contains(flag)) {
        return pattern.to_owned();
    }
    let flags: String = flags.chars().filter(|flag| "imsx".contains(*flag)).collect();
    if flags.is_empty() { inside.to_owned() } else { format!("(?{flags}:{inside})") }
}

/// The members with the properties by their names, where they stand in a list.
fn with_properties_by_name(written: &Map<String, Value>) -> Option<Map<String, Value>> {
    let listed = written.get("properties")?.as_array().filter(|listed| !listed.is_empty())?;
    let mut properties = Map::new();
    for property in listed {
        let mut property = property.as_object()?.clone();
        let Some(Value::String(name)) = property.shift_remove("name") else { return None };
        properties.insert(name, property.into());
    }
    let mut members = written.clone();
    members.insert("properties".to_owned(), properties.into());
    Some(members)
}

/// Values that are none of their own type would forbid every call: then the type is wrong, or null
/// stands for values that are absent.
fn drop_contradiction(members: &mut Map<String, Value>) {
    let kinds: Vec<String> = match members.get("type") {
        Some(Value::String(kind)) => vec![kind.clone()],
        Some(Value::Array(kinds)) => {
            kinds.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        _ => return,
    };
    let fits = |value: &Value| kinds.iter().any(|kind| is_of(kind, value));
    for keyword in ["const", "enum"] {
        let values = match members.get(keyword) {
            Some(Value::Array(values)) if keyword == "enum" => values.as_slice(),
            Some(value) => std::slice::from_ref(value),
            None => continue,
        };
        if values.iter().any(fits) {
            continue;
        }
        let is_absent = values.iter().all(Value::is_null);
        members.shift_remove(if is_absent { keyword } else { "type" });
    }
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "string" => value.is_string(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => value.is_null(),
    }
}

/// Before the fourth draft each property said of itself that it is required. Some put the names of
/// those that are beside the properties.
fn put_required_of_properties(written: &Map<String, Value>, members: &mut Map<String, Value>) {
    let Some(Value::Object(properties)) = written.get("properties") else { return };
    let is_required = |property: &Value| flag(&property["required"]) == Some(Value::Bool(true));
    let required = properties.iter().filter(|(_, property)| is_required(property));
    let mut required: Vec<Value> = required.map(|(name, _)| name.as_str().into()).collect();
    if let Some(Value::Array(misplaced)) = properties.get("required")
        && let Some(Value::Object(kept)) = members.get_mut("properties")
        && misplaced.iter().all(|name| name.as_str().is_some_and(|name| kept.contains_key(name)))
    {
        kept.shift_remove("required");
        required.extend(misplaced.iter().cloned());
    }
    if required.is_empty() {
        return;
    }
    if let Some(Value::Array(known)) = members.get("required") {
        required.extend(known.iter().cloned());
    }
    if let Some(required) = names(&required.into()) {
        members.insert("required".to_owned(), required);
    }
}

/// Takes `exclusiveMinimum: true` for what it means in the fourth draft: that the limit itself is
/// excluded.
fn put_exclusive_limits(written: &Map<String, Value>, members: &mut Map<String, Value>) {
    for (exclusive, limit) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if written.get(exclusive).and_then(flag) == Some(Value::Bool(true))
            && let Some(limit) = members.shift_remove(limit)
        {
            members.insert(exclusive.to_owned(), limit);
        }
    }
}

/// Moves a list of schemas for the first items, which stood under `items` until 2019.
fn put_tuple(members: &mut Map<String, Value>) {
    if !members.get("items").is_some_and(Value::is_array) {
        return;
    }
    if let Some(first) = members.shift_remove("items") {
        members.entry("prefixItems").or_insert(first);
    }
    if let Some(rest) = members.shift_remove("additionalItems") {
        members.insert("items".to_owned(), rest);
    }
}

/// Splits `dependencies`, which until 2019 held what are two keywords now.
fn put_dependencies(members: &mut Map<String, Value>) {
    let Some(Value::Object(written)) = members.shift_remove("dependencies") else { return };
    let (names, schemas): (Map<_, _>, Map<_, _>) =
        written.into_iter().partition(|(_, of)| of.is_array());
    for (keyword, of) in [("dependentRequired", names), ("dependentSchemas", schemas)] {
        if !of.is_empty() {
            members.entry(keyword).or_insert(of.into());
        }
    }
}

/// Adds null to the values where `nullable` says so, as `OpenAPI` does beside the type.
fn put_null(written: &Map<String, Value>, members: &mut Map<String, Value>) {
    if written.get("nullable").and_then(flag) != Some(Value::Bool(true)) {
        return;
    }
    match members.get_mut("type") {
        Some(Value::Array(kinds)) if !kinds.iter().any(|kind| kind == "null") => {
            kinds.push("null".into());
        }
        Some(kind @ Value::String(_)) if kind != "null" => {
            *kind = serde_json::json!([kind.take(), "null"]);
        }
        _ => return,
    }
    if let Some(Value::Array(values)) = members.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(written: &Value, expected: &Value) {
        assert_eq!(mended(written), *expected);
    }

    #[test]
    fn outside_04_an_empty_list_is_an_empty_object_where_one_belongs() {
        check(&json!([]), &json!({}));
        check(
            &json!({ "properties": [], "patternProperties": [], "$defs": [], "items": [],
                "additionalProperties": [], "required": [] }),
            &json!({ "properties": {}, "patternProperties": {}, "$defs": {}, "items": {},
                "additionalProperties": {}, "required": [] }),
        );
        check(
            &json!({ "properties": { "a": [], "b": { "properties": [] } } }),
            &json!({ "properties": { "a": {}, "b": { "properties": {} } } }),
        );
    }

    #[test]
    fn outside_05_null_is_absent_and_stays_where_it_is_a_value() {
        check(
            &json!({ "required": null, "enum": null, "additionalProperties": null, "type": null,
                "minimum": null, "$ref": null, "anyOf": null, "default": null, "const": null }),
            &json!({ "default": null, "const": null }),
        );
        check(
            &json!({ "properties": { "a": null }, "$defs": { "a": null }, "enum": ["a", null],
                "anyOf": [null, { "type": "string" }], "allOf": [null] }),
            &json!({ "properties": { "a": {} }, "$defs": {}, "enum": ["a", null],
                "anyOf": [{ "type": "null" }, { "type": "string" }] }),
        );
    }

    #[test]
    fn older_dialects_and_other_languages_are_read() {
        check(
            &json!({ "minimum": 1, "exclusiveMinimum": true, "maximum": 5, "exclusiveMaximum": false }),
            &json!({ "maximum": 5, "exclusiveMinimum": 1 }),
        );
        check(
            &json!({ "items": [{ "type": "int" }, []], "additionalItems": false }),
            &json!({ "prefixItems": [{ "type": "integer" }, {}], "items": false }),
        );
        check(
            &json!({ "properties": { "a": { "required": true }, "b": { "required": false } } }),
            &json!({ "properties": { "a": {}, "b": {} }, "required": ["a"] }),
        );
        check(
            &json!({ "properties": { "a": "string", "required": ["a"] } }),
            &json!({ "properties": { "a": { "type": "string" } }, "required": ["a"] }),
        );
        check(
            &json!({ "type": "STRING", "nullable": true, "enum": ["a", "a"] }),
            &json!({ "type": ["string", "null"], "nullable": true, "enum": ["a", null] }),
        );
        check(
            &json!({ "type": ["Int", "integer"], "minimum": "3", "minLength": -1, "maxLength": "9" }),
            &json!({ "type": "integer", "minimum": 3, "maxLength": 9 }),
        );
    }

    #[test]
    fn what_means_nothing_is_left_out() {
        check(
            &json!({ "type": "any", "enum": [], "required": 5, "pattern": 5, "multipleOf": 0,
                "properties": "none", "anyOf": [], "format": {}, "additionalProperties": "x",
                "$anchor": "a", "description": 7, "x-of-theirs": 5 }),
            &json!({ "x-of-theirs": 5 }),
        );
        check(
            &json!({ "required": ["a", "a", 5], "type": ["string", "money"] }),
            &json!({ "required": ["a"] }),
        );
        check(
            &json!({ "$schema": "http://json-schema.org/draft-07/schema#", "title": "x", "id": "a",
                "dependencies": { "a": ["b"], "c": { "required": ["d"] } } }),
            &json!({ "dependentRequired": { "a": ["b"] },
                "dependentSchemas": { "c": { "required": ["d"] } } }),
        );
    }

    #[test]
    fn outside_04_05_what_contradicts_itself_or_is_of_another_kind_is_read() {
        check(
            &json!({ "properties": { "a": { "type": "string", "required": "true" },
                "b": { "required": "false" }, "c": { "type": ["string", { "type": "object" }] },
                "d": { "type": ["string", null] }, "e": { "type": { "type": "string" } } },
                "required": true }),
            &json!({ "properties": { "a": { "type": "string" }, "b": {}, "c": {},
                "d": { "type": ["string", "null"] }, "e": {} }, "required": ["a"] }),
        );
        check(
            &json!({ "properties": [
                { "name": "a", "type": "string", "required": true }, { "name": "b" },
            ] }),
            &json!({ "properties": { "a": { "type": "string" }, "b": {} }, "required": ["a"] }),
        );
        check(&json!({ "properties": ["a"] }), &json!({}));
        check(&json!({ "type": "integer", "enum": ["1", "2"] }), &json!({ "enum": ["1", "2"] }));
        check(&json!({ "type": "string", "const": null }), &json!({ "type": "string" }));
        check(&json!({ "type": "string", "enum": [null] }), &json!({ "type": "string" }));
        check(
            &json!({ "type": "number", "enum": [1, 2.5] }),
            &json!({ "type": "number", "enum": [1, 2.5] }),
        );
    }

    #[test]
    fn outside_03_a_pattern_between_slashes_is_what_stands_between_them() {
        for (written, meant) in [
            ("/^[a-z]+$/", "^[a-z]+$"),
            ("/^a\\/b/u", "^a\\/b"),
            ("/[a-z]$/i", "(?i:[a-z]$)"),
            ("/api/", "/api/"),
            ("^/api/", "^/api/"),
            ("/^a$/what", "/^a$/what"),
            ("/", "/"),
            ("\\Aabc\\Z", "^abc$"),
            ("\\Aabc\\z", "^abc$"),
            ("abc\\\\Z", "abc\\\\Z"),
        ] {
            check(&json!({ "pattern": written }), &json!({ "pattern": meant }));
        }
    }

    #[test]
    fn references_by_name_become_pointers() {
        check(
            &json!({ "$id": "https://a.example/s", "properties": {
                "a": { "$dynamicRef": "#node" }, "b": { "$recursiveRef": "#" },
                "c": { "$ref": "https://a.example/s#/properties/a" },
                "d/e": { "$anchor": "node", "type": "string" },
                "$ref": { "type": "string" },
            } }),
            &json!({ "properties": {
                "a": { "$ref": "#/properties/d~1e" }, "b": { "$ref": "#" },
                "c": { "$ref": "#/properties/a" },
                "d/e": { "type": "string" },
                "$ref": { "type": "string" },
            } }),
        );
    }
}
