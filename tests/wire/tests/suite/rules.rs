//! Rules and rewriters end to end: the contract's examples, and what a request meets on its way through rules, pools
//! and fan-outs. Case by case they are in `tests/golden/rules.yaml`.

use ringway_wire::{Answer, Origin, Port, Ringway, Setup, eventually, ok, run};

use crate::fan_out::silent;

/// An origin that answers its name.
fn named(name: &'static str) -> Origin {
    Origin::answering(move |_| ok(name))
}

fn ask(ringway: &Ringway, method: &str, path: &str, headers: &str) -> Answer {
    let request = format!("{method} {path} HTTP/1.1\r\nHost: a.test\r\n{headers}\r\n");
    ringway.client().send(request).answer_to(method)
}

/// Backends of the contract's first two examples around this rule, but for where the clusters are.
fn clusters(rule: &str, reader: &Origin, writer: &Origin) -> Ringway {
    let (reader, writer) = (reader.address(), writer.address());
    let yaml = format!(
        "rules:\n  example-user-router:\n    next_route: example-reader-cluster\n{rule}\
         \x20   cases:\n{{}}\
         backends:\n  example:\n    provider: rule\n    rule_name: example-user-router\n  \
         example-reader-cluster:\n    provider: rpc\n    origin_url: 'http://{reader}'\n  \
         example-writer-cluster:\n    provider: rpc\n    origin_url: 'http://{writer}'\n    \
         path_routing_disabled: true\n"
    );
    let (head, cases) = rule.split_once("    cases:\n").expect("cases come last");
    let yaml = yaml.replace(rule, head).replace("{}", cases);
    Setup::new(yaml).start()
}

#[test]
fn a_request_goes_by_the_user_of_basic_credentials() {
    let (reader, writer) = (named("reader"), named("writer"));
    let ringway = clusters(
        "    input_source: header\n    input_key: Authorization\n    input_type: string\n    \
         input_encoding: base64 # Authorization: Basic <base64string>\n    input_index: 1\n    \
         input_delimiter: ' '\n    operation: prefix\n    cases:\n      - matches: # writers\n          \
         - 'johndoe:'\n          - 'janedoe:'\n        next_route: example-writer-cluster\n",
        &reader,
        &writer,
    );
    for (credentials, expected) in [
        ("Authorization: Basic am9obmRvZTpzZWNyZXQ=\r\n", "writer"),
        ("Authorization: Basic amFuZWRvZTp4\r\n", "writer"),
        ("Authorization: Basic Ym9iOmpvaG5kb2U6\r\n", "reader"),
        ("Authorization: Basic %%%\r\n", "reader"),
        ("", "reader"),
    ] {
        let answer = ask(&ringway, "GET", "/example/path", credentials);
        assert_eq!(
            (answer.status, &*answer.text()),
            (200, expected),
            "{credentials}"
        );
    }
    assert_eq!(reader.next_request().target, "/path");
    let hidden = ask(&ringway, "GET", "/example-writer-cluster/path", "");
    assert_eq!(hidden.status, 404);
}

#[test]
fn a_request_goes_by_a_regular_expression_on_its_path() {
    let (reader, writer) = (named("reader"), named("writer"));
    let ringway = clusters(
        "    input_source: path\n    input_type: string\n    operation: rmatch\n    \
         operation_arg: '^.*\\/writer.*$'\n    cases:\n      - matches:\n          - 'true'\n        \
         next_route: example-writer-cluster\n",
        &reader,
        &writer,
    );
    for (path, expected) in [("/example/reader", "reader"), ("/example/writer", "writer")] {
        let answer = ask(&ringway, "GET", path, "");
        assert_eq!(answer.text(), expected, "{path}");
    }
    let matches = |case| {
        ringway.metric(
            "ringway_rule_matches_total",
            &[("rule", "example-user-router"), ("case", case)],
        )
    };
    assert_eq!((matches("0"), matches("none")), (Some(1.0), Some(1.0)));
}

