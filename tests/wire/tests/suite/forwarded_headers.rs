//! Headers on their way: hop-by-hop ones end here, the rest passes unchanged, and those that tell who
//! asked are added.

use ringway_wire::{Answer, Origin, Request, Setup, headers_of, ok};

fn ask(keys: &str, headers: &str) -> (Request, Answer) {
    let origin = Origin::answering(|_| {
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n\
          Keep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nX-End: 2\r\n\r\n"
            .to_vec()
    });
    let section = "main:\n  server_name: front.example\n";
    let ringway = Setup::web(origin.address(), keys).section(section).start();
    let mut client = ringway.client();
    let answer = client
        .send(format!(
            "GET / HTTP/1.1\r\nHost: asked.test:8480\r\n{headers}\r\n"
        ))
        .answer();
    let request = origin.next_request();
    ringway.stop();
    (request, answer)
}

#[test]
fn hop_by_hop_headers_end_here() {
    let (request, answer) = ask(
        "",
        "Connection: keep-alive, X-Hop, x-other\r\nX-Hop: 1\r\nX-Other: 1\r\nKeep-Alive: 5\r\n\
         Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic eDp5\r\nTE: trailers, deflate\r\n\
         Upgrade: h2c\r\nX-End: 2\r\nX-End: 3\r\n",
    );
    for name in [
        "X-Hop",
        "X-Other",
        "Keep-Alive",
        "Proxy-Connection",
        "Proxy-Authorization",
        "Upgrade",
    ] {
        assert_eq!(request.headers(name), [""; 0], "{name}");
    }
    assert_eq!(request.headers("X-End"), ["2", "3"]);
    for name in ["X-Hop", "Keep-Alive", "Proxy-Authenticate"] {
        assert_eq!(answer.header(name), None, "{name}");
    }
    assert_eq!(answer.header("X-End"), Some("2"));
}

#[test]
fn naming_a_needed_header_in_connection_does_not_remove_it() {
    let origin = Origin::answering(|request| ok(&request.body));
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nConnection: Content-Length, Host, Via, Forwarded\r\nContent-Length: 3\r\n\r\nabc");
    let status = client.answer().status;
    assert!(matches!(status, 200 | 400), "{status}");
    for request in origin.requests() {
        assert_eq!(request.text(), "abc");
        assert_eq!(request.headers("host").len(), 1);
        assert_eq!(request.headers("via").len(), 1);
        assert_eq!(request.headers("forwarded").len(), 1);
    }
    ringway.stop();
}

#[test]
fn forwarded_is_the_standard_and_the_default() {
    let (request, _) = ask("", "");
    let forwarded = request.header("forwarded").expect("it is there");
    assert!(forwarded.contains("for=127.0.0.1"), "{forwarded}");
    assert!(forwarded.contains("by=front.example"), "{forwarded}");
    assert!(forwarded.contains("proto=http"), "{forwarded}");
    assert!(
        forwarded.contains("host=\"asked.test:8480\""),
        "{forwarded}"
    );
    assert_eq!(request.headers("x-forwarded-for"), [""; 0]);
    assert_eq!(request.headers("via"), ["1.1 front.example"]);
}

#[test]
fn earlier_hops_are_kept_in_front() {
    let earlier = "Forwarded: for=192.0.2.1\r\nVia: 1.0 first\r\n";
    let (request, _) = ask("forwarded_headers: standard", earlier);
    let forwarded = request.headers("forwarded").join(", ");
    let (first, second) = forwarded.split_once(',').expect("two hops");
    assert!(first.contains("for=192.0.2.1"), "{forwarded}");
    assert!(second.contains("for=127.0.0.1"), "{forwarded}");
    assert_eq!(
        request.headers("via").join(", "),
        "1.0 first, 1.1 front.example"
    );

    let (request, _) = ask("forwarded_headers: x", "X-Forwarded-For: 192.0.2.1\r\n");
    assert_eq!(
        request.headers("x-forwarded-for").join(", "),
        "192.0.2.1, 127.0.0.1"
    );
}

#[test]
fn forwarded_headers_are_chosen_per_backend_and_via_is_always_there() {
    for (choice, standard, x) in [
        ("standard", true, false),
        ("x", false, true),
        ("both", true, true),
        ("none", false, false),
    ] {
        let (request, _) = ask(&format!("forwarded_headers: {choice}"), "");
        assert_eq!(request.header("forwarded").is_some(), standard, "{choice}");
        assert_eq!(request.header("x-forwarded-for").is_some(), x, "{choice}");
        assert_eq!(request.header("via"), Some("1.1 front.example"), "{choice}");
        if x {
            assert_eq!(request.header("x-forwarded-for"), Some("127.0.0.1"));
            assert_eq!(request.header("x-forwarded-proto"), Some("http"));
            assert_eq!(request.header("x-forwarded-host"), Some("asked.test:8480"));
        }
    }
}

#[test]
fn the_result_header_tells_how_the_answer_was_made() {
    let (_, answer) = ask("", "");
    assert_eq!(
        answer.header("x-trickster-result"),
        Some("engine=HTTPProxy; status=proxy-only")
    );
    let origin =
        Origin::answering(|_| b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec());
    let ringway = Setup::web(origin.address(), "").start();
    let answer = ringway.get("/");
    let results = headers_of(&answer.head.headers, "x-trickster-result");
    assert_eq!(
        (answer.status, results),
        (404, vec!["engine=HTTPProxy; status=proxy-error"])
    );
    ringway.stop();
}
