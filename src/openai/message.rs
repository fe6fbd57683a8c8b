//! Reads the text of a message.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::json::{self, Kind, Object};

/// The text of a message, or its text parts joined with line ends.
pub(crate) fn text_of(message: &RawValue) -> Cow<'_, str> {
    json::member(message, "content").map_or(Cow::Borrowed(""), |content| Said::of(content).text)
}

/// What the content of a message says.
#[derive(Debug, Default)]
pub(crate) struct Said<'a> {
    /// The text, or the text parts joined with line ends.
    pub(crate) text: Cow<'a, str>,
    /// All parts, of which those that are no text are named. `None` if there are no parts.
    parts: Option<String>,
}

impl<'a> Said<'a> {
    /// Reads a content of any shape once, which may be large.
    pub(crate) fn of(content: &'a RawValue) -> Self {
        match json::kind(content) {
            Kind::String => Self { text: json::string(content).unwrap_or_default(), parts: None },
            Kind::Array => Self::of_parts(content),
            _ => Self::default(),
        }
    }

    /// All that a person has sent, which may be consent: the text, and the name of each part that
    /// is none.
    pub(crate) fn whole(self) -> String {
        self.parts.unwrap_or_else(|| self.text.into_owned())
    }

    fn of_parts(content: &'a RawValue) -> Self {
        let (mut text, mut parts) = (String::new(), String::new());
        let mut is_first = true;
        let add = |part| {
            let part = Object::from_raw(part);
            let member = |name: &str| part.as_ref().and_then(|part| part.string(name));
            let (kind, says) = (member("type"), member("text"));
            if let (Some("text"), Some(says)) = (kind.as_deref(), &says) {
                add_line(&mut text, says);
            }
            if !std::mem::take(&mut is_first) {
                parts.push('\n');
            }
            match kind.as_deref() {
                Some("text") | None => {}
                Some(kind) => {
                    parts.push('[');
                    parts.push_str(kind);
                    parts.push_str("] ");
                }
            }
            parts.push_str(&says.unwrap_or_default());
            Ok::<(), ()>(())
        };
        _ = json::for_each_item(content, add);
        Self { text: text.into(), parts: Some(parts) }
    }
}

/// Adds a line to lines. An empty one at the start leaves no line end.
fn add_line(lines: &mut String, line: &str) {
    if !lines.is_empty() {
        lines.push('\n');
    }
    lines.push_str(line);
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