const TENANTS: &str = "\
request_rewriters:
  tenant-host:
    instructions:
      - [ 'hostname', 'set', '${tenant}.localhost' ]
rules:
  tenant-router:
    next_route: example-reader-cluster
    input_source: path
    input_type: string
    operation: rmatch
    operation_arg: '\\{mylabel=\"(?P<tenant>[a-z0-9]{3})\"\\}'
    cases:
      - matches: [ 'true' ]
        req_rewriter_name: tenant-host
        next_route: example-writer-cluster
";

/// The contract's third example, but for where the clusters are.
fn tenants(reader: &Origin, writer: &Origin) -> Ringway {
    let (reader, writer) = (reader.address(), writer.address());
    let backends = format!(
        "backends:\n  example:\n    provider: rule\n    rule_name: tenant-router\n\n  \
         example-reader-cluster:\n    provider: rpc\n    origin_url: 'http://{reader}'\n\n  \
         example-writer-cluster:\n    provider: rpc\n    origin_url: 'http://{writer}'\n    \
         path_routing_disabled: true\n"
    );
    Setup::new(format!("{TENANTS}\n{backends}")).start()
}

/// Its path for a tenant.
fn of_tenant(tenant: &str) -> String {
    format!("/example/query/%7Bmylabel%3D%22{tenant}%22%7D")
}

/// How often the control core looked for hosts, with this result.
fn lookups(ringway: &Ringway, result: &str) -> Option<f64> {
    ringway.metric("ringway_lookups_total", &[("result", result)])
}

#[test]
fn a_captured_text_names_the_host_of_the_origin() {
    let (reader, writer) = (named("reader"), named("writer"));
    let port = writer.address().port();
    let ringway = tenants(&reader, &writer);
    for tenant in ["abc", "xyz", "abc"] {
        let answer = ask(&ringway, "GET", &of_tenant(tenant), "");
        assert_eq!((answer.status, &*answer.text()), (200, "writer"));
        let request = writer.next_request();
        let path = format!("/query/%7Bmylabel%3D%22{tenant}%22%7D");
        assert_eq!(request.target, path);
        let host = format!("{tenant}.localhost:{port}");
        assert_eq!(request.header("host"), Some(&*host));
    }
    let other = ask(&ringway, "GET", &of_tenant("toolong"), "");
    assert_eq!(other.text(), "reader");
    assert!(writer.requests().is_empty());
    // However many shards there are, each name was asked for once.
    assert_eq!(lookups(&ringway, "ok"), Some(2.0));
}

#[test]
fn a_host_of_another_origin_needs_no_lookup() {
    let (reader, writer) = (named("reader"), named("writer"));
    let port = writer.address().port();
    let backends = format!(
        "backends:\n  example: {{provider: rule, rule_name: tenant-router}}\n  \
         example-reader-cluster: {{provider: rp, origin_url: 'http://{}'}}\n  \
         example-writer-cluster: {{provider: rp, origin_url: 'http://127.0.0.1:{port}/base', path_routing_disabled: true}}\n  \
         tenant-abc: {{provider: rp, origin_url: 'http://abc.localhost:{port}'}}\n",
        reader.address()
    );
    let ringway = Setup::new(format!("{TENANTS}{backends}")).start();
    let answer = ask(&ringway, "GET", &of_tenant("abc"), "");
    assert_eq!((answer.status, &*answer.text()), (200, "writer"));
    let target = writer.next_request().target;
    assert_eq!(target, "/base/query/%7Bmylabel%3D%22abc%22%7D");
    assert_eq!(lookups(&ringway, "ok"), Some(0.0));
}

