//! Block `alb.discovery.query`: one vocabulary, of which each provider has a part. Contract: autodiscovery page, 2.5.

use std::collections::BTreeMap;

use ringway_shards::plan::Scheme;
use serde_json::{Map, Value as Json};

use super::text;
use crate::compile::context::Context;
use crate::compile::effective::MASK;
use crate::config::discovery::query::Query as Written;
use crate::config::origin_url::check_host_name;
use crate::config::{Fault, Path, defaults};
use crate::discovery::settings::{AddressType, KubernetesKind, Port, Query};

/// Longest name of a port in Kubernetes.
const PORT_NAME_CHARS_MAX: usize = 15;

/// What a query is for: a provider, or one service of it. A column of [`FIELDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::compile) enum Flavour {
    Kubernetes,
    DnsSrv,
    DnsA,
    File,
    HttpSd,
    Consul,
    Nomad,
    Ec2,
    Ecs,
    Gcp,
    Azure,
    Docker,
}

/// All columns, with their names in messages.
pub(in crate::compile) const FLAVOURS: &[(Flavour, &str)] = &[
    (Flavour::Kubernetes, "kubernetes"),
    (Flavour::DnsSrv, "dns_srv"),
    (Flavour::DnsA, "dns_a"),
    (Flavour::File, "file"),
    (Flavour::HttpSd, "http_sd"),
    (Flavour::Consul, "consul"),
    (Flavour::Nomad, "nomad"),
    (Flavour::Ec2, "aws (service ec2)"),
    (Flavour::Ecs, "aws (service ecs)"),
    (Flavour::Gcp, "gcp"),
    (Flavour::Azure, "azure"),
    (Flavour::Docker, "docker"),
];

/// Every field and who has it: `.` nobody, `o` may, `!` must. Columns are those of [`FLAVOURS`].
#[rustfmt::skip]
pub(in crate::compile) const FIELDS: &[(&str, &str)] = &[
    //                      k8s srv a file http_sd con nom ec2 ecs gcp az docker
    ("kind",                "o..........."),
    ("namespace",           "o..........."),
    ("selector",            "o..........."),
    ("service",             "o....!!.o..."),
    ("srv_name",            ".!.........."),
    ("hostname",            "..!........."),
    ("path",                "...!o......."),
    ("port",                "o.!....ooooo"),
    ("port_label",          ".......ooooo"),
    ("address_type",        ".......o.ooo"),
    ("scheme",              "ooo.oooooooo"),
    ("replica_group_label", "o....o.ooooo"),
    ("tags",                ".....oooooo."),
    ("filter",              ".....oo..o.."),
    ("filters",             ".......o...o"),
    ("cluster",             "........o..."),
    ("network",             "...........o"),
];

impl Flavour {
    /// Of a provider and, where it has several, its service.
    pub(in crate::compile) fn of(provider: &str, service: Option<&str>) -> Option<Self> {
        let name = match (provider, service) {
            ("aws", Some("ec2")) => "aws (service ec2)",
            ("aws", Some("ecs")) => "aws (service ecs)",
            (provider, _) => provider,
        };
        let known = FLAVOURS.iter().find(|(_, known)| *known == name);
        known.map(|(flavour, _)| *flavour)
    }

    /// Its name in messages.
    pub(in crate::compile) fn name(self) -> &'static str {
        FLAVOURS[self as usize].1
    }

    /// Whether its source tells machines and no ports.
    fn tells_hosts(self) -> bool {
        matches!(
            self,
            Flavour::Ec2 | Flavour::Ecs | Flavour::Gcp | Flavour::Azure
        )
    }

    /// Whether it has a field.
    fn has(self, field: &str) -> bool {
        let row = FIELDS.iter().find(|(name, _)| *name == field);
        row.is_some_and(|(_, uses)| uses.as_bytes()[self as usize] != b'.')
    }
}

