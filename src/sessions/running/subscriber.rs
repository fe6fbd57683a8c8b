//! Hears a turn: what was said before, events as they come, and from the record what is no
//! longer kept.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::log::Cursor;
use super::position::{AnswerOffset, Position};
use super::records::Records;
use super::retold::retold;
use super::shape::{AnswerForm, AnswerShape};
use super::shared_turn::{DisconnectPolicy, Found, SharedTurn, failed, too_long};
use crate::agent::events::{Failure, TurnEvent};
use crate::ids::{Scope, TurnId};
use crate::sessions::record::TurnRecord;

/// Receives the events of a turn. What it means that the last one is dropped, the turn says.
pub(crate) struct Subscriber {
    /// What the client calls the session.
    pub(crate) session: String,
    pub(crate) turn: TurnId,
    pub(crate) shape: Arc<AnswerShape>,
    /// The turn, and this subscriber's number in it; `None` for a turn that is only a record.
    live: Option<(Arc<SharedTurn>, usize)>,
    cursor: Cursor,
    offset: AnswerOffset,
    /// Whether each event comes with its position; `cursors` are those of the next events.
    is_numbered: bool,
    cursors: VecDeque<Cursor>,
    /// What is told from the record.
    record: Option<BoxFuture<'static, VecDeque<TurnEvent>>>,
    /// The terminal event has been taken.
    is_done: bool,
}

impl Subscriber {
    /// Subscribes to a turn from its beginning.
    pub(super) fn new(turn: &Arc<SharedTurn>) -> Self {
        let number = turn.state().enter();
        turn.attendance_changed();
        Self {
            session: turn.identity.session_name.clone(),
            turn: turn.identity.id.clone(),
            shape: Arc::clone(&turn.shape),
            live: Some((Arc::clone(turn), number)),
            cursor: Cursor::default(),
            offset: AnswerOffset::default(),
            is_numbered: false,
            cursors: VecDeque::new(),
            record: None,
            is_done: false,
        }
    }

    /// Tells a turn that is over, from what is recorded of it.
    pub(crate) fn of_record(record: &TurnRecord, shape: AnswerShape, position: Position) -> Self {
        let events = position.offset.rest_of(retold(record));
        Self {
            session: record.session_name(),
            turn: record.row.id.clone(),
            shape: Arc::new(shape),
            live: None,
            cursor: position.cursor,
            offset: position.offset,
            is_numbered: true,
            cursors: VecDeque::new(),
            record: Some(std::future::ready(events).boxed()),
            is_done: false,
        }
    }

    /// Shows the answer as this request wants it, whatever the one that began the turn wants.
    pub(crate) fn in_form(mut self, form: AnswerForm) -> Self {
        self.shape = Arc::new(AnswerShape { form, ..AnswerShape::clone(&self.shape) });
        self
    }

    /// Goes on behind `position`, and numbers the events.
    pub(super) fn behind(mut self, position: Position) -> Self {
        if let Some((turn, _)) = &self.live {
            turn.follow();
        }
        (self.cursor, self.offset, self.is_numbered) = (position.cursor, position.offset, true);
        self
    }

    /// Stands for what was told before the subscriber's position: an encoder that goes on there
    /// must have seen it.
    pub(crate) fn told_before(&self) -> Vec<TurnEvent> {
        let begun = (self.cursor, self.offset) != Default::default();
        let log = self.live.as_ref().and_then(|(turn, _)| turn.state().until(self.cursor));
        log.unwrap_or_else(|| if begun { vec![TurnEvent::Begun] } else { Vec::new() })
    }