/// A rule that sends to any host that a path names, behind it this backend `web` and others.
fn anywhere(backends: &str) -> Ringway {
    let yaml = format!(
        "request_rewriters:\n  there: {{instructions: [[hostname, set, '${{host}}']]}}\n\
         rules:\n  r: {{input_source: path, operation: rmatch, operation_arg: '^/to/(?P<host>[a-z0-9._-]+)/', next_route: web, \
         cases: [{{matches: ['true'], req_rewriter_name: there, next_route: web}}]}}\n\
         backends:\n  start: {{provider: rule, rule_name: r, is_default: true}}\n{backends}"
    );
    Setup::new(yaml).start()
}

#[test]
fn a_host_without_an_address_is_answered_502_and_holds_up_nobody() {
    let origin = named("origin");
    let ringway = anywhere(&format!(
        "  web: {{provider: rp, origin_url: 'http://{}'}}\n",
        origin.address()
    ));
    let mut waiting: Vec<_> = (0..8)
        .map(|n| {
            let mut client = ringway.client();
            client.send(format!(
                "GET /to/{n}.invalid/x HTTP/1.1\r\nHost: a.test\r\n\r\n"
            ));
            client
        })
        .collect();
    let answer = ask(&ringway, "GET", "/to/abc.localhost/x", "");
    assert_eq!((answer.status, &*answer.text()), (200, "origin"));
    for client in &mut waiting {
        let refused = client.answer_to("GET");
        assert_eq!((refused.status, &*refused.text()), (502, ""));
        // The connection is none the worse for it.
        assert_eq!(client.get("/to/abc.localhost/y").text(), "origin");
    }
    assert_eq!(lookups(&ringway, "failed"), Some(8.0));
    let again = ask(&ringway, "GET", "/to/0.invalid/x", "");
    assert_eq!(again.status, 502);
    for said in [
        ".invalid is known: a rewriter made this name",
        "no address of a host that a rewriter made",
    ] {
        eventually("the log says why", || {
            ringway.log().contains(said).then_some(())
        });
    }
}

#[test]
fn any_number_of_hosts_passes_through() {
    let reader = named("reader");
    let writer = Origin::answering(|_| {
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec()
    });
    let ringway = tenants(&reader, &writer);
    let mut client = ringway.client();
    // More than a shard keeps names, or connections elsewhere, of.
    for n in 0..1200 {
        let path = of_tenant(&format!("{n:03x}"));
        assert_eq!(client.get(&path).status, 200, "{n}");
    }
    assert_eq!(lookups(&ringway, "ok"), Some(1200.0));
    assert_eq!(lookups(&ringway, "refused"), Some(0.0));
}

#[test]
fn every_member_of_a_fan_out_is_asked_at_the_captured_host() {
    for mechanism in ["fr", "fgr", "nlm"] {
        let (one, two) = (named("up"), named("up"));
        let ringway = anywhere(&format!(
            "  web: {{provider: alb, alb: {{mechanism: {mechanism}, pool: [one, two]}}}}\n  \
             one: {{provider: rp, origin_url: 'http://{}'}}\n  two: {{provider: rp, origin_url: 'http://{}'}}\n",
            one.address(),
            two.address()
        ));
        let answer = ask(&ringway, "GET", "/to/abc.localhost/x", "");
        assert_eq!((answer.status, &*answer.text()), (200, "up"), "{mechanism}");
        let seen = [&one, &two].map(|origin| {
            let asked = origin.requests().into_iter().next();
            let host = asked.map(|asked| asked.header("host").map(str::to_owned));
            (
                host.flatten(),
                format!("abc.localhost:{}", origin.address().port()),
            )
        });
        // Who is second may be cut off before it is asked.
        assert!(seen.iter().any(|(host, _)| host.is_some()), "{mechanism}");
        for (host, expected) in seen {
            assert!(host.is_none_or(|host| host == expected), "{mechanism}");
        }
        let refused = ask(&ringway, "GET", "/to/abc.invalid/x", "");
        assert_eq!(refused.status, 502, "{mechanism}");
        assert_eq!(lookups(&ringway, "ok"), Some(1.0), "{mechanism}");
    }
}

