//! Mechanisms that need more than a turn: those that fan a request out, and the one that asks who it is from.

pub(crate) mod time_series_merge;
pub(crate) mod user_router;
