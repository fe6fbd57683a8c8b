//! Counts what the schemas of one server take together.

use super::fault::SchemaFault;

/// Enough for a hundred tools with a pattern in each. Compiled, it takes some ten times as much.
const MAX_SERVER_SIZE: usize = 4 << 20;

/// What the schemas of a server's tools may still take, in the unit of [`super::foreign`].
#[derive(Debug)]
pub(crate) struct SchemaBudget {
    left: usize,
}

impl Default for SchemaBudget {
    fn default() -> Self {
        Self { left: MAX_SERVER_SIZE }
    }
}

impl SchemaBudget {
    /// Takes nothing if there is less.
    pub(super) fn take(&mut self, size: usize) -> Result<(), SchemaFault> {
        self.left = self.left.checked_sub(size).ok_or(SchemaFault::Server)?;
        Ok(())
    }

    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Takes this much, or what is left.
    pub(super) fn use_up(&mut self, size: usize) {
        self.left = self.left.saturating_sub(size);
    }
}
