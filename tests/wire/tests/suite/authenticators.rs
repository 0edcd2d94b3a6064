//! Authenticators: who is let in, what the origin sees of it, and that nothing shows a secret.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ringway_wire::{Answer, Client, Origin, Ringway, Setup, eventually, ok, run};

/// Hashes of `open sesame`.
const BCRYPT: &str = "$2y$05$abcdefghijklmnopqrstuupx2xBUC4954936wVIjyyPHmUBFu0wCW";
const SLOW_BCRYPT: &str = "$2y$12$abcdefghijklmnopqrstuuq2uHH4t8IjTa8PV9VUUF1vssBH6WaR2";
const APR1: &str = "$apr1$Zo7pTq1x$XYTeBEuZiORIT0981GTGE/";
const MD5: &str = "$1$Zo7pTq1x$w5ggvw.CGAXvXMF0w3eOL/";
const SHA256: &str = "$5$saltsalt$yrhPKxCqiWcCE9h0g86j6Ugz7SDFdFm.BjU.d8RaQnC";
const SHA512: &str = "$6$saltsalt$e/5XKibXPLqVcfjpD.ouauaJrAOL5V0uo80Lt7n7EbRdRiCx3HbQ90yjOHr.G0T.mx79PEMRy8nmtr0qSYhQp1";

/// Reloads one after the other.
const RELOADABLE: &str = "mgmt: {reload_rate_limit: 0}\n";

/// The header that carries these credentials.
pub(crate) fn basic(user: &str, secret: &str) -> String {
    format!(
        "Authorization: Basic {}\r\n",
        STANDARD.encode(format!("{user}:{secret}"))
    )
}

/// Sends a request with further header lines, and reads its answer.
#[track_caller]
pub(crate) fn ask(client: &mut Client, target: &str, headers: &str) -> Answer {
    client
        .send(format!(
            "GET {target} HTTP/1.1\r\nHost: test\r\n{headers}\r\n"
        ))
        .answer()
}

/// The status of a request on a connection of its own.
#[track_caller]
fn status(ringway: &Ringway, target: &str, headers: &str) -> u16 {
    ask(&mut ringway.client(), target, headers).status
}

fn origin() -> Origin {
    Origin::answering(|_| ok("inside"))
}

/// One backend behind the authenticator `door` with these keys.
fn guarded(origin: &Origin, authenticator: &str) -> Setup {
    let setup = Setup::web(origin.address(), "authenticator_name: door");
    setup.section(&format!("authenticators:\n  door: {authenticator}\n"))
}

#[test]
fn who_has_no_right_credentials_is_refused_and_never_reaches_the_origin() {
    let origin = origin();
    let ringway = guarded(&origin, "{provider: basic, users: {casey: sesame}}").start();
    let mut client = ringway.client();
    for headers in [
        String::new(),
        basic("casey", "wrong"),
        basic("Casey", "sesame"),
        basic("nobody", "sesame"),
        basic("casey", ""),
        "Authorization: Basic casey:sesame\r\n".into(),
        "Authorization: Bearer Y2FzZXk6c2VzYW1l\r\n".into(),
        format!("{0}{0}", basic("casey", "sesame")),
    ] {
        let answer = ask(&mut client, "/?user=casey&password=sesame", &headers);
        assert_eq!(answer.status, 401, "{headers}");
        assert_eq!(answer.header("content-type"), Some("text/plain"));
        assert_eq!(answer.text(), "Unauthorized");
        assert_eq!(answer.header("www-authenticate"), None);
    }
    assert_eq!(origin.requests().len(), 0);
    // The connection has not suffered.
    let answer = ask(&mut client, "/", &basic("casey", "sesame"));
    assert_eq!((answer.status, answer.text().as_str()), (200, "inside"));
    assert_eq!(
        ringway.metric("ringway_shard_refused_logins_total", &[]),
        Some(8.0)
    );
    ringway.stop();
}

