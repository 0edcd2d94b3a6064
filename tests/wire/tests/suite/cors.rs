//! Cross-origin headers: the contract's default, the four modes, and whose word counts.

use ringway_wire::{Answer, Origin, Ringway, Setup, headers_of};

fn origin() -> Origin {
    Origin::answering(|_| {
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nAccess-Control-Allow-Origin: https://o.test\r\n\
          access-control-max-age: 5\r\nX-Other: 1\r\n\r\n"
            .to_vec()
    })
}

/// The cross-origin headers of an answer, in order.
fn cross(answer: &Answer) -> Vec<(String, String)> {
    let lines = answer.head.headers.iter();
    let mut lines: Vec<(String, String)> = lines
        .map(|(name, value)| (name.to_ascii_lowercase(), value.clone()))
        .filter(|(name, _)| name.starts_with("access-control-"))
        .map(|(name, value)| (name["access-control-".len()..].to_owned(), value))
        .collect();
    lines.sort();
    lines
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    expected.iter().map(pair).collect()
}

#[test]
fn each_mode_does_its_own() {
    let cases: [(&str, &[(&str, &str)]); 5] = [
        ("", &[("allow-origin", "*"), ("max-age", "5")]),
        (
            "cors: {mode: preserve}",
            &[("allow-origin", "https://o.test"), ("max-age", "5")],
        ),
        (
            "cors: {mode: merge, headers: {Access-Control-Allow-Origin: 'https://a.test', +Access-Control-Max-Age: '9'}}",
            &[
                ("allow-origin", "https://a.test"),
                ("max-age", "5"),
                ("max-age", "9"),
            ],
        ),
        (
            "cors: {headers: {Access-Control-Allow-Methods: GET}}",
            &[("allow-methods", "GET")],
        ),
        ("cors: {mode: disable}", &[]),
    ];
    for (keys, expected) in cases {
        let origin = origin();
        let ringway = Setup::web(origin.address(), keys).start();
        let answer = ringway.get("/");
        assert_eq!(cross(&answer), pairs(expected), "{keys}");
        assert_eq!(answer.header("x-other"), Some("1"));
        ringway.stop();
    }
}

#[test]
fn answers_of_ringway_itself_have_them_too() {
    let port = ringway_wire::Port::claim();
    let keys = "cors: {headers: {Access-Control-Allow-Origin: 'https://a.test'}}\n\
                paths:\n- {path: /l, handler: localresponse, response_body: x}\n\
                - {path: /d, handler: localresponse, cors: {mode: disable}}";
    let ringway = Setup::web(port.address(), keys).start();
    let expected = pairs(&[("allow-origin", "https://a.test")]);
    let failed = ringway.get("/");
    assert_eq!((failed.status, cross(&failed)), (502, expected.clone()));
    assert_eq!(cross(&ringway.get("/l")), expected);
    assert_eq!(cross(&ringway.get("/d")), []);
    ringway.stop();
}

/// An ALB with these keys in front of a member with those.
fn behind_an_alb(origin: &Origin, alb: &str, member: &str) -> Ringway {
    Setup::new(format!(
        "backends:\n  one:\n    provider: reverseproxy\n    origin_url: http://{}\n{member}  \
         lb:\n    provider: alb\n    is_default: true\n    alb: {{pool: [one]}}\n{alb}",
        origin.address()
    ))
    .start()
}

#[test]
fn the_backend_that_the_client_asks_has_the_last_word() {
    let set = |value: &str| {
        format!("    cors: {{headers: {{Access-Control-Allow-Origin: 'https://{value}.test'}}}}\n")
    };
    let cases = [
        (set("alb"), set("member"), "https://alb.test"),
        (String::new(), set("member"), "https://member.test"),
        (set("alb"), String::new(), "https://alb.test"),
        (String::new(), String::new(), "*"),
    ];
    for (alb, member, expected) in cases {
        let origin = origin();
        let ringway = behind_an_alb(&origin, &alb, &member);
        let answer = ringway.get("/");
        let found = headers_of(&answer.head.headers, "access-control-allow-origin");
        assert_eq!(found, [expected], "{alb}{member}");
        ringway.stop();
    }
}
