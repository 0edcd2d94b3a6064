//! Path tables: who serves which path and method, answers without an origin, and rules along a chain of hops.

use ringway_wire::{Answer, Origin, Ringway, Setup, ok};
use serde_json::{Value, json};

use crate::fake_prometheus::{Server, start_with, vector};

/// An origin that answers its name.
fn named(name: &'static str) -> Origin {
    Origin::answering(move |_| ok(name))
}

/// `paths` of a backend, one entry a line.
fn paths(entries: &[&str]) -> String {
    let entries: Vec<String> = entries.iter().map(|e| format!("- {{{e}}}\n")).collect();
    format!("paths:\n{}", entries.concat())
}

fn ask(ringway: &Ringway, method: &str, path: &str) -> Answer {
    let request = format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    ringway.client().send(request).answer_to(method)
}

#[test]
fn the_best_path_decides_and_a_method_it_lacks_is_405() {
    let origin = named("origin");
    let keys = paths(&[
        "path: /, match_type: prefix, methods: ['*'], handler: localresponse, response_body: rest",
        "path: /api/, match_type: prefix, methods: [GET, POST]",
        "path: /api/health, handler: localresponse, response_body: well",
    ]);
    let ringway = Setup::web(origin.address(), &keys).start();
    let cases = [
        ("GET", "/api/health", 200, "well"),
        ("HEAD", "/api/health", 200, ""),
        ("POST", "/api/health", 405, "method is not served here\n"),
        ("GET", "/api/health/x", 200, "origin"),
        ("POST", "/api/x", 200, "origin"),
        ("DELETE", "/api/x", 405, "method is not served here\n"),
        ("GET", "/ap", 200, "rest"),
        ("PROPFIND", "/", 200, "rest"),
        ("GET", "//%61pi/health", 200, "well"),
    ];
    for (method, path, status, body) in cases {
        let answer = ask(&ringway, method, path);
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (status, body),
            "{method} {path}"
        );
    }
    let refused = ask(&ringway, "POST", "/api/health");
    assert_eq!(refused.header("allow"), Some("GET, HEAD"));
    ringway.stop();
}

