//! Talks with one language server that runs: initializes it, keeps its documents as they are on
//! the disk, and asks.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::capabilities::{Capabilities, initialize};
use super::connection::{Connection, RequestError};
use super::diagnostics::{self, ChangedFindings, Diagnostics, Finding, Findings};
use super::documents::{Document, Documents, MAX_NOTIFICATIONS, Notification, Sent};
use super::message::Params;
use super::positions::{Encoding, LineColumn};
use super::program::{Launch, ProgramEnd, ServerProgram};
use super::progress::Progress;
use super::published::Published;
use super::questions::{Found, Operation, Reading, call_items};
use super::source::{self, Now, Reread};
use crate::blocking::FILES;
use crate::processes::LastWords;
use crate::sync;
use crate::workspace::{FileVersion, Workspace};

/// In its first seconds a server may not know yet that it has something to read.
const FIRST_SECONDS: Duration = Duration::from_secs(20);

/// How long a server must have said that it has read the project before an empty answer counts.
/// rust-analyzer says so a moment before what it has read can be asked about.
const SETTLING: Duration = Duration::from_secs(1);

/// How often an empty answer is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(300);

/// How long a server may take to end by itself.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the reason of a server's end may take, once its output has ended.
const END_PATIENCE: Duration = Duration::from_millis(300);

/// How long a change waits for the findings of a list that has come and is not read yet.
const READ_PATIENCE: Duration = Duration::from_millis(200);

/// What a server is asked.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) operation: Operation,
    /// With its language.
    pub(super) document: Option<(Document, String)>,
    pub(super) place: Option<LineColumn>,
    pub(super) query: String,
    /// Which of the other open documents are read again.
    pub(super) reread: Reread,
}

/// What a server has answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) server: String,
    pub(crate) found: Found,
    pub(crate) encoding: Encoding,
    /// The server may still have been reading the project, so there may be more.
    pub(crate) is_still_indexing: bool,
    /// What else the server has sent is none of the protocol's.
    pub(crate) malformed: usize,
}

/// A server that has been initialized. Dropping it ends the server.
#[derive(Debug)]
pub(super) struct Session {
    name: String,
    connection: Connection,
    capabilities: Capabilities,
    documents: tokio::sync::Mutex<Documents>,
    notifications: Arc<Notifications>,
    /// What the server found wrong at last, by document: before a change, what was there before.
    last_findings: Mutex<Vec<(PathBuf, Vec<Finding>)>>,
    /// Changes with them.
    last_findings_changed: watch::Sender<()>,
    last_words: LastWords,
    since: Instant,
    timeout: Duration,
    end: ProgramEnd,
}

/// What the server has told without being asked.
#[derive(Debug)]
struct Notifications {
    progress: Mutex<Progress>,
    /// Changes with the progress.
    changed: watch::Sender<()>,
    published: Published,
}

#[derive(Deserialize)]
struct PulledReport {
    items: Option<Diagnostics>,
}

impl Session {
    /// Starts and initializes a server. An error is a sentence that follows its name.
    pub(super) async fn start(
        launcher: &dyn Launch,
        program: &ServerProgram,
        timeout: Duration,
    ) -> Result<Self, String> {
        let started = launcher.launch(program).await?;
        let notifications = Arc::new(Notifications::default());
        let (listener, settings) = (Arc::clone(&notifications), program.settings.clone());
        let on_notification = Box::new(move |method: &str, params: &Params| {
            listener.take(method, params);
        });
        let last_words = LastWords::listen(started.errors);
        let (input, output) = (started.input, started.output);
        let connection = Connection::open(input, output, settings, timeout, on_notification);
        let mut session = Self {
            name: program.name.clone(),
            connection,
            capabilities: Capabilities::default(),
            documents: tokio::sync::Mutex::default(),
            notifications,
            last_findings: Mutex::default(),
            last_findings_changed: watch::Sender::new(()),
            last_words,
            since: Instant::now(),
            timeout,
            end: started.end,
        };
        match session.initialize(program).await {
            Ok(capabilities) => session.capabilities = capabilities,
            Err(error) => return Err(session.with_last_words(error).await),
        }
        Ok(session)
    }

    async fn initialize(&self, program: &ServerProgram) -> Result<Capabilities, String> {
        let params = initialize(&program.root, &program.initialization);
        // Whoever starts it limits the time.
        let answer = self.connection.request("initialize", &params, Duration::MAX).await;
        let capabilities = Capabilities::read(&answer.map_err(|error| error.to_string())?)?;
        let settings = json!({ "settings": program.settings });
        for (method, params) in
            [("initialized", json!({})), ("workspace/didChangeConfiguration", settings)]
        {
            self.tell(method, &params).await?;
        }
        Ok(capabilities)
    }

