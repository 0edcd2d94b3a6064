//! Metrics of the data plane, added up over the shards.

use std::collections::HashSet;

use ringway_shards::metrics::{
    AlbRow, DRAIN_BUCKETS_S, DURATION_BUCKETS_S, DrainRow, FanoutRow, FrontendRow, ListenerMetrics,
    MemberRow, RuleRow, UpstreamRow, UserRouteRow,
};
use ringway_shards::plan::BackendKind;

use super::{Counts, Families, Scene};

/// The reason of a member whose work panicked.
const PANIC: &str = "panic";

/// Puts all of them into `families`.
pub(super) fn collect(scene: &Scene<'_>, families: &mut Families) {
    connections(&[], families, &ListenerMetrics::default());
    let plan = scene.state.plan();
    let backends = plan.iter().flat_map(|plan| &plan.backends);
    let origins: HashSet<&str> = backends
        .filter(|backend| matches!(backend.kind, BackendKind::Origin(_)))
        .map(|backend| &*backend.name)
        .collect();
    let is_origin = |name: &str| origins.contains(name);
    let has_range_limit = |name: &str| {
        plan.iter()
            .flat_map(|plan| &plan.backends)
            .any(|backend| match &backend.kind {
                BackendKind::Alb(alb) => *backend.name == *name && alb.query_range_max.is_some(),
                BackendKind::Origin(_) | BackendKind::Rule(_) => false,
            })
    };
    for (id, shard) in scene.shards {
        let name = id.0.to_string();
        for row in &shard.listeners {
            connections(&[("shard", &name), ("listener", &row.name)], families, row);
        }
        shard
            .frontend
            .iter()
            .for_each(|row| frontend(row, families));
        shard
            .upstream
            .iter()
            .for_each(|row| upstream(row, families));
        shard.fanout.iter().for_each(|row| fanout(row, families));
        shard.albs.iter().for_each(|row| alb(row, families));
        let limited = shard.albs.iter().filter(|row| has_range_limit(&row.alb));
        limited.for_each(|row| range_limit(row, families));
        shard
            .user_routes
            .iter()
            .for_each(|row| user_route(row, families));
        for row in &shard.rules {
            let backends = plan.iter().flat_map(|plan| &plan.backends);
            let mut kinds = backends.filter(|backend| *backend.name == *row.backend);
            let name = kinds.find_map(|backend| match &backend.kind {
                BackendKind::Rule(rule) => Some(&*rule.name),
                BackendKind::Origin(_) | BackendKind::Alb(_) => None,
            });
            rule(name, row, families);
        }
        shard.drains.iter().for_each(|row| drain(row, families));
        // Shards count for every backend; connections are only made to origins.
        let members = shard.members.iter().filter(|row| is_origin(&row.backend));
        members.for_each(|row| member(row, families));
        for (counter, value) in &shard.counters {
            plain(counter, *value, families);
        }
    }
}

/// Without labels the row only makes sure that the sums are there before the first connection.
fn connections(labels: super::Labels<'_>, families: &mut Families, row: &ListenerMetrics) {
    families.gauge(
        "trickster_proxy_active_connections",
        "Client connections open now",
        &[],
        row.active as f64,
    );
    for (name, help, count) in [
        (
            "trickster_proxy_requested_connections_total",
            "Client connections that came in",
            row.accepted + row.refused,
        ),
        (
            "trickster_proxy_accepted_connections_total",
            "Client connections accepted",
            row.accepted,
        ),
        (
            "trickster_proxy_closed_connections_total",
            "Client connections closed",
            row.closed,
        ),
        (
            "trickster_proxy_failed_connections_total",
            "Accepts, handshakes and heads that failed, and connections over the limit",
            row.failed + row.refused,
        ),
    ] {
        families.counter(name, help, &[], count as f64);
    }
    if labels.is_empty() {
        return;
    }
    families.counter(
        "ringway_shard_accepted_connections_total",
        "Client connections accepted, by shard and listener",
        labels,
        row.accepted as f64,
    );
    families.gauge(
        "ringway_shard_active_connections",
        "Client connections open now, by shard and listener",
        labels,
        row.active as f64,
    );
}

