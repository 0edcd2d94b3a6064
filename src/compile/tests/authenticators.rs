//! Authenticators: tables from both places, what a user router makes of them, and that no secret is ever shown.

use ringway_shards::plan::{Authenticator, AuthenticatorKind, Password};

use super::*;

const TAIL: &str = "backends: {a: {provider: rp, origin_url: 'http://a'}}\n";

fn secret(authenticator: &Authenticator, user: &str) -> (bool, String) {
    match &authenticator.users[user] {
        Password::Plain(secret) => (false, secret.expose().to_owned()),
        Password::Hashed(secret) => (true, secret.expose().to_owned()),
    }
}

#[test]
fn users_of_the_file_are_joined_by_those_written_here_who_win() {
    let hash = "$apr1$TOKEN$0123456789012345678901";
    let text = format!(
        "authenticators:\n  k:\n    provider: basic\n    users_file: u.csv\n    users_file_format: csv\n    users: {{casey: '${{TOKEN}}', kris: {hash}}}\n{TAIL}"
    );
    let mut files = Files::default();
    files.insert("u.csv", b"user,password\ncasey,old\ntaylor,$$TOKEN\n");
    let compiled = compiled_with(&text, &files).unwrap();
    let found = &compiled.plan.authenticators[0];
    assert_eq!((&*found.name, found.kind), ("k", AuthenticatorKind::Basic));
    assert!(!found.observe_only && !found.proxy_preserve && found.realm.is_none());
    assert_eq!(found.users.len(), 3);
    assert_eq!(secret(found, "casey"), (false, "s3cret".into()));
    // Nothing is expanded in files, nor in hashes.
    assert_eq!(secret(found, "taylor"), (false, "$$TOKEN".into()));
    assert_eq!(secret(found, "kris"), (true, hash.into()));
}

#[test]
fn a_changed_user_file_is_a_changed_configuration() {
    let text = format!(
        "authenticators: {{k: {{provider: basic, users_file: u, users_file_format: htpasswd}}}}\n{TAIL}"
    );
    let print = |content: &[u8]| {
        let mut files = Files::default();
        files.insert("u", content);
        compiled_with(&text, &files).unwrap().control.fingerprint
    };
    assert_eq!(print(b"a:b\n"), print(b"a:b\n"));
    assert_ne!(print(b"a:b\n"), print(b"a:c\n"));
}

#[test]
fn a_realm_is_shown_only_with_a_login_form() {
    for (config, expected) in [
        ("{}", None),
        ("{showLoginForm: false}", None),
        ("{showLoginForm: true}", Some("k")),
        ("{showLoginForm: true, realm: My site}", Some("My site")),
    ] {
        let text = format!(
            "authenticators: {{k: {{provider: clickhouse, proxy_preserve: true, users: {{u: p}}, config: {config}}}}}\n{TAIL}"
        );
        let plan = valid(&text).plan;
        let found = &plan.authenticators[0];
        assert_eq!(found.realm.as_deref(), expected, "{config}");
        assert_eq!(found.kind, AuthenticatorKind::ClickHouse);
        assert!(found.proxy_preserve);
    }
}

#[test]
fn a_router_reads_names_as_its_authenticator_does() {
    for (keys, expected) in [
        ("", AuthenticatorKind::Basic),
        ("authenticator_name: o, ", AuthenticatorKind::ClickHouse),
        (
            "paths: [{path: /x, authenticator_name: o}], ",
            AuthenticatorKind::ClickHouse,
        ),
    ] {
        let text = format!(
            "authenticators: {{o: {{provider: clickhouse, observe_only: true}}}}\nbackends:\n  a: {{provider: rp, origin_url: 'http://a'}}\n  r: {{provider: alb, {keys}alb: {{mechanism: ur, user_router: {{default_backend: a}}}}}}\n"
        );
        let plan = valid(&text).plan;
        let BackendKind::Alb(alb) = &plan.backends[1].kind else {
            panic!("an origin");
        };
        let router = alb.user_router.as_ref().unwrap();
        assert_eq!(router.observer, expected, "{keys}");
    }
}