    /// The next events, up to and including the terminal one; afterwards `None`.
    pub(crate) fn poll_take(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<VecDeque<TurnEvent>>> {
        let events = ready!(self.poll_next(context));
        for event in &events {
            self.offset.note(event);
        }
        Poll::Ready(if events.is_empty() { None } else { Some(events) })
    }

    /// Whether events come from the record by now.
    pub(crate) fn is_retold(&self) -> bool {
        self.record.is_some()
    }

    /// [`Self::poll_take`] as a future. Cancel-safe.
    pub(crate) async fn take(&mut self) -> Option<VecDeque<TurnEvent>> {
        std::future::poll_fn(|context| self.poll_take(context)).await
    }

    /// Like [`Self::poll_take`], with the position behind each event.
    pub(crate) fn poll_numbered(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<VecDeque<(Position, TurnEvent)>>> {
        let events = ready!(self.poll_next(context));
        let mut cursors = std::mem::take(&mut self.cursors);
        let mut offset = self.offset;
        let mut cursor = self.cursor;
        let numbered = events.into_iter().map(|event| {
            offset.note(&event);
            cursor = cursors.pop_front().unwrap_or(cursor);
            (Position { cursor, offset, ..Position::default() }, event)
        });
        let numbered: VecDeque<_> = numbered.collect();
        self.offset = offset;
        Poll::Ready(if numbered.is_empty() { None } else { Some(numbered) })
    }

    /// The next events; none after the terminal one.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<VecDeque<TurnEvent>> {
        if self.is_done {
            return Poll::Ready(VecDeque::new());
        }
        let events = match &mut self.record {
            Some(record) => ready!(record.poll_unpin(context)),
            None => ready!(self.poll_live(context)),
        };
        self.is_done = events.back().is_none_or(TurnEvent::is_terminal);
        Poll::Ready(events)
    }

    fn poll_live(&mut self, context: &mut Context<'_>) -> Poll<VecDeque<TurnEvent>> {
        let Some((turn, number)) = &self.live else { return Poll::Ready(VecDeque::new()) };
        let mut state = turn.state();
        loop {
            match state.find(*number, self.cursor) {
                Found::Events(found) => {
                    self.cursor = found.back().map_or(self.cursor, |(behind, _)| *behind);
                    if self.is_numbered {
                        self.cursors = found.iter().map(|(behind, _)| *behind).collect();
                    }
                    return Poll::Ready(found.into_iter().map(|(_, event)| event).collect());
                }
                Found::Missing if state.is_over() => break,
                Found::Missing => {
                    turn.wait(*number, context.waker());
                    return Poll::Pending;
                }
                Found::Nothing if state.is_over() => return Poll::Ready(VecDeque::new()),
                Found::Nothing => {}
            }
            turn.wait(*number, context.waker());
            let all = Waker::from(Arc::clone(turn));
            let mut all = Context::from_waker(&all);
            let events = ready!(turn.poll_events(&mut state, *number, &mut all));
            let others_listen = state.subscribers > 1;
            if others_listen {
                turn.wake_all();
            }
            if self.is_numbered && state.is_kept() {
                continue;
            }
            self.cursor = state.log_end().unwrap_or(self.cursor);
            return Poll::Ready(events);
        }
        drop(state);
        let record = rest(
            turn.records.clone(),
            (turn.identity.scope, turn.identity.id.clone()),
            self.offset,
        );
        self.record.insert(record.boxed()).poll_unpin(context)
    }
}

/// What the record of a turn tells behind `offset`.
async fn rest(
    records: Records,
    (scope, turn): (Scope, TurnId),
    offset: AnswerOffset,
) -> VecDeque<TurnEvent> {
    match records.retold(scope, turn).await {
        Some(events) => offset.rest_of(events),
        None => failed(Failure { error: too_long(), tools_ran: true }),
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let Some((turn, number)) = &self.live else { return };
        turn.forget_waker(*number);
        let mut state = turn.state();
        state.leave(*number);
        let (subscribers, is_over) = (state.subscribers, state.is_over());
        drop(state);
        if is_over {
            return;
        }
        if subscribers == 0 && turn.policy == DisconnectPolicy::Stop {
            turn.stop.cancel();
        }
        turn.attendance_changed();
    }
}

impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriber").field("turn", &self.turn).finish_non_exhaustive()
    }
}
