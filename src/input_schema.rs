//! Derives the schema that a tool advertises, or takes that of a foreign tool, and normalises, validates and decodes the
//! arguments of its calls.

mod budget;
mod fault;
mod flatten;
mod foreign;
mod keywords;
mod mend;
mod normalise;
mod patterns;
mod references;
mod report;
mod simplified;
mod targets;
mod unrolled;
mod visible;

use jsonschema::{PatternOptions, Validator};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub(crate) use self::budget::SchemaBudget;
pub(crate) use self::fault::SchemaFault;
use self::foreign::ExpandedSchema;
use self::normalise::Conventions;
use self::patterns::MAX_PATTERN_BYTES;

/// Pairs of an accepted and the advertised name.
pub(crate) type PropertyAliases = &'static [(&'static str, &'static str)];

/// The schema of a tool's arguments, derived once from its input type.
#[derive(Debug)]
pub(crate) struct InputSchema {
    advertised: Value,
    validator: Validator,
    aliases: PropertyAliases,
    /// The whole schema of a foreign tool. `None`: the advertised one is whole.
    foreign: Option<ForeignSchema>,
}

/// The schema of somebody else's tool.
#[derive(Debug)]
struct ForeignSchema {
    /// Its references lead only to what refers to itself.
    whole: Value,
    /// The number of schemas that may look at the same value again, for each level of nested
    /// arguments.
    branches: usize,
    /// The parts of it that are not used, each in words.
    left_out: Vec<String>,
}

/// The most schemas that may look at the values of one call. There are more only where a schema
/// refers to itself in several ways at once: the server then judges alone.
const MAX_LOOKS: usize = 1 << 20;

/// Why arguments were refused. The text is for the model.
#[derive(Debug, thiserror::Error)]
#[error("invalid input: {0}")]
pub(crate) struct InvalidInput(pub(crate) String);

impl InputSchema {
    /// Derives the schema of `T`, in a form that every provider's translation keeps, without the
    /// optional properties that are `withheld`.
    pub(crate) fn for_type<T: JsonSchema>(aliases: PropertyAliases, withheld: &[&str]) -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        });
        let mut advertised =
            settings.for_deserialize().into_generator().into_root_schema_for::<T>().to_value();
        flatten::flatten(&mut advertised);
        if let Some(properties) = advertised["properties"].as_object_mut() {
            properties.retain(|name, _| !withheld.contains(&name.as_str()));
        }
        let validator = jsonschema::options()
            .offline()
            .with_pattern_options(PatternOptions::regex())
            .build(&advertised)
            .expect("the schema of an input type compiles");
        Self { advertised, validator, aliases, foreign: None }
    }

    /// Takes the schema of somebody else's tool. A simpler form is advertised, which every
    /// provider's translation keeps, with `clean` texts; arguments are validated against the schema
    /// as it is, without what cannot be used. What it takes comes out of the budget, also when it
    /// is refused after all.
    pub(crate) fn foreign(
        schema: &Value,
        clean: &dyn Fn(&str) -> String,
        budget: &mut SchemaBudget,
    ) -> Result<Self, SchemaFault> {
        let ExpandedSchema { schema: mut whole, size, mut left_out, branches } =
            foreign::expanded(schema, budget)?;
        budget.take(size)?;
        left_out.extend(patterns::keep_usable(&mut whole, budget)?);
        let validator = foreign_validator(&whole).unwrap_or_else(|error| {
            left_out.push(format!("all that forbids something: {error}"));
            foreign_validator(&Value::Bool(true)).expect("a schema without keywords compiles")
        });
        let mut advertised = simplified::simplified(&unrolled::unrolled(&whole));
        visible::make_visible(&mut advertised, clean)?;
        let foreign = ForeignSchema { whole, branches, left_out };
        Ok(Self { advertised, validator, aliases: &[], foreign: Some(foreign) })
    }

    /// The parts of somebody else's schema that are not used, each in words.
    pub(crate) fn left_out(&self) -> &[String] {
        self.foreign.as_ref().map_or(&[], |foreign| &foreign.left_out)
    }

    pub(crate) fn advertised(&self) -> &Value {
        &self.advertised
    }

    /// Normalises and validates arguments. Returns them with notes on ignored keys.
    pub(crate) fn accept(&self, arguments: Value) -> Result<(Value, Vec<String>), InvalidInput> {
        let Value::Object(mut arguments) = arguments else {
            return Err(InvalidInput(report::not_an_object(&arguments, &self.advertised)));
        };
        rename(&mut arguments, self.aliases);
        let mut arguments = Value::Object(arguments);
        let unknown = match &self.foreign {
            None => normalise::normalise(&self.advertised, &mut arguments, Conventions::Ours),
            Some(foreign) => {
                normalise::normalise(&foreign.whole, &mut arguments, Conventions::Foreign)
            }
        };
        if self.foreign.as_ref().is_some_and(|foreign| !foreign.can_validate(&arguments)) {
            return Ok((arguments, report::ignored(&unknown)));
        }
        let complaint = report::complaint(self.validator.iter_errors(&arguments));
        match complaint {
            None => Ok((arguments, report::ignored(&unknown))),
            Some(complaint) => Err(InvalidInput(complaint)),
        }
    }
}

