//! Queries of which a part is evaluated here, over fake servers: what each is asked, on which path and at which times,
//! and what is found out about the servers.

use ringway_wire::{Answer, Request, Setup, eventually};
use serde_json::{Value, json};

use crate::fake_prometheus::{Parameters, Server, encode, matrix, start, success, vector};

const BUILD: &str = "/api/v1/status/buildinfo";
const FLAGS: &str = "/api/v1/status/flags";
const CONFIG: &str = "/api/v1/status/config";

fn body(answer: &Answer) -> Value {
    let text = answer.text();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text:?}"))
}

/// What a server of this version says of itself.
fn about(version: &str, path: &str) -> Option<(u16, String)> {
    let data = match path {
        BUILD => json!({"version": version, "revision": "r"}),
        FLAGS => json!({"query.lookback-delta": "5m", "web.enable-admin-api": "false"}),
        CONFIG => json!({"yaml": "global:\n  scrape_interval: 15s\n  evaluation_interval: 15s\n"}),
        _ => return None,
    };
    Some((200, success(&data.to_string())))
}

/// A server with one value for each of these queries; anything else has no series.
fn server(name: &'static str, version: &'static str, values: &'static [(&str, &str)]) -> Server {
    Server::new(name, move |path, parameters| {
        if let Some(said) = about(version, path) {
            return said;
        }
        let query = parameters.get("query").unwrap_or_default();
        let value = values.iter().find(|(text, _)| *text == query);
        let body = match (path, value) {
            ("/api/v1/query", Some((_, value))) => {
                let time = parameters.get("time").unwrap_or("0");
                at(time, &vector(&[("", value)]))
            }
            ("/api/v1/query", None) => vector(&[]),
            (_, Some((_, value))) => {
                let points: Vec<String> = steps(parameters)
                    .map(|time| format!("[{time},\"{value}\"]"))
                    .collect();
                matrix(&[("", &points.join(","))])
            }
            (_, None) => matrix(&[]),
        };
        (200, with_stats(parameters, body))
    })
}

