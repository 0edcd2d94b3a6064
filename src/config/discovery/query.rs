//! Block `backends.*.alb.discovery`: which members an ALB discovers. Contract: autodiscovery page, 2.4 and 2.5.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::config::load::Named;
use crate::config::schema::{Key, Kind};
use crate::config::units::Period;

/// What decides on the health of discovered members.
const HEALTH_MODE: Kind = Kind::Choice(&["probe", "provider"]);

/// Keys of the block.
pub const KEYS: &[Key] = &[
    Key::new("backends.*.alb.health_mode", HEALTH_MODE).deprecated("alb.discovery.health_mode"),
    Key::new("backends.*.alb.discovery", Kind::Section),
    Key::new("backends.*.alb.discovery.discoverer_name", Kind::Text),
    Key::new("backends.*.alb.discovery.template_backend", Kind::Text),
    Key::new(
        "backends.*.alb.discovery.min_members",
        // As many as a pool may have.
        Kind::Int {
            min: 0,
            max: 10_000,
        },
    ),
    Key::new(
        "backends.*.alb.discovery.max_shrink",
        Kind::Int { min: 1, max: 100 },
    ),
    Key::new(
        "backends.*.alb.discovery.debounce_window",
        Kind::Duration {
            min_ms: 0,
            max_ms: 0,
        },
    ),
    Key::new(
        "backends.*.alb.discovery.startup_policy",
        Kind::Choice(&["retry", "fail"]),
    ),
    Key::new("backends.*.alb.discovery.health_mode", HEALTH_MODE),
    Key::new("backends.*.alb.discovery.query", Kind::Section),
    Key::new(
        "backends.*.alb.discovery.query.kind",
        Kind::Choice(&["endpointslices", "service", "pods"]),
    ),
    Key::new("backends.*.alb.discovery.query.namespace", Kind::Text),
    Key::new("backends.*.alb.discovery.query.selector", Kind::TextMap),
    Key::new("backends.*.alb.discovery.query.service", Kind::Text),
    Key::new("backends.*.alb.discovery.query.srv_name", Kind::Text),
    Key::new("backends.*.alb.discovery.query.hostname", Kind::Text),
    Key::new("backends.*.alb.discovery.query.path", Kind::Text),
    Key::new("backends.*.alb.discovery.query.port", Kind::Text),
    Key::new("backends.*.alb.discovery.query.port_label", Kind::Text),
    Key::new(
        "backends.*.alb.discovery.query.address_type",
        Kind::Choice(&["private", "public", "ipv6"]),
    ),
    Key::new(
        "backends.*.alb.discovery.query.scheme",
        Kind::Choice(&["http", "https"]),
    ),
    Key::new(
        "backends.*.alb.discovery.query.replica_group_label",
        Kind::Text,
    ),
    Key::new("backends.*.alb.discovery.query.tags", Kind::Texts),
    Key::new("backends.*.alb.discovery.query.filter", Kind::Text),
    Key::new("backends.*.alb.discovery.query.filters", Kind::Names),
    Key::new("backends.*.alb.discovery.query.filters.*", Kind::Texts),
    Key::new("backends.*.alb.discovery.query.cluster", Kind::Text),
    Key::new("backends.*.alb.discovery.query.network", Kind::Text),
];

/// The block as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlbDiscovery {
    /// Entry of section `discovery`.
    pub discoverer_name: Option<String>,
    /// Backend that members are made of.
    pub template_backend: Option<String>,
    /// What is asked.
    pub query: Option<Query>,
    /// Fewest members of a reading.
    pub min_members: Option<u32>,
    /// Most members that one reading takes away, in per cent.
    pub max_shrink: Option<u8>,
    /// Time within which later readings replace one another.
    pub debounce_window: Option<Period>,
    /// What becomes of the start when the first reading fails.
    pub startup_policy: Option<String>,
    /// Who decides on health.
    pub health_mode: Option<String>,
}

/// Block `query` as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// Kind of Kubernetes object.
    pub kind: Option<String>,
    /// Namespace.
    pub namespace: Option<String>,
    /// Labels that objects have.
    pub selector: Option<BTreeMap<String, String>>,
    /// Service.
    pub service: Option<String>,
    /// Name of SRV records.
    pub srv_name: Option<String>,
    /// Name of address records.
    pub hostname: Option<String>,
    /// File, or path of a URL.
    pub path: Option<String>,
    /// Number or name of a port.
    pub port: Option<String>,
    /// Where the port is read.
    pub port_label: Option<String>,
    /// Which address.
    pub address_type: Option<String>,
    /// Scheme of members.
    pub scheme: Option<String>,
    /// Where the replica group is read.
    pub replica_group_label: Option<String>,
    /// Tags that members have.
    pub tags: Option<Vec<String>>,
    /// The source's filter expression.
    pub filter: Option<String>,
    /// The source's filters, in written order.
    pub filters: Option<Named<Vec<String>>>,
    /// ECS cluster.
    pub cluster: Option<String>,
    /// Docker network.
    pub network: Option<String>,
}
