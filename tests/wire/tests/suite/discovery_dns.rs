//! discovery_dns