#[test]
fn a_retry_and_a_streamed_body_find_the_captured_host() {
    let (up, down) = (named("up"), Port::claim());
    let ringway = anywhere(&format!(
        "  web: {{provider: alb, alb: {{mechanism: rr, pool: [dead, up]}}}}\n  \
         dead: {{provider: rp, origin_url: 'http://127.0.0.1:{}'}}\n  up: {{provider: rp, origin_url: 'http://{}'}}\n",
        down.number(),
        up.address()
    ));
    let host = format!("abc.localhost:{}", up.address().port());
    for _ in 0..4 {
        assert_eq!(ask(&ringway, "GET", "/to/abc.localhost/x", "").text(), "up");
        assert_eq!(up.next_request().header("host"), Some(&*host));
    }
    let mut client = ringway.client();
    // Its body begins when the host is looked for, and ends when that is known.
    client.send("PUT /to/other.localhost/x HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegin");
    eventually("the host is looked for", || {
        (lookups(&ringway, "ok") == Some(2.0)).then_some(())
    });
    let piece = "x".repeat(0x10000);
    for _ in 0..16 {
        client.send(format!("\r\n10000\r\n{piece}"));
    }
    client.send("\r\n0\r\n\r\n");
    assert_eq!(client.answer_to("PUT").text(), "up");
    assert_eq!(up.next_request().body.len(), 5 + 16 * 0x10000);
}

#[test]
fn rewriters_run_in_order_and_authenticators_before_them() {
    let origin = named("origin");
    let yaml = format!(
        "authenticators:\n  staff: {{provider: basic, users: {{casey: own}}, proxy_preserve: true}}\n\
         request_rewriters:\n  forge: {{instructions: [[header, set, Authorization, 'Basic Y2FzZXk6b3du']]}}\n  \
         in: {{instructions: [[header, append, X, ingress]]}}\n  \
         case: {{instructions: [[header, append, X, case], [method, set, POST], [path, set, '/new'], [param, set, p, '1']]}}\n  \
         out: {{instructions: [[header, append, X, egress]]}}\n\
         rules:\n  r: {{input_source: path, operation: prefix, ingress_req_rewriter_name: in, egress_req_rewriter_name: out, \
         next_route: web, cases: [{{matches: [/], req_rewriter_name: case, next_route: web}}]}}\n\
         backends:\n  start: {{provider: rule, rule_name: r, is_default: true, req_rewriter_name: forge}}\n  \
         guarded: {{provider: rule, rule_name: r, authenticator_name: staff, req_rewriter_name: forge}}\n  \
         web: {{provider: rp, origin_url: 'http://{}'}}\n",
        origin.address()
    );
    let ringway = Setup::new(yaml).start();
    assert_eq!(ask(&ringway, "GET", "/old?q=%7e", "").status, 200);
    let request = origin.next_request();
    assert_eq!(request.header("x"), Some("ingress, case, egress"));
    assert_eq!(
        (&*request.method, &*request.target),
        ("POST", "/new?q=%7e&p=1")
    );
    assert_eq!(request.header("authorization"), Some("Basic Y2FzZXk6b3du"));
    // What a rewriter writes is no proof of who asks.
    assert_eq!(ask(&ringway, "GET", "/guarded/x", "").status, 401);
    let proven = "Authorization: Basic Y2FzZXk6b3du\r\n";
    assert_eq!(ask(&ringway, "GET", "/guarded/x", proven).status, 200);
}

