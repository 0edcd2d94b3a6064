//! What rules cost a request.
//!
//! Models a request that a chain of eight rules sends on: each looks at another part of it, half of them have many
//! values, the last matches a regular expression. Measured is the whole way through the routes, the path tables and the
//! rules to the origin, as `ringway check --trace` finds it: with the parse of the head and with the names that are
//! copied for the answer, so that what a request pays is less. `no rule` is the same way without the chain.
//!
//! On paper: at 16 us of CPU for a request, 2 us for eight rules are 12 %.

use std::hint::black_box;
use std::net::Ipv4Addr;

use criterion::{Criterion, criterion_group, criterion_main};
use ringway::compile::{Host, build_document};
use ringway::config::{Document, Environment};
use ringway_shards::plan::{Generation, Plan};
use ringway_shards::trace::{Question, passes};

fn plan(text: &str) -> Plan {
    let host = Host {
        name: "bench".into(),
        cpus: vec![0],
        any_address: Ipv4Addr::UNSPECIFIED.into(),
    };
    let document = Document::of_text("bench", text, &Environment::default()).expect("YAML");
    let compiled = build_document(&document, &host, Generation(1)).expect("a configuration");
    compiled.plan
}

/// Eight rules one behind the other, and what is looked at by each.
fn chain(rewriter: &str) -> Plan {
    let tenants: Vec<String> = (0..1000).map(|n| format!("tenant-{n}")).collect();
    let prefixes: Vec<String> = (0..20).map(|n| format!("/team-{n}/")).collect();
    let sources = [
        "input_source: method, operation: eq, cases: [{matches: [PURGE], next_route: origin}]",
        &format!(
            "input_source: header, input_key: X-Tenant, operation: eq, cases: [{{matches: [{}], next_route: r2}}]",
            tenants.join(", ")
        ),
        &format!(
            "input_source: path, operation: prefix, cases: [{{matches: [{}], next_route: origin}}]",
            prefixes.join(", ")
        ),
        "input_source: hostname, operation: suffix, cases: [{matches: [.internal.test], next_route: origin}]",
        "input_source: param, input_key: step, input_type: num, operation: gt, operation_arg: 3600, cases: [{matches: ['true'], next_route: origin}]",
        "input_source: scheme, operation: eq, cases: [{matches: [https], next_route: origin}]",
        "input_source: header, input_key: Authorization, input_index: 1, input_encoding: base64, operation: prefix, cases: [{matches: ['admin:'], next_route: origin}]",
        "input_source: path, operation: rmatch, operation_arg: '^/api/v[0-9]+/query(_range)?$', cases: [{matches: ['true'], next_route: origin}]",
    ];
    let mut rules = String::new();
    let mut backends = String::new();
    for (index, source) in sources.iter().enumerate() {
        let next = match index + 1 < sources.len() {
            true => format!("r{}", index + 1),
            false => "origin".to_owned(),
        };
        rules.push_str(&format!("  r{index}: {{{source}, next_route: {next}{rewriter}}}\n"));
        let is_default = index == 0;
        backends.push_str(&format!(
            "  r{index}: {{provider: rule, rule_name: r{index}, is_default: {is_default}}}\n"
        ));
    }
    plan(&format!(
        "request_rewriters:\n  mark: {{instructions: [[header, set, X-Passed, rules]]}}\nrules:\n{rules}\
         backends:\n{backends}  origin: {{provider: rp, origin_url: 'http://origin.test'}}\n"
    ))
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
    let none = plan("backends: {origin: {provider: rp, origin_url: 'http://origin.test', is_default: true}}\n");
    let mut group = criterion.benchmark_group("rules");
    for (name, plan) in [
        ("no rule", none),
        ("chain of eight", chain("")),
        ("chain of eight, each with a rewriter", chain(", egress_req_rewriter_name: mark")),
    ] {
        let way = passes(&plan, &question).expect("a request");
        assert!(way.ends_at("origin"), "it arrives");
        group.bench_function(name, |bencher| {
            bencher.iter(|| black_box(way.go()));
        });
    }
    group.finish();
}

criterion_group!(benches, rules);
criterion_main!(benches);
