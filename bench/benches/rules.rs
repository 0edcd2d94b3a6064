//! What rules cost a request.
//!
//! Models a request that a chain of eight rules sends on: each looks at another part of it, one has a thousand values, the
//! last matches a regular expression. Measured is the way through the route, the path tables and the rules to the origin
//! of a head that is parsed already, the same one again and again, so that all it reads is in the caches. `no rule` is the
//! same way without the chain; `with a capture` sets a header to what the last rule's expression has captured; `with
//! rewriters` lets each rule append to a header. Of those one head is made at the end.
//!
//! On paper: at 16 us of CPU for a request, 2 us for eight rules are 12 %.

use std::collections::HashMap;
use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use regex::bytes::Regex;
use ringway_shards::plan::{
    Backend, BackendId, BackendKind, Case, Check, Comparison, ForwardedHeaders, Generation,
    Instruction, Listener, ListenerId, Operation, Origin, OriginProvider, Outcome, PathRule, Plan,
    Rewriter, Route, RouteTable, Rule, Scheme, Source, Split, Switch, Template,
};
use ringway_shards::trace::{Question, Request, Step, trace};

/// Rules of the chain; the origin is behind them.
const RULES: u32 = 8;

fn origin() -> BackendKind {
    BackendKind::Origin(Box::new(Origin {
        provider: OriginProvider::ReverseProxy,
        scheme: Scheme::Http,
        host: "origin.test".into(),
        port: 80,
        authority: "origin.test".into(),
        path_prefix: "".into(),
        tls: None,
        spare_tls: None,
        peer_key: "http".into(),
        timeout: Duration::from_secs(60),
        connect_timeout: Duration::from_secs(10),
        keep_alive_timeout: Duration::from_secs(120),
        idle_max: 20,
        connections_max: 20,
        forwarded: ForwardedHeaders::Standard,
        injected_labels: Vec::new(),
    }))
}

fn backend(id: u32, kind: BackendKind) -> Arc<Backend> {
    Arc::new(Backend {
        id: BackendId(id),
        name: format!("b{id}").into(),
        provider_label: "any",
        replica_group: "any".into(),
        capture_bytes_max: 1 << 20,
        paths: Arc::new([PathRule::all()]),
        latency: None,
        compressible_types: Arc::new([]),
        kind,
    })
}

fn each(operation: Operation) -> Switch {
    let negated = false;
    Switch::Each(Box::new([(Check { operation, negated }, 0)]))
}

fn result(operation: Operation) -> Switch {
    let cases = HashMap::from([(Box::from(&b"true"[..]), Box::from(&[0_u16][..]))]);
    let negated = false;
    Switch::Result(Check { operation, negated }, cases)
}

fn looked_up(values: impl Iterator<Item = String>) -> Switch {
    let cases = values.map(|value| (value.into_bytes().into(), Box::from(&[0_u16][..])));
    Switch::Equal(None, cases.collect())
}

/// What each rule looks at, and how.
fn looks() -> Vec<(Source, Switch)> {
    let teams = (0..20).map(|n| format!("/team-{n}/"));
    let negated = false;
    let teams = teams.map(|team| {
        (
            Check {
                operation: Operation::Prefix(team.into()),
                negated,
            },
            0,
        )
    });
    let regex = Regex::new("^/api/(v[0-9]+)/query(_range)?$").expect("a regex");
    vec![
        (Source::Method, looked_up(["PURGE".to_owned()].into_iter())),
        (
            Source::Header("X-Tenant".into()),
            looked_up((0..1000).map(|n| format!("tenant-{n}"))),
        ),
        (Source::Path, Switch::Each(teams.collect())),
        (
            Source::Hostname,
            each(Operation::Suffix(".internal.test".into())),
        ),
        (
            Source::Param("step".into()),
            result(Operation::Number(Comparison::Greater, 3600.0)),
        ),
        (Source::Scheme, looked_up(["https".to_owned()].into_iter())),
        (
            Source::Header("Authorization".into()),
            each(Operation::Prefix("admin:".into())),
        ),
        (Source::Path, result(Operation::Matches(Box::new(regex)))),
    ]
}