#[test]
fn a_budget_and_a_redirect_answer_for_a_rule() {
    let yaml = "\
rules:
  round: {input_source: path, operation: eq, max_rule_executions: 3, next_route: round}
  secure: {input_source: scheme, operation: eq, next_route: round, cases: [{matches: [http], redirect_url: 'https://s.test${path}', redirect_code: 301}]}
backends:
  round: {provider: rule, rule_name: round}
  secure: {provider: rule, rule_name: secure}
";
    let ringway = Setup::new(yaml).start();
    let mut client = ringway.client();
    let over = client.get("/round/x");
    assert_eq!((over.status, &*over.text()), (400, ""));
    // The connection goes on.
    let moved = client.get("/secure/a%20b");
    assert_eq!((moved.status, &*moved.text()), (301, ""));
    assert_eq!(moved.header("location"), Some("https://s.test/a%20b"));
    let stops = ringway.metric("ringway_rule_budget_exceeded_total", &[("rule", "round")]);
    assert_eq!(stops, Some(1.0));
}

#[test]
fn a_rule_sees_the_credentials_that_were_sent_whatever_else_was_changed() {
    let (reader, writer) = (named("reader"), named("writer"));
    let yaml = format!(
        "authenticators:\n  door: {{provider: basic, users: {{johndoe: secret}}}}\n\
         request_rewriters:\n  mark: {{instructions: [[header, set, Z, z]]}}\n\
         rules:\n  by-user: {{input_source: header, input_key: Authorization, input_encoding: base64, input_index: 1, \
         operation: prefix, next_route: reader, cases: [{{matches: ['johndoe:'], next_route: writer}}]}}\n\
         backends:\n  start: {{provider: rule, rule_name: by-user, is_default: true, authenticator_name: door, \
         req_rewriter_name: mark}}\n  \
         reader: {{provider: rp, origin_url: 'http://{}'}}\n  writer: {{provider: rp, origin_url: 'http://{}'}}\n",
        reader.address(),
        writer.address()
    );
    let ringway = Setup::new(yaml).start();
    let sent = "Authorization: Basic am9obmRvZTpzZWNyZXQ=\r\n";
    let answer = ask(&ringway, "GET", "/x", sent);
    assert_eq!((answer.status, &*answer.text()), (200, "writer"));
    let seen = writer.next_request();
    assert_eq!(seen.header("z"), Some("z"));
    assert_eq!(seen.header("authorization"), None);
}

#[test]
fn so_does_a_rule_that_is_a_member() {
    let (reader, writer) = (named("reader"), named("writer"));
    for mechanism in ["rr", "fr", "fgr", "nlm"] {
        let yaml = format!(
            "authenticators:\n  door: {{provider: basic, users: {{johndoe: secret}}}}\n\
             request_rewriters:\n  mark: {{instructions: [[header, set, Z, z], [header, set, Y, y]]}}\n\
             rules:\n  on: {{input_source: path, operation: eq, ingress_req_rewriter_name: mark, next_route: all}}\n  \
             by-user: {{input_source: header, input_key: Authorization, input_encoding: base64, input_index: 1, \
             operation: prefix, next_route: reader, cases: [{{matches: ['johndoe:'], next_route: by-mark}}]}}\n  \
             by-mark: {{input_source: header, input_key: Z, operation: eq, next_route: reader, \
             cases: [{{matches: [z], next_route: by-name}}]}}\n  \
             by-name: {{input_source: header, input_key: X-Named, operation: eq, next_route: reader, \
             cases: [{{matches: ['yes'], next_route: writer}}]}}\n\
             backends:\n  start: {{provider: rule, rule_name: on, is_default: true, authenticator_name: door}}\n  \
             by-user: {{provider: rule, rule_name: by-user}}\n  by-mark: {{provider: rule, rule_name: by-mark}}\n  \
             by-name: {{provider: rule, rule_name: by-name}}\n  \
             all: {{provider: alb, alb: {{mechanism: {mechanism}, pool: [by-user]}}}}\n  \
             reader: {{provider: rp, origin_url: 'http://{}'}}\n  writer: {{provider: rp, origin_url: 'http://{}'}}\n",
            reader.address(),
            writer.address()
        );
        let ringway = Setup::new(yaml).start();
        let sent =
            "Authorization: Basic am9obmRvZTpzZWNyZXQ=\r\nConnection: X-Named\r\nX-Named: yes\r\n";
        let answer = ask(&ringway, "GET", "/x", sent);
        assert_eq!(
            (answer.status, &*answer.text()),
            (200, "writer"),
            "{mechanism}"
        );
        let seen = writer.next_request();
        assert_eq!(seen.header("z"), Some("z"));
        assert_eq!(seen.header("authorization"), None);
        assert_eq!(seen.header("x-named"), None);
    }
}

