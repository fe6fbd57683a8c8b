//! Schemas that servers really send: each tool is offered, and called as its server means it.

use serde_json::{Value, json};

use super::{allowed, has};
use crate::settings::trust::toolhand;
use crate::support::server::Server;
use crate::support::upstream::Upstream;
use crate::turn::told;

/// A schema, and arguments that its server takes.
type Case = (Value, Value);

/// A server of these tools, which answers with the arguments of a call.
async fn start(upstream: &Upstream, tools: &[Value]) -> Server {
    let script = json!({ "tools": tools, "on_call": [{ "echo": 1 }] });
    allowed(upstream, &[("s", script, "")]).start().await
}

/// Calls each tool, of which all must be offered, and looks at what arrives there.
async fn check(cases: &[Case]) -> (Server, Upstream, Vec<Value>) {
    let tools: Vec<Value> = cases
        .iter()
        .enumerate()
        .map(|(at, (schema, _))| json!({ "name": format!("t{at:02}"), "inputSchema": schema }))
        .collect();
    let upstream = Upstream::start();
    let server = start(&upstream, &tools).await;
    let mut schemas = Vec::new();
    for (at, (schema, arguments)) in cases.iter().enumerate() {
        let name: &'static str = format!("mcp__s__t{at:02}").leak();
        let answers = told(&server, &upstream, &[("c", name, arguments.clone())]).await;
        let arrived: Value = serde_json::from_str(&answers[0])
            .unwrap_or_else(|_| panic!("{schema}: {arguments}: {}", answers[0]));
        assert_eq!(arrived, *arguments, "{schema}");
        let sent = upstream.requests().pop().expect("a request").json();
        let mut offered = sent["tools"].as_array().expect("definitions").iter();
        let offered = offered.find(|tool| tool["function"]["name"] == name);
        schemas.push(offered.expect("it is offered")["function"]["parameters"].clone());
    }
    (server, upstream, schemas)
}

#[tokio::test]
async fn outside_04_05_what_stands_for_nothing_is_any_object() {
    let arguments = json!({ "any": [1] });
    let nothing = [
        json!(null),
        json!([]),
        json!(true),
        json!({}),
        json!({ "type": null }),
        json!({ "$schema": "http://json-schema.org/draft-07/schema#" }),
        json!({ "type": "any" }),
        json!({ "type": [], "required": [], "enum": [] }),
        json!({ "type": "object", "additionalProperties": [], "$defs": null, "allOf": null }),
        json!("{\"type\": \"object\"}"),
        json!({ "type": "string" }),
        json!(false),
    ];
    let cases: Vec<Case> = nothing.into_iter().map(|schema| (schema, arguments.clone())).collect();
    let (server, _upstream, offered) = check(&cases).await;
    for schema in offered {
        assert_eq!(schema, json!({ "type": "object", "properties": {} }));
    }
    let checked = toolhand(&server, &["check"]);
    let checked = String::from_utf8_lossy(&checked.stdout);
    has(&checked, &["t10 is offered without its input schema, which is of no object"]);
    has(&checked, &["t11 is offered without its input schema, which is none"]);
}

