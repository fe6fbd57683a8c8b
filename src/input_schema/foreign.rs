//! Checks the schema of somebody else's tool before it is compiled, and puts what it refers to in
//! the place of each reference.
//!
//! Such a schema is untrusted input: it could be huge, refer to itself or to an address, or hold
//! patterns that take memory or time.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

/// The most bytes of such a schema.
const MAX_BYTES: usize = 64 << 10;

/// How deep it may nest. Deeper ones are no forms that a model could fill in.
const MAX_DEPTH: usize = 32;

/// What a schema may take after references were replaced: references to references multiply what
/// they lead to. Compiled, it takes some ten times as much.
const MAX_SIZE: usize = 1 << 20;

/// What each schema, list and value counts for, beside its text and its path. A compiled keyword
/// holds its path.
const NODE_SIZE: usize = 32;

/// How many schemas with `unevaluatedProperties` or `unevaluatedItems` may lie within each other:
/// each looks at what is within it again, so the time of a validation doubles.
const MAX_UNEVALUATED: usize = 8;

/// Different patterns in one schema.
const MAX_PATTERNS: usize = 64;

/// Keywords that refer to a place, or make a place that can be referred to, in ways that need a
/// search.
const UNSUPPORTED: [&str; 5] =
    ["$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$recursiveAnchor", "$anchor"];

/// Keywords that a model is not told and that allow and forbid nothing. `$id` would be part of the
/// path of each keyword, and `$schema` below the root could name what is not known.
const IGNORED: [&str; 6] = ["$id", "id", "$schema", "$comment", "title", "examples"];

/// The dialects that are known, without the `#` that may follow.
const DIALECTS: [&str; 5] = [
    "json-schema.org/draft/2020-12/schema",
    "json-schema.org/draft/2019-09/schema",
    "json-schema.org/draft-07/schema",
    "json-schema.org/draft-06/schema",
    "json-schema.org/draft-04/schema",
];

/// Why a schema is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SchemaFault {
    #[error("its input schema is no object schema")]
    NoObject,
    #[error("its input schema has more than {MAX_BYTES} bytes")]
    TooLarge,
    #[error("its input schema nests more than {MAX_DEPTH} deep")]
    TooDeep,
    #[error("its input schema takes too much memory, with what its references lead to")]
    TooMuch,
    #[error("its input schema refers to {0}, which is not inside it")]
    Outside(String),
    #[error("its input schema refers to itself, by {0}")]
    Circle(String),
    #[error("its input schema uses {0}, which is not supported")]
    Unsupported(&'static str),
    #[error("its input schema nests `unevaluated…` keywords more than {MAX_UNEVALUATED} deep")]
    Unevaluated,
    #[error(
        "its input schema has more than {MAX_PATTERNS} patterns, or patterns that take too much memory"
    )]
    Patterns,
    #[error("the input schemas of the server's tools take too much memory together")]
    Server,
    #[error("its input schema does not compile: {0}")]
    Invalid(String),
}

/// A schema without references.
pub(super) struct Expanded<'a> {
    pub(super) schema: Value,
    /// What it counts for.
    pub(super) size: usize,
    /// The patterns in it. None is twice there, since each is compiled once.
    pub(super) patterns: Vec<&'a str>,
}

pub(super) fn expanded(schema: &Value) -> Result<Expanded<'_>, SchemaFault> {
    // A size that is counted stops at the limit, whatever the value is.
    if serde_json::to_vec(schema).map_or(true, |bytes| bytes.len() > MAX_BYTES) {
        return Err(SchemaFault::TooLarge);
    }
    if !schema.is_object() || !schema.get("type").is_none_or(has_object) {
        return Err(SchemaFault::NoObject);
    }
    let mut expansion = Expansion { root: schema, open: Vec::new(), size: 0, patterns: Vec::new() };
    let mut expanded = expansion.expand(schema, Place::ROOT)?;
    // Of another dialect nothing is known, and most schemas mean the same in each.
    if let Some(dialect) = schema.get("$schema").filter(|dialect| is_known(dialect)) {
        expanded["$schema"] = dialect.clone();
    }
    let Expansion { size, patterns, .. } = expansion;
    Ok(Expanded { schema: expanded, size, patterns })
}

/// Whether a `type` allows objects.
fn has_object(kind: &Value) -> bool {
    match kind {
        Value::Array(kinds) => kinds.iter().any(|kind| kind == "object"),
        kind => kind == "object",
    }
}

fn is_known(dialect: &Value) -> bool {
    let uri = dialect.as_str().unwrap_or_default().trim_end_matches('#');
    let name = uri.strip_prefix("https://").or_else(|| uri.strip_prefix("http://"));
    name.is_some_and(|name| DIALECTS.contains(&name))
}