fn frontend(row: &FrontendRow, families: &mut Families) {
    let labels = [
        ("backend_name", &*row.backend),
        ("provider", row.provider),
        ("method", row.method),
        ("path", &*row.path),
        ("http_status", row.status_class),
    ];
    families.counter(
        "trickster_frontend_requests_total",
        "Requests of clients",
        &labels,
        row.requests as f64,
    );
    families.counter(
        "trickster_frontend_written_byte_total",
        "Body bytes written to clients",
        &labels,
        row.written_bytes as f64,
    );
    families.histogram(
        "trickster_frontend_requests_duration_seconds",
        "Time from a request's head to the end of its answer",
        &labels,
        &Counts {
            bounds: &DURATION_BUCKETS_S,
            buckets: &row.duration_buckets,
            sum: row.duration_sum_s,
        },
    );
}

fn upstream(row: &UpstreamRow, families: &mut Families) {
    let status = match row.status {
        0 => String::new(),
        status => status.to_string(),
    };
    let labels = [
        ("backend_name", &*row.backend),
        ("provider", row.provider),
        ("method", row.method),
        ("cache_status", row.cache_status),
        ("http_status", &status),
        ("path", row.path),
    ];
    families.counter(
        "trickster_proxy_requests_total",
        "Requests sent to origins",
        &labels,
        row.requests as f64,
    );
    families.histogram(
        "trickster_proxy_request_duration_seconds",
        "Time from a request to an origin to the end of its answer",
        &labels,
        &Counts {
            bounds: &DURATION_BUCKETS_S,
            buckets: &row.duration_buckets,
            sum: row.duration_sum_s,
        },
    );
}

