//! The only `new` of each service, and the server that they make up.

pub(crate) mod state_dir;
