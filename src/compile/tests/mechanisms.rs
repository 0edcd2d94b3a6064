//! Settings of the mechanisms: aliases, concurrency, good codes, routes by user, retries, ejection.

use ringway_shards::plan::{Alb, AuthenticatorKind, PoolId, Retry};

use super::*;
use crate::compile::PoolEjection;

fn alb<'a>(compiled: &'a Compiled, name: &str) -> &'a Alb {
    let backend = compiled.plan.backends.iter().find(|b| &*b.name == name);
    match &backend.unwrap().kind {
        BackendKind::Alb(alb) => alb,
        BackendKind::Origin(_) | BackendKind::Rule(_) => panic!("no ALB"),
    }
}

/// An ALB `w` over `a` and `b` with this block.
fn over_two(block: &str) -> Compiled {
    valid(&format!(
        "backends:\n  a: {{provider: prometheus, origin_url: 'http://a', timeout: 5s}}\n  \
         b: {{provider: prometheus, origin_url: 'http://b', timeout: 7s}}\n  w: {{provider: alb, alb: {block}}}\n"
    ))
}

#[test]
fn every_name_of_a_mechanism_means_the_same() {
    for (names, mechanism) in [
        (&["rr", "round_robin"][..], Mechanism::RoundRobin),
        (
            &["tsm", "tsmerge", "time_series_merge"],
            Mechanism::TimeSeriesMerge,
        ),
        (&["fr", "first_response"], Mechanism::FirstResponse),
        (
            &["fgr", "first_good_response"],
            Mechanism::FirstGoodResponse,
        ),
        (
            &["nlm", "newest_last_modified"],
            Mechanism::NewestLastModified,
        ),
    ] {
        for name in names {
            let compiled = over_two(&format!("{{mechanism: {name}, pool: [a, b]}}"));
            let alb = alb(&compiled, "w");
            assert_eq!(alb.mechanism, mechanism, "{name}");
            assert_eq!(alb.timeout, Duration::from_secs(7), "{name}");
            assert_eq!(alb.concurrency_max, None, "{name}");
        }
    }
    for name in ["ur", "user_router"] {
        let compiled = over_two(&format!(
            "{{mechanism: {name}, user_router: {{default_backend: a}}}}"
        ));
        assert_eq!(alb(&compiled, "w").mechanism, Mechanism::UserRouter);
    }
}

#[test]
fn an_alb_without_a_mechanism_takes_turns() {
    for block in ["{pool: [a, b]}", "{mechanism: , pool: [a, b]}"] {
        let compiled = over_two(block);
        assert_eq!(alb(&compiled, "w").mechanism, Mechanism::RoundRobin);
    }
}

#[test]
fn capture_caps_come_from_the_alb_then_its_backend_then_the_default() {
    const DEFAULT: u64 = 268_435_456;
    for (keys, block, capture, fanout) in [
        ("", "", DEFAULT, None),
        (
            "max_capture_bytes: 8, max_fanout_capture_bytes: 80, ",
            "",
            8,
            Some(80),
        ),
        (
            "max_capture_bytes: 8, max_fanout_capture_bytes: 80, ",
            ", max_capture_bytes: 0, max_fanout_capture_bytes: 0",
            8,
            Some(80),
        ),
        (
            "max_capture_bytes: 8, max_fanout_capture_bytes: 80, ",
            ", max_capture_bytes: 9, max_fanout_capture_bytes: 70",
            9,
            Some(70),
        ),
        (
            "max_capture_bytes: 0, max_fanout_capture_bytes: 0, ",
            ", max_capture_bytes: 0",
            DEFAULT,
            None,
        ),
    ] {
        for mechanism in ["fr", "fgr", "nlm", "tsm"] {
            let compiled = valid(&format!(
                "backends:\n  a: {{provider: prometheus, origin_url: 'http://a'}}\n  \
                 w: {{provider: alb, {keys}alb: {{mechanism: {mechanism}, pool: [a]{block}}}}}\n"
            ));
            let found = &compiled.plan.backends[1];
            assert_eq!(found.capture_bytes_max, capture, "{keys}{block}");
            assert_eq!(
                alb(&compiled, "w").fanout_bytes_max,
                fanout,
                "{keys}{block}"
            );
        }
    }
}

#[test]
fn a_range_is_limited_only_under_a_merge_and_not_by_0() {
    for (mechanism, range, expected) in [
        ("tsm", "2w", Some(Duration::from_secs(14 * 86_400))),
        ("tsm", "0", None),
        ("rr", "2w", None),
        ("nlm", "2w", None),
    ] {
        let compiled = valid(&format!(
            "backends:\n  a: {{provider: prometheus, origin_url: 'http://a'}}\n  \
             w: {{provider: alb, max_query_range: {range}, alb: {{mechanism: {mechanism}, pool: [a]}}}}\n"
        ));
        let found = alb(&compiled, "w").query_range_max;
        assert_eq!(found, expected, "{mechanism} {range}");
    }
}

#[test]
fn without_a_route_any_status_of_an_error_may_be_answered() {
    let text = |status: u16| {
        format!(
            "backends:\n  a: {{provider: rp, origin_url: 'http://a'}}\n  \
             w: {{provider: alb, alb: {{mechanism: ur, user_router: {{default_backend: a, no_route_status_code: {status}}}}}}}\n"
        )
    };
    for status in [400, 599] {
        let compiled = valid(&text(status));
        let router = alb(&compiled, "w").user_router.as_ref().unwrap();
        assert_eq!(router.no_route_status, status);
    }
    for status in [399, 600] {
        let lines = problems(&text(status));
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("from 400 to 599"), "{lines:?}");
    }
}

