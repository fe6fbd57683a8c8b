//! What the keys of the configuration change, seen from outside; those that other
//! tests need anyway are shown there.

mod http;
mod limits;
mod models;
mod tools;
mod upstream;
