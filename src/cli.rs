//! Command line: which command, with which options.
