//! What the model knows of files, and writing that leaves no half file behind.

/// The files a session has read, so that nothing is edited unseen.
#[derive(Debug, Default)]
pub(crate) struct ReadState;
