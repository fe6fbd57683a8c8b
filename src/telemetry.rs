//! The log on stderr: its format and its level.
