//! discovery_consul
