//! Writes the pictures of tools into the transcript, in the form that a model takes.
//!
//! A record holds them in one user message behind the answers of the round, each behind a line
//! with its name. For a model that takes them elsewhere, or not at all, that message is
//! rewritten whenever the record is sent.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};

use super::record::RecordedPicture;
use super::settings::ImageRule;
use crate::tools::tool::{Picture, PictureFormat};

/// Pictures of one round. Providers refuse requests with too many.
pub(super) const MAX_OF_A_ROUND: usize = 20;

/// What the model reads in the place of pictures that it does not take.
pub(super) const NOT_ATTACHED: &str = "(not attached: this model takes no pictures)";

/// What the line in front of a picture begins with; the number of its answer follows.
const LABEL: &str = "Answer ";

/// The user message with the pictures of a round; `None` if there are none. `answers` are the
/// pictures of each answer, in the order of the answers.
pub(crate) fn message(answers: &[Vec<RecordedPicture>]) -> Option<Value> {
    let mut parts = Vec::new();
    for (number, pictures) in (1..).zip(answers) {
        for picture in pictures {
            let RecordedPicture { name, url, .. } = picture;
            parts.push(json!({ "type": "text", "text": format!("{LABEL}{number}, {name}:") }));
            parts.push(json!({ "type": "image_url", "image_url": { "url": url } }));
        }
    }
    (!parts.is_empty()).then(|| json!({ "role": "user", "content": parts }))
}