impl ForeignSchema {
    /// Whether the validation of these arguments ends in time.
    fn can_validate(&self, arguments: &Value) -> bool {
        let depth = u32::try_from(depth_of(arguments)).unwrap_or(u32::MAX);
        self.branches.checked_pow(depth).is_some_and(|looks| looks <= MAX_LOOKS)
    }
}

/// The levels of lists and objects in a value.
fn depth_of(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth_of).max().unwrap_or_default(),
        Value::Object(members) => 1 + members.values().map(depth_of).max().unwrap_or_default(),
        _ => 0,
    }
}

/// Compiles somebody else's schema. The error says what does not compile.
fn foreign_validator(schema: &Value) -> Result<Validator, String> {
    let patterns =
        PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES);
    let options = jsonschema::options().offline().with_pattern_options(patterns);
    options.build(schema).map_err(|error| report::schema_fault(&error))
}

/// Decodes valid arguments. This still fails for values that a schema cannot exclude, such as
/// a number too large for its type.
pub(crate) fn decode<T: DeserializeOwned>(arguments: Value) -> Result<T, InvalidInput> {
    serde_path_to_error::deserialize(arguments).map_err(|error| {
        let reason = format!("`{}`: {}", error.path(), error.inner());
        InvalidInput(crate::text::prefix(&reason, report::MAX_LINE).to_owned())
    })
}