/// A rewriter of one instruction.
fn rewriter(value: &str) -> Arc<Rewriter> {
    Arc::new(Rewriter {
        name: "mark".into(),
        instructions: Box::new([Instruction::HeaderAppend {
            name: "X-Passed".into(),
            value: Template::of(value),
        }]),
    })
}

/// The chain with the rewriter that each rule runs last, by its place.
fn chain(egress: impl Fn(u32) -> Option<Arc<Rewriter>>) -> Plan {
    let mut backends = Vec::new();
    for (id, (source, switch)) in (0..RULES).zip(looks()) {
        let is_credentials = source == Source::Header("Authorization".into());
        let split = is_credentials.then(|| Split {
            delimiter: " ".into(),
            index: 1,
        });
        let egress = egress(id);
        let rule = Rule {
            name: format!("r{id}").into(),
            ingress: None,
            captures: egress
                .as_ref()
                .is_some_and(|rewriter| rewriter.has_tokens()),
            egress,
            nomatch: None,
            source,
            split,
            is_base64: is_credentials,
            switch,
            cases: Box::new([Case {
                place: 0,
                rewriter: None,
                outcome: Some(Outcome::Backend(BackendId(id + 1))),
            }]),
            first_decides: false,
            default: Outcome::Backend(BackendId(id + 1)),
            executions_max: 16,
        };
        backends.push(backend(id, BackendKind::Rule(Arc::new(rule))));
    }
    backends.push(backend(RULES, origin()));
    plan(backends)
}

fn plan(backends: Vec<Arc<Backend>>) -> Plan {
    let backend = BackendId(0);
    let listener = Listener {
        id: ListenerId(0),
        name: "default".into(),
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        tls: None,
        connections_limit: None,
        read_header_timeout: Duration::from_secs(10),
        idle_timeout: Duration::from_secs(10),
        body_progress_timeout: Duration::from_secs(10),
        request_body_bytes_max: None,
        truncate_request_body: false,
        trusted_proxies: None,
        ping_path: "".into(),
        routes: RouteTable {
            default: Some(Route { backend }),
            ..RouteTable::default()
        },
    };
    Plan {
        generation: Generation(1),
        server_name: "bench".into(),
        listeners: Arc::new([listener]),
        backends,
        authenticators: Arc::new([]),
        rewritten_hosts: Arc::new([]),
        pools: Vec::new(),
    }
}

fn rules(criterion: &mut Criterion) {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let question = Question {
        method: "GET".to_owned(),
        url: "http://metrics.example.com/api/v1/query_range?query=up&step=15".to_owned(),
        headers: vec![
            header("User-Agent", "bench"),
            header("X-Tenant", "tenant-512"),
            header("Authorization", "Basic cmVhZGVyOnMzY3JldA=="),
            header("Accept", "*/*"),
        ],
    };
    let mut group = criterion.benchmark_group("rules");
    for (name, plan) in [
        ("no rule", plan(vec![backend(0, origin())])),
        ("chain of eight", chain(|_| None)),
        (
            "chain of eight with a capture",
            chain(|id| (id + 1 == RULES).then(|| rewriter("${1}"))),
        ),
        (
            "chain of eight with rewriters",
            chain(|_| Some(rewriter("rules"))),
        ),
    ] {
        let request = Request::of(&plan, &question).expect("a request");
        assert!(request.arrives(), "{name}");
        let way = trace(&plan, &question).expect("a request");
        let passed = way
            .steps
            .iter()
            .filter(|step| matches!(step, Step::Rule { .. }));
        let chained = plan.backends.len() - 1;
        assert_eq!(passed.count(), chained, "{name}");
        group.bench_function(name, |bencher| {
            bencher.iter(|| black_box(request.arrives()))
        });
    }
    group.finish();
}

criterion_group!(benches, rules);
criterion_main!(benches);
