//! The one binary of the integration tests.

mod architecture;
mod cli;
mod support;
