//! An OpenAI-compatible server that runs tools for the models behind LiteLLM.
//!
//! The modules are listed in layers, lowest first, with a blank line between layers. A module
//! uses only modules of lower layers, never a sibling. `tests/architecture.rs` checks this.

// Base: text, JSON, the time of day, numbers with units, locks, owners and numbers of files. The
// vocabulary itself uses it.
pub(crate) mod clock;
pub(crate) mod file_id;
pub(crate) mod json;
pub(crate) mod look_alike;
pub(crate) mod ownership;
pub(crate) mod sync;
pub(crate) mod text;
pub(crate) mod units;

// Vocabulary: the types and helpers that every layer above uses.
pub(crate) mod encoding;
pub(crate) mod errors;
pub(crate) mod ids;
pub(crate) mod input_schema;
pub(crate) mod limits;
pub(crate) mod markdown;
pub(crate) mod openai;
pub(crate) mod page_url;
pub(crate) mod progress_lines;
pub(crate) mod protected_names;
pub(crate) mod public_address;
pub(crate) mod reminder;
pub(crate) mod secret;

// Infrastructure: memory, threads, programs, directories, addresses, logs.
pub(crate) mod blocking;
pub(crate) mod free_memory;
pub(crate) mod http_client;
pub(crate) mod memory_budget;
pub(crate) mod named_file;
pub(crate) mod own_endpoints;
pub(crate) mod processes;
pub(crate) mod telemetry;
pub(crate) mod workspace;

// The encodings of files that are named; files that are read again whenever they have changed;
// files that the server keeps for a session.
pub(crate) mod file_encodings;
pub(crate) mod live_file;
pub(crate) mod session_files;

// The workspaces that the operator trusts.
pub(crate) mod trust;

// The settings files that other programs share, the user's and the workspace's.
pub(crate) mod settings_files;

// The text of foreign documents, read by a worker process.
pub(crate) mod documents;

// Services. They do not know each other.
pub(crate) mod definitions;
pub(crate) mod files;
pub(crate) mod hooks;
pub(crate) mod lsp;
pub(crate) mod mcp;
pub(crate) mod permissions;
pub(crate) mod store;
pub(crate) mod upstream;
pub(crate) mod web;

// The tool contract, and the built-in tools.
pub(crate) mod tools;

// Running tool calls.
pub(crate) mod execution;

// The agent loop: rounds of model and tools until the turn has its answer.
pub(crate) mod agent;

// Conversations: finds a request's session, starts its turn there, keeps what the turn leaves.
pub(crate) mod sessions;

// Connections, their deadlines, and authentication.
pub(crate) mod http;

// The routes, and the scripted model for trying the server without a provider.
pub(crate) mod api;
pub(crate) mod demo_model;

// Reading settings from the file, the environment and the command line.
pub(crate) mod config;

// Constructs each service, once.
pub(crate) mod app;

// The subcommands of the program.
pub mod commands;

// The cost of judging a call, of calling an MCP server's tool, of looking at known files and of
// confining a command, for the bench.
#[doc(hidden)]
pub use execution::measured as measured_calls;
#[doc(hidden)]
pub use files::measured as measured_files;
#[doc(hidden)]
pub use permissions::measured;
#[doc(hidden)]
pub use processes::measured as measured_commands;

// Runs this process as the supervisor of a command, if it was started as one.
pub use processes::placeholders::sweep_if_asked;
pub use processes::supervisor::supervise_if_asked;

// Runs this process as a reader of a foreign document, if it was started as one.
pub use documents::read_if_asked;
