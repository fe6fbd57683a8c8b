//! The one binary of the integration tests.

mod architecture;
mod cli;
mod commands;
mod edges;
mod openapi;
mod routes;
mod startup;
mod support;
mod turn;
