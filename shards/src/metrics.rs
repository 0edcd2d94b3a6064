//! Plain counters of one shard.
//!
//! A shard counts in its own cells; a scrape copies them into a [`ShardMetrics`] that the control core adds
//! up.

mod cells;

pub(crate) use cells::{BackendCells, Cells, Count, ListenerCells, LoginCells, cache_status};

/// Upper bounds in seconds of the request duration histograms. Contract: metrics page.
pub const DURATION_BUCKETS_S: [f64; 7] = [0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 20.0];

/// Upper bounds in seconds of the histogram of losers. Contract: metrics page, 1.
pub const DRAIN_BUCKETS_S: [f64; 12] = [
    0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

/// A copy of all counters of one shard, since its start.
#[derive(Clone, Debug, Default)]
pub struct ShardMetrics {
    /// By listener name.
    pub listeners: Vec<ListenerMetrics>,
    /// Front side, one row per backend, method and status class seen.
    pub frontend: Vec<FrontendRow>,
    /// Upstream side, one row per backend, method and status seen.
    pub upstream: Vec<UpstreamRow>,
    /// Fan-outs.
    pub fanout: Vec<FanoutRow>,
    /// Requests at user routers.
    pub user_routes: Vec<UserRouteRow>,
    /// What rules and rewriters did.
    pub rules: Vec<RuleRow>,
    /// Losers of fan-outs.
    pub drains: Vec<DrainRow>,
    /// Per backend.
    pub members: Vec<MemberRow>,
    /// Per ALB.
    pub albs: Vec<AlbRow>,
    /// Plain counters: name of the metric without `ringway_` prefix, value. Gauges too.
    pub counters: Vec<(&'static str, u64)>,
}

/// Connections of one listener.
#[derive(Clone, Debug, Default)]
pub struct ListenerMetrics {
    /// Operator's name.
    pub name: Box<str>,
    /// Accepted since start.
    pub accepted: u64,
    /// Refused by the connection limit since start.
    pub refused: u64,
    /// Closed since start.
    pub closed: u64,
    /// Accept, handshake or head errors that ended a connection.
    pub failed: u64,
    /// Open now.
    pub active: u64,
}

/// Requests a client made of one backend.
#[derive(Clone, Debug)]
pub struct FrontendRow {
    /// Backend the route led to.
    pub backend: Box<str>,
    /// Its provider.
    pub provider: &'static str,
    /// Method, or `OTHER`.
    pub method: &'static str,
    /// Configured path of the rule; empty where no path of the backend was asked for.
    pub path: Box<str>,
    /// Status class: `2xx`.
    pub status_class: &'static str,
    /// Requests.
    pub requests: u64,
    /// Body bytes written to clients.
    pub written_bytes: u64,
    /// Histogram counts per [`DURATION_BUCKETS_S`], not cumulative, the last is above all bounds.
    pub duration_buckets: [u64; DURATION_BUCKETS_S.len() + 1],
    /// Sum of durations in seconds.
    pub duration_sum_s: f64,
}

/// Requests sent to one origin backend.
#[derive(Clone, Debug)]
pub struct UpstreamRow {
    /// The backend.
    pub backend: Box<str>,
    /// Its provider.
    pub provider: &'static str,
    /// Method, or `OTHER`.
    pub method: &'static str,
    /// `proxy-only` or `proxy-error`. Contract: ALB page, 9.
    pub cache_status: &'static str,
    /// Handler name of the path.
    pub path: &'static str,
    /// Status code, 0 when there was no answer.
    pub status: u16,
    /// Requests.
    pub requests: u64,
    /// As in [`FrontendRow`].
    pub duration_buckets: [u64; DURATION_BUCKETS_S.len() + 1],
    /// Sum of durations in seconds.
    pub duration_sum_s: f64,
}

/// Fan-outs of one ALB.
#[derive(Clone, Debug)]
pub struct FanoutRow {
    /// The ALB.
    pub alb: Box<str>,
    /// `tsm`, ...
    pub mechanism: &'static str,
    /// Variant of the plan; empty when there is only one.
    pub variant: &'static str,
    /// What is counted: `attempts`, `failures`, `replica_events`, `plans`, `partial`.
    pub kind: &'static str,
    /// Reason of a failure, or replica event.
    pub label: &'static str,
    /// How often.
    pub count: u64,
}

/// Requests of one user router that fared alike.
#[derive(Clone, Debug)]
pub struct UserRouteRow {
    /// The ALB.
    pub alb: Box<str>,
    /// `selected`, `default`, `no_route` or `unavailable`.
    pub outcome: &'static str,
    /// How often.
    pub count: u64,
}

/// What rules and rewriters did with the requests of one backend.
#[derive(Clone, Debug)]
pub struct RuleRow {
    /// The backend.
    pub backend: Box<str>,
    /// How often no case of its rule decided, then how often each did.
    pub cases: Vec<u64>,
    /// Requests that had passed as many rules as they may.
    pub stops: u64,
    /// Instructions left out, of requests that came to this backend first.
    pub dropped: u64,
}

/// Losers of the fan-outs of one ALB.
#[derive(Clone, Debug)]
pub struct DrainRow {
    /// `fr`, ...
    pub mechanism: &'static str,
    /// Histogram counts per [`DRAIN_BUCKETS_S`], not cumulative, the last is above all bounds.
    pub buckets: [u64; DRAIN_BUCKETS_S.len() + 1],
    /// Sum of the times in seconds.
    pub sum_s: f64,
}

/// Per-member counters and gauges.
#[derive(Clone, Debug)]
pub struct MemberRow {
    /// The origin backend.
    pub backend: Box<str>,
    /// Requests sent to it by an ALB or a route.
    pub selected: u64,
    /// Connections dialled.
    pub dialled: u64,
    /// Dials that failed.
    pub dial_failures: u64,
    /// Requests on a reused connection.
    pub reused: u64,
    /// Requests sent again after a reused connection had died.
    pub resends: u64,
    /// Requests that went to another member because of this one.
    pub retries: u64,
    /// Requests that came here after another member could not be reached.
    pub failovers: u64,
    /// Idle connections now.
    pub idle: u64,
    /// Connections open now.
    pub open: u64,
}

/// Counters of one ALB.
#[derive(Clone, Debug)]
pub struct AlbRow {
    /// The ALB.
    pub alb: Box<str>,
    /// Requests sent to another member after one had failed them.
    pub retries: u64,
    /// Requests that would have been, had the budget allowed it.
    pub retries_refused: u64,
    /// Range queries refused because they were longer than allowed.
    pub ranges_refused: u64,
}
