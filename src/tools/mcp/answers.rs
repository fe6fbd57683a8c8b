//! Puts the answer of an MCP server into the form of our answers.

use bytes::Bytes;
use serde_json::Value;

use crate::blocking::DECODING;
use crate::mcp::{McpAnswer, McpPart};
use crate::tools::answer::IMAGE_ATTACHED;
use crate::tools::output::AnswerFile;
use crate::tools::picture::{self, DecodingTime};
use crate::tools::tool::{Picture, PictureFormat, ToolError, ToolOutput};

/// The most pictures of one answer.
const MAX_PICTURES: usize = 4;

/// The most parts of one answer that are kept in files.
const MAX_FILES: usize = 20;

/// The output for an answer: its texts in order, pictures attached, and the rest kept in files.
/// `source` is what the pictures are of.
pub(crate) async fn output(answer: McpAnswer, source: &str) -> Result<ToolOutput, ToolError> {
    let McpAnswer { parts, structured, is_error } = answer;
    let mut gathered = Gathered::default();
    for part in parts {
        gathered.add(part, source).await;
    }
    let Gathered { mut lines, pictures, files, left_out, has_text, .. } = gathered;
    if left_out > 0 {
        lines.push(format!("({left_out} more parts that are no text were left out)"));
    }
    if let Some(value) = structured.as_ref().filter(|_| !has_text) {
        lines.insert(0, pretty(value));
    }
    let text = lines.join("\n");
    let structured = structured.unwrap_or(Value::Null);
    Ok(ToolOutput { pictures, files, is_error, ..ToolOutput::text(text).with(structured) })
}

#[derive(Default)]
struct Gathered {
    lines: Vec<String>,
    pictures: Vec<Picture>,
    files: Vec<AnswerFile>,
    left_out: usize,
    /// What all pictures have together, from the first one on.
    time: Option<DecodingTime>,
    /// Whether one of the lines is a text of the server's.
    has_text: bool,
}

impl Gathered {
    async fn add(&mut self, part: McpPart, source: &str) {
        match part {
            McpPart::Text(text) => {
                self.has_text |= !text.trim().is_empty();
                self.lines.push(text);
            }
            McpPart::Note(note) => self.lines.push(note),
            McpPart::Resource { uri, text } => {
                self.has_text = true;
                self.lines.push(format!("[resource {uri}]\n{text}"));
            }
            McpPart::Link { uri, name } => {
                self.lines.push(format!("[link to the resource {name}: {uri}]"));
            }
            McpPart::File { mime_type, bytes } => self.keep("attachment", &mime_type, bytes),
            McpPart::Picture { mime_type, bytes } => {
                self.add_picture(&mime_type, bytes.into(), source).await;
            }
        }
    }

    async fn add_picture(&mut self, mime_type: &str, bytes: Bytes, source: &str) {
        let Some(format) = PictureFormat::recognise(&bytes) else {
            return self.keep("picture", mime_type, bytes);
        };
        if self.pictures.len() == MAX_PICTURES {
            return self.keep("picture", mime_type, bytes);
        }
        let time = *self.time.get_or_insert_with(DecodingTime::of_a_call);
        let prepared = DECODING.run(move || picture::prepare(bytes, format, time)).await;
        match prepared {
            Ok(Ok(prepared)) => {
                self.lines.push(format!("{IMAGE_ATTACHED} {}", prepared.described(format)));
                self.pictures.push(prepared.attached(source.to_owned()));
            }
            Ok(Err(error)) => {
                self.lines
                    .push(format!("(a {} picture that is not shown: {error})", format.name()));
            }
            Err(overloaded) => {
                self.lines.push(format!("(a picture that is not shown: {overloaded})"));
            }
        }
    }

    fn keep(&mut self, what: &str, mime_type: &str, bytes: impl Into<Bytes>) {
        if self.files.len() == MAX_FILES {
            self.left_out += 1;
            return;
        }
        let what = format!("{what} of type {mime_type}");
        self.files.push(AnswerFile { what, bytes: bytes.into() });
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    async fn of(parts: Vec<McpPart>, structured: Option<Value>) -> ToolOutput {
        let answer = McpAnswer { parts, structured, is_error: false };
        output(answer, "shot of cam").await.unwrap()
    }

    #[tokio::test]
    async fn texts_stay_in_order_and_other_parts_are_named() {
        let output = of(
            vec![
                McpPart::Text("one".into()),
                McpPart::Resource { uri: "x://1".into(), text: "two".into() },
                McpPart::Link { uri: "file:///etc/passwd".into(), name: "three".into() },
                McpPart::File { mime_type: "audio/wav".into(), bytes: vec![1, 2] },
                McpPart::Picture { mime_type: "image/svg+xml".into(), bytes: b"<svg/>".into() },
            ],
            None,
        )
        .await;
        insta::assert_snapshot!(output.text, @r"
        one
        [resource x://1]
        two
        [link to the resource three: file:///etc/passwd]
        ");
        let kept: Vec<&str> = output.files.iter().map(|file| file.what.as_str()).collect();
        assert_eq!(kept, ["attachment of type audio/wav", "picture of type image/svg+xml"]);
    }

    #[tokio::test]
    async fn structured_content_is_the_text_where_there_is_none() {
        let value = json!({ "a": 1 });
        assert_eq!(of(vec![], Some(value.clone())).await.text.to_string(), "{\n  \"a\": 1\n}");
        let both = of(vec![McpPart::Text("one".into())], Some(value.clone())).await;
        assert_eq!((both.text.to_string(), both.structured), ("one".to_owned(), value));
    }

    #[tokio::test]
    async fn structured_content_is_the_text_beside_parts_that_are_none() {
        let gif = include_bytes!("../../../tests/documents/still.gif").to_vec();
        let parts = vec![
            McpPart::Text(" \n".into()),
            McpPart::Picture { mime_type: "image/gif".into(), bytes: gif },
            McpPart::File { mime_type: "audio/wav".into(), bytes: vec![1, 2] },
            McpPart::Link { uri: "x://1".into(), name: "one".into() },
            McpPart::Note("(2 more parts are left out)".into()),
        ];
        let output = of(parts, Some(json!({ "a": 1 }))).await;
        let text = output.text.to_string();
        assert!(text.starts_with("{\n  \"a\": 1\n}\n"), "{text}");
        assert!(text.contains("(image attached) GIF"), "{text}");
        assert!(
            text.ends_with("[link to the resource one: x://1]\n(2 more parts are left out)"),
            "{text}"
        );
        assert_eq!((output.pictures.len(), output.files.len()), (1, 1));
    }

    #[tokio::test]
    async fn few_pictures_are_shown_and_a_damaged_one_is_told() {
        let gif = include_bytes!("../../../tests/documents/still.gif").to_vec();
        let picture = |bytes: &[u8]| McpPart::Picture {
            mime_type: "image/gif".into(),
            bytes: bytes.to_vec(),
        };
        let parts = (0..6).map(|_| picture(&gif)).chain([picture(&gif[..20])]).collect();
        let output = of(parts, None).await;
        assert_eq!((output.pictures.len(), output.files.len()), (4, 3));
        assert_eq!(output.pictures[0].name, "shot of cam");
        assert_eq!(of(vec![picture(&gif[..20])], None).await.pictures, []);
    }
}
