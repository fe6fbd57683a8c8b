//! Parses the chunks of a stream quickly: only the part that is new in each.
//!
//! Most chunks of a stream repeat the same JSON around another piece of text. If a chunk has
//! the same bytes before and after its text as an earlier one, only the text is parsed: JSON in
//! which one string literal is replaced by another differs in that string alone.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{BadChunk, Chunk, Delta, RawMembers};

/// Remembers what the chunks of one stream have in common.
#[derive(Clone, Debug, Default)]
pub(super) struct FrameCache {
    frame: Option<Frame>,
    /// How often a frame was learned.
    learned: u8,
}

/// A chunk that has only text, without that text.
#[derive(Clone, Debug)]
struct Frame {
    before: Box<str>,
    after: Box<str>,
    /// The unknown top-level members, which are the same in each chunk of the frame.
    unknown: Option<Arc<RawMembers>>,
}

impl FrameCache {
    /// How often to learn a frame. Providers that give each chunk its own id have none.
    const TRIES: u8 = 4;

    /// Parses like [`Chunk::parse`], except that only the first chunk of a frame has the
    /// model's name.
    pub(super) fn read(&mut self, payload: &str) -> Result<Chunk, BadChunk> {
        if let Some(chunk) = self.frame.as_ref().and_then(|frame| frame.chunk_of(payload)) {
            return Ok(chunk);
        }
        let chunk = Chunk::parse(payload)?;
        if self.learned < Self::TRIES && is_text_alone(&chunk) {
            self.learned += 1;
            self.frame = Frame::from_payload(payload, chunk.unknown.clone());
        }
        Ok(chunk)
    }
}

impl Frame {
    fn from_payload(payload: &str, unknown: Option<Arc<RawMembers>>) -> Option<Self> {
        #[derive(Deserialize)]
        struct Envelope<'a> {
            #[serde(borrow)]
            choices: [Choice<'a>; 1],
        }
        #[derive(Deserialize)]
        struct Choice<'a> {
            #[serde(borrow)]
            delta: Text<'a>,
        }
        #[derive(Deserialize)]
        struct Text<'a> {
            #[serde(borrow)]
            content: &'a RawValue,
        }
        let Envelope { choices: [choice] } = serde_json::from_str(payload).ok()?;
        let literal = choice.delta.content.get();
        // The literal borrows from the payload, so its address gives its position.
        let start = literal.as_ptr().addr() - payload.as_ptr().addr();
        let after = payload.get(start + literal.len()..)?;
        Some(Self { before: payload.get(..start)?.into(), after: after.into(), unknown })
    }

    fn chunk_of(&self, payload: &str) -> Option<Chunk> {
        let content = Some(self.text_of(payload)?);
        let delta = Delta { content, ..Delta::default() };
        let unknown = self.unknown.clone();
        Some(Chunk { has_choice: true, delta, unknown, ..Chunk::default() })
    }

    fn text_of(&self, payload: &str) -> Option<String> {
        let literal = payload.strip_prefix(&*self.before)?.strip_suffix(&*self.after)?;
        serde_json::from_str(literal).ok()
    }
}

