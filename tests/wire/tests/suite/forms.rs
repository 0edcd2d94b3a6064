//! `request_params` and forms: what is forwarded, to one member or several, has its parameters changed like a query.
//! Contract: config page, 4.

use ringway_wire::{Origin, Port, Ringway, Setup, ok};

use crate::fan_out::{alb, backend};

const TYPE: &str = "Content-Type: application/x-www-form-urlencoded";

const RULES: &str = "    request_params: {b: 'x y', -d: , +e: '5'}\n";

fn origin() -> Origin {
    Origin::answering(|request| ok(&request.body))
}

/// Members with these keys behind an ALB of this mechanism.
fn behind(mechanism: &str, members: &[(&Origin, &str)]) -> Setup {
    let mut yaml = "backends:\n".to_owned();
    let mut names = Vec::new();
    for (index, (origin, keys)) in members.iter().enumerate() {
        let name = format!("m{index}");
        yaml.push_str(&backend(&name, origin.address()));
        yaml.push_str(keys);
        names.push(name);
    }
    let pool = format!("pool: [{}]", names.join(", "));
    yaml.push_str(&alb("all", mechanism, &[&pool]));
    Setup::new(yaml + "    is_default: true\n")
}

fn post(header: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /p?a=q&d=q HTTP/1.1\r\nHost: a\r\n{header}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

#[test]
fn a_form_is_changed_on_its_way_to_each_member() {
    let origin = Origin::answering(|request| {
        let length = request.header("content-length").unwrap_or_default();
        assert_eq!(length, request.body.len().to_string());
        ok(format!("{} {}", request.target, request.text()))
    });
    for (mechanism, count) in [
        ("rr", 1),
        ("rr", 2),
        ("fr", 1),
        ("fr", 2),
        ("fgr", 2),
        ("nlm", 2),
    ] {
        let members = vec![(&origin, RULES); count];
        let ringway = behind(mechanism, &members).shards(1).start();
        let mut client = ringway.client();
        for (form, changed) in [
            ("a=1&%64=2&b=3&c=%7e", "a=1&c=%7e&b=x+y&e=5"),
            ("d=1", "b=x+y&e=5"),
        ] {
            let answer = client.send(post(TYPE, form)).answer();
            let expected = format!("/p?a=q&b=x+y&e=5 {changed}");
            assert_eq!(
                (answer.status, answer.text()),
                (200, expected),
                "{mechanism}"
            );
            let (one, two) = form.split_at(2);
            client.send(format!(
                "PUT /p HTTP/1.1\r\nHost: a\r\n{TYPE}; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n\
                 2\r\n{one}\r\n"
            ));
            client.send(format!("{:x}\r\n{two}\r\n0\r\n\r\n", two.len()));
            let expected = format!("/p?b=x+y&e=5 {changed}");
            assert_eq!(client.answer().text(), expected, "{mechanism}");
        }
        ringway.stop();
    }
}

#[test]
fn other_bodies_stay_as_they_are() {
    let origin = origin();
    for mechanism in ["rr", "fgr"] {
        let ringway = behind(mechanism, &[(&origin, RULES), (&origin, RULES)]).start();
        let mut client = ringway.client();
        for header in [
            "Content-Type: application/json",
            "Content-Type: application/x-www-form-urlencoded\r\nContent-Encoding: gzip",
            "X: application/x-www-form-urlencoded",
        ] {
            let answer = client.send(post(header, "d=1&b=2")).answer();
            assert_eq!(answer.text(), "d=1&b=2", "{mechanism} {header}");
        }
        // No form, nothing to change.
        assert_eq!(client.send(post(TYPE, "")).answer().text(), "");
        ringway.stop();
    }
    let ringway = behind("rr", &[(&origin, "")]).start();
    let answer = ringway.client().send(post(TYPE, "d=1&b=2")).answer();
    assert_eq!(answer.text(), "d=1&b=2", "no rule, no change");
    ringway.stop();
}

#[test]
fn a_form_that_becomes_empty_is_sent_as_such() {
    let origin = origin();
    for mechanism in ["rr", "nlm"] {
        let rules = "    request_params: {-d: }\n";
        let ringway = behind(mechanism, &[(&origin, rules), (&origin, rules)]).start();
        let mut client = ringway.client();
        for _ in 0..2 {
            assert_eq!(client.send(post(TYPE, "d=1&d=2")).answer().text(), "");
            assert_eq!(origin.next_request().header("content-length"), Some("0"));
        }
        ringway.stop();
    }
}

#[test]
fn a_long_form_is_changed_whole() {
    let origin = origin();
    for mechanism in ["rr", "nlm"] {
        let ringway = behind(mechanism, &[(&origin, RULES), (&origin, RULES)]).start();
        let mut client = ringway.client();
        let kept: Vec<String> = (0..200_000).map(|n| format!("k{n}={n}")).collect();
        let form = format!("d={}&{}&b=1", "x".repeat(3 << 20), kept.join("&d=0&"));
        let answer = client.send(post(TYPE, &form)).answer();
        let changed = kept.join("&") + "&b=x+y&e=5";
        assert!(answer.text() == changed, "{mechanism}");
        ringway.stop();
    }
}

#[test]
fn the_listeners_bound_holds_and_a_client_that_waits_is_told_to_go_on() {
    let origin = origin();
    let ringway = behind("rr", &[(&origin, RULES)])
        .listener("max_request_body_size_bytes: 8")
        .start();
    let mut client = ringway.client();
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: a\r\n{TYPE}\r\nContent-Length: 7\r\nExpect: 100-continue\r\n\r\n"
    ));
    assert_eq!(client.head().0, 100);
    assert_eq!(client.send("a=1&d=2").answer().text(), "a=1&b=x+y&e=5");
    assert_eq!(origin.next_request().header("expect"), None);
    assert_eq!(client.send(post(TYPE, "a=1&d=234")).answer().status, 413);
    client.assert_closed();
    assert!(origin.requests().is_empty());
    ringway.stop();
}