#[test]
fn credentials_that_a_rewriter_sets_go_on_whatever_else_is_changed() {
    let origin = named("origin");
    let head = "authenticators:\n  door: {provider: basic, users: {johndoe: secret}}\n\
                request_rewriters:\n  svc: {instructions: [[header, set, Authorization, t2]]}\n  \
                mark: {instructions: [[header, set, Z, z]]}\n  \
                both: {instructions: [[chain, exec, svc], [chain, exec, mark]]}\n  \
                gone: {instructions: [[header, delete, Authorization], [header, set, Z, z]]}\n  \
                other: {instructions: [[header, replace, Authorization, Basic, Other], [header, set, Z, z]]}\n";
    let backends = |start: &str, member: &str| {
        format!(
            "{head}backends:\n  lb: {{provider: alb, is_default: true, {start}}}\n  \
             o: {{provider: rp, origin_url: 'http://{}'{member}}}\n",
            origin.address()
        )
    };
    let mark = ", req_rewriter_name: mark";
    let router = |keys: &str| {
        format!(
            "authenticator_name: door, {keys}alb: {{mechanism: ur, user_router: {{default_backend: o}}}}"
        )
    };
    let mapped = |keys: &str| {
        format!(
            "authenticator_name: door, {keys}alb: {{mechanism: ur, user_router: {{users: {{johndoe: \
             {{to_backend: o, to_user: v, to_credential: w}}}}}}}}"
        )
    };
    let pool = |mechanism: &str| {
        format!(
            "authenticator_name: door, req_rewriter_name: svc, alb: {{mechanism: {mechanism}, pool: [o]}}"
        )
    };
    let sent = "Basic am9obmRvZTpzZWNyZXQ=";
    for (start, member, expected) in [
        (pool("rr"), mark, Some("t2")),
        (pool("fr"), mark, Some("t2")),
        (
            pool("fgr"),
            ", authenticator_name: door, req_rewriter_name: mark",
            Some("t2"),
        ),
        (pool("nlm"), "", Some("t2")),
        // What an authenticator keeps never goes on.
        (pool("rr").replace("svc", "mark"), "", None),
        (pool("rr").replace("svc", "gone"), "", None),
        (pool("fr").replace("svc", "gone"), mark, None),
        (pool("rr").replace("svc", "other"), "", None),
        // A router's own check takes nothing away, whatever else is changed.
        (router("req_rewriter_name: gone, "), "", None),
        (mapped(""), ", req_rewriter_name: gone", None),
        (mapped(""), ", req_rewriter_name: other", Some("Other djp3")),
        (router(""), "", Some(sent)),
        (router("req_rewriter_name: mark, "), "", Some(sent)),
        (router("req_rewriter_name: both, "), "", Some("t2")),
        // Who is mapped to others has theirs, unless the backend says otherwise.
        (mapped("req_rewriter_name: both, "), "", Some("Basic djp3")),
        (
            mapped("req_rewriter_name: mark, "),
            mark,
            Some("Basic djp3"),
        ),
        (mapped(""), ", req_rewriter_name: svc", Some("t2")),
    ] {
        let ringway = Setup::new(backends(&start, member)).start();
        let answer = ask(&ringway, "GET", "/x", &format!("Authorization: {sent}\r\n"));
        assert_eq!(answer.status, 200, "{start} {member}");
        let seen = origin.next_request();
        let values = seen.headers("authorization");
        assert_eq!(values, expected.as_slice(), "{start} {member}");
        ringway.stop();
    }
}

