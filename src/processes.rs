//! Runs a program: supervisor, time-out, bounded output, a tree kill on drop.
