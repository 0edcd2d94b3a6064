//! Section `backends`: origins, and ALBs by way of `pools`.

use ringway_shards::plan::{
    Backend, BackendId, BackendKind, ForwardedHeaders, Latency, Origin, OriginProvider, Scheme,
};
use serde_json::{Map, Value as Json};

use super::authenticators::Authenticators;
use super::context::Context;
use super::graph::Graph;
use super::rewriters::Rewriters;
use super::roster::{Entry, Live, Roster};
use super::rules::Rules;
use super::templates::{self, Template};
use super::{albs, health, paths, tls, user_router};
use crate::config::origin_url::OriginUrl;
use crate::config::{Fault, Path, defaults};

/// What backends name.
#[derive(Clone, Copy)]
pub(super) struct Named<'n> {
    pub(super) authenticators: &'n Authenticators,
    pub(super) rewriters: &'n Rewriters,
    pub(super) rules: &'n Rules,
}

/// All backends that could be compiled, by id when nothing is wrong.
pub(super) fn compile(
    context: &mut Context<'_>,
    roster: &Roster<'_>,
    graph: &Graph,
    named: Named<'_>,
) -> Vec<Backend> {
    let mut backends = Vec::new();
    for (id, live, entry) in roster.live() {
        let at = Path::of(&["backends", entry.name]);
        if let Some(provider) = &entry.written.provider {
            context.note_written(&at.key("provider"), Json::from(provider.as_str()));
        }
        let replica_group = replica_group(context, &at, graph, (id, live), entry);
        let compiled = match live {
            Live::Alb => albs::alb(context, roster, graph, id, entry)
                .map(|(alb, bytes)| (BackendKind::Alb(alb), bytes)),
            Live::Rule => {
                let bytes = origin_capture_bytes(context, roster, &at, entry);
                let name = entry.written.rule_name.as_deref();
                let rule = named.rules.find(context, &at.key("rule_name"), name);
                rule.map(|compiled| (BackendKind::Rule(compiled.rule.clone()), bytes))
            }
            Live::Prometheus | Live::ReverseProxy => {
                let bytes = origin_capture_bytes(context, roster, &at, entry);
                let written = entry.written.origin_url.as_deref();
                let url = origin_url(context, &at.key("origin_url"), written);
                origin(context, &at, (live, entry), url, named)
                    .map(|(origin, _)| (BackendKind::Origin(Box::new(origin)), bytes))
            }
        };
        let paths = paths::compile(context, named, live, entry);
        let latency = latency(context, &at, entry);
        let compressible_types = compressible_types(context, &at, entry);
        let Some((mut kind, capture_bytes_max)) = compiled else {
            continue;
        };
        if let BackendKind::Alb(alb) = &mut kind
            && let Some(router) = &mut alb.user_router
        {
            user_router::settle(context, named.authenticators, entry, &paths, router);
        }
        backends.push(Backend {
            id,
            name: entry.name.into(),
            provider_label: live.name(),
            replica_group: replica_group.into(),
            capture_bytes_max,
            paths: paths.into(),
            latency,
            compressible_types: compressible_types.into(),
            kind,
        });
    }
    backends
}

/// All templates, for discovery to clone.
pub(super) fn templates(
    context: &mut Context<'_>,
    roster: &Roster<'_>,
    named: Named<'_>,
) -> Vec<Template> {
    let mut templates = Vec::new();
    for (live, entry) in roster.templates() {
        let at = Path::of(&["backends", entry.name]);
        if let Some(provider) = &entry.written.provider {
            context.note_written(&at.key("provider"), Json::from(provider.as_str()));
        }
        let group_at = at.key("replica_group");
        let group = written_group(entry);
        match group {
            Some(_) if live == Live::ReverseProxy => {
                context.fail_key(&group_at, Fault::GroupOnPlainOrigin);
            }
            Some(group) => context.note_written(&group_at, Json::from(group)),
            None => {}
        }
        let capture_bytes_max = origin_capture_bytes(context, roster, &at, entry);
        let url = match entry.written.origin_url.as_deref() {
            Some(written) if !written.is_empty() => {
                origin_url(context, &at.key("origin_url"), Some(written))
            }
            _ => Some(templates::url_of_nobody()),
        };
        let paths = paths::compile(context, named, live, entry);
        let latency = latency(context, &at, entry);
        let compressible_types = compressible_types(context, &at, entry);
        let Some((origin, tls)) = origin(context, &at, (live, entry), url, named) else {
            continue;
        };
        let backend = Backend {
            id: BackendId(u32::MAX),
            name: entry.name.into(),
            provider_label: live.name(),
            replica_group: group.unwrap_or_default().into(),
            capture_bytes_max,
            paths: paths.into(),
            latency,
            compressible_types: compressible_types.into(),
            kind: BackendKind::Origin(Box::new(origin.clone())),
        };
        let probe = health::of_template(context, entry, &backend, &origin);
        templates.push(Template::new(backend, origin, tls, probe));
    }
    templates
}

