//! The tools that come with the server, one file each, and their list.
