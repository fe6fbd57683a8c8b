//! Keeps a few connections for reading.

use std::sync::{Mutex, PoisonError, RwLock, RwLockWriteGuard};

use rusqlite::Connection;

use super::super::StoreError;
use super::file::DatabaseFile;
use crate::sync;

/// Connections that wait for the next read. `READS` bounds how many there are.
#[derive(Debug)]
pub(super) struct Readers {
    file: DatabaseFile,
    idle: Mutex<Vec<Connection>>,
    /// Held for reading by every read, and for writing while no connection may be open. Whether
    /// the store is closed.
    gate: RwLock<bool>,
}

impl Readers {
    pub(super) fn new(file: DatabaseFile) -> Self {
        Self { file, idle: Mutex::default(), gate: RwLock::new(false) }
    }

    pub(super) fn read<T>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let closed = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        if *closed {
            return Err(StoreError::Unavailable);
        }
        let idle = sync::lock(&self.idle).pop();
        let read = idle.map_or_else(|| self.file.connect_reader(), Ok).and_then(|connection| {
            let read = query(&connection)?;
            // One that failed is not used again.
            sync::lock(&self.idle).push(connection);
            Ok(read)
        });
        read.map_err(|error| {
            tracing::error!(%error, "the store cannot be read");
            self.file.note(&error);
            StoreError::Unavailable
        })
    }

    /// Closes every connection, and keeps others from being opened as long as the guard lives.
    pub(super) fn pause(&self) -> RwLockWriteGuard<'_, bool> {
        let guard = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        sync::lock(&self.idle).clear();
        guard
    }

    /// Ends reading for good.
    pub(super) fn close(&self) {
        *self.pause() = true;
    }
}