#[tokio::test]
async fn outside_04_05_schemas_of_other_dialects_and_languages_are_read() {
    let of = |property: Value| json!({ "type": "object", "properties": { "a": property } });
    let a = |value: Value| json!({ "a": value });
    let cases: Vec<Case> = vec![
        // Null everywhere.
        (
            of(json!({ "type": "string", "format": null, "pattern": null, "minLength": null,
                "items": null, "properties": null, "anyOf": null, "$ref": null, "const": null,
                "enum": [null], "title": null, "examples": null, "required": null })),
            a(json!("x")),
        ),
        (of(json!(null)), a(json!([1]))),
        (of(json!({ "type": ["string", null] })), a(json!(null))),
        (of(json!({ "type": [null, "integer"] })), a(json!(5))),
        (of(json!({ "anyOf": [null, { "type": "integer" }] })), a(json!(null))),
        // Booleans, and words for them.
        (of(json!(true)), a(json!({ "b": 1 }))),
        (of(json!({ "type": "array", "items": true })), a(json!([1, "x"]))),
        (of(json!({ "type": "string", "required": true })), a(json!("x"))),
        (of(json!({ "type": "string", "required": "true" })), a(json!("x"))),
        (json!({ "type": "object", "required": true, "properties": { "a": {} } }), json!({})),
        (json!({ "type": "object", "required": "false", "properties": { "a": {} } }), json!({})),
        (
            json!({ "type": "object", "properties": { "a": {} }, "additionalProperties": "false" }),
            a(json!(1)),
        ),
        // The fourth draft and before.
        (
            of(json!({ "type": "number", "minimum": 0, "exclusiveMinimum": true,
                "maximum": 9, "exclusiveMaximum": false, "divisibleBy": 2 })),
            a(json!(9)),
        ),
        (of(json!({ "type": ["string", { "type": "object" }] })), a(json!({ "b": 1 }))),
        (of(json!({ "type": "any", "extends": { "$ref": "x" } })), a(json!([1]))),
        (of(json!({ "type": "array", "items": [{ "type": "string" }] })), a(json!(["x", 1]))),
        (
            json!({ "id": "http://a.example/s#", "type": "object",
                "dependencies": { "a": ["b"] }, "properties": { "a": {}, "b": {} } }),
            json!({ "a": 1, "b": 2 }),
        ),
        // What contradicts itself.
        (of(json!({ "type": "integer", "enum": ["1", "2"] })), a(json!("1"))),
        (of(json!({ "type": "string", "enum": [1, 2] })), a(json!(1))),
        (of(json!({ "type": "string", "enum": [] })), a(json!("x"))),
        (of(json!({ "type": "string", "enum": "x" })), a(json!("y"))),
        // Other languages.
        (of(json!("string")), a(json!("x"))),
        (of(json!({ "type": "STRING", "nullable": true })), a(json!(null))),
        (of(json!({ "type": "dict", "properties": [] })), a(json!({ "b": 1 }))),
        (
            json!({ "type": "object", "properties": [
                { "name": "a", "type": "string", "required": true }, { "name": "b", "type": "bool" },
            ] }),
            json!({ "a": "x", "b": true }),
        ),
    ];
    let (_server, _upstream, offered) = check(&cases).await;
    for at in [7, 8, 24] {
        assert_eq!(offered[at]["required"], json!(["a"]), "{}", offered[at]);
    }
    for at in [9, 10] {
        assert_eq!(offered[at]["required"], Value::Null, "{}", offered[at]);
    }
    assert_eq!(offered[24]["properties"]["b"], json!({ "type": "boolean" }));
}

#[tokio::test]
async fn outside_03_patterns_of_other_dialects_refuse_nothing_that_is_right() {
    let of = |pattern: &str| json!({ "type": "object", "properties": { "a": { "type": "string", "pattern": pattern } } });
    let right = [
        ("/^[a-z]+$/", "abc"),
        ("/^[a-z]+$/i", "ABC"),
        ("^(?=.*[0-9])(?!.*x).+$", "a1"),
        ("(?<=a)b", "ab"),
        ("(?>a+)b", "aab"),
        ("\\Aabc\\Z", "abc"),
        ("^\\h+$", "\t"),
        ("(?P<year>\\d{4})-(?P=year)", "2024-2024"),
        ("(a)\\1", "aa"),
        ("*.ts", "a.ts"),
        ("[", "x"),
        ("^\\p{Lu}\\p{L}*$", "Über"),
        ("^(https?|s3)://", "s3://b"),
        ("^[a-zA-Z0-9@#%^&*()_+\\-=[\\]{}|;:,.<>?~`]*$", "a[b]"),
    ];
    let cases: Vec<Case> =
        right.iter().map(|(pattern, text)| (of(pattern), json!({ "a": text }))).collect();
    let (_server, _upstream, offered) = check(&cases).await;
    // Some providers refuse the whole request for others.
    let sent = |at: usize| offered[at]["properties"]["a"]["pattern"].as_str();
    assert_eq!(sent(0), Some("^[a-z]+$"));
    assert_eq!((sent(11), sent(12), sent(13)), (None, None, None));
    assert_eq!(
        offered[12]["properties"]["a"]["description"],
        "Matches the pattern ^(https?|s3)://"
    );
}

