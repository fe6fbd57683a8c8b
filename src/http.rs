//! Serves HTTP/1.1: accepts connections, enforces their deadlines, checks the key.
//!
//! [`server`] runs the connections. The other public files are the checks and the
//! bodies that `api` puts around its routes and uses in them.

pub(crate) mod admission;
mod answer;
pub(crate) mod auth;
pub(crate) mod body;
pub(crate) mod budgeted_body;
pub(crate) mod client_key;
mod connection_state;
pub(crate) mod cors;
mod disconnect;
pub(crate) mod errors;
mod framing;
pub(crate) mod headers;
pub(crate) mod hosts;
pub(crate) mod peer;
mod refusal;
pub(crate) mod request_id;
pub(crate) mod server;
pub(crate) mod transfer_encoding;
mod wire;
mod write_stall;
