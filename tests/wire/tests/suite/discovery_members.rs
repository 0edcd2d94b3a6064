//! discovery_members
