//! Reads the text of a message.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::json::{self, Kind, Object};

/// The text of a message, or its text parts joined with line ends.
pub(crate) fn text_of(message: &RawValue) -> Cow<'_, str> {
    let Some(content) = json::member(message, "content") else { return Cow::Borrowed("") };
    match json::kind(content) {
        Kind::String => json::string(content).unwrap_or_default(),
        Kind::Array => Cow::Owned(text_of_parts(content)),
        _ => Cow::Borrowed(""),
    }
}

fn text_of_parts(parts: &RawValue) -> String {
    let mut text = String::new();
    let add = |part| {
        let part = Object::from_raw(part);
        let is_text = |part: &Object<'_>| part.string("type").as_deref() == Some("text");
        if let Some(more) = part.filter(is_text).and_then(|part| part.string("text")) {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&more);
        }
        Ok::<(), ()>(())
    };
    json::for_each_item(parts, add).map_or_else(String::new, |_| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_may_be_in_parts() {
        let text = |json: &str| text_of(&json::raw(json.to_owned())).into_owned();
        assert_eq!(text(r#"{"role":"user","content":"a\nb"}"#), "a\nb");
        let parts = r#"[{"type":"text","text":"a"},{"type":"image_url","image_url":"data:x"},
            {"type":"text","text":"b"}]"#;
        assert_eq!(text(&format!(r#"{{"content":{parts}}}"#)), "a\nb");
        assert_eq!(text(r#"{"role":"assistant","content":null}"#), "");
        assert_eq!(text(r#"{"role":"assistant"}"#), "");
    }
}
