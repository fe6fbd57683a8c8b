//! Puts tool calls together from deltas. Pure.
