//! Passes what a server says of a call's progress on to whoever waits for the call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rmcp::model::ProgressToken;
use tokio::sync::watch;

use crate::sync;

/// Tokens that a server may use before their listeners are known. More are none of ours.
const MAX_EARLY: usize = 100;

/// Who listens to the progress of which request. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct ProgressListeners(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    listeners: HashMap<ProgressToken, watch::Sender<String>>,
    /// Requests that are being sent. The library tells their tokens afterwards.
    being_sent: usize,
    /// What a server has said meanwhile, the latest of each token.
    early: HashMap<ProgressToken, String>,
}

/// A request that is being sent, or waits for its answer.
#[derive(Debug)]
pub(super) struct ProgressOfRequest {
    listeners: ProgressListeners,
    listener: Option<watch::Sender<String>>,
    token: Option<ProgressToken>,
}

impl ProgressListeners {
    /// A request that will be sent. What is said of it from now on is not lost.
    pub(super) fn expect(&self, listener: watch::Sender<String>) -> ProgressOfRequest {
        sync::lock(&self.0).being_sent += 1;
        ProgressOfRequest { listeners: self.clone(), listener: Some(listener), token: None }
    }

    pub(super) fn tell(&self, token: &ProgressToken, line: String) {
        let mut state = sync::lock(&self.0);
        if let Some(listener) = state.listeners.get(token) {
            listener.send_replace(line);
        } else if 0 < state.being_sent
            && (state.early.len() < MAX_EARLY || state.early.contains_key(token))
        {
            state.early.insert(token.clone(), line);
        }
    }
}

impl State {
    fn sent(&mut self) {
        self.being_sent -= 1;
        if self.being_sent == 0 {
            self.early.clear();
        }
    }
}

impl ProgressOfRequest {
    /// The request is sent, with this token.
    pub(super) fn sent(&mut self, token: &ProgressToken) {
        let Some(listener) = self.listener.take() else { return };
        let mut state = sync::lock(&self.listeners.0);
        if let Some(line) = state.early.remove(token) {
            listener.send_replace(line);
        }
        state.listeners.insert(token.clone(), listener);
        state.sent();
        self.token = Some(token.clone());
    }
}

impl Drop for ProgressOfRequest {
    fn drop(&mut self) {
        let mut state = sync::lock(&self.listeners.0);
        match &self.token {
            Some(token) => drop(state.listeners.remove(token)),
            None => state.sent(),
        }
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::NumberOrString;

    use super::*;

    fn token(number: i64) -> ProgressToken {
        ProgressToken(NumberOrString::Number(number))
    }

    #[test]
    fn what_is_said_before_the_token_is_known_is_heard() {
        let listeners = ProgressListeners::default();
        let (sender, heard) = watch::channel(String::new());
        let mut request = listeners.expect(sender);
        listeners.tell(&token(1), "first".into());
        listeners.tell(&token(1), "second".into());
        listeners.tell(&token(2), "of another".into());

        request.sent(&token(1));
        assert_eq!(*heard.borrow(), "second");
        listeners.tell(&token(1), "third".into());
        assert_eq!(*heard.borrow(), "third");

        drop(request);
        assert!(heard.has_changed().is_err(), "nobody tells any more");
    }

    #[test]
    fn what_nobody_waits_for_is_not_kept() {
        let listeners = ProgressListeners::default();
        let kept = || sync::lock(&listeners.0).early.len();
        listeners.tell(&token(1), "nobody asked".into());
        assert_eq!(kept(), 0);

        let request = listeners.expect(watch::channel(String::new()).0);
        (0..1_000).for_each(|number| listeners.tell(&token(number), "flood".into()));
        assert_eq!(kept(), MAX_EARLY);
        drop(request);
        assert_eq!(kept(), 0);
    }
}
