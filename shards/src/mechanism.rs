//! Mechanisms that need more than a turn: those that fan a request out.

pub(crate) mod time_series_merge;