#[test]
fn fan_outs_keep_caps_deadline_and_concurrency() {
    for (mechanism, block, concurrency) in [
        ("fr", "", None),
        ("fgr", ", fgr: {query_concurrency_limit: 3}", Some(3)),
        (
            "nlm",
            ", nlm: {query_concurrency_limit: 3, query_concurrency_multiplier: 2}",
            Some(6),
        ),
    ] {
        let compiled = over_two(&format!(
            "{{mechanism: {mechanism}, pool: [a, b], timeout: 3s, max_capture_bytes: 10, max_fanout_capture_bytes: 30{block}}}"
        ));
        assert!(compiled.control.warnings.is_empty());
        let found = alb(&compiled, "w");
        assert_eq!(found.concurrency_max, concurrency);
        assert_eq!(found.timeout, Duration::from_secs(3));
        assert_eq!(found.fanout_bytes_max, Some(30));
        assert_eq!(compiled.plan.backends[2].capture_bytes_max, 10);
        assert_eq!(found.retry, Retry::NONE);
    }
}

#[test]
fn the_older_list_of_good_codes_counts_only_without_a_newer() {
    for (block, expected) in [
        ("", None),
        (", fgr: {status_codes: []}", None),
        (
            ", fgr: {status_codes: [204, 200, 200-201]}",
            Some(vec![200, 201, 204]),
        ),
        (", fgr_status_codes: [503]", Some(vec![503])),
        (
            ", fgr: {status_codes: []}, fgr_status_codes: [503]",
            Some(vec![503]),
        ),
        (
            ", fgr: {status_codes: [200]}, fgr_status_codes: [503]",
            Some(vec![200]),
        ),
    ] {
        let compiled = over_two(&format!("{{mechanism: fgr, pool: [a, b]{block}}}"));
        assert_eq!(alb(&compiled, "w").good_status, expected, "{block}");
    }
}

#[test]
fn a_user_router_compiles_to_routes_and_its_targets_are_its_pool() {
    let compiled = over_two(
        "{mechanism: ur, user_router: {default_backend: b, no_route_status_code: 401, users: {\
         casey: {to_backend: b}, Taylor: {to_backend: a}, none: }}}",
    );
    let found = alb(&compiled, "w");
    let router = found.user_router.as_ref().unwrap();
    assert_eq!(router.default_backend.map(|id| id.0), Some(1));
    assert_eq!(router.no_route_status, 401);
    assert_eq!(router.observer, AuthenticatorKind::Basic);
    let to = |user: &str| router.users[user].to_backend.map(|id| id.0);
    assert_eq!(
        (to("casey"), to("Taylor"), to("none")),
        (Some(1), Some(0), None)
    );
    assert_eq!(found.retry, Retry::NONE);
    let pool = &compiled.plan.pools[0];
    let members: Vec<_> = pool
        .members
        .iter()
        .map(|m| (m.backend.0, m.weight))
        .collect();
    assert_eq!(members, [(1, 1), (0, 1)]);
    assert_eq!(pool.healthy_floor, 0);
    assert!(compiled.control.warnings.is_empty());
    assert!(!compiled.control.floors[0].was_reset());
    let without = over_two("{mechanism: ur, user_router: {default_backend: b}}");
    let router = alb(&without, "w").user_router.as_ref();
    assert_eq!(router.map(|router| router.no_route_status), Some(502));
}

#[test]
fn retries_have_defaults_and_are_off_at_0_attempts() {
    let compiled = over_two("{pool: [a, b]}");
    let default = Retry {
        attempts_max: 10,
        budget_percent: 20,
        floor_per_second: 10,
        body_bytes_max: 65_536,
        try_timeout: None,
    };
    assert_eq!(alb(&compiled, "w").retry, default);
    let compiled = over_two(
        "{pool: [a, b], retry: {attempts: 1, budget_percent: 5, floor_per_second: 0, max_body_bytes: 9, try_timeout: 2s}}",
    );
    let own = Retry {
        attempts_max: 1,
        budget_percent: 5,
        floor_per_second: 0,
        body_bytes_max: 9,
        try_timeout: Some(Duration::from_secs(2)),
    };
    assert_eq!(alb(&compiled, "w").retry, own);
    let compiled = over_two("{pool: [a, b], retry: {attempts: 0}}");
    assert_eq!(alb(&compiled, "w").retry, Retry::NONE);
    let compiled =
        over_two("{mechanism: ur, user_router: {default_backend: a}, retry: {attempts: 1}}");
    assert_eq!(alb(&compiled, "w").retry.attempts_max, 1);
}

#[test]
fn pools_with_ejection_are_listed_and_no_others() {
    assert_eq!(over_two("{pool: [a, b]}").control.ejections, []);
    let off = over_two("{pool: [a, b], ejection: {consecutive_failures: 0}}");
    assert_eq!(off.control.ejections, []);
    for (block, seconds) in [("", 30), (", time: 2m", 120)] {
        let text = format!(
            "{{mechanism: nlm, pool: [a, b], ejection: {{consecutive_failures: 5{block}}}}}"
        );
        let expected = PoolEjection {
            pool: PoolId(0),
            consecutive_failures: 5,
            time: Duration::from_secs(seconds),
        };
        assert_eq!(over_two(&text).control.ejections, [expected]);
    }
}
