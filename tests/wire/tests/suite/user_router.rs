//! Mechanism `ur`: where each user goes, with which credentials, and what happens when nobody is there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ringway_wire::{Answer, Origin, Port, Ringway, Setup, eventually, ok, run};

use crate::authenticators::{ask, basic};

/// An origin that answers its name, and 500 to probes while it is told to be down.
struct Member {
    name: &'static str,
    origin: Origin,
    down: Arc<AtomicBool>,
}

impl Member {
    fn new(name: &'static str) -> Self {
        let down = Arc::new(AtomicBool::new(false));
        let is_down = Arc::clone(&down);
        let origin = Origin::answering(move |request| {
            if request.target == "/probe" && is_down.load(Ordering::SeqCst) {
                b"HTTP/1.1 500 Down\r\nContent-Length: 0\r\n\r\n".to_vec()
            } else {
                ok(name)
            }
        });
        Self { name, origin, down }
    }

    /// As a backend, with further keys.
    fn yaml(&self, keys: &str) -> String {
        format!(
            "  {}: {{provider: reverseproxy, origin_url: 'http://{}'{keys}}}\n",
            self.name,
            self.origin.address()
        )
    }

    /// What the last request but probes carried: its target, and the value of `Authorization`.
    #[track_caller]
    fn seen(&self) -> (String, Option<String>) {
        loop {
            let request = self.origin.next_request();
            if request.target != "/probe" {
                let value = request.header("authorization").map(str::to_owned);
                return (request.target, value);
            }
        }
    }
}

const PROBED: &str = ", healthcheck: {path: /probe, interval: 100ms, timeout: 1s, failure_threshold: 1, recovery_threshold: 1}";

const STAFF: &str =
    "authenticators:\n  staff: {provider: basic, users: {casey: own, taylor: own, kris: own}}\n";

/// The default backend, a user router with these lines.
fn router(keys: &str, lines: &[&str]) -> String {
    let mut yaml = format!(
        "  users:\n    provider: alb\n    is_default: true\n{keys}    alb:\n      mechanism: ur\n      user_router:\n"
    );
    for line in lines {
        yaml.push_str(&format!("        {line}\n"));
    }
    yaml
}

const CHECKED: &str = "    authenticator_name: staff\n";

#[track_caller]
fn get(ringway: &Ringway, target: &str, headers: &str) -> Answer {
    ask(&mut ringway.client(), target, headers)
}

/// What this user is answered.
#[track_caller]
fn told(ringway: &Ringway, user: &str) -> String {
    let answer = get(ringway, "/", &basic(user, "own"));
    assert_eq!(answer.status, 200, "{user}");
    answer.text()
}

/// The value of the header that carries these credentials.
fn value(user: &str, secret: &str) -> Option<String> {
    let header = basic(user, secret);
    header
        .trim_end()
        .strip_prefix("Authorization: ")
        .map(str::to_owned)
}

fn outcomes(ringway: &Ringway, outcome: &str) -> Option<f64> {
    let labels = [("backend_name", "users"), ("outcome", outcome)];
    ringway.metric("ringway_user_router_outcomes_total", &labels)
}

#[test]
fn a_user_goes_to_the_users_backend_and_everybody_else_to_the_default() {
    let (one, two) = (Member::new("one"), Member::new("two"));
    let yaml = format!(
        "backends:\n{}{}{}",
        one.yaml(""),
        two.yaml(""),
        router(
            "",
            &[
                "default_backend: one",
                "users: {casey: {to_backend: two}, kris: {}}"
            ]
        )
    );
    let ringway = Setup::new(yaml).start();
    // Nobody checks: the name is believed, and the credentials go on.
    assert_eq!(told(&ringway, "casey"), "two");
    assert_eq!(two.seen().1, value("casey", "own"));
    for user in ["Casey", "kris", "nobody"] {
        assert_eq!(told(&ringway, user), "one", "{user}");
        assert_eq!(one.seen().1, value(user, "own"), "{user}");
    }
    assert_eq!(get(&ringway, "/", "").text(), "one");
    assert_eq!(one.seen().1, None);
    assert_eq!(outcomes(&ringway, "selected"), Some(1.0));
    assert_eq!(outcomes(&ringway, "default"), Some(4.0));
    ringway.stop();
}