#[test]
fn a_redirect_of_a_members_rule_is_that_members_answer() {
    for mechanism in ["fr", "fgr"] {
        let slow = silent();
        let yaml = format!(
            "rules:\n  away: {{input_source: path, operation: eq, redirect_url: 'https://s.test${{path}}'}}\n\
             backends:\n  away: {{provider: rule, rule_name: away}}\n  \
             slow: {{provider: rp, origin_url: 'http://{}'}}\n  \
             all: {{provider: alb, is_default: true, alb: {{mechanism: {mechanism}, pool: [slow, away]}}}}\n",
            slow.address()
        );
        let ringway = Setup::new(yaml).start();
        let answer = ask(&ringway, "GET", "/x", "");
        assert_eq!(answer.status, 302, "{mechanism}");
        assert_eq!(answer.header("location"), Some("https://s.test/x"));
        slow.next_close();
    }
}

#[test]
fn another_member_gets_what_a_rule_has_made_of_a_request() {
    let origin = named("up");
    let down = Port::claim();
    let yaml = format!(
        "request_rewriters:\n  mark: {{instructions: [[header, append, X, rule]]}}\n\
         rules:\n  to-pool: {{input_source: path, operation: eq, next_route: lb, egress_req_rewriter_name: mark}}\n  \
         in-pool: {{input_source: path, operation: eq, next_route: dead}}\n\
         backends:\n  start: {{provider: rule, rule_name: to-pool, is_default: true}}\n  \
         lb: {{provider: alb, alb: {{mechanism: rr, pool: [member, up]}}}}\n  \
         member: {{provider: rule, rule_name: in-pool}}\n  \
         dead: {{provider: rp, origin_url: 'http://127.0.0.1:{}'}}\n  up: {{provider: rp, origin_url: 'http://{}'}}\n",
        down.number(),
        origin.address()
    );
    let ringway = Setup::new(yaml).start();
    for _ in 0..4 {
        assert_eq!(ask(&ringway, "GET", "/x", "").text(), "up");
        assert_eq!(origin.next_request().header("x"), Some("rule"));
    }
}

#[test]
fn members_of_a_fan_out_have_copies_of_their_own() {
    let (one, two) = (named("one"), named("two"));
    let yaml = format!(
        "request_rewriters:\n  front: {{instructions: [[header, set, X, front]]}}\n  \
         first: {{instructions: [[header, append, X, first], [path, set, /first]]}}\n  \
         second: {{instructions: [[header, append, X, second], [param, set, p, second]]}}\n\
         rules:\n  r: {{input_source: path, operation: eq, next_route: two}}\n\
         backends:\n  all: {{provider: alb, is_default: true, req_rewriter_name: front, alb: {{mechanism: nlm, pool: [one, rule]}}}}\n  \
         one: {{provider: rp, origin_url: 'http://{}', req_rewriter_name: first}}\n  \
         rule: {{provider: rule, rule_name: r, req_rewriter_name: second}}\n  \
         two: {{provider: rp, origin_url: 'http://{}'}}\n",
        one.address(),
        two.address()
    );
    let ringway = Setup::new(yaml).start();
    assert_eq!(ask(&ringway, "GET", "/x?q=1", "").status, 200);
    let (first, second) = (one.next_request(), two.next_request());
    assert_eq!(
        (&*first.target, first.header("x")),
        ("/first?q=1", Some("front, first"))
    );
    assert_eq!(
        (&*second.target, second.header("x")),
        ("/x?q=1&p=second", Some("front, second"))
    );
}

