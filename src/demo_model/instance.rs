//! Writes a small JSON value that fits a JSON schema.
//!
//! Knows the keywords that structured outputs use: types, `required`, `enum`, `const`, bounds,
//! patterns, formats, `$ref`, `allOf`, `anyOf` and `oneOf`. Optional members are left out.

mod layers;
mod number;
mod pattern;
mod text;

use indexmap::IndexSet;
use serde_json::{Map, Value};

use self::layers::Layers;

/// The values and branches that one instance may take. Recursive schemas end here.
const MAX_STEPS: usize = 20_000;

/// The deepest nesting of values and branches.
const MAX_DEPTH: usize = 64;

/// The most items of a list.
const MAX_ITEMS: u64 = 10_000;

/// The value, or null if none was found.
pub(super) fn instance(schema: &Value) -> Value {
    let mut writer = Writer { root: schema, steps: MAX_STEPS };
    writer.value(&[schema], Place { depth: 0, number: 0 }).unwrap_or_default()
}

struct Writer<'a> {
    root: &'a Value,
    steps: usize,
}

/// Where a value stands.
#[derive(Clone, Copy, Debug)]
struct Place {
    depth: usize,
    /// Values with different numbers differ, for lists of unique items.
    number: usize,
}

impl Place {
    fn inside(self, number: usize) -> Self {
        Self { depth: self.depth + 1, number }
    }

    fn branch(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }
}

impl<'a> Writer<'a> {
    /// A value that fits all of these schemas.
    fn value(&mut self, schemas: &[&'a Value], place: Place) -> Option<Value> {
        let layers = Layers::default().with(schemas, self.root)?;
        self.choose(layers, place)
    }

    /// Takes the first branch of each choice that leads to a value.
    fn choose(&mut self, mut layers: Layers<'a>, place: Place) -> Option<Value> {
        self.steps = self.steps.checked_sub(1)?;
        if place.depth > MAX_DEPTH {
            return None;
        }
        let Some(branches) = layers.choices.pop() else { return self.plain(&layers, place) };
        branches.iter().find_map(|branch| {
            self.steps = self.steps.checked_sub(1)?;
            self.choose(layers.clone().with(&[branch], self.root)?, place.branch())
        })
    }

    fn plain(&mut self, layers: &Layers<'a>, place: Place) -> Option<Value> {
        let types = layers.types();
        let fits_type = |value: &&Value| types.as_ref().is_none_or(|types| has_type(value, types));
        if let Some(value) = layers.all("const").next() {
            return Some(value.clone());
        }
        if let Some(values) = layers.enumerated() {
            return values.into_iter().filter(fits_type).nth(place.number).cloned();
        }
        let types = types.unwrap_or_else(|| vec![layers.likely_type()]);
        // Null says the least, so it comes last.
        let (null, others): (Vec<&str>, Vec<&str>) = types.into_iter().partition(|t| *t == "null");
        others.into_iter().chain(null).find_map(|name| self.typed(name, layers, place))
    }

    fn typed(&mut self, name: &str, layers: &Layers<'a>, place: Place) -> Option<Value> {
        match name {
            "object" => self.object(layers, place).map(Value::Object),
            "array" => self.array(layers, place).map(Value::Array),
            "string" => text::sample(layers, place.number).map(Value::String),
            "integer" => number::integer(layers, place.number),
            "number" => number::number(layers, place.number),
            "boolean" => [true, false].get(place.number).copied().map(Value::Bool),
            "null" => (place.number == 0).then_some(Value::Null),
            _ => None,
        }
    }

    fn object(&mut self, layers: &Layers<'a>, place: Place) -> Option<Map<String, Value>> {
        let required = layers.all("required").filter_map(Value::as_array).flatten();
        let mut names: IndexSet<String> =
            required.filter_map(Value::as_str).map(str::to_owned).collect();
        let min = layers.at_least("minProperties").unwrap_or(0).min(MAX_ITEMS);
        let min = usize::try_from(min).ok()?;
        let known = layers.all("properties").filter_map(Value::as_object).flat_map(Map::keys);
        names.extend(known.take(min.saturating_sub(names.len())).cloned());
        let made_up = (1..).map(|number| format!("demo{number}"));
        for name in made_up.take(min) {
            if names.len() < min {
                names.insert(name);
            }
        }
        let mut members = Map::new();
        for (index, name) in names.into_iter().enumerate() {
            // One member that differs makes the object differ.
            let number = if index == 0 { place.number } else { 0 };
            let value = self.value(&layers.member(&name), place.inside(number))?;
            members.insert(name, value);
        }
        (place.number == 0 || !members.is_empty()).then_some(members)
    }

    fn array(&mut self, layers: &Layers<'a>, place: Place) -> Option<Vec<Value>> {
        let min = layers.at_least("minItems").unwrap_or(0);
        let contains: Vec<&Value> = layers.all("contains").collect();
        let contained = match (contains.is_empty(), layers.at_least("minContains")) {
            (true, _) => 0,
            (false, count) => count.unwrap_or(1),
        };
        let count = min.max(contained).max(u64::from(place.number > 0));
        if count > MAX_ITEMS || layers.at_most("maxItems").is_some_and(|most| count > most) {
            return None;
        }
        let is_unique = layers.all("uniqueItems").any(|unique| unique == &Value::Bool(true));
        let (count, contained) = (usize::try_from(count).ok()?, usize::try_from(contained).ok()?);
        let items = (0..count).map(|index| {
            let mut schemas = layers.item(index);
            // The last ones are those that the list must contain.
            if index >= count - contained {
                schemas.extend(&contains);
            }
            let number = if is_unique { index } else { 0 };
            let number = if index == 0 { number + place.number } else { number };
            self.value(&schemas, place.inside(number))
        });
        items.collect()
    }
}

fn has_type(value: &Value, types: &[&str]) -> bool {
    types.iter().any(|name| match *name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => false,
    })
}

#[cfg(test)]
mod tests;
