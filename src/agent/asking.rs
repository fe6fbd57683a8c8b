//! Puts asks to a person and reads what the person decided: in the conversation, by a tool of
//! the client, or over REST. Pure: takes texts and values, and returns them.

mod answers;
pub(crate) mod bare_choice;
pub(crate) mod choice;
pub(crate) mod codes;
pub(crate) mod decision;
pub(crate) mod dialog;
pub(crate) mod enclosure;
mod header;
mod markdown_scan;
pub(crate) mod message;
pub(crate) mod outcome;
pub(crate) mod question_text;
mod quotes;
pub(crate) mod reply;
#[cfg(test)]
pub(crate) mod test_support;
