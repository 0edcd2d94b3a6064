//! The rules, one row each: a configuration and exactly what is said of it.

use std::net::Ipv6Addr;
use std::time::Duration;

use ringway_shards::plan::{
    BackendKind, ExpectedGroups, Generation, Mechanism, Origin, QueryBudget,
};

use super::{Compiled, Host, Inputs, compile};
use crate::config::files::Files;
use crate::config::{Document, Environment};

mod authenticators;
mod discovery;
mod invalid;
mod mechanisms;
mod paths;
mod tolerated;

fn host() -> Host {
    Host {
        name: "box".into(),
        cpus: vec![0, 1, 2, 3],
        any_address: Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// Compiles a text; problems come as lines.
fn compiled(text: &str) -> Result<Compiled, Vec<String>> {
    compiled_with(text, &Files::default())
}

/// The same with these contents of files.
fn compiled_with(text: &str, files: &Files) -> Result<Compiled, Vec<String>> {
    let environment = Environment::of_pairs(&[("TOKEN", "s3cret")]);
    let lines = |problems: Vec<crate::config::Problem>| -> Vec<String> {
        problems.iter().map(ToString::to_string).collect()
    };
    let document = Document::of_text("a.yaml", text, &environment).map_err(lines)?;
    let host = host();
    let inputs = Inputs {
        generation: Generation(7),
        host: &host,
        files,
    };
    compile(&document, &inputs).map_err(lines)
}

pub(crate) fn valid(text: &str) -> Compiled {
    compiled(text).unwrap_or_else(|problems| panic!("{text}\n{}", problems.join("\n")))
}

fn problems(text: &str) -> Vec<String> {
    match compiled(text) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(problems) => problems,
    }
}

fn warnings(text: &str) -> Vec<String> {
    let warnings = valid(text).control.warnings;
    warnings.iter().map(ToString::to_string).collect()
}

/// Compares rows of text, lines found and lines expected; says all that differ at once.
fn assert_rows(rows: impl Iterator<Item = (String, Vec<String>, Vec<&'static str>)>) {
    let mut wrong = String::new();
    for (text, found, expected) in rows {
        if found != expected {
            wrong += &format!("{text}found    {found:#?}\nexpected {expected:#?}\n\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn origin(compiled: &Compiled, index: usize) -> &Origin {
    match &compiled.plan.backends[index].kind {
        BackendKind::Origin(origin) => origin,
        BackendKind::Alb(_) | BackendKind::Rule(_) => panic!("no origin"),
    }
}

const WEB: &str = "\
backends:
  a: {provider: reverseproxy, origin_url: 'http://a:8080/x/'}
  b: {provider: rp, origin_url: 'https://b'}
  web:
    provider: alb
    is_default: true
    hosts: [Web.Example.COM.]
    alb:
      mechanism: round_robin
      pool:
        - a
        - {name: b, weight: 3}
        - a
";

#[test]
fn a_round_robin_compiles_to_a_plan() {
    let Compiled { plan, control } = valid(WEB);
    assert_eq!(plan.generation, Generation(7));
    assert_eq!(&*plan.server_name, "box");
    assert_eq!(plan.backends.len(), 3);
    assert_eq!(plan.pools.len(), 1);
    let members: Vec<_> = plan.pools[0]
        .members
        .iter()
        .map(|m| (m.backend.0, m.weight))
        .collect();
    assert_eq!(members, [(0, 1), (1, 3), (0, 1)]);
    assert_eq!(plan.pools[0].healthy_floor, 0);
    let BackendKind::Alb(alb) = &plan.backends[2].kind else {
        panic!("not an ALB");
    };
    assert_eq!(alb.mechanism, Mechanism::RoundRobin);
    assert_eq!(alb.timeout, Duration::from_secs(60));
    assert_eq!(plan.listeners.len(), 1);
    let listener = &plan.listeners[0];
    assert_eq!(listener.address.to_string(), "[::]:8480");
    assert_eq!(listener.routes.default.map(|r| r.backend.0), Some(2));
    assert_eq!(listener.routes.hosts["web.example.com"].backend.0, 2);
    assert_eq!(listener.routes.names.len(), 3);
    assert_eq!(listener.request_body_bytes_max, Some(10_485_760));
    let admin: Vec<_> = control
        .admin
        .iter()
        .map(|a| a.address.to_string())
        .collect();
    assert_eq!(admin, ["[::]:8481", "127.0.0.1:8484"]);
    assert!(control.warnings.is_empty());
    assert_eq!(control.shards.cpus, [Some(1), Some(2), Some(3)]);
    assert_eq!(control.control_cpu, Some(0));
}

#[test]
fn an_origin_is_taken_apart() {
    let compiled = valid(WEB);
    let a = origin(&compiled, 0);
    assert_eq!((&*a.host, a.port, &*a.authority), ("a", 8080, "a:8080"));
    assert_eq!(&*a.path_prefix, "/x");
    assert_eq!(&*a.peer_key, "http");
    let b = origin(&compiled, 1);
    assert_eq!((&*b.host, b.port, &*b.authority), ("b", 443, "b"));
    assert!(b.tls.is_some() && b.peer_key.starts_with("https b "));
    let names: Vec<_> = compiled
        .control
        .origins
        .iter()
        .map(|o| (o.backend.0, &*o.host, o.port))
        .collect();
    assert_eq!(names, [(0, "a", 8080), (1, "b", 443)]);
}

const MERGE: &str = "\
backends:
  p1:
    provider: prometheus
    origin_url: http://p1:9090
    replica_group: ' g '
    timeout: 20s
    prometheus: {labels: {region: us}}
    healthcheck: {interval: 1s}
  p2: {provider: prometheus, origin_url: 'http://p2:9090/prom', replica_group: g, timeout: 90s}
  all:
    provider: alb
    max_query_range: 14d
    alb:
      mechanism: tsmerge
      healthy_floor: 1
      max_capture_bytes: 1000
      max_fanout_capture_bytes: 5000
      tsm: {query_concurrency_limit: 2, query_concurrency_multiplier: 3, dedup_tolerance_ms: 5}
      pool: [p1, p2]
";

#[test]
fn settings_of_a_merge_are_compiled() {
    let own = "tsm: {promql_version: 2.53, lookback_delta: 2m, evaluation_interval: 30s, partition_labels: [cluster], shared_series: false, strict: true, \
               partial_response: fail, expected_groups: [x, 3], native_histograms: aggregate, max_series: 7, max_samples: 0, max_bytes: 9}";
    let yaml = MERGE.replace("tsm: {", &format!("{},", own.trim_end_matches('}')));
    let compiled = valid(&yaml);
    let BackendKind::Alb(alb) = &compiled.plan.backends[2].kind else {
        panic!("not an ALB");
    };
    let tsm = &alb.tsm;
    let version = tsm.promql_version.map(|version| version.to_string());
    assert_eq!(version.as_deref(), Some("2.53"));
    assert_eq!(tsm.lookback_delta, Some(Duration::from_secs(120)));
    assert_eq!(tsm.evaluation_interval, Some(Duration::from_secs(30)));
    assert_eq!(tsm.partition_labels, ["cluster"]);
    assert!(!tsm.may_share);
    assert!(tsm.is_strict && tsm.fails_partial && tsm.adds_histograms);
    let names = vec!["x".to_owned(), "3".to_owned()];
    assert_eq!(tsm.expected_groups, ExpectedGroups::Named(names));
    let budget = QueryBudget {
        series_max: Some(7),
        samples_max: None,
        bytes_max: Some(9),
    };
    assert_eq!(tsm.budget, budget);
    let counted = valid(&MERGE.replace("tsm: {", "tsm: {expected_groups: 3, "));
    let BackendKind::Alb(alb) = &counted.plan.backends[2].kind else {
        panic!("not an ALB");
    };
    assert_eq!(alb.tsm.expected_groups, ExpectedGroups::Count(3));
}

#[test]
fn a_time_series_merge_compiles_to_a_plan() {
    let compiled = valid(MERGE);
    let plan = &compiled.plan;
    assert_eq!(&*plan.backends[0].replica_group, "g");
    assert_eq!(&*plan.backends[2].replica_group, "all");
    assert_eq!(plan.backends[2].capture_bytes_max, 1000);
    assert_eq!(plan.backends[0].capture_bytes_max, 268_435_456);
    assert_eq!(
        origin(&compiled, 0).injected_labels,
        [("region".into(), "us".into())]
    );
    let BackendKind::Alb(alb) = &plan.backends[2].kind else {
        panic!("not an ALB");
    };
    assert_eq!(alb.mechanism, Mechanism::TimeSeriesMerge);
    assert_eq!(alb.timeout, Duration::from_secs(90));
    assert_eq!(alb.query_range_max, Some(Duration::from_secs(14 * 86_400)));
    assert_eq!(alb.fanout_bytes_max, Some(5000));
    assert_eq!(alb.concurrency_max, Some(6));
    assert_eq!(alb.tsm.dedup_tolerance_ms, 5);
    assert_eq!(alb.tsm.promql_version, None);
    assert!(alb.tsm.may_share && !alb.tsm.is_strict);
    assert_eq!(alb.tsm.budget.samples_max, Some(50_000_000));
    let floor = &compiled.control.floors[0];
    assert!(floor.was_reset() && !floor.admits_failing());
    assert_eq!((floor.configured, floor.effective), (1, 0));
    assert_eq!(floor.unprobed, [Box::<str>::from("p2")]);
    assert_eq!(plan.pools[0].healthy_floor, 0);
}

#[test]
fn probes_start_from_the_provider_and_are_replaced_field_by_field() {
    let checks = valid(MERGE).control.health_checks;
    assert_eq!(&*checks[0].target, "/api/v1/query?query=vector(1)");
    assert_eq!(checks[0].interval, Some(Duration::from_secs(1)));
    assert_eq!(
        (checks[0].failure_threshold, checks[0].recovery_threshold),
        (3, 3)
    );
    assert_eq!(&*checks[1].target, "/prom/api/v1/query?query=vector(1)");
    assert_eq!(checks[1].interval, None);
    let check = &valid(
        "\
backends:
  a:
    provider: reverseproxy
    origin_url: http://a:8080/x
    healthcheck:
      interval: 500ms
      timeout: 100ms
      failure_threshold: 0
      recovery_threshold: 1
      verb: POST
      scheme: https
      host: '[::1]:99'
      path: /up
      query: '?a=b c'
      headers: {Authorization: 'Bearer ${TOKEN}'}
      body: hi
      expected_codes: [200, 210-219]
      expected_headers: {X: y}
      expected_body: ok
",
    )
    .control
    .health_checks[0];
    assert_eq!(&*check.target, "/up?a=b%20c");
    assert_eq!(
        (&*check.host, check.port, &*check.authority),
        ("::1", 99, "[::1]:99")
    );
    assert_eq!((check.failure_threshold, check.recovery_threshold), (3, 1));
    assert_eq!(
        check.headers,
        [("Authorization".into(), "Bearer s3cret".into())]
    );
    assert_eq!(check.expected_codes, [200..=200, 210..=219]);
    assert_eq!(check.expected_body.as_deref(), Some("ok"));
    assert!(check.tls.is_some());
}

#[test]
fn the_dump_masks_secrets_and_means_the_same() {
    let text = "\
listeners:
  default: {port: 9000}
backends:
  default: {max_capture_bytes: 99}
  a:
    provider: prometheus
    origin_url: http://a:1
    healthcheck: {headers: {Authorization: 'Bearer ${TOKEN}'}}
  all: {provider: alb, alb: {mechanism: tsm, pool: [a]}}
";
    let first = valid(text);
    let dump = first.control.effective.dump();
    assert!(dump.contains("Authorization: '*****'"), "{dump}");
    assert!(!dump.contains("s3cret"), "{dump}");
    let again = valid(&dump);
    assert_eq!(again.control.effective.dump(), dump);
    assert_eq!(again.plan.listeners[0].address.port(), 9000);
    assert_eq!(again.plan.backends[0].capture_bytes_max, 99);
}

#[test]
fn explain_says_where_each_value_came_from() {
    let explained = valid(WEB).control.effective.explain();
    for line in [
        "main.server_name = \"box\"  # derived: the host's name",
        "listeners.default.port = 8480  # default (configuration, 2)",
        "backends.a.origin_url = \"http://a:8080/x/\"  # a.yaml:2:43",
        "backends.web.is_default = true  # a.yaml:6:17",
        "backends.web.alb.timeout = \"1m\"  # derived: the largest timeout of its members",
    ] {
        assert!(explained.lines().any(|l| l == line), "{line}\n{explained}");
    }
}

#[test]
fn shards_are_placed_on_processors() {
    for (section, cpus, control) in [
        ("{}", vec![Some(1), Some(2), Some(3)], Some(0)),
        ("{pin: false}", vec![None, None, None], None),
        ("{count: 2}", vec![Some(1), Some(2)], Some(0)),
        (
            "{count: 5}",
            vec![Some(1), Some(2), Some(3), Some(1), Some(2)],
            Some(0),
        ),
        ("{control_cpu: 3}", vec![Some(0), Some(1), Some(2)], Some(3)),
        ("{cpus: '0,2-3'}", vec![Some(0), Some(2), Some(3)], Some(1)),
        (
            "{cpus: [0, 1, 2, 3]}",
            vec![Some(0), Some(1), Some(2), Some(3)],
            None,
        ),
        ("{cpus: 0-3, count: 1}", vec![Some(0)], None),
        ("{count: auto, cpus: 2}", vec![Some(2)], Some(0)),
    ] {
        let compiled = valid(&format!("shards: {section}\n{WEB}"));
        assert_eq!(compiled.control.shards.cpus, cpus, "{section}");
        assert_eq!(compiled.control.control_cpu, control, "{section}");
    }
}

#[test]
fn admin_pages_can_be_moved_and_turned_off() {
    let text = format!(
        "mgmt: {{health_handler_path: '', config_handler_listener: both, reload_handler_path: /r}}\n{WEB}"
    );
    let admin = valid(&text).control.admin;
    let paths = |index: usize| -> Vec<String> {
        admin[index]
            .routes
            .iter()
            .map(|route| route.path.clone())
            .collect()
    };
    assert_eq!(
        paths(0),
        [
            "/metrics",
            "/trickster/config",
            "/trickster/config/sanitized",
            "/trickster/ping"
        ]
    );
    assert_eq!(
        paths(1),
        [
            "/r",
            "/trickster/config",
            "/trickster/config/sanitized",
            "/trickster/ping"
        ]
    );
    let off = valid(&format!(
        "listeners: {{metrics: {{port: 0}}}}\nmgmt: {{listen_port: -1}}\n{WEB}"
    ));
    assert!(off.control.admin.is_empty());
}