#[tokio::test]
async fn outside_01_references_lead_to_what_they_mean_wherever_that_stands() {
    let node = json!({ "type": "object", "required": ["name"], "properties": {
        "name": { "type": "string" },
        "children": { "type": "array", "items": { "$ref": "#/components/schemas/Node" } },
    } });
    let whole = json!({ "name": "a", "children": [{ "name": "b", "children": [] }] });
    let a = |value: Value| json!({ "a": value });
    let cases: Vec<Case> = vec![
        // Beside each other, and to itself through a list.
        (
            json!({ "properties": { "a": { "$ref": "#/properties/b" }, "b": { "type": "integer" } } }),
            a(json!(5)),
        ),
        (
            json!({ "properties": { "a": { "type": "array", "items": { "$ref": "#/properties/a" } } } }),
            a(json!([[], [[]]])),
        ),
        (json!({ "type": "object", "properties": { "a": { "$ref": "#" } } }), a(a(a(json!({}))))),
        // As documents for OpenAPI have them.
        (
            json!({ "$ref": "#/components/schemas/Node",
                "components": { "schemas": { "Node": node } } }),
            whole.clone(),
        ),
        // A document inside of another one, with its definitions.
        (
            json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/F",
                "$defs": { "F": { "type": "object", "properties": { "b": { "$ref": "#/$defs/G" } } },
                    "G": { "type": "integer" } } } } }),
            a(json!({ "b": 5 })),
        ),
        // Under another keyword than the one that is named, by a name alone, and nowhere.
        (
            json!({ "properties": { "a": { "$ref": "#/definitions/F" } },
                "$defs": { "F": { "type": "integer" } } }),
            a(json!(5)),
        ),
        (
            json!({ "properties": { "a": { "$ref": "F" } }, "$defs": { "F": { "type": "integer" } } }),
            a(json!(5)),
        ),
        (json!({ "properties": { "a": { "$ref": "#/definitions/F" } } }), a(json!([1]))),
    ];
    let (server, _upstream, offered) = check(&cases).await;
    for at in [0, 5, 6] {
        assert_eq!(offered[at]["properties"]["a"]["type"], "integer", "{}", offered[at]);
    }
    assert_eq!(offered[3]["required"], json!(["name"]));
    assert_eq!(offered[4]["properties"]["a"]["properties"]["b"]["type"], "integer");
    let checked = toolhand(&server, &["check"]);
    let words = "t07 is offered without a reference to #/definitions/F, which is not inside it";
    has(&String::from_utf8_lossy(&checked.stdout), &[words]);
}

#[tokio::test]
async fn outside_01_definitions_beside_a_schema_belong_to_it() {
    let upstream = Upstream::start();
    let schema = json!({ "type": "object", "properties": { "a": { "$ref": "#/definitions/A" } } });
    let definitions = json!({ "A": { "type": "integer" } });
    let tools = [
        json!({ "name": "do", "inputSchema": schema, "definitions": definitions }),
        json!({ "name": "other", "input_schema": { "properties": { "a": { "type": "integer" } } } }),
        json!(null),
    ];
    let server = start(&upstream, &tools).await;
    for name in ["mcp__s__do", "mcp__s__other"] {
        let wrong = told(&server, &upstream, &[("c", name, json!({ "a": "x" }))]).await;
        has(&wrong[0], &["invalid input", "integer"]);
        let right = told(&server, &upstream, &[("c", name, json!({ "a": 5 }))]).await;
        assert_eq!(right, ["{\"a\": 5}"]);
    }
}
