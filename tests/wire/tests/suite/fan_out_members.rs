//! Whom fan-outs ask: live members, each once whatever its weight, within its own time and while the budget lasts;
//! and who gets what cannot be merged. Contract: ALB page, 2.1, 4, 5, 6.5 and 7.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ringway_wire::{Origin, Ringway, Setup, eventually};
use serde_json::{Value, json};

use crate::fake_prometheus::{Server, matrix, start, vector};
use crate::fan_out::{alb, answer, silent};

const JOB: &str = r#""job":"a""#;

/// An origin as a Prometheus with these further lines.
fn prometheus(name: &str, origin: &Origin, lines: &[&str]) -> String {
    let address = origin.address();
    let mut yaml =
        format!("  {name}:\n    provider: prometheus\n    origin_url: http://{address}\n");
    for line in lines {
        yaml.push_str(&format!("    {line}\n"));
    }
    yaml
}

// === health ===

/// A member that answers probes as told, counts all else and breaks it off, so that every mechanism goes on to ask
/// the others.
struct Member {
    name: &'static str,
    asked: Arc<AtomicUsize>,
    origin: Origin,
}

impl Member {
    fn new(name: &'static str, probes: u16) -> Self {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let origin = Origin::start(move |conn| {
            while let Some(request) = conn.request() {
                if request.target.starts_with("/probe?") {
                    conn.send(answer(probes, "", ""));
                    continue;
                }
                count.fetch_add(1, Ordering::SeqCst);
                conn.reset_at_end();
                return;
            }
        });
        Self {
            name,
            asked,
            origin,
        }
    }
}

/// `a` is down, `b` and `d` are up, of `c` nothing is known. Each mechanism has a pool of all for each floor, such as
/// `nlm-strict`, in which `b` is twice and has a weight.
struct Pools {
    members: [Member; 4],
    ringway: Ringway,
}

const MECHANISMS: [&str; 4] = ["fr", "fgr", "nlm", "tsm"];

impl Pools {
    fn start() -> Self {
        const QUICK: &str = "interval: 100ms, failure_threshold: 1, recovery_threshold: 1";
        const UNDECIDED: &str = "interval: 1h, failure_threshold: 9, recovery_threshold: 9";
        let members = [("a", 500), ("b", 200), ("c", 200), ("d", 200)]
            .map(|(name, probes)| Member::new(name, probes));
        let mut yaml = "backends:\n".to_owned();
        for member in &members {
            let probes = if member.name == "c" { UNDECIDED } else { QUICK };
            let check = format!("healthcheck: {{path: /probe, {probes}}}");
            yaml.push_str(&prometheus(member.name, &member.origin, &[&check]));
        }
        for mechanism in MECHANISMS {
            for (name, floor) in [("any", -1), ("usual", 0), ("strict", 1)] {
                let lines = [
                    "pool: [a, {name: b, weight: 3}, c, d, b]",
                    &format!("healthy_floor: {floor}"),
                ];
                yaml.push_str(&alb(&format!("{mechanism}-{name}"), mechanism, &lines));
            }
        }
        let ringway = Setup::new(yaml).shards(1).start();
        Self { members, ringway }
    }

