//! Stands for the client of language servers in a build without it. There is none.

#![expect(clippy::unused_async, reason = "as those of a build with it")]

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use crate::workspace::Workspace;

#[derive(Debug)]
pub(crate) enum LanguageServers {}

#[derive(Debug)]
pub(crate) enum AfterChange {}

impl LanguageServers {
    pub(crate) fn opened(self: &Arc<Self>, _: &Arc<Workspace>, _: &Path) {
        match **self {}
    }

    pub(crate) fn end(&self) {
        match *self {}
    }

    pub(crate) async fn is_offered(self: &Arc<Self>, _: &Arc<Workspace>) -> bool {
        match **self {}
    }

    pub(crate) async fn after_change(
        self: &Arc<Self>,
        _: &Arc<Workspace>,
        _: &Path,
    ) -> Option<AfterChange> {
        match **self {}
    }
}

impl AfterChange {
    pub(crate) fn lines(&self) -> Vec<String> {
        match *self {}
    }

    pub(crate) fn structured(&self) -> Value {
        match *self {}
    }
}
