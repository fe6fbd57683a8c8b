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
pub(crate) struct Cursor {
    pub(super) event: usize,
    /// How many bytes of this event's text it has read; `None` if nothing.
    pub(super) text: Option<usize>,
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
        self.events.last().map_or_else(Cursor::default, |last| behind(self.events.len() - 1, last))
    }

    /// The events after `cursor`, each with the cursor behind it.
    pub(super) fn since(&self, cursor: Cursor) -> impl Iterator<Item = (Cursor, TurnEvent)> {
        let events = self.events.get(cursor.event..).unwrap_or_default();
        // The events come first: a cursor from outside may be the largest number there is.
        events.iter().zip(cursor.event..).filter_map(move |(event, index)| {
            let read = cursor.text.filter(|_| index == cursor.event);
            Some((behind(index, event), rest_of(event, read)?))
        })
    }

    /// The text of the answer by now.
    pub(super) fn said(&self) -> String {
        let texts = self.events.iter().filter_map(|event| match event {
            TurnEvent::Text(text) => Some(text.as_str()),
            TurnEvent::Raw(delta) => delta.text.as_deref(),
            _ => None,
        });
        texts.collect()
    }

    /// The events up to `cursor`.
    pub(super) fn until(&self, cursor: Cursor) -> Vec<TurnEvent> {
        let whole = cursor.event.min(self.events.len());
        let mut events = self.events[..whole].to_vec();
        let begun = self.events.get(cursor.event).zip(cursor.text);
        events.extend(begun.and_then(|(event, read)| start_of(event, read)));
        events
    }
}

/// The cursor of who has read `event`, the log's `index`th, as far as it goes now.
fn behind(index: usize, event: &TurnEvent) -> Cursor {
    match text_of(event) {
        Some(text) => Cursor { event: index, text: Some(text.len()) },
        None => Cursor { event: index + 1, text: None },
    }
}

/// The event with only the first `read` bytes of its text.
fn start_of(event: &TurnEvent, read: usize) -> Option<TurnEvent> {
    let mut event = event.clone();
    let text = match &mut event {
        TurnEvent::Text(text) | TurnEvent::Member { text, .. } => text,
        TurnEvent::ClientCall(call) => &mut call.arguments,
        _ => return None,
    };
    if text.is_char_boundary(read) {
        text.truncate(read);
    }
    Some(event)
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

    fn shown(events: impl Iterator<Item = (Cursor, TurnEvent)>) -> String {
        format!("{:?}", events.map(|(_, event)| event).collect::<Vec<_>>())
    }

    #[test]
    fn every_place_divides_the_log_without_loss_also_when_text_was_joined_since() {
        let pushed = [
            text("a"),
            text("b"),
            TurnEvent::Begun,
            text("c"),
            call(true, "{"),
            call(false, "}"),
            call(true, ""),
            TurnEvent::RoundStarted(2),
            text("d"),
            text("e"),
        ];
        let mut log = Log::default();
        let mut places = vec![log.end()];
        for event in &pushed {
            let last = *places.last().unwrap();
            log.push(event);
            places.extend(log.since(last).map(|(behind, _)| behind));
        }
        let whole = shown(log.since(Cursor::default()));
        for place in places {
            let mut again = Log::default();
            for event in log.until(place) {
                again.push(&event);
            }
            assert_eq!(again.end(), place);
            for (_, event) in log.since(place) {
                again.push(&event);
            }
            assert_eq!(shown(again.since(Cursor::default())), whole, "{place:?}");
        }
    }

    #[test]
    fn a_place_that_is_not_in_the_log_has_nothing_behind_it() {
        let mut log = Log::default();
        log.push(&text("é"));
        for (event, read) in [(0, Some(9)), (0, Some(1)), (1, None), (usize::MAX, Some(usize::MAX))]
        {
            let place = Cursor { event, text: read };
            assert_eq!(shown(log.since(place)), "[]", "{place:?}");
            log.until(place);
        }
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
