//! Makes of the schema of somebody else's tool one that can be compiled: what it refers to stands
//! in the place of each reference, but for what refers to itself.
//!
//! Such a schema is untrusted input: it could be huge, refer to an address, or hold patterns that
//! take memory or time.

use std::collections::HashMap;
use std::io;

use serde_json::{Map, Value, json};

use super::budget::SchemaBudget;
use super::fault::{MAX_BYTES, MAX_DEPTH, SchemaFault};
use super::keywords::{self, Members, is_in_place, takes_parts};
use super::mend;
use super::references::{References, pointer_of};

/// What a schema may take after references were replaced: references to references multiply what
/// they lead to. Compiled, it takes some ten times as much.
const MAX_SIZE: usize = 1 << 20;

/// The bytes that each schema, list and value counts for, beside its text and its path. A compiled
/// keyword holds its path.
const NODE_SIZE: usize = 32;

/// The most schemas with `unevaluatedProperties` or `unevaluatedItems` that may lie within each
/// other: each looks at what is within it again, so the time of a validation doubles.
const MAX_UNEVALUATED: usize = 8;

const UNEVALUATED: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];

/// A schema whose references lead to what refers to itself, and nowhere else. They are of the form
/// `#/$defs/NUMBER`.
#[derive(Debug)]
pub(super) struct ExpandedSchema {
    pub(super) schema: Value,
    /// The bytes that it counts for.
    pub(super) size: usize,
    /// The parts that cannot be used, each in words.
    pub(super) left_out: Vec<String>,
    /// The number of schemas that may look at the same value again, where the schema refers to
    /// itself.
    pub(super) branches: usize,
}

/// What it has taken comes out of the budget where it fails.
pub(super) fn expanded(
    schema: &Value,
    budget: &mut SchemaBudget,
) -> Result<ExpandedSchema, SchemaFault> {
    if is_too_long(schema) {
        budget.use_up(MAX_BYTES);
        return Err(SchemaFault::TooLarge);
    }
    let (written, remark) = root_of(schema);
    let mended = mend::mended(&written);
    let mut expansion = Expansion::of(&mended, budget.left());
    match expansion.expand_whole(&mended) {
        Ok(schema) => {
            let Expansion { size, mut left_out, branches, .. } = expansion;
            left_out.extend(remark.map(str::to_owned));
            Ok(ExpandedSchema { schema, size, left_out, branches })
        }
        Err(fault) => {
            budget.use_up(expansion.size);
            Err(fault)
        }
    }
}

/// Whether a schema has more bytes than it may. Counts no further.
fn is_too_long(schema: &Value) -> bool {
    serde_json::to_writer(Room(MAX_BYTES), schema).is_err()
}

/// The bytes that may still be written to it.
struct Room(usize);

impl io::Write for Room {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const NO_SCHEMA: &str = "its input schema, which is none";

const NO_OBJECT: &str = "its input schema, which is of no object";

/// The schema of an object, as which the arguments of every call come: what is written where it is
/// one, and else any object, with what is left out. Nothing, written in one way or another, means
/// any object.
fn root_of(written: &Value) -> (Value, Option<&'static str>) {
    let any = || Value::Object(Map::new());
    match written {
        Value::Object(members) => {
            let kind = members.get("type").filter(|kind| !kind.is_null());
            // Of a type that is not known, it may be one.
            if mend::kinds_of(kind).is_none_or(|kinds| kinds.contains(&"object")) {
                return (written.clone(), None);
            }
            let mut members = members.clone();
            let has_properties = members.get("properties").is_some_and(Value::is_object);
            members.shift_remove("type");
            (if has_properties { members.into() } else { any() }, Some(NO_OBJECT))
        }
        Value::Null | Value::Bool(true) => (any(), None),
        Value::Array(items) if items.is_empty() => (any(), None),
        Value::String(text) => match serde_json::from_str(text) {
            Ok(schema @ Value::Object(_)) => root_of(&schema),
            _ if text.trim().is_empty() => (any(), None),
            _ => (any(), Some(NO_SCHEMA)),
        },
        _ => (any(), Some(NO_SCHEMA)),
    }
}

struct Expansion<'a> {
    root: &'a Value,
    references: References,
    /// The parts that refer to themselves, by their pointers: under which number each is defined.
    circles: HashMap<String, usize>,
    /// The pointers of those that are not yet expanded.
    open: Vec<String>,
    /// The bytes that are counted so far.
    size: usize,
    /// What the server's schemas may still take.
    most: usize,
    left_out: Vec<String>,
    branches: usize,
}

