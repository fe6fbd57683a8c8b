//! toolhand: an OpenAI-compatible endpoint that gives any model hands.
//!
//! The modules stand in layers, lowest first, a blank line between layers. A
//! module uses only lower layers, never a sibling; `tests/architecture.rs`
//! keeps it so.

// Text, numbers with units, locks, owners of files: what the vocabulary itself rests on.
pub(crate) mod ownership;
pub(crate) mod sync;
pub(crate) mod text;
pub(crate) mod units;

// Vocabulary: what every layer above speaks of.
pub(crate) mod errors;
pub(crate) mod ids;
pub(crate) mod limits;
pub(crate) mod openai;
pub(crate) mod progress_lines;
pub(crate) mod secret;

// Infrastructure: memory, threads, programs, directories, logs.
pub(crate) mod blocking;
pub(crate) mod memory_budget;
pub(crate) mod named_file;
pub(crate) mod processes;
pub(crate) mod telemetry;
pub(crate) mod workspace;

// Services that do not know each other.
pub(crate) mod files;
pub(crate) mod hooks;
pub(crate) mod permissions;
pub(crate) mod upstream;

// What a tool is, and the tools.
pub(crate) mod tools;

// How tool calls are run.
pub(crate) mod execution;

// The loop: rounds of model and tools until an answer stands.
pub(crate) mod agent;

// What outlives a round: for now one request.
pub(crate) mod sessions;

// Connections, their deadlines, and the checks of who is asking.
pub(crate) mod http;

// The routes, and the model for trials.
pub(crate) mod api;
pub(crate) mod demo_model;

// Where settings come from.
pub(crate) mod config;

// The only `new` of each service.
pub(crate) mod app;

// What the program does when it is called.
pub mod commands;

// What a process of ours does instead, when it was started to look after a command.
pub use processes::supervisor::supervise_if_asked;