fn rename(arguments: &mut Map<String, Value>, aliases: PropertyAliases) {
    for (accepted, advertised) in aliases {
        if !arguments.contains_key(*advertised)
            && let Some(value) = arguments.shift_remove(*accepted)
        {
            arguments.insert((*advertised).to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, Deserialize, PartialEq, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    enum Order {
        #[default]
        Newest,
        Oldest,
    }

    #[derive(Debug, Deserialize, PartialEq, JsonSchema)]
    struct Part {
        old: String,
        #[serde(default)]
        all: bool,
    }

    #[derive(Debug, Deserialize, PartialEq, JsonSchema)]
    struct Input {
        /// What to look for, which may be
        /// anything.
        pattern: String,
        /// Where.
        path: Option<std::path::PathBuf>,
        #[serde(rename = "-A")]
        after: Option<u32>,
        order: Option<Order>,
        #[serde(default)]
        parts: Vec<Part>,
        ratio: Option<f64>,
    }

    const ALIASES: PropertyAliases = &[("after_context", "-A")];

    fn accept(arguments: Value) -> Result<(Input, Vec<String>), String> {
        let schema = InputSchema::for_type::<Input>(ALIASES, &[]);
        let (arguments, notes) = schema.accept(arguments).map_err(|error| error.to_string())?;
        decode(arguments).map(|input| (input, notes)).map_err(|error| error.to_string())
    }

    fn refusal(arguments: Value) -> String {
        accept(arguments).unwrap_err()
    }

    #[test]
    fn advertises_a_flat_schema() {
        let schema = InputSchema::for_type::<Input>(ALIASES, &[]);
        insta::assert_json_snapshot!(schema.advertised(), @r#"
        {
          "type": "object",
          "properties": {
            "pattern": {
              "type": "string",
              "description": "What to look for, which may be anything."
            },
            "path": {
              "type": "string",
              "description": "Where."
            },
            "-A": {
              "type": "integer",
              "minimum": 0
            },
            "order": {
              "type": "string",
              "enum": [
                "newest",
                "oldest"
              ]
            },
            "parts": {
              "type": "array",
              "items": {
                "type": "object",
                "properties": {
                  "old": {
                    "type": "string"
                  },
                  "all": {
                    "type": "boolean",
                    "default": false
                  }
                },
                "required": [
                  "old"
                ]
              }
            },
            "ratio": {
              "type": "number"
            }
          },
          "required": [
            "pattern"
          ]
        }
        "#);
    }

    #[test]
    fn takes_integers_as_models_write_them() {
        for written in [json!(5), json!(5.0), json!("5")] {
            let (input, notes) = accept(json!({"pattern": "", "-A": written})).unwrap();
            assert_eq!((input.after, notes), (Some(5), vec![]));
        }
        let (input, _) = accept(json!({"pattern": "5", "ratio": 5})).unwrap();
        assert_eq!((input.pattern.as_str(), input.ratio), ("5", Some(5.0)));
    }

    #[test]
    fn takes_booleans_as_models_write_them() {
        for (written, meant) in
            [(json!("true"), true), (json!("false"), false), (json!(true), true)]
        {
            let arguments = json!({"pattern": "true", "parts": [{"old": "false", "all": written}]});
            let (input, _) = accept(arguments).unwrap();
            assert_eq!((input.pattern.as_str(), input.parts[0].old.as_str()), ("true", "false"));
            assert_eq!(input.parts[0].all, meant);
        }
        for wrong in [json!("True"), json!("yes"), json!(1), json!("")] {
            let refusal = refusal(json!({"pattern": "x", "parts": [{"old": "", "all": wrong}]}));
            assert!(refusal.contains("expected boolean"), "{refusal}");
        }
    }

    #[test]
    fn takes_lists_and_objects_as_text_at_any_depth() {
        let parts = json!([{ "old": "[1]", "all": true }]);
        let one = json!({ "old": "[1]", "all": true }).to_string();
        for written in [
            json!(parts.to_string()),
            json!(format!(" {parts}\n")),
            json!([one]),
            json!(json!([one]).to_string()),
            json!(json!(parts.to_string()).to_string()),
            json!([json!(one).to_string()]),
        ] {
            let (input, _) = accept(json!({"pattern": "[\"a\"]", "parts": written})).unwrap();
            assert_eq!(input.pattern, "[\"a\"]", "a text that is wanted stays one");
            assert_eq!((input.parts[0].old.as_str(), input.parts[0].all), ("[1]", true));
        }
        for wrong in [json!("[1"), json!("{}"), json!("[] x"), json!("x"), json!("")] {
            let refusal = refusal(json!({"pattern": "x", "parts": wrong}));
            assert!(refusal.contains("`parts`: expected array"), "{refusal}");
        }
    }

    #[test]
    fn a_text_for_a_foreign_list_or_object_is_taken_where_no_text_is_wanted() {
        let list = json!({ "type": "array", "items": { "type": "integer" } });
        let schema = foreign(&json!({
            "type": "object",
            "properties": {
                "list": list,
                "maybe": { "anyOf": [list, { "type": "null" }] },
                "nullable": { "type": ["object", "null"] },
                "either": { "anyOf": [list, { "type": "object" }] },
                "text": { "anyOf": [list, { "type": "string" }] },
                "any": {},
                "map": { "type": "object", "additionalProperties": list },
                "tuple": { "type": "array", "prefixItems": [list], "items": { "type": "object" } },
                "old_tuple": { "type": "array", "items": [list, { "type": "boolean" }] },
                "described": { "description": "x", "allOf": [list] },
                "parts": { "anyOf": [
                    { "type": "array", "items": { "type": "object", "properties": {
                        "tags": list } } },
                    { "type": "object", "properties": { "tags": list } },
                ] },
                "implied": { "items": list },
            },
        }))
        .unwrap();
        let arguments = json!({
            "list": "[\"1\", 2]", "maybe": "[1]", "nullable": "{\"a\":1}", "either": "{}",
            "text": "[1]", "any": "[1]", "map": { "a": "[\"1\"]" },
            "tuple": "[\"[1]\", \"{}\"]", "old_tuple": ["[\"1\"]", "true"],
            "described": "[\"1\"]", "parts": "[{\"tags\":\"[1]\"}]", "implied": "[\"[1]\"]",
        });
        let (accepted, _) = schema.accept(arguments).unwrap();
        assert_eq!(
            accepted,
            json!({
                "list": [1, 2], "maybe": [1], "nullable": { "a": 1 }, "either": {},
                "text": "[1]", "any": "[1]", "map": { "a": [1] },
                "tuple": [[1], {}], "old_tuple": [[1], true],
                "described": [1], "parts": [{ "tags": [1] }], "implied": [[1]],
            })
        );
    }

    #[test]
    fn takes_an_empty_path_for_none_and_no_other_empty_text() {
        let (input, notes) =
            accept(json!({"pattern": "", "path": "", "parts": [{"old": ""}]})).unwrap();
        assert_eq!((input.pattern.as_str(), input.path, notes), ("", None, vec![]));
        assert_eq!(input.parts, [Part { old: String::new(), all: false }]);
        assert!(refusal(json!({"pattern": "x", "order": ""})).contains("expected one of"));
    }

    #[test]
    fn takes_aliases_of_properties() {
        let (input, notes) = accept(json!({"pattern": "x", "after_context": "3"})).unwrap();
        assert_eq!((input.after, notes), (Some(3), vec![]));
    }

    #[test]
    fn takes_null_for_what_may_be_left_out() {
        let (input, notes) = accept(json!({"pattern": "x", "path": null, "order": null})).unwrap();
        assert_eq!((input.path, input.order, notes), (None, None, vec![]));
        insta::assert_snapshot!(refusal(json!({"pattern": null})), @"invalid input: `pattern`: expected string, got null");
    }

    #[test]
    fn mentions_what_it_ignores() {
        let arguments = json!({
            "pattern": "x", "_meta": 1, "sandbox": false, "cwd": "/\u{1b}",
            "parts": [{"old": "", "apply": true}],
        });
        let (input, notes) = accept(arguments).unwrap();
        assert_eq!(input.parts, [Part { old: String::new(), all: false }]);
        insta::assert_snapshot!(notes.join("\n"), @"(ignored, since this tool does not know it: sandbox, cwd, parts[0].apply)");
    }

    #[test]
    fn names_each_field_that_does_not_fit() {
        insta::assert_snapshot!(refusal(json!({
            "path": ["a"], "-A": "abc", "order": "random", "parts": [{"old": 5}],
        })), @r#"invalid input: `pattern` is missing; `path`: expected string, got an array; `-A`: expected integer, got string "abc"; `order`: expected one of "newest", "oldest", got string "random"; `parts[0].old`: expected string, got number 5"#);
        insta::assert_snapshot!(refusal(json!({"pattern": "x", "-A": -1})), @"invalid input: `-A`: expected at least 0, got number -1");
        insta::assert_snapshot!(refusal(json!({"pattern": "x", "-A": 18_446_744_073_709_551_616.0_f64})), @"invalid input: `-A`: invalid type: floating point `1.8446744073709552e+19`, expected u32");
    }

    #[test]
    fn stops_after_ten_complaints() {
        let parts: Vec<Value> = (0..30).map(|_| json!({})).collect();
        let refusal = refusal(json!({"pattern": "x", "parts": parts}));
        assert_eq!(refusal.matches("is missing").count(), 10);
        assert!(refusal.ends_with("and more"), "{refusal}");
    }

    #[test]
    fn long_values_are_quoted_in_part() {
        let refusal = refusal(json!({"pattern": "x", "-A": "é".repeat(10_000)}));
        assert!(refusal.len() < 300, "{refusal}");
    }

    #[test]
    fn says_what_came_instead_of_an_object() {
        insta::assert_snapshot!(refusal(json!(["x"])), @"invalid input: expected an object with `pattern` (string), `path` (string, optional), `-A` (integer, optional), `order` (string, optional), `parts` (array, optional), `ratio` (number, optional), got an array");
        insta::assert_snapshot!(refusal(Value::Null), @"invalid input: expected an object with `pattern` (string), `path` (string, optional), `-A` (integer, optional), `order` (string, optional), `parts` (array, optional), `ratio` (number, optional), got null");
    }

    fn foreign(schema: &Value) -> Result<InputSchema, SchemaFault> {
        let clean = |text: &str| crate::text::without_hidden(text).into_owned();
        InputSchema::foreign(schema, &clean, &mut SchemaBudget::default())
    }

    #[test]
    fn m3_what_a_foreign_schema_hides_is_validated_and_never_told() {
        let schema = foreign(&json!({
            "properties": { "p": { "enum": ["a", "b\u{202e}"], "description": "x\u{e0041}" } },
        }))
        .unwrap();
        let property = &schema.advertised()["properties"]["p"];
        assert_eq!(*property, json!({ "type": "string", "enum": ["a"], "description": "x" }));
        assert!(schema.accept(json!({ "p": "b\u{202e}" })).is_ok());
        let refusal = schema.accept(json!({ "p": "b" })).unwrap_err().to_string();
        insta::assert_snapshot!(refusal, @r#"invalid input: `p`: expected one of "a", "b", got string "b""#);
    }

    #[test]
    fn a_foreign_schema_is_advertised_simply_and_validated_whole() {
        let schema = foreign(&json!({
            "type": "object",
            "properties": {
                "count": { "$ref": "#/$defs/Count" },
                "when": { "anyOf": [{ "type": "string", "minLength": 2 }, { "type": "null" }] },
                "flag": { "type": "boolean" },
                "either": { "type": ["string", "integer"] },
                "open": { "type": "object", "properties": {}, "additionalProperties": true },
            },
            "required": ["count"],
            "$defs": { "Count": { "type": "integer", "exclusiveMinimum": 0 } },
        }))
        .unwrap();
        assert_eq!(
            schema.advertised()["properties"]["count"],
            json!({ "type": "integer", "description": "Must be more than 0." })
        );
        let arguments = json!({
            "count": "5", "when": null, "flag": "true", "either": "7", "open": { "x": 1 },
            "more": 1, "_meta": 2,
        });
        let (accepted, notes) = schema.accept(arguments).unwrap();
        assert_eq!(
            accepted,
            json!({ "count": 5, "when": null, "flag": true, "either": "7", "open": { "x": 1 } })
        );
        assert_eq!(notes, ["(ignored, since this tool does not know it: more)"]);
        let refusal = schema.accept(json!({ "count": 0, "when": "" })).unwrap_err().to_string();
        insta::assert_snapshot!(refusal, @r#"invalid input: `count`: 0 is less than or equal to the minimum of 0; `when`: "" is not valid under any of the schemas listed in the 'anyOf' keyword"#);
    }

    #[test]
    fn m5_a_pattern_that_takes_long_or_much_memory_is_refused() {
        for pattern in ["(a+)+$", "^x{1,5}$"] {
            let schema = json!({ "properties": { "p": { "pattern": pattern } } });
            let schema = foreign(&schema).unwrap();
            let long = "a".repeat(100_000) + "!";
            assert!(schema.accept(json!({ "p": long })).is_err(), "{pattern}");
        }
        for pattern in ["(a)\\1", "(?=a)b", "((a{1000}){1000}){1000}", "("] {
            let schema = json!({ "properties": { "p": { "pattern": pattern } } });
            let schema = foreign(&schema).unwrap();
            assert_eq!(schema.left_out().len(), 1, "{pattern}");
            assert_eq!(schema.advertised()["properties"]["p"], json!({ "type": "string" }));
            assert!(schema.accept(json!({ "p": "anything" })).is_ok());
        }
    }

    #[test]
    fn outside_01_a_tree_is_advertised_some_levels_deep_and_validated_whole() {
        let node = json!({
            "type": "object", "required": ["name"], "additionalProperties": false,
            "properties": {
                "name": { "type": "string" }, "size": { "type": "integer" },
                "children": { "type": "array", "items": { "$ref": "#/$defs/node" } },
            },
        });
        let schema = foreign(&json!({
            "type": "object", "properties": { "tree": { "$ref": "#/$defs/node" } },
            "$defs": { "node": node },
        }))
        .unwrap();
        let shown = schema.advertised().to_string();
        assert_eq!(shown.matches("\"size\"").count(), 3, "{shown}");
        let tree = |deepest: Value| {
            let deep = (0..20).fold(
                deepest,
                |inner, level| json!({ "name": level.to_string(), "children": [inner] }),
            );
            json!({ "tree": deep })
        };
        let good = tree(json!({ "name": "x", "size": 3 }));
        assert_eq!(schema.accept(good.clone()).unwrap(), (good, vec![]));
        let as_models_write = tree(json!({ "name": "x", "size": "3" }));
        assert_eq!(
            schema.accept(as_models_write).unwrap().0,
            tree(json!({ "name": "x", "size": 3 }))
        );
        assert!(schema.accept(tree(json!({ "size": 3 }))).is_err());
    }

    #[test]
    fn m5_what_refers_to_itself_in_many_ways_takes_no_longer_than_it_may() {
        let filter = json!({ "anyOf": [
            { "properties": { "and": { "$ref": "#/$defs/f" }, "x": { "const": 1 } }, "required": ["x"] },
            { "properties": { "and": { "$ref": "#/$defs/f" }, "y": { "const": 1 } }, "required": ["y"] },
            { "properties": { "and": { "$ref": "#/$defs/f" }, "z": { "const": 1 } }, "required": ["z"] },
        ] });
        let schema = foreign(&json!({
            "properties": { "f": { "$ref": "#/$defs/f" } }, "$defs": { "f": filter },
        }))
        .unwrap();
        let nested = |depth: usize| (0..depth).fold(json!({}), |inner, _| json!({ "and": inner }));
        assert!(schema.accept(json!({ "f": nested(3) })).is_err());
        let deep = json!({ "f": nested(90) });
        assert_eq!(schema.accept(deep.clone()).unwrap().0, deep);
    }

    #[test]
    fn outside_03_to_05_a_keyword_that_cannot_be_used_is_left_out_and_its_tool_is_not() {
        let schema = foreign(&json!({
            "type": "object",
            "properties": {
                "email": { "type": "string", "pattern": "^(?!\\.)[^@]+@[^@]+$" },
                "none": { "type": "object", "properties": [] },
                "limit": { "type": "integer", "minimum": 0, "exclusiveMinimum": true },
                "kind": { "type": "string", "enum": null, "description": null },
                "else": { "$ref": "https://example.com/schema.json" },
            },
            "required": null, "additionalProperties": null, "$defs": [],
        }))
        .unwrap();
        let arguments =
            json!({ "email": "a@b", "none": { "x": 1 }, "limit": 1, "kind": "x", "else": [1] });
        assert_eq!(schema.accept(arguments.clone()).unwrap(), (arguments, vec![]));
        assert!(schema.accept(json!({ "limit": 0 })).is_err());
        assert_eq!(schema.left_out().len(), 2, "{:?}", schema.left_out());
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let key = prop_oneof![
            Just("pattern".to_owned()),
            Just("-A".to_owned()),
            Just("parts".to_owned()),
            Just("order".to_owned()),
            Just("after_context".to_owned()),
            "[a-z_~/.]{0,3}",
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "-?[0-9]{0,25}".prop_map(Value::from),
            ".{0,100}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 6, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::hash_map(key.clone(), inner, 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_comes_is_taken_or_refused(arguments in any_json()) {
            if let Err(refusal) = accept(arguments) {
                prop_assert!(refusal.starts_with("invalid input: "), "{refusal}");
                prop_assert!(refusal.len() < 4_000, "{refusal}");
            }
        }
    }
}
