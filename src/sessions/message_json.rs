//! Stores the JSON of messages as JSON. As a text within JSON, each quote and backslash of it would
//! take twice the space, and a large message the memory for that.

use serde::de::{Deserializer, Error as _};
use serde::ser::Serializer;
use serde::{Deserialize as _, Serialize as _};
use serde_json::value::RawValue;

/// Writes one message. What is no message is written as text.
pub(super) fn serialize<S: Serializer>(message: &str, to: S) -> Result<S::Ok, S::Error> {
    match object(message) {
        Some(message) => message.serialize(to),
        None => to.serialize_str(message),
    }
}

/// Reads one message, also where it was stored as text.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    text(Box::<RawValue>::deserialize(from)?).map_err(D::Error::custom)
}

fn object(message: &str) -> Option<&RawValue> {
    message.starts_with('{').then(|| serde_json::from_str(message).ok()).flatten()
}

fn text(stored: Box<RawValue>) -> serde_json::Result<String> {
    if stored.get().starts_with('"') {
        return serde_json::from_str(stored.get());
    }
    Ok(Box::<str>::from(stored).into_string())
}

/// The same for a list of messages that may be missing.
pub(super) mod list {
    use serde::Deserialize as _;
    use serde::de::{Deserializer, Error as _};
    use serde::ser::{SerializeSeq as _, Serializer};
    use serde_json::value::RawValue;

    use super::{object, text};

    #[expect(clippy::ref_option, reason = "serde hands in a reference to the field")]
    pub(in super::super) fn serialize<S: Serializer>(
        messages: &Option<Vec<String>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let Some(messages) = messages else { return to.serialize_none() };
        let mut list = to.serialize_seq(Some(messages.len()))?;
        for message in messages {
            match object(message) {
                Some(message) => list.serialize_element(message)?,
                None => list.serialize_element(message)?,
            }
        }
        list.end()
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Vec<String>>, D::Error> {
        let stored = Option::<Vec<Box<RawValue>>>::deserialize(from)?;
        let texts = stored.map(|messages| messages.into_iter().map(text).collect());
        texts.transpose().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use crate::sessions::record::{SentMessage, TurnBody};

    fn body(sent: &str) -> TurnBody {
        let sent = SentMessage { words: "Hi".to_owned(), sent: sent.to_owned() };
        TurnBody {
            user_messages: vec![sent.clone()],
            instructions: Some(vec![sent.sent]),
            ..TurnBody::default()
        }
    }

    #[test]
    fn a_message_is_stored_as_it_is_and_read_as_it_was() {
        let quotes = r#"{"role": "user",  "content": "\"\\\n1.10"}"#;
        let deep = format!(r#"{{"role":"user","content":{}}}"#, "[".repeat(125) + &"]".repeat(125));
        for sent in [quotes, &deep, "", "no JSON \""] {
            let written = serde_json::to_vec(&body(sent)).unwrap();
            assert_eq!(serde_json::from_slice::<TurnBody>(&written).unwrap(), body(sent), "{sent}");
        }
        let written = serde_json::to_string(&body(quotes)).unwrap();
        assert_eq!(written.matches(quotes).count(), 2, "{written}");
    }

    #[test]
    fn a_message_that_was_stored_as_text_is_read() {
        let text =
            r#"{"asked":[{"words":"Hi","sent":"{\"role\":\"user\"}"}],"instructions":["{}"]}"#;
        let read: TurnBody = serde_json::from_str(text).unwrap();
        assert_eq!(read.user_messages[0].sent, r#"{"role":"user"}"#);
        assert_eq!(read.instructions.unwrap(), ["{}"]);
        let none: TurnBody = serde_json::from_str("{}").unwrap();
        assert_eq!(none, TurnBody::default());
    }
}
