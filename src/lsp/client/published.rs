//! Keeps the last diagnostics that a server has sent for each open document.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use gen_lsp_types::{Code, Diagnostic, Message, PublishDiagnosticsParams};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::documents::{MAX_OPEN, Sent};
use super::message::Params;
use super::uri;
use crate::{sync, text};

/// Characters of a message that are kept.
const MAX_MESSAGE_CHARS: usize = 500;

/// A list for a document, for the version of it that the server looked at, if it says.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) version: Option<i32>,
    pub(super) diagnostics: Vec<Diagnostic>,
    /// How many reports there have been before.
    pub(super) number: u64,
}

/// The last report for each document.
#[derive(Debug)]
pub(super) struct Published {
    reports: Mutex<HashMap<PathBuf, Report>>,
    /// Counts the reports.
    count: watch::Sender<u64>,
}

impl Default for Published {
    fn default() -> Self {
        Self { reports: Mutex::default(), count: watch::Sender::new(0) }
    }
}

impl Published {
    pub(super) fn take(&self, params: &Params, max: usize) {
        let Ok(PublishDiagnosticsParams { uri, version, diagnostics }) = params.read() else {
            return;
        };
        let Some(path) = uri::to_path(&uri.0) else { return };
        let diagnostics = diagnostics.into_iter().take(max).map(slim).collect();
        let number = *self.count.borrow();
        let mut reports = sync::lock(&self.reports);
        // Servers tell of files that nobody opened as well.
        if reports.len() < 2 * MAX_OPEN || reports.contains_key(&path) {
            reports.insert(path, Report { version, diagnostics, number });
        }
        drop(reports);
        self.count.send_modify(|count| *count += 1);
    }

    /// How many reports have come.
    pub(super) fn count(&self) -> u64 {
        *self.count.borrow()
    }

    pub(super) fn last(&self, path: &Path) -> Option<Report> {
        sync::lock(&self.reports).get(path).cloned()
    }

    pub(super) fn forget(&self, path: &Path) {
        sync::lock(&self.reports).remove(path);
    }

    /// Waits for the report on what was sent, if it has not come. From a server that does not name
    /// versions, the last one since then counts, and only time tells that none follows it.
    pub(super) async fn report_on(
        &self,
        path: &Path,
        sent: Sent,
        budget: Duration,
    ) -> Option<Report> {
        let deadline = Instant::now() + budget;
        let mut count = self.count.subscribe();
        loop {
            count.mark_unchanged();
            let last = self.last(path).filter(|report| sent.reports <= report.number);
            let last = last.filter(|report| report.version.is_none_or(|it| sent.version <= it));
            if last.as_ref().is_some_and(|report| report.version.is_some()) {
                return last;
            }
            if timeout_at(deadline, count.changed()).await.is_err() {
                return last;
            }
        }
    }
}

/// What people are told of a diagnostic. The rest may be very long.
pub(super) fn slim(diagnostic: Diagnostic) -> Diagnostic {
    let cut = |text: &str| text::first_chars(text, MAX_MESSAGE_CHARS).to_owned();
    let message = match &diagnostic.message {
        Message::String(message) => cut(message),
        Message::MarkupContent(message) => cut(&message.value),
    };
    let code = diagnostic.code.map(|code| match code {
        Code::String(name) => Code::String(cut(&name)),
        Code::Int(number) => Code::Int(number),
    });
    Diagnostic {
        range: diagnostic.range,
        severity: diagnostic.severity,
        code,
        message: Message::String(message),
        ..Diagnostic::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::message::Incoming;
    use super::*;

    fn publish(published: &Published, version: &Value, count: usize) {
        let place = json!({ "line": 0, "character": 0 });
        let diagnostic = json!({ "range": { "start": place, "end": place }, "message": "x" });
        let params = json!({
            "uri": "file:///a.py", "version": version, "diagnostics": vec![diagnostic; count],
        });
        let body = json!({ "method": "m", "params": params }).to_string();
        match Incoming::parse(body.as_bytes()) {
            Ok(Incoming::Notification { params, .. }) => published.take(&params, 100),
            other => panic!("{other:?}"),
        }
    }

    const PATH: &str = "/a.py";
    const BUDGET: Duration = Duration::from_secs(2);

    async fn after(
        published: &Published,
        version: i32,
        since: u64,
        tell: impl Future<Output = ()>,
    ) -> Option<usize> {
        let sent = Sent { version, reports: since };
        let report = published.report_on(Path::new(PATH), sent, BUDGET);
        let (report, ()) = tokio::join!(report, tell);
        report.map(|report| report.diagnostics.len())
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_report_on_this_version_counts() {
        let published = Published::default();
        publish(&published, &json!(1), 1);
        let since = published.count();
        let tell = async {
            publish(&published, &json!(1), 5);
            tokio::task::yield_now().await;
            publish(&published, &json!(2), 3);
        };
        let began = Instant::now();
        assert_eq!(after(&published, 2, since, tell).await, Some(3));
        assert_eq!(began.elapsed(), Duration::ZERO, "it is told at once");
        assert_eq!(after(&published, 3, published.count(), async {}).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn without_versions_the_last_list_within_the_budget_counts() {
        let published = Published::default();
        publish(&published, &json!(null), 9);
        let since = published.count();
        let tell = async {
            publish(&published, &json!(null), 0);
            tokio::time::sleep(Duration::from_secs(1)).await;
            publish(&published, &json!(null), 2);
        };
        assert_eq!(after(&published, 2, since, tell).await, Some(2));
        assert_eq!(after(&published, 3, published.count(), async {}).await, None);
    }

    #[tokio::test]
    async fn reports_on_files_without_end_are_not_kept() {
        let published = Published::default();
        for number in 0..1000 {
            let params = json!({ "uri": format!("file:///{number}"), "diagnostics": [] });
            let body = json!({ "method": "m", "params": params }).to_string();
            let Ok(Incoming::Notification { params, .. }) = Incoming::parse(body.as_bytes()) else {
                panic!("{body}")
            };
            published.take(&params, 100);
        }
        assert_eq!(sync::lock(&published.reports).len(), 2 * MAX_OPEN);
    }
}
