//! Reads texts that servers send in one of several forms. Of what is none of them nothing is kept,
//! where what is derived for such forms keeps it all before it looks.

use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

/// A text, alone or with the language that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MarkedText {
    pub(super) language: Option<String>,
    pub(super) value: String,
}

/// A text, or a whole number as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TextOrNumber(pub(super) String);

#[derive(Deserialize)]
struct Members {
    language: Option<String>,
    value: String,
}

impl<'de> Deserialize<'de> for MarkedText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MarkedTextVisitor)
    }
}

impl<'de> Deserialize<'de> for TextOrNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrNumberVisitor)
    }
}

struct MarkedTextVisitor;

impl<'de> Visitor<'de> for MarkedTextVisitor {
    type Value = MarkedText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, or an object with one")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<MarkedText, E> {
        Ok(MarkedText { language: None, value: text.to_owned() })
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<MarkedText, A::Error> {
        let Members { language, value } =
            Members::deserialize(MapAccessDeserializer::new(members))?;
        Ok(MarkedText { language, value })
    }
}

struct TextOrNumberVisitor;

impl Visitor<'_> for TextOrNumberVisitor {
    type Value = TextOrNumber;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a whole number")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<TextOrNumber, E> {
        Ok(TextOrNumber(text.to_owned()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<TextOrNumber, E> {
        Ok(TextOrNumber(number.to_string()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<TextOrNumber, E> {
        Ok(TextOrNumber(number.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_in_each_form_and_nothing_else_is() {
        let marked = |json: &str| {
            let it: MarkedText = serde_json::from_str(json).ok()?;
            Some(format!("{} {}", it.language.unwrap_or_default(), it.value))
        };
        assert_eq!(marked(r#""x""#).as_deref(), Some(" x"));
        assert_eq!(marked(r#"{"kind":"markdown","value":"x"}"#).as_deref(), Some(" x"));
        assert_eq!(marked(r#"{"language":"rs","value":"x"}"#).as_deref(), Some("rs x"));
        for wrong in ["[0,0]", "1", "{}", "null"] {
            assert_eq!(marked(wrong), None, "{wrong}");
        }
        let code = |json: &str| serde_json::from_str(json).ok().map(|it: TextOrNumber| it.0);
        assert_eq!(code("\"E1\"").as_deref(), Some("E1"));
        assert_eq!((code("-3").as_deref(), code("3").as_deref()), (Some("-3"), Some("3")));
        assert_eq!((code("[3]"), code("{}"), code("1.5")), (None, None, None));
    }
}
