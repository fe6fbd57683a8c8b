//! Tests how lists and records are put together.
