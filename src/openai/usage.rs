//! Token counts, summed over the rounds of a turn.

use serde_json::{Map, Value};

/// A `usage` object: integers at any depth are summed, whatever their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Usage(pub(crate) Map<String, Value>);
