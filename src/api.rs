//! Answers the requests of every route.
//!
//! [`router`] lists every route; each action has its own file. [`crate::http`] has
//! accepted the connection and checked the key before a handler runs.

mod approvals;
pub(crate) mod chat;
pub(crate) mod denied_fields;
mod health;
mod models;
pub(crate) mod multipart;
mod openapi;
pub(crate) mod passthrough;
mod path_id;
pub(crate) mod ready;
pub(crate) mod request_context;
mod root;
pub(crate) mod router;
mod sessions;
pub(crate) mod state;
pub(crate) mod status;
pub(crate) mod strict_json;
mod tasks;
mod tools;
mod turns;
mod unknown_route;
mod upstream_fault;