#[test]
fn credentials_are_replaced_for_the_users_own_backend_only() {
    let (one, two) = (Member::new("one"), Member::new("two"));
    let yaml = format!(
        "backends:\n{}{}{}{STAFF}",
        one.yaml(""),
        two.yaml(""),
        router(
            CHECKED,
            &[
                "default_backend: one",
                "users:",
                "  casey: {to_backend: two, to_user: dbwriter, to_credential: '${DB_PW}'}",
                "  taylor: {to_backend: two, to_user: dbreader}",
            ]
        )
    );
    let setup = Setup::new(yaml).environment("DB_PW", "db:secret");
    let ringway = setup.start();
    assert_eq!(told(&ringway, "casey"), "two");
    assert_eq!(two.seen().1, value("dbwriter", "db:secret"));
    // The password that was checked goes with the other name.
    assert_eq!(told(&ringway, "taylor"), "two");
    assert_eq!(two.seen().1, value("dbreader", "own"));
    // The default backend gets what came in.
    assert_eq!(told(&ringway, "kris"), "one");
    assert_eq!(one.seen().1, value("kris", "own"));
    // Without a positive check there is neither route nor credential.
    for headers in [
        String::new(),
        basic("casey", "wrong"),
        basic("nobody", "own"),
    ] {
        assert_eq!(get(&ringway, "/", &headers).status, 401);
    }
    assert_eq!(one.origin.requests().len() + two.origin.requests().len(), 0);
    ringway.stop();
}

#[test]
fn a_backend_that_is_down_is_replaced_by_the_default_without_its_credentials() {
    let (one, two) = (Member::new("one"), Member::new("two"));
    two.down.store(true, Ordering::SeqCst);
    let yaml = format!(
        "backends:\n{}{}{}{STAFF}",
        one.yaml(PROBED),
        two.yaml(PROBED),
        router(
            CHECKED,
            &[
                "default_backend: one",
                "users: {casey: {to_backend: two, to_user: dbwriter, to_credential: secret}}",
            ]
        )
    );
    let ringway = Setup::new(yaml).start();
    eventually("the mapped backend is down", || {
        (told(&ringway, "casey") == "one").then_some(())
    });
    while let Some(request) = one.origin.requests().pop() {
        if request.target != "/probe" {
            let seen = request.header("authorization").map(str::to_owned);
            assert_eq!(seen, value("casey", "own"));
        }
    }
    // When nobody is left the router says so.
    one.down.store(true, Ordering::SeqCst);
    let answer = eventually("the default is down too", || {
        let answer = get(&ringway, "/", &basic("casey", "own"));
        (answer.status != 200).then_some(answer)
    });
    assert_eq!((answer.status, answer.body.len()), (502, 0));
    assert_eq!(get(&ringway, "/", &basic("kris", "own")).status, 502);
    assert!(outcomes(&ringway, "unavailable") >= Some(2.0));
    assert_eq!(outcomes(&ringway, "no_route"), None);
    two.down.store(false, Ordering::SeqCst);
    eventually("the mapped backend is up again", || {
        let answer = get(&ringway, "/", &basic("casey", "own"));
        (answer.text() == "two").then_some(())
    });
    assert_eq!(two.seen().1, value("dbwriter", "secret"));
    ringway.stop();
}

#[test]
fn without_a_route_the_answer_is_the_configured_one() {
    let one = Member::new("one");
    for (code, status, body) in [
        ("", 502, ""),
        ("no_route_status_code: 401", 401, "Unauthorized"),
        ("no_route_status_code: 404", 404, "Resource Not Found"),
        ("no_route_status_code: 403", 403, ""),
        ("no_route_status_code: 599", 599, ""),
    ] {
        let yaml = format!(
            "backends:\n{}{}",
            one.yaml(""),
            router("", &[code, "users: {casey: {to_backend: one}}"])
        );
        let ringway = Setup::new(yaml).start();
        let mut client = ringway.client();
        for headers in [String::new(), basic("nobody", "own")] {
            let answer = ask(&mut client, "/", &headers);
            assert_eq!(
                (answer.status, answer.text().as_str()),
                (status, body),
                "{code}"
            );
            let content_type = (!body.is_empty()).then_some("text/plain");
            assert_eq!(answer.header("content-type"), content_type, "{code}");
            assert_eq!(answer.header("www-authenticate"), None, "{code}");
        }
        // The connection goes on.
        assert_eq!(ask(&mut client, "/", &basic("casey", "own")).status, 200);
        assert_eq!(outcomes(&ringway, "no_route"), Some(2.0));
    }
    assert!(one.origin.requests().len() == 5, "only casey came through");
}

