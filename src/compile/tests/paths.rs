//! Path tables: the overlay over the provider's default, edits of both levels, cors, and what else stands there.

use ringway_io::net::http1::Method;
use ringway_shards::plan::{Backend, Cors, Edit, Handler, Latency, Matching, Network, PathRule};

use super::*;

/// The first backend, of this provider, with these keys.
fn backend(provider: &str, keys: &str) -> Backend {
    let compiled = valid(&format!(
        "backends:\n  a:\n    provider: {provider}\n    origin_url: http://a\n{keys}"
    ));
    let mut backends = compiled.plan.backends;
    std::sync::Arc::into_inner(backends.remove(0)).unwrap()
}

/// Path, how it is compared, and the methods, of each rule.
fn shape(rules: &[PathRule]) -> Vec<(&str, bool, Vec<&'static str>)> {
    let methods = [
        ("GET", Method::Get),
        ("HEAD", Method::Head),
        ("POST", Method::Post),
        ("PUT", Method::Put),
        ("DELETE", Method::Delete),
        ("CONNECT", Method::Connect),
        ("OPTIONS", Method::Options),
        ("PATCH", Method::Patch),
        ("PURGE", Method::Purge),
        ("OTHER", Method::Other),
    ];
    let row = |rule: &PathRule| {
        let served = methods.iter().filter(|(_, m)| rule.methods.contain(*m));
        let mut served: Vec<&str> = served.map(|(name, _)| *name).collect();
        if served.len() == methods.len() {
            served = vec!["*"];
        }
        // No part of "all".
        if rule.methods.contain(Method::Trace) {
            served.push("TRACE");
        }
        (
            rule.path.to_string(),
            rule.matching == Matching::Prefix,
            served,
        )
    };
    let rows: Vec<_> = rules.iter().map(row).collect();
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    rows.into_iter()
        .map(|(path, prefix, m)| (leak(path), prefix, m))
        .collect()
}

#[test]
fn without_paths_everything_is_forwarded() {
    let plain = backend("rp", "");
    assert_eq!(shape(&plain.paths), [("/", true, vec!["*"])]);
    let rule = &plain.paths[0];
    assert!(matches!(rule.handler, Handler::Forward) && rule.counted);
    assert!(rule.edits.is_none() && rule.authenticator.is_none());
    assert_eq!(rule.cors, Cors::Legacy);
    assert_eq!(plain.latency, None);
    assert_eq!(plain.compressible_types.len(), 9);
    assert_eq!(&*plain.compressible_types[0], "text/html");
}

#[test]
fn exact_paths_come_first_then_prefixes_the_longest_first() {
    let rules = backend(
        "rp",
        "    paths:\n    - {path: /a, match_type: prefix, methods: ['*']}\n    - {path: /abc, match_type: prefix, methods: [PURGE]}\n    - {path: /z}\n    - {path: /a, methods: [POST, DELETE]}\n",
    )
    .paths;
    assert_eq!(
        shape(&rules),
        [
            ("/z", false, vec!["GET", "HEAD"]),
            ("/a", false, vec!["POST", "DELETE"]),
            ("/abc", true, vec!["PURGE"]),
            ("/a", true, vec!["*"]),
            ("/", true, vec!["*"]),
        ]
    );
}

#[test]
fn an_entry_takes_its_methods_from_the_default_which_keeps_the_others() {
    let rules = backend(
        "rp",
        "    response_headers: {A: '1'}\n    paths:\n    - {path: /, match_type: prefix, methods: [GET], handler: localresponse, response_body: hi}\n    - {path: /, match_type: prefix, methods: [PUT]}\n    - {path: /}\n",
    )
    .paths;
    assert_eq!(
        shape(&rules),
        [
            ("/", false, vec!["GET", "HEAD"]),
            ("/", true, vec!["GET", "HEAD"]),
            ("/", true, vec!["PUT"]),
            (
                "/",
                true,
                vec![
                    "POST", "DELETE", "CONNECT", "OPTIONS", "PATCH", "PURGE", "OTHER"
                ]
            ),
        ]
    );
    let Handler::Local(answer) = &rules[1].handler else {
        panic!("forwarded");
    };
    assert_eq!((answer.status, &*answer.body), (200, &b"hi"[..]));
    for rule in rules.iter() {
        let edits = rule.edits.as_ref().unwrap();
        assert_eq!(edits.response_headers, [Edit::set("A", "1")]);
    }
    let all = backend(
        "rp",
        "    paths: [{path: /, match_type: prefix, methods: ['*']}]\n",
    )
    .paths;
    assert_eq!(shape(&all), [("/", true, vec!["*"])]);
}