/// Where a value stands once references are replaced.
#[derive(Clone, Copy)]
struct SchemaPlace<'p> {
    depth: usize,
    /// The bytes of the path to it.
    path: usize,
    /// The schemas around it that have an `unevaluated…` keyword.
    unevaluated: usize,
    /// The kind of the value's members.
    members: Members,
    /// The part that refers to itself, in which it stands.
    circle: Option<&'p str>,
    /// It is about the same value as that part, or as the root.
    is_in_place: bool,
}

impl SchemaPlace<'_> {
    const ROOT: Self = Self {
        depth: 0,
        path: 0,
        unevaluated: 0,
        members: Members::Keywords,
        circle: None,
        is_in_place: true,
    };

    /// The place of a member of this name.
    fn of_member(self, name: &str) -> Self {
        let (path, members) = (self.path + 1 + name.len(), self.members.below(name));
        let is_keyword = self.members == Members::Keywords;
        let is_in_place = self.is_in_place && (!is_keyword || is_in_place(name));
        Self { depth: self.depth + 1, path, members, is_in_place, ..self }
    }

    /// The place of an item, or of what is referred to.
    fn deeper(self) -> Self {
        Self { depth: self.depth + 1, path: self.path + 2, ..self }
    }
}

impl<'a> Expansion<'a> {
    fn of(root: &'a Value, most: usize) -> Self {
        Self {
            root,
            references: References::of(root),
            circles: HashMap::new(),
            open: Vec::new(),
            size: 0,
            most,
            left_out: Vec::new(),
            branches: 1,
        }
    }

    fn expand_whole(&mut self, schema: &'a Value) -> Result<Value, SchemaFault> {
        let mut expanded = self.expand(schema, SchemaPlace::ROOT)?;
        self.expand_circles(&mut expanded)?;
        Ok(expanded)
    }

    /// Defines what refers to itself.
    fn expand_circles(&mut self, expanded: &mut Value) -> Result<(), SchemaFault> {
        let mut definitions = Map::new();
        while let Some(pointer) = self.open.pop() {
            let Some(part) = self.root.pointer(&pointer) else { continue };
            let number = self.circles[&pointer].to_string();
            let place = SchemaPlace { depth: 2, circle: Some(&pointer), ..SchemaPlace::ROOT };
            let definition = self.expand(part, place)?;
            self.branches = self.branches.max(branches_of(&definition));
            definitions.insert(number, definition);
        }
        if !definitions.is_empty() {
            expanded["$defs"] = definitions.into();
        }
        Ok(())
    }