#[test]
fn a_rule_is_as_available_as_what_is_behind_it() {
    let origin = Origin::answering(|request| match &*request.target {
        "/probe" => b"HTTP/1.1 500 Down\r\nContent-Length: 0\r\n\r\n".to_vec(),
        _ => ok("down"),
    });
    let up = named("up");
    let yaml = format!(
        "rules:\n  r: {{input_source: path, operation: eq, next_route: web}}\n\
         backends:\n  lb: {{provider: alb, is_default: true, alb: {{mechanism: rr, pool: [member, up]}}}}\n  \
         member: {{provider: rule, rule_name: r}}\n  up: {{provider: rp, origin_url: 'http://{}'}}\n  \
         web: {{provider: rp, origin_url: 'http://{}', healthcheck: {{path: /probe, interval: 100ms, timeout: 1s, failure_threshold: 1}}}}\n",
        up.address(),
        origin.address()
    );
    let ringway = Setup::new(yaml).start();
    eventually("the rule is left out", || {
        let all_up = (0..4).all(|_| ask(&ringway, "GET", "/x", "").text() == "up");
        all_up.then_some(())
    });
}

#[test]
fn long_captures_stay_out() {
    let origin = named("origin");
    let yaml = format!(
        "request_rewriters:\n  grow: {{instructions: [[header, set, X, '${{1}}${{1}}${{1}}${{1}}${{1}}']]}}\n\
         rules:\n  r: {{input_source: header, input_key: I, operation: rmatch, operation_arg: '(.*)', next_route: web, \
         cases: [{{matches: ['true'], req_rewriter_name: grow}}]}}\n\
         backends:\n  start: {{provider: rule, rule_name: r, is_default: true}}\n  web: {{provider: rp, origin_url: 'http://{}'}}\n",
        origin.address()
    );
    let ringway = Setup::new(yaml).start();
    // Too long once put together, and too long to be captured, though it matches.
    for (length, expected) in [(3000, Some(15_000)), (4000, None), (20_000, None)] {
        let header = format!("I: {}\r\n", "v".repeat(length));
        assert_eq!(ask(&ringway, "GET", "/x", &header).status, 200, "{length}");
        let request = origin.next_request();
        assert_eq!(request.header("x").map(str::len), expected, "{length}");
    }
    let dropped = ringway.metric(
        "ringway_rewrites_dropped_total",
        &[("backend_name", "start")],
    );
    assert_eq!(dropped, Some(2.0));
}

#[test]
fn a_trace_says_the_way_and_sends_nothing() {
    let setup = Setup::new("");
    let config = setup.folder().join("trace.yaml");
    let text = format!(
        "{TENANTS}backends:\n  example: {{provider: rule, rule_name: tenant-router, is_default: true}}\n  \
         example-reader-cluster: {{provider: rp, origin_url: 'http://reader.test'}}\n  \
         example-writer-cluster: {{provider: rp, origin_url: 'http://writer.test:9090/base'}}\n"
    );
    std::fs::write(&config, text).expect("the folder is ours");
    let config = config.display().to_string();
    let traced = |asked: &str| {
        let arguments = [
            "check",
            "--config",
            &config,
            "--trace",
            asked,
            "-H",
            "Cookie: secret",
            "-H",
            "X-A: b",
        ];
        run(&arguments)
    };
    let found = traced("GET http://a.test/query/%7Bmylabel%3D%22abc%22%7D");
    assert_eq!(
        found.out,
        "backend example (rule), path /\nrule tenant-router: cases[0], rewriters tenant-host\n\
         backend example-writer-cluster (reverseproxy), path /\n\
         => example-writer-cluster: GET http://abc.localhost:9090/base/query/%7Bmylabel%3D%22abc%22%7D\n   \
         Host: abc.localhost:9090\n   Cookie: ***\n   X-A: b\n"
    );
    let refused = run(&["run", "--config", &config, "--trace", "GET /"]);
    assert_eq!(refused.code, Some(2));
}