#[test]
fn clickhouse_credentials_are_rewritten_where_they_were() {
    let one = Member::new("one");
    let yaml = format!(
        "backends:\n{}{}authenticators:\n  staff: {{provider: clickhouse, users: {{casey: own}}}}\n",
        one.yaml(""),
        router(
            CHECKED,
            &["users: {casey: {to_backend: one, to_user: db writer, to_credential: p&w}}"]
        )
    );
    let ringway = Setup::new(yaml).start();
    let rewritten = "/?query=1&user=db+writer&password=p%26w";
    for (target, headers, seen_target, seen_header) in [
        (
            "/?user=casey&query=1&password=own",
            String::new(),
            rewritten,
            None,
        ),
        (
            "/?query=1",
            basic("casey", "own"),
            "/?query=1",
            value("db writer", "p&w"),
        ),
        (
            "/?user=casey&query=1",
            basic("casey", "own"),
            "/?query=1",
            value("db writer", "p&w"),
        ),
    ] {
        assert_eq!(get(&ringway, target, &headers).status, 200, "{target}");
        assert_eq!(
            one.seen(),
            (seen_target.to_owned(), seen_header),
            "{target}"
        );
    }
    let headers = "X-ClickHouse-User: casey\r\nX-ClickHouse-Key: own\r\n";
    assert_eq!(get(&ringway, "/", headers).status, 200);
    let seen = one.origin.next_request();
    assert_eq!(seen.header("x-clickhouse-user"), Some("db writer"));
    assert_eq!(seen.header("x-clickhouse-key"), Some("p&w"));
    assert_eq!(seen.header("authorization"), None);
    ringway.stop();
}

#[test]
fn headers_of_the_targets_path_win_over_replaced_credentials() {
    let one = Member::new("one");
    let keys =
        ", paths: [{path: /, match_type: prefix, request_headers: {Authorization: Basic b3du}}]";
    let yaml = format!(
        "backends:\n{}{}{STAFF}",
        one.yaml(keys),
        router(
            CHECKED,
            &["users: {casey: {to_backend: one, to_user: db, to_credential: pw}}"]
        )
    );
    let ringway = Setup::new(yaml).start();
    assert_eq!(told(&ringway, "casey"), "one");
    assert_eq!(one.seen().1.as_deref(), Some("Basic b3du"));
}

#[test]
fn targets_may_be_albs_and_other_user_routers() {
    let (one, two, three) = (Member::new("one"), Member::new("two"), Member::new("three"));
    let yaml = format!(
        "backends:\n{}{}{}  lb: {{provider: alb, alb: {{mechanism: rr, pool: [one, two], healthy_floor: 1}}}}\n  \
         inner:\n    provider: alb\n    alb:\n      mechanism: ur\n      user_router:\n        \
         users: {{casey: {{to_backend: three}}}}\n{}",
        one.yaml(PROBED),
        two.yaml(PROBED),
        three.yaml(""),
        router(
            "",
            &[
                "default_backend: three",
                "users: {casey: {to_backend: inner}, taylor: {to_backend: lb}, kris: {to_backend: inner}}"
            ]
        )
    );
    let ringway = Setup::new(yaml).start();
    assert_eq!(told(&ringway, "casey"), "three");
    assert_eq!(get(&ringway, "/", &basic("kris", "own")).status, 502);
    eventually("both members of the pool are proven", || {
        let names = [told(&ringway, "taylor"), told(&ringway, "taylor")];
        (names.contains(&"one".to_owned()) && names.contains(&"two".to_owned())).then_some(())
    });
    // An ALB counts as down when nobody below it is live.
    one.down.store(true, Ordering::SeqCst);
    two.down.store(true, Ordering::SeqCst);
    eventually("the pool is empty", || {
        (told(&ringway, "taylor") == "three").then_some(())
    });
    ringway.stop();
}

