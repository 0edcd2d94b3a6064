//! What members of a fan-out refuse by themselves, with their authenticators and paths: answers like any other, but for
//! `fr`, where they beat nobody. Contract: ALB page, 5 and 6.

use ringway_wire::{Answer, Gate, Origin, Ringway, Setup, ok};

use crate::authenticators::{ask, basic};
use crate::fake_prometheus::{Server, success};
use crate::fan_out::{alb, answer, backend, gated, silent};

const DOOR: &str = "authenticators:\n  door:\n    provider: basic\n    users: {casey: sesame}\n    config: {showLoginForm: true, realm: the vault}\n";

const GUARDED: &str = "    authenticator_name: door\n";

/// Members, each with further keys, behind an ALB of this mechanism.
fn behind(mechanism: &str, members: &[(&str, &Origin, &str)], lines: &[&str]) -> Ringway {
    let mut yaml = "backends:\n".to_owned();
    for (name, origin, keys) in members {
        yaml.push_str(&backend(name, origin.address()));
        yaml.push_str(keys);
    }
    let names: Vec<&str> = members.iter().map(|(name, _, _)| *name).collect();
    let pool = format!("pool: [{}]", names.join(", "));
    let mut all = vec![pool.as_str()];
    all.extend(lines);
    yaml.push_str(&alb("all", mechanism, &all));
    yaml.push_str("    is_default: true\n");
    Setup::new(yaml).section(DOOR).start()
}

#[track_caller]
fn assert_challenge(answer: &Answer, what: &str) {
    assert_eq!(answer.status, 401, "{what}");
    let challenge = answer.header("www-authenticate");
    assert_eq!(challenge, Some("Basic realm=\"the vault\""), "{what}");
    assert_eq!(answer.header("content-type"), Some("text/plain"), "{what}");
    assert_eq!(answer.text(), "Unauthorized", "{what}");
}

#[test]
fn when_all_members_refuse_the_credentials_the_client_is_challenged() {
    let origin = Origin::answering(|_| ok("inside"));
    for mechanism in ["fr", "fgr", "nlm"] {
        let members = [("a", &origin, GUARDED), ("b", &origin, GUARDED)];
        let ringway = behind(mechanism, &members, &[]);
        let mut client = ringway.client();
        assert_challenge(&client.get("/"), mechanism);
        client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
        let answer = client.answer_to("HEAD");
        assert_eq!(
            (answer.status, answer.header("content-length")),
            (401, Some("12"))
        );
        // The connection has not suffered.
        let answer = ask(&mut client, "/", &basic("casey", "sesame"));
        assert_eq!((answer.status, answer.text().as_str()), (200, "inside"));
        ringway.stop();
    }
}

#[test]
fn a_refusal_is_the_lowest_status_of_fgr_and_the_best_class_of_nlm() {
    let failing = Origin::answering(|_| answer(500, "", "broken"));
    for mechanism in ["fgr", "nlm"] {
        let members = [("a", &failing, ""), ("b", &failing, GUARDED)];
        let ringway = behind(mechanism, &members, &[]);
        assert_challenge(&ringway.get("/"), mechanism);
        ringway.stop();
    }
}

#[test]
fn a_method_that_no_member_serves_is_405_with_those_that_they_do() {
    let origin = Origin::answering(|_| ok("x"));
    let traced = "    paths: [{path: /, match_type: prefix, methods: [TRACE]}]\n";
    for mechanism in ["fr", "fgr", "nlm"] {
        let mut yaml = "backends:\n".to_owned();
        yaml.push_str(&backend("a", origin.address()));
        yaml.push_str(&backend("b", origin.address()));
        yaml.push_str(&alb("all", mechanism, &["pool: [a, b]"]));
        let ringway = Setup::new(yaml + "    is_default: true\n" + traced).start();
        let mut client = ringway.client();
        client.send("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n");
        let answer = client.answer();
        assert_eq!(answer.status, 405, "{mechanism}");
        let allowed = answer.header("allow").unwrap_or_default();
        assert!(allowed.contains("GET"), "{mechanism}: {allowed:?}");
        assert_eq!(answer.text(), "method is not served here\n");
        assert_eq!(client.get("/").text(), "x", "{mechanism}");
        ringway.stop();
    }
}

#[test]
fn a_refusal_beats_no_member_of_fr_that_is_being_asked() {
    let gate = Gate::new();
    let slow = gated(&gate, |_| answer(500, "", "slow"));
    let members = [("a", &slow, GUARDED), ("b", &slow, "")];
    let ringway = behind("fr", &members, &[]);
    let mut client = ringway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    slow.next_request();
    gate.open();
    let answer = client.answer();
    assert_eq!((answer.status, answer.text().as_str()), (500, "slow"));
    ringway.stop();
}

#[test]
fn a_refusal_is_the_answer_of_fr_when_the_others_break_or_are_late() {
    let (late, gone) = (silent(), Origin::start(|_| {}));
    let members = [("a", &late, ""), ("b", &gone, ""), ("c", &late, GUARDED)];
    let ringway = behind("fr", &members, &["timeout: 300ms"]);
    assert_challenge(&ringway.get("/"), "fr");
    ringway.stop();
}

#[test]
fn a_member_of_a_merge_that_refuses_counts_with_its_status() {
    let server = Server::saying("any", success(r#"["x"]"#));
    let start = |guarded: &[&str]| {
        let mut yaml = "backends:\n".to_owned();
        for name in ["a", "b"] {
            let address = server.origin.address();
            yaml.push_str(&format!(
                "  {name}:\n    provider: prometheus\n    origin_url: http://{address}\n"
            ));
            if guarded.contains(&name) {
                yaml.push_str(GUARDED);
            }
        }
        yaml.push_str(&alb("all", "tsm", &["pool: [a, b]"]));
        yaml.push_str("    is_default: true\n");
        Setup::new(yaml).section(DOOR).start()
    };
    let ringway = start(&["b"]);
    let answer = ringway.get("/api/v1/labels");
    assert_eq!(answer.status, 200);
    let result = answer.header("x-trickster-result").unwrap_or_default();
    assert!(result.contains("phit"), "{result}");
    assert!(answer.text().contains("401"), "{}", answer.text());
    ringway.stop();
    let ringway = start(&["a", "b"]);
    let answer = ringway.get("/api/v1/labels");
    let challenge = answer.header("www-authenticate");
    assert_eq!(
        (answer.status, challenge),
        (401, Some("Basic realm=\"the vault\""))
    );
    ringway.stop();
}
