//! Answers the routes of `/toolhand/v1/turns`.

pub(super) mod cancel;
pub(super) mod list;
pub(super) mod stream;
