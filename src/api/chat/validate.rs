//! Checks a chat completion request and makes it ours.
