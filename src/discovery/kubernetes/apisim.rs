//! A stub.