#[test]
fn edits_of_a_backend_come_before_those_of_its_paths() {
    let rules = backend(
        "rp",
        "\x20   request_headers: {Authorization: 'Bearer ${TOKEN}', -Cookie: , +X-Hop: one, Host: 'h:80'}
    request_params: {+a: b, -c: }
    paths:
    - path: /x
      request_headers: {Authorization: none}
      response_headers: {-Server: '', +Vary: Accept, X: '$$5'}
      response_code: 503
      response_body: gone
    - {path: /y, handler: localresponse, response_code: 404, request_headers: {A: b}}
",
    )
    .paths;
    let edits = rules[0].edits.as_ref().unwrap();
    assert_eq!(
        edits.request_headers,
        [
            Edit::set("Authorization", "Bearer s3cret"),
            Edit::remove("Cookie"),
            Edit::append("X-Hop", "one"),
            Edit::set("Host", "h:80"),
            Edit::set("Authorization", "none"),
        ]
    );
    assert_eq!(
        edits.request_params,
        [Edit::append("a", "b"), Edit::remove("c")]
    );
    assert_eq!(
        edits.response_headers,
        [
            Edit::remove("Server"),
            Edit::append("Vary", "Accept"),
            Edit::set("X", "$5")
        ]
    );
    assert_eq!(edits.response_code, Some(503));
    assert_eq!(edits.response_body.as_deref(), Some(&b"gone"[..]));
    let Handler::Local(answer) = &rules[1].handler else {
        panic!("forwarded");
    };
    assert_eq!((answer.status, answer.body.len()), (404, 0));
    assert!(
        rules[1].edits.is_none(),
        "nothing of a local answer is edited"
    );
    let default = rules[2].edits.as_ref().unwrap();
    assert_eq!(default.request_headers.len(), 4);
    assert_eq!(default.response_code, None);
}

#[test]
fn a_path_has_its_own_cors_authenticator_and_metrics_or_the_backends() {
    let text = "\
authenticators:
  k: {provider: basic, users: {u: p}}
  o: {provider: clickhouse, observe_only: true}
backends:
  a:
    provider: rp
    origin_url: http://a
    authenticator_name: o
    cors: {mode: merge, headers: {+Access-Control-Allow-Headers: X, -access-control-max-age: }}
    paths:
    - {path: /1, cors: {}, authenticator_name: k, no_metrics: true}
    - {path: /2, cors: {headers: {Access-Control-Allow-Origin: 'https://${TOKEN}'}}, authenticator_name: none}
    - {path: /3, cors: {mode: preserve}, authenticator_name: ''}
    - {path: /4, cors: {mode: disable}}
";
    let plan = valid(text).plan;
    let rules = &plan.backends[0].paths;
    let names: Vec<_> = rules
        .iter()
        .map(|rule| rule.authenticator.map(|id| id.0))
        .collect();
    assert_eq!(names, [Some(0), None, None, Some(1), Some(1)]);
    let cors: Vec<&Cors> = rules.iter().map(|rule| &rule.cors).collect();
    assert_eq!(
        cors,
        [
            &Cors::Replace(vec![]),
            &Cors::Replace(vec![Edit::set(
                "Access-Control-Allow-Origin",
                "https://s3cret"
            )]),
            &Cors::Preserve,
            &Cors::Disable,
            &Cors::Merge(vec![
                Edit::append("Access-Control-Allow-Headers", "X"),
                Edit::remove("access-control-max-age"),
            ]),
        ]
    );
    let counted: Vec<bool> = rules.iter().map(|rule| rule.counted).collect();
    assert_eq!(counted, [false, true, true, true, true]);
}

