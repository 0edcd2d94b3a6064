//! What is accepted although it is old, odd or a slip: with which warning, and to what effect.

use super::*;

/// Two origins and a pool, for rows that add to them.
const TWO: &str = "\
backends:
  a: {provider: reverseproxy, origin_url: 'http://a'}
  b: {provider: prometheus, origin_url: 'http://b'}
";

/// Doubtful configurations and what is said of them. `@TWO@` stands for [`TWO`].
const DOUBTFUL: &[(&str, &[&str])] = &[
    (
        "frontend: {listen_port: 9}\n@TWO@",
        &["a.yaml:1:1: frontend: deprecated; write listeners.default"],
    ),
    (
        "metrics: {listen_port: 9}\nmgmt: {listen_address: 127.0.0.2}\n@TWO@",
        &[
            "a.yaml:1:11: metrics.listen_port: deprecated; write listeners.metrics.port",
            "a.yaml:2:8: mgmt.listen_address: deprecated; write listeners.mgmt.address",
        ],
    ),
    (
        "listeners: {edge: {port: 9}}\n@TWO@",
        &["a.yaml:1:13: listeners.edge: no backend uses listener edge: it is not started"],
    ),
    (
        "listeners: {default: {tls_port: 9}}\n@TWO@",
        &[
            "a.yaml:1:23: listeners.default.tls_port: listener default has no certificate: none of its backends has full_chain_cert_path and private_key_path; its TLS port is not started",
        ],
    ),
    (
        "@TWO@  c: {provider: alb, alb: {pool: [a], healthy_floor: -1}}\n",
        &[
            "a.yaml:4:39: backends.c.alb.healthy_floor: members whose health checks fail get requests too",
        ],
    ),
    (
        "@TWO@  c: {provider: alb, alb: {pool: [a, b], healthy_floor: 1}}\n",
        &[
            "a.yaml:4:42: backends.c.alb.healthy_floor: healthy_floor 1 is reset to 0 for the whole ALB: without healthcheck.interval these members would never be available: a, b",
        ],
    ),
    (
        "@TWO@  c: {provider: alb, alb: {mechanism: rr}}\n",
        &["a.yaml:4:22: backends.c.alb.pool: the pool is empty: every request is answered 502"],
    ),
    (
        "rules: {r: {input_source: path, operation: eq, next_route: a}}\nrequest_rewriters: {w: {instructions: []}, v: {instructions: [[chain, exec, w]]}}\n@TWO@",
        &[
            "a.yaml:1:9: rules.r: no backend has this rule",
            "a.yaml:2:44: request_rewriters.v: nothing runs this rewriter",
        ],
    ),
    (
        "rules: {r: {input_source: path, operation: rmatch, operation_arg: '(?P<n>a)(b)', next_route: a, ingress_req_rewriter_name: w, egress_req_rewriter_name: w, cases: [{matches: ['true', 'yes'], redirect_url: '/${path}${n}${m}'}]}}\n\
         request_rewriters: {w: {instructions: [[header, set, A, '${0}${n}${2}${3}']]}}\n@TWO@  c: {provider: rule, rule_name: r, req_rewriter_name: w}\n",
        &[
            "a.yaml:1:97: rules.r.ingress_req_rewriter_name: nothing is captured for token ${0} here: it is sent as it is written",
            "a.yaml:1:97: rules.r.ingress_req_rewriter_name: nothing is captured for token ${n} here: it is sent as it is written",
            "a.yaml:1:97: rules.r.ingress_req_rewriter_name: nothing is captured for token ${2} here: it is sent as it is written",
            "a.yaml:1:97: rules.r.ingress_req_rewriter_name: nothing is captured for token ${3} here: it is sent as it is written",
            "a.yaml:1:127: rules.r.egress_req_rewriter_name: nothing is captured for token ${3} here: it is sent as it is written",
            "a.yaml:1:183: rules.r.cases[0].matches[1]: no effect: with an operation_arg rmatch gives true or false, never \"yes\"",
            "a.yaml:1:191: rules.r.cases[0].redirect_url: nothing is captured for token ${m} here: it is sent as it is written",
            "a.yaml:6:37: backends.c.req_rewriter_name: nothing is captured for token ${0} here: it is sent as it is written",
            "a.yaml:6:37: backends.c.req_rewriter_name: nothing is captured for token ${n} here: it is sent as it is written",
            "a.yaml:6:37: backends.c.req_rewriter_name: nothing is captured for token ${2} here: it is sent as it is written",
            "a.yaml:6:37: backends.c.req_rewriter_name: nothing is captured for token ${3} here: it is sent as it is written",
        ],
    ),
    (
        "rules: {r: {input_source: port, input_type: num, operation: gt, operation_arg: many, next_route: a, cases: [{matches: ['true'], next_route: b}]}}\n@TWO@  c: {provider: rule, rule_name: r}\n",
        &["a.yaml:1:65: rules.r.operation_arg: no effect: \"many\" is no number: no case matches"],
    ),
    (
        "rules: {r: {input_source: port, input_type: num, operation: bt, next_route: a, cases: [{matches: ['1..5', '7'], next_route: b}]}}\n@TWO@  c: {provider: rule, rule_name: r}\n",
        &[
            "a.yaml:1:107: rules.r.cases[0].matches[1]: no effect: \"7\" is no range such as 1..5: it never matches",
        ],
    ),
    (
        "rules: {r: {input_source: path, operation: hash_modulo, operation_arg: 3, next_route: a, cases: [{matches: [0, 2, 3, 01], next_route: b}]}}\n@TWO@  c: {provider: rule, rule_name: r}\n",
        &[
            "a.yaml:1:115: rules.r.cases[0].matches[2]: no effect: hash_modulo gives whole numbers below 3, never \"3\"",
            "a.yaml:1:118: rules.r.cases[0].matches[3]: no effect: hash_modulo gives whole numbers below 3, never \"01\"",
        ],
    ),
    (
        "rules: {r: {input_source: path, operation: md5, next_route: a, cases: [{matches: [D41D8CD98F00B204E9800998ECF8427E, d41d8cd98f00b204e9800998ecf8427e], next_route: b}]}}\n@TWO@  c: {provider: rule, rule_name: r}\n",
        &[
            "a.yaml:1:83: rules.r.cases[0].matches[0]: no effect: md5 gives 32 hexadecimal digits in small letters, never \"D41D8CD98F00B204E9800998ECF8427E\"",
        ],
    ),
    (
        "rules: {r: {input_source: path, operation: rmatch, operation_arg: a, next_route: a, cases: [{matches: ['false'], req_rewriter_name: w}, {matches: ['true'], req_rewriter_name: w}]}}\n\
         request_rewriters: {w: {instructions: [[path, set, '/${0}']]}}\n@TWO@  c: {provider: rule, rule_name: r}\n",
        &[
            "a.yaml:1:114: rules.r.cases[0].req_rewriter_name: nothing is captured for token ${0} here: it is sent as it is written",
        ],
    ),
    (
        "listeners: {other: {port: 9}}\nrules: {r: {input_source: path, operation: eq, next_route: frontend}}\n\
         backends: {c: {provider: rule, rule_name: r, listener_name: other}}\n",
        &[
            "a.yaml:2:48: rules.r.next_route: no route of listener default leads anywhere: requests are answered 404",
        ],
    ),
    (
        "@TWO@  c: {provider: rpc, origin_url: 'http://c'}\n",
        &[
            "a.yaml:4:7: backends.c.provider: caching is not built yet: every request goes to the origin, as with provider reverseproxy",
        ],
    ),
    (
        "@TWO@  c: {provider: alb, max_query_range: 1d, alb: {timeout: 5s, pool: [a]}}\n",
        &["a.yaml:4:22: backends.c.max_query_range: no effect: only a time series merge keeps it"],
    ),
    (
        "@TWO@  c: {provider: alb, alb: {mechanism: tsm, pool: [{name: b, weight: 2}]}}\n",
        &[
            "a.yaml:4:61: backends.c.alb.pool[0].weight: no effect: a time series merge asks every member once",
        ],
    ),
    (
        "@TWO@  c: {provider: alb, alb: {mechanism: fr, pool: [{name: b, weight: 2}]}}\n",
        &["a.yaml:4:60: backends.c.alb.pool[0].weight: no effect: every member is asked once"],
    ),
    (
        "@TWO@  c: {provider: alb, alb: {mechanism: fgr, pool: [b], fgr_status_codes: [200]}}\n",
        &["a.yaml:4:55: backends.c.alb.fgr_status_codes: deprecated; write alb.fgr.status_codes"],
    ),
    (
        "@TWO@  c: {provider: alb, alb: {mechanism: ur, max_capture_bytes: 5, user_router: {users: {u: {}}}}}\n",
        &[
            "a.yaml:4:43: backends.c.alb.max_capture_bytes: no effect: one member is asked and its answer not captured",
            "a.yaml:4:65: backends.c.alb.user_router: the router has no route: every request is answered 502",
        ],
    ),
    (
        "authenticators: {k: {provider: basic, users: {u: p}, config: {realm: r}}, o: {provider: clickhouse, observe_only: true, users_file_format: csv, users: {u: p}}}\n@TWO@  c: {provider: alb, authenticator_name: k, alb: {mechanism: ur, user_router: {default_backend: a, users: {u: {to_user: v, to_credential: w}}}}}\n",
        &[
            "a.yaml:1:63: authenticators.k.config.realm: no effect: showLoginForm is not set",
            "a.yaml:1:121: authenticators.o.users_file_format: no effect: users_file is not set",
            "a.yaml:1:145: authenticators.o.users: no effect: with observe_only nobody is checked",
            "a.yaml:3:3: backends.a: the authenticator of c does not guard a, which clients also reach at /a/: write path_routing_disabled: true",
            "a.yaml:5:112: backends.c.alb.user_router.users.u.to_user: no effect: credentials are replaced only on the way to a to_backend",
            "a.yaml:5:124: backends.c.alb.user_router.users.u.to_credential: no effect: credentials are replaced only on the way to a to_backend",
        ],
    ),
    (
        "listeners: {default: {trusted_proxies: [10.1.2.3/8, 10.1.2.3]}}\n@TWO@",
        &["a.yaml:1:41: listeners.default.trusted_proxies[0]: this is network 10.0.0.0/8"],
    ),
    (
        "@TWO@  c: {provider: prometheus, origin_url: 'http://c', paths: [{path: /q, handler: query}, {path: /api/v1/label/a/values, handler: labels}]}\n",
        &[
            "a.yaml:4:72: backends.c.paths[0].handler: no effect: the API is known by its own path, whatever the handler",
        ],
    ),
    (
        "@TWO@  c: {provider: alb, alb: {pool: [a], retry: {attempts: 0, max_body_bytes: 5}, ejection: {time: 5s}}}\n",
        &[
            "a.yaml:4:60: backends.c.alb.retry.max_body_bytes: no effect: attempts is 0",
            "a.yaml:4:91: backends.c.alb.ejection.time: no effect: consecutive_failures is not set",
        ],
    ),
    (
        "backends:\n  a:\n    provider: rp\n    origin_url: http://a\n    tls: {insecure_skip_verify: true}\n    healthcheck: {interval: 1s, timeout: 2s, headers: {X: $NOPE}}\n",
        &[
            "a.yaml:5:11: backends.a.tls.insecure_skip_verify: no effect: the origin is spoken to without TLS",
            "a.yaml:6:33: backends.a.healthcheck.timeout: longer than the interval: a slow probe delays the next",
            "a.yaml:6:59: backends.a.healthcheck.headers.X: environment variable NOPE is not set: nothing stands in its place",
        ],
    ),
    (
        "@TWO@  t: {provider: rp, is_template: true, origin_url: 'http://x'}\n",
        &[
            "a.yaml:4:21: backends.t.is_template: no ALB makes members of this template",
            "a.yaml:4:40: backends.t.origin_url: no effect: a template's members bring their own",
        ],
    ),
    (
        "@TWO@  c/d: {provider: rp, origin_url: 'http://c'}\n  e/f: {provider: rp, origin_url: 'http://c', path_routing_disabled: true}\n",
        &[
            "a.yaml:4:3: backends.c/d: no request reaches /c/d/: a path has no such segment; choose letters, digits and -",
        ],
    ),
    (
        "@TWO@  p: {provider: rp, origin_url: 'http://p', healthcheck: {interval: 5s}}\n  c: {provider: alb, alb: {pool: [a]}}\n  d: {provider: alb, alb: {pool: [p, c], healthy_floor: 1}}\n  e: {provider: alb, alb: {pool: [p, c, b], healthy_floor: 1}}\n",
        &[
            "a.yaml:7:45: backends.e.alb.healthy_floor: healthy_floor 1 is reset to 0 for the whole ALB: without healthcheck.interval these members would never be available: b",
        ],
    ),
    (
        "@TWO@  trickster: {provider: rp, origin_url: 'http://c'}\n  hidden: {provider: rp, origin_url: 'http://c', path_routing_disabled: true}\n",
        &[
            "a.yaml:4:3: backends.trickster: ringway answers /trickster/ping itself, and not from this backend",
        ],
    ),
    (
        "mgmt: {ping_handler_path: /up}\n@TWO@  up: {provider: rp, origin_url: 'http://c', path_routing_disabled: true}\n  trickster: {provider: rp, origin_url: 'http://c'}\n",
        &[],
    ),
    (
        "@TWO@  c: {provider: alb, alb: {mechanism: tsm, pool: [b, {name: b}]}}\n  d: {provider: alb, alb: {mechanism: fr, pool: [a, b, a]}}\n  e: {provider: alb, alb: {mechanism: rr, pool: [a, a]}}\n",
        &[
            "a.yaml:4:54: backends.c.alb.pool[1]: b is listed before: mechanism tsm asks each member once",
            "a.yaml:5:56: backends.d.alb.pool[2]: a is listed before: mechanism fr asks each member once",
        ],
    ),
    (
        "shards: {count: 9}\n@TWO@",
        &["a.yaml:1:10: shards.count: 9 shards share 3 processors"],
    ),
];

