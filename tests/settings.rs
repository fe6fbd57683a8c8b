//! Tests what the configuration keys change, as seen from outside. Keys that other tests
//! need anyway are tested there.

pub(crate) mod client_keys;
pub(crate) mod definitions;
mod http;
mod limits;
mod live;
mod mcp_file;
mod models;
mod tools;
pub(crate) mod trust;
mod upstream;
mod users_file;
