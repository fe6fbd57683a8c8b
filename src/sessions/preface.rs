//! Puts text of ours in front of the user's words, upstream and in the record, so that it stands
//! there in later requests too.

use serde_json::Value;
use serde_json::value::RawValue;

use super::assemble::Assembled;
use crate::agent::beginning::{Beginning, HistoryPiece};
use crate::agent::notes::with_note;
use crate::json::{self, Object};

/// Whether the turn begins with words of the user's.
pub(super) fn has_words(assembled: &Assembled) -> bool {
    assembled.user_messages.last().is_some_and(|own| !own.sent.is_empty())
}

/// Puts the text in front of the user's last words. Returns false if there are none.
pub(super) fn put_in_front(assembled: &mut Assembled, text: &str) -> bool {
    replace_words(assembled, |message| with_text(message, text))
}

/// Replaces the user message with the last words. Returns false if there is none, or it stays.
pub(super) fn replace_words(
    assembled: &mut Assembled,
    replace: impl FnOnce(&str) -> Option<String>,
) -> bool {
    let Some(own) = assembled.user_messages.last_mut().filter(|own| !own.sent.is_empty()) else {
        return false;
    };
    let is_own = |piece: &&mut HistoryPiece| match piece {
        HistoryPiece::Client(message) => message.get() == own.sent,
        HistoryPiece::Recorded(_) => false,
    };
    let then = match &mut assembled.beginning {
        Beginning::Resume(resume) => resume.then.as_mut_slice(),
        Beginning::Ask | Beginning::Continue { .. } => &mut [],
    };
    let mut pieces = assembled.pieces.iter_mut().chain(then).rev();
    let Some(piece) = pieces.find(is_own) else { return false };
    let Some(sent) = replace(&own.sent) else { return false };
    *piece = HistoryPiece::Client(json::raw(sent.clone()));
    own.sent = sent;
    true
}

/// The user message with the text in front of its own; `None` if it has no content.
fn with_text(message: &str, text: &str) -> Option<String> {
    let message: &RawValue = serde_json::from_str(message).ok()?;
    let content = Object::from_raw(message)?.get("content")?;
    if !matches!(json::kind(content), json::Kind::String | json::Kind::Array) {
        return None;
    }
    let text = format!("{text}\n\n");
    let add = |parts: &mut Vec<Value>, text| parts.insert(0, text);
    Some(with_note(message, &text, |words| format!("{text}{words}"), add).get().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_text_stands_in_front_of_the_words_and_the_rest_is_kept() {
        let text = with_text(r#"{"role":"user","content":"Go.","name":"me"}"#, "tabs").unwrap();
        let text: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(text, json!({"role": "user", "content": "tabs\n\nGo.", "name": "me"}));
        let parts = with_text(r#"{"content":[{"type":"image_url"}]}"#, "tabs").unwrap();
        let parts: Value = serde_json::from_str(&parts).unwrap();
        assert_eq!(parts["content"][1], json!({"type": "image_url"}));
        assert_eq!(parts["content"][0]["type"], "text");
        assert_eq!(with_text(r#"{"content":null}"#, "tabs"), None);
    }
}
