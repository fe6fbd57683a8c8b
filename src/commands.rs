//! What the program does when it is called.
