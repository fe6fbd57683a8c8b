//! The words of the wire: chat completions as clients and upstream speak them.
//!
//! Whatever we do not look into stays the bytes it came as ([`RawValue`]), so
//! that nothing is lost or rewritten on its way through.

pub(crate) mod chunk;
pub(crate) mod error_object;
pub(crate) mod request;
pub(crate) mod usage;

use indexmap::IndexMap;
use serde_json::value::RawValue;

/// A JSON object whose values are kept as they came, in the order they came.
pub(crate) type Body = IndexMap<String, Box<RawValue>>;
