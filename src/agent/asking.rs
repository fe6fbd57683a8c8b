//! Puts asks to a person and reads what the person decided: in the conversation, by a tool of
//! the client, or over REST. Pure: takes texts and values, and returns them.

pub(crate) mod choice;
pub(crate) mod codes;
pub(crate) mod decision;
pub(crate) mod dialog;
mod header;
pub(crate) mod message;
pub(crate) mod reply;
