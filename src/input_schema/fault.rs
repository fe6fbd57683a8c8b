//! Says why the schema of somebody else's tool is not used.

/// The most bytes of such a schema.
pub(super) const MAX_BYTES: usize = 64 << 10;

/// How deep it may nest. Deeper ones are no forms that a model could fill in.
pub(super) const MAX_DEPTH: usize = 32;

/// Why a schema is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SchemaFault {
    #[error("its input schema has more than {MAX_BYTES} bytes")]
    TooLarge,
    #[error("its input schema nests more than {MAX_DEPTH} deep")]
    TooDeep,
    #[error("its input schema takes too much memory, with what its references lead to")]
    TooMuch,
    #[error("its input schema has names or values of hidden characters")]
    Hidden,
    #[error("the input schemas of the server's tools take too much memory together")]
    Server,
}