/// A query for this flavour.
pub(super) fn compile(
    context: &mut Context<'_>,
    at: &Path,
    written: &Written,
    flavour: Flavour,
) -> Query {
    refuse_foreign_fields(context, at, flavour);
    let mut field = |name: &str, value: &Option<String>| {
        let place = at.key(name);
        match flavour.has(name) {
            true => text(context, &place, value.as_ref()),
            false => None,
        }
    };
    let mut query = Query {
        namespace: field("namespace", &written.namespace),
        service: field("service", &written.service),
        srv_name: field("srv_name", &written.srv_name),
        hostname: field("hostname", &written.hostname),
        port_label: field("port_label", &written.port_label),
        replica_group_label: field("replica_group_label", &written.replica_group_label),
        filter: field("filter", &written.filter),
        cluster: field("cluster", &written.cluster),
        network: field("network", &written.network),
        scheme: field("scheme", &written.scheme).map(|word| match &*word {
            "https" => Scheme::Https,
            _ => Scheme::Http,
        }),
        ..Query::default()
    };
    query.path = path(context, &at.key("path"), written, flavour);
    if flavour == Flavour::Kubernetes {
        kubernetes(context, at, written, &mut query);
    }
    query.port = port(context, at, written, flavour);
    if flavour.has("address_type") {
        query.address_type = address_type(context, at, written);
    }
    if flavour.has("tags") {
        query.tags = tags(context, at, written);
    }
    if flavour.has("filters") {
        query.filters = filters(context, at, written);
    }
    check_texts(context, at, &query, flavour);
    check_needs(context, at, &query, flavour);
    query
}

fn refuse_foreign_fields(context: &mut Context<'_>, at: &Path, flavour: Flavour) {
    let document = context.document;
    let keys = document.keys_at(at);
    for (field, uses) in FIELDS {
        if !keys.contains(field) || flavour.has(field) {
            continue;
        }
        let others = FLAVOURS.iter().zip(uses.bytes());
        let others = others.filter(|(_, used)| *used != b'.');
        let allowed: Vec<&str> = others.map(|((_, name), _)| *name).collect();
        let fault = Fault::QueryField {
            provider: flavour.name().to_owned(),
            allowed: allowed.join(", "),
        };
        context.fail_key(&at.key(field), fault);
    }
}

/// The path of a file or an endpoint. A query in it may have a key of the source's own, so it is noted without.
fn path(
    context: &mut Context<'_>,
    at: &Path,
    written: &Written,
    flavour: Flavour,
) -> Option<Box<str>> {
    let path = written.path.as_ref().filter(|path| !path.is_empty())?;
    match path.split_once('?') {
        _ if !flavour.has("path") => return None,
        Some((shown, _)) if flavour == Flavour::HttpSd => {
            context.note_written(at, Json::from(format!("{shown}?{MASK}")));
        }
        _ => context.note_written(at, Json::from(path.as_str())),
    }
    Some(path.as_str().into())
}

/// Kind and selector, and what goes together. Contract: autodiscovery page, 7.2.
fn kubernetes(context: &mut Context<'_>, at: &Path, written: &Written, query: &mut Query) {
    let kind = context.pick_text(
        &at.key("kind"),
        written.kind.as_deref(),
        defaults::QUERY_KIND,
    );
    let mut shown = Map::new();
    for (label, value) in written.selector.iter().flatten() {
        shown.insert(label.clone(), Json::from(value.as_str()));
        let pair = (label.as_str().into(), value.as_str().into());
        query.selector.extend([pair]);
    }
    if !shown.is_empty() {
        context.note_written(&at.key("selector"), Json::Object(shown));
    }
    let (kind, needs) = match kind.as_str() {
        "service" => {
            query.kind = KubernetesKind::Service;
            let is_met = query.service.is_some() || !query.selector.is_empty();
            ("service", (!is_met).then_some("selector or service"))
        }
        "pods" => {
            query.kind = KubernetesKind::Pods;
            if query.service.is_some() {
                context.fail_key(&at.key("service"), Fault::ServiceOfPods);
            }
            ("pods", query.selector.is_empty().then_some("a selector"))
        }
        _ => {
            let is_missing = query.service.is_none();
            ("endpointslices", is_missing.then_some("a service"))
        }
    };
    if let Some(needs) = needs
        && !context.was_refused_within(at)
    {
        context.fail_key(at, Fault::KindNeeds { kind, needs });
    }
}

/// A number, or for Kubernetes a name too.
fn port(context: &mut Context<'_>, at: &Path, written: &Written, flavour: Flavour) -> Option<Port> {
    let place = at.key("port");
    let found = written.port.as_ref().filter(|_| flavour.has("port"));
    let found = text(context, &place, found)?;
    let takes_names = flavour == Flavour::Kubernetes;
    if found.bytes().all(|b| b.is_ascii_digit()) {
        if let Some(number) = found.parse().ok().filter(|number| *number > 0) {
            return Some(Port::Number(number));
        }
    } else if takes_names && is_port_name(&found) {
        return Some(Port::Name(found));
    }
    let fault = Fault::QueryPort {
        found: found.into(),
        provider: flavour.name().to_owned(),
        expected: match takes_names {
            true => {
                "a number from 1 to 65535, or a name of at most 15 lower-case letters, digits and -"
            }
            false => "a number from 1 to 65535",
        },
    };
    context.fail_value(&place, fault);
    None
}

