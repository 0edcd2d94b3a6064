//! Tests of members.
