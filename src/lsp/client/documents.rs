//! Keeps which documents a server has open, and decides what it must be told. Pure.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::uri;
use crate::workspace::FileVersion;

/// More than a model works on at once. The one that was used longest ago is closed.
pub(super) const MAX_OPEN: usize = 50;

/// A larger file is no document: servers give up on it as well.
pub(super) const MAX_DOCUMENT_BYTES: u64 = 10 << 20;

/// The contents of a file that is text.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    /// With every link resolved.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    /// Of the file that was read.
    pub(crate) version: FileVersion,
}

/// The most that a server is told for one document: to close another one, and to open it.
pub(super) const MAX_NOTIFICATIONS: usize = 2;

/// A notification for the server.
pub(super) type Notification = (&'static str, Value);

/// The documents that a server has open.
#[derive(Debug, Default)]
pub(super) struct Documents {
    open: HashMap<PathBuf, OpenDocument>,
    /// Counts the uses.
    now: u64,
}

/// What a server was told of a document last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) version: i32,
    /// How many reports of diagnostics had come before. Those that follow are on this version.
    pub(super) reports: u64,
}

#[derive(Debug)]
struct OpenDocument {
    sent: Sent,
    hash: blake3::Hash,
    file: FileVersion,
    used: u64,
}

impl Documents {
    /// The open documents, with the files that they were read from.
    pub(super) fn files(&self) -> impl Iterator<Item = (&Path, &FileVersion)> {
        self.open.iter().map(|(path, open)| (path.as_path(), &open.file))
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.open.keys().map(PathBuf::as_path)
    }

    pub(super) fn sent(&self, path: &Path) -> Option<Sent> {
        self.open.get(path).map(|open| open.sent)
    }

    /// What the server must be told so that it has the document as it is. `reports` is how many
    /// have come until now.
    pub(super) fn update(
        &mut self,
        document: &Document,
        language: &str,
        reports: u64,
    ) -> Vec<Notification> {
        self.now += 1;
        let hash = blake3::hash(document.text.as_bytes());
        let uri = uri::from_path(&document.path);
        if let Some(open) = self.open.get_mut(&document.path) {
            open.used = self.now;
            open.file = document.version;
            if open.hash == hash {
                return Vec::new();
            }
            open.hash = hash;
            open.sent = Sent { version: open.sent.version + 1, reports };
            let change = json!({
                "textDocument": { "uri": uri, "version": open.sent.version },
                "contentChanges": [{ "text": document.text }],
            });
            return vec![("textDocument/didChange", change)];
        }
        let mut told = Vec::new();
        if MAX_OPEN <= self.open.len()
            && let Some(oldest) = self.oldest()
        {
            told.extend(self.close(&oldest));
        }
        let sent = Sent { version: 1, reports };
        let opened = OpenDocument { sent, hash, file: document.version, used: self.now };
        self.open.insert(document.path.clone(), opened);
        let open = json!({ "textDocument": {
            "uri": uri, "languageId": language, "version": 1, "text": document.text,
        } });
        told.push(("textDocument/didOpen", open));
        told
    }

    /// What the server must be told of a document that is not there any more.
    pub(super) fn close(&mut self, path: &Path) -> Option<Notification> {
        self.open.remove(path)?;
        let document = json!({ "textDocument": { "uri": uri::from_path(path) } });
        Some(("textDocument/didClose", document))
    }

    fn oldest(&self) -> Option<PathBuf> {
        self.open.iter().min_by_key(|(_, open)| open.used).map(|(path, _)| path.clone())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::lsp::client) fn document(path: &str, text: &str) -> Document {
        let metadata = std::fs::metadata("/").unwrap();
        let version = FileVersion::from_metadata(&metadata);
        Document { path: path.into(), text: text.to_owned(), version }
    }

    fn methods(told: &[Notification]) -> Vec<&str> {
        told.iter().map(|(method, _)| *method).collect()
    }

    #[test]
    fn a_document_is_opened_once_and_sent_anew_when_its_text_has_changed() {
        let (mut documents, path) = (Documents::default(), Path::new("/a b.py"));
        let told = documents.update(&document("/a b.py", "x"), "python", 7);
        assert_eq!(methods(&told), ["textDocument/didOpen"]);
        assert_eq!(told[0].1["textDocument"]["uri"], "file:///a%20b.py");
        assert_eq!(told[0].1["textDocument"]["languageId"], "python");
        assert!(documents.update(&document("/a b.py", "x"), "python", 8).is_empty());
        assert_eq!(documents.sent(path), Some(Sent { version: 1, reports: 7 }));
        let told = documents.update(&document("/a b.py", "y"), "python", 9);
        assert_eq!(methods(&told), ["textDocument/didChange"]);
        assert_eq!(told[0].1["textDocument"]["version"], 2);
        assert_eq!(told[0].1["contentChanges"][0]["text"], "y");
        assert_eq!(documents.sent(path), Some(Sent { version: 2, reports: 9 }));
    }

    #[test]
    fn the_document_that_was_used_longest_ago_is_closed_for_one_too_many() {
        let mut documents = Documents::default();
        for number in 0..MAX_OPEN {
            documents.update(&document(&format!("/{number}"), ""), "c", 0);
        }
        assert!(documents.update(&document("/0", ""), "c", 0).is_empty());
        let told = documents.update(&document("/new", ""), "c", 0);
        assert_eq!(methods(&told), ["textDocument/didClose", "textDocument/didOpen"]);
        assert_eq!(told[0].1["textDocument"]["uri"], "file:///1");
        assert_eq!(documents.files().count(), MAX_OPEN);
        assert!(documents.close(Path::new("/1")).is_none());
        assert!(documents.close(Path::new("/0")).is_some());
    }
}
