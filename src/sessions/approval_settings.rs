//! Defines `[approval]`: how a person is asked.

use std::time::Duration;

use serde::Deserialize;

/// `[approval]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ApprovalSettings {
    /// How long a stream waits for a decision over REST before its turn suspends.
    #[serde(with = "crate::units::duration")]
    pub(crate) wait: Duration,
    pub(crate) channel: ApprovalChannel,
}

/// Where a person is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ApprovalChannel {
    /// By the client's own tool if it declares one, else in the conversation.
    #[default]
    Auto,
    /// Only in the conversation.
    Conversation,
    /// Only over REST; the conversation says where.
    Rest,
    /// Nobody is asked: what would ask is denied.
    None,
}
