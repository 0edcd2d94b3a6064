//! Mechanism `tsm` on paths that are no series: rules, alerts, targets, metadata and the like, `/federate`,
//! and parameters that cut answers short.

use ringway_wire::{Answer, Origin, Setup};
use serde_json::{Value, json};

use crate::fake_prometheus::{Parameters, Server, start, success, vector};

#[track_caller]
fn body(answer: &Answer) -> Value {
    let text = answer.text();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text:?}"))
}

fn result(answer: &Answer) -> &str {
    answer.header("x-trickster-result").unwrap_or_default()
}

fn media_type(answer: &Answer) -> &str {
    answer.header("content-type").unwrap_or_default()
}

/// A path, what two servers say, and what is made of it.
const JOINED: [(&str, [&str; 2], &str); 9] = [
    (
        "/api/v1/alerts",
        [
            r#"{"alerts":[{"labels":{"a":"x"},"state":"pending"}]}"#,
            r#"{"alerts":[{"labels":{"a":"x"},"state":"firing"},{"labels":{"a":"b"},"state":"pending"}]}"#,
        ],
        r#"{"alerts":[{"labels":{"a":"b"},"state":"pending"},{"labels":{"a":"x"},"state":"firing"}]}"#,
    ),
    (
        "/api/v1/rules",
        [
            r#"{"groups":[{"name":"g","file":"f","rules":[{"name":"r","health":"ok"}]}]}"#,
            r#"{"groups":[{"name":"g","file":"f","rules":[{"name":"s"},{"name":"r","health":"err"}]}]}"#,
        ],
        r#"{"groups":[{"name":"g","file":"f","rules":[{"name":"r","health":"err"},{"name":"s"}]}]}"#,
    ),
    (
        "/api/v1/targets?state=active",
        [
            r#"{"activeTargets":[{"labels":{"i":"1"},"scrapePool":"b"}],"droppedTargets":[],"droppedTargetCounts":{"b":1}}"#,
            r#"{"activeTargets":[{"labels":{"i":"2"},"scrapePool":"a"}],"droppedTargets":[],"droppedTargetCounts":{"b":2}}"#,
        ],
        r#"{"activeTargets":[{"labels":{"i":"2"},"scrapePool":"a"},{"labels":{"i":"1"},"scrapePool":"b"}],"droppedTargets":[],"droppedTargetCounts":{"b":3}}"#,
    ),
    (
        "/api/v1/targets/metadata",
        [
            r#"[{"target":{"i":"1"},"metric":"m","type":"gauge","help":"","unit":""}]"#,
            r#"[{"target":{"i":"1"},"metric":"m","type":"gauge","help":"","unit":""}]"#,
        ],
        r#"[{"target":{"i":"1"},"metric":"m","type":"gauge","help":"","unit":""}]"#,
    ),
    (
        "/api/v1/metadata?limit=2&limit_per_metric=1",
        [
            r#"{"c":[{"type":"gauge","help":"x","unit":""}]}"#,
            r#"{"a":[],"c":[{"type":"gauge","help":"y","unit":""}],"d":[]}"#,
        ],
        r#"{"a":[],"c":[{"type":"gauge","help":"x","unit":""}]}"#,
    ),
    (
        "/api/v1/query_exemplars?query=m&start=1&end=2",
        [
            r#"[{"seriesLabels":{"a":"1"},"exemplars":[{"labels":{},"value":"1","timestamp":2}]}]"#,
            r#"[{"seriesLabels":{"a":"1"},"exemplars":[{"labels":{},"value":"1","timestamp":1}]}]"#,
        ],
        r#"[{"seriesLabels":{"a":"1"},"exemplars":[{"labels":{},"value":"1","timestamp":1},{"labels":{},"value":"1","timestamp":2}]}]"#,
    ),
    (
        "/api/v1/scrape_pools",
        [r#"{"scrapePools":["b"]}"#, r#"{"scrapePools":["a","b"]}"#],
        r#"{"scrapePools":["a","b"]}"#,
    ),
    (
        "/api/v1/alertmanagers",
        [
            r#"{"activeAlertmanagers":[{"url":"x"}],"droppedAlertmanagers":[]}"#,
            r#"{"activeAlertmanagers":[{"url":"x"}],"droppedAlertmanagers":[{"url":"y"}]}"#,
        ],
        r#"{"activeAlertmanagers":[{"url":"x"}],"droppedAlertmanagers":[{"url":"y"}]}"#,
    ),
    (
        "/api/v1/status/buildinfo",
        [r#"{"version":"3.5.0"}"#, r#"{"version":"3.6.1"}"#],
        r#"{"version":"3.5.0"}"#,
    ),
];

#[test]
fn documents_of_all_groups_become_one() {
    for (target, [one, two], expected) in JOINED {
        let servers = [
            Server::saying("a", success(one)),
            Server::saying_gzip("b", &success(two)),
        ];
        let ringway = start(&servers, &[]);
        let answer = ringway.get(target);
        assert_eq!(
            (answer.status, answer.text()),
            (200, success(expected)),
            "{target}"
        );
        assert!(
            media_type(&answer).starts_with("application/json"),
            "{target}"
        );
        assert!(!result(&answer).contains("phit"), "{target}");
        // Members see the parameters as they came.
        for server in &servers {
            assert_eq!(server.origin.next_request().target, target);
        }
        ringway.stop();
    }
}

#[test]
fn statistics_are_summed_and_say_what_they_are() {
    let says = |series: u32| {
        success(&format!(
            r#"{{"headStats":{{"numSeries":{series}}},"seriesCountByMetricName":[{{"name":"m","value":{series}}}]}}"#
        ))
    };
    let servers = [Server::saying("a", says(1)), Server::saying("b", says(2))];
    let ringway = start(&servers, &[]);
    let answer = body(&ringway.get("/api/v1/status/tsdb?limit=1"));
    assert_eq!(answer["data"]["headStats"], json!({"numSeries": 3}));
    let rows = json!([{"name": "m", "value": 3}]);
    assert_eq!(answer["data"]["seriesCountByMetricName"], rows);
    assert_eq!(answer["warnings"].as_array().map(Vec::len), Some(2));
    ringway.stop();
}

#[test]
fn the_first_usable_replica_speaks_and_a_missing_group_is_told() {
    let pools = |name: &str| success(&format!(r#"{{"scrapePools":["{name}"]}}"#));
    let broken = |name| Server::new(name, |_, _| (200, "{\"status\":".to_owned()));
    let servers = [
        broken("a1").group("a"),
        Server::saying("a2", pools("second")).group("a"),
        Server::saying("a3", pools("third")).group("a"),
        Server::saying("b", pools("other")),
    ];
    let ringway = start(&servers, &[]);
    let answer = ringway.get("/api/v1/scrape_pools");
    assert_eq!(
        answer.text(),
        success(r#"{"scrapePools":["other","second"]}"#)
    );
    assert!(!result(&answer).contains("phit"));
    ringway.stop();

    let servers = [Server::saying("a", pools("x")), broken("b")];
    let ringway = start(&servers, &[]);
    let answer = ringway.get("/api/v1/scrape_pools");
    assert_eq!(
        (
            answer.status,
            body(&answer)["warnings"].as_array().map(Vec::len)
        ),
        (200, Some(1))
    );
    assert!(result(&answer).contains("phit"), "{}", result(&answer));
    ringway.stop();

    let refusal = r#"{"status":"error","errorType":"bad_data","error":"no"}"#;
    let servers = [
        Server::new("a", |_, _| (400, refusal.to_owned())),
        broken("b"),
    ];
    let ringway = start(&servers, &[]);
    let answer = ringway.get("/api/v1/rules?type=x");
    assert_eq!((answer.status, answer.text()), (400, refusal.to_owned()));
    ringway.stop();
}

#[test]
fn exemplars_may_be_asked_for_by_form_and_others_not() {
    let says = |name| {
        Server::new(name, |path, parameters: &Parameters| {
            let asked = parameters.get("query").unwrap_or_default();
            assert_eq!((path, asked), ("/api/v1/query_exemplars", "m"));
            let series = format!(r#"[{{"seriesLabels":{{"q":"{asked}"}},"exemplars":[]}}]"#);
            (200, success(&series))
        })
    };
    let servers = [says("a"), says("b")];
    let ringway = start(&servers, &[]);
    let form =
        "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 7\r\n\r\nquery=m";
    let head = "HTTP/1.1\r\nHost: a\r\n";
    let request = format!("POST /api/v1/query_exemplars {head}{form}");
    let answer = ringway.client().send(&request).answer();
    assert_eq!(body(&answer)["data"].as_array().map(Vec::len), Some(1));
    for server in &servers {
        let request = server.origin.next_request();
        assert_eq!(
            (request.method.as_str(), request.body.as_slice()),
            ("POST", &b"query=m"[..])
        );
    }
    ringway.stop();

    let servers = [Server::saying("a", "one"), Server::saying("b", "two")];
    let ringway = start(&servers, &[]);
    let answer = ringway
        .client()
        .send(format!("POST /api/v1/rules {head}{form}"))
        .answer();
    assert_eq!(answer.text(), "one");
    ringway.stop();
}

#[test]
fn expositions_become_one_text() {
    let servers = [
        Server::saying("a", "# TYPE up untyped\nup{job=\"b\",instance=\"\"} 1 5\n")
            .key("prometheus: {labels: {region: eu}}"),
        Server::saying_gzip(
            "b",
            "# TYPE a untyped\na 2 5\n# TYPE up untyped\nup{job=\"a\"} 0 5\n",
        ),
    ];
    let ringway = start(&servers, &[]);
    let wish = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
    let target = "/federate?match[]=up&match[]=a";
    let ask = |accept: &str| {
        let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n");
        ringway.client().send(&head).answer()
    };
    let answer = ask(wish);
    // Sorted by labels: an empty one is none.
    let sorted = "# TYPE a untyped\na 2 5\n# TYPE up untyped\nup{job=\"a\"} 0 5\n\
                  up{instance=\"\",job=\"b\",region=\"eu\"} 1 5\n";
    assert_eq!(answer.text(), sorted);
    assert_eq!(
        media_type(&answer),
        "text/plain; version=0.0.4; charset=utf-8"
    );
    for server in &servers {
        let request = server.origin.next_request();
        assert_eq!(request.headers("accept"), ["text/plain;version=0.0.4"]);
        assert_eq!(Parameters::of(&request).all("match[]"), ["up", "a"]);
    }
    let answer = ask("text/plain;version=1.0.0;escaping=allow-utf-8;q=0.7,*/*;q=0.1");
    assert!(
        media_type(&answer).contains("escaping=allow-utf-8"),
        "{}",
        media_type(&answer)
    );
    let accept = servers[0].origin.next_request().headers("accept").join(",");
    assert!(accept.contains("escaping=allow-utf-8"), "{accept}");
    ringway.stop();
}

#[test]
fn a_partial_exposition_is_marked_and_a_refused_one_is_text() {
    let servers = [
        Server::saying("a", "up 1\n"),
        Server::new("b", |_, _| (503, "gone\n".to_owned())),
    ];
    let ringway = start(&servers, &[]);
    let answer = ringway.get("/federate?match[]=up");
    assert_eq!((answer.status, answer.text()), (200, "up 1\n".to_owned()));
    assert!(result(&answer).contains("phit"), "{}", result(&answer));
    ringway.stop();

    let refusing = |name| Server::new(name, |_, _| (400, "bad matcher\n".to_owned()));
    let servers = [refusing("a"), refusing("b")];
    let ringway = start(&servers, &[]);
    let answer = ringway.get("/federate?match[]=x(");
    assert_eq!(
        (answer.status, answer.text()),
        (400, "bad matcher\n".to_owned())
    );
    assert!(
        media_type(&answer).starts_with("text/plain"),
        "{}",
        media_type(&answer)
    );
    ringway.stop();
}

#[test]
fn a_limit_is_heeded_after_merging() {
    let series = |name| {
        Server::new(name, move |path: &str, parameters: &Parameters| {
            let limit = parameters.get("limit");
            if path.ends_with("/labels") {
                assert_eq!(limit, Some("2"), "fewer names suffice");
                return (200, success(&format!(r#"["{name}","z"]"#)));
            }
            // Cut by each member, sums would be of a part of the series.
            assert_eq!(limit, None);
            (200, vector(&[(r#""job":"x""#, "1"), (r#""job":"y""#, "2")]))
        })
    };
    let servers = [series("a"), series("b")];
    let ringway = start(&servers, &[]);
    let warnings = json!(["results truncated due to limit"]);
    let answer = body(&ringway.get("/api/v1/labels?limit=2"));
    assert_eq!(
        (&answer["data"], &answer["warnings"]),
        (&json!(["a", "b"]), &warnings)
    );
    let answer = body(&ringway.get("/api/v1/query?query=sum+by+(job)(x)&time=5&limit=1"));
    let expected = json!([{"metric": {"job": "x"}, "value": [1_700_000_000, "2"]}]);
    assert_eq!(
        (&answer["data"]["result"], &answer["warnings"]),
        (&expected, &warnings)
    );
    let answer = body(&ringway.get("/api/v1/query?query=sum+by+(job)(x)&time=5&limit=2"));
    assert_eq!(answer["warnings"], Value::Null);
    ringway.stop();
}

#[test]
fn pages_of_rules_are_cut_here() {
    let rules = |names: [&str; 2]| {
        let groups = names.map(|name| format!(r#"{{"name":"{name}","file":"f","rules":[]}}"#));
        success(&format!(r#"{{"groups":[{}]}}"#, groups.join(",")))
    };
    let server = |name, names| {
        Server::new(name, move |_, parameters: &Parameters| {
            assert_eq!(parameters.get("group_limit"), None);
            assert_eq!(parameters.get("group_next_token"), None);
            (200, rules(names))
        })
    };
    let servers = [server("a", ["r1", "r3"]), server("b", ["r2", "r3"])];
    let ringway = start(&servers, &[]);
    let names = |page: &Value| -> Vec<String> {
        let groups = page["data"]["groups"].as_array().expect("a list");
        let name = |group: &Value| group["name"].as_str().expect("a text").to_owned();
        groups.iter().map(name).collect()
    };
    let page = body(&ringway.get("/api/v1/rules?group_limit=2"));
    assert_eq!(names(&page), ["r1", "r2"]);
    let token = page["data"]["groupNextToken"]
        .as_str()
        .expect("there is more");
    let target = format!("/api/v1/rules?group_limit=2&group_next_token={token}");
    let page = body(&ringway.get(&target));
    assert_eq!(
        (names(&page), &page["data"]["groupNextToken"]),
        (vec!["r3".to_owned()], &Value::Null)
    );
    ringway.stop();
}

#[test]
fn what_is_one_servers_own_says_so_and_what_any_may_say_does_not() {
    let data = success(r#"{"x":"y"}"#);
    let servers = [
        Server::saying("a", data.clone()),
        Server::saying("b", data.clone()),
    ];
    let ringway = start(&servers, &[]);
    for path in ["status/runtimeinfo", "status/flags", "status/config"] {
        let answer = body(&ringway.get(&format!("/api/v1/{path}")));
        let warning = answer["warnings"][0].as_str().unwrap_or_default();
        assert!(warning.contains("replica group a only"), "{path}: {answer}");
    }
    for path in ["format_query?query=x", "parse_query?query=x"] {
        assert_eq!(
            ringway.get(&format!("/api/v1/{path}")).text(),
            data,
            "{path}"
        );
    }
    ringway.stop();
}

#[test]
fn documents_come_through_merges_below_merges() {
    let server = |pool: &'static str| {
        Origin::answering(move |request| {
            let body = match request.target.starts_with("/federate") {
                true => format!("up{{pool=\"{pool}\"}} 1\n"),
                false => success(&format!(r#"{{"scrapePools":["{pool}"]}}"#)),
            };
            let length = body.len();
            format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
        })
    };
    let origins = [server("x"), server("y"), server("z")];
    let mut yaml = "backends:\n".to_owned();
    for (name, origin) in ["a", "b", "c"].iter().zip(&origins) {
        yaml.push_str(&format!(
            "  {name}: {{provider: prometheus, origin_url: 'http://{}', prometheus: {{labels: {{own: {name}}}}}}}\n",
            origin.address()
        ));
    }
    yaml.push_str(
        "  inner: {provider: alb, alb: {mechanism: tsm, pool: [a, b]}}\n  \
         all: {provider: alb, is_default: true, alb: {mechanism: tsm, pool: [inner, c]}}\n",
    );
    let ringway = Setup::new(yaml).start();
    let pools = ringway.get("/api/v1/scrape_pools").text();
    assert_eq!(pools, success(r#"{"scrapePools":["x","y","z"]}"#));
    let text = ringway.get("/federate?match[]=up").text();
    let line = |own: &str, pool: &str| format!("up{{own=\"{own}\",pool=\"{pool}\"}} 1\n");
    assert_eq!(
        text,
        [line("a", "x"), line("b", "y"), line("c", "z")].concat()
    );
    ringway.stop();
}
