//! Tests which turn a list goes on from.
