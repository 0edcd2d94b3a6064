//! discovery_http_sd