struct Expansion<'a> {
    root: &'a Value,
    /// The references that are being replaced, the outermost first.
    open: Vec<Cow<'a, str>>,
    /// What was taken so far.
    size: usize,
    patterns: Vec<&'a str>,
}

/// Where a value stands once references are replaced.
#[derive(Clone, Copy)]
struct Place {
    depth: usize,
    /// The bytes of the path to it.
    path: usize,
    /// The schemas around it that have an `unevaluated…` keyword.
    unevaluated: usize,
    /// What the members of the value are.
    members: Members,
}

impl Place {
    const ROOT: Self = Self { depth: 0, path: 0, unevaluated: 0, members: Members::Keywords };

    /// The place of a member of this name.
    fn of_member(self, name: &str) -> Self {
        let (path, members) = (self.path + 1 + name.len(), self.members.below(name));
        Self { depth: self.depth + 1, path, members, ..self }
    }

    /// The place of an item, or of what is referred to.
    fn deeper(self) -> Self {
        Self { depth: self.depth + 1, path: self.path + 2, ..self }
    }
}

/// What the members of an object are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Members {
    /// Keywords of a schema.
    Keywords,
    /// Schemas by name.
    Schemas,
    /// Values, which are no schemas whatever they look like.
    Data,
}

impl Members {
    /// What is in the value of a member.
    fn below(self, name: &str) -> Self {
        match (self, name) {
            (Self::Data, _)
            | (Self::Keywords, "enum" | "const" | "default" | "dependentRequired") => Self::Data,
            (
                Self::Keywords,
                "properties" | "patternProperties" | "dependentSchemas" | "dependencies",
            ) => Self::Schemas,
            (Self::Keywords | Self::Schemas, _) => Self::Keywords,
        }
    }
}

impl<'a> Expansion<'a> {
    fn expand(&mut self, value: &'a Value, place: Place) -> Result<Value, SchemaFault> {
        self.take(value, place)?;
        if place.depth > MAX_DEPTH {
            return Err(SchemaFault::TooDeep);
        }
        Ok(match value {
            Value::Object(members) if place.members == Members::Keywords => {
                self.expand_schema(members, place)?
            }
            Value::Object(members) => Value::Object(self.expand_members(members, place, |_| true)?),
            Value::Array(items) => {
                let items = items.iter().map(|item| self.expand(item, place.deeper()));
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            _ => value.clone(),
        })
    }

    /// Counts what a value takes, before anything is made of it.
    fn take(&mut self, value: &Value, place: Place) -> Result<(), SchemaFault> {
        let path = if place.members == Members::Data { 0 } else { place.path };
        self.size += NODE_SIZE + path + value.as_str().map_or(0, str::len);
        if self.size > MAX_SIZE { Err(SchemaFault::TooMuch) } else { Ok(()) }
    }

    fn expand_members(
        &mut self,
        members: &'a Map<String, Value>,
        place: Place,
        is_kept: impl Fn(&str) -> bool,
    ) -> Result<Map<String, Value>, SchemaFault> {
        let mut expanded = Map::new();
        for (name, member) in members.iter().filter(|(name, _)| is_kept(name)) {
            self.size += name.len();
            expanded.insert(name.clone(), self.expand(member, place.of_member(name))?);
        }
        Ok(expanded)
    }

    fn expand_schema(
        &mut self,
        members: &'a Map<String, Value>,
        mut place: Place,
    ) -> Result<Value, SchemaFault> {
        let unsupported = UNSUPPORTED.into_iter().find(|name| members.contains_key(*name));
        if let Some(keyword) = unsupported {
            return Err(SchemaFault::Unsupported(keyword));
        }
        if ["unevaluatedProperties", "unevaluatedItems"]
            .iter()
            .any(|name| members.contains_key(*name))
        {
            place.unevaluated += 1;
        }
        if place.unevaluated > MAX_UNEVALUATED {
            return Err(SchemaFault::Unevaluated);
        }
        self.note_patterns(members)?;
        // Definitions are seen where they are used.
        let is_kept = |name: &str| {
            !["$defs", "definitions", "$ref"].contains(&name) && !IGNORED.contains(&name)
        };
        let mut expanded = self.expand_members(members, place, is_kept)?;
        if let Some(reference) = members.get("$ref") {
            let reference = reference.as_str().unwrap_or_default();
            if let Value::Object(target) = self.follow(reference, place)? {
                for (name, member) in target {
                    expanded.entry(name).or_insert(member);
                }
            }
        }
        Ok(Value::Object(expanded))
    }

    fn follow(&mut self, reference: &'a str, place: Place) -> Result<Value, SchemaFault> {
        let named = || crate::text::prefix(reference, 80).escape_debug().to_string();
        let pointer = pointer_of(reference).ok_or_else(|| SchemaFault::Outside(named()))?;
        let target = self.root.pointer(&pointer).ok_or_else(|| SchemaFault::Outside(named()))?;
        if self.open.contains(&pointer) {
            return Err(SchemaFault::Circle(named()));
        }
        self.open.push(pointer);
        let expanded = self.expand(target, Place { members: Members::Keywords, ..place.deeper() });
        self.open.pop();
        expanded
    }

    fn note_patterns(&mut self, members: &'a Map<String, Value>) -> Result<(), SchemaFault> {
        let by_pattern = members.get("patternProperties").and_then(Value::as_object);
        let names = by_pattern.into_iter().flatten().map(|(name, _)| name.as_str());
        for pattern in names.chain(members.get("pattern").and_then(Value::as_str)) {
            if !self.patterns.contains(&pattern) {
                self.patterns.push(pattern);
            }
            if self.patterns.len() > MAX_PATTERNS {
                return Err(SchemaFault::Patterns);
            }
        }
        Ok(())
    }
}

/// The JSON pointer of a reference into the same document. A fragment of an address is percent-encoded.
fn pointer_of(reference: &str) -> Option<Cow<'_, str>> {
    percent_decode_str(reference.strip_prefix('#')?).decode_utf8().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TOO_MUCH: &str =
        "its input schema takes too much memory, with what its references lead to";

