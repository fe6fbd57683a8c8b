//! The client of language servers. All that a server sends is bounded, and treated as untrusted
//! repository content.

mod after_change;
mod answers;
mod capabilities;
mod catalogue;
mod codec;
mod connection;
mod detection;
mod detection_cache;
mod diagnostics;
mod documents;
mod launcher;
mod lists;
mod message;
mod openings;
mod pool;
mod positions;
mod presence;
mod program;
mod progress;
mod projects;
mod published;
mod questions;
mod report;
mod rustup;
mod servers;
mod session;
mod source;
mod start_rule;
mod texts;
mod uri;
mod workspace_files;

pub(crate) use self::after_change::AfterChange;
pub(crate) use self::documents::Document;
pub(crate) use self::positions::{Encoding, LineColumn, column_of, line};
pub(crate) use self::questions::{Found, FoundPlace, FoundSymbol, Operation};
pub(crate) use self::report::ReportedServer;
pub(crate) use self::servers::{Answers, Ask, LanguageServers, LanguageServices};
pub(crate) use self::session::Answer;
pub(crate) use self::source::{ReadRules, read as read_document};