/// A guarded ALB over `a` and, by way of `in`, `b`; keys of these three and of the ALB.
fn guarded(a: &str, b: &str, inner: &str, alb: &str) -> String {
    format!(
        "listeners: {{edge: {{port: 9}}}}\n\
         authenticators: {{k: {{provider: basic, users: {{u: p}}}}, o: {{provider: basic, observe_only: true}}}}\n\
         backends:\n  \
         a: {{provider: rp, origin_url: 'http://a', {a}}}\n  \
         b: {{provider: rp, origin_url: 'http://b', {b}}}\n  \
         in: {{provider: alb, {inner}, alb: {{pool: [b]}}}}\n  \
         lb: {{provider: alb, {alb}, alb: {{pool: [a, in]}}}}\n  \
         e: {{provider: rp, origin_url: 'http://e', listener_name: edge}}\n"
    )
}

#[test]
fn members_that_are_reached_around_an_authenticator_are_told() {
    const HIDE: &str = "path_routing_disabled: true";
    const K: &str = "authenticator_name: k";
    let rows: &[([&str; 4], &[&str])] = &[
        ([HIDE, HIDE, HIDE, K], &[]),
        (
            ["timeout: 5s", "hosts: [b.test]", HIDE, K],
            &[
                "a.yaml:4:3: backends.a: the authenticator of lb does not guard a, which clients also reach at /a/: write path_routing_disabled: true",
                "a.yaml:5:3: backends.b: the authenticator of lb does not guard b, which clients also reach at /b/ and by its hosts: write path_routing_disabled: true and leave out hosts",
            ],
        ),
        (
            [
                "path_routing_disabled: true, hosts: [a.test]",
                K,
                "max_query_range: 0",
                "paths: [{path: /x, authenticator_name: k}]",
            ],
            &[
                "a.yaml:4:3: backends.a: the authenticator of lb does not guard a, which clients also reach by its hosts: write no hosts",
                "a.yaml:6:3: backends.in: the authenticator of lb does not guard in, which clients also reach at /in/: write path_routing_disabled: true",
            ],
        ),
        // Its own authenticator, another listener, open on purpose.
        (
            [
                "paths: [{path: /, match_type: prefix, methods: ['*'], authenticator_name: k}]",
                "listener_name: edge",
                "authenticator_name: none",
                K,
            ],
            &[],
        ),
        // Only watching, and no authenticator at all.
        (
            [
                "timeout: 5s",
                "timeout: 5s",
                "max_capture_bytes: 5",
                "authenticator_name: o",
            ],
            &[],
        ),
        (
            ["authenticator_name: o", HIDE, HIDE, K],
            &[
                "a.yaml:4:3: backends.a: the authenticator of lb does not guard a, which clients also reach at /a/: write path_routing_disabled: true",
            ],
        ),
    ];
    assert_rows(rows.iter().map(|([a, b, inner, alb], expected)| {
        let text = guarded(a, b, inner, alb);
        let mut found = warnings(&text);
        found.retain(|line| line.contains("authenticator of"));
        (text, found, expected.to_vec())
    }));
}

#[test]
fn targets_of_a_guarded_router_are_told_too() {
    let text = "\
authenticators: {k: {provider: basic, users: {u: p}}}
backends:
  a: {provider: rp, origin_url: 'http://a'}
  r: {provider: alb, authenticator_name: k, alb: {mechanism: ur, user_router: {default_backend: a}}}
";
    assert_eq!(
        warnings(text),
        [
            "a.yaml:3:3: backends.a: the authenticator of r does not guard a, which clients also reach at /a/: write path_routing_disabled: true"
        ]
    );
}