fn fanout(row: &FanoutRow, families: &mut Families) {
    let count = row.count as f64;
    let (mechanism, variant) = (("mechanism", row.mechanism), ("variant", row.variant));
    let alb = ("backend_name", &*row.alb);
    let mut both = |[all, own]: [&'static str; 2], help, labels: super::Labels<'_>| {
        families.counter(all, help, labels, count);
        let named = [&[("alb_name", &*row.alb)][..], labels].concat();
        families.counter(own, help, &named, count);
    };
    match row.kind {
        "attempts" => both(
            [
                "trickster_alb_fanout_attempts_total",
                "ringway_alb_fanout_attempts_total",
            ],
            "Fan-outs",
            &[mechanism, variant],
        ),
        "failures" => {
            both(
                [
                    "trickster_alb_fanout_failures_total",
                    "ringway_alb_fanout_failures_total",
                ],
                "Members that gave a fan-out nothing",
                &[mechanism, variant, ("reason", row.label)],
            );
            if row.label == PANIC {
                recovered("fanout_member", count, families);
            }
        }
        "replica_events" => both(
            [
                "trickster_alb_tsm_replica_events_total",
                "ringway_alb_tsm_replica_events_total",
            ],
            "What happened between the replicas of a group",
            &[("event", row.label), variant],
        ),
        "plans" => families.counter(
            "ringway_alb_plans_total",
            "Merged queries by the strategy chosen",
            &[alb, mechanism, ("plan", row.label)],
            count,
        ),
        "partial" => families.counter(
            "ringway_alb_partial_responses_total",
            "Merged answers that miss a member",
            &[alb, mechanism],
            count,
        ),
        other => debug_assert!(false, "a fan-out row of unknown kind {other}"),
    }
}

fn alb(row: &AlbRow, families: &mut Families) {
    let labels = [("backend_name", &*row.alb)];
    families.counter(
        "trickster_proxy_upstream_retries_total",
        "Requests of an ALB that were sent to another member although one may have had them",
        &labels,
        row.retries as f64,
    );
    families.counter(
        "ringway_alb_retry_budget_exhausted_total",
        "Requests of an ALB that were not, because its retry budget was used up",
        &labels,
        row.retries_refused as f64,
    );
}

/// Names and label are those of the documentation. Contract: metrics page, 4; decisions, 27.
fn range_limit(row: &AlbRow, families: &mut Families) {
    families.counter(
        "trickster_proxy_query_range_rejected_total",
        "Range queries refused because they were longer than max_query_range",
        &[("backend", &row.alb)],
        row.ranges_refused as f64,
    );
}

fn drain(row: &DrainRow, families: &mut Families) {
    families.histogram(
        "trickster_alb_fanout_loser_drain_seconds",
        "Time from the choice of a winner to a loser's end",
        &[("mechanism", row.mechanism), ("variant", "")],
        &Counts {
            bounds: &DRAIN_BUCKETS_S,
            buckets: &row.buckets,
            sum: row.sum_s,
        },
    );
}

fn member(row: &MemberRow, families: &mut Families) {
    let labels = [("backend_name", &*row.backend)];
    for (name, help, count) in [
        (
            "ringway_member_selected_total",
            "Requests sent to an origin by an ALB or a route",
            row.selected,
        ),
        (
            "ringway_member_dials_total",
            "Connections dialled to an origin",
            row.dialled,
        ),
        (
            "ringway_member_dial_failures_total",
            "Connections to an origin that could not be made",
            row.dial_failures,
        ),
        (
            "ringway_member_reused_connections_total",
            "Requests sent on a connection used before",
            row.reused,
        ),
        (
            "ringway_member_resends_total",
            "Requests sent again to an origin because a reused connection had died",
            row.resends,
        ),
        (
            "ringway_member_retries_total",
            "Requests that went to another member because of this one",
            row.retries,
        ),
        (
            "ringway_member_failovers_total",
            "Requests that came here because of another member",
            row.failovers,
        ),
    ] {
        families.counter(name, help, &labels, count as f64);
    }
    families.gauge(
        "ringway_member_idle_connections",
        "Idle connections to an origin",
        &labels,
        row.idle as f64,
    );
    families.gauge(
        "ringway_member_open_connections",
        "Open connections to an origin",
        &labels,
        row.open as f64,
    );
}

/// `name` is the rule that the backend runs; what a rule that is gone has counted is not told.
fn rule(name: Option<&str>, row: &RuleRow, families: &mut Families) {
    if row.dropped > 0 {
        families.counter(
            "ringway_rewrites_dropped_total",
            "Instructions of rewriters left out because what they made cannot be sent",
            &[("backend_name", &row.backend)],
            row.dropped as f64,
        );
    }
    let Some(name) = name else { return };
    for (index, count) in row
        .cases
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
    {
        let case = match index {
            0 => "none".to_owned(),
            index => (index - 1).to_string(),
        };
        families.counter(
            "ringway_rule_matches_total",
            "Requests by the case of a rule that decided",
            &[("rule", name), ("case", &case)],
            *count as f64,
        );
    }
    if row.stops > 0 {
        families.counter(
            "ringway_rule_budget_exceeded_total",
            "Requests that had passed as many rules as they may",
            &[("rule", name)],
            row.stops as f64,
        );
    }
}

fn user_route(row: &UserRouteRow, families: &mut Families) {
    families.counter(
        "ringway_user_router_outcomes_total",
        "Requests at a user router, by where they went",
        &[("backend_name", &row.alb), ("outcome", row.outcome)],
        row.count as f64,
    );
}

/// Panics that were caught and cost one piece of work.
fn recovered(site: &str, count: f64, families: &mut Families) {
    families.counter(
        "trickster_proxy_engines_panic_recovered_total",
        "Panics that were caught, by the work they ended",
        &[("site", site)],
        count,
    );
}

/// Plain counters have their names from the shard; one without a row here is a row forgotten.
fn plain(counter: &str, value: u64, families: &mut Families) {
    let (name, help) = match counter {
        "shard_panics_total" => {
            recovered("connection", value as f64, families);
            (
                "ringway_shard_panics_total",
                "Connections ended by a panic that was caught",
            )
        }
        "shard_bad_requests_total" => (
            "ringway_shard_bad_requests_total",
            "Requests refused because they are not HTTP as it should be",
        ),
        "shard_unrouted_requests_total" => (
            "ringway_shard_unrouted_requests_total",
            "Requests no backend is configured for",
        ),
        "shard_events_dropped_total" => (
            "ringway_shard_events_dropped_total",
            "Reports to the control core dropped because its queue was full",
        ),
        "shard_refused_lookups_total" => (
            "ringway_shard_refused_lookups_total",
            "Requests to hosts made by rewriters that were not asked for because too many others were",
        ),
        "shard_client_cancels_total" => (
            "ringway_shard_client_cancels_total",
            "Requests whose client went away before the answer",
        ),
        "shard_refused_logins_total" => (
            "ringway_shard_refused_logins_total",
            "Requests refused because credentials were missing or wrong",
        ),
        "shard_turned_away_logins_total" => (
            "ringway_shard_turned_away_logins_total",
            "Requests whose password could not be checked because too many others were",
        ),
        other => {
            debug_assert!(false, "a shard counter without a name here: {other}");
            return;
        }
    };
    families.counter(name, help, &[], value as f64);
}
