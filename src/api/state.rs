//! Holds what the routes share. A handler extracts the part it needs as axum's `State` of
//! that type.

use std::sync::Arc;

use axum::extract::FromRef;

use super::chat::{Chat, validate};
use super::passthrough::Routes;
use super::ready::Readiness;
use super::status::About;
use crate::http::auth::Authenticator;
use crate::http::hosts::HostPolicy;
use crate::limits::Limits;
use crate::memory_budget::MemoryBudget;
use crate::sessions::id_sources::IdSources;
use crate::sessions::rest::Rest;
use crate::tools::catalogue::ToolCatalogue;
use crate::upstream;

/// `app` builds the only one; clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct ApiState {
    pub(crate) hosts: Arc<HostPolicy>,
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) chat: Arc<Chat>,
    /// What a client is told of its sessions, turns and approvals.
    pub(crate) rest: Arc<Rest>,
    /// What chat requests are validated against, and the tools they are offered.
    pub(crate) validation: Arc<validate::Context>,
    /// `upstream.passthrough`.
    pub(crate) forwarded: Arc<Routes>,
    pub(crate) upstream: Arc<upstream::Client>,
    /// The memory budget of all requests together.
    pub(crate) memory_budget: MemoryBudget,
    pub(crate) limits: Arc<Limits>,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) about: Arc<About>,
}

impl FromRef<ApiState> for Arc<HostPolicy> {
    fn from_ref(state: &ApiState) -> Self {
        Arc::clone(&state.hosts)
    }
}

impl FromRef<ApiState> for Arc<Routes> {
    fn from_ref(state: &ApiState) -> Self {
        Arc::clone(&state.forwarded)
    }
}

impl FromRef<ApiState> for Arc<Chat> {
    fn from_ref(state: &ApiState) -> Self {
        Arc::clone(&state.chat)
    }
}

impl FromRef<ApiState> for Arc<Rest> {
    fn from_ref(state: &ApiState) -> Self {
        Arc::clone(&state.rest)
    }
}

impl FromRef<ApiState> for Arc<validate::Context> {
    fn from_ref(state: &ApiState) -> Self {
        Arc::clone(&state.validation)
    }
}

impl FromRef<ApiState> for Arc<IdSources> {
    fn from_ref(state: &ApiState) -> Self {
        Arc::clone(&state.validation.id_sources)
    }
}

impl FromRef<ApiState> for ToolCatalogue {
    fn from_ref(state: &ApiState) -> Self {
        state.validation.catalogue.clone()
    }
}

impl FromRef<ApiState> for Arc<upstream::Client> {
    fn from_ref(state: &ApiState) -> Self {
        Arc::clone(&state.upstream)
    }
}

impl FromRef<ApiState> for MemoryBudget {
    fn from_ref(state: &ApiState) -> Self {
        state.memory_budget.clone()
    }
}

impl FromRef<ApiState> for Arc<Limits> {
    fn from_ref(state: &ApiState) -> Self {
        Arc::clone(&state.limits)
    }
}

impl FromRef<ApiState> for Arc<Readiness> {
    fn from_ref(state: &ApiState) -> Self {
        Arc::clone(&state.readiness)
    }
}

impl FromRef<ApiState> for Arc<About> {
    fn from_ref(state: &ApiState) -> Self {
        Arc::clone(&state.about)
    }
}
