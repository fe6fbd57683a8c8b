//! Keeps the last diagnostics that a server has sent for each open document.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::diagnostics::Diagnostics;
use super::documents::Sent;
use super::message::Params;
use super::uri;
use crate::sync;

/// A list for a document, for the version of it that the server looked at, if it says.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) version: Option<i32>,
    pub(super) diagnostics: Diagnostics,
    /// How many reports there have been before.
    pub(super) number: u64,
}

/// The last report for each open document.
#[derive(Debug)]
pub(super) struct Published {
    /// `None`: the server has not told of it yet.
    reports: Mutex<HashMap<PathBuf, Option<Report>>>,
    /// Counts the reports.
    count: watch::Sender<u64>,
}

#[derive(Deserialize)]
struct PublishParams {
    uri: String,
    version: Option<i32>,
    diagnostics: Diagnostics,
}

impl Default for Published {
    fn default() -> Self {
        Self { reports: Mutex::default(), count: watch::Sender::new(0) }
    }
}

impl Published {
    pub(super) fn take(&self, params: &Params) {
        let Ok(PublishParams { uri, version, diagnostics }) = params.read() else { return };
        let Some(path) = uri::to_path(&uri) else { return };
        let diagnostics = diagnostics.shortened();
        let number = *self.count.borrow();
        // Servers tell of files that nobody opened as well, and nobody asks for those.
        if let Some(report) = sync::lock(&self.reports).get_mut(&path) {
            *report = Some(Report { version, diagnostics, number });
        }
        self.count.send_modify(|count| *count += 1);
    }

    /// Keeps the reports on these documents, which are open now, and on no others.
    pub(super) fn follow<'a>(&self, open: impl Iterator<Item = &'a Path>) {
        let mut reports = sync::lock(&self.reports);
        let mut before = std::mem::take(&mut *reports);
        reports.extend(open.map(|path| {
            let report = before.remove(path).flatten();
            (path.to_owned(), report)
        }));
    }

    /// How many reports have come.
    pub(super) fn count(&self) -> u64 {
        *self.count.borrow()
    }

    pub(super) fn last(&self, path: &Path) -> Option<Report> {
        sync::lock(&self.reports).get(path).cloned().flatten()
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::message::Incoming;
    use super::*;

    /// With one document open.
    fn published() -> Published {
        let published = Published::default();
        published.follow([Path::new(PATH)].into_iter());
        published
    }

    fn publish(published: &Published, version: &Value, count: usize) {
        publish_on(published, PATH, version, count);
    }

    fn publish_on(published: &Published, path: &str, version: &Value, count: usize) {
        let place = json!({ "line": 0, "character": 0 });
        let diagnostic = json!({ "range": { "start": place, "end": place }, "message": "x" });
        let params = json!({
            "uri": format!("file://{path}"), "version": version,
            "diagnostics": vec![diagnostic; count],
        });
        let body = json!({ "method": "m", "params": params }).to_string();
        match Incoming::parse(body.as_bytes()) {
            Ok(Incoming::Notification { params, .. }) => published.take(&params),
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
        report.map(|report| report.diagnostics.items.len())
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_report_on_this_version_counts() {
        let published = published();
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
        let published = published();
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

    #[test]
    fn an_open_document_has_room_however_many_others_a_server_tells_of() {
        let published = published();
        for number in 0..1000 {
            publish_on(&published, &format!("/{number}.py"), &json!(1), number % 2);
        }
        publish(&published, &json!(1), 3);
        let last = published.last(Path::new(PATH)).unwrap();
        assert_eq!((last.diagnostics.items.len(), last.number), (3, 1000));
        assert_eq!(sync::lock(&published.reports).len(), 1);
    }

    #[test]
    fn the_report_on_a_closed_document_goes_and_the_others_stay() {
        let published = published();
        publish(&published, &json!(1), 2);
        published.follow([Path::new(PATH), Path::new("/b.py")].into_iter());
        assert!(published.last(Path::new(PATH)).is_some());
        published.follow([Path::new("/b.py")].into_iter());
        publish(&published, &json!(2), 2);
        published.follow([Path::new(PATH)].into_iter());
        assert!(published.last(Path::new(PATH)).is_none());
    }
}
