//! The health page, as text and JSON.

use super::*;
use crate::control::fixture::Builder;
use crate::control::members::Members;
use crate::control::state::{Event, ProbeId, Probed};
use crate::health::{Outcome, Thresholds};
use std::collections::HashMap;
use std::time::{Duration, UNIX_EPOCH};

fn at(second: u64) -> SystemTime {
    // 2020-01-01 00:00:00 UTC
    UNIX_EPOCH + Duration::from_secs(1_577_836_800 + second)
}

/// One backend of each kind: up, down, waiting for a verdict, not probed, and two ALBs.
fn state() -> State {
    let plan = Builder::default()
        .origin("prom-01", "127.0.0.1")
        .origin("flux-01", "127.0.0.1")
        .origin("fresh-01", "127.0.0.1")
        .origin("proxy-01", "127.0.0.1")
        .alb(
            "lb",
            0,
            &[
                ("prom-01", 1),
                ("flux-01", 1),
                ("proxy-01", 1),
                ("prom-01", 1),
                ("fresh-01", 1),
            ],
        )
        .alb("dead", 1, &[("flux-01", 1)])
        .plan(1);
    let probes = ["prom-01", "flux-01", "fresh-01"].map(|name| {
        let probed = Probed {
            probe: ProbeId(1),
            thresholds: Thresholds {
                failure: 1,
                recovery: 1,
            },
        };
        (name.into(), probed)
    });
    let mut state = State::new(at(0));
    state.apply(Event::Adopted {
        plan,
        probes: probes.into(),
        ejection: Vec::new(),
        standings: HashMap::new(),
        at: at(0),
    });
    for (name, outcome) in [
        ("prom-01", Outcome::Passed),
        (
            "flux-01",
            Outcome::Failed("error probing target: dial tcp: refused".into()),
        ),
    ] {
        state.apply(Event::Probed {
            backend: name.into(),
            probe: ProbeId(1),
            outcome,
            began: std::time::Instant::now(),
            at: at(7),
        });
    }
    state
}

#[test]
fn the_text_page_is_as_in_the_contract() {
    let expected = "\
Trickster Backend Health Status            last change: 2020-01-01 00:00:07 UTC
-------------------------------------------------------------------------------

flux-01      proxy        unavailable since 2020-01-01 00:00:07 UTC
dead         alb (rr)     unavailable u:[flux-01]

prom-01      proxy        available
lb           alb (rr)     available u:[flux-01] a:[prom-01] i:[fresh-01] nc:[proxy-01]

fresh-01     proxy        initializing

proxy-01     proxy        not configured for automated health checks

-------------------------------------------------------------------------------
You can also provide a 'Accept: application/json' Header or query param ?json
";
    assert_eq!(
        Page::of(&state(), &Members::default()).write(Format::Text),
        expected
    );
}

#[test]
fn the_json_page_is_as_in_the_contract() {
    let page: Value =
        serde_json::from_str(&Page::of(&state(), &Members::default()).write(Format::Json)).unwrap();
    let expected = json!({
        "title": "Trickster Backend Health Status",
        "updateTime": "2020-01-01 00:00:07 UTC",
        "unavailable": [
            {
                "name": "flux-01",
                "provider": "proxy",
                "downSince": "2020-01-01 00:00:07 UTC",
                "detail": "error probing target: dial tcp: refused",
            },
            {
                "name": "dead",
                "provider": "alb",
                "mechanism": "rr",
                "unavailablePoolMembers": ["flux-01"],
            },
        ],
        "available": [
            {"name": "prom-01", "provider": "proxy"},
            {
                "name": "lb",
                "provider": "alb",
                "mechanism": "rr",
                "availablePoolMembers": ["prom-01"],
                "unavailablePoolMembers": ["flux-01"],
                "uncheckedPoolMembers": ["proxy-01"],
                "initializingPoolMembers": ["fresh-01"],
            },
        ],
        "initializing": [{"name": "fresh-01", "provider": "proxy"}],
        "unchecked": [{"name": "proxy-01", "provider": "proxy"}],
    });
    assert_eq!(page, expected);
}

#[test]
fn empty_lists_are_left_out() {
    let mut state = State::new(at(0));
    let plan = Builder::default().origin("only", "127.0.0.1").plan(1);
    state.apply(Event::Adopted {
        plan,
        probes: [].into(),
        ejection: Vec::new(),
        standings: HashMap::new(),
        at: at(0),
    });
    let page: Value =
        serde_json::from_str(&Page::of(&state, &Members::default()).write(Format::Json)).unwrap();
    let keys: Vec<&String> = page.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["title", "updateTime", "unchecked"]);
}