#[test]
fn doubtful_configurations_are_accepted_with_a_warning() {
    assert_rows(DOUBTFUL.iter().map(|(text, expected)| {
        let text = text.replace("@TWO@", TWO);
        let found = warnings(&text);
        (text, found, expected.to_vec())
    }));
}

#[test]
fn nothing_is_said_of_what_is_fine() {
    for text in [
        WEB,
        "backends: {a: {provider: proxy, origin_url: 'http://a', replica_group: a}}\n",
        "backends: {a: {provider: reverseproxy, origin_url: 'http://a', hosts: ['[::1]', x.y]}}\n",
        "backends: {a: {provider: rp, origin_url: 'http://a', tls: , hosts: ~}}\nmain:\n",
        "listeners: {edge: {port: 9}}\nbackends: {a: {provider: rp, origin_url: 'http://a', listener_name: edge}}\n",
        "listeners: {default: {port: any}, metrics: {port: any}}\nbackends: {a: {provider: rp, origin_url: 'http://a'}}\n",
    ] {
        assert_eq!(warnings(text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn older_listener_keys_count_where_newer_ones_are_missing() {
    let text = format!(
        "frontend: {{listen_port: 9, listen_address: 127.0.0.1, connections_limit: 5}}\n\
         listeners: {{default: {{port: 10}}}}\n\
         metrics: {{listen_port: 11}}\n{TWO}"
    );
    let compiled = valid(&text);
    let listener = &compiled.plan.listeners[0];
    assert_eq!(listener.address.to_string(), "127.0.0.1:10");
    assert_eq!(listener.connections_limit, Some(5));
    assert_eq!(compiled.control.admin[0].address.port(), 11);
}

#[test]
fn a_default_entry_sets_the_capture_caps_of_those_without() {
    let text = "\
backends:
  default: {max_capture_bytes: 64, max_fanout_capture_bytes: 640}
  p: {provider: prometheus, origin_url: 'http://p'}
  q: {provider: prometheus, origin_url: 'http://q', max_capture_bytes: 32}
  all: {provider: alb, alb: {mechanism: tsm, pool: [p, q]}}
  own: {provider: alb, max_capture_bytes: 8, alb: {mechanism: tsm, max_capture_bytes: 16, pool: [p]}}
";
    // `max_fanout_capture_bytes` is for ALBs; the entry without a provider sets it for all of them.
    let plan = valid(text).plan;
    let caps: Vec<u64> = plan.backends.iter().map(|b| b.capture_bytes_max).collect();
    assert_eq!(caps, [64, 32, 64, 16]);
    let BackendKind::Alb(alb) = &plan.backends[2].kind else {
        panic!("not an ALB");
    };
    assert_eq!(alb.fanout_bytes_max, Some(640));
    assert!(plan.listeners[0].routes.default.is_none());
    assert!(!plan.listeners[0].routes.names.contains_key("default"));
}

#[test]
fn the_default_backend_is_marked_or_named_or_alone() {
    for (backends, expected) in [
        ("{a: {provider: rp, origin_url: 'http://a'}}", Some(0)),
        (
            "{a: {provider: rp, origin_url: 'http://a', is_default: false}}",
            None,
        ),
        (
            "{a: {provider: rp, origin_url: 'http://a'}, b: {provider: rp, origin_url: 'http://b'}}",
            None,
        ),
        (
            "{a: {provider: rp, origin_url: 'http://a'}, default: {provider: rp, origin_url: 'http://b'}}",
            Some(1),
        ),
        (
            "{a: {provider: rp, origin_url: 'http://a', is_default: true}, default: {provider: rp, origin_url: 'http://b'}}",
            Some(0),
        ),
        (
            "{a: {provider: rp, origin_url: 'http://a'}, default: {provider: rp, origin_url: 'http://b', is_default: false}}",
            None,
        ),
    ] {
        let plan = valid(&format!("backends: {backends}\n")).plan;
        let found = plan.listeners[0]
            .routes
            .default
            .map(|route| route.backend.0);
        assert_eq!(found, expected, "{backends}");
    }
}

#[test]
fn a_template_is_no_backend() {
    let text = "\
backends:
  t: {provider: prometheus, is_template: true, hosts: [t.example.com]}
  default: {provider: rp, is_template: true}
  a: {provider: rp, origin_url: 'http://a'}
";
    let plan = valid(text).plan;
    let names: Vec<&str> = plan.backends.iter().map(|b| &*b.name).collect();
    assert_eq!(names, ["a"]);
    let routes = &plan.listeners[0].routes;
    assert_eq!(
        routes.names.keys().map(|name| &**name).collect::<Vec<_>>(),
        ["a"]
    );
    assert!(routes.hosts.is_empty());
    assert_eq!(routes.default.map(|route| route.backend.0), Some(0));
}

#[test]
fn path_routes_can_be_turned_off_and_listeners_have_their_own() {
    let text = "\
listeners: {edge: {port: 9, address: 127.0.0.1}}
backends:
  a: {provider: rp, origin_url: 'http://a', path_routing_disabled: true}
  b: {provider: rp, origin_url: 'http://b', listener_name: edge}
";
    let plan = valid(text).plan;
    assert_eq!(plan.listeners.len(), 2);
    assert!(plan.listeners[0].routes.names.is_empty());
    assert_eq!(plan.listeners[1].routes.names["b"].backend.0, 1);
    assert_eq!(&*plan.listeners[1].name, "edge");
}

#[test]
fn body_bounds_have_their_special_values() {
    for (written, expected) in [("0", Some(0)), ("-1", None), ("7", Some(7))] {
        let text =
            format!("listeners: {{default: {{max_request_body_size_bytes: {written}}}}}\n{TWO}");
        assert_eq!(
            valid(&text).plan.listeners[0].request_body_bytes_max,
            expected
        );
    }
}

#[test]
fn aliases_and_merge_keys_are_expanded() {
    let text = "\
backends:
  a: &a
    provider: reverseproxy
    origin_url: http://a
    healthcheck: &check {interval: 1s}
  b:
    <<: *a
    origin_url: http://b
  c: {provider: prometheus, origin_url: 'http://c', healthcheck: *check}
";
    let compiled = valid(text);
    assert_eq!(&*origin(&compiled, 1).host, "b");
    let intervals = compiled
        .control
        .health_checks
        .iter()
        .map(|check| check.interval);
    assert!(
        intervals
            .into_iter()
            .all(|i| i == Some(Duration::from_secs(1)))
    );
}

#[test]
fn nested_pools_pass_their_deadlines_up() {
    let text = "\
backends:
  p: {provider: prometheus, origin_url: 'http://p', timeout: 5s}
  q: {provider: prometheus, origin_url: 'http://q', timeout: 7s}
  in: {provider: alb, replica_group: g, alb: {mechanism: tsm, pool: [p, q]}}
  mid: {provider: alb, alb: {mechanism: tsm, timeout: 1s, pool: [in]}}
  out: {provider: alb, alb: {mechanism: tsm, pool: [in, p]}}
";
    let plan = valid(text).plan;
    let timeouts: Vec<u64> = plan.backends[2..]
        .iter()
        .map(|backend| match &backend.kind {
            BackendKind::Alb(alb) => alb.timeout.as_secs(),
            BackendKind::Origin(_) | BackendKind::Rule(_) => 0,
        })
        .collect();
    assert_eq!(timeouts, [7, 1, 7]);
    assert_eq!(&*plan.backends[2].replica_group, "g");
}
