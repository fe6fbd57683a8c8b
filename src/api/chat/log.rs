//! Keeps the events of a turn for subscribers that join late.

use crate::agent::events::{ClientCallDelta, TurnEvent};

/// Growing vectors and strings may have twice the capacity that they use.
const ROOM: usize = 2;

/// Events in order. Consecutive pieces of one text are joined.
#[derive(Debug, Default)]
pub(super) struct Log {
    events: Vec<TurnEvent>,
    /// An estimate of the memory they take.
    bytes: usize,
}

/// The position of a subscriber.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    event: usize,
    /// How many bytes of this event's text it has read; `None` if nothing.
    text: Option<usize>,
}

impl Log {
    pub(super) fn push(&mut self, event: &TurnEvent) {
        if let Some(added) = self.events.last_mut().and_then(|last| last.absorb(event)) {
            // A growing string may have twice the capacity that it uses.
            self.bytes += ROOM * added;
        } else {
            self.bytes += Self::size_of(event);
            self.events.push(event.to_keep());
        }
    }

    /// Estimates the memory that one more event takes, in bytes.
    pub(super) fn size_of(event: &TurnEvent) -> usize {
        let kept = match event {
            TurnEvent::ToolStarted(_) | TurnEvent::ToolEnded(_) => event.to_keep().size_estimate(),
            event => event.size_estimate(),
        };
        ROOM * (size_of::<TurnEvent>() + kept)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn end(&self) -> Cursor {
        match self.events.last().and_then(text_of) {
            Some(text) => Cursor { event: self.events.len() - 1, text: Some(text.len()) },
            None => Cursor { event: self.events.len(), text: None },
        }
    }

    /// The events after `cursor`.
    pub(super) fn since(&self, cursor: Cursor) -> impl Iterator<Item = TurnEvent> {
        let mut events = self.events.get(cursor.event..).unwrap_or_default().iter();
        let first = events.next().and_then(|event| rest_of(event, cursor.text));
        first.into_iter().chain(events.cloned())
    }
}

/// The text that a further piece may be appended to.
fn text_of(event: &TurnEvent) -> Option<&str> {
    match event {
        TurnEvent::Text(text) | TurnEvent::Member { text, .. } => Some(text),
        TurnEvent::ClientCall(call) => Some(&call.arguments),
        _ => None,
    }
}

/// The event without the first `from` bytes of its text.
fn rest_of(event: &TurnEvent, from: Option<usize>) -> Option<TurnEvent> {
    let (Some(from), Some(text)) = (from, text_of(event)) else { return Some(event.clone()) };
    let rest = text.get(from..).filter(|rest| !rest.is_empty())?.to_owned();
    Some(match event {
        TurnEvent::Member { name, .. } => TurnEvent::Member { name: name.clone(), text: rest },
        TurnEvent::ClientCall(call) => {
            let (index, kind) = (call.index, call.kind);
            TurnEvent::ClientCall(Box::new(ClientCallDelta {
                index,
                kind,
                head: None,
                arguments: rest,
            }))
        }
        _ => TurnEvent::Text(rest),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openai::chunk::CallKind;

    fn text(text: &str) -> TurnEvent {
        TurnEvent::Text(text.to_owned())
    }

    fn call(head: bool, arguments: &str) -> TurnEvent {
        let head = head.then(|| ("c1".to_owned(), "weather".to_owned()));
        let arguments = arguments.to_owned();
        TurnEvent::ClientCall(Box::new(ClientCallDelta {
            index: 0,
            kind: CallKind::Function,
            head,
            arguments,
        }))
    }

    fn shown(events: impl Iterator<Item = TurnEvent>) -> String {
        format!("{:?}", events.collect::<Vec<_>>())
    }

    #[test]
    fn who_comes_late_hears_it_all_in_few_pieces() {
        let mut log = Log::default();
        for event in [text("a"), text("b"), TurnEvent::Begun, call(true, "{"), call(false, "}")] {
            log.push(&event);
        }

        let expected = vec![text("ab"), TurnEvent::Begun, call(true, "{}")];
        assert_eq!(shown(log.since(Cursor::default())), format!("{expected:?}"));
    }

    #[test]
    fn who_was_there_hears_only_what_is_new() {
        let mut log = Log::default();
        for (pushed, heard) in [
            (vec![text("a")], vec![text("a")]),
            (vec![text("b"), text("c")], vec![text("bc")]),
            (vec![], vec![]),
            (vec![TurnEvent::Begun], vec![TurnEvent::Begun]),
            (vec![call(true, "")], vec![call(true, "")]),
            (vec![call(false, "{}"), text("d")], vec![call(false, "{}"), text("d")]),
        ] {
            let before = log.end();
            for event in &pushed {
                log.push(event);
            }
            assert_eq!(shown(log.since(before)), format!("{heard:?}"));
        }
    }
}
