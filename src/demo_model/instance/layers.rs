//! Reads several schemas that hold for the same value as if they were one.

use serde_json::{Map, Value};

/// The most schemas that may hold for one value. More are a cycle of references.
const MAX_LAYERS: usize = 100;

/// The most values of an `enum` that are looked at: those of two are compared pair by pair.
const MAX_VALUES: usize = 1_000;

/// The schemas of one value, with references and `allOf` resolved.
#[derive(Clone, Debug, Default)]
pub(super) struct Layers<'a> {
    maps: Vec<&'a Map<String, Value>>,
    /// The branches of each `anyOf` and `oneOf`.
    pub(super) choices: Vec<&'a [Value]>,
}

impl<'a> Layers<'a> {
    /// Adds schemas. `None` if no value fits them, or a reference leads nowhere.
    pub(super) fn with(mut self, schemas: &[&'a Value], root: &'a Value) -> Option<Self> {
        let mut open = schemas.to_vec();
        while let Some(schema) = open.pop() {
            let map = match schema {
                Value::Bool(false) => return None,
                Value::Object(map) => map,
                _ => continue,
            };
            if self.maps.iter().any(|known| std::ptr::eq(*known, map)) {
                continue;
            }
            if self.maps.len() == MAX_LAYERS {
                return None;
            }
            self.maps.push(map);
            if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
                open.push(root.pointer(reference.strip_prefix('#')?)?);
            }
            open.extend(map.get("allOf").and_then(Value::as_array).into_iter().flatten());
            let choices = ["anyOf", "oneOf"].into_iter().filter_map(|name| map.get(name));
            self.choices.extend(choices.filter_map(Value::as_array).map(Vec::as_slice));
        }
        Some(self)
    }

    /// Each schema's value of this keyword.
    pub(super) fn all(&self, keyword: &str) -> impl Iterator<Item = &'a Value> {
        self.maps.iter().filter_map(move |map| map.get(keyword))
    }

    /// The largest of the lower bounds.
    pub(super) fn at_least(&self, keyword: &str) -> Option<u64> {
        self.all(keyword).filter_map(whole).max()
    }

    /// The smallest of the upper bounds.
    pub(super) fn at_most(&self, keyword: &str) -> Option<u64> {
        self.all(keyword).filter_map(whole).min()
    }

    /// The types that all schemas allow. `None` if no schema names any.
    pub(super) fn types(&self) -> Option<Vec<&'a str>> {
        let named = self.all("type").map(|named| match named {
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
            name => name.as_str().into_iter().collect::<Vec<_>>(),
        });
        named.reduce(|allowed, named| {
            allowed.iter().filter_map(|one| common_type(one, &named)).collect()
        })
    }

    /// The type that the keywords are about.
    pub(super) fn likely_type(&self) -> &'static str {
        const KEYWORDS: [(&str, &str); 12] = [
            ("properties", "object"),
            ("required", "object"),
            ("additionalProperties", "object"),
            ("minProperties", "object"),
            ("items", "array"),
            ("prefixItems", "array"),
            ("minItems", "array"),
            ("minimum", "number"),
            ("maximum", "number"),
            ("exclusiveMinimum", "number"),
            ("exclusiveMaximum", "number"),
            ("multipleOf", "number"),
        ];
        let found = KEYWORDS.iter().find(|(keyword, _)| self.all(keyword).next().is_some());
        found.map_or("string", |(_, name)| name)
    }

    /// The values that every `enum` has. `None` if there is no `enum`.
    pub(super) fn enumerated(&self) -> Option<Vec<&'a Value>> {
        let lists = self.all("enum").filter_map(Value::as_array);
        lists.map(|list| list.iter().take(MAX_VALUES).collect::<Vec<_>>()).reduce(|values, list| {
            values.into_iter().filter(|value| list.contains(value)).collect()
        })
    }

    /// The schemas of a member.
    pub(super) fn member(&self, name: &str) -> Vec<&'a Value> {
        let schemas = self.maps.iter().filter_map(|map| {
            let own = map.get("properties").and_then(|properties| properties.get(name));
            own.or_else(|| map.get("additionalProperties"))
        });
        schemas.collect()
    }

    /// The schemas of an item.
    pub(super) fn item(&self, index: usize) -> Vec<&'a Value> {
        let schemas = self.maps.iter().filter_map(|map| {
            // A list of `items` is what `prefixItems` was called before.
            let prefix = map.get("prefixItems").or_else(|| map.get("items"));
            let own = prefix.and_then(Value::as_array).and_then(|prefix| prefix.get(index));
            own.or_else(|| map.get("items").filter(|items| !items.is_array()))
                .or_else(|| map.get("additionalItems").filter(|_| map.get("items").is_some()))
        });
        schemas.collect()
    }
}

fn whole(value: &Value) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a bound such as 2.0; what is out of range saturates"
    )]
    let from_float = |number: f64| (number >= 0.0).then_some(number.ceil() as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(from_float))
}

/// The type that fits both; an integer is a number.
fn common_type<'a>(one: &'a str, others: &[&'a str]) -> Option<&'a str> {
    others.iter().find_map(|other| match (one, *other) {
        ("integer", "number") | ("number", "integer") => Some("integer"),
        (one, other) => (one == other).then_some(one),
    })
}
