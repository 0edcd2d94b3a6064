//! discovery_nomad
