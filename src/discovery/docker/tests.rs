//! Tests of docker.