#[test]
fn a_body_that_nobody_reads_is_not_taken_for_a_request() {
    let origin = origin();
    let ringway = guarded(&origin, "{provider: basic, users: {casey: sesame}}").start();
    let mut client = ringway.client();
    client.send(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 35\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert_eq!(client.answer().status, 401);
    let answer = ask(&mut client, "/", &basic("casey", "sesame"));
    assert_eq!(answer.status, 200);
    assert_eq!(origin.next_request().target, "/");
}

#[test]
fn the_login_form_shows_the_realm() {
    let origin = origin();
    for (config, challenge) in [
        ("{showLoginForm: true}", Some("Basic realm=\"door\"")),
        (
            "{showLoginForm: true, realm: the vault}",
            Some("Basic realm=\"the vault\""),
        ),
        ("{showLoginForm: false}", None),
    ] {
        let keys = format!("{{provider: basic, users: {{casey: sesame}}, config: {config}}}");
        let ringway = guarded(&origin, &keys).start();
        let answer = ringway.get("/");
        assert_eq!(answer.status, 401);
        assert_eq!(answer.header("www-authenticate"), challenge, "{config}");
    }
}

#[test]
fn credentials_go_on_only_where_they_are_preserved() {
    let origin = origin();
    for (keys, preserved) in [("", false), (", proxy_preserve: true", true)] {
        let keys = format!("{{provider: basic, users: {{casey: sesame}}{keys}}}");
        let ringway = guarded(&origin, &keys).start();
        let header = basic("casey", "sesame");
        assert_eq!(status(&ringway, "/?user=a&password=b", &header), 200);
        let seen = origin.next_request();
        let expected = header.trim_end().strip_prefix("Authorization: ");
        assert_eq!(
            seen.header("authorization"),
            expected.filter(|_| preserved),
            "{keys}"
        );
        assert_eq!(seen.target, "/?user=a&password=b");
    }
}

#[test]
fn hashed_passwords_are_checked_and_a_hash_is_none() {
    let origin = origin();
    let hashes = [BCRYPT, APR1, MD5, SHA256, SHA512];
    let setup = guarded(
        &origin,
        "{provider: basic, users_file: users, users_file_format: htpasswd}",
    );
    let lines = (0..)
        .zip(hashes)
        .map(|(n, hash)| format!("user{n}:{hash}\n"));
    std::fs::write(setup.folder().join("users"), lines.collect::<String>())
        .expect("the folder is ours");
    let ringway = setup.start();
    for (n, hash) in (0..).zip(hashes) {
        let user = format!("user{n}");
        // The second time the answer is known.
        for _ in 0..2 {
            assert_eq!(status(&ringway, "/", &basic(&user, "open sesame")), 200);
            assert_eq!(status(&ringway, "/", &basic(&user, "open")), 401);
            assert_eq!(status(&ringway, "/", &basic(&user, hash)), 401, "{hash}");
        }
    }
    assert_eq!(status(&ringway, "/", &basic("user9", "open sesame")), 401);
    let long = "x".repeat(2000);
    assert_eq!(status(&ringway, "/", &basic("user0", &long)), 401);
    ringway.stop();
}

#[test]
fn right_passwords_are_remembered_until_the_next_reload() {
    let origin = origin();
    let keys = format!("{{provider: basic, users: {{casey: '{BCRYPT}'}}}}");
    let ringway = guarded(&origin, &keys)
        .section(RELOADABLE)
        .shards(1)
        .start();
    let checks = || ringway.metric("ringway_password_checks_total", &[("result", "match")]);
    let header = basic("casey", "open sesame");
    for _ in 0..5 {
        assert_eq!(status(&ringway, "/", &header), 200);
    }
    assert_eq!(checks(), Some(1.0));
    Client::connect(ringway.mgmt_address()).get("/trickster/config/reload");
    eventually("the password is asked for again", || {
        assert_eq!(status(&ringway, "/", &header), 200);
        (checks() == Some(2.0)).then_some(())
    });
}

#[test]
fn users_come_from_files_and_those_written_here_win() {
    let origin = origin();
    for (format, content) in [
        ("csv", "name,secret\ncasey,sesame\ntaylor,file\n"),
        ("csvNoHeader", "casey,sesame\ntaylor,file\n"),
        ("htpasswd", "# staff\ncasey:sesame\ntaylor:file\n"),
    ] {
        let setup = guarded(
            &origin,
            &format!(
                "{{provider: basic, users_file: users, users_file_format: {format}, \
                 users: {{taylor: '${{TAYLOR}}', kris: here}}}}"
            ),
        );
        std::fs::write(setup.folder().join("users"), content).expect("the folder is ours");
        let ringway = setup.environment("TAYLOR", "from outside").start();
        for (user, secret, expected) in [
            ("casey", "sesame", 200),
            ("taylor", "from outside", 200),
            ("taylor", "file", 401),
            ("kris", "here", 200),
            ("name", "secret", 401),
        ] {
            let found = status(&ringway, "/", &basic(user, secret));
            assert_eq!(found, expected, "{format} {user} {secret}");
        }
    }
}

#[test]
fn an_observer_lets_everybody_pass_with_what_they_came_with() {
    let origin = origin();
    let ringway = guarded(&origin, "{provider: basic, observe_only: true}").start();
    for headers in [String::new(), basic("casey", "whatever")] {
        assert_eq!(status(&ringway, "/", &headers), 200);
        let seen = origin.next_request();
        let sent = headers.trim_end().strip_prefix("Authorization: ");
        assert_eq!(seen.header("authorization"), sent);
    }
}

#[test]
fn a_path_has_its_own_authenticator_or_none() {
    let origin = origin();
    let ringway = Setup::web(
        origin.address(),
        "authenticator_name: door\npaths:\n  - {path: /open, match_type: prefix, authenticator_name: none}\n  \
         - {path: /vault, match_type: prefix, authenticator_name: vault}",
    )
    .section(
        "authenticators:\n  door: {provider: basic, users: {casey: sesame}}\n  \
         vault: {provider: basic, users: {taylor: gold}}\n",
    )
    .start();
    let (casey, taylor) = (basic("casey", "sesame"), basic("taylor", "gold"));
    for (target, headers, expected) in [
        ("/", "", 401),
        ("/", &*casey, 200),
        ("/", &*taylor, 401),
        ("/open", "", 200),
        ("/vault", &*casey, 401),
        ("/vault", &*taylor, 200),
        // The same path to an origin, however it is written.
        ("/%76ault", &*casey, 401),
        // What some server reads as another path.
        ("/open/../vault", &*taylor, 400),
        ("/vault/%2e%2e/open", "", 400),
        ("/vault/..;/open", "", 400),
        ("/open/..%5cvault", "", 400),
        ("/x/\\vault", &*casey, 400),
        ("//open", "", 400),
        ("//", &*casey, 200),
    ] {
        let found = status(&ringway, target, headers);
        assert_eq!(found, expected, "{target} {headers}");
    }
}

#[test]
fn no_path_leads_out_of_an_origins_prefix_or_around_a_guard_in_it() {
    let origin = origin();
    let ringway = Setup::new(format!(
        "backends:\n  web:\n    provider: reverseproxy\n    origin_url: http://{}/app\n    paths:\n    \
         - {{path: '/my%20admin', match_type: prefix, methods: ['*'], authenticator_name: door}}\n  \
         bare: {{provider: reverseproxy, origin_url: 'http://{}/tenant'}}\n",
        origin.address(),
        origin.address()
    ))
    .section("authenticators:\n  door: {provider: basic, users: {casey: sesame}}\n")
    .start();
    for (target, expected) in [
        ("/web/free", 200),
        ("/web/my%20admin/x", 401),
        ("/web/%6dy%20admin", 401),
        ("/web/../app/my%20admin", 400),
        ("/web/%2e%2e/app/my%20admin", 400),
        ("/web/x/../../app/my%20admin", 400),
        ("/bare/x", 200),
        ("/bare/../other", 400),
        ("/bare/..%2fother", 400),
        ("/bare/%2E%2E;a/other", 400),
    ] {
        assert_eq!(status(&ringway, target, ""), expected, "{target}");
    }
    let seen = origin.requests();
    let is_straight = |request: &ringway_wire::Request| !request.target.contains("..");
    assert!(seen.iter().all(is_straight), "{seen:?}");
}

/// An ALB with authenticator `outer` over a member with authenticator `inner`.
fn chain(origin: &Origin, authenticators: &str) -> Ringway {
    Setup::new(format!(
        "backends:\n  web: {{provider: reverseproxy, origin_url: 'http://{}', authenticator_name: inner, \
         path_routing_disabled: true}}\n  \
         lb: {{provider: alb, is_default: true, authenticator_name: outer, alb: {{mechanism: rr, pool: [web]}}}}\n\
         authenticators:\n{authenticators}",
        origin.address()
    ))
    .start()
}

#[test]
fn who_has_proven_who_they_are_is_not_asked_again_along_the_chain() {
    let origin = origin();
    let ringway = chain(
        &origin,
        "  outer: {provider: basic, users: {casey: sesame}}\n  \
         inner: {provider: basic, users: {taylor: gold}}\n",
    );
    assert_eq!(status(&ringway, "/", &basic("casey", "sesame")), 200);
    assert_eq!(origin.next_request().header("authorization"), None);
    // Whom the first one refuses the second one does not get to see.
    assert_eq!(status(&ringway, "/", &basic("taylor", "gold")), 401);
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn who_was_only_observed_may_still_have_to_prove_it() {
    let origin = origin();
    let ringway = chain(
        &origin,
        "  outer: {provider: basic, observe_only: true}\n  \
         inner: {provider: basic, users: {taylor: gold}}\n",
    );
    assert_eq!(status(&ringway, "/", ""), 401);
    assert_eq!(status(&ringway, "/", &basic("taylor", "wrong")), 401);
    assert_eq!(status(&ringway, "/", &basic("taylor", "gold")), 200);
    assert_eq!(origin.next_request().header("authorization"), None);
}

#[test]
fn clickhouse_credentials_are_read_in_three_places_and_stripped_from_all() {
    let origin = origin();
    let ringway = guarded(&origin, "{provider: clickhouse, users: {casey: sesame}}").start();
    let headers = "X-ClickHouse-User: casey\r\nX-ClickHouse-Key: sesame\r\n";
    let right = basic("casey", "sesame");
    let all = format!("{headers}{right}");
    for (target, headers, expected) in [
        ("/?user=casey&query=SELECT%201&password=sesame", "", 200),
        ("/?query=SELECT%201", headers, 200),
        ("/?query=SELECT%201", &*right, 200),
        ("/?user=casey&query=SELECT%201", &*right, 200),
        ("/?user=casey&password=no", &*all, 401),
        ("/", "X-ClickHouse-User: casey\r\n", 401),
        ("/?user=casey", "", 401),
        ("/", "", 401),
    ] {
        let found = status(&ringway, target, headers);
        assert_eq!(found, expected, "{target} {headers}");
        if found != 200 {
            continue;
        }
        let seen = origin.next_request();
        assert_eq!(seen.target, "/?query=SELECT%201");
        for name in ["authorization", "x-clickhouse-user", "x-clickhouse-key"] {
            assert_eq!(seen.header(name), None, "{target} {headers}");
        }
    }
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn a_slow_check_delays_nobody_else_on_its_shard() {
    const LOGINS: usize = 6;
    let origin = origin();
    let ringway = Setup::web(
        origin.address(),
        "authenticator_name: door\npaths: [{path: /open, authenticator_name: none}]",
    )
    .section(&format!(
        "authenticators:\n  door: {{provider: basic, users: {{casey: '{SLOW_BCRYPT}'}}}}\n"
    ))
    .shards(1)
    .start();
    let mut waiting: Vec<Client> = (0..LOGINS).map(|_| ringway.client()).collect();
    for (n, client) in waiting.iter_mut().enumerate() {
        let header = basic("casey", &format!("wrong {n}"));
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{header}\r\n"));
    }
    let mut other = ringway.client();
    for _ in 0..20 {
        assert_eq!(other.get("/open").status, 200);
    }
    let done = ringway.metric("ringway_password_checks_total", &[]);
    assert!(
        done < Some(LOGINS as f64),
        "others were answered only after all checks"
    );
    for client in &mut waiting {
        // Checks have the lowest priority: on a busy machine some are given up.
        let status = client.answer().status;
        assert!(matches!(status, 401 | 503), "{status}");
    }
    ringway.stop();
}

#[test]
fn a_stream_of_wrong_passwords_is_bounded_and_known_users_pass() {
    const FLOOD: usize = 60;
    let origin = origin();
    let keys =
        format!("{{provider: basic, users: {{casey: '{BCRYPT}', taylor: '{SLOW_BCRYPT}'}}}}");
    let ringway = guarded(&origin, &keys).shards(1).start();
    let known = basic("casey", "open sesame");
    assert_eq!(status(&ringway, "/", &known), 200);
    let mut flood: Vec<Client> = (0..FLOOD).map(|_| ringway.client()).collect();
    for (n, client) in flood.iter_mut().enumerate() {
        let header = basic("taylor", &format!("wrong {n}"));
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{header}\r\n"));
    }
    assert_eq!(status(&ringway, "/", &known), 200);
    // The last ones found no room; they are told so at once.
    let busy = flood[FLOOD - 1].answer();
    assert_eq!(busy.status, 503);
    assert_eq!(busy.header("retry-after"), Some("1"));
    assert!(busy.body.is_empty());
    let turned_away = ringway.metric("ringway_shard_turned_away_logins_total", &[]);
    assert!(turned_away >= Some(1.0), "{turned_away:?}");
    assert_eq!(origin.requests().len(), 2);
}

#[test]
fn a_changed_users_file_is_taken_up_without_being_asked() {
    let origin = origin();
    let setup = guarded(
        &origin,
        "{provider: basic, users_file: users, users_file_format: htpasswd}",
    );
    let file = setup.folder().join("users");
    std::fs::write(&file, "casey:sesame\n").expect("the folder is ours");
    let ringway = setup.start();
    let passes = |user: &str, secret: &str| status(&ringway, "/", &basic(user, secret)) == 200;
    assert!(passes("casey", "sesame"));
    std::fs::write(&file, "taylor:gold\n").expect("the folder is ours");
    eventually("the new user passes", || {
        passes("taylor", "gold").then_some(())
    });
    assert!(!passes("casey", "sesame"));
    // A broken one is told of, and the users before stay.
    std::fs::write(&file, "kris\n").expect("the folder is ours");
    eventually("the log tells", || {
        ringway
            .log()
            .contains("configuration problem")
            .then_some(())
    });
    assert!(passes("taylor", "gold"));
    std::fs::write(&file, "kris:key\n").expect("the folder is ours");
    eventually("the repaired file counts", || {
        passes("kris", "key").then_some(())
    });
    ringway.stop();
}

#[test]
fn no_secret_shows_anywhere() {
    const SECRETS: [&str; 6] = [
        "inline-secret",
        "file-secret",
        "env-secret",
        "offered-secret",
        "2y$05$abcdefgh",
        "router-secret",
    ];
    let origin = origin();
    let authenticator = format!(
        "  door:\n    provider: basic\n    users_file: users\n    users_file_format: htpasswd\n    \
         users: {{casey: inline-secret, taylor: '${{TAYLOR}}', kris: '{BCRYPT}'}}\n"
    );
    let sections = format!(
        "backends:\n  web: {{provider: reverseproxy, origin_url: 'http://{}'}}\n  \
         users:\n    provider: alb\n    is_default: true\n    authenticator_name: door\n    \
         alb:\n      mechanism: ur\n      user_router:\n        default_backend: web\n        \
         users: {{casey: {{to_backend: web, to_credential: router-secret}}}}\n\
         logging: {{log_level: debug}}\nauthenticators:\n{authenticator}",
        origin.address()
    );
    let setup = Setup::new(sections).section(RELOADABLE);
    let setup = setup.environment("TAYLOR", "env-secret");
    std::fs::write(setup.folder().join("users"), "alex:file-secret\n").expect("it is ours");
    let ringway = setup.start();
    for (user, secret, expected) in [
        ("casey", "inline-secret", 200),
        ("alex", "file-secret", 200),
        ("taylor", "env-secret", 200),
        ("kris", "open sesame", 200),
        ("casey", "offered-secret", 401),
        ("kris", "offered-secret", 401),
        ("nobody", "offered-secret", 401),
    ] {
        let found = status(&ringway, "/", &basic(user, secret));
        assert_eq!(found, expected, "{user}");
    }
    // One configuration that is refused, and the checker's word on it.
    std::fs::write(
        ringway.folder().join("users"),
        "alex:file-secret\nalex:file-secret\n",
    )
    .expect("the folder is ours");
    let mut mgmt = Client::connect(ringway.mgmt_address());
    let refusal = mgmt.get("/trickster/config/reload");
    assert_eq!(refusal.status, 422, "{}", refusal.text());
    let dump = Client::connect(ringway.mgmt_address()).get("/trickster/config");
    assert_eq!(dump.status, 200);
    let metrics = Client::connect(ringway.metrics_address()).get("/metrics");
    let config = ringway.config_path().display().to_string();
    let checked = run(&["check", "--explain", "--config", &config]);
    for (what, text) in [
        ("log", ringway.log()),
        ("reload", refusal.text()),
        ("dump", dump.text()),
        ("metrics", metrics.text()),
        ("check", format!("{}{}", checked.out, checked.err)),
    ] {
        assert!(!text.is_empty(), "{what}");
        for secret in SECRETS {
            assert!(!text.contains(secret), "{secret} is in {what}:\n{text}");
        }
    }
    ringway.stop();
}
