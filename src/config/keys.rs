//! Lists the configuration keys by inspecting the settings types, so that no second list
//! can become outdated.
//!
//! A type is deserialized from a [`Probe`]. The probe leads it to one place, and records
//! what the type asks for there instead of giving it a value.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::text;

/// Stands for a list's element in a path.
const ELEMENT: &str = "[]";

/// The similarity from which a name is suggested; 1 means equal.
const MIN_SIMILARITY: f64 = 0.6;

/// A key of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Such as `turns.max_rounds`, or `models[].match` in a list of tables.
    pub(crate) path: String,
    pub(crate) kind: Kind,
}

/// The kind of value that a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Number,
    Text,
    List,
    /// A table whose keys the operator chooses.
    Open,
    /// Several kinds.
    Any,
}

/// All keys, in the order of the fields.
#[derive(Clone, Debug)]
pub(crate) struct Keys(Vec<Key>);

impl Keys {
    /// The keys that `T` reads.
    pub(crate) fn for_type<T: DeserializeOwned>() -> Self {
        let mut keys = Vec::new();
        collect::<T>(&mut Vec::new(), &mut keys);
        Self(keys)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Key> {
        self.0.iter()
    }

    /// Whether `path` is a key or a table that contains keys.
    pub(crate) fn knows(&self, path: &str) -> bool {
        self.0.iter().any(|key| {
            key.path == path
                || below(&key.path, path)
                || (below(path, &key.path) && matches!(key.kind, Kind::Open | Kind::Any))
        })
    }

    /// The known path that is most similar to `path`, if any is similar enough.
    pub(crate) fn nearest(&self, path: &str) -> Option<&str> {
        nearest(path, self.0.iter().map(|key| key.path.as_str()))
    }
}

/// The name among `names` that is most similar to `name`, if any is similar enough.
pub(crate) fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    text::closest(names.map(|known| (likeness(name, known), known)), MIN_SIMILARITY).next()
}

/// The same last name in another table counts as similar.
fn likeness(name: &str, known: &str) -> f64 {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let whole = strsim::normalized_damerau_levenshtein(name, known);
    if last(name) == last(known) { whole.max(0.8) } else { whole }
}

/// Whether `path` is inside of `table`.
fn below(path: &str, table: &str) -> bool {
    path.strip_prefix(table).is_some_and(|rest| rest.starts_with(['.', '[']))
}

fn collect<T: DeserializeOwned>(path: &mut Vec<&'static str>, keys: &mut Vec<Key>) {
    let shape = shape_at::<T>(path);
    if let Shape::Struct(fields) = shape {
        for field in fields {
            path.push(field);
            collect::<T>(path, keys);
            path.pop();
        }
        return;
    }
    if shape == Shape::Leaf(Kind::List) {
        path.push(ELEMENT);
        if matches!(shape_at::<T>(path), Shape::Struct(_)) {
            collect::<T>(path, keys);
        }
        path.pop();
    }
    if let Shape::Leaf(kind) = shape {
        keys.push(Key { path: path.join(".").replace(".[]", "[]"), kind });
    }
}

fn shape_at<T: DeserializeOwned>(path: &[&'static str]) -> Shape {
    let mut found = Shape::Leaf(Kind::Any);
    // This always fails, because the probe has no values.
    drop(T::deserialize(Probe { path, found: &mut found }));
    found
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Struct(&'static [&'static str]),
    Leaf(Kind),
}

struct Probe<'p> {
    path: &'p [&'static str],
    found: &'p mut Shape,
}

/// Stops the deserialization once the probe has its result.
#[derive(Debug)]
struct Observed;

impl std::error::Error for Observed {}

impl fmt::Display for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("seen")
    }
}

impl serde::de::Error for Observed {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

impl Probe<'_> {
    fn leaf<V>(self, kind: Kind) -> Result<V, Observed> {
        *self.found = Shape::Leaf(kind);
        Err(Observed)
    }
}