    #[track_caller]
    fn check(schema: &Value, expected: &Result<Value, &str>) {
        let found = expanded(schema).map(|expanded| expanded.schema);
        let found = found.map_err(|fault| fault.to_string());
        assert_eq!(found.as_ref().map_err(String::as_str), expected.as_ref().map_err(|text| *text));
    }

    #[test]
    fn references_inside_are_replaced() {
        let schema = json!({
            "type": "object",
            "properties": { "a": { "$ref": "#/$defs/A", "description": "own" }, "b": { "$ref": "#/definitions/B" } },
            "$defs": { "A": { "type": "string", "description": "theirs" } },
            "definitions": { "B": { "items": { "$ref": "#/$defs/A" } } },
        });
        check(
            &schema,
            &Ok(json!({
                "type": "object",
                "properties": {
                    "a": { "description": "own", "type": "string" },
                    "b": { "items": { "type": "string", "description": "theirs" } },
                },
            })),
        );
    }

    #[test]
    fn a_reference_may_be_percent_encoded() {
        let schema = json!({
            "properties": { "p": { "$ref": "#/$defs/a%20b%C3%A9" }, "q": { "$ref": "#/$defs/50%25" } },
            "$defs": { "a bé": { "type": "string" }, "50%": { "type": "number" } },
        });
        let expected =
            json!({ "properties": { "p": { "type": "string" }, "q": { "type": "number" } } });
        check(&schema, &Ok(expected));
        let circle = json!({ "properties": { "a": { "$ref": "#/properties/%61" } } });
        check(&circle, &Err("its input schema refers to itself, by #/properties/%61"));
    }

    #[test]
    fn another_dialect_is_taken_for_the_latest() {
        let of = |dialect: &str| json!({ "$schema": dialect, "properties": {} });
        for known in [
            "https://json-schema.org/draft/2020-12/schema",
            "http://json-schema.org/draft-07/schema#",
        ] {
            check(&of(known), &Ok(of(known)));
        }
        for other in [
            "https://127.0.0.1/json-schema.org",
            "https://json-schema.org/draft-03/schema",
            "https://example.com/json-schema.org/draft-07/schema",
        ] {
            check(&of(other), &Ok(json!({ "properties": {} })));
        }
    }

    #[test]
    fn a_property_may_be_called_like_a_keyword() {
        let schema = json!({
            "properties": { "$ref": { "type": "string" }, "pattern": { "enum": [{ "$ref": "a" }] }, "$anchor": {} },
            "default": { "$ref": "https://example.com" },
            "dependencies": { "default": { "type": "string" }, "title": ["a"] },
            "dependentRequired": { "$ref": ["a"] },
        });
        check(&schema, &Ok(schema.clone()));
    }

