//! Changes of headers, parameters, status and body on a path.

use ringway_wire::{Answer, Framing, Origin, Request, Setup, headers_of};

/// One request through a backend with these keys, to an origin that answers this.
fn through(keys: &str, answer: &'static str, request: &str) -> (Request, Answer) {
    let origin = Origin::answering(move |_| answer.as_bytes().to_vec());
    let setup = Setup::web(origin.address(), keys).environment("TOKEN", "secret");
    let ringway = setup.start();
    let method = request.split(' ').next().unwrap_or_default().to_owned();
    let mut client = ringway.client();
    let answer = client.send(request).answer_to(&method);
    let request = origin.next_request();
    ringway.stop();
    (request, answer)
}

const PLAIN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nServer: o/1\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n\r\nok";

#[test]
fn headers_are_set_appended_and_removed_by_name_in_any_case() {
    let keys = "request_headers: {x-a: '2', +X-B: '2', -X-C: , Authorization: 'Bearer ${TOKEN}'}\n\
                response_headers: {-server: , +set-cookie: c, X-New: n}";
    let (request, answer) = through(
        keys,
        PLAIN,
        "GET / HTTP/1.1\r\nHost: a\r\nX-A: 0\r\nX-A: 1\r\nX-B: 1\r\nX-C: 1\r\nX-D: 1\r\nAuthorization: mine\r\n\r\n",
    );
    assert_eq!(request.headers("x-a"), ["2"]);
    assert_eq!(request.headers("x-b"), ["1", "2"]);
    assert_eq!(request.headers("x-c"), [""; 0]);
    assert_eq!(request.headers("x-d"), ["1"]);
    assert_eq!(request.headers("authorization"), ["Bearer secret"]);
    assert_eq!(answer.header("server"), None);
    assert_eq!(
        headers_of(&answer.head.headers, "set-cookie"),
        ["a", "b", "c"]
    );
    assert_eq!(answer.header("x-new"), Some("n"));
    assert_eq!(answer.text(), "ok");
}

#[test]
fn failures_carry_the_answer_headers_of_the_path_too() {
    let port = ringway_wire::Port::claim();
    let keys = "response_headers: {X-Frame-Options: DENY}\nforwarded_headers: none";
    let ringway = Setup::web(port.address(), keys).start();
    let answer = ringway.get("/");
    assert_eq!(answer.status, 502);
    assert_eq!(answer.header("x-frame-options"), Some("DENY"));
    assert!(answer.header("date").is_some());
    ringway.stop();
}

#[test]
fn a_status_and_a_body_of_the_path_replace_those_of_the_origin() {
    let keys = "paths: [{path: /, match_type: prefix, response_code: 418, response_body: mine}]";
    let origin = "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Encoding: gzip\r\nContent-Type: text/css\r\n\
                  Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let (_, answer) = through(keys, origin, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((answer.status, answer.text().as_str()), (418, "mine"));
    assert_eq!(answer.framing, Framing::Length);
    for name in ["etag", "content-encoding", "last-modified"] {
        assert_eq!(answer.header(name), None, "{name}");
    }
    assert_eq!(answer.header("content-type"), Some("text/css"));
    let (_, head) = through(
        keys,
        "HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n",
        "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert_eq!(
        (head.status, head.header("content-length")),
        (418, Some("4"))
    );
}

#[test]
fn the_origins_own_status_is_what_its_metrics_count() {
    let origin = Origin::answering(|_| PLAIN.as_bytes().to_vec());
    let keys = "paths: [{path: /, match_type: prefix, response_code: 418}]";
    let ringway = Setup::web(origin.address(), keys).start();
    assert_eq!(ringway.get("/").status, 418);
    let count = |name: &str, status: &str| ringway.metric(name, &[("http_status", status)]);
    assert_eq!(count("trickster_proxy_requests_total", "200"), Some(1.0));
    assert_eq!(count("trickster_frontend_requests_total", "4xx"), Some(1.0));
    ringway.stop();
}

#[test]
fn a_status_without_a_body_takes_the_origins_away() {
    let keys = "paths: [{path: /, match_type: prefix, response_code: 204}]";
    let (_, answer) = through(keys, PLAIN, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(
        (answer.status, answer.header("content-length")),
        (204, None)
    );
    assert_eq!(answer.header("server"), Some("o/1"));
}

#[test]
fn a_status_with_a_body_gives_an_answer_without_one_an_empty_one() {
    let keys = "paths: [{path: /, match_type: prefix, response_code: 200}]";
    let (_, answer) = through(
        keys,
        "HTTP/1.1 204 No Content\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert_eq!(
        (answer.status, answer.header("content-length")),
        (200, Some("0"))
    );
}

#[test]
fn after_a_replaced_body_both_connections_go_on() {
    let origin = Origin::answering(|_| PLAIN.as_bytes().to_vec());
    let keys = "paths: [{path: /, match_type: prefix, response_body: mine}]";
    let ringway = Setup::web(origin.address(), keys).shards(1).start();
    let mut client = ringway.client();
    for _ in 0..3 {
        assert_eq!(client.get("/").text(), "mine");
    }
    assert_eq!(origin.opened(), 1);
    ringway.stop();
}

#[test]
fn an_origins_long_body_is_not_waited_for_when_another_is_sent() {
    let origin = Origin::start(|conn| {
        while conn.request().is_some() {
            // It never ends.
            conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nbegin");
        }
    });
    let keys = "paths: [{path: /, match_type: prefix, response_body: mine}]";
    let ringway = Setup::web(origin.address(), keys).start();
    let mut client = ringway.client();
    assert_eq!(client.get("/").text(), "mine");
    assert_eq!(client.get("/").text(), "mine");
    assert_eq!(origin.opened(), 2);
    ringway.stop();
}

#[test]
fn what_was_not_to_be_changed_is_kept_byte_for_byte() {
    let keys = "request_params: {b: 'x y', -d: }";
    let (request, _) = through(
        keys,
        PLAIN,
        "GET /p?a=%7E+%7e&b=1&&b=2&%64=3&e HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert_eq!(request.target, "/p?a=%7E+%7e&&e&b=x+y");
    let (request, _) = through(
        "request_params: {-a: }",
        PLAIN,
        "GET /p?a=1 HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert_eq!(request.target, "/p");
}
