//! Asks language servers: where a symbol is defined and used, and what is wrong with a file.
//!
//! A server runs the code of the repository that it looks at. So it starts only in the sandbox,
//! or where the operator has vouched for the repository or the server.

#[cfg(feature = "lsp")]
mod client;
mod settings;

#[cfg(not(feature = "lsp"))]
mod absent;

#[cfg(not(feature = "lsp"))]
pub(crate) use self::absent::{AfterChange, LanguageServers};
#[cfg(feature = "lsp")]
pub(crate) use self::client::*;
pub(crate) use self::settings::LspSettings;
