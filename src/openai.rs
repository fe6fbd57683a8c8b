//! Defines the wire format of chat completions, as clients and upstream use it.
//!
//! Parts that the server does not look into are kept as the bytes that came ([`RawValue`]), so
//! that nothing is lost or rewritten.

pub(crate) mod call_name;
pub(crate) mod chunk;
pub(crate) mod error_object;
pub(crate) mod message;
pub(crate) mod model_list;
pub(crate) mod request;
pub(crate) mod usage;

use indexmap::IndexMap;
use serde_json::value::RawValue;

/// A JSON object whose values are kept as they came, in their order.
pub(crate) type Body = IndexMap<String, Box<RawValue>>;