/// Defines deserializer methods that record one kind of value.
macro_rules! leaves {
    ($($method:ident = $kind:ident),* $(,)?) => {$(
        fn $method<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Observed> {
            self.leaf(Kind::$kind)
        }
    )*};
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Observed;

    leaves! {
        deserialize_any = Any, deserialize_bool = Bool,
        deserialize_i8 = Number, deserialize_i16 = Number, deserialize_i32 = Number,
        deserialize_i64 = Number, deserialize_u8 = Number, deserialize_u16 = Number,
        deserialize_u32 = Number, deserialize_u64 = Number, deserialize_f32 = Number,
        deserialize_f64 = Number, deserialize_char = Text, deserialize_str = Text,
        deserialize_string = Text, deserialize_bytes = Any, deserialize_byte_buf = Any,
        deserialize_unit = Any, deserialize_identifier = Any, deserialize_ignored_any = Any,
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Observed> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Observed> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: V,
    ) -> Result<V::Value, Observed> {
        self.leaf(Kind::Any)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Observed> {
        self.leaf(Kind::Text)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Observed> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Observed> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Observed> {
        match self.path.split_first() {
            Some((_, rest)) => visitor.visit_seq(Probe { path: rest, found: self.found }),
            None => self.leaf(Kind::List),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Observed> {
        self.leaf(Kind::Open)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Observed> {
        if self.path.is_empty() {
            *self.found = Shape::Struct(fields);
            return Err(Observed);
        }
        visitor.visit_map(self)
    }
}

/// A table with the single key on the way.
impl<'de> MapAccess<'de> for Probe<'_> {
    type Error = Observed;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Observed> {
        seed.deserialize(StrDeserializer::new(self.path[0])).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Observed> {
        seed.deserialize(Probe { path: &self.path[1..], found: &mut *self.found })
    }
}

/// A list with one element.
impl<'de> SeqAccess<'de> for Probe<'_> {
    type Error = Observed;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Observed> {
        seed.deserialize(Probe { path: self.path, found: &mut *self.found }).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use serde::Deserialize;

    use super::*;

    #[derive(Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Whole {
        turns: Turns,
        models: Vec<Model>,
        names: Option<Vec<String>>,
        progress: Word,
        workspaces: BTreeMap<String, String>,
    }

    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Turns {
        max_rounds: u32,
        #[serde(with = "crate::units::duration")]
        max_duration: Duration,
        exact: Option<bool>,
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its shape is looked at")]
    struct Model {
        #[serde(rename = "match")]
        pattern: String,
    }

    #[derive(Default, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Word {
        #[default]
        None,
    }

    #[test]
    fn keys_are_read_off_the_types() {
        let keys: Vec<String> = Keys::for_type::<Whole>()
            .iter()
            .map(|key| format!("{} {:?}", key.path, key.kind))
            .collect();

        assert_eq!(
            keys,
            [
                "turns.max_rounds Number",
                "turns.max_duration Text",
                "turns.exact Bool",
                "models[].match Text",
                "models List",
                "names List",
                "progress Text",
                "workspaces Open",
            ]
        );
    }

    #[test]
    fn knows_tables_and_what_an_open_one_holds() {
        let keys = Keys::for_type::<Whole>();
        for known in ["turns", "turns.exact", "models", "models[].match", "workspaces.docs"] {
            assert!(keys.knows(known), "{known}");
        }
        for unknown in ["turn", "turns.max", "models[].name", "names.x", "progress.x"] {
            assert!(!keys.knows(unknown), "{unknown}");
        }
    }

    #[test]
    fn proposes_the_nearest_key() {
        let keys = Keys::for_type::<Whole>();
        assert_eq!(keys.nearest("turns.max_round"), Some("turns.max_rounds"));
        assert_eq!(keys.nearest("max_duration"), Some("turns.max_duration"));
        assert_eq!(keys.nearest("server.max_rounds"), Some("turns.max_rounds"));
        assert_eq!(keys.nearest("shoes"), None);
    }
}
