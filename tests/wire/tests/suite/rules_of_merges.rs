//! Rewriters and rules around mechanism `tsm`: before it, on its members, and as its members.

use ringway_wire::{Ringway, Setup};
use serde_json::Value;

use crate::fake_prometheus::{Parameters, Server, encode, success, vector};

/// A server that answers a vector of one sample, with its name in label `from`, and 2.42 to the question what it is.
fn server(name: &'static str) -> Server {
    Server::new(name, move |path, _| {
        let body = match path.ends_with("/status/buildinfo") {
            true => success(r#"{"version":"2.42.0"}"#),
            false => vector(&[(&format!(r#""from":"{name}""#), "1")]),
        };
        (200, body)
    })
}

/// Ringway with `sections` and backends `a` and `b` with these further keys; the other `backends` follow.
fn start(
    sections: &str,
    (a, a_keys): (&Server, &str),
    (b, b_keys): (&Server, &str),
    backends: &str,
) -> Ringway {
    let backend = |server: &Server, keys: &str| {
        format!(
            "  {0}: {{provider: prometheus, origin_url: 'http://{1}', replica_group: {0}, {keys}}}\n",
            server.name,
            server.origin.address()
        )
    };
    let yaml = format!(
        "{sections}backends:\n{}{}{backends}",
        backend(a, a_keys),
        backend(b, b_keys)
    );
    Setup::new(yaml).start()
}

/// Values of label `from` in an answer to an instant query, sorted.
#[track_caller]
fn sources(text: &str) -> Vec<String> {
    let body: Value = serde_json::from_str(text).expect("JSON");
    let result = body["data"]["result"].as_array();
    let from = |sample: &Value| sample["metric"]["from"].as_str().map(str::to_owned);
    let mut found: Vec<String> = result
        .unwrap_or_else(|| panic!("no result in {text}"))
        .iter()
        .filter_map(from)
        .collect();
    found.sort();
    found
}

const TENANTS: &str = "request_rewriters:\n  \
    first: {instructions: [[header, set, X-Scope-OrgID, first], [param, set, dedup, '0']]}\n  \
    second: {instructions: [[header, set, X-Scope-OrgID, second], [path, replace, /api/, /select/7/api/]]}\n";

#[test]
fn every_question_to_a_member_passes_its_rewriter() {
    let (a, b) = (server("a"), server("b"));
    let ringway = start(
        TENANTS,
        (&a, "req_rewriter_name: first"),
        (&b, "req_rewriter_name: second"),
        "  all: {provider: alb, is_default: true, alb: {mechanism: tsm, pool: [a, b]}}\n",
    );
    // Passed whole; in parts, which also asks what the servers are; and with a form.
    let whole = ringway.get("/api/v1/query?time=1700000000&query=up");
    assert_eq!(sources(&whole.text()), ["a", "b"]);
    let query = encode("up * on (from) group_left () down");
    let parts = ringway.get(&format!("/api/v1/query?time=1700000000&query={query}"));
    assert_eq!(parts.status, 200, "{}", parts.text());
    let form = "time=1700000000&query=up";
    let kind = "Content-Type: application/x-www-form-urlencoded";
    let request = format!(
        "POST /api/v1/query HTTP/1.1\r\nHost: a.test\r\n{kind}\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    );
    let answer = ringway.client().send(request).answer();
    assert_eq!(sources(&answer.text()), ["a", "b"]);
    let (asked_a, asked_b) = (a.origin.requests(), b.origin.requests());
    assert!(
        asked_a.len() > 3 && asked_b.len() > 3,
        "{asked_a:?} {asked_b:?}"
    );
    for request in &asked_a {
        assert_eq!(
            request.header("x-scope-orgid"),
            Some("first"),
            "{request:?}"
        );
        assert_eq!(
            Parameters::of(request).get("dedup"),
            Some("0"),
            "{request:?}"
        );
        assert!(request.target.starts_with("/api/v1/"), "{request:?}");
    }
    for request in &asked_b {
        assert_eq!(
            request.header("x-scope-orgid"),
            Some("second"),
            "{request:?}"
        );
        assert_eq!(Parameters::of(request).get("dedup"), None, "{request:?}");
        assert!(
            request.target.starts_with("/select/7/api/v1/"),
            "{request:?}"
        );
    }
}

#[test]
fn what_a_rule_makes_of_a_query_is_what_is_planned() {
    let (a, b) = (server("a"), server("b"));
    let ringway = start(
        "request_rewriters:\n  per-group: {instructions: [[param, set, query, 'sum by (from) (up)']]}\n\
         rules:\n  r: {input_source: header, input_key: X-Sum, operation: eq, next_route: all, \
         cases: [{matches: ['yes'], req_rewriter_name: per-group, next_route: all}]}\n",
        (&a, ""),
        (&b, ""),
        "  all: {provider: alb, alb: {mechanism: tsm, pool: [a, b]}}\n  \
         start: {provider: rule, rule_name: r, is_default: true}\n",
    );
    let target = "/api/v1/query?time=1700000000&query=up";
    for (header, expected) in [("", "up"), ("X-Sum: yes\r\n", "sum by (from) (up)")] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{header}\r\n");
        let answer = ringway.client().send(request).answer();
        assert_eq!(sources(&answer.text()), ["a", "b"]);
        for server in [&a, &b] {
            let asked = Parameters::of(&server.origin.next_request());
            let query: String = asked
                .get("query")
                .unwrap_or_default()
                .split_whitespace()
                .collect();
            let expected: String = expected.split_whitespace().collect();
            assert_eq!(query, expected);
        }
    }
}

#[test]
fn a_rule_may_be_a_member() {
    let (a, b) = (server("a"), server("b"));
    let ringway = start(
        "request_rewriters:\n  mark: {instructions: [[header, set, X-Scope-OrgID, ruled]]}\n\
         rules:\n  r: {input_source: path, operation: prefix, next_route: b, egress_req_rewriter_name: mark}\n",
        (&a, ""),
        (&b, ""),
        "  ruled: {provider: rule, rule_name: r}\n  \
         all: {provider: alb, is_default: true, alb: {mechanism: tsm, pool: [a, ruled]}}\n",
    );
    let answer = ringway.get("/api/v1/query?time=1700000000&query=up");
    assert_eq!(sources(&answer.text()), ["a", "b"]);
    assert_eq!(a.origin.next_request().header("x-scope-orgid"), None);
    assert_eq!(
        b.origin.next_request().header("x-scope-orgid"),
        Some("ruled")
    );
}

#[test]
fn a_captured_text_names_the_hosts_of_all_members() {
    let (a, b) = (server("a"), server("b"));
    let ringway = start(
        "request_rewriters:\n  there: {instructions: [[hostname, set, '${1}.localhost']]}\n\
         rules:\n  r: {input_source: header, input_key: X-Tenant, operation: rmatch, operation_arg: '^([a-z]{3})$', \
         next_route: all, cases: [{matches: ['true'], req_rewriter_name: there, next_route: all}]}\n",
        (&a, ""),
        (&b, ""),
        "  all: {provider: alb, alb: {mechanism: tsm, pool: [a, b]}}\n  \
         start: {provider: rule, rule_name: r, is_default: true}\n",
    );
    let target = "/api/v1/query?time=1700000000&query=up";
    let request = format!("GET {target} HTTP/1.1\r\nHost: a.test\r\nX-Tenant: abc\r\n\r\n");
    let answer = ringway.client().send(request).answer();
    assert_eq!(sources(&answer.text()), ["a", "b"]);
    for server in [&a, &b] {
        let host = format!("abc.localhost:{}", server.origin.address().port());
        let asked = server.origin.next_request();
        assert_eq!(asked.header("host"), Some(&*host));
    }
}
