//! Tests that instances fit their schemas, some chosen and some random.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Checks the instance, and that it fits.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "`json!` at the call reads better")]
fn check(schema: Value, expected: Value) {
    let found = instance(&schema);
    assert_eq!(found, expected, "{schema}");
    assert!(jsonschema::is_valid(&schema, &found), "{found} does not fit {schema}");
}

#[test]
fn each_type_has_a_small_value() {
    check(json!({ "type": "string" }), json!("demo"));
    check(json!({ "type": "integer" }), json!(0));
    check(json!({ "type": "number" }), json!(0));
    check(json!({ "type": "boolean" }), json!(true));
    check(json!({ "type": "null" }), json!(null));
    check(json!({ "type": "array", "items": { "type": "string" } }), json!([]));
    check(json!({ "type": "object", "properties": { "a": { "type": "string" } } }), json!({}));
    check(json!({ "type": ["null", "integer"] }), json!(0));
    check(json!({}), json!("demo"));
    check(json!(true), json!("demo"));
}

#[test]
fn an_object_has_what_is_required() {
    check(
        json!({
            "type": "object",
            "properties": {
                "name": { "type": "string" },
                "tags": { "type": "array", "items": { "enum": ["x", "y"] }, "minItems": 2 },
                "place": {
                    "type": "object",
                    "properties": { "x": { "type": "number", "minimum": 1.5 } },
                    "required": ["x"],
                    "additionalProperties": false,
                },
                "never": { "type": "string" },
            },
            "required": ["tags", "name", "place"],
            "additionalProperties": false,
        }),
        json!({ "tags": ["x", "x"], "name": "demo", "place": { "x": 2 } }),
    );
    check(
        json!({ "required": ["a"], "additionalProperties": { "type": "integer" } }),
        json!({ "a": 0 }),
    );
    check(
        json!({ "minProperties": 2, "properties": { "p": { "const": 1 } } }),
        json!({ "p": 1, "demo1": "demo" }),
    );
}

#[test]
fn references_lead_to_definitions_and_recursion_ends() {
    check(
        json!({
            "$defs": { "step": { "type": "object", "properties": {
                "text": { "type": "string", "minLength": 6 },
                "next": { "anyOf": [{ "$ref": "#/$defs/step" }, { "type": "null" }] },
            }, "required": ["text"] } },
            "type": "object",
            "properties": { "steps": { "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/step" } } },
            "required": ["steps"],
        }),
        json!({ "steps": [{ "text": "..demo" }] }),
    );
    let endless = json!({
        "type": "object",
        "properties": { "next": { "anyOf": [{ "$ref": "#" }, { "type": "null" }] } },
        "required": ["next"],
    });
    assert!(jsonschema::is_valid(&endless, &instance(&endless)));
}

#[test]
fn what_no_value_fits_is_null_soon() {
    let doubled = json!({ "$ref": "#", "type": "object", "required": ["a", "b"],
        "properties": { "a": { "$ref": "#" }, "b": { "$ref": "#" } } });
    for schema in [
        json!(false),
        json!({ "$ref": "#/nowhere" }),
        json!({ "$ref": "https://example.com/schema" }),
        json!({ "allOf": [{ "type": "string" }, { "type": "integer" }] }),
        json!({ "type": "array", "minItems": 1_000_000_000 }),
        json!({ "type": "array", "minItems": 2, "maxItems": 1 }),
        json!({ "type": "string", "minLength": 1_000_000_000 }),
        json!({ "type": "integer", "minimum": 1.2, "maximum": 1.8 }),
        doubled,
    ] {
        assert_eq!(instance(&schema), Value::Null, "{schema}");
    }
    for circle in [json!({ "$ref": "#" }), json!({ "anyOf": [{ "$ref": "#" }] })] {
        assert_eq!(instance(&circle), "demo");
    }
    for odd in [json!([]), json!({ "type": 1, "required": "a", "enum": 1, "properties": [] })] {
        let _any = instance(&odd);
    }
}

