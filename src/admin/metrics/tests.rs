//! The text of a scrape.

use super::*;
use crate::control::fixture::Builder;
use crate::control::state::Event;
use ringway_shards::metrics::{
    AlbRow, DrainRow, FanoutRow, FrontendRow, ListenerMetrics, MemberRow, RuleRow, UpstreamRow,
    UserRouteRow,
};
use std::collections::HashMap;
use std::time::{Duration, UNIX_EPOCH};

/// What an origin was asked.
fn upstream(requests: u64) -> UpstreamRow {
    UpstreamRow {
        backend: "a".into(),
        provider: "reverseproxy",
        method: "GET",
        cache_status: "proxy-only",
        path: "proxy",
        status: 200,
        requests,
        duration_buckets: [requests, 0, 0, 0, 0, 0, 0, 0],
        duration_sum_s: 0.25,
    }
}

fn dropped() -> RuleRow {
    RuleRow {
        backend: "a".into(),
        cases: Vec::new(),
        stops: 0,
        dropped: 2,
    }
}

fn shard(requests: u64) -> Box<ShardMetrics> {
    let row = FrontendRow {
        backend: "lb".into(),
        provider: "alb",
        method: "GET",
        path: "/".into(),
        status_class: "2xx",
        requests,
        written_bytes: 10 * requests,
        duration_buckets: [requests, 0, 0, 0, 0, 0, 0, 1],
        duration_sum_s: 0.5,
    };
    let fanout = |kind, label| FanoutRow {
        alb: "lb".into(),
        mechanism: "tsm",
        variant: "",
        kind,
        label,
        count: 2,
    };
    Box::new(ShardMetrics {
        listeners: vec![ListenerMetrics {
            name: "default".into(),
            accepted: 3,
            refused: 1,
            closed: 2,
            failed: 0,
            active: 1,
        }],
        frontend: vec![row],
        upstream: vec![upstream(requests)],
        fanout: vec![
            fanout("attempts", ""),
            fanout("failures", "truncated"),
            fanout("failures", "panic"),
            fanout("replica_events", "conflict"),
            fanout("plans", "sum"),
            fanout("partial", ""),
        ],
        drains: vec![DrainRow {
            mechanism: "fr",
            buckets: [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            sum_s: 60.0,
        }],
        members: vec![MemberRow {
            backend: "a".into(),
            selected: requests,
            dialled: 1,
            dial_failures: 0,
            reused: 4,
            resends: 0,
            retries: 2,
            failovers: 3,
            idle: 1,
            open: 2,
        }],
        albs: vec![AlbRow {
            alb: "lb".into(),
            retries: 4,
            retries_refused: 1,
            ranges_refused: 2,
        }],
        user_routes: vec![UserRouteRow {
            alb: "lb".into(),
            outcome: "selected",
            count: 2,
        }],
        rules: vec![dropped()],
        counters: vec![("shard_panics_total", 1)],
    })
}

fn scrape() -> String {
    let mut state = State::new(UNIX_EPOCH);
    state.apply(Event::Adopted {
        plan: Builder::default()
            .origin("a", "127.0.0.1")
            .alb("lb", 0, &[("a", 1)])
            .plan(3),
        probes: HashMap::new(),
        ejection: Vec::new(),
        standings: HashMap::new(),
        at: UNIX_EPOCH,
    });
    let mut probes = BTreeMap::new();
    let mut counts = ProbeCounts::default();
    counts.count(true, 0.004);
    counts.count(false, 60.0);
    probes.insert("a".into(), counts);
    let mut reloads = reload::Tally::default();
    reloads.count(true, Duration::from_millis(1), UNIX_EPOCH);
    let shards = [(ShardId(0), shard(5)), (ShardId(1), shard(7))];
    let scene = Scene {
        state: &state,
        settings: None,
        shards: &shards,
        drivers: &[Some(Driver::IoUring), Some(Driver::Epoll), None],
        probes: &probes,
        discovered: &[],
        discoverers: &[],
        spreads: Default::default(),
        reloads: &reloads,
        passwords: verify::Tally {
            matched: 3,
            mismatched: 2,
            turned_away: 1,
        },
        lookups: lookups::Tally {
            ok: 7,
            failed: 6,
            refused: 5,
        },
        log_lines_dropped: 4,
        process: Process::read(),
        started: UNIX_EPOCH,
    };
    scene.text()
}

#[test]
fn rows_are_added_up_over_the_shards() {
    let text = scrape();
    let front = r#"backend_name="lb",provider="alb",method="GET",path="/",http_status="2xx""#;
    let up = r#"backend_name="a",provider="reverseproxy",method="GET",cache_status="proxy-only",http_status="200",path="proxy""#;
    for row in [
        format!("trickster_frontend_requests_total{{{front}}} 12"),
        format!("trickster_frontend_written_byte_total{{{front}}} 120"),
        format!("trickster_frontend_requests_duration_seconds_bucket{{{front},le=\"0.05\"}} 12"),
        format!("trickster_frontend_requests_duration_seconds_bucket{{{front},le=\"20\"}} 12"),
        format!("trickster_frontend_requests_duration_seconds_bucket{{{front},le=\"+Inf\"}} 14"),
        format!("trickster_frontend_requests_duration_seconds_count{{{front}}} 14"),
        format!("trickster_frontend_requests_duration_seconds_sum{{{front}}} 1"),
        format!("trickster_proxy_requests_total{{{up}}} 12"),
        format!("trickster_proxy_request_duration_seconds_count{{{up}}} 12"),
        "trickster_proxy_active_connections 2".into(),
        "trickster_proxy_requested_connections_total 8".into(),
        "trickster_proxy_accepted_connections_total 6".into(),
        "trickster_proxy_closed_connections_total 4".into(),
        "trickster_proxy_failed_connections_total 2".into(),
        "trickster_alb_fanout_attempts_total{mechanism=\"tsm\",variant=\"\"} 4".into(),
        "trickster_alb_fanout_loser_drain_seconds_bucket{mechanism=\"fr\",variant=\"\",le=\"0.001\"} 4".into(),
        "trickster_alb_fanout_loser_drain_seconds_count{mechanism=\"fr\",variant=\"\"} 6".into(),
        "trickster_alb_fanout_failures_total{mechanism=\"tsm\",variant=\"\",reason=\"truncated\"} 4"
            .into(),
        "trickster_alb_tsm_replica_events_total{event=\"conflict\",variant=\"\"} 4".into(),
        "ringway_alb_plans_total{backend_name=\"lb\",mechanism=\"tsm\",plan=\"sum\"} 4".into(),
        "ringway_alb_partial_responses_total{backend_name=\"lb\",mechanism=\"tsm\"} 4".into(),
        "ringway_user_router_outcomes_total{backend_name=\"lb\",outcome=\"selected\"} 4".into(),
        "ringway_password_checks_total{result=\"mismatch\"} 2".into(),
        "ringway_lookups_total{result=\"refused\"} 5".into(),
        "ringway_member_selected_total{backend_name=\"a\"} 12".into(),
        "ringway_member_open_connections{backend_name=\"a\"} 4".into(),
        "ringway_member_failovers_total{backend_name=\"a\"} 6".into(),
        "ringway_member_retries_total{backend_name=\"a\"} 4".into(),
        "trickster_proxy_upstream_retries_total{backend_name=\"lb\"} 8".into(),
        "ringway_alb_retry_budget_exhausted_total{backend_name=\"lb\"} 2".into(),
        "ringway_alb_fanout_attempts_total{alb_name=\"lb\",mechanism=\"tsm\",variant=\"\"} 4".into(),
        "ringway_alb_fanout_failures_total{alb_name=\"lb\",mechanism=\"tsm\",variant=\"\",reason=\"truncated\"} 4".into(),
        "ringway_alb_tsm_replica_events_total{alb_name=\"lb\",event=\"conflict\",variant=\"\"} 4".into(),
        "ringway_shard_panics_total 2".into(),
        "trickster_proxy_engines_panic_recovered_total{site=\"connection\"} 2".into(),
        "trickster_proxy_engines_panic_recovered_total{site=\"fanout_member\"} 4".into(),
        "ringway_shard_accepted_connections_total{shard=\"1\",listener=\"default\"} 3".into(),
    ] {
        assert!(text.lines().any(|line| line == row), "{row}\n{text}");
    }
}

#[test]
fn the_control_core_has_its_rows() {
    let text = scrape();
    for row in [
        "ringway_shard_driver_info{shard=\"0\",driver=\"io_uring\"} 1",
        "ringway_shard_driver_info{shard=\"1\",driver=\"epoll\"} 1",
        "ringway_shards 3",
        "ringway_scrape_shards_missing 1",
        "ringway_plan_generation 3",
        "ringway_alb_live_members{backend_name=\"lb\",mechanism=\"rr\"} 1",
        "ringway_alb_configured_members{backend_name=\"lb\",mechanism=\"rr\"} 1",
        "ringway_healthcheck_target_state{backend_name=\"a\"} 0",
        "ringway_healthcheck_target_state{backend_name=\"lb\"} 1",
        "ringway_backend_addresses{backend_name=\"a\"} 1",
        "trickster_healthcheck_probe_latency_seconds_bucket{backend_name=\"a\",le=\"0.005\"} 1",
        "trickster_healthcheck_probe_latency_seconds_count{backend_name=\"a\"} 2",
        "ringway_healthcheck_probes_total{backend_name=\"a\",result=\"fail\"} 1",
        "trickster_config_last_reload_successful 1",
        "trickster_config_reload_attempts_total 1",
        "trickster_config_reload_failures_total 0",
        "trickster_config_reload_duration_seconds_count 1",
        "ringway_log_dropped_lines_total 4",
        "trickster_proxy_max_connections 0",
    ] {
        assert!(text.lines().any(|line| line == row), "{row}\n{text}");
    }
    assert!(text.contains("process_resident_memory_bytes "));
    assert!(text.contains(concat!("version=\"", env!("CARGO_PKG_VERSION"), "\"} 1")));
}

#[test]
fn label_values_are_escaped() {
    let mut families = Families::default();
    families.gauge("x", "an x", &[("name", "a\"b\\c\nd")], 1.0);
    assert_eq!(
        families.text(),
        "# HELP x an x\n# TYPE x gauge\nx{name=\"a\\\"b\\\\c\\nd\"} 1\n"
    );
}

#[test]
fn probe_durations_fall_into_their_buckets() {
    let mut counts = ProbeCounts::default();
    counts.count(true, 0.005);
    counts.count(true, 10.0);
    counts.count(false, 10.1);
    assert_eq!(
        counts.duration_buckets,
        [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]
    );
}