    /// Who is asked, and how often, when this is.
    fn asked(&self, target: &str) -> Vec<(&str, usize)> {
        for member in &self.members {
            member.asked.store(0, Ordering::SeqCst);
        }
        self.ringway.get(target);
        let counts = self
            .members
            .iter()
            .map(|member| (member.name, member.asked.load(Ordering::SeqCst)));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    #[track_caller]
    fn await_asked(&self, target: &str, names: &[&str]) {
        let expected: Vec<_> = names.iter().map(|name| (*name, 1)).collect();
        eventually(&format!("{target} reaches {names:?}"), || {
            (self.asked(target) == expected).then_some(())
        });
        assert_eq!(self.asked(target), expected, "{target}");
    }
}

#[test]
fn live_members_are_asked_once_each_whatever_their_weight() {
    let pools = Pools::start();
    for mechanism in MECHANISMS {
        for (name, asked) in [
            ("any", &["a", "b", "c", "d"][..]),
            ("usual", &["b", "c", "d"]),
            ("strict", &["b", "d"]),
        ] {
            let target = format!("/{mechanism}-{name}/api/v1/query?query=x&time=1");
            pools.await_asked(&target, asked);
        }
    }
    pools.ringway.stop();
}

#[test]
fn the_first_live_member_is_the_first_that_the_floor_admits() {
    let pools = Pools::start();
    for (name, first) in [("strict", "b"), ("usual", "b"), ("any", "a")] {
        pools.await_asked(&format!("/tsm-{name}/-/ready"), &[first]);
    }
    pools.ringway.stop();
}

// === what cannot be merged ===

#[test]
fn what_cannot_be_read_for_merging_goes_to_the_first_member_as_it_came() {
    let servers = [Server::saying("a", "first"), Server::saying("b", "second")];
    let ringway = start(&servers, &[]);
    let form = "application/x-www-form-urlencoded";
    for (method, target, content_type) in [
        ("POST", "/api/v1/label/job/values", form),
        ("PUT", "/api/v1/series", form),
    ] {
        let mut client = ringway.client();
        client.send(format!(
            "{method} {target} HTTP/1.1\r\nHost: a\r\nContent-Type: {content_type}\r\nContent-Length: 7\r\n\r\nquery=y"
        ));
        assert_eq!(client.answer().text(), "first", "{method} {target}");
        let seen = servers[0].origin.next_request();
        assert_eq!((&*seen.method, &*seen.target), (method, target));
        assert_eq!(seen.header("content-type"), Some(content_type));
        assert_eq!(seen.text(), "query=y");
    }
    assert!(servers[1].origin.requests().is_empty());
    ringway.stop();
}

// === each member's own ===

#[test]
fn each_member_is_asked_within_its_own_time_and_with_its_own_headers() {
    for (mechanism, status) in [("fr", None), ("fgr", Some(404)), ("nlm", Some(200))] {
        // Under `fr` an answer would end the round at once.
        let members = [
            silent(),
            status.map_or_else(silent, |status| {
                Origin::answering(move |_| answer(status, "", ""))
            }),
        ];
        let own = |name| format!("request_headers: {{X-Member: {name}}}");
        let second_time = match status {
            None => "timeout: 200ms",
            Some(_) => "timeout: 10m",
        };
        let yaml = [
            prometheus("a", &members[0], &["timeout: 200ms", &own("a")]),
            prometheus("b", &members[1], &[second_time, &own("b")]),
            alb("all", mechanism, &["pool: [a, b]", "timeout: 10m"]),
        ]
        .concat();
        let ringway = Setup::new(format!("backends:\n{yaml}    is_default: true\n")).start();
        let found = ringway.get("/").status;
        match status {
            Some(status) => assert_eq!(found, status, "{mechanism}"),
            None => assert!(found >= 502, "{mechanism}: {found}"),
        }
        for (member, name) in members.iter().zip(["a", "b"]) {
            assert_eq!(member.next_request().header("x-member"), Some(name));
        }
        members[0].next_close();
        ringway.stop();
    }
}

#[test]
fn a_merge_waits_for_each_member_as_long_as_the_members_own_timeout() {
    let slow = Server {
        name: "a",
        group: None,
        keys: vec!["timeout: 200ms".to_owned()],
        origin: silent(),
    };
    let good = Server::saying("b", vector(&[(JOB, "2")])).key("timeout: 10m");
    let servers = [slow, good];
    let ringway = start(&servers, &["timeout: 10m"]);
    let answer = ringway.get("/api/v1/query?query=x&time=1");
    assert_eq!(sum_of(&answer.text()), "2");
    let result = answer.header("x-trickster-result").unwrap_or_default();
    assert!(result.contains("phit"), "{result}");
    ringway.stop();
}

// === the budget ===

/// Three members, asked one after the other; the budget is for one answer and a half.
fn on_a_budget(mechanism: &str, status: u16, body: &str) -> (Vec<Origin>, Ringway) {
    let member = || {
        let body = body.to_owned();
        Origin::answering(move |_| answer(status, "Content-Type: application/json\r\n", &body))
    };
    let origins = vec![member(), member(), member()];
    let mut yaml = "backends:\n".to_owned();
    for (name, origin) in ["a", "b", "c"].iter().zip(&origins) {
        yaml.push_str(&prometheus(name, origin, &[]));
    }
    let lines = [
        "pool: [a, b, c]",
        &format!("max_fanout_capture_bytes: {}", body.len() * 3 / 2),
        &format!("{mechanism}: {{query_concurrency_limit: 1}}"),
    ];
    yaml.push_str(&alb("all", mechanism, &lines));
    let ringway = Setup::new(yaml + "    is_default: true\n").start();
    (origins, ringway)
}

#[test]
fn once_the_budget_is_spent_no_more_members_are_asked() {
    let body = vector(&[(JOB, "2")]);
    for (mechanism, status) in [("fgr", 404), ("nlm", 200), ("tsm", 200)] {
        let (origins, ringway) = on_a_budget(mechanism, status, &body);
        let answer = ringway.get("/api/v1/query?query=x&time=1");
        assert_eq!(answer.status, status, "{mechanism}");
        assert_eq!(sum_of(&answer.text()), "2", "{mechanism}");
        let opened: Vec<_> = origins.iter().map(Origin::opened).collect();
        assert_eq!(opened, [1, 1, 0], "{mechanism}");
        let refused = ringway.metric(
            "trickster_alb_fanout_failures_total",
            &[("mechanism", mechanism), ("reason", "aggregate_cap")],
        );
        assert_eq!(refused, Some(2.0), "{mechanism}");
        if mechanism == "tsm" {
            let result = answer.header("x-trickster-result").unwrap_or_default();
            assert!(result.contains("phit"), "{result}");
        }
        ringway.stop();
    }
}

/// The value of the only series of an answer.
#[track_caller]
fn sum_of(text: &str) -> String {
    let body: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let result = body["data"]["result"].as_array().expect("a list").clone();
    assert_eq!(result.len(), 1, "{body}");
    assert_eq!(result[0]["metric"], json!({"job": "a"}));
    let value = result[0]["value"][1].as_str();
    value.expect("a number as text").to_owned()
}

// === nesting ===

#[test]
fn nested_albs_of_one_replica_group_count_once() {
    let origin = |value| {
        let body = vector(&[(JOB, value)]);
        Origin::answering(move |_| answer(200, "Content-Type: application/json\r\n", &body))
    };
    let (one, two, other) = (origin("2"), origin("2"), origin("3"));
    for (key, sum) in [("    replica_group: g\n", "5"), ("", "7")] {
        let yaml = [
            prometheus("one", &one, &[]),
            prometheus("two", &two, &[]),
            prometheus("other", &other, &[]),
            alb("left", "rr", &["pool: [one]"]),
            key.to_owned(),
            alb("right", "rr", &["pool: [two]"]),
            key.to_owned(),
            alb("all", "tsm", &["pool: [left, right, other]"]),
        ]
        .concat();
        let ringway = Setup::new(format!("backends:\n{yaml}    is_default: true\n")).start();
        let answer = ringway.get("/api/v1/query?query=sum%20by%20(job)%20(x)&time=1");
        assert_eq!(sum_of(&answer.text()), sum);
        ringway.stop();
    }
}

#[test]
fn a_nested_merge_keeps_its_own_range_limit() {
    let origin = || {
        let body = matrix(&[(JOB, r#"[0,"1"]"#)]);
        Origin::answering(move |_| answer(200, "Content-Type: application/json\r\n", &body))
    };
    let (one, two) = (origin(), origin());
    let yaml = [
        prometheus("one", &one, &[]),
        prometheus("two", &two, &[]),
        alb("inner", "tsm", &["pool: [one]"]),
        "    max_query_range: 1h\n".to_owned(),
        alb("inner2", "tsm", &["pool: [one, two]"]),
        "    max_query_range: 1h\n".to_owned(),
        alb("only", "tsm", &["pool: [inner, inner2]"]),
        alb("both", "tsm", &["pool: [inner, two]"]),
    ]
    .concat();
    let ringway = Setup::new(format!("backends:\n{yaml}")).start();
    let ask = |alb: &str, end: u32| {
        let target = format!("/{alb}/api/v1/query_range?query=x&start=0&end={end}&step=60");
        let answer = ringway.get(&target);
        (answer.status, answer.text())
    };
    let (status, text) = ask("only", 3601);
    assert_eq!(status, 400, "{text}");
    assert!(text.contains("limit of 1h"), "{text}");
    let (status, text) = ask("both", 3601);
    let body: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((status, &body["status"]), (200, &json!("success")));
    assert!(
        body["warnings"][0].is_string(),
        "the rest is missing: {text}"
    );
    assert!(one.requests().is_empty());
    let refused = ringway.metric(
        "trickster_proxy_query_range_rejected_total",
        &[("backend", "inner")],
    );
    assert_eq!(refused, Some(2.0));
    assert_eq!(ask("only", 3600).0, 200);
    ringway.stop();
}

#[test]
fn the_deadline_of_a_fan_out_holds_for_its_one_live_member_too() {
    let slow = silent();
    for mechanism in ["fr", "fgr", "nlm", "tsm"] {
        let yaml = [
            prometheus("a", &slow, &["timeout: 10m"]),
            alb("all", mechanism, &["pool: [a, a]", "timeout: 200ms"]),
        ];
        let ringway = Setup::new(format!(
            "backends:\n{}    is_default: true\n",
            yaml.concat()
        ))
        .start();
        // A path that is not merged either.
        let answer = ringway.get("/anything");
        assert_eq!(answer.status, 504, "{mechanism}");
        ringway.stop();
    }
}

#[test]
fn labels_of_servers_below_nested_albs_are_injected() {
    let body = vector(&[(JOB, "2")]);
    let server = Origin::answering(move |request| {
        let list = r#"{"status":"success","data":["job"]}"#;
        let body = if request.target.contains("/labels") {
            list
        } else {
            &body
        };
        answer(200, "Content-Type: application/json\r\n", body)
    });
    let labelled = |name: &str| {
        let labels = format!("prometheus: {{labels: {{region: {name}}}}}");
        prometheus(name, &server, &[&labels])
    };
    let yaml = [
        labelled("eu"),
        labelled("us"),
        labelled("ap"),
        labelled("af"),
        alb("turns", "rr", &["pool: [eu]"]),
        alb("race", "fr", &["pool: [us, us]"]),
        alb("good", "fgr", &["pool: [ap, ap]"]),
        alb("inner", "tsm", &["pool: [af]"]),
        alb("all", "tsm", &["pool: [turns, race, good, inner]"]),
        "    is_default: true\n".to_owned(),
        alb("one", "tsm", &["pool: [turns]"]),
    ]
    .concat();
    let ringway = Setup::new(format!("backends:\n{yaml}")).start();
    let regions = |target: &str| {
        let answer: Value = serde_json::from_str(&ringway.get(target).text()).expect("JSON");
        let series = answer["data"]["result"].as_array().expect("a list").clone();
        let region = |series: &Value| series["metric"]["region"].as_str().map(str::to_owned);
        let mut regions: Vec<String> = series.iter().filter_map(region).collect();
        regions.sort();
        regions.join(" ")
    };
    assert_eq!(regions("/api/v1/query?query=x&time=1"), "af ap eu us");
    assert_eq!(regions("/one/api/v1/query?query=x&time=1"), "eu");
    let sum = ringway.get("/api/v1/query?query=sum(x)&time=1");
    let sum: Value = serde_json::from_str(&sum.text()).expect("JSON");
    assert_eq!(sum["data"]["result"][0]["value"][1], json!("8"));
    let names: Value = serde_json::from_str(&ringway.get("/api/v1/labels").text()).expect("JSON");
    assert_eq!(names["data"], json!(["job", "region"]));
    let told = "/api/v1/query?query=x%7Bregion%3D%22eu%22%7D&time=1";
    assert_eq!(regions(told), "eu", "the others are not asked");
    ringway.stop();
}