    fn expand(&mut self, value: &'a Value, place: SchemaPlace<'_>) -> Result<Value, SchemaFault> {
        self.take(value, place)?;
        if place.depth > MAX_DEPTH {
            return Err(SchemaFault::TooDeep);
        }
        Ok(match value {
            Value::Object(members) if place.members == Members::Keywords => {
                self.expand_schema(members, place)?
            }
            Value::Object(members) => {
                Value::Object(self.expand_members(members, place, |_, _| true)?)
            }
            Value::Array(items) => {
                let items = items.iter().map(|item| self.expand(item, place.deeper()));
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            _ => value.clone(),
        })
    }

    /// Counts what a value takes, before anything is made of it.
    fn take(&mut self, value: &Value, place: SchemaPlace<'_>) -> Result<(), SchemaFault> {
        let path = if place.members == Members::Data { 0 } else { place.path };
        self.size += NODE_SIZE + path + value.as_str().map_or(0, str::len);
        match self.size {
            size if MAX_SIZE < size => Err(SchemaFault::TooMuch),
            size if self.most < size => Err(SchemaFault::Server),
            _ => Ok(()),
        }
    }

    fn expand_members(
        &mut self,
        members: &'a Map<String, Value>,
        place: SchemaPlace<'_>,
        is_kept: impl Fn(&str, &Value) -> bool,
    ) -> Result<Map<String, Value>, SchemaFault> {
        let mut expanded = Map::new();
        for (name, member) in members.iter().filter(|(name, member)| is_kept(name, member)) {
            self.size += name.len();
            expanded.insert(name.clone(), self.expand(member, place.of_member(name))?);
        }
        Ok(expanded)
    }

    fn expand_schema(
        &mut self,
        members: &'a Map<String, Value>,
        mut place: SchemaPlace<'_>,
    ) -> Result<Value, SchemaFault> {
        let has_unevaluated = UNEVALUATED.iter().any(|name| members.contains_key(*name));
        // What refers to itself lies within itself, as often as the value does.
        let is_too_often = place.circle.is_some() || MAX_UNEVALUATED <= place.unevaluated;
        if has_unevaluated && is_too_often {
            self.leave_out("`unevaluated…` keywords that nest".to_owned());
        } else if has_unevaluated {
            place.unevaluated += 1;
        }
        // Definitions are seen where they are used.
        let is_kept = |name: &str, member: &Value| match name {
            "$defs" | "definitions" | "$ref" => false,
            name if UNEVALUATED.contains(&name) => !is_too_often,
            // What else is no keyword could hold many schemas, and forbids nothing.
            name => takes_parts(name) || !(member.is_object() || member.is_array()),
        };
        let mut expanded = self.expand_members(members, place, is_kept)?;
        let reference = members.get("$ref").and_then(Value::as_str);
        let target = reference.map(|reference| self.follow(reference, place)).transpose()?;
        if let Some(Value::Object(target)) = target {
            for (name, member) in target {
                expanded.entry(name).or_insert(member);
            }
        }
        Ok(Value::Object(expanded))
    }

    /// Finds what stands in the place of a reference: nothing where there is nothing to refer to.
    fn follow(&mut self, reference: &'a str, place: SchemaPlace<'_>) -> Result<Value, SchemaFault> {
        let pointer = pointer_of(reference);
        let target = pointer.as_ref().and_then(|pointer| self.root.pointer(pointer));
        let (Some(pointer), Some(target)) = (pointer, target) else {
            let reference = crate::text::prefix(reference, 80).escape_debug();
            self.leave_out(format!("a reference to {reference}, which is not inside it"));
            return Ok(Value::Null);
        };
        if !self.references.is_circular(&pointer) {
            let place = SchemaPlace { members: Members::Keywords, ..place.deeper() };
            return self.expand(target, place);
        }
        let is_endless = place.circle.is_some_and(|circle| {
            place.is_in_place && self.references.is_endless(circle, &pointer)
        });
        if is_endless {
            self.leave_out("a reference to itself without an end".to_owned());
            return Ok(Value::Null);
        }
        let pointer = pointer.into_owned();
        let next = self.circles.len();
        let number = *self.circles.entry(pointer.clone()).or_insert(next);
        if number == next {
            self.open.push(pointer);
        }
        Ok(json!({ "$ref": format!("#/$defs/{number}") }))
    }

    fn leave_out(&mut self, what: String) {
        if !self.left_out.contains(&what) {
            self.left_out.push(what);
        }
    }
}

/// Counts the schemas that may look at the same value again: the references in a part, where some
/// of them may stand beside each other.
fn branches_of(definition: &Value) -> usize {
    let (mut references, mut is_branched) = (0, false);
    keywords::for_each(definition, &mut |schema| {
        references += usize::from(schema.contains_key("$ref"));
        is_branched |= schema.keys().any(|keyword| is_in_place(keyword));
    });
    if is_branched { references } else { 1 }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TOO_MUCH: &str =
        "its input schema takes too much memory, with what its references lead to";

    fn expanded_alone(schema: &Value) -> Result<ExpandedSchema, SchemaFault> {
        expanded(schema, &mut SchemaBudget::default())
    }

    #[track_caller]
    fn check(schema: &Value, expected: &Result<Value, &str>) {
        let found = expanded_alone(schema).map(|expanded| expanded.schema);
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
    }

    #[test]
    fn each_dialect_is_taken_for_the_latest() {
        for dialect in [
            "https://json-schema.org/draft/2020-12/schema",
            "http://json-schema.org/draft-07/schema#",
            "https://127.0.0.1/json-schema.org",
        ] {
            let schema = json!({ "$schema": dialect, "properties": {} });
            check(&schema, &Ok(json!({ "properties": {} })));
        }
    }

    #[test]
    fn a_property_may_be_called_like_a_keyword() {
        let schema = json!({
            "properties": { "$ref": { "type": "string" }, "pattern": { "enum": [{ "$ref": "a" }] }, "$anchor": {} },
            "default": { "$ref": "https://example.com" },
            "dependentSchemas": { "default": { "type": "string" } },
            "dependentRequired": { "$ref": ["a"], "title": ["a"] },
        });
        check(&schema, &Ok(schema.clone()));
    }

    #[test]
    fn outside_01_what_refers_to_itself_is_defined_once() {
        let node = json!({ "properties": {
            "name": { "type": "string" }, "children": { "items": { "$ref": "#/$defs/node" } },
        } });
        let schema = json!({ "properties": { "tree": { "$ref": "#/$defs/node" } },
            "$defs": { "node": node } });
        let expected = json!({
            "properties": { "tree": { "$ref": "#/$defs/0" } },
            "$defs": { "0": { "properties": {
                "name": { "type": "string" }, "children": { "items": { "$ref": "#/$defs/0" } },
            } } },
        });
        check(&schema, &Ok(expected));
        let whole = json!({ "properties": { "a": { "$ref": "#" } } });
        let circle = json!({ "properties": { "a": { "$ref": "#/$defs/0" } } });
        let expected = json!({ "properties": circle["properties"], "$defs": { "0": circle } });
        check(&whole, &Ok(expected));
    }

    #[test]
    fn outside_01_many_that_refer_to_each_other_are_each_defined_once() {
        let all = |of: usize| -> Map<String, Value> {
            let others =
                (0..of).map(|n| (format!("p{n}"), json!({ "$ref": format!("#/$defs/d{n}") })));
            others.collect()
        };
        let definitions: Map<String, Value> =
            (0..30).map(|n| (format!("d{n}"), json!({ "properties": all(30) }))).collect();
        let schema = json!({ "properties": all(30), "$defs": definitions });
        let found = expanded_alone(&schema).expect("a schema");
        assert_eq!(found.schema["$defs"].as_object().map(Map::len), Some(30));
    }

    #[test]
    fn m5_circles_without_an_end_and_addresses_are_left_out() {
        let of = |reference: &str| {
            json!({
                "properties": { "a": { "description": "own", "$ref": reference } },
                "$defs": { "X": { "$ref": "#/$defs/Y" }, "Y": { "anyOf": [{ "$ref": "#/$defs/X" }] } },
            })
        };
        let left_out = |schema: &Value| expanded_alone(schema).expect("a schema").left_out;
        assert_eq!(left_out(&of("#/$defs/X")), ["a reference to itself without an end"]);
        for outside in
            ["https://example.com/a.json", "file:///etc/passwd", "a.json", "#/$defs/B", "#a"]
        {
            let what = format!("a reference to {outside}, which is not inside it");
            assert_eq!(left_out(&of(outside)), [what]);
            let expected = json!({ "properties": { "a": { "description": "own" } } });
            check(&of(outside), &Ok(expected));
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
        assert_eq!(expanded_alone(&of(json!({}))).err(), None);
        // What nobody is told costs nothing.
        assert_eq!(expanded_alone(&of(json!({ "title": long }))).err(), None);
    }

    #[test]
    fn m5_a_long_name_counts_for_each_keyword_below_it() {
        let below: Map<_, _> =
            (0..1_000).map(|n| (format!("p{n}"), json!({ "type": "string" }))).collect();
        let of = |name: &str| json!({ "properties": { name: { "properties": below.clone() } } });
        check(&of(&"x".repeat(30_000)), &Err(TOO_MUCH));
        assert_eq!(expanded_alone(&of("x")).err(), None);
        let named =
            json!({ "$id": "http://a/b", "properties": { "id": { "id": "x", "$id": "c" } } });
        check(&named, &Ok(json!({ "properties": { "id": {} } })));
    }

    #[test]
    fn m5_keywords_that_look_at_everything_again_nest_a_few_times() {
        let nested = |depth: usize| {
            (0..depth).fold(json!({}), |inner, _| json!({ "if": inner, "unevaluatedItems": false }))
        };
        let left_out = |depth| expanded_alone(&nested(depth)).expect("a schema").left_out;
        assert_eq!(left_out(8), [""; 0]);
        assert_eq!(left_out(9), ["`unevaluated…` keywords that nest"]);
    }

    #[test]
    fn m5_what_is_refused_is_paid_for_and_ends_where_nothing_is_left() {
        let bomb = |reference: &str| {
            let times = |to: &str| json!({ "allOf": vec![json!({ "$ref": to }); 60] });
            let of = json!({ "a": { "description": "x".repeat(30_000) }, "b": times("#/$defs/a") });
            json!({ "not": { "$ref": reference }, "$defs": of })
        };
        let mut budget = SchemaBudget::default();
        let whole = budget.left();
        assert_eq!(expanded(&bomb("#/$defs/b"), &mut budget).err(), Some(SchemaFault::TooMuch));
        assert!(budget.left() <= whole - MAX_SIZE, "{}", budget.left());
        budget.use_up(budget.left() - 1_000);
        assert_eq!(expanded(&bomb("#/$defs/b"), &mut budget).err(), Some(SchemaFault::Server));
        assert_eq!(budget.left(), 0);
        let mut budget = SchemaBudget::default();
        let long = json!({ "description": "x".repeat(MAX_BYTES) });
        assert_eq!(expanded(&long, &mut budget).err(), Some(SchemaFault::TooLarge));
        assert_eq!(budget.left(), whole - MAX_BYTES);
    }

    #[test]
    fn outside_04_05_nothing_in_the_place_of_a_schema_is_any_object() {
        for (written, left_out) in [
            (json!(null), ""),
            (json!([]), ""),
            (json!(true), ""),
            (json!(""), ""),
            (json!({}), ""),
            (json!({ "type": [] }), ""),
            (json!({ "type": "any" }), ""),
            (json!("none"), NO_SCHEMA),
            (json!(false), NO_SCHEMA),
            (json!(5), NO_SCHEMA),
            (json!([1]), NO_SCHEMA),
            (json!({ "type": "string", "enum": ["a"] }), NO_OBJECT),
            (json!({ "type": ["string", "null"] }), NO_OBJECT),
            (json!({ "type": "array", "items": {} }), NO_OBJECT),
        ] {
            let found = expanded_alone(&written).unwrap();
            assert_eq!((&found.schema, found.left_out.join("; ").as_str()), (&json!({}), left_out));
        }
        for schema in [json!({ "type": "object" }), json!({ "type": ["object", "null"] })] {
            check(&schema, &Ok(schema.clone()));
            check(&schema.to_string().into(), &Ok(schema));
        }
        let with_properties = json!({ "type": "array", "properties": { "a": {} } });
        check(&with_properties, &Ok(json!({ "properties": { "a": {} } })));
    }

    #[test]
    fn outside_01_what_is_no_keyword_is_not_expanded() {
        let schema = json!({
            "$ref": "#/components/schemas/A",
            "components": { "schemas": { "A": { "properties": { "b": { "nullable": true,
                "type": "string", "x-of-theirs": { "$ref": "#/components/schemas/A" } } } } } },
        });
        let expected = json!({ "properties": {
            "b": { "nullable": true, "type": ["string", "null"] },
        } });
        let found = expanded_alone(&schema).unwrap();
        assert_eq!(found.schema["properties"], expected["properties"]);
    }
}
