//! The one binary of the integration tests.

mod architecture;
mod cli;
mod commands;
mod crash;
mod edges;
mod faults;
mod litellm;
mod openapi;
mod routes;
mod rows;
mod sdk;
mod settings;
mod soak;
mod startup;
mod support;
mod turn;
mod upstream_rows;