    /// Waits for the end of the server, and returns why it has ended.
    pub(super) async fn ended(&self) -> String {
        let why = self.connection.ended().await;
        self.with_last_words(why).await
    }

    pub(super) fn has_ended(&self) -> bool {
        self.connection.has_ended()
    }

    /// Asks the server to end by itself.
    pub(super) async fn shut_down(&self) {
        let leave = async {
            if self.connection.notify("exit", &Value::Null).await.is_ok() {
                self.connection.ended().await;
            }
        };
        if self.connection.request("shutdown", &Value::Null, SHUTDOWN_TIMEOUT).await.is_ok() {
            _ = timeout(SHUTDOWN_TIMEOUT, leave).await;
        }
    }

    /// Asks, with all open documents as they are on the disk. The question is put again while the
    /// server cannot answer it, or finds nothing and still reads the project.
    pub(super) async fn ask(
        &self,
        question: &Question,
        workspace: &Arc<Workspace>,
    ) -> Result<Answer, String> {
        let operation = question.operation;
        if !self.capabilities.has(operation) {
            return Err(format!("{} does not offer {}", self.name, operation.method()));
        }
        let deadline = Instant::now() + self.timeout;
        let reread = &question.reread;
        let document = question.document.as_ref();
        let synchronised = self.synchronise(document, workspace, reread, deadline).await;
        synchronised.map_err(|error| self.named(&error))?;
        self.answer(question, deadline).await
    }

    async fn answer(&self, question: &Question, deadline: Instant) -> Result<Answer, String> {
        let mut empty = None;
        loop {
            // As of the question: what the server says of itself meanwhile may be newer than
            // its answer.
            let has_read_the_project = self.has_read_the_project();
            let outcome = self.ask_once(question, deadline).await;
            let again = Instant::now() + ASK_AGAIN;
            let is_last = deadline <= again;
            let Reading { found, malformed } = match (outcome, empty.take()) {
                (Ok(reading), _) | (Err(RequestError::TimedOut(_)), Some(reading)) => reading,
                (Err(RequestError::Refused(error)), reading) if error.is_passing() && !is_last => {
                    empty = reading;
                    sleep_until(again).await;
                    continue;
                }
                (Err(RequestError::Refused(error)), _) if error.is_passing() => {
                    let why = format!("cannot answer now: {error}; ask again later");
                    return Err(self.named(&why));
                }
                (Err(error @ RequestError::Ended(_)), _) => {
                    return Err(self.named(&self.with_last_words(error.to_string()).await));
                }
                (Err(error), _) => return Err(self.named(&error.to_string())),
            };
            if !found.is_empty() || has_read_the_project || is_last {
                let may_be_too_early = found.is_empty() && !has_read_the_project;
                let is_still_indexing = self.is_indexing() || may_be_too_early;
                let (server, encoding) = (self.name.clone(), self.capabilities.encoding);
                return Ok(Answer { server, found, encoding, is_still_indexing, malformed });
            }
            empty = Some(Reading { found, malformed });
            sleep_until(again).await;
        }
    }

    async fn ask_once(
        &self,
        question: &Question,
        deadline: Instant,
    ) -> Result<Reading, RequestError> {
        let Question { operation, document, place, query, .. } = question;
        let path = document.as_ref().map(|(document, _)| document.path.as_path());
        let text = document.as_ref().map(|(document, _)| document.text.as_str());
        let position = text
            .zip(*place)
            .and_then(|(text, place)| self.capabilities.encoding.to_protocol(text, place));
        let params = operation.params(path, position.unwrap_or_default(), query);
        let answer = self.request(operation.method(), &params, deadline).await?;
        let unreadable = RequestError::Unreadable;
        let Some(calls) = operation.calls_method() else {
            let reading = operation.read(&answer, path);
            return reading.ok_or_else(|| unreadable(operation.method()));
        };
        let items = call_items(&answer).ok_or_else(|| unreadable(operation.method()))?;
        let asked = items.into_iter().map(|item| async move {
            let answer = self.request(calls, &json!({ "item": item }), deadline).await?;
            operation.read_calls(&answer).ok_or_else(|| unreadable(calls))
        });
        let readings: Result<Vec<Reading>, _> = join_all(asked).await.into_iter().collect();
        Ok(readings?.into_iter().fold(Reading::default(), Reading::and))
    }

    async fn request(
        &self,
        method: &str,
        params: &Value,
        deadline: Instant,
    ) -> Result<Params, RequestError> {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.connection.request(method, params, left).await {
            Err(RequestError::TimedOut(_)) => Err(RequestError::TimedOut(self.timeout)),
            other => other,
        }
    }