/// As [`state`], and `lb` leaves `prom-01` out.
fn state_with_ejection() -> State {
    let mut state = state();
    let plan = state.plan().unwrap().clone();
    let thresholds = Thresholds {
        failure: 1,
        recovery: 1,
    };
    let probes = ["prom-01", "flux-01", "fresh-01"].map(|name| {
        let probe = ProbeId(1);
        (name.into(), Probed { probe, thresholds })
    });
    let rule = crate::control::ejection::Rule {
        consecutive_failures: 1,
        time: Duration::from_secs(10),
    };
    state.apply(Event::Adopted {
        plan,
        probes: probes.into(),
        ejection: vec![(ringway_shards::plan::PoolId(0), rule)],
        standings: HashMap::new(),
        at: at(8),
    });
    state.apply(Event::Unreached {
        backend: "prom-01".into(),
        answered: false,
        failures: 1,
        now: std::time::Instant::now(),
        at: at(9),
    });
    state
}

#[test]
fn ejected_members_are_shown_with_their_pool() {
    let page = Page::of(&state_with_ejection(), &Members::default());
    let text = page.write(Format::Text);
    let row = "available u:[flux-01] e:[prom-01] i:[fresh-01] nc:[proxy-01]\n";
    assert!(text.contains(row), "{text}");
    assert!(
        text.contains("last change: 2020-01-01 00:00:09 UTC"),
        "{text}"
    );
    let json: Value = serde_json::from_str(&page.write(Format::Json)).unwrap();
    assert_eq!(
        json["available"][1]["ejectedPoolMembers"],
        json!(["prom-01"])
    );
    assert!(json["available"][1]["availablePoolMembers"].is_null());
    let html = page.write(Format::Html);
    assert!(html.contains("ejected: prom-01"), "{html}");
}

#[test]
fn the_web_page_has_every_row_without_a_script() {
    let html = Page::of(&state(), &Members::default()).write(Format::Html);
    let row = "<tr role=\"row\" data-name=\"flux-01\" class=\"unavailable\"><th role=\"rowheader\" \
               scope=\"row\">flux-01</th><td role=\"cell\" data-label=\"Provider\">proxy</td>\
               <td role=\"cell\" data-label=\"State\"><span class=\"state\">unavailable</span></td>\
               <td role=\"cell\" data-label=\"Details\">since 2020-01-01 00:00:07 UTC; \
               error probing target: dial tcp: refused</td></tr>";
    assert!(html.contains(row), "{html}");
    for part in [
        "<title>2 unavailable, 2 available, 1 initializing, 1 unchecked \u{2013} Trickster",
        ">alb (rr)<",
        "unavailable: flux-01; available: prom-01; initializing: fresh-01; unchecked: proxy-01<",
        "not configured for automated health checks<",
        "<html lang=\"en\">",
        "<caption>",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
}

#[test]
fn names_cannot_become_markup_of_the_web_page() {
    let mut state = State::new(at(0));
    let plan = Builder::default().origin("<script>&", "127.0.0.1").plan(1);
    state.apply(Event::Adopted {
        plan,
        probes: [].into(),
        ejection: Vec::new(),
        standings: HashMap::new(),
        at: at(0),
    });
    let html = Page::of(&state, &Members::default()).write(Format::Html);
    assert!(html.contains("data-name=\"&lt;script&gt;&amp;\""), "{html}");
    assert_eq!(html.matches("<script>").count(), 1, "only the page's own");
}

#[test]
fn the_yaml_page_says_the_same() {
    let text = Page::of(&state(), &Members::default()).write(Format::Yaml);
    assert!(
        text.starts_with("title: \"Trickster Backend Health Status\"\n"),
        "{text}"
    );
    assert!(
        text.contains("unavailable:\n- name: \"flux-01\"\n  provider: \"proxy\"\n"),
        "{text}"
    );
    assert!(
        text.contains("  availablePoolMembers: [\"prom-01\"]\n"),
        "{text}"
    );
}

#[test]
fn long_names_widen_their_column() {
    let mut state = State::new(at(0));
    let plan = Builder::default()
        .origin("a-backend-with-a-long-name", "127.0.0.1")
        .plan(1);
    state.apply(Event::Adopted {
        plan,
        probes: [].into(),
        ejection: Vec::new(),
        standings: HashMap::new(),
        at: at(0),
    });
    let text = Page::of(&state, &Members::default()).write(Format::Text);
    assert!(
        text.contains("\na-backend-with-a-long-name   proxy        not conf"),
        "{text}"
    );
}