#[test]
fn credentials_are_replaced_only_behind_a_check() {
    let router = |keys: &str, user: &str| {
        compiled(&format!(
            "authenticators:\n  k: {{provider: basic, users: {{u: p}}}}\n  o: {{provider: basic, observe_only: true}}\nbackends:\n  a: {{provider: rp, origin_url: 'http://a'}}\n  r:\n    provider: alb\n{keys}    alb: {{mechanism: ur, user_router: {{users: {{u: {{to_backend: a, {user}}}}}}}}}\n"
        ))
    };
    assert!(
        router(
            "    authenticator_name: k\n",
            "to_user: v, to_credential: w"
        )
        .is_ok()
    );
    assert!(router("    paths: [{authenticator_name: k}]\n", "to_user: v").is_ok());
    for (keys, line) in [
        ("", 8),
        ("    authenticator_name: none\n", 9),
        ("    authenticator_name: o\n", 9),
    ] {
        for (user, key, column) in [
            ("to_user: v", "to_user", 67),
            ("to_credential: w", "to_credential", 67),
        ] {
            let expected = format!(
                "a.yaml:{line}:{column}: backends.r.alb.user_router.users.u.{key}: credentials are replaced only after they were checked: this ALB needs an authenticator_name, of one without observe_only"
            );
            assert_eq!(
                router(keys, user).map(|_| ()),
                Err(vec![expected]),
                "{keys}"
            );
        }
    }
    // One mistake is one line.
    let unknown = router("    authenticator_name: kk\n", "to_user: v").unwrap_err();
    assert_eq!(
        unknown,
        [
            "a.yaml:8:25: backends.r.authenticator_name: unknown authenticator \"kk\"; did you mean \"k\"?"
        ]
    );
}

const SECRETS: &str = "\
authenticators:
  k:
    provider: basic
    users: {casey: hidden-1, taylor: '${TOKEN}'}
    config: {showLoginForm: true}
  o: {provider: clickhouse, observe_only: true}
listeners: {default: {trusted_proxies: [10.0.0.0/8]}}
backends:
  a:
    provider: prometheus
    origin_url: http://a
    authenticator_name: o
    latency_min: 1ms
    request_headers: {Authorization: hidden-2}
    request_params: {key: hidden-3}
    cors: {mode: merge, headers: {Access-Control-Max-Age: '5'}}
    paths:
    - {path: /x, request_headers: {+X-Key: hidden-4}, request_params: {key: hidden-5}}
    - {path: /y, handler: localresponse, response_body: shown, response_code: 404, methods: [PUT]}
    healthcheck: {headers: {A: hidden-6}}
  r:
    provider: alb
    authenticator_name: k
    alb:
      mechanism: ur
      user_router: {default_backend: a, users: {casey: {to_backend: a, to_user: v, to_credential: hidden-7}}}
  f: {provider: alb, alb: {mechanism: fgr, pool: [a], fgr: {status_codes: [200]}, ejection: {consecutive_failures: 2}}}
  n: {provider: alb, alb: {mechanism: nlm, pool: [a]}}
  w: {provider: alb, alb: {pool: [a], retry: {attempts: 1, try_timeout: 1s}}}
";

#[test]
fn secrets_are_shown_nowhere() {
    let compiled = valid(SECRETS);
    let effective = &compiled.control.effective;
    for shown in [
        effective.dump(),
        effective.explain(),
        format!("{:?}", compiled.plan),
    ] {
        assert!(
            !shown.contains("hidden") && !shown.contains("s3cret"),
            "{shown}"
        );
    }
    let dump = effective.dump();
    for line in [
        "taylor: '*****'",
        "Authorization: '*****'",
        "key: '*****'",
        "+X-Key: '*****'",
        "to_credential: '*****'",
        "response_body: shown",
    ] {
        assert!(dump.contains(line), "{line}\n{dump}");
    }
    // With mistakes all around them, they are not in the messages either.
    let wrong = SECRETS
        .replace("hidden-1", "'{SHA}hidden-1'")
        .replace("Authorization: hidden-2", "Transfer-Encoding: hidden-2")
        .replace("+X-Key: hidden-4", "X-Key: \"hidden-4\\n\"")
        .replace("provider: basic", "provider: hidden")
        .replace("hidden-7", "[hidden-7]");
    let lines = problems(&wrong);
    assert!(lines.len() >= 5, "{lines:#?}");
    let told = |line: &&String| line.contains("hidden-") || line.contains("s3cret");
    assert_eq!(lines.iter().find(told), None);
}

