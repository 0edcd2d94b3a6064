//! Tests of file.
