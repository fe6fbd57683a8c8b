//! The face towards clients: what comes in over HTTP, and how it is answered.
//!
//! [`router`] lists every route; each action has its own file.

pub(crate) mod auth;
pub(crate) mod body;
pub(crate) mod chat;
pub(crate) mod cors;
pub(crate) mod errors;
pub(crate) mod facts;
pub(crate) mod framed;
pub(crate) mod health;
pub(crate) mod held;
pub(crate) mod hosts;
pub(crate) mod json;
pub(crate) mod models;
pub(crate) mod multipart;
pub(crate) mod openapi;
pub(crate) mod passthrough;
pub(crate) mod ready;
pub(crate) mod refused;
pub(crate) mod router;
pub(crate) mod runs;
pub(crate) mod server;
pub(crate) mod status;
pub(crate) mod strict_json;
pub(crate) mod tools;

use std::net::IpAddr;
use std::sync::Arc;

use auth::{Keys, WrongKeys};
use chat::retries::Retries;
use hosts::{AllowedHosts, Origin};
use runs::Runs;

use crate::buffers::Buffers;
use crate::limits::Limits;
use crate::sessions::Sessions;
use crate::upstream;

/// What the handlers share. `app` makes the only one.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) settings: Settings,
    pub(crate) limits: Limits,
    pub(crate) hosts: AllowedHosts,
    pub(crate) keys: Keys,
    pub(crate) wrong_keys: WrongKeys,
    pub(crate) runs: Runs,
    /// What chat requests are held against, and the tools they are offered.
    pub(crate) chat: chat::validate::Context,
    pub(crate) upstream: Arc<upstream::Client>,
    /// What all requests together may keep in memory.
    pub(crate) buffers: Buffers,
    pub(crate) readiness: ready::Readiness,
    pub(crate) about: status::About,
    /// Turns that a retry may come back to.
    pub(crate) retries: Retries,
    /// Starts chat turns.
    pub(crate) turns: Sessions,
}

/// What the operator may set of the face itself; `config` gathers it from its tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// `cors.allow_origins`.
    pub(crate) allow_origins: Vec<Origin>,
    /// `server.trusted_proxies`: peers whose `X-Forwarded-For` counts.
    pub(crate) trusted_proxies: Vec<IpAddr>,
    /// `upstream.passthrough`.
    pub(crate) forwarded: passthrough::Routes,
}
