//! What is refused at the client's side, and how: 400 and a close for every malformed request, and not
//! one byte of what follows it reaches an origin.

use ringway_wire::{Client, Origin, Ringway, Setup, eventually, ok};

/// What an attacker hopes will be taken for a second request.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: test\r\n\r\n";

fn ready() -> (Origin, Ringway) {
    let origin = Origin::answering(|request| ok(&request.target));
    let ringway = Setup::web(origin.address(), "").start();
    (origin, ringway)
}

/// Sends `bytes` and what may be smuggled behind, checks the status and the close.
#[track_caller]
fn refused(ringway: &Ringway, statuses: &[u16], name: &str, bytes: &[u8]) {
    let mut client = ringway.client();
    let mut sent = bytes.to_vec();
    sent.extend_from_slice(SMUGGLED.as_bytes());
    // The refusal may come before the last byte is sent.
    drop(client.try_send(&sent));
    let answer = client
        .try_answer_to("POST")
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(
        statuses.contains(&answer.status),
        "{name}: {} instead of {statuses:?}",
        answer.status
    );
    assert_eq!(answer.header("connection"), Some("close"), "{name}");
    let rest = client
        .try_rest()
        .unwrap_or_else(|error| panic!("{name}: not closed, {error}"));
    assert!(
        rest.is_empty(),
        "{name}: answered twice: {:?}",
        String::from_utf8_lossy(&rest)
    );
}

/// Refuses every row, then checks that the origin saw none of it and good requests still pass.
#[track_caller]
fn all_refused(statuses: &[u16], rows: &[(&str, &[u8])]) {
    let (origin, ringway) = ready();
    for (name, bytes) in rows {
        refused(&ringway, statuses, name, bytes);
    }
    assert_eq!(ringway.get("/good").text(), "/good");
    let seen: Vec<_> = origin
        .requests()
        .iter()
        .map(|request| request.target.clone())
        .collect();
    assert_eq!(seen, ["/good"]);
    ringway.stop();
}

