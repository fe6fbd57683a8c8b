//! Answers the routes of `/toolhand/v1/sessions`.

pub(super) mod delete;
pub(super) mod list;
pub(super) mod show;
