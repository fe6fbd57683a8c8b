//! Follows whether a server says that it is still reading the project. Pure.

use std::collections::HashSet;

use serde::Deserialize;
use tokio::time::Instant;

use super::message::{MessageId, Params};

/// Works that a server can have begun. One that begins more is not believed.
const MAX_WORKS: usize = 64;

/// The longest token that is kept. Servers send numbers, UUIDs, or a few words.
const MAX_TOKEN_BYTES: usize = 256;

/// What a server has said of its own work.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The tokens of works that have begun and not ended.
    works: HashSet<MessageId>,
    /// rust-analyzer says whether it is done, more exactly than by its works.
    is_quiescent: Option<bool>,
    /// Since when it says so without a break.
    settled_since: Option<Instant>,
}

#[derive(Deserialize)]
struct ProgressParams {
    token: MessageId,
    value: ProgressValue,
}

#[derive(Deserialize)]
struct ProgressValue {
    kind: String,
}

#[derive(Deserialize)]
struct ServerStatus {
    quiescent: bool,
}

impl Progress {
    /// Takes a notification that has come now. Returns whether it was one on progress.
    pub(super) fn take(&mut self, method: &str, params: &Params, now: Instant) -> bool {
        match method {
            "$/progress" => {
                if let Ok(ProgressParams { token, value }) = params.read() {
                    self.take_work(token, &value.kind);
                }
            }
            "experimental/serverStatus" => {
                self.is_quiescent = params.read().ok().map(|status: ServerStatus| status.quiescent);
                let is_settled = self.is_quiescent == Some(true);
                self.settled_since = is_settled.then(|| self.settled_since.unwrap_or(now));
            }
            _ => return false,
        }
        true
    }

    fn take_work(&mut self, token: MessageId, kind: &str) {
        match kind {
            // Of one that is not kept, the end would not be known either.
            _ if token.is_longer_than(MAX_TOKEN_BYTES) => {}
            "begin" if self.works.len() < MAX_WORKS => _ = self.works.insert(token),
            "end" => _ = self.works.remove(&token),
            _ => {}
        }
    }

    /// Whether the server says that it is at work.
    pub(super) fn is_indexing(&self) -> bool {
        self.is_quiescent.map_or(!self.works.is_empty(), |is_quiescent| !is_quiescent)
    }

    /// Since when the server says that it has read everything, if it does.
    pub(super) fn settled_since(&self) -> Option<Instant> {
        self.settled_since
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::super::message::Incoming;
    use super::*;

    fn tell(progress: &mut Progress, method: &str, params: &Value) -> bool {
        let body = json!({ "method": method, "params": params }).to_string();
        match Incoming::parse(body.as_bytes()) {
            Ok(Incoming::Notification { params, .. }) => {
                progress.take(method, &params, Instant::now())
            }
            other => panic!("{other:?}"),
        }
    }

    fn work(progress: &mut Progress, token: &Value, kind: &str) {
        tell(progress, "$/progress", &json!({ "token": token, "value": { "kind": kind } }));
    }

    #[test]
    fn a_server_is_at_work_until_all_its_works_have_ended() {
        let mut progress = Progress::default();
        assert!(!progress.is_indexing() && progress.settled_since().is_none());
        work(&mut progress, &json!(1), "begin");
        work(&mut progress, &json!("1"), "begin");
        work(&mut progress, &json!(1), "report");
        work(&mut progress, &json!(1), "end");
        assert!(progress.is_indexing());
        work(&mut progress, &json!("1"), "end");
        work(&mut progress, &json!("none"), "end");
        assert!(!progress.is_indexing());
    }

    #[test]
    fn what_the_server_says_of_itself_counts_more() {
        let mut progress = Progress::default();
        work(&mut progress, &json!(1), "begin");
        assert!(tell(&mut progress, "experimental/serverStatus", &json!({ "quiescent": true })));
        assert!(!progress.is_indexing() && progress.settled_since().is_some());
        tell(&mut progress, "experimental/serverStatus", &json!({ "quiescent": false }));
        assert!(progress.is_indexing() && progress.settled_since().is_none());
        assert!(!tell(&mut progress, "window/logMessage", &json!({})));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_is_settled_since_it_said_so_first() {
        let mut progress = Progress::default();
        let mut status = |is_quiescent: bool| {
            let status = json!({ "quiescent": is_quiescent });
            tell(&mut progress, "experimental/serverStatus", &status);
            progress.settled_since()
        };
        let first = status(true);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(status(true), first);
        assert_eq!(status(false), None);
        assert_eq!(status(true), Some(Instant::now()));
    }

    #[test]
    fn works_without_end_are_not_kept() {
        let mut progress = Progress::default();
        for token in 0..10_000 {
            work(&mut progress, &json!(token), "begin");
        }
        assert_eq!(progress.works.len(), MAX_WORKS);
    }

    #[test]
    fn a_token_without_end_is_not_kept() {
        let mut progress = Progress::default();
        work(&mut progress, &json!("t".repeat(MAX_TOKEN_BYTES + 1)), "begin");
        assert!(!progress.is_indexing());
        work(&mut progress, &json!("t".repeat(MAX_TOKEN_BYTES)), "begin");
        assert!(progress.is_indexing());
        work(&mut progress, &json!([0, 0]), "begin");
        assert_eq!(progress.works.len(), 1);
    }
}