/// Whether the messages of a record hold such a message.
pub(super) fn are_among(messages: &str) -> bool {
    messages.contains(r#""type":"image_url""#)
}

/// Rewrites the messages of a record for a model that takes pictures by `rule`.
pub(super) fn put(messages: &mut Vec<Value>, rule: ImageRule) {
    let Some(at) = messages.iter().position(is_picture_message) else { return };
    match rule {
        ImageRule::UserMessage => {}
        ImageRule::None => {
            let mut last = None;
            with_each_picture(messages, at, |number, answer, _| {
                if last.replace(number) != Some(number) {
                    add_note(answer);
                }
            });
        }
        ImageRule::ToolMessage => {
            with_each_picture(messages, at, |_, answer, pair| add_parts(answer, pair));
        }
    }
}

/// Takes the message with the pictures out, and hands each of them out with the answer that it
/// belongs to.
fn with_each_picture(
    messages: &mut Vec<Value>,
    at: usize,
    mut take: impl FnMut(usize, &mut Value, &[Value]),
) {
    let message = messages.remove(at);
    let parts = message["content"].as_array().cloned().unwrap_or_default();
    let mut answers: Vec<&mut Value> =
        messages[..at].iter_mut().filter(|message| message["role"] == "tool").collect();
    for pair in parts.chunks_exact(2) {
        let number = answer_number(&pair[0]).and_then(|number| number.checked_sub(1));
        let Some(number) = number else { continue };
        if let Some(answer) = answers.get_mut(number) {
            take(number, answer, pair);
        }
    }
}

/// Says in an answer that its pictures are not there.
fn add_note(answer: &mut Value) {
    match &mut answer["content"] {
        Value::String(text) => {
            text.push('\n');
            text.push_str(NOT_ATTACHED);
        }
        Value::Array(parts) => parts.push(json!({ "type": "text", "text": NOT_ATTACHED })),
        _ => {}
    }
}

/// A user message with pictures right behind the answers to calls is ours.
pub(crate) fn is_picture_message(message: &Value) -> bool {
    message["role"] == "user"
        && message["content"].as_array().is_some_and(|parts| {
            parts.first().and_then(answer_number).is_some()
                && parts.get(1).is_some_and(|part| part["type"] == "image_url")
        })
}

fn answer_number(label: &Value) -> Option<usize> {
    label["text"].as_str()?.strip_prefix(LABEL)?.split_once(", ")?.0.parse().ok()
}

fn add_parts(answer: &mut Value, added: &[Value]) {
    let content = match answer["content"].take() {
        Value::Array(parts) => parts,
        text => vec![json!({ "type": "text", "text": text })],
    };
    answer["content"] = content.into_iter().chain(added.iter().cloned()).collect();
}

pub(super) fn to_record(picture: &Picture) -> RecordedPicture {
    let Picture { name, format, bytes, width, height } = picture;
    let url = format!("data:{};base64,{}", format.media_type(), STANDARD.encode(bytes));
    RecordedPicture { name: name.clone(), width: *width, height: *height, url }
}

/// `None` if the record is damaged.
pub(super) fn from_record(picture: &RecordedPicture) -> Option<Picture> {
    let RecordedPicture { name, width, height, url } = picture;
    let (media_type, encoded) = url.strip_prefix("data:")?.split_once(";base64,")?;
    let format = PictureFormat::from_media_type(media_type)?;
    let bytes = Bytes::from(STANDARD.decode(encoded).ok()?);
    Some(Picture { name: name.clone(), format, bytes, width: *width, height: *height })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(name: &str) -> RecordedPicture {
        RecordedPicture {
            name: name.to_owned(),
            width: 3,
            height: 2,
            url: "data:image/png;base64,AAEC".to_owned(),
        }
    }

    fn round() -> Vec<Value> {
        let answers =
            [vec![picture("/a, b.png")], vec![], vec![picture("/c.png"), picture("/d.png")]];
        let answer = |id: &str| json!({ "role": "tool", "tool_call_id": id, "content": id });
        let mut messages = vec![json!({ "role": "assistant", "content": null })];
        messages.extend(["one", "two", "three"].map(answer));
        messages.extend(message(&answers));
        messages
    }

    fn shapes(rule: ImageRule) -> Vec<String> {
        let mut messages = round();
        put(&mut messages, rule);
        let shape = |message: &Value| {
            let parts = message["content"].as_array().map_or(0, Vec::len);
            format!("{} {parts}", message["role"].as_str().unwrap())
        };
        messages.iter().map(shape).collect()
    }

    #[test]
    fn pictures_stand_where_the_model_takes_them() {
        let user = ["assistant 0", "tool 0", "tool 0", "tool 0", "user 6"];
        assert_eq!(shapes(ImageRule::UserMessage), user);
        let tool = ["assistant 0", "tool 3", "tool 0", "tool 5"];
        assert_eq!(shapes(ImageRule::ToolMessage), tool);
        assert_eq!(shapes(ImageRule::None), user[..4]);

        let mut messages = round();
        put(&mut messages, ImageRule::None);
        let texts = messages[1..].iter().map(|answer| answer["content"].as_str().unwrap());
        let noted = |text: &str| format!("{text}\n{NOT_ATTACHED}");
        assert_eq!(texts.collect::<Vec<_>>(), [&noted("one"), "two", &noted("three")]);
    }

    #[test]
    fn a_users_own_picture_is_left_alone() {
        let own = json!({ "role": "user", "content": [
            { "type": "text", "text": "Look" }, { "type": "image_url", "image_url": {} } ] });
        let mut messages = vec![own.clone()];
        put(&mut messages, ImageRule::None);
        assert_eq!(messages, [own]);
    }

    #[test]
    fn a_record_is_read_back() {
        let picture = Picture {
            name: "/a.png".to_owned(),
            format: PictureFormat::Png,
            bytes: Bytes::from_static(&[0, 1, 2]),
            width: 3,
            height: 2,
        };
        let record = to_record(&picture);
        assert_eq!(record.url, "data:image/png;base64,AAEC");
        assert_eq!(from_record(&record), Some(picture));
        assert_eq!(from_record(&RecordedPicture { url: "data:x".to_owned(), ..record }), None);
    }

    #[test]
    fn no_pictures_make_no_message() {
        assert_eq!(message(&[vec![], vec![]]), None);
        assert!(are_among(&Value::from(round()).to_string()));
    }
}
