//! Defines what reading a file comes to.

/// A definition, and what of its file was not as it should be, each remark a sentence that follows
/// the file's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ParsedDefinition<D> {
    pub(super) definition: D,
    pub(super) remarks: Vec<String>,
}
