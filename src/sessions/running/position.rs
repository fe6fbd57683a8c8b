//! Tracks how far an answer has been told, and reads and writes that as the id of an SSE event.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use super::log::Cursor;
use crate::agent::events::{ClientCallDelta, TurnEvent};

/// How much of the answer itself has been told, however its events were cut. This holds for the
/// log of a running turn and for its record alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnswerOffset {
    /// Bytes of content.
    content: usize,
    /// Client calls that have begun.
    calls: usize,
    /// Bytes of the last call's arguments.
    arguments: usize,
}

/// A place in the stream of a turn: behind it, the stream goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// The place in the log of the turn.
    pub(crate) cursor: Cursor,
    pub(crate) offset: AnswerOffset,
    /// How many SSE events of the next turn event have been written.
    pub(crate) written: usize,
    /// Whether that is the turn's last event.
    pub(crate) is_at_end: bool,
}

/// No text is so long and no turn has so many calls, so what is told next can be added.
const MAX_NUMBER: usize = usize::MAX / 2;

/// A text is not the id of an event of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotAnId;

impl Position {
    /// The same place in a turn that is told from its record. The record has other events in
    /// other pieces: of those, only the last one is the same.
    pub(crate) fn in_record(self) -> Self {
        let has_begun = (self.cursor, self.offset) != Default::default();
        let written = if has_begun && !self.is_at_end { 0 } else { self.written };
        Self { written, ..self }
    }
}

impl AnswerOffset {
    pub(crate) fn note(&mut self, event: &TurnEvent) {
        match event {
            TurnEvent::Text(text) => self.content += text.len(),
            TurnEvent::Raw(delta) => self.content += delta.text.as_ref().map_or(0, String::len),
            TurnEvent::ClientCall(call) if call.head.is_some() => {
                self.calls += 1;
                self.arguments = call.arguments.len();
            }
            TurnEvent::ClientCall(call) => self.arguments += call.arguments.len(),
            _ => {}
        }
    }

    /// What is left of an answer that is told from its record.
    pub(super) fn rest_of(self, events: Vec<TurnEvent>) -> VecDeque<TurnEvent> {
        events.into_iter().filter_map(|event| self.rest_of_event(event)).collect()
    }

    fn rest_of_event(self, event: TurnEvent) -> Option<TurnEvent> {
        match event {
            TurnEvent::Text(text) => behind(&text, self.content).map(TurnEvent::Text),
            TurnEvent::ClientCall(call) if call.index < self.calls => {
                let is_last = call.index + 1 == self.calls;
                let read = if is_last { self.arguments } else { call.arguments.len() };
                let arguments = behind(&call.arguments, read)?;
                let rest = ClientCallDelta { head: None, arguments, ..*call };
                Some(TurnEvent::ClientCall(Box::new(rest)))
            }
            event => Some(event),
        }
    }
}

/// `text` without its first `read` bytes; `None` if nothing is left.
fn behind(text: &str, read: usize) -> Option<String> {
    let read = (read..=text.len()).find(|at| text.is_char_boundary(*at))?;
    Some(text[read..].to_owned()).filter(|rest| !rest.is_empty())
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cursor, offset, written, is_at_end } = self;
        let end = if *is_at_end { "e" } else { "" };
        write!(f, "{}.", cursor.event)?;
        match cursor.text {
            Some(text) => write!(f, "{text}")?,
            None => f.write_str("-")?,
        }
        write!(f, ".{}.{}.{}.{end}{written}", offset.content, offset.calls, offset.arguments)
    }
}

impl FromStr for Position {
    type Err = NotAnId;