#[test]
fn after_a_refused_method_the_connection_goes_on() {
    let origin = named("origin");
    let keys = paths(&["path: /only, methods: [PUT]"]);
    let ringway = Setup::web(origin.address(), &keys).start();
    let mut client = ringway.client();
    let refused = client.get("/only");
    assert_eq!(
        (refused.status, refused.header("allow")),
        (405, Some("PUT"))
    );
    client.send("POST /only HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(client.answer().status, 405);
    assert_eq!(client.get("/").text(), "origin");
    // A body that is not here is not waited for.
    client.send("POST /only HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na");
    assert_eq!(client.answer().status, 405);
    client.assert_closed();
    ringway.stop();
}

#[test]
fn trace_is_served_only_where_it_is_listed() {
    let origin = named("origin");
    let keys = paths(&["path: /t, methods: [TRACE]"]);
    let ringway = Setup::web(origin.address(), &keys).start();
    let refused = ask(&ringway, "TRACE", "/");
    assert_eq!(refused.status, 405);
    let allowed = refused.header("allow").expect("it lists the others");
    assert!(
        allowed.contains("GET") && !allowed.contains("TRACE"),
        "{allowed}"
    );
    assert_eq!(ask(&ringway, "TRACE", "/t").text(), "origin");
    assert_eq!(origin.requests().len(), 1);
    ringway.stop();
}

#[test]
fn a_local_answer_asks_no_origin_and_keeps_the_connection() {
    let origin = named("origin");
    let keys = paths(&[
        "path: /down, methods: [GET, POST], handler: localresponse, response_code: 503, \
         response_body: 'back soon', response_headers: {Retry-After: '5', Content-Type: text/html}",
        "path: /none, handler: localresponse, response_code: 204",
    ]);
    let ringway = Setup::web(origin.address(), &keys).start();
    let mut client = ringway.client();
    client.send("POST /down HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    let answer = client.answer();
    assert_eq!((answer.status, answer.text().as_str()), (503, "back soon"));
    assert_eq!(answer.header("retry-after"), Some("5"));
    assert_eq!(answer.header("content-type"), Some("text/html"));
    assert!(answer.header("date").is_some());
    let head = client
        .send("HEAD /down HTTP/1.1\r\nHost: a\r\n\r\n")
        .answer_to("HEAD");
    assert_eq!(head.header("content-length"), Some("9"));
    let empty = client.get("/none");
    assert_eq!((empty.status, empty.header("content-length")), (204, None));
    assert_eq!(client.get("/").text(), "origin");
    assert_eq!(origin.requests().len(), 1);
    ringway.stop();
}

/// Two hops: an ALB with a path table of its own before members with theirs.
fn chain(member: &Origin, alb_paths: &str, member_paths: &str) -> Ringway {
    let indented = |text: &str| {
        text.lines()
            .map(|l| format!("    {l}\n"))
            .collect::<String>()
    };
    Setup::new(format!(
        "backends:\n  one:\n    provider: reverseproxy\n    origin_url: http://{}\n    path_routing_disabled: true\n{}  \
         lb:\n    provider: alb\n    is_default: true\n    alb:\n      mechanism: rr\n      pool: [one]\n{}",
        member.address(),
        indented(member_paths),
        indented(alb_paths),
    ))
    .start()
}

#[test]
fn an_alb_may_answer_before_its_mechanism_runs() {
    let origin = named("member");
    let alb = paths(&["path: /status, handler: localresponse, response_body: alb"]);
    let member = paths(&["path: /mine, handler: localresponse, response_body: mine"]);
    let ringway = chain(&origin, &alb, &member);
    assert_eq!(ringway.get("/status").text(), "alb");
    assert_eq!(ringway.get("/mine").text(), "mine");
    assert_eq!(ringway.get("/other").text(), "member");
    // By the name of the ALB the prefix is no part of the path.
    assert_eq!(ringway.get("/lb/status").text(), "alb");
    assert_eq!(ringway.get("/lb/mine").text(), "mine");
    assert_eq!(origin.requests().len(), 1);
    ringway.stop();
}

#[test]
fn rules_change_requests_inward_and_answers_outward() {
    let origin = Origin::answering(|_| {
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Way: origin\r\n\r\nok".to_vec()
    });
    let edits = |who: &str| {
        format!(
            "request_headers: {{+X-Way: {who}, Host: '{who}.test'}}\nrequest_params: {{+way: {who}, -secret: }}\n\
             response_headers: {{+X-Way: {who}, X-Last: {who}}}\n"
        )
    };
    let ringway = chain(&origin, &edits("outer"), &edits("inner"));
    let answer = ringway.get("/a?b=%7e&secret=1&c");
    assert_eq!(answer.text(), "ok");
    let ways = ringway_wire::headers_of(&answer.head.headers, "x-way");
    assert_eq!(ways, ["origin", "inner", "outer"]);
    assert_eq!(answer.header("x-last"), Some("outer"));
    let request = origin.next_request();
    assert_eq!(request.target, "/a?b=%7e&c&way=outer&way=inner");
    assert_eq!(request.headers("x-way"), ["outer", "inner"]);
    assert_eq!(request.header("host"), Some("inner.test"));
    ringway.stop();
}

#[test]
fn requests_count_under_the_configured_path() {
    let origin = named("origin");
    let keys = paths(&[
        "path: /api, match_type: prefix",
        "path: /quiet, no_metrics: true",
    ]);
    let ringway = Setup::web(origin.address(), &keys).start();
    for path in ["/api/1", "/api/2", "/quiet", "/other"] {
        assert_eq!(ringway.get(path).status, 200);
    }
    assert_eq!(ask(&ringway, "PUT", "/api/1").status, 405);
    let count = |path: &str, status: &str| {
        let labels = [("path", path), ("http_status", status)];
        ringway.metric("trickster_frontend_requests_total", &labels)
    };
    assert_eq!(count("/api", "2xx"), Some(2.0));
    assert_eq!(count("/api", "4xx"), Some(1.0));
    assert_eq!(count("/", "2xx"), Some(1.0));
    assert_eq!(count("/quiet", "2xx"), None);
    ringway.stop();
}

fn value(answer: &Answer) -> Value {
    serde_json::from_str(&answer.text()).expect("JSON")
}

#[test]
fn members_of_a_merge_have_rules_of_their_own() {
    let saying = |name| Server::saying(name, vector(&[(r#""job":"a""#, "1")]));
    let asked = saying("asked")
        .key("request_headers: {X-Member: asked}")
        .key("request_params: {+team: red}");
    let canned = vector(&[(r#""job":"b""#, "2")]);
    let local = saying("local").key(&format!(
        "paths: [{{path: /api/v1/query, handler: localresponse, response_body: '{canned}'}}]"
    ));
    let refusing = saying("refusing").key("paths: [{path: /api/v1/query, methods: [PUT]}]");
    let servers = [asked, local, refusing];
    let ringway = start_with(
        &servers,
        &[],
        &[
            "request_params: {+tenant: t1}",
            "response_headers: {X-Out: '1'}",
        ],
    );
    let answer = ringway.get("/api/v1/query?query=up&time=1700000000");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("x-out"), Some("1"));
    let body = value(&answer);
    let jobs: Vec<&Value> = body["data"]["result"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|series| &series["metric"]["job"])
        .collect();
    assert_eq!(jobs, [&json!("a"), &json!("b")]);
    // The one without a rule for it is missing, and that is said.
    assert!(
        body["warnings"]
            .as_array()
            .is_some_and(|all| !all.is_empty()),
        "{body}"
    );
    let request = servers[0].origin.next_request();
    assert_eq!(request.header("x-member"), Some("asked"));
    assert!(
        request.target.ends_with("&tenant=t1&team=red"),
        "{}",
        request.target
    );
    assert!(servers[1].origin.requests().is_empty());
    assert!(servers[2].origin.requests().is_empty());
    ringway.stop();
}

#[test]
fn what_is_not_merged_meets_the_rules_of_the_member_that_gets_it() {
    let keys = "paths: [{path: /l, methods: [POST], handler: localresponse, response_body: mine}]";
    let servers = [
        Server::saying("one", "{}").key(keys),
        Server::saying("two", "{}"),
    ];
    let ringway = start_with(&servers, &[], &[]);
    let mut client = ringway.client();
    client.send("POST /l HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(client.answer().text(), "mine");
    // Refused with a body that is not here: the next bytes are no request.
    client.send("PUT /l HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n\r\nGET / HTTP/1.1");
    assert_eq!(client.answer().status, 405);
    client.assert_closed();
    ringway.stop();
}

#[test]
fn a_form_is_changed_like_a_query() {
    let server = Server::saying("one", vector(&[(r#""job":"a""#, "1")]));
    let other = Server::saying("two", vector(&[(r#""job":"b""#, "1")]));
    let servers = [server, other];
    let ringway = start_with(
        &servers,
        &[],
        &["request_params: {time: '1700000000', -x: }"],
    );
    let form = "query=up&x=1";
    let answer = ringway
        .client()
        .send(format!(
            "POST /api/v1/query HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\n\r\n{form}",
            form.len()
        ))
        .answer();
    assert_eq!(answer.status, 200);
    let request = servers[0].origin.next_request();
    assert_eq!(request.text(), "query=up&time=1700000000");
    ringway.stop();
}
