//! `ringway explain`, and the parameter `explain` of a query: how it is answered, with and without doing it.

use ringway_wire::{Answer, Setup, run};
use serde_json::Value;

use crate::fake_prometheus::{Server, encode, start, success, vector};

fn body(answer: &Answer) -> Value {
    let text = answer.text();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text:?}"))
}

/// What a server says at this time.
fn answer(time: &str) -> String {
    vector(&[("", "2")]).replace("[1700000000,", &format!("[{time},"))
}

fn servers() -> [Server; 2] {
    ["one", "two"].map(|name| {
        Server::new(name, |path, parameters| match path {
            "/api/v1/query" => (200, answer(parameters.get("time").unwrap_or_default())),
            "/api/v1/status/buildinfo" => (200, success(r#"{"version":"2.53.1"}"#)),
            _ => (404, String::new()),
        })
    })
}

const CONFIG: &str = "\
backends:
  one: {provider: prometheus, origin_url: 'http://one.example.com', replica_group: east}
  too: {provider: prometheus, origin_url: 'http://too.example.com', replica_group: east}
  two: {provider: prometheus, origin_url: 'http://two.example.com', replica_group: west}
  web: {provider: reverseproxy, origin_url: 'http://web.example.com'}
  all: {provider: alb, alb: {mechanism: tsm, pool: [one, too, two], tsm: {promql_version: 2.42}}}
";

/// Runs `ringway explain` on the configuration.
fn explain(yaml: &str, arguments: &[&str]) -> ringway_wire::Finished {
    let setup = Setup::new("");
    let file = setup.folder().join("explained.yaml");
    std::fs::write(&file, yaml).expect("the folder is ours");
    let mut line = vec!["explain", "--config", file.to_str().expect("a plain path")];
    line.extend(arguments);
    run(&line)
}

#[test]
fn the_command_says_what_each_group_is_asked_and_what_is_evaluated_here() {
    let said = explain(CONFIG, &["--time", "1700000000", "sum(a) / sum(b)"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    for line in [
        "backend all, PromQL 2.42 (as configured)",
        "group east: one, too",
        "group west: two",
        "exact: yes",
        "sum(a)",
        "sum(b)",
        "merge: sum",
        "evaluated here",
    ] {
        assert!(said.out.contains(line), "{line} in {}", said.out);
    }
}

#[test]
fn the_command_says_it_as_json_too() {
    let arguments = [
        "--backend",
        "all",
        "--json",
        "--start",
        "0",
        "--end",
        "60",
        "--step",
        "15s",
    ];
    let said = explain(CONFIG, &[&arguments[..], &["max(a)"]].concat());
    assert_eq!(said.code, Some(0), "{}", said.err);
    let json: Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(
        (&json["backend"], &json["plan"]["exact"]),
        (&"all".into(), &true.into())
    );
    assert_eq!(
        json["groups"][0]["members"],
        serde_json::json!(["one", "too"])
    );
    assert_eq!(json["plan"]["subqueries"][0]["merge"], "max");
}

#[test]
fn what_cannot_be_explained_is_said_why() {
    let two = CONFIG.replace(
        "  web:",
        "  also: {provider: alb, alb: {mechanism: tsm, pool: [one]}}\n  web:",
    );
    for (yaml, arguments, code, message) in [
        (
            CONFIG,
            &["--backend", "web", "a"][..],
            2,
            "backend web merges nothing: ALBs of mechanism tsm are all",
        ),
        (
            CONFIG,
            &["--backend", "al", "a"],
            2,
            "no backend is called \"al\"",
        ),
        (
            two.as_str(),
            &["a"],
            2,
            "--backend is needed: ALBs of mechanism tsm are also, all",
        ),
        (
            CONFIG,
            &["--time", "noon", "a"],
            2,
            "the times cannot be read",
        ),
        (CONFIG, &[], 2, "a query is needed"),
        ("backends: {}\n", &["a"], 1, "backend"),
    ] {
        let said = explain(yaml, arguments);
        assert_eq!(said.code, Some(code), "{message}: {}", said.err);
        assert!(said.err.contains(message), "{message} in {}", said.err);
    }
}

#[test]
fn a_query_to_explain_asks_nobody() {
    let servers = servers();
    let ringway = start(&servers, &[]);
    let query = encode("sum(a) / sum(b)");
    let plan = ringway.get(&format!("/api/v1/query?query={query}&explain=1"));
    let content_type = plan.header("content-type").unwrap_or_default();
    assert_eq!(
        (plan.status, content_type),
        (200, "text/plain; charset=utf-8")
    );
    assert_eq!(plan.header("x-ringway-explain"), Some("plan"));
    let text = plan.text();
    assert!(text.contains("backend all, PromQL 3.5 (assumed)"), "{text}");
    assert!(text.contains("group two: two"), "{text}");
    let json = body(&ringway.get(&format!("/api/v1/query?query={query}&explain=json")));
    assert_eq!(json["plan"]["exact"], true);
    for server in &servers {
        assert_eq!(server.origin.requests().len(), 0);
    }
    let answer = body(&ringway.get(&format!("/api/v1/query?query={query}&explain=0")));
    assert_eq!(answer["data"]["result"][0]["value"][1], "1");
    ringway.stop();
}

#[test]
fn a_query_that_is_carried_out_says_what_each_request_cost() {
    let servers = servers();
    let ringway = start(&servers, &[]);
    let query = encode("sum(a) / sum(b)");
    let target = format!("/api/v1/query?query={query}&time=1700000000.25&explain=run-json");
    let json = body(&ringway.get(&target));
    assert_eq!(json["promql_version"], "2.53");
    let run = &json["run"];
    let sums = ["status", "series", "samples"].map(|name| run[name].as_u64());
    assert_eq!(sums, [Some(200), Some(4), Some(4)], "{run}");
    let requests = run["requests"].as_array().expect("a list");
    assert_eq!(requests.len(), 4);
    let length = answer("1700000000.250").len() as u64;
    for request in requests {
        let counts = ["series", "samples", "bytes"].map(|name| request[name].as_u64());
        assert_eq!(counts, [Some(1), Some(1), Some(length)], "{request}");
        assert!(request["ms"].as_f64() > Some(0.0), "{request}");
    }
    assert_eq!(run["bytes"].as_u64(), Some(4 * length));

    let url = format!("http://{}", ringway.address());
    let said = run_there(&["--run", "--url", &url, "sum(a) / sum(b)"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    for line in [
        "carried out: status 200",
        "one of one: 1 series, 1 samples",
        "read 4 series",
    ] {
        assert!(said.out.contains(line), "{line} in {}", said.out);
    }
    ringway.stop();
}

fn run_there(arguments: &[&str]) -> ringway_wire::Finished {
    run(&[&["explain"][..], arguments].concat())
}

#[test]
fn a_url_that_explains_nothing_is_an_error() {
    let web = ringway_wire::Origin::answering(|_| ringway_wire::ok("{}"));
    let url = format!("http://{}", web.address());
    let said = run_there(&["--run", "--url", &url, "a"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("does not explain"), "{}", said.err);
    let said = run_there(&["--run", "--url", "https://a", "a"]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("--url http://HOST:PORT"), "{}", said.err);
}