    fn from_str(id: &str) -> Result<Self, NotAnId> {
        let number = |text: &str| {
            let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let number = text.parse().ok().filter(|number| is_plain && *number <= MAX_NUMBER);
            number.ok_or(NotAnId)
        };
        let parts: Vec<&str> = id.splitn(7, '.').collect();
        let &[event, text, content, calls, arguments, written] = &*parts else {
            return Err(NotAnId);
        };
        let at_end = written.strip_prefix('e');
        let text = if text == "-" { None } else { Some(number(text)?) };
        Ok(Self {
            cursor: Cursor { event: number(event)?, text },
            offset: AnswerOffset {
                content: number(content)?,
                calls: number(calls)?,
                arguments: number(arguments)?,
            },
            written: number(at_end.unwrap_or(written))?,
            is_at_end: at_end.is_some(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openai::chunk::CallKind;

    fn call(index: usize, arguments: &str) -> TurnEvent {
        TurnEvent::ClientCall(Box::new(ClientCallDelta {
            index,
            kind: CallKind::Function,
            head: Some((format!("c{index}"), "weather".to_owned())),
            arguments: arguments.to_owned(),
        }))
    }

    fn answer() -> Vec<TurnEvent> {
        vec![TurnEvent::Text("Grüße.".to_owned()), call(0, r#"{"a":1}"#), call(1, "{}")]
    }

    /// The parts of each event, as a stream would bring them.
    fn pieces() -> Vec<TurnEvent> {
        let mut pieces = Vec::new();
        for event in answer() {
            match event {
                TurnEvent::Text(text) => {
                    pieces.extend(text.chars().map(|char| TurnEvent::Text(char.into())));
                }
                TurnEvent::ClientCall(call) => {
                    let begun = ClientCallDelta { arguments: String::new(), ..*call.clone() };
                    pieces.push(TurnEvent::ClientCall(Box::new(begun)));
                    pieces.extend(call.arguments.chars().map(|char| {
                        let arguments = char.to_string();
                        let piece = ClientCallDelta { head: None, arguments, ..*call.clone() };
                        TurnEvent::ClientCall(Box::new(piece))
                    }));
                }
                _ => {}
            }
        }
        pieces
    }

    fn joined(events: impl IntoIterator<Item = TurnEvent>) -> String {
        let mut all: Vec<TurnEvent> = Vec::new();
        for event in events {
            if all.last_mut().is_none_or(|last| last.absorb(&event).is_none()) {
                all.push(event);
            }
        }
        format!("{all:?}")
    }

    #[test]
    fn a_record_goes_on_behind_whatever_was_told_before() {
        let pieces = pieces();
        for cut in 0..=pieces.len() {
            let mut offset = AnswerOffset::default();
            pieces[..cut].iter().for_each(|piece| offset.note(piece));

            let both = pieces[..cut].iter().cloned().chain(offset.rest_of(answer()));

            assert_eq!(joined(both), joined(answer()), "after {cut} pieces");
        }
    }

    #[test]
    fn an_id_is_read_as_it_was_written() {
        for text in [None, Some(7)] {
            let cursor = Cursor { event: 3, text };
            let offset = AnswerOffset { content: 20, calls: 1, arguments: 4 };
            for is_at_end in [false, true] {
                let position = Position { cursor, offset, written: 2, is_at_end };
                assert_eq!(position.to_string().parse(), Ok(position));
            }
        }
    }

    #[test]
    fn what_we_did_not_write_is_no_id() {
        let long = "9".repeat(10_000);
        for id in
            ["", "1", "1.2.3.4.5", "1.2.3.4.5.6.7", "-.2.3.4.5.6", "+1.2.3.4.5.6", "1. 2.3.4.5.6"]
        {
            assert_eq!(id.parse::<Position>(), Err(NotAnId), "{id}");
        }
        assert_eq!(format!("{long}.-.0.0.0.0").parse::<Position>(), Err(NotAnId));
    }

    #[test]
    fn what_comes_behind_the_largest_numbers_can_be_counted() {
        for number in [usize::MAX, MAX_NUMBER + 1] {
            for id in [
                format!("0.-.{number}.0.0.0"),
                format!("0.-.0.{number}.0.0"),
                format!("0.-.0.0.{number}.0"),
            ] {
                assert_eq!(id.parse::<Position>(), Err(NotAnId), "{id}");
            }
        }
        let id = format!("0.-.{MAX_NUMBER}.{MAX_NUMBER}.{MAX_NUMBER}.0");
        let mut offset = id.parse::<Position>().unwrap().offset;
        let more = ClientCallDelta {
            index: 0,
            kind: CallKind::Function,
            head: None,
            arguments: "{}".to_owned(),
        };
        offset.note(&TurnEvent::ClientCall(Box::new(more)));
        for event in answer() {
            offset.note(&event);
        }
        assert_eq!(offset.calls, MAX_NUMBER + 2);
    }
}