    #[test]
    fn m5_circles_and_addresses_are_refused() {
        let of = |reference: &str| {
            json!({
                "properties": { "a": { "$ref": reference } },
                "$defs": { "A": { "properties": { "next": { "$ref": "#/$defs/A" } } }, "X": { "$ref": "#/$defs/Y" }, "Y": { "$ref": "#/$defs/X" } },
            })
        };
        let circle = "its input schema refers to itself, by #/$defs/A";
        check(&of("#/$defs/A"), &Err(circle));
        check(&of("#"), &Err("its input schema refers to itself, by #"));
        for outside in
            ["https://example.com/a.json", "file:///etc/passwd", "a.json", "#/$defs/B", "#a"]
        {
            let fault = format!("its input schema refers to {outside}, which is not inside it");
            check(&json!({ "properties": { "a": { "$ref": outside } } }), &Err(fault.as_str()));
        }
    }

    #[test]
    fn m5_what_is_too_large_too_deep_or_multiplies_is_refused() {
        let mut deep = json!({ "type": "string" });
        for _ in 0..40 {
            deep = json!({ "properties": { "a": deep } });
        }
        check(&deep, &Err("its input schema nests more than 32 deep"));
        let long = json!({ "description": "x".repeat(MAX_BYTES) });
        check(&long, &Err("its input schema has more than 65536 bytes"));
        let mut defs = Map::new();
        defs.insert("d0".into(), json!({ "type": "string" }));
        for level in 1..8 {
            let below = json!({ "$ref": format!("#/$defs/d{}", level - 1) });
            let members: Map<_, _> =
                (0..9).map(|place| (format!("p{place}"), below.clone())).collect();
            defs.insert(format!("d{level}"), json!({ "properties": members }));
        }
        let bomb = json!({ "properties": { "a": { "$ref": "#/$defs/d7" } }, "$defs": defs });
        check(&bomb, &Err(TOO_MUCH));
        let patterns: Map<_, _> = (0..65)
            .map(|place| (format!("p{place}"), json!({ "pattern": place.to_string() })))
            .collect();
        let many = json!({ "properties": patterns });
        let why =
            "its input schema has more than 64 patterns, or patterns that take too much memory";
        check(&many, &Err(why));
        let twice = json!({ "pattern": "a", "patternProperties": { "a": { "pattern": "b" } } });
        assert_eq!(expanded(&twice).map(|found| found.patterns).ok(), Some(vec!["a", "b"]));
    }

    #[test]
    fn m5_what_a_reference_multiplies_is_counted_in_bytes() {
        let times = |count: usize, reference: &str| json!({ "allOf": vec![json!({ "$ref": reference }); count] });
        let of = |text: Value| {
            let defs =
                json!({ "a": text, "b": times(60, "#/$defs/a"), "c": times(40, "#/$defs/b") });
            json!({ "properties": { "p": { "not": { "$ref": "#/$defs/c" } } }, "$defs": defs })
        };
        let long = "x".repeat(30_000);
        check(&of(json!({ "description": long })), &Err(TOO_MUCH));
        check(&of(json!({ "enum": [{ &long: 1 }] })), &Err(TOO_MUCH));
        assert_eq!(expanded(&of(json!({}))).err(), None);
        // What nobody is told costs nothing.
        assert_eq!(expanded(&of(json!({ "title": long }))).err(), None);
    }

    #[test]
    fn m5_a_long_name_counts_for_each_keyword_below_it() {
        let below: Map<_, _> =
            (0..1_000).map(|n| (format!("p{n}"), json!({ "type": "string" }))).collect();
        let of = |name: &str| json!({ "properties": { name: { "properties": below.clone() } } });
        check(&of(&"x".repeat(30_000)), &Err(TOO_MUCH));
        assert_eq!(expanded(&of("x")).err(), None);
        let named =
            json!({ "$id": "http://a/b", "properties": { "id": { "id": "x", "$id": "c" } } });
        check(&named, &Ok(json!({ "properties": { "id": {} } })));
    }

    #[test]
    fn m5_keywords_that_look_at_everything_again_nest_a_few_times() {
        let nested = |depth: usize| {
            (0..depth).fold(json!({}), |inner, _| json!({ "if": inner, "unevaluatedItems": false }))
        };
        assert_eq!(expanded(&nested(8)).err(), None);
        check(&nested(9), &Err("its input schema nests `unevaluated…` keywords more than 8 deep"));
    }

    #[test]
    fn what_is_no_object_schema_is_refused() {
        for schema in [
            json!([]),
            json!(true),
            json!(null),
            json!({ "type": "string" }),
            json!({ "type": ["string", "null"] }),
        ] {
            check(&schema, &Err("its input schema is no object schema"));
        }
        for schema in [json!({}), json!({ "type": ["object", "null"] })] {
            check(&schema, &Ok(schema.clone()));
        }
    }
}