#[test]
fn the_next_member_gets_the_form_with_the_changes_of_its_own_rules() {
    let origin = origin();
    let gone = Port::claim();
    let told = |ringway: &Ringway| {
        let mut client = ringway.client();
        let answers = (0..4).map(|_| client.send(post(TYPE, "a=1")).answer().text());
        answers.collect::<Vec<String>>()
    };
    for (first, second, expected) in [
        (
            "    request_params: {w: first}\n",
            "    request_params: {w: second}\n",
            "a=1&w=second",
        ),
        ("    request_params: {w: first}\n", "", "a=1"),
        ("", "    request_params: {w: second}\n", "a=1&w=second"),
    ] {
        let yaml = [
            backend("gone", gone.address()),
            first.to_owned(),
            backend("here", origin.address()),
            second.to_owned(),
            alb("all", "rr", &["pool: [gone, here]"]),
        ]
        .concat();
        let ringway = Setup::new(format!("backends:\n{yaml}    is_default: true\n")).start();
        assert_eq!(told(&ringway), [expected; 4]);
        ringway.stop();
    }
}

#[test]
fn a_merge_adds_to_the_parameters_of_query_and_form_together_once() {
    let body = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;
    let prometheus = Origin::answering(move |_| ok(body));
    let mut yaml = "backends:\n".to_owned();
    for name in ["m0", "m1"] {
        yaml.push_str(&format!(
            "  {name}: {{provider: prometheus, origin_url: 'http://{}'}}\n",
            prometheus.address()
        ));
    }
    yaml.push_str(&alb("all", "tsm", &["pool: [m0, m1]"]));
    let ringway = Setup::new(yaml + RULES + "    is_default: true\n").start();
    let form = "query=up&d=1";
    let request = format!(
        "POST /api/v1/query?time=1&d=2 HTTP/1.1\r\nHost: a\r\n{TYPE}\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    );
    assert_eq!(ringway.client().send(request).answer().status, 200);
    for _ in 0..2 {
        let asked = prometheus.next_request();
        let text = asked.text();
        let mut parameters: Vec<&str> = text.split('&').collect();
        parameters.sort_unstable();
        assert_eq!(parameters, ["b=x+y", "e=5", "query=up", "time=1"]);
    }
    ringway.stop();
}