#[test]
fn bounds_and_formats_are_kept() {
    check(json!({ "type": "integer", "minimum": 3 }), json!(3));
    check(json!({ "type": "integer", "exclusiveMinimum": 3 }), json!(4));
    check(json!({ "type": "integer", "maximum": -3 }), json!(-3));
    check(
        json!({ "type": "integer", "minimum": 9_007_199_254_740_995_i64 }),
        json!(9_007_199_254_740_995_i64),
    );
    check(json!({ "type": "number", "minimum": 0.2, "maximum": 0.6 }), json!(0.4));
    check(json!({ "type": "integer", "multipleOf": 7, "minimum": 8 }), json!(14));
    check(json!({ "type": "string", "maxLength": 2 }), json!("mo"));
    check(
        json!({ "type": "string", "pattern": "^[A-Z]{2}[0-9]*$", "minLength": 4 }),
        json!("AA0000"),
    );
    check(json!({ "type": "string", "format": "date" }), json!("2000-01-01"));
    check(
        json!({ "type": "array", "uniqueItems": true, "minItems": 3, "items": { "type": "string" } }),
        json!(["demo", "demo1", "demo2"]),
    );
    check(
        json!({ "type": "array", "uniqueItems": true, "minItems": 3, "items": { "type": "integer", "maximum": 1 } }),
        json!([0, 1, -1]),
    );
    check(
        json!({ "type": "array", "contains": { "const": 7 }, "items": { "type": "integer" } }),
        json!([7]),
    );
    check(
        json!({ "prefixItems": [{ "const": "a" }, { "const": 1 }], "minItems": 3, "items": { "type": "null" } }),
        json!(["a", 1, null]),
    );
}

#[test]
fn schemas_that_hold_together_are_one() {
    check(
        json!({ "allOf": [
            { "type": "object", "required": ["a"], "properties": { "a": { "type": "number", "minimum": 1 } } },
            { "required": ["b"], "properties": { "a": { "type": "integer", "maximum": 5 }, "b": { "enum": [1, "x"] } } },
        ] }),
        json!({ "a": 1, "b": 1 }),
    );
    check(
        json!({ "type": "object", "properties": { "kind": { "type": "string" } }, "required": ["kind"],
            "oneOf": [{ "properties": { "kind": { "const": "a" } } }, { "properties": { "kind": { "const": "b" } } }] }),
        json!({ "kind": "a" }),
    );
    check(json!({ "enum": [1, "x", null], "type": "string" }), json!("x"));
}

/// Schemas of the kinds above, with definitions that refer to each other.
fn schemas() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        (0_u64..8, 0_u64..8).prop_map(|(low, more)| {
            json!({ "type": "string", "minLength": low, "maxLength": low + more })
        }),
        Just(json!({ "type": "string", "pattern": "^[a-c]{2,}(-x|y)?$" })),
        prop_oneof![Just("date"), Just("uuid"), Just("email"), Just("date-time")]
            .prop_map(|format| json!({ "type": "string", "format": format })),
        (-50_i64..50, 0_i64..9, 1_i64..4).prop_map(|(low, more, step)| {
            json!({ "type": "integer", "minimum": low, "maximum": low + more + step, "multipleOf": step })
        }),
        (-5.0_f64..5.0, 0.01_f64..3.0).prop_map(|(low, more)| {
            json!({ "type": "number", "exclusiveMinimum": low, "maximum": low + more })
        }),
        Just(json!({ "type": "boolean" })),
        Just(json!({ "type": ["string", "null"] })),
        Just(json!({ "enum": ["a", 1, null, [2]] })),
        Just(json!({ "const": { "x": [1] } })),
        Just(json!({ "$ref": "#/$defs/small" })),
        Just(json!({ "anyOf": [{ "$ref": "#/$defs/tree" }, { "type": "null" }] })),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        prop_oneof![
            (inner.clone(), 0_u64..3).prop_map(
                |(items, min)| json!({ "type": "array", "items": items, "minItems": min })
            ),
            prop::collection::vec((inner.clone(), any::<bool>()), 0..4).prop_map(|members| {
                let mut properties = Map::new();
                let mut required = Vec::new();
                for (index, (schema, is_required)) in members.into_iter().enumerate() {
                    properties.insert(format!("m{index}"), schema);
                    if is_required {
                        required.push(format!("m{index}"));
                    }
                }
                json!({ "type": "object", "properties": properties, "required": required,
                    "additionalProperties": false })
            }),
            prop::collection::vec(inner.clone(), 1..3)
                .prop_map(|branches| json!({ "anyOf": branches })),
            inner.prop_map(|schema| json!({ "allOf": [schema] })),
        ]
    })
}

proptest! {
    #[test]
    fn an_instance_fits_its_schema(schema in schemas()) {
        let mut schema = schema;
        schema["$defs"] = json!({
            "small": { "type": "object", "properties": { "n": { "type": "integer", "minimum": 2 } }, "required": ["n"] },
            "tree": { "type": "object", "required": ["left", "value"], "properties": {
                "value": { "$ref": "#/$defs/small" },
                "left": { "anyOf": [{ "type": "null" }, { "$ref": "#/$defs/tree" }] },
            } },
        });

        let found = instance(&schema);

        prop_assert!(jsonschema::is_valid(&schema, &found), "{} does not fit {}", found, schema);
    }
}