    /// Opens the document where it is not open, and gets its diagnostics known, so that those a
    /// change brings can be told apart. Those of a file that `was_changed` are not: nobody was told.
    pub(super) async fn open(
        &self,
        document: (Document, String),
        workspace: &Arc<Workspace>,
        was_changed: bool,
    ) {
        let deadline = Instant::now() + self.timeout;
        self.tell_of_new_file(&document.0.path, deadline).await;
        let synchronised =
            self.synchronise(Some(&document), workspace, &Reread::SameFiles, deadline).await;
        let Ok(Some(sent)) = synchronised else { return };
        if was_changed {
            return;
        }
        if self.capabilities.pulls_diagnostics {
            _ = timeout_at(deadline, self.indexed()).await;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        self.findings(&document.0, sent, left).await;
    }

    /// Waits until the server does not say any more that it reads the project.
    async fn indexed(&self) {
        let mut changed = self.notifications.changed.subscribe();
        while self.is_indexing() {
            _ = changed.changed().await;
        }
    }

    fn is_indexing(&self) -> bool {
        sync::lock(&self.notifications.progress).is_indexing()
    }

    /// What the server finds wrong with the document, beside what it found before. `None`: it has
    /// not answered within the budget.
    pub(super) async fn after_change(
        &self,
        document: (Document, String),
        workspace: &Arc<Workspace>,
        deadline: Instant,
    ) -> Option<ChangedFindings> {
        let path = document.0.path.clone();
        let before = self.findings_before(&path, deadline).await;
        self.tell_of_new_file(&path, deadline).await;
        let synchronised =
            self.synchronise(Some(&document), workspace, &Reread::SameFiles, deadline).await;
        let sent = synchronised.ok()??;
        let saved = json!({ "textDocument": { "uri": super::uri::from_path(&path) } });
        _ = timeout_at(deadline, self.connection.notify("textDocument/didSave", &saved)).await;
        let left = deadline.saturating_duration_since(Instant::now());
        let now = self.findings(&document.0, sent, left).await?;
        Some(diagnostics::changed(before.as_deref(), now))
    }

    async fn findings(
        &self,
        document: &Document,
        sent: Sent,
        budget: Duration,
    ) -> Option<Findings> {
        let found = if self.capabilities.pulls_diagnostics {
            let pulled = self.pulled(&document.path, budget).await?;
            // It answers before it knows anything.
            if pulled.items.is_empty() && self.is_indexing() {
                return None;
            }
            pulled
        } else {
            let published = &self.notifications.published;
            published.report_on(&document.path, sent, budget).await?.diagnostics
        };
        let found = diagnostics::findings(&document.text, self.capabilities.encoding, &found);
        self.remember_findings(&document.path, found.all.clone());
        Some(found)
    }

    async fn pulled(&self, path: &Path, budget: Duration) -> Option<Diagnostics> {
        let params = json!({ "textDocument": { "uri": super::uri::from_path(path) } });
        let answer = self.connection.request("textDocument/diagnostic", &params, budget).await;
        let report: PulledReport = answer.ok()?.read().ok()?;
        report.items.map(Diagnostics::shortened)
    }

    /// Tells the server what has changed on the disk. Returns what it knows of the document.
    async fn synchronise(
        &self,
        current: Option<&(Document, String)>,
        workspace: &Arc<Workspace>,
        reread: &Reread,
        deadline: Instant,
    ) -> Result<Option<Sent>, String> {
        let synchronised =
            timeout_at(deadline, self.synchronise_all(current, workspace, reread)).await;
        synchronised.map_err(|_| "did not read what it was sent in time".to_owned())?
    }

    /// May be given up at any time: what counts as told has been handed on to the server.
    async fn synchronise_all(
        &self,
        current: Option<&(Document, String)>,
        workspace: &Arc<Workspace>,
        reread: &Reread,
    ) -> Result<Option<Sent>, String> {
        let mut documents = self.documents.lock().await;
        let asked = current.map(|(document, _)| document.path.clone());
        let open: Vec<_> = documents.files().map(|(path, file)| (path.to_owned(), *file)).collect();
        let others = open.into_iter().filter(|(path, _)| Some(path) != asked.as_ref());
        for (path, now) in changed_on_disk(others.collect(), workspace, reread).await? {
            self.change_documents(&mut documents, |documents, reports| match now {
                Now::Same => Vec::new(),
                // Its language was told when it was opened.
                Now::Changed(document) => documents.update(&document, "", reports),
                Now::Gone => documents.close(&path).into_iter().collect(),
            })
            .await?;
        }
        let Some((document, language)) = current else { return Ok(None) };
        self.change_documents(&mut documents, |documents, reports| {
            documents.update(document, language, reports)
        })
        .await?;
        Ok(documents.sent(&document.path))
    }

    /// Changes the documents and tells the server, or neither: whoever waits for room may be
    /// interrupted, and the server must have what the documents say that it has.
    async fn change_documents(
        &self,
        documents: &mut Documents,
        change: impl FnOnce(&mut Documents, u64) -> Vec<Notification>,
    ) -> Result<(), String> {
        let room = self.connection.room(MAX_NOTIFICATIONS).await;
        let room = room.map_err(|error| error.to_string())?;
        let told = change(documents, self.notifications.published.count());
        self.notifications.published.follow(documents.paths());
        room.tell(&told);
        Ok(())
    }

    /// Says that a file is there, or is another one: some servers look at the disk only then. Of a
    /// document that is open they know, and would analyse the project once more.
    async fn tell_of_new_file(&self, path: &Path, deadline: Instant) {
        const CREATED: u8 = 1;
        const CHANGED: u8 = 2;
        let uri = super::uri::from_path(path);
        let change = |kind: u8| json!({ "uri": uri, "type": kind });
        let changes = json!({ "changes": [change(CREATED), change(CHANGED)] });
        let tell = async {
            if self.documents.lock().await.sent(path).is_none() {
                // A server that has ended is noticed by whoever asks it.
                _ = self.connection.notify("workspace/didChangeWatchedFiles", &changes).await;
            }
        };
        _ = timeout_at(deadline, tell).await;
    }

    async fn tell(&self, method: &str, params: &Value) -> Result<(), String> {
        self.connection.notify(method, params).await.map_err(|error| error.to_string())
    }

    /// Whether an empty answer to a question of now is one.
    fn has_read_the_project(&self) -> bool {
        let progress = sync::lock(&self.notifications.progress);
        match progress.settled_since() {
            Some(settled) => SETTLING <= settled.elapsed(),
            None => !progress.is_indexing() && FIRST_SECONDS <= self.since.elapsed(),
        }
    }

    /// What was found before a change. A list that has just come may not be read yet.
    async fn findings_before(&self, path: &Path, deadline: Instant) -> Option<Vec<Finding>> {
        let mut changed = self.last_findings_changed.subscribe();
        let patience = deadline.min(Instant::now() + READ_PATIENCE);
        loop {
            let known = self.last_findings_of(path);
            if known.is_some() || self.notifications.published.last(path).is_none() {
                return known;
            }
            if timeout_at(patience, changed.changed()).await.is_err() {
                return None;
            }
        }
    }

    fn last_findings_of(&self, path: &Path) -> Option<Vec<Finding>> {
        let all = sync::lock(&self.last_findings);
        all.iter().find(|(other, _)| other == path).map(|(_, findings)| findings.clone())
    }

    fn remember_findings(&self, path: &Path, findings: Vec<Finding>) {
        let mut all = sync::lock(&self.last_findings);
        all.retain(|(other, _)| other != path);
        if super::documents::MAX_OPEN <= all.len() {
            all.remove(0);
        }
        all.push((path.to_owned(), findings));
        drop(all);
        self.last_findings_changed.send_replace(());
    }

    fn named(&self, error: &str) -> String {
        format!("{} {error}", self.name)
    }

    async fn with_last_words(&self, why: String) -> String {
        let words = self.last_words.line().await.map(|words| format!("; it said: {words}"));
        let words = words.unwrap_or_default();
        let reason = timeout(END_PATIENCE, self.end.reason()).await.ok().flatten();
        let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
        format!("{why}{reason}{words}")
    }
}

impl Default for Notifications {
    fn default() -> Self {
        let published = Published::default();
        Self { progress: Mutex::default(), changed: watch::Sender::new(()), published }
    }
}

impl Notifications {
    fn take(&self, method: &str, params: &Params) {
        if method == "textDocument/publishDiagnostics" {
            self.published.take(params);
        } else if sync::lock(&self.progress).take(method, params, Instant::now()) {
            self.changed.send_replace(());
        }
    }
}

/// What has become of documents, of those that are not as they were.
async fn changed_on_disk(
    documents: Vec<(PathBuf, FileVersion)>,
    workspace: &Arc<Workspace>,
    reread: &Reread,
) -> Result<Vec<(PathBuf, Now)>, String> {
    if documents.is_empty() {
        return Ok(Vec::new());
    }
    let (workspace, reread) = (Arc::clone(workspace), reread.clone());
    let look = move || {
        let all = documents.into_iter().map(|(path, file)| {
            let now = source::now(&workspace, &path, &file, &reread);
            (path, now)
        });
        all.filter(|(_, now)| !matches!(now, Now::Same)).collect()
    };
    FILES.run(look).await.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