fn is_port_name(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    text.len() <= PORT_NAME_CHARS_MAX && text.bytes().all(fits)
}

fn address_type(context: &mut Context<'_>, at: &Path, written: &Written) -> AddressType {
    let word = context.pick_text(
        &at.key("address_type"),
        written.address_type.as_deref(),
        defaults::ADDRESS_TYPE,
    );
    match word.as_str() {
        "public" => AddressType::Public,
        "ipv6" => AddressType::Ipv6,
        _ => AddressType::Private,
    }
}

fn tags(context: &mut Context<'_>, at: &Path, written: &Written) -> Vec<Box<str>> {
    let place = at.key("tags");
    let Some(tags) = &written.tags else {
        return Vec::new();
    };
    context.note_written(&place, Json::from(tags.clone()));
    for (index, _) in tags.iter().enumerate().filter(|(_, tag)| tag.is_empty()) {
        let what = "a tag";
        context.fail_value(&place.item(index), Fault::EmptyItem { what });
    }
    tags.iter().map(|tag| tag.as_str().into()).collect()
}

fn filters(
    context: &mut Context<'_>,
    at: &Path,
    written: &Written,
) -> BTreeMap<Box<str>, Vec<Box<str>>> {
    let place = at.key("filters");
    let mut filters: BTreeMap<Box<str>, Vec<Box<str>>> = BTreeMap::new();
    for (name, values) in written.filters.iter().flat_map(|filters| &filters.0) {
        let here = place.key(name);
        if values.is_empty() && !context.was_refused_within(&here) {
            let what = "value";
            context.fail_key(&here, Fault::EmptyList { what });
        }
        context.note_written(&here, Json::from(values.clone()));
        let values = values.iter().map(|value| value.as_str().into());
        filters.insert(name.as_str().into(), values.collect());
    }
    filters
}

/// Texts that have a form.
fn check_texts(context: &mut Context<'_>, at: &Path, query: &Query, flavour: Flavour) {
    for (key, host) in [("srv_name", &query.srv_name), ("hostname", &query.hostname)] {
        let Some(host) = host else { continue };
        if let Err(reason) = check_host_name(host) {
            let host = host.to_string();
            context.fail_value(&at.key(key), Fault::BadHost { host, reason });
        }
    }
    if let Some(path) = query.path.as_deref().filter(|_| flavour == Flavour::HttpSd) {
        let fits = |c: char| c.is_ascii_graphic() && c != '#';
        if !path.starts_with('/') || !path.chars().all(fits) {
            let found = path.to_owned();
            context.fail_value(&at.key("path"), Fault::QueryPath { found });
        }
    }
}

/// Fields without which the source cannot be asked, or its members have no port.
fn check_needs(context: &mut Context<'_>, at: &Path, query: &Query, flavour: Flavour) {
    let provider = || flavour.name().to_owned();
    for (field, uses) in FIELDS {
        if uses.as_bytes()[flavour as usize] != b'!' {
            continue;
        }
        let (is_set, what) = match *field {
            "service" => (query.service.is_some(), "the name of a service"),
            "srv_name" => (
                query.srv_name.is_some(),
                "the name of SRV records, such as _web._tcp.example.com",
            ),
            "hostname" => (query.hostname.is_some(), "the name of address records"),
            "path" => (query.path.is_some(), "a file with a list of members"),
            _ => (query.port.is_some(), "the port of every member"),
        };
        let place = at.key(field);
        let is_known = context.was_refused(&place) || context.has_failed(&place);
        if !is_set && !is_known {
            let provider = provider();
            let fault = Fault::QueryNeeds {
                provider,
                field,
                what,
            };
            context.fail_key(&place, fault);
        }
    }
    let place = at.key("port");
    let has_port = query.port.is_some() || query.port_label.is_some();
    if flavour.tells_hosts() && !has_port && !context.has_failed(&place) {
        let fault = Fault::QueryNeeds {
            provider: provider(),
            field: "port",
            what: "its API tells machines without ports; write port, port_label or both",
        };
        context.fail_key(&place, fault);
    }
}