/// Whether the chunk has text and nothing else.
fn is_text_alone(chunk: &Chunk) -> bool {
    let Chunk { delta, finish_reason, usage, logprobs, .. } = chunk;
    let Delta { content, parts, tool_calls, members } = delta;
    content.is_some()
        && parts.is_empty()
        && tool_calls.is_empty()
        && members.is_empty()
        && finish_reason.is_none()
        && usage.is_none()
        && logprobs.is_none()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A chunk with the same envelope each time, and `content` as a JSON literal.
    fn payload(content: &str) -> String {
        format!(
            r#"{{"id":"c1","model":"m","choices":[{{"index":0,"delta":{{"role":"assistant","content":{content}}},"finish_reason":null}}]}}"#
        )
    }

    /// Checks that each payload in turn is read as it would be alone.
    #[track_caller]
    fn check(payloads: &[String]) -> FrameCache {
        let mut frames = FrameCache::default();
        for payload in payloads {
            let (mut found, mut expected) = (frames.read(payload), Chunk::parse(payload));
            for chunk in [&mut found, &mut expected].into_iter().flatten() {
                chunk.model = None;
            }
            assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{payload}");
        }
        frames
    }

    #[test]
    fn another_text_in_the_same_frame_is_all_that_is_read() {
        let mut frames = check(&[payload(r#""a""#)]);

        assert_eq!(frames.frame.as_ref().unwrap().text_of(&payload(r#""b\n""#)).unwrap(), "b\n");
        assert_eq!(frames.read(&payload(r#""ü\u00fc""#)).unwrap().delta.content.unwrap(), "üü");
    }

    #[test]
    fn what_only_looks_like_the_frame_is_read_in_full() {
        let more = r#""a","finish_reason":"stop"},{"index":1,"delta":{"content":"b""#;
        let texts =
            [r#""a""#, r#""a"}, "x": {"y": "z""#, "null", "1", r#""\ud83d""#, "\"\n\"", more];
        check(&texts.map(payload));
        let two = r#"{"choices":[{"delta":{"content":"a"}},{"delta":{"content":"b"}}]}"#;
        check(&[two.to_owned(), two.replace('b', "c"), two.replace('a', "c")]);
        let null = r#"{"choices":null,"content":"a"}"#;
        check(&[payload(r#""a""#), null.to_owned(), payload(r#""b""#), "{}".to_owned()]);
        let named_twice = r#"{"choices":[{"delta":{"content":"a","content":"b"}}]}"#;
        check(&[named_twice.to_owned(), named_twice.replace('b', "c")]);
    }

    #[test]
    fn a_frame_that_never_returns_is_not_sought_for_ever() {
        let alone = |number: u32| payload(r#""a""#).replace("c1", &format!("c{number}"));

        let frames = check(&(0..20).map(alone).collect::<Vec<_>>());

        assert_eq!(frames.learned, FrameCache::TRIES);
    }

    proptest! {
        #[test]
        fn any_text_is_read_as_without_a_frame(texts in prop::collection::vec(".*", 1..6)) {
            let literal = |text: &String| serde_json::to_string(text).unwrap();
            check(&texts.iter().map(|text| payload(&literal(text))).collect::<Vec<_>>());
        }

        #[test]
        fn what_stands_beside_the_choices_is_read_as_without_a_frame(
            chunks in prop::collection::vec(("[a-z]{0,3}", 0..3_usize, prop::bool::ANY, 0..4_usize), 1..8),
        ) {
            const MEMBERS: [&str; 3] =
                ["", r#","citations":["u"],"x":null"#, r#","service_tier":"flex","obfuscation":"r""#];
            let payload = |(text, members, is_behind, kind): &(String, usize, bool, usize)| {
                let (before, behind) = if *is_behind { ("", MEMBERS[*members]) } else { (MEMBERS[*members], "") };
                let choices = match kind {
                    0 => "null".to_owned(),
                    1 => format!(r#"[{{"delta":{{"content":["{text}"]}}}}]"#),
                    _ => format!(r#"[{{"delta":{{"content":"{text}"}}}}]"#),
                };
                format!(r#"{{"id":"c"{before},"choices":{choices}{behind}}}"#)
            };
            check(&chunks.iter().map(payload).collect::<Vec<_>>());
        }

        #[test]
        fn any_bytes_in_a_texts_place_are_read_as_without_a_frame(
            pieces in prop::collection::vec("[\"\\\\{}:,nu0-9a-z\\[\\] ]{0,12}", 1..6),
        ) {
            let payloads = pieces.iter().map(|piece| payload(&format!("\"{piece}\"")));
            check(&std::iter::once(payload(r#""a""#)).chain(payloads).collect::<Vec<_>>());
        }
    }
}
