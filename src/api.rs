//! The face towards clients: what comes in over HTTP, and how it is answered.
//!
//! [`router`] lists every route; each action has its own file.

pub(crate) mod auth;
pub(crate) mod body;
pub(crate) mod chat;
pub(crate) mod cors;
pub(crate) mod errors;
pub(crate) mod facts;
pub(crate) mod health;
pub(crate) mod hosts;
pub(crate) mod json;
pub(crate) mod refused;
pub(crate) mod router;
pub(crate) mod server;
pub(crate) mod strict_json;

use std::net::IpAddr;

use auth::{Keys, WrongKeys};
use hosts::{AllowedHosts, Origin};

use crate::limits::Limits;

/// What the handlers share. `app` makes the only one.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) settings: Settings,
    pub(crate) limits: Limits,
    pub(crate) hosts: AllowedHosts,
    pub(crate) keys: Keys,
    pub(crate) wrong_keys: WrongKeys,
}

/// What the operator may set of the face itself; `config` gathers it from its tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// `cors.allow_origins`.
    pub(crate) allow_origins: Vec<Origin>,
    /// `server.trusted_proxies`: peers whose `X-Forwarded-For` counts.
    pub(crate) trusted_proxies: Vec<IpAddr>,
}