/// The capture cap of an origin, which no other key of the kind is for.
fn origin_capture_bytes(
    context: &mut Context<'_>,
    roster: &Roster<'_>,
    at: &Path,
    entry: &Entry<'_>,
) -> u64 {
    // In the entry `default` it counts for all ALBs. Decisions, 5.
    if entry.name != "default" {
        let key = at.key("max_fanout_capture_bytes");
        context.warn_no_effect(&key, "only an ALB asks several members at once");
    }
    capture_bytes(context, roster, at, entry)
}

/// Simulated latency; without an end it is always the same.
fn latency(context: &mut Context<'_>, at: &Path, entry: &Entry<'_>) -> Option<Latency> {
    let (min_at, max_at) = (at.key("latency_min"), at.key("latency_max"));
    let min = context.pick(&min_at, entry.written.latency_min, defaults::LATENCY);
    let max = entry.written.latency_max;
    let max = context.pick_or_derive(&max_at, max, min, "latency_min");
    if max < min {
        context.fail_value(&max_at, Fault::LatencyOrder);
    }
    (!max.0.is_zero()).then_some(Latency {
        min: min.0,
        max: max.0,
    })
}

/// Content types in lower case, without parameters.
fn compressible_types(context: &mut Context<'_>, at: &Path, entry: &Entry<'_>) -> Vec<Box<str>> {
    let at = at.key("compressible_types");
    let written = entry.written.compressible_types.clone();
    let types = context.pick_texts(&at, written, defaults::COMPRESSIBLE_TYPES);
    for (index, text) in types.iter().enumerate() {
        if !is_content_type(text) {
            let text = text.clone();
            context.fail_value(&at.item(index), Fault::ContentType { text });
        }
    }
    let lower = types.iter().map(|text| text.to_ascii_lowercase().into());
    lower.collect()
}

/// `kind/type` or `kind/*`.
fn is_content_type(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte);
    let is_token = |part: &str| !part.is_empty() && part.bytes().all(fits);
    text.split_once('/')
        .is_some_and(|(kind, rest)| is_token(kind) && (rest == "*" || is_token(rest)))
}

/// The capture cap of an origin: its own, the common one, the default; 0 stands for "not set".
fn capture_bytes(
    context: &mut Context<'_>,
    roster: &Roster<'_>,
    at: &Path,
    entry: &Entry<'_>,
) -> u64 {
    let places = [
        (at.key("max_capture_bytes"), entry.written.max_capture_bytes),
        (
            Path::of(&["backends", "default", "max_capture_bytes"]),
            roster
                .common_caps()
                .and_then(|common| common.max_capture_bytes),
        ),
    ];
    match context.pick_first(&places, defaults::CAPTURE_BYTES) {
        0 => defaults::CAPTURE_BYTES.value,
        bytes => bytes,
    }
}

/// The replica group: trimmed, the backend's own name unless written. Contract: time series page, 3.
fn replica_group(
    context: &mut Context<'_>,
    at: &Path,
    graph: &Graph,
    (id, live): (BackendId, Live),
    entry: &Entry<'_>,
) -> String {
    let at = at.key("replica_group");
    let written = written_group(entry);
    if written.is_some_and(|group| group != entry.name) {
        match live {
            Live::ReverseProxy => context.fail_key(&at, Fault::GroupOnPlainOrigin),
            Live::Alb | Live::Rule if !graph.is_merged(id) => {
                context.fail_key(&at, Fault::GroupOutsideMerge);
            }
            Live::Alb | Live::Rule | Live::Prometheus => {}
        }
    }
    let own = entry.name.to_owned();
    if live == Live::ReverseProxy && written.is_none() {
        return own;
    }
    context.pick_or_derive(&at, written.map(str::to_owned), own, "the backend's name")
}

