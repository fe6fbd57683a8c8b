//! Answers the routes of `/toolhand/v1/approvals`.

pub(super) mod decide;
pub(super) mod list;
