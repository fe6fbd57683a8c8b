//! Answers the requests of every route.
//!
//! [`router`] lists every route; each action has its own file. [`crate::http`] has
//! accepted the connection and checked the key before a handler runs.

pub(crate) mod chat;
pub(crate) mod denied_fields;
mod health;
mod models;
pub(crate) mod multipart;
mod openapi;
pub(crate) mod passthrough;
pub(crate) mod ready;
pub(crate) mod request_context;
mod root;
pub(crate) mod router;
pub(crate) mod runs;
pub(crate) mod state;
pub(crate) mod status;
pub(crate) mod strict_json;
mod tools;
mod unknown_route;
mod upstream_fault;
