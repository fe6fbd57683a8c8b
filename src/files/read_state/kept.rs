//! Keeps the contents of known files on the disk while no turn of their session runs: memory is for
//! sessions at work.

use std::sync::Arc;

use super::{Content, ReadState};
use crate::ids::SessionId;
use crate::session_files::SessionFiles;
use crate::sync;

/// The most sessions whose contents are looked through: this one, and those it forked from.
const MAX_SESSIONS: usize = 4;

/// The contents that sessions have kept.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionContents {
    /// Where this session keeps its own. `None`: it keeps none.
    files: Option<Arc<SessionFiles>>,
    /// The sessions that it goes on from, the latest first.
    origins: Arc<[SessionId]>,
}

impl SessionContents {
    pub(super) fn of_sessions(mut sessions: Vec<SessionId>) -> Self {
        sessions.truncate(MAX_SESSIONS);
        Self { files: None, origins: sessions.into() }
    }

    /// With the place of the other one, if it has one.
    pub(super) fn also_of(&self, other: &Self) -> Self {
        let files = self.files.clone().or_else(|| other.files.clone());
        let origins = if self.origins.is_empty() { &other.origins } else { &self.origins };
        Self { files, origins: Arc::clone(origins) }
    }

    /// The sessions in which contents may be, the latest first.
    pub(super) fn sessions(&self) -> Vec<SessionId> {
        let own = self.files.as_ref().map(|files| files.session());
        let origins = self.origins.iter().filter(|origin| Some(*origin) != own);
        own.into_iter().chain(origins).take(MAX_SESSIONS).cloned().collect()
    }

    /// The contents with this hash. Reads the disk.
    pub(super) fn with_hash(&self, hash: blake3::Hash) -> Option<Content> {
        let kept = self.files.as_ref()?.kept_contents(hash, &self.origins);
        kept.map(Content::from)
    }
}

impl ReadState {
    /// Keeps contents in these files between two turns.
    pub(crate) fn kept_in(self, files: Arc<SessionFiles>) -> Self {
        let kept = SessionContents { files: Some(files), ..self.kept.clone() };
        Self { kept, ..self }
    }

    /// Puts the contents that are only in memory on the disk. What cannot be put there is named
    /// when it has changed. Writes the disk.
    pub(crate) fn keep_contents(&self) {
        let Some(files) = &self.kept.files else { return };
        let new = self.contents_in_memory();
        let contents = new.iter().map(|(hash, content)| (*hash, &content[..]));
        if let Err(error) = files.keep_contents(contents) {
            let session = files.session();
            tracing::warn!(%session, %error, "the contents of read files are not kept");
            return;
        }
        let mut known = sync::lock(&self.known);
        for file in known.files.values_mut().filter(|file| file.content.is_some()) {
            let hash = file.fingerprint.hash;
            file.is_kept |= new.iter().any(|(kept, _)| Some(*kept) == hash);
        }
    }

    /// The contents that are not on the disk yet, the least recently used first.
    fn contents_in_memory(&self) -> Vec<(blake3::Hash, Content)> {
        let known = sync::lock(&self.known);
        let mut files: Vec<_> = known.files.values().filter(|file| !file.is_kept).collect();
        files.sort_by_key(|file| file.used);
        let content = |file: &super::KnownFile| file.fingerprint.hash.zip(file.content.clone());
        files.into_iter().filter_map(content).collect()
    }
}