#[test]
fn handlers_are_those_of_the_provider() {
    let rules = backend(
        "prometheus",
        "    paths:\n    - {path: /api/v1/query, handler: query, methods: [GET, POST]}\n    - {path: /api/v1/admin, match_type: prefix, methods: ['*'], handler: admin}\n",
    )
    .paths;
    assert!(matches!(rules[0].handler, Handler::Forward));
    let Handler::Local(refusal) = &rules[1].handler else {
        panic!("forwarded");
    };
    assert_eq!(refusal.status, 400);
    let body: serde_json::Value = serde_json::from_slice(&refusal.body).unwrap();
    assert_eq!(body["status"], "error");
    let edits = rules[1].edits.as_ref().unwrap();
    assert_eq!(
        edits.response_headers,
        [Edit::set("Content-Type", "application/json")]
    );
    let plan = valid(
        "backends:\n  a: {provider: alb, paths: [{path: /x}, {path: /y, handler: localresponse}], alb: {pool: []}}\n",
    )
    .plan;
    let rules = &plan.backends[0].paths;
    assert!(matches!(rules[0].handler, Handler::Forward));
    assert!(matches!(rules[1].handler, Handler::Local(_)));
}

#[test]
fn latency_is_a_range_or_one_time() {
    let ms = Duration::from_millis;
    for (keys, expected) in [
        ("", None),
        ("    latency_min: 0\n    latency_max: 0s\n", None),
        ("    latency_min: 5ms\n", Some((5, 5))),
        ("    latency_max: 7ms\n", Some((0, 7))),
        ("    latency_min: 5ms\n    latency_max: 7ms\n", Some((5, 7))),
    ] {
        let expected = expected.map(|(min, max)| Latency {
            min: ms(min),
            max: ms(max),
        });
        assert_eq!(backend("rp", keys).latency, expected, "{keys}");
    }
}

#[test]
fn content_types_are_compared_in_lower_case() {
    let types = |list: &str| {
        let keys = format!("    compressible_types: {list}\n");
        backend("rp", &keys).compressible_types
    };
    assert!(types("[]").is_empty());
    assert_eq!(
        *types("[Text/*, image/svg+xml]"),
        [Box::<str>::from("text/*"), Box::from("image/svg+xml")]
    );
}

#[test]
fn proxies_are_trusted_by_network() {
    let trusted = |list: &str| {
        let text = format!("listeners: {{default: {{{list}}}}}\n{WEB}");
        let listeners = valid(&text).plan.listeners;
        listeners[0].trusted_proxies.clone()
    };
    assert_eq!(trusted(""), None);
    assert_eq!(trusted("trusted_proxies: []"), Some(vec![]));
    let network = |address: &str, prefix| Network {
        address: address.parse().unwrap(),
        prefix,
    };
    assert_eq!(
        trusted("trusted_proxies: [10.0.0.0/8, '::1', '::ffff:192.0.2.1']"),
        Some(vec![
            network("10.0.0.0", 8),
            network("::1", 128),
            network("192.0.2.1", 32)
        ])
    );
}

#[test]
fn a_backend_has_a_thousand_paths_and_no_more() {
    let keys = |count: usize| {
        let entries: String = (0..count)
            .map(|n| format!("    - {{path: /{n}}}\n"))
            .collect();
        format!(
            "backends:\n  a:\n    provider: rp\n    origin_url: http://a\n    paths:\n{entries}"
        )
    };
    assert_eq!(valid(&keys(1_000)).plan.backends[0].paths.len(), 1_001);
    assert_eq!(
        problems(&keys(1_001)),
        ["a.yaml:5:5: backends.a.paths: more than 1000 paths of one backend"]
    );
}