#[test]
fn the_router_of_a_checked_chain_believes_what_was_proven_before() {
    let (one, two) = (Member::new("one"), Member::new("two"));
    let yaml = format!(
        "backends:\n{}{}  front: {{provider: alb, hosts: [front], authenticator_name: staff, \
         alb: {{mechanism: rr, pool: [users]}}}}\n{}{STAFF}",
        one.yaml(""),
        two.yaml(""),
        router(
            "",
            &["default_backend: one", "users: {casey: {to_backend: two}}"]
        )
    );
    let ringway = Setup::new(yaml).start();
    let ask_front = |headers: &str| {
        let request = format!("GET / HTTP/1.1\r\nHost: front\r\n{headers}\r\n");
        ringway.client().send(request).answer()
    };
    assert_eq!(ask_front(&basic("casey", "own")).text(), "two");
    assert_eq!(two.seen().1, None, "the front's authenticator took it away");
    assert_eq!(ask_front(&basic("casey", "wrong")).status, 401);
    assert_eq!(ask_front(&basic("kris", "own")).text(), "one");
}

#[test]
fn an_inner_router_keeps_what_an_outer_one_has_replaced() {
    let one = Member::new("one");
    let yaml = format!(
        "backends:\n{}  inner:\n    provider: alb\n    authenticator_name: staff\n    alb:\n      \
         mechanism: ur\n      user_router: {{default_backend: one}}\n{}{STAFF}",
        one.yaml(""),
        router(
            CHECKED,
            &["users: {casey: {to_backend: inner, to_user: db, to_credential: pw}}"]
        )
    );
    let ringway = Setup::new(yaml).start();
    assert_eq!(told(&ringway, "casey"), "one");
    assert_eq!(one.seen().1, value("db", "pw"));
}

#[test]
fn replacing_what_nobody_checks_is_refused_at_the_start() {
    let one = Member::new("one");
    let folder = Setup::new("");
    let config = folder.folder().join("refused.yaml");
    for (keys, authenticators) in [
        ("", ""),
        (
            CHECKED,
            "authenticators: {staff: {provider: basic, observe_only: true}}\n",
        ),
    ] {
        for swap in ["to_user: db", "to_credential: secret-word"] {
            let line = format!("users: {{casey: {{to_backend: one, {swap}}}}}");
            let yaml = format!(
                "backends:\n{}{}{authenticators}",
                one.yaml(""),
                router(keys, &[&line])
            );
            std::fs::write(&config, yaml).expect("the folder is ours");
            let checked = run(&["check", "--config", &config.display().to_string()]);
            let said = format!("{}{}", checked.out, checked.err);
            assert_eq!(checked.code, Some(1), "{swap}: {said}");
            let key = swap.split(':').next().unwrap_or_default();
            assert!(said.contains(&format!("users.casey.{key}")), "{said}");
            assert!(!said.contains("secret-word"), "{said}");
        }
    }
    drop(std::fs::remove_dir_all(folder.folder()));
}

#[test]
fn a_pool_behind_a_router_has_its_other_members_tried() {
    let (good, gone) = (Member::new("good"), Port::claim());
    let yaml = [
        good.yaml(""),
        format!(
            "  gone: {{provider: reverseproxy, origin_url: 'http://{}'}}\n",
            gone.address()
        ),
        "  pool: {provider: alb, alb: {pool: [gone, good]}}\n".to_owned(),
        router(
            CHECKED,
            &["users: {casey: {to_backend: pool, to_user: other}}"],
        ),
    ]
    .concat();
    let setup = Setup::new(format!("backends:\n{yaml}")).section(STAFF);
    let ringway = setup.shards(1).start();
    for _ in 0..6 {
        let answer = get(&ringway, "/x", &basic("casey", "own"));
        assert_eq!((answer.status, answer.text().as_str()), (200, "good"));
        assert_eq!(good.seen(), ("/x".to_owned(), value("other", "own")));
    }
    assert_eq!(
        outcomes(&ringway, "selected"),
        Some(6.0),
        "each request counts once"
    );
    ringway.stop();
}