#[test]
fn a_malformed_request_line_is_refused_with_400_and_close() {
    all_refused(
        &[400],
        &[
            ("no target", b"GET HTTP/1.1\r\nHost: a\r\n\r\n"),
            ("no version", b"GET /\r\nHost: a\r\n\r\n"),
            ("two blanks", b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n"),
            ("blank at the end", b"GET / HTTP/1.1 \r\nHost: a\r\n\r\n"),
            ("tab for a blank", b"GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"),
            (
                "blank in the target",
                b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            ("blank in front", b" GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
            ("method with a colon", b"G:T / HTTP/1.1\r\nHost: a\r\n\r\n"),
            ("relative target", b"GET a HTTP/1.1\r\nHost: a\r\n\r\n"),
            ("asterisk for GET", b"GET * HTTP/1.1\r\nHost: a\r\n\r\n"),
            ("fragment", b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n"),
            (
                "NUL in the target",
                b"GET /a\0b HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            (
                "DEL in the target",
                b"GET /a\x7fb HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            (
                "bare CR in the target",
                b"GET /a\rb HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            ("other protocol", b"GET / HTTQ/1.1\r\nHost: a\r\n\r\n"),
            ("lower-case protocol", b"GET / http/1.1\r\nHost: a\r\n\r\n"),
            (
                "version with two digits",
                b"GET / HTTP/1.10\r\nHost: a\r\n\r\n",
            ),
            (
                "a TLS hello",
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
            ),
            (
                "bare LF behind the line",
                b"GET / HTTP/1.1\nHost: a\r\n\r\n",
            ),
        ],
    );
}

#[test]
fn a_malformed_header_line_is_refused_with_400_and_close() {
    all_refused(
        &[400],
        &[
            (
                "bare LF behind a header",
                b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
            ),
            (
                "bare LF as the empty line",
                b"GET / HTTP/1.1\r\nHost: a\r\n\n",
            ),
            ("only bare LF", b"GET / HTTP/1.1\nHost: a\n\n"),
            (
                "bare CR in a value",
                b"GET / HTTP/1.1\r\nHost: a\r\nX: b\rc\r\n\r\n",
            ),
            (
                "bare CR behind a header",
                b"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
            ),
            (
                "obs-fold with a blank",
                b"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n",
            ),
            (
                "obs-fold with a tab",
                b"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n\tc\r\n\r\n",
            ),
            (
                "blank in front of the first header",
                b"GET / HTTP/1.1\r\n Host: a\r\n\r\n",
            ),
            (
                "NUL in a value",
                b"GET / HTTP/1.1\r\nHost: a\r\nX: b\0c\r\n\r\n",
            ),
            (
                "NUL in a name",
                b"GET / HTTP/1.1\r\nHost: a\r\nX\0Y: b\r\n\r\n",
            ),
            (
                "control character in a value",
                b"GET / HTTP/1.1\r\nHost: a\r\nX: b\x01c\r\n\r\n",
            ),
            (
                "space before the colon",
                b"GET / HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n",
            ),
            (
                "tab before the colon",
                b"GET / HTTP/1.1\r\nHost: a\r\nX\t: b\r\n\r\n",
            ),
            ("no colon", b"GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n"),
            ("no name", b"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n"),
            (
                "bracket in a name",
                b"GET / HTTP/1.1\r\nHost: a\r\nX(y): b\r\n\r\n",
            ),
            (
                "name beyond ASCII",
                b"GET / HTTP/1.1\r\nHost: a\r\nX\xc3\xa9: b\r\n\r\n",
            ),
        ],
    );
}

#[test]
fn a_request_without_exactly_one_valid_host_is_refused_with_400_and_close() {
    all_refused(
        &[400],
        &[
            ("no Host", b"GET / HTTP/1.1\r\nX: a\r\n\r\n"),
            ("two Hosts", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
            (
                "the same Host twice",
                b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            ),
            ("blank in Host", b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
            ("path in Host", b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
            ("user in Host", b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"),
        ],
    );
}

#[test]
fn conflicting_and_malformed_lengths_are_refused_with_400_and_close() {
    all_refused(
        &[400],
        &[
            (
                "length and chunked (CL.TE)",
                b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            ),
            (
                "chunked and length (TE.CL)",
                b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n8\r\nSMUGGLED\r\n0\r\n\r\n",
            ),
            (
                "two lengths",
                b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            ),
            (
                "the same length twice",
                b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
            ),
            ("a list of lengths", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\na"),
            ("signed length", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\na"),
            ("negative length", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\na"),
            ("hexadecimal length", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\na"),
            ("length with a letter", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1a\r\n\r\na"),
            ("length with a blank", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1 1\r\n\r\na"),
            ("empty length", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n"),
            (
                "length beyond 64 bits",
                b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551617\r\n\r\na",
            ),
        ],
    );
}

#[test]
fn conflicting_and_malformed_transfer_codings_are_refused_with_close() {
    let chunked = "\r\n\r\n0\r\n\r\n";
    let rows = [
        (
            "chunked twice in one line",
            "Transfer-Encoding: chunked, chunked",
            &[400_u16][..],
        ),
        (
            "chunked in two lines",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            &[400],
        ),
        (
            "chunked not last",
            "Transfer-Encoding: chunked, gzip",
            &[400, 501],
        ),
        (
            "chunked hidden in two lines",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: x",
            &[400, 501],
        ),
        ("identity", "Transfer-Encoding: identity", &[400, 501]),
        ("gzip alone", "Transfer-Encoding: gzip", &[400, 501]),
        (
            "gzip below chunked",
            "Transfer-Encoding: gzip, chunked",
            &[501],
        ),
        ("unknown coding", "Transfer-Encoding: xchunked", &[400, 501]),
        (
            "vertical tab",
            "Transfer-Encoding: \x0bchunked",
            &[400, 501],
        ),
        ("quoted", "Transfer-Encoding: \"chunked\"", &[400, 501]),
        (
            "with a parameter",
            "Transfer-Encoding: chunked;q=1",
            &[400, 501],
        ),
        ("empty", "Transfer-Encoding:", &[400, 501]),
    ];
    let (origin, ringway) = ready();
    for (name, header, statuses) in rows {
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\n{header}{chunked}");
        refused(&ringway, statuses, name, request.as_bytes());
    }
    let old = format!("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked{chunked}");
    refused(&ringway, &[400], "chunked from HTTP/1.0", old.as_bytes());
    assert!(origin.requests().is_empty());
    ringway.stop();
}

#[test]
fn a_malformed_chunk_is_refused_with_400_and_close_and_the_origin_never_sees_a_whole_body() {
    let long = format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(64 * 1024));
    let trailers = format!("0\r\n{}\r\n", "T: v\r\n".repeat(20_000));
    let rows: &[(&str, &[u8], &[u16])] = &[
        ("letter for a size", b"g\r\na\r\n0\r\n\r\n", &[400]),
        ("no size", b"\r\na\r\n0\r\n\r\n", &[400]),
        ("only an extension", b";a=b\r\na\r\n0\r\n\r\n", &[400]),
        ("negative size", b"-1\r\na\r\n0\r\n\r\n", &[400]),
        ("signed size", b"+1\r\na\r\n0\r\n\r\n", &[400]),
        ("prefixed size", b"0x1\r\na\r\n0\r\n\r\n", &[400]),
        ("blank before the size", b" 1\r\na\r\n0\r\n\r\n", &[400]),
        ("blank behind the size", b"1 \r\na\r\n0\r\n\r\n", &[400]),
        ("underscore in the size", b"1_0\r\na\r\n0\r\n\r\n", &[400]),
        (
            "size beyond 64 bits",
            b"10000000000000001\r\na\r\n0\r\n\r\n",
            &[400],
        ),
        (
            "a control byte in an extension",
            b"1;a\x01\r\na\r\n0\r\n\r\n",
            &[400],
        ),
        ("bare LF behind the size", b"1\na\r\n0\r\n\r\n", &[400]),
        ("bare LF behind the data", b"1\r\na\n0\r\n\r\n", &[400]),
        ("bare CR behind the size", b"1\ra\r\n0\r\n\r\n", &[400]),
        ("data longer than its size", b"1\r\nab\r\n0\r\n\r\n", &[400]),
        ("data shorter than its size", b"3\r\na\r\n0\r\n\r\n", &[400]),
        (
            "bare LF in an extension",
            b"1;a\nb\r\na\r\n0\r\n\r\n",
            &[400],
        ),
        ("NUL in an extension", b"1;a\0b\r\na\r\n0\r\n\r\n", &[400]),
        ("endless extension", long.as_bytes(), &[400]),
        ("bare LF in the trailers", b"0\r\nT: v\n\r\n", &[400]),
        (
            "space before a trailer's colon",
            b"0\r\nT : v\r\n\r\n",
            &[400],
        ),
        (
            "obs-fold in the trailers",
            b"0\r\nT: v\r\n w\r\n\r\n",
            &[400],
        ),
        ("NUL in a trailer", b"0\r\nT: v\0\r\n\r\n", &[400]),
        ("endless trailers", trailers.as_bytes(), &[400, 431]),
    ];
    let (origin, ringway) = ready();
    for (name, body, statuses) in rows {
        let mut request =
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        request.extend_from_slice(body);
        refused(&ringway, statuses, name, &request);
    }
    assert_eq!(ringway.get("/good").text(), "/good");
    let seen: Vec<_> = origin
        .requests()
        .iter()
        .map(|request| request.target.clone())
        .collect();
    assert_eq!(
        seen,
        ["/good"],
        "a body that was refused arrived as a whole"
    );
    ringway.stop();
}

#[test]
fn a_head_beyond_its_bounds_is_refused_with_414_or_431_and_close() {
    let long_target = format!(
        "GET /{} HTTP/1.1\r\nHost: a\r\n\r\n",
        "a".repeat(256 * 1024)
    );
    let long_value = format!(
        "GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n",
        "a".repeat(256 * 1024)
    );
    let long_name = format!(
        "GET / HTTP/1.1\r\nHost: a\r\n{}: a\r\n\r\n",
        "a".repeat(256 * 1024)
    );
    let many = format!(
        "GET / HTTP/1.1\r\nHost: a\r\n{}\r\n",
        "X: a\r\n".repeat(5_000)
    );
    let (origin, ringway) = ready();
    refused(&ringway, &[414], "long target", long_target.as_bytes());
    refused(&ringway, &[431], "long value", long_value.as_bytes());
    refused(&ringway, &[431], "long name", long_name.as_bytes());
    refused(&ringway, &[431], "many headers", many.as_bytes());
    assert!(origin.requests().is_empty());
    ringway.stop();
}

#[test]
fn an_unsupported_version_is_refused_with_505_and_close() {
    all_refused(
        &[505],
        &[
            ("2.0", b"GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
            ("3.0", b"GET / HTTP/3.0\r\nHost: a\r\n\r\n"),
            ("0.9", b"GET / HTTP/0.9\r\nHost: a\r\n\r\n"),
        ],
    );
}

#[test]
fn a_tunnel_request_is_refused_where_no_forward_proxy_is_configured() {
    let (origin, ringway) = ready();
    let mut client = ringway.client();
    client.send("CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n");
    let answer = client.answer();
    assert!((400..=501).contains(&answer.status), "{}", answer.status);
    assert!(origin.requests().is_empty());
    ringway.stop();
}

#[test]
fn one_empty_line_before_a_request_is_ignored() {
    let (_origin, ringway) = ready();
    let mut client = ringway.client();
    assert_eq!(
        client
            .send("\r\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n")
            .answer()
            .text(),
        "/a"
    );
    assert_eq!(
        client
            .send("\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n")
            .answer()
            .text(),
        "/b"
    );
    ringway.stop();
}

#[test]
fn an_absolute_target_is_taken_as_its_path() {
    let (_origin, ringway) = ready();
    let mut client = ringway.client();
    client.send("GET http://test/a?b=c HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(client.answer().text(), "/a?b=c");
    ringway.stop();
}

#[test]
fn path_and_query_reach_the_origin_byte_for_byte() {
    let (_origin, ringway) = ready();
    let target = "/a%2Fb/../c//d;e=f?g=%20h+i&j=[k]&l={m}|n";
    assert_eq!(ringway.get(target).text(), target);
    ringway.stop();
}

#[test]
fn a_backend_is_reached_by_its_name_and_the_name_is_cut() {
    let (origin, ringway) = ready();
    assert_eq!(ringway.get("/web/a/b?c=d").text(), "/a/b?c=d");
    assert_eq!(ringway.get("/web/").text(), "/");
    assert_eq!(origin.requests().len(), 2);
    ringway.stop();
}

#[test]
fn an_unknown_path_without_a_default_backend_is_answered_404() {
    let origin = Origin::answering(|request| ok(&request.target));
    let address = origin.address();
    let backend = |name: &str| {
        format!("  {name}:\n    provider: reverseproxy\n    origin_url: http://{address}\n")
    };
    let ringway = Setup::new(format!("backends:\n{}{}", backend("one"), backend("two"))).start();
    let mut client = ringway.client();
    assert_eq!(client.get("/none/a").status, 404);
    assert_eq!(
        client.get("/two/a").text(),
        "/a",
        "the connection stays usable"
    );
    assert_eq!(origin.requests().len(), 1);
    ringway.stop();
}

#[test]
fn a_host_name_chooses_its_backend() {
    let one = Origin::answering(|_| ok("one"));
    let two = Origin::answering(|_| ok("two"));
    let ringway = Setup::new(format!(
        "backends:\n  one:\n    provider: reverseproxy\n    origin_url: http://{}\n    is_default: true\n  \
         two:\n    provider: reverseproxy\n    origin_url: http://{}\n    hosts: [two.test]\n",
        one.address(),
        two.address()
    ))
    .start();
    let mut client = ringway.client();
    for (host, body) in [
        ("two.test", "two"),
        ("TWO.test:8480", "two"),
        ("two.test.", "two"),
        ("two.test.:8480", "two"),
        ("other.test", "one"),
    ] {
        client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(client.answer().text(), body, "{host}");
    }
    ringway.stop();
}

#[test]
fn keep_alive_is_the_default_and_close_is_honoured() {
    let (_origin, ringway) = ready();
    let mut client = ringway.client();
    for path in ["/a", "/b", "/c"] {
        let answer = client.get(path);
        assert_eq!(answer.text(), path);
        assert_eq!(answer.header("connection"), None);
    }
    client.send("GET /d HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let last = client.answer();
    assert_eq!(
        (last.text().as_str(), last.header("connection")),
        ("/d", Some("close"))
    );
    client.assert_closed();
    ringway.stop();
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let (origin, ringway) = ready();
    let mut client = ringway.client();
    let mut sent = String::new();
    for number in 0..50 {
        sent.push_str(&format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n"));
        sent.push_str(&format!(
            "POST /p{number} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nGET"
        ));
        sent.push_str(&format!(
            "PUT /c{number} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        ));
        sent.push_str("1\r\nx\r\n0\r\n\r\n");
    }
    client.send(&sent);
    for number in 0..50 {
        assert_eq!(client.answer().text(), format!("/{number}"));
        assert_eq!(client.answer().text(), format!("/p{number}"));
        assert_eq!(client.answer().text(), format!("/c{number}"));
    }
    assert_eq!(origin.requests().len(), 150);
    ringway.stop();
}

#[test]
fn a_refused_pipelined_request_still_lets_those_before_it_be_answered() {
    let (origin, ringway) = ready();
    let mut client = ringway.client();
    client.send(format!(
        "GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\n\r\n{SMUGGLED}"
    ));
    assert_eq!(client.answer().text(), "/a");
    assert_eq!(client.answer().status, 400);
    client.assert_closed();
    assert_eq!(origin.requests().len(), 1);
    ringway.stop();
}

#[test]
fn a_request_that_arrives_byte_by_byte_is_understood() {
    let (_origin, ringway) = ready();
    let mut client = ringway.client();
    let request = b"POST /slow HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: v\r\n\r\n";
    for byte in request {
        client.send([*byte]);
    }
    assert_eq!(client.answer().text(), "/slow");
    ringway.stop();
}

#[test]
fn http_1_0_closes_unless_keep_alive_is_asked_for() {
    let (_origin, ringway) = ready();
    let mut client = ringway.client();
    client.send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let answer = client.answer();
    assert_eq!(answer.text(), "/a");
    let connection = answer
        .header("connection")
        .unwrap_or_default()
        .to_ascii_lowercase();
    assert_eq!(connection, "keep-alive");
    client.send("GET /b HTTP/1.0\r\n\r\n");
    assert_eq!(client.answer().text(), "/b");
    client.assert_closed();
    ringway.stop();
}

#[test]
fn many_idle_connections_are_kept_and_all_still_served() {
    let (_origin, ringway) = ready();
    let mut clients: Vec<Client> = (0..200).map(|_| ringway.client()).collect();
    for round in 0..2 {
        for client in &mut clients {
            assert_eq!(client.get(&format!("/{round}")).text(), format!("/{round}"));
        }
    }
    drop(clients);
    eventually("the connections are let go", || {
        let open = ringway.metric("trickster_proxy_active_connections", &[])?;
        (open <= 1.0).then_some(())
    });
    ringway.stop();
}