/// Adds what a server says of its work, if it is asked for.
fn with_stats(parameters: &Parameters, body: String) -> String {
    match parameters.get("stats") {
        Some(_) => body.replace("]}}", r#"],"stats":{"samples":{"peakSamples":3}}}}"#),
        None => body,
    }
}

/// A vector of this time, as a server writes it.
fn at(time: &str, vector: &str) -> String {
    vector.replace("[1700000000,", &format!("[{time},"))
}

/// The times of a range query.
fn steps(parameters: &Parameters) -> impl Iterator<Item = i64> + use<> {
    let seconds = |name: &str| -> i64 {
        let text = parameters.get(name).expect("a range query has it");
        text.parse::<f64>().expect("a number") as i64
    };
    let step = parameters.get("step").expect("a range query has it");
    let step: usize = step.trim_end_matches("ms").parse().expect("milliseconds");
    (seconds("start")..=seconds("end")).step_by(step / 1000)
}

const ONE: &[(&str, &str)] = &[("sum(a)", "3"), ("sum(b)", "2"), ("sum by () (a)", "3")];
const TWO: &[(&str, &str)] = &[("sum(a)", "7"), ("sum(b)", "3"), ("sum by () (a)", "7")];

fn pair() -> [Server; 2] {
    [server("one", "2.42.0", ONE), server("two", "2.42.0", TWO)]
}

fn path_of(request: &Request) -> &str {
    request.target.split('?').next().unwrap_or_default()
}

/// Requests for queries, without those about the server.
fn queries(server: &Server) -> Vec<Request> {
    let mut requests = server.origin.requests();
    requests.retain(|request| !path_of(request).contains("/status/"));
    requests
}

#[test]
fn a_ratio_of_sums_is_asked_for_in_parts_and_divided_here() {
    let servers = pair();
    let ringway = start(&servers, &[]);
    let query = encode("sum(a) / sum(b)");
    let answer = ringway.get(&format!(
        "/api/v1/query?query={query}&time=1700000000.5&timeout=5s&stats=all&limit=9&x=1"
    ));
    let expected = json!([{"metric": {}, "value": [1_700_000_000.5, "2"]}]);
    assert_eq!(
        body(&answer)["data"]["result"],
        expected,
        "{}",
        answer.text()
    );
    assert_eq!(body(&answer)["warnings"], Value::Null);
    // Two parts of two servers.
    let stats = json!({"timings": {}, "samples": {"peakSamples": 12}});
    assert_eq!(body(&answer)["data"]["stats"], stats);
    for server in &servers {
        let mut asked = Vec::new();
        for request in queries(server) {
            assert_eq!(path_of(&request), "/api/v1/query");
            let parameters = Parameters::of(&request);
            for (name, value) in [
                ("time", Some("1700000000.500")),
                ("timeout", Some("5s")),
                ("x", Some("1")),
                ("stats", Some("all")),
                ("limit", None),
            ] {
                assert_eq!(parameters.get(name), value, "{name}");
            }
            asked.push(parameters.get("query").map(str::to_owned).expect("a query"));
        }
        asked.sort();
        assert_eq!(asked, ["sum(a)", "sum(b)"]);
    }
    ringway.stop();
}

#[test]
fn a_range_query_is_asked_for_at_its_own_steps_however_it_writes_them() {
    let servers = pair();
    let ringway = start(&servers, &[]);
    let query = encode("sum(a) / sum(b)");
    let answer = ringway.get(&format!(
        "/api/v1/query_range?query={query}&start=2023-11-14T22:13:20Z&end=1700000030.0004&step=15s"
    ));
    let values: Vec<Value> = [0, 15, 30]
        .iter()
        .map(|after| json!([1_700_000_000 + after, "2"]))
        .collect();
    let expected = json!([{"metric": {}, "values": values}]);
    assert_eq!(
        body(&answer)["data"]["result"],
        expected,
        "{}",
        answer.text()
    );
    for request in queries(&servers[0]) {
        assert_eq!(path_of(&request), "/api/v1/query_range");
        let parameters = Parameters::of(&request);
        let times = ["start", "end", "step", "time"].map(|name| parameters.get(name));
        let expected = [
            Some("1700000000.000"),
            Some("1700000030.000"),
            Some("15000ms"),
            None,
        ];
        assert_eq!(times, expected);
    }
    ringway.stop();
}

#[test]
fn an_instant_query_over_a_subquery_asks_for_a_range_below_the_servers_own_path() {
    let servers = pair().map(|server| server.key("forwarded_headers: none"));
    let ringway = start(&servers, &[]);
    let query = encode("max_over_time(sum(a)[1m:15s])");
    let form = format!("query={query}&time=1700000010");
    let mut client = ringway.client();
    client.send(format!(
        "POST /api/v1/query HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: {}\r\n\r\n{form}",
        form.len()
    ));
    let answer = client.answer();
    let result = &body(&answer)["data"]["result"];
    assert_eq!(
        result[0]["value"],
        json!([1_700_000_010, "10"]),
        "{}",
        answer.text()
    );
    let asked = queries(&servers[1]);
    let ranges: Vec<&Request> = asked
        .iter()
        .filter(|request| request.target == "/api/v1/query_range")
        .collect();
    assert_eq!(ranges.len(), 1, "{asked:?}");
    assert_eq!(ranges[0].method, "POST");
    let parameters = Parameters::of(ranges[0]);
    assert_eq!(parameters.get("query"), Some("sum(a)"));
    // Multiples of the step within the minute.
    assert_eq!(parameters.get("start"), Some("1699999950.000"));
    assert_eq!(parameters.get("end"), Some("1700000010.000"));
    ringway.stop();
}

#[test]
fn rules_of_a_member_see_the_path_that_it_is_asked_on() {
    let closed = "paths: [{path: /api/v1/query_range, methods: [GET], handler: localresponse, response_code: 403}]";
    let mut servers = pair();
    servers[1].keys.push(closed.to_owned());
    let ringway = start(&servers, &[]);
    let query = encode("max_over_time(sum(a)[1m:15s])");
    let answer = ringway.get(&format!("/api/v1/query?query={query}&time=1700000010"));
    let result = &body(&answer)["data"]["result"];
    assert_eq!(result[0]["value"][1], "3", "{}", answer.text());
    assert!(
        answer.text().contains("replica group two"),
        "{}",
        answer.text()
    );
    ringway.stop();
}

#[test]
fn servers_are_asked_what_they_are_once_and_only_where_it_matters() {
    let servers = pair();
    let ringway = Setup::new(yaml(&servers, "")).shards(1).start();
    let get = |query: &str| {
        let query = encode(query);
        ringway.get(&format!("/api/v1/query?query={query}&time=1700000000"))
    };
    assert_eq!(get("sum(a)").status, 200);
    let asked = |server: &Server| {
        let mut requests = server.origin.requests();
        requests.retain(|request| path_of(request).contains("/status/"));
        let mut paths: Vec<String> = requests.iter().map(|one| path_of(one).to_owned()).collect();
        paths.sort();
        paths
    };
    assert_eq!(asked(&servers[0]), [""; 0]);
    assert_eq!(get("sum(a) / sum(b)").status, 200);
    assert_eq!(asked(&servers[0]), [BUILD, CONFIG, FLAGS]);
    assert_eq!(get("sum(b) / sum(a)").status, 200);
    assert_eq!(asked(&servers[0]), [""; 0]);
    ringway.stop();
}

#[test]
fn settings_leave_nothing_to_ask() {
    let servers = pair();
    let told = "tsm: {promql_version: 3.5, lookback_delta: 5m, evaluation_interval: 1m}";
    let ringway = start(&servers, &[told]);
    let query = encode("sum(a) / sum(b)");
    let answer = ringway.get(&format!("/api/v1/query?query={query}&time=1700000000"));
    assert_eq!(answer.status, 200);
    let requests = servers[0].origin.requests();
    assert!(
        requests
            .iter()
            .all(|request| !path_of(request).contains("/status/")),
        "{requests:?}"
    );
    ringway.stop();
}

#[test]
fn members_of_different_major_versions_are_warned_of() {
    let servers = [server("one", "2.42.0", ONE), server("two", "3.5.0", TWO)];
    let ringway = start(&servers, &[]);
    let query = encode("sum(a) / sum(b)");
    for _ in 0..2 {
        let answer = ringway.get(&format!("/api/v1/query?query={query}&time=1700000000"));
        let warnings = body(&answer)["warnings"].to_string();
        assert!(warnings.contains("Prometheus 2.42 and 3.5"), "{warnings}");
    }
    eventually("the log says it", || {
        ringway.log().contains("different PromQL").then_some(())
    });
    ringway.stop();
}

#[test]
fn servers_that_do_not_say_their_version_are_warned_of_where_ranges_are_evaluated_here() {
    let servers = ["one", "two"].map(|name| {
        Server::new(name, |path, _| match path {
            "/api/v1/query" => (200, vector(&[("", "1")])),
            "/api/v1/query_range" => (200, matrix(&[("", "[1700000000,\"1\"]")])),
            _ => (404, String::new()),
        })
    });
    let ringway = start(&servers, &[]);
    let warnings = |query: &str| {
        let query = encode(query);
        let answer = ringway.get(&format!("/api/v1/query?query={query}&time=1700000000"));
        body(&answer)["warnings"].to_string()
    };
    assert_eq!(warnings("sum(a) / sum(b)"), "null");
    let said = warnings("max_over_time(sum(a)[1m:15s])");
    assert!(said.contains("alb.tsm.promql_version"), "{said}");
    ringway.stop();
}

/// The servers behind an inner merge each, and these behind an outer one.
fn yaml(servers: &[Server], inner: &str) -> String {
    let mut yaml = "backends:\n".to_owned();
    let mut names = Vec::new();
    for server in servers {
        let (name, address) = (server.name, server.origin.address());
        yaml.push_str(&format!(
            "  {name}: {{provider: prometheus, origin_url: 'http://{address}'}}\n"
        ));
        if !inner.is_empty() {
            yaml.push_str(&format!(
                "  in-{name}: {{provider: alb, alb: {{mechanism: {inner}, pool: [{name}]}}}}\n"
            ));
        }
        names.push(if inner.is_empty() {
            name.to_owned()
        } else {
            format!("in-{name}")
        });
    }
    yaml.push_str(&format!(
        "  all: {{provider: alb, is_default: true, alb: {{mechanism: tsm, pool: [{}]}}}}\n",
        names.join(", ")
    ));
    yaml
}

#[test]
fn albs_below_are_asked_the_parts_too() {
    for inner in ["tsm", "rr", "fr"] {
        let servers = pair();
        let ringway = Setup::new(yaml(&servers, inner)).start();
        let query = encode("max_over_time(sum(a)[1m:15s]) / sum(b)");
        let answer = ringway.get(&format!("/api/v1/query?query={query}&time=1700000010"));
        let value = &body(&answer)["data"]["result"][0]["value"][1];
        assert_eq!(value, "2", "{inner}: {}", answer.text());
        assert_eq!(body(&answer)["warnings"], Value::Null, "{inner}");
        ringway.stop();
    }
}

#[test]
fn a_limit_cuts_the_answer_and_not_its_parts() {
    let many = |base: usize| {
        let labels: Vec<String> = (0..3).map(|at| format!(r#""n":"{}""#, base + at)).collect();
        let samples: Vec<(&str, &str)> = labels.iter().map(|text| (text.as_str(), "1")).collect();
        vector(&samples)
    };
    let bodies = [many(0), many(3)];
    let servers = [("one", 0), ("two", 1)].map(|(name, at)| {
        let body = bodies[at].clone();
        Server::new(name, move |path, _| {
            about("3.5.0", path).unwrap_or((200, body.clone()))
        })
    });
    let ringway = start(&servers, &[]);
    for (query, most) in [("a", 4), ("a * 2 + sort(a)", 4), ("a", 6), ("a", 0)] {
        let query = encode(query);
        let answer = ringway.get(&format!(
            "/api/v1/query?query={query}&time=1700000000&limit={most}"
        ));
        let body = body(&answer);
        let count = body["data"]["result"].as_array().map_or(0, Vec::len);
        let warnings = body["warnings"].to_string();
        let is_cut = warnings.contains("results truncated due to limit");
        assert_eq!(
            (count, is_cut),
            (if most == 4 { 4 } else { 6 }, most == 4),
            "{body}"
        );
        for request in queries(&servers[0]) {
            assert_eq!(Parameters::of(&request).get("limit"), None);
        }
    }
    ringway.stop();
}

#[test]
fn a_query_with_times_that_cannot_be_read_goes_out_as_it_came() {
    let error = r#"{"status":"error","errorType":"bad_data","error":"bad step"}"#;
    let servers = ["one", "two"].map(|name| Server::new(name, move |_, _| (400, error.into())));
    let ringway = start(&servers, &[]);
    let query = encode("sum(a) / sum(b)");
    for step in ["0", "-1", "x", "0.0001"] {
        let answer = ringway.get(&format!(
            "/api/v1/query_range?query={query}&start=0&end=60&step={step}"
        ));
        assert_eq!(
            (answer.status, &body(&answer)["error"]),
            (400, &"bad step".into())
        );
        let asked = queries(&servers[0]);
        assert_eq!(Parameters::of(&asked[0]).get("step"), Some(step));
    }
    ringway.stop();
}

#[test]
fn a_matcher_on_an_injected_label_asks_the_groups_that_have_it_and_no_other_is_missed() {
    let values = &[("sum by () (a)", "3"), ("a", "1")];
    let servers = [
        server("one", "3.5.0", values).key("prometheus: {labels: {dc: eu}}"),
        Server::new("two", |_, _| (500, "no".into())).key("prometheus: {labels: {dc: us}}"),
    ];
    let ringway = start(&servers, &["tsm: {partial_response: fail}"]);
    for (query, told) in [
        ("a{dc=\"eu\"}", "a"),
        ("sum by (dc) (a{dc=\"eu\"})", "sum by () (a)"),
    ] {
        let answer = ringway.get(&format!(
            "/api/v1/query?query={}&time=1700000000",
            encode(query)
        ));
        let result = &body(&answer)["data"]["result"];
        assert_eq!(
            result[0]["metric"]["dc"],
            "eu",
            "{query}: {}",
            answer.text()
        );
        assert_eq!(body(&answer)["warnings"], Value::Null, "{query}");
        let asked = queries(&servers[0]);
        assert_eq!(Parameters::of(&asked[0]).get("query"), Some(told));
        assert_eq!(servers[1].origin.requests().len(), 0, "{query}");
    }
    ringway.stop();
}

#[test]
fn labels_below_a_nested_merge_are_grouped_by_like_others() {
    let servers = pair();
    let mut yaml = "backends:\n".to_owned();
    for server in &servers {
        let (name, address) = (server.name, server.origin.address());
        yaml.push_str(&format!(
            "  {name}: {{provider: prometheus, origin_url: 'http://{address}', prometheus: {{labels: {{dc: {name}}}}}}}\n\
             \x20 in-{name}: {{provider: alb, alb: {{mechanism: tsm, pool: [{name}]}}}}\n"
        ));
    }
    yaml.push_str(
        "  all: {provider: alb, is_default: true, alb: {mechanism: tsm, pool: [in-one, in-two]}}\n",
    );
    let ringway = Setup::new(yaml).start();
    let query = encode("sum by (dc) (a)");
    let answer = ringway.get(&format!("/api/v1/query?query={query}&time=1700000000"));
    let result = body(&answer)["data"]["result"].clone();
    let expected = json!([
        {"metric": {"dc": "one"}, "value": [1_700_000_000, "3"]},
        {"metric": {"dc": "two"}, "value": [1_700_000_000, "7"]},
    ]);
    assert_eq!(result, expected, "{}", answer.text());
    ringway.stop();
}
