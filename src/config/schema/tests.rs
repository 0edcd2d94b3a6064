//! The table against itself and against the manual.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

const MANUAL: &str = include_str!("../../../docs/configuration.md");

/// Keys with a value of their own, as the manual writes them.
fn documented_keys() -> BTreeSet<String> {
    let is_group = |kind| matches!(kind, Kind::Section | Kind::Names | Kind::PoolEntry);
    keys()
        .filter(|key| key.is_built() && !is_group(key.kind))
        .map(|key| key.path.replace("*", "<name>").replace(".[]", "[]"))
        .collect()
}

/// Entries of the manual: key, then the rest of the heading and the text.
fn manual() -> BTreeMap<String, (&'static str, &'static str)> {
    let mut entries = BTreeMap::new();
    for entry in MANUAL.split("\n### ").skip(1) {
        let (heading, text) = entry.split_once('\n').unwrap_or((entry, ""));
        let (key, rest) = heading.split_once(": ").unwrap();
        entries.insert(key.to_owned(), (rest, text));
    }
    entries
}

/// A path of the configuration as the manual writes it.
fn manual_key(path: &crate::config::Path) -> String {
    use crate::config::Step;
    let mut out = String::new();
    for (index, step) in path.0.iter().enumerate() {
        let is_named = matches!(path.0.first(), Some(Step::Key(key)) if key != "mgmt");
        match step {
            Step::Item(_) => out += "[]",
            Step::Key(_) if index == 1 && is_named && path.0.len() > 2 => out += ".<name>",
            Step::Key(key) if index == 0 => out += key,
            Step::Key(key) => {
                out += ".";
                out += key;
            }
        }
    }
    out
}

#[test]
fn every_built_key_is_in_the_manual_and_no_other() {
    let manual: BTreeSet<String> = manual().into_keys().collect();
    let keys = documented_keys();
    let missing: Vec<_> = keys.difference(&manual).collect();
    let extra: Vec<_> = manual.difference(&keys).collect();
    assert!(
        missing.is_empty() && extra.is_empty(),
        "missing {missing:?}, extra {extra:?}"
    );
}

#[test]
fn the_manual_says_the_defaults_that_are_in_force() {
    let text = "\
discovery:
  k: {provider: kubernetes}
  s: {provider: dns_srv}
  f: {provider: file}
  h: {provider: http_sd, http: {endpoint: 'https://x'}}
  c: {provider: consul, http: {endpoint: 'http://x'}}
  o: {provider: nomad, http: {endpoint: 'http://x'}}
  z: {provider: azure, azure: {service: vm, subscription_id: s}}
  d: {provider: docker}
authenticators: {a: {provider: basic, users: {u: p}, config: {showLoginForm: true}}}
rules: {r: {input_source: path, operation: eq, redirect_url: 'http://x'}}
backends:
  rb: {provider: rule, rule_name: r, paths: [{}]}
  x:
    provider: prometheus
    origin_url: https://x
    replica_group: g
    cors: {}
    paths: [{path: /a, cors: {}}, {path: /b, handler: localresponse}]
  y: {provider: alb, alb: {mechanism: tsm, pool: [x]}}
  z: {provider: alb, is_default: true, paths: [{}], alb: {pool: [x], ejection: {consecutive_failures: 1}}}
  g: {provider: alb, alb: {mechanism: fgr, pool: [x]}}
  n: {provider: alb, alb: {mechanism: nlm, pool: [x]}}
  u: {provider: alb, alb: {mechanism: ur, user_router: {default_backend: x}}}
  t: {provider: prometheus, is_template: true}
  dk: {provider: alb, alb: {discovery: {discoverer_name: k, template_backend: t, query: {service: s}}}}
  dd: {provider: alb, alb: {discovery: {discoverer_name: d, template_backend: t, query: {}}}}
";
    let environment = crate::config::Environment::default();
    let document = crate::config::Document::of_text("a", text, &environment).unwrap();
    let host = crate::compile::Host::of_machine();
    let generation = ringway_shards::plan::Generation(1);
    let compiled = crate::compile::build_document(&document, &host, generation).unwrap();
    let manual = manual();
    for row in compiled.control.effective.rows() {
        let crate::compile::Provenance::Default(_) = row.from else {
            continue;
        };
        let key = manual_key(&row.path);
        let (heading, text) = manual[&key];
        let default = match &row.value {
            serde_json::Value::String(text) if text.is_empty() => "\"\"".to_owned(),
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        // Those of an ALB are said to be the backend's.
        let inherited = key.starts_with("backends.<name>.alb.max_");
        let listed = |list: &Vec<serde_json::Value>| {
            let mut items = list.iter().filter_map(serde_json::Value::as_str);
            items.all(|item| text.contains(&format!("`{item}`")))
        };
        let in_text = row.value.as_array().is_some_and(listed);
        let said = heading.contains(&format!("default {default}"))
            || heading.contains(&format!("{default} ("));
        assert!(
            said || inherited || in_text || heading.contains(&default),
            "{key}: {heading} says not {default}"
        );
    }
}

#[test]
fn paths_are_written_once_and_below_known_ones() {
    let mut seen = BTreeSet::new();
    for key in keys() {
        assert!(seen.insert(key.path), "{} twice", key.path);
    }
    for path in &seen {
        if let Some((above, _)) = path.rsplit_once('.') {
            assert!(seen.contains(above), "{path} without {above}");
        }
    }
}

#[test]
fn slips_find_the_nearest_word() {
    let words = || {
        [
            "timeout",
            "keep_alive_timeout",
            "provider",
            "rr",
            "showLoginForm",
        ]
        .into_iter()
    };
    for (written, expected) in [
        ("tiemout", Some("timeout")),
        ("Timeout", Some("timeout")),
        ("keep-alive-timeout", Some("keep_alive_timeout")),
        ("provder", Some("provider")),
        ("showLogin", Some("showLoginForm")),
        ("showloginform", Some("showLoginForm")),
        ("provider_name", Some("provider")),
        ("keep", None),
        ("xyz", None),
        ("", None),
    ] {
        assert_eq!(nearest(written, words()), expected, "{written}");
    }
    assert_eq!(nearest(&"x".repeat(1_000_000), words()), None);
}
