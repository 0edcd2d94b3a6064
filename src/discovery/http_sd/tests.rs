//! Tests of http_sd.
