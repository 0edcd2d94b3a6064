//! What is refused, and in which words.

use super::*;

/// One bad configuration and all that is said of it.
type Row = (&'static str, &'static [&'static str]);

#[test]
fn bad_configurations_are_refused_with_their_places() {
    let table = [
        YAML, KEYS, BACKENDS, ALBS, MECHANISMS, LISTENERS, REST, ECHOES,
    ]
    .concat();
    assert_rows(table.into_iter().map(|(text, expected)| {
        let found = problems(text);
        (text.to_owned(), found, expected.to_vec())
    }));
}

const YAML: &[Row] = &[
    (
        "- a\n",
        &[
            "a.yaml:1:1: a configuration file is a mapping of sections such as `backends:`, not a list",
        ],
    ),
    (
        "main: {}\n---\nmain: {}\n",
        &[
            "a.yaml:2:1: only one YAML document per file; put the second in its own file under conf.d",
        ],
    ),
    (
        "main:\n  server_name: a\n  server_name: b\n",
        &["a.yaml:3:3: key `server_name` is written twice in this mapping"],
    ),
    (
        "? [a]\n: b\n",
        &["a.yaml:1:3: a key must be a single value"],
    ),
    (
        "main: &m {x: *m}\n",
        &["a.yaml:1:14: an alias must not refer to the value it stands in"],
    ),
    (
        "main: !thing {}\n",
        &["a.yaml:1:7: tag !thing is not supported; remove it"],
    ),
    (
        "main:\n  <<: 5\n",
        &["a.yaml:2:3: `<<` takes a mapping or a list of mappings"],
    ),
    (
        "main: {server_name: }\nmain: {}\n",
        &["a.yaml:2:1: key `main` is written twice in this mapping"],
    ),
];

const KEYS: &[Row] = &[
    (
        "bakends: {}\n",
        &["a.yaml:1:1: bakends: unknown key; did you mean \"backends\"?"],
    ),
    (
        "backends:\n  a:\n    provider: rp\n    origin_url: http://a\n    timeuot: 1s\n",
        &["a.yaml:5:5: backends.a.timeuot: unknown key; did you mean \"timeout\"?"],
    ),
    (
        "backends: {a: {provider: rp, origin_url: 'http://a', labels: {x: y}}}\n",
        &[
            "a.yaml:1:54: backends.a.labels: unknown key; it belongs at backends.<name>.prometheus.labels",
        ],
    ),
    (
        "backends: {a: {provider: alb, alb: {authenticator_name: x, pool: []}}}\n",
        &[
            "a.yaml:1:37: backends.a.alb.authenticator_name: unknown key; it belongs at backends.<name>.authenticator_name",
        ],
    ),
    (
        "backends: {a: {provider: rp, origin_url: 'http://a', zzz: 1}}\n",
        &["a.yaml:1:54: backends.a.zzz: unknown key"],
    ),
    (
        "caches: {default: {provider: memory}}\n",
        &["a.yaml:1:1: caches: not built yet: caching; remove this key"],
    ),
    (
        "negative-caches: {default: {'404': 500}}\n",
        &["a.yaml:1:1: negative-caches: not built yet: caching; remove this key"],
    ),
    (
        "kind: Pool\nversion: v1\n",
        &[
            "a.yaml:1:1: kind: not built yet: resource documents of the forward proxy; remove this key",
            "a.yaml:2:1: version: not built yet: resource documents of the forward proxy; remove this key",
        ],
    ),
    (
        "backends: {a: {provider: rp, origin_url: 'http://a', paths: [{req_rewriter_name: x, handler: proxycache}], req_rewriter_name: x}}\n",
        &[
            "a.yaml:1:82: backends.a.paths[0].req_rewriter_name: unknown rewriter \"x\"",
            "a.yaml:1:94: backends.a.paths[0].handler: not built yet: caching; remove this key",
            "a.yaml:1:127: backends.a.req_rewriter_name: unknown rewriter \"x\"",
        ],
    ),
    (
        "main: []\n",
        &["a.yaml:1:7: main: expected a mapping, found a list"],
    ),
    (
        "main: {instance_id: x, server_name: [a]}\n",
        &[
            "a.yaml:1:21: main.instance_id: expected a whole number from 0 to 65535, found \"x\"",
            "a.yaml:1:37: main.server_name: expected a text, found a list",
        ],
    ),
    (
        "logging: {log_level: loud}\n",
        &[
            "a.yaml:1:22: logging.log_level: expected one of error, warn, fatal, info, debug, found \"loud\"",
        ],
    ),
    (
        "backends: {a: {provider: rp, origin_url: 'http://a', timeout: 5}}\n",
        &[
            "a.yaml:1:63: backends.a.timeout: expected a duration such as 500ms, 10s, 1h30m or 2d, at least 1ms, found \"5\"",
        ],
    ),
    (
        "backends: {a: {provider: rp, origin_url: 'http://a', timeout: -5s}}\n",
        &[
            "a.yaml:1:63: backends.a.timeout: expected a duration such as 500ms, 10s, 1h30m or 2d, at least 1ms, found \"-5s\"",
        ],
    ),
    (
        "backends: {a: {provider: rp, origin_url: 'http://a', is_default: maybe, hosts: x, max_idle_conns: -1}}\n",
        &[
            "a.yaml:1:66: backends.a.is_default: expected true or false, found \"maybe\"",
            "a.yaml:1:80: backends.a.hosts: expected a list, found a single value",
            "a.yaml:1:99: backends.a.max_idle_conns: expected a whole number from 1 to 1000000, found \"-1\"",
        ],
    ),
    (
        "backends: {a: {provider: rp, origin_url: 'http://a', alb: {}, prometheus: {}}}\n",
        &[
            "a.yaml:1:54: backends.a.alb: not a key of provider reverseproxy; it is for provider alb",
            "a.yaml:1:63: backends.a.prometheus: not a key of provider reverseproxy; it is for provider prometheus",
        ],
    ),
    (
        "backends: {a: {provider: alb, origin_url: 'http://a', healthcheck: {}, tls: {client_key_path: x}, alb: {pool: []}}}\n",
        &[
            "a.yaml:1:31: backends.a.origin_url: not a key of provider alb; it is for providers with an origin",
            "a.yaml:1:55: backends.a.healthcheck: not a key of provider alb; it is for providers with an origin",
            "a.yaml:1:78: backends.a.tls.client_key_path: not a key of provider alb; it is for providers with an origin",
        ],
    ),
    (
        "backends: {a: {provider: rp, origin_url: 'http://a', healthcheck: {timeout: 31s, verb: FETCH, expected_codes: [200, 99]}}}\n",
        &[
            "a.yaml:1:77: backends.a.healthcheck.timeout: expected a duration such as 500ms, 10s, 1h30m or 2d, from 100ms to 30s, found \"31s\"",
            "a.yaml:1:88: backends.a.healthcheck.verb: expected one of GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH, TRACE, found \"FETCH\"",
            "a.yaml:1:117: backends.a.healthcheck.expected_codes[1]: expected a status code such as 200, or a range such as 200-299, found \"99\"",
        ],
    ),
    (
        "backends: {a: {provider: rp, origin_url: 'http://a', healthcheck: {headers: {'a b': x, C: \"d\\u0001\"}}}}\n",
        &[
            "a.yaml:1:78: backends.a.healthcheck.headers.\"a b\": header \"a b\" is not valid",
            "a.yaml:1:91: backends.a.healthcheck.headers.C: the value of header C has characters that no header may have",
        ],
    ),
    (
        "shards: {count: 0, driver: fast, cpus: 3-1}\n",
        &[
            "a.yaml:1:17: shards.count: expected auto or a whole number from 1 to 1024, found \"0\"",
            "a.yaml:1:28: shards.driver: expected one of auto, io_uring, epoll, found \"fast\"",
            "a.yaml:1:40: shards.cpus: expected a processor list such as 2-5,8, found \"3-1\"",
        ],
    ),
];

const BACKENDS: &[Row] = &[
    (
        "",
        &[
            "a.yaml:1:1: backends: no backend is configured: add a `backends` section (docs/configuration.md shows one), pass -origin-url with -provider, or try `ringway demo`",
        ],
    ),
    (
        "backends: {default: {max_capture_bytes: 5}}\n",
        &[
            "a.yaml:1:1: backends: no backend is configured: add a `backends` section (docs/configuration.md shows one), pass -origin-url with -provider, or try `ringway demo`",
        ],
    ),
    (
        "backends:\n  a:\n",
        &["a.yaml:2:3: backends.a.provider: provider is required"],
    ),
    (
        "backends: {default: {timeout: 5s}}\n",
        &[
            "a.yaml:1:12: backends.default: without a provider the entry `default` may only set max_capture_bytes and max_fanout_capture_bytes",
        ],
    ),
    (
        "backends: {default: {origin_url: 'http://a'}}\n",
        &["a.yaml:1:12: backends.default.provider: provider is required"],
    ),
    (
        "backends: {a: {provider: promethus}}\n",
        &[
            "a.yaml:1:26: backends.a.provider: provider \"promethus\" is unknown; did you mean \"prometheus\"?; known are prometheus, reverseproxy, alb and rule",
        ],
    ),
    (
        "backends: {b: {provider: clickhouse}, c: {provider: inflxudb}}\n",
        &[
            "a.yaml:1:26: backends.b.provider: not built yet: provider clickhouse; known are prometheus, reverseproxy, alb and rule",
            "a.yaml:1:53: backends.c.provider: provider \"inflxudb\" is unknown; did you mean \"influxdb\"?; known are prometheus, reverseproxy, alb and rule",
        ],
    ),
    (
        "backends: {frontend: {provider: rp}, '': {provider: rp}}\n",
        &[
            "a.yaml:1:12: backends.frontend: the name `frontend` is reserved",
            "a.yaml:1:38: backends.\"\": a name must not be empty",
        ],
    ),
    (
        "backends: {a: {provider: rp}, b: {provider: rp, origin_url: ''}}\n",
        &[
            "a.yaml:1:12: backends.a.origin_url: origin_url is required",
            "a.yaml:1:49: backends.b.origin_url: origin_url is required",
        ],
    ),
    (
        "backends: {a: {provider: rp, origin_url: 'a:80'}, b: {provider: rp, origin_url: 'http://u:p@a'}}\n",
        &[
            "a.yaml:1:42: backends.a.origin_url: it has no scheme; write it as http://host:port/prefix or https://…",
            "a.yaml:1:81: backends.b.origin_url: it must not hold credentials; write it as http://host:port/prefix or https://…",
        ],
    ),
    (
        "backends: {a: {provider: rp, origin_url: [x]}}\n",
        &["a.yaml:1:42: backends.a.origin_url: expected a text, found a list"],
    ),
    (
        "backends: {a: {provider: rp, origin_url: 'http://a', replica_group: g}}\n",
        &[
            "a.yaml:1:54: backends.a.replica_group: replica_group is for backends of provider prometheus and for ALBs in a time series merge",
        ],
    ),
    (
        "backends: {a: {provider: prometheus, origin_url: 'http://a', prometheus: {labels: {'a-b': x, __name__: y}}}}\n",
        &[
            "a.yaml:1:84: backends.a.prometheus.labels.a-b: \"a-b\" is not a label name",
            "a.yaml:1:94: backends.a.prometheus.labels.__name__: \"__name__\" is not a label name",
        ],
    ),
    (
        "backends: {a: {provider: rp, origin_url: 'http://a', hosts: [x.y, 'x:80', 'http://x', '*.y']}}\n",
        &[
            "a.yaml:1:67: backends.a.hosts[1]: \"x:80\" is not a host name: leave the port out: hosts are matched without it",
            "a.yaml:1:75: backends.a.hosts[2]: \"http://x\" is not a host name: \"//x\" is not a port",
            "a.yaml:1:87: backends.a.hosts[3]: \"*.y\" is not a host name: \"*\" is not a part of a host name",
        ],
    ),
    (
        "backends: {a: {provider: rp, origin_url: 'http://a', hosts: [x.y]}, b: {provider: rp, origin_url: 'http://a', hosts: [X.Y]}}\n",
        &[
            "a.yaml:1:119: backends.b.hosts[0]: \"X.Y\" is already a host of backend a on listener default",
        ],
    ),
    (
        "backends: {a: {provider: rp, origin_url: 'http://a', is_default: true}, b: {provider: rp, origin_url: 'http://a', is_default: true}}\n",
        &[
            "a.yaml:1:115: backends.b.is_default: a is already the default backend of listener default",
        ],
    ),
    (
        "backends: {a: {provider: rp, origin_url: 'http://a', listener_name: edg}, b: {provider: rp, origin_url: 'http://a', listener_name: mgmt}}\nlisteners: {edge: {port: 1}}\n",
        &[
            "a.yaml:1:69: backends.a.listener_name: unknown listener \"edg\"; did you mean \"edge\"?",
            "a.yaml:1:132: backends.b.listener_name: listener mgmt is for administration; choose another",
        ],
    ),
    (
        "backends: {t: {provider: alb, is_template: true, is_default: true, alb: {}}}\n",
        &[
            "a.yaml:1:31: backends.t.is_template: provider alb cannot be a template",
            "a.yaml:1:50: backends.t.is_default: a template is never the default backend",
        ],
    ),
    (
        "backends: {a: {provider: rp, origin_url: 'https://a', tls: {client_cert_path: c.pem, private_key_path: k.pem}}}\n",
        &[
            "a.yaml:1:61: backends.a.tls.client_cert_path: client_key_path is needed as well: a certificate and its key go together",
            "a.yaml:1:86: backends.a.tls.private_key_path: full_chain_cert_path is needed as well: a certificate and its key go together",
        ],
    ),
];

const ALBS: &[Row] = &[
    (
        "backends: {a: {provider: alb}}\n",
        &["a.yaml:1:12: backends.a.alb: a backend of provider alb needs an `alb` block"],
    ),
    (
        "backends: {a: {provider: alb, alb: {mechanism: ffr, pool: []}, b: {}}}\n",
        &[
            "a.yaml:1:48: backends.a.alb.mechanism: mechanism \"ffr\" is unknown; did you mean \"fgr\"?; known are rr, tsm, fr, fgr, nlm and ur",
            "a.yaml:1:64: backends.a.b: unknown key",
        ],
    ),
    (
        "backends: {a: {provider: alb, alb: {mechanism: rrr}}}\n",
        &[
            "a.yaml:1:48: backends.a.alb.mechanism: mechanism \"rrr\" is unknown; did you mean \"rr\"?; known are rr, tsm, fr, fgr, nlm and ur",
        ],
    ),
    (
        "backends: {a: {provider: alb, alb: {pool: [a]}}}\n",
        &["a.yaml:1:44: backends.a.alb.pool[0]: an ALB cannot be a member of its own pool"],
    ),
    (
        "backends:\n  node01: {provider: rp, origin_url: 'http://a'}\n  w: {provider: alb, alb: {pool: [node1, {name: nobody}, {weight: 2}, [x], {name: node01, weight: -1}]}}\n",
        &[
            "a.yaml:3:35: backends.w.alb.pool[0]: \"node1\" is not a configured backend; did you mean \"node01\"?",
            "a.yaml:3:49: backends.w.alb.pool[1].name: \"nobody\" is not a configured backend",
            "a.yaml:3:58: backends.w.alb.pool[2]: name is required",
            "a.yaml:3:71: backends.w.alb.pool[3]: expected a backend name, or a mapping with name and weight, found a list",
            "a.yaml:3:99: backends.w.alb.pool[4].weight: expected a whole number from 0 to 1000000, found \"-1\"",
        ],
    ),
    (
        "backends:\n  x: {provider: alb, alb: {pool: [y]}}\n  y: {provider: alb, alb: {pool: [z]}}\n  z: {provider: alb, alb: {pool: [x]}}\n",
        &["a.yaml:2:35: backends.x.alb.pool[0]: these ALBs lead back to themselves: x > y > z > x"],
    ),
    (
        "backends:\n  default: {max_capture_bytes: 1}\n  t: {provider: rp, is_template: true}\n  w: {provider: alb, alb: {pool: [default, t]}}\n",
        &[
            "a.yaml:4:35: backends.w.alb.pool[0]: \"default\" is only the entry of common settings: it has no provider",
            "a.yaml:4:44: backends.w.alb.pool[1]: \"t\" is a template; only discovery makes members of it",
        ],
    ),
    (
        "backends:\n  o: {provider: rp, origin_url: 'http://a'}\n  n: {provider: alb, alb: {pool: [o]}}\n  w: {provider: alb, alb: {mechanism: tsm, pool: [n]}}\n",
        &[
            "a.yaml:4:51: backends.w.alb.pool[0]: a time series merge needs members of provider prometheus; o is of provider reverseproxy (by way of w > n > o)",
        ],
    ),
    (
        "backends:\n  p: {provider: prometheus, origin_url: 'http://a'}\n  w: {provider: alb, replica_group: g, alb: {pool: [p], tsm: {}, output_format: prometheus}}\n",
        &[
            "a.yaml:3:22: backends.w.replica_group: replica_group has no meaning here: this ALB is not a member of a time series merge",
            "a.yaml:3:57: backends.w.alb.tsm: not a key of mechanism rr; it is for mechanism tsm",
            "a.yaml:3:66: backends.w.alb.output_format: not a key of mechanism rr; it is for mechanism tsm",
        ],
    ),
    (
        "backends:\n  p: {provider: prometheus, origin_url: 'http://a'}\n  w: {provider: alb, alb: {mechanism: tsm, pool: [p], output_format: influxdb, healthy_floor: 2, tsm: {strict: maybe}}}\n",
        &[
            "a.yaml:3:70: backends.w.alb.output_format: \"influxdb\" cannot be merged; write prometheus or remove the key",
            "a.yaml:3:95: backends.w.alb.healthy_floor: expected a whole number from -1 to 1, found \"2\"",
            "a.yaml:3:112: backends.w.alb.tsm.strict: expected true or false, found \"maybe\"",
        ],
    ),
    (
        "backends:\n  p: {provider: prometheus, origin_url: 'http://a'}\n  w: {provider: alb, alb: {mechanism: tsm, pool: [p], tsm: {promql_version: '1.8', partition_labels: [a, __name__], expected_groups: [x, y, x]}}}\n",
        &[
            "a.yaml:3:77: backends.w.alb.tsm.promql_version: \"1.8\" is not a version of Prometheus; write one such as \"2.53\"",
            "a.yaml:3:106: backends.w.alb.tsm.partition_labels[1]: \"__name__\" cannot tell groups apart: name labels of series",
            "a.yaml:3:141: backends.w.alb.tsm.expected_groups[2]: replica group \"x\" is named twice",
        ],
    ),
    (
        "backends:\n  p: {provider: prometheus, origin_url: 'http://a'}\n  w: {provider: alb, alb: {mechanism: tsm, pool: [p], tsm: {expected_groups: [], lookback_delta: 0s, partial_response: no, max_series: -1}}}\n",
        &[
            "a.yaml:3:78: backends.w.alb.tsm.expected_groups: no group: name some, or say how many, or remove the key",
            "a.yaml:3:98: backends.w.alb.tsm.lookback_delta: expected a duration such as 500ms, 10s, 1h30m or 2d, at least 1ms, found \"0s\"",
            "a.yaml:3:120: backends.w.alb.tsm.partial_response: expected one of warn, fail, found \"no\"",
            "a.yaml:3:136: backends.w.alb.tsm.max_series: expected a whole number from 0 to 1125899906842624, found \"-1\"",
        ],
    ),
];

const MECHANISMS: &[Row] = &[
    (
        "backends:\n  o: {provider: rp, origin_url: 'http://a'}\n  w: {provider: alb, alb: {mechanism: ur, pool: [o], healthy_floor: 0}}\n",
        &[
            "a.yaml:3:22: backends.w.alb.user_router: mechanism ur needs a `user_router` block",
            "a.yaml:3:43: backends.w.alb.pool: not a key of mechanism ur; it is for mechanisms with a pool",
            "a.yaml:3:54: backends.w.alb.healthy_floor: not a key of mechanism ur; it is for mechanisms with a pool",
        ],
    ),
    (
        "backends:\n  o: {provider: rp, origin_url: 'http://a'}\n  w: {provider: alb, alb: {mechanism: fr, pool: [o], fgr: {}, fgr_status_codes: [200], nlm: {}, user_router: {}, retry: {}}}\n",
        &[
            "a.yaml:3:54: backends.w.alb.fgr: not a key of mechanism fr; it is for mechanism fgr",
            "a.yaml:3:63: backends.w.alb.fgr_status_codes: not a key of mechanism fr; it is for mechanism fgr",
            "a.yaml:3:88: backends.w.alb.nlm: not a key of mechanism fr; it is for mechanism nlm",
            "a.yaml:3:97: backends.w.alb.user_router: not a key of mechanism fr; it is for mechanism ur",
            "a.yaml:3:114: backends.w.alb.retry: not a key of mechanism fr; it is for mechanisms rr and ur",
        ],
    ),
    (
        "backends:\n  one: {provider: rp, origin_url: 'http://a'}\n  t: {provider: rp, is_template: true}\n  w: {provider: alb, alb: {mechanism: ur, user_router: {default_backend: oen, no_route_status_code: 399, users: {a: {to_backend: w}, b: {to_backend: t, to_bakend: one}, c: {to_backend: nobody}}}}}\n",
        &[
            "a.yaml:4:74: backends.w.alb.user_router.default_backend: \"oen\" is not a configured backend; did you mean \"one\"?",
            "a.yaml:4:101: backends.w.alb.user_router.no_route_status_code: expected a whole number from 400 to 599, found \"399\"",
            "a.yaml:4:130: backends.w.alb.user_router.users.a.to_backend: a user router cannot route to itself",
            "a.yaml:4:150: backends.w.alb.user_router.users.b.to_backend: \"t\" is a template; only discovery makes members of it",
            "a.yaml:4:153: backends.w.alb.user_router.users.b.to_bakend: unknown key; did you mean \"to_backend\"?",
            "a.yaml:4:186: backends.w.alb.user_router.users.c.to_backend: \"nobody\" is not a configured backend",
        ],
    ),
    (
        "backends:\n  x: {provider: alb, alb: {mechanism: ur, user_router: {users: {u: {to_backend: y}}}}}\n  y: {provider: alb, alb: {pool: [z]}}\n  z: {provider: alb, alb: {mechanism: user_router, user_router: {default_backend: x}}}\n",
        &[
            "a.yaml:2:81: backends.x.alb.user_router.users.u.to_backend: these ALBs lead back to themselves: x > y > z > x",
        ],
    ),
    (
        "backends:\n  o: {provider: rp, origin_url: 'http://a'}\n  p: {provider: prometheus, origin_url: 'http://a'}\n  n: {provider: alb, alb: {pool: [p]}}\n  w: {provider: alb, alb: {mechanism: ur, user_router: {default_backend: o, users: {u: {to_backend: n}}}}}\n",
        &[
            "a.yaml:5:101: backends.w.alb.user_router.users.u.to_backend: all routes of a user router end at one provider: w > n > p ends at prometheus, but o is of reverseproxy",
        ],
    ),
    (
        "backends:\n  o: {provider: rp, origin_url: 'http://a'}\n  r: {provider: alb, alb: {mechanism: ur, user_router: {default_backend: o}}}\n  w: {provider: alb, alb: {mechanism: tsm, pool: [r]}}\n",
        &[
            "a.yaml:4:51: backends.w.alb.pool[0]: a time series merge needs members of provider prometheus; o is of provider reverseproxy (by way of w > r > o)",
        ],
    ),
    (
        "backends:\n  o: {provider: rp, origin_url: 'http://a'}\n  w: {provider: alb, alb: {pool: [o], retry: {attempts: 11, budget_percent: 101, try_timeout: 0}, ejection: {consecutive_failures: -1, time: 1ms}}}\n",
        &[
            "a.yaml:3:57: backends.w.alb.retry.attempts: expected a whole number from 0 to 10, found \"11\"",
            "a.yaml:3:77: backends.w.alb.retry.budget_percent: expected a whole number from 0 to 100, found \"101\"",
            "a.yaml:3:95: backends.w.alb.retry.try_timeout: expected a duration such as 500ms, 10s, 1h30m or 2d, at least 1ms, found \"0\"",
            "a.yaml:3:132: backends.w.alb.ejection.consecutive_failures: expected a whole number from 0 to 1000000, found \"-1\"",
            "a.yaml:3:142: backends.w.alb.ejection.time: expected a duration such as 500ms, 10s, 1h30m or 2d, from 100ms to 1d, found \"1ms\"",
        ],
    ),
];

const LISTENERS: &[Row] = &[
    (
        "listeners: {default: {port: 70000, protocol: mysql, address: nowhere}}\nbackends: {a: {provider: rp, origin_url: 'http://a'}}\n",
        &[
            "a.yaml:1:29: listeners.default.port: expected a port from 1 to 65535, 0 for off or `any` for a free one, found \"70000\"",
            "a.yaml:1:46: listeners.default.protocol: not built yet: protocol mysql; only http is",
            "a.yaml:1:62: listeners.default.address: \"nowhere\" is not an address; write an IP address, or leave it out for all",
        ],
    ),
    (
        "listeners: {default: {port: 8481}}\nbackends: {a: {provider: rp, origin_url: 'http://a'}}\n",
        &["a.yaml:1:29: listeners.default.port: [::]:8481 is already taken by listener metrics"],
    ),
    (
        "listeners: {e: {port: 9, address: 127.0.0.1}, f: {port: 9, address: '::'}}\nbackends: {a: {provider: rp, origin_url: 'http://a', listener_name: e}, b: {provider: rp, origin_url: 'http://a', listener_name: f}}\n",
        &["a.yaml:1:57: listeners.f.port: [::]:9 is already taken by listener e"],
    ),
    (
        "listeners: {mgmt: {tls_port: 5, idle_timeout: 5s}}\nbackends: {a: {provider: rp, origin_url: 'http://a'}}\n",
        &[
            "a.yaml:1:20: listeners.mgmt.tls_port: TLS on listener mgmt is not built yet; remove this key",
            "a.yaml:1:33: listeners.mgmt.idle_timeout: not a key of listener mgmt, which serves administration",
        ],
    ),
    (
        "mgmt: {config_handler_path: c, ping_handler_path: /metrics, listen_port: -2}\nbackends: {a: {provider: rp, origin_url: 'http://a'}}\n",
        &[
            "a.yaml:1:29: mgmt.config_handler_path: a path begins with `/` and has no query or spaces",
            "a.yaml:1:51: mgmt.ping_handler_path: /metrics is already the path of metrics_path",
            "a.yaml:1:74: mgmt.listen_port: expected a port from 1 to 65535, or 0 or -1 for off, found \"-2\"",
        ],
    ),
];

/// One slip is one line: what follows from it is not said as well.
const ECHOES: &[Row] = &[
    (
        "backends: {a: {provider: rp, origin_url: 'http://a', paths: [{methods: [GTE]}], healthcheck: {expected_codes: [99]}}}\n",
        &[
            "a.yaml:1:73: backends.a.paths[0].methods[0]: expected one of GET, HEAD, POST, PUT, DELETE, CONNECT, OPTIONS, TRACE, PATCH, PURGE, *, found \"GTE\"",
            "a.yaml:1:112: backends.a.healthcheck.expected_codes[0]: expected a status code such as 200, or a range such as 200-299, found \"99\"",
        ],
    ),
    (
        "authenticators: {k: {provider: basic, users: {u: [x]}}, l: {provider: basic, users: {'': p}, config: {showLogin: true}}}\n",
        &[
            "a.yaml:1:50: authenticators.k.users.u: expected a text, found a list",
            "a.yaml:1:86: authenticators.l.users.\"\": not a user's name: it is empty",
            "a.yaml:1:103: authenticators.l.config.showLogin: unknown key; did you mean \"showLoginForm\"?",
        ],
    ),
    (
        "backends: {a: {provider: rp, origin_url: 'http://a', hosts: [One.Example.]}, b: {provider: rp, origin_url: 'http://b', hosts: [one.example]}, r: {provider: alb, alb: {mechanism: ur, user_router: {users: {'': {to_backend: a}}}}}}\n",
        &[
            "a.yaml:1:128: backends.b.hosts[0]: \"one.example\" is already a host of backend a on listener default",
            "a.yaml:1:205: backends.r.alb.user_router.users.\"\": not a user's name: it is empty",
        ],
    ),
];

const REST: &[Row] = &[(
    "shards: {cpus: '1,9,1', control_cpu: 1, count: 4}\nbackends: {a: {provider: rp, origin_url: 'http://a'}}\n",
    &[
        "a.yaml:1:16: shards.cpus: this machine has no usable processor 9; usable are 0,1,2,3",
        "a.yaml:1:16: shards.cpus: processor 1 is listed twice",
        "a.yaml:1:38: shards.control_cpu: processor 1 is in `cpus`; the control thread needs its own, or leave this key out",
        "a.yaml:1:48: shards.count: 4 shards cannot be pinned to 3 processors; list more or set `pin: false`",
    ],
)];

#[test]
fn a_valid_configuration_turned_invalid_in_several_places_says_them_all() {
    let bad = MERGE
        .replace("timeout: 20s", "timeout: 20")
        .replace("mechanism: tsmerge", "mechanism: mts")
        .replace("pool: [p1, p2]", "pool: [p1, p3]");
    assert_eq!(
        problems(&bad),
        [
            "a.yaml:6:14: backends.p1.timeout: expected a duration such as 500ms, 10s, 1h30m or 2d, at least 1ms, found \"20\"",
            "a.yaml:14:18: backends.all.alb.mechanism: mechanism \"mts\" is unknown; known are rr, tsm, fr, fgr, nlm and ur",
            "a.yaml:19:18: backends.all.alb.pool[1]: \"p3\" is not a configured backend; did you mean \"p1\"?",
        ]
    );
}

#[test]
fn weights_are_bounded_by_their_rotation() {
    let pool = |a: u32, b: u32| {
        format!(
            "backends:\n  a: {{provider: rp, origin_url: 'http://a'}}\n  b: {{provider: rp, origin_url: 'http://b'}}\n  \
             w: {{provider: alb, alb: {{pool: [{{name: a, weight: {a}}}, {{name: b, weight: {b}}}]}}}}\n"
        )
    };
    assert!(compiled(&pool(1_000_000, 500_000)).is_ok());
    assert_eq!(
        problems(&pool(999_999, 1)),
        [
            "a.yaml:4:28: backends.w.alb.pool: these weights make a rotation of 1000000 turns, more than 65536; write smaller ones"
        ]
    );
}

#[test]
fn every_problem_is_one_line() {
    let text = "\"a\\nb\": 1\nbackends: {a: {provider: \"x\\ty\\r\"}}\n";
    let lines = problems(text);
    assert_eq!(lines.len(), 2);
    assert!(
        lines.iter().all(|line| !line.chars().any(char::is_control)),
        "{lines:?}"
    );
}

#[test]
fn damaged_configurations_never_panic() {
    let whole = concat!(
        include_str!("../../../packaging/ringway.example.yaml"),
        "shards: {cpus: 0-3, count: 2}\nfrontend: {listen_port: 1}\n"
    );
    let lines: Vec<&str> = whole.lines().collect();
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    for _ in 0..400 {
        let mut damaged = lines.clone();
        for _ in 0..1 + next(4) {
            let (from, to) = (next(damaged.len()), next(damaged.len()));
            match next(3) {
                0 => drop(damaged.remove(from)),
                1 => damaged.insert(to, lines[next(lines.len())]),
                _ => damaged.swap(from, to),
            }
        }
        if let Err(problems) = compiled(&damaged.join("\n")) {
            assert!(!problems.is_empty());
        }
    }
}

#[test]
fn nesting_that_a_request_could_not_pass_is_refused() {
    let mut text = "backends:\n  l0: {provider: rp, origin_url: 'http://a'}\n".to_owned();
    for level in 1..=17 {
        let below = level - 1;
        text += &format!("  l{level}: {{provider: alb, alb: {{pool: [l{below}]}}}}\n");
    }
    assert_eq!(
        problems(&text),
        ["a.yaml:19:30: backends.l17.alb.pool: ALBs are nested more than 16 levels deep here"]
    );
}

#[test]
fn a_pool_has_ten_thousand_entries_and_no_more() {
    let text = |count: usize| {
        let pool = "o, ".repeat(count);
        format!(
            "backends:\n  o: {{provider: rp, origin_url: 'http://a'}}\n  w: {{provider: alb, alb: {{pool: [{pool}]}}}}\n"
        )
    };
    assert_eq!(valid(&text(10_000)).plan.pools[0].members.len(), 10_000);
    assert_eq!(
        problems(&text(10_001)),
        ["a.yaml:3:28: backends.w.alb.pool: more than 10000 members in one pool"]
    );
}

#[test]
fn secrets_do_not_appear_in_problems() {
    let text = "backends: {a: {provider: rp, origin_url: 'http://a', healthcheck: {headers: {A: \"${TOKEN}\\u0001\"}}}}\n";
    assert!(problems(text).iter().all(|line| !line.contains("s3cret")));
}