#[test]
fn what_rewriters_write_into_headers_and_queries_is_not_shown() {
    let text = "request_rewriters:\n  w:\n    instructions:\n      - [header, set, A, hidden]\n      \
                - [param, append, a, hidden]\n      - [params, set, 'token=hidden']\n      \
                - [params, replace, hidden, other-hidden, 1]\n      - [path, set, /shown]\n\
                backends: {a: {provider: rp, origin_url: 'http://a', req_rewriter_name: w}}\n";
    let effective = valid(text).control.effective;
    for shown in [effective.dump(), effective.explain()] {
        assert!(!shown.contains("hidden"), "{shown}");
        assert!(
            shown.contains("/shown") && shown.contains("*****"),
            "{shown}"
        );
    }
}

#[test]
fn the_dump_of_all_new_keys_means_the_same() {
    let first = valid(SECRETS);
    let dump = first.control.effective.dump();
    let again = valid(&dump);
    assert_eq!(again.control.effective.dump(), dump);
    assert_eq!(again.plan.backends[0].paths.len(), 3);
    assert_eq!(again.control.ejections, first.control.ejections);
    let explained = first.control.effective.explain();
    for line in [
        "backends.a.paths[0].match_type = \"exact\"  # default (configuration, 4)",
        "backends.a.paths[1].methods = [\"PUT\"]  # a.yaml:19:93",
        "backends.a.latency_max = \"1ms\"  # derived: latency_min",
        "authenticators.k.users = {\"casey\":\"*****\",\"taylor\":\"*****\"}  # a.yaml:4:12",
    ] {
        assert!(explained.lines().any(|l| l == line), "{line}\n{explained}");
    }
}

#[test]
fn authenticators_and_users_are_bounded() {
    let entries = |count: usize| {
        let entry = |n| format!("  k{n}: {{provider: basic, users: {{u: p}}}}\n");
        let entries: String = (0..count).map(entry).collect();
        format!("authenticators:\n{entries}{TAIL}")
    };
    assert_eq!(valid(&entries(1_000)).plan.authenticators.len(), 1_000);
    assert_eq!(
        problems(&entries(1_001)),
        ["a.yaml:1:1: authenticators: more than 1000 authenticators"]
    );
    let text = format!(
        "authenticators: {{k: {{provider: basic, users_file: u, users_file_format: csvNoHeader}}}}\n{TAIL}"
    );
    let users = |count: usize| {
        let lines: String = (0..count).map(|n| format!("u{n},p\n")).collect();
        let mut files = Files::default();
        files.insert("u", lines.as_bytes());
        compiled_with(&text, &files).map(|compiled| compiled.plan.authenticators[0].users.len())
    };
    assert_eq!(users(100_000), Ok(100_000));
    assert_eq!(
        users(100_001),
        Err(vec![
            "a.yaml:1:18: authenticators.k: more than 100000 users".to_owned()
        ])
    );
}

#[test]
fn of_a_bad_user_file_the_first_lines_are_told() {
    let text = format!(
        "authenticators: {{k: {{provider: basic, users_file: u, users_file_format: csvNoHeader}}}}\n{TAIL}"
    );
    let mut files = Files::default();
    files.insert("u", "one\n".repeat(50).as_bytes());
    let lines = compiled_with(&text, &files).map(|_| ()).unwrap_err();
    assert_eq!(lines.len(), 10, "{lines:?}");
    files.insert("u", &[0xff]);
    assert_eq!(
        compiled_with(&text, &files).map(|_| ()),
        Err(vec![
            "a.yaml:1:51: authenticators.k.users_file: the file is not UTF-8 text".to_owned()
        ])
    );
}
