//! Builds all integration tests into one binary, which links faster than many.

mod architecture;
mod ask;
mod cli;
mod commands;
mod crash;
mod demo;
mod frontends;
mod hooks;
mod hostile;
mod litellm;
mod long_answers;
mod openapi;
mod permissions;
mod readme;
mod routes;
mod rows;
mod scripts;
mod sdk;
mod seeded_faults;
mod sessions;
mod settings;
mod soak;
mod startup;
mod support;
mod turn;
mod upstream_faults;