fn written_group<'a>(entry: &Entry<'a>) -> Option<&'a str> {
    let written = entry.written.replica_group.as_deref().map(str::trim);
    written.filter(|group| !group.is_empty())
}

fn origin(
    context: &mut Context<'_>,
    at: &Path,
    (live, entry): (Live, &Entry<'_>),
    url: Option<OriginUrl>,
    named: Named<'_>,
) -> Option<(Origin, tls::Client)> {
    let written = entry.written;
    let tls = tls::client(context, at, url.as_ref(), written.tls.as_ref());
    let is_plain = url.as_ref().is_some_and(|url| url.scheme == Scheme::Http);
    let spare_tls = match is_plain && named.rewriters.may_turn_to_https() {
        true => tls::spare(context, at, url.as_ref(), written.tls.as_ref()),
        false => None,
    };
    let timeout = context.pick(&at.key("timeout"), written.timeout, defaults::TIMEOUT);
    let connect_timeout = context.pick(
        &at.key("connect_timeout"),
        written.connect_timeout,
        defaults::CONNECT_TIMEOUT,
    );
    let keep_alive_timeout = context.pick(
        &at.key("keep_alive_timeout"),
        written.keep_alive_timeout,
        defaults::KEEP_ALIVE_TIMEOUT,
    );
    let idle_max = context.pick(
        &at.key("max_idle_conns"),
        written.max_idle_conns,
        defaults::IDLE_CONNECTIONS,
    );
    let connections_max = context.pick(
        &at.key("max_concurrent_conns"),
        written.max_concurrent_conns,
        defaults::CONNECTIONS,
    );
    let forwarded = context.pick_text(
        &at.key("forwarded_headers"),
        written.forwarded_headers.as_deref(),
        defaults::FORWARDED_HEADERS,
    );
    let injected_labels = labels(context, &at.key("prometheus").key("labels"), entry);
    let url = url?;
    let tls = tls?;
    let origin = Origin {
        provider: match live {
            Live::Prometheus => OriginProvider::Prometheus,
            Live::ReverseProxy | Live::Alb | Live::Rule => OriginProvider::ReverseProxy,
        },
        scheme: url.scheme,
        host: url.authority.host.as_str().into(),
        port: url.port(),
        authority: url.host_header().into(),
        path_prefix: url.path_prefix.as_str().into(),
        peer_key: tls.peer_key(&url).into(),
        tls: tls.settings.clone(),
        spare_tls,
        timeout: timeout.0,
        connect_timeout: connect_timeout.0,
        keep_alive_timeout: keep_alive_timeout.0,
        idle_max,
        connections_max,
        forwarded: match forwarded.as_str() {
            "x" => ForwardedHeaders::X,
            "both" => ForwardedHeaders::Both,
            "none" => ForwardedHeaders::None,
            _ => ForwardedHeaders::Standard,
        },
        injected_labels,
    };
    Some((origin, tls))
}

fn origin_url(context: &mut Context<'_>, at: &Path, written: Option<&str>) -> Option<OriginUrl> {
    let Some(written) = written.filter(|url| !url.is_empty()) else {
        context.fail_key(at, Fault::Required { what: "origin_url" });
        return None;
    };
    context.note_written(at, Json::from(written));
    match OriginUrl::parse(written) {
        Ok(url) => Some(url),
        Err(reason) => {
            context.fail_value(at, Fault::OriginUrl { reason });
            None
        }
    }
}

/// `prometheus.labels`, by name.
fn labels(context: &mut Context<'_>, at: &Path, entry: &Entry<'_>) -> Vec<(String, String)> {
    let written = entry.written.prometheus.as_ref();
    let Some(labels) = written.and_then(|prometheus| prometheus.labels.as_ref()) else {
        return Vec::new();
    };
    let mut shown = Map::new();
    let mut out = Vec::new();
    for (name, value) in labels {
        if !is_label_name(name) {
            let name = name.clone();
            context.fail_key(&at.key(&name), Fault::LabelName { name });
        }
        shown.insert(name.clone(), Json::from(value.as_str()));
        out.push((name.clone(), value.clone()));
    }
    context.note_written(at, Json::Object(shown));
    out
}

/// A label an operator may add: the exposition format's names, without those reserved for the server.
fn is_label_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && !name.starts_with("__")
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
