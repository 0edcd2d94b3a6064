//! The objects that are watched, as far as they are read, and what is found out alike for all of them: ports and
//! schemes. Unknown fields are passed over, null counts as absent. Contract: autodiscovery page, 7.4.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use ringway_shards::plan::Scheme;
use serde::{Deserialize, Deserializer};

use crate::discovery::settings::{Port, Query};
use crate::discovery::{Exclusion, Member};

/// Annotation of a Service or Pod that says its scheme.
const SCHEME_ANNOTATION: &str = "trickstercache.org/scheme";

/// The objects of one watch, by uid.
pub(super) type Objects<K> = BTreeMap<String, Arc<K>>;

/// What objects come to under a query.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    pub(super) members: Vec<Member>,
    pub(super) excluded: Vec<Exclusion>,
}

impl Mapped {
    /// Notes an object that cannot be a member.
    pub(super) fn exclude(&mut self, name: &str, reason: impl Into<String>) {
        self.excluded.push(Exclusion {
            name: name.into(),
            reason: reason.into(),
        });
    }

    /// In an order that does not depend on uids.
    pub(super) fn sorted(mut self) -> Mapped {
        self.members
            .sort_by(|a, b| (&a.name, &a.host).cmp(&(&b.name, &b.host)));
        self.excluded.sort();
        self
    }
}

/// A kind of object that is watched.
pub(super) trait Kind:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + std::fmt::Debug
    + serde::de::DeserializeOwned
    + PartialEq
    + Send
    + Sync
    + 'static
{
}

/// Implements [`Resource`] for a type with a field `metadata`.
macro_rules! kind {
    ($type:ty, $kind:literal, $group:literal, $plural:literal) => {
        impl Resource for $type {
            type DynamicType = ();
            type Scope = NamespaceResourceScope;

            fn kind((): &()) -> Cow<'_, str> {
                $kind.into()
            }

            fn group((): &()) -> Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> Cow<'_, str> {
                "v1".into()
            }

            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }

        impl Kind for $type {}
    };
}

kind!(Slice, "EndpointSlice", "discovery.k8s.io", "endpointslices");
kind!(Service, "Service", "", "services");
kind!(Pod, "Pod", "", "pods");

/// Some of the endpoints of a Service.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Slice {
    pub(super) metadata: ObjectMeta,
    pub(super) address_type: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) ports: Vec<DeclaredPort>,
    #[serde(deserialize_with = "or_default")]
    pub(super) endpoints: Vec<Endpoint>,
}

/// One endpoint.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Endpoint {
    #[serde(deserialize_with = "or_default")]
    pub(super) addresses: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) conditions: EndpointConditions,
    #[serde(deserialize_with = "or_default")]
    pub(super) target_ref: TargetRef,
}

/// The state of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct EndpointConditions {
    pub(super) ready: Option<bool>,
    pub(super) terminating: Option<bool>,
}

/// What is behind an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct TargetRef {
    #[serde(deserialize_with = "or_default")]
    pub(super) kind: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) name: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) uid: String,
}

/// A Service.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Service {
    pub(super) metadata: ObjectMeta,
    #[serde(deserialize_with = "or_default")]
    pub(super) spec: ServiceSpec,
}

/// The wanted state of a Service.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ServiceSpec {
    #[serde(rename = "clusterIP", deserialize_with = "or_default")]
    pub(super) cluster_ip: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) ports: Vec<DeclaredPort>,
}

/// A Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Pod {
    pub(super) metadata: ObjectMeta,
    #[serde(deserialize_with = "or_default")]
    pub(super) spec: PodSpec,
    #[serde(deserialize_with = "or_default")]
    pub(super) status: PodStatus,
}

/// The wanted state of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct PodSpec {
    #[serde(deserialize_with = "or_default")]
    pub(super) containers: Vec<Container>,
}

/// A container of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Container {
    #[serde(deserialize_with = "or_default")]
    pub(super) ports: Vec<DeclaredPort>,
}

/// The state of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct PodStatus {
    #[serde(deserialize_with = "or_default")]
    pub(super) phase: String,
    #[serde(rename = "podIP", deserialize_with = "or_default")]
    pub(super) pod_ip: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) conditions: Vec<Condition>,
}

/// A condition of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Condition {
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub(super) kind: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) status: String,
}

/// A port of a slice, Service or container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DeclaredPort {
    #[serde(deserialize_with = "or_default")]
    pub(super) name: String,
    /// In a slice, none means all ports.
    #[serde(alias = "containerPort")]
    pub(super) port: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    pub(super) protocol: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) app_protocol: String,
}

impl DeclaredPort {
    /// Its number, when requests can be sent to it.
    fn number(&self) -> Option<u16> {
        let is_tcp = self.protocol.is_empty() || self.protocol == "TCP";
        let number = u16::try_from(self.port?).ok()?;
        (is_tcp && number > 0).then_some(number)
    }
}

/// Null where a default belongs.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// The port of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) number: u16,
    /// Whether the object says that it speaks TLS.
    pub(super) is_https: bool,
}

/// The port that a query means, among those an object declares.
///
/// # Errors
/// Says why none can be chosen.
pub(super) fn choose(wanted: Option<&Port>, declared: &[&DeclaredPort]) -> Result<Chosen, String> {
    let usable = || {
        declared
            .iter()
            .filter_map(|port| Some((*port, port.number()?)))
    };
    let chosen = |(port, number): (&DeclaredPort, u16)| Chosen {
        number,
        is_https: port.app_protocol.eq_ignore_ascii_case("https"),
    };
    match wanted {
        Some(Port::Number(wanted)) => Ok(usable().find(|(_, number)| number == wanted).map_or(
            Chosen {
                number: *wanted,
                is_https: false,
            },
            chosen,
        )),
        Some(Port::Name(wanted)) => usable()
            .find(|(port, _)| *port.name == **wanted)
            .map(chosen)
            .ok_or_else(|| format!("has no TCP port named {wanted:?}")),
        None => {
            let mut numbers: Vec<u16> = usable().map(|(_, number)| number).collect();
            numbers.sort_unstable();
            numbers.dedup();
            match numbers.as_slice() {
                [_] => usable().next().map(chosen).ok_or_else(String::new),
                [] => Err("declares no TCP port: set query.port".to_owned()),
                several => Err(format!(
                    "declares several TCP ports ({several:?}): set query.port"
                )),
            }
        }
    }
}

/// The scheme of a member: the query's, else the port's, else that of an annotation.
pub(super) fn scheme(
    query: &Query,
    port: Chosen,
    annotations: Option<&BTreeMap<String, String>>,
) -> Scheme {
    if let Some(scheme) = query.scheme {
        return scheme;
    }
    let annotated = annotations.and_then(|all| all.get(SCHEME_ANNOTATION));
    match port.is_https || annotated.is_some_and(|scheme| scheme == "https") {
        true => Scheme::Https,
        false => Scheme::Http,
    }
}

/// The value of a label, empty when there is none.
pub(super) fn label<'a>(meta: &'a ObjectMeta, key: Option<&str>) -> &'a str {
    let value = key.and_then(|key| meta.labels.as_ref()?.get(key));
    value.map_or("", String::as_str)
}

/// The name of an object.
pub(super) fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

/// Identity of an object in a watch.
pub(super) fn identity(meta: &ObjectMeta) -> String {
    match meta.uid.as_deref() {
        Some(uid) if !uid.is_empty() => uid.to_owned(),
        _ => format!("name:{}", name(meta)),
    }
}

/// Leaves out what nobody reads: it would fill memory, and make unequal what is the same to us.
pub(super) fn trim(meta: &mut ObjectMeta) {
    let scheme = meta
        .annotations
        .take()
        .and_then(|mut all| all.remove_entry(SCHEME_ANNOTATION));
    *meta = ObjectMeta {
        name: meta.name.take(),
        namespace: meta.namespace.take(),
        uid: meta.uid.take(),
        labels: meta.labels.take(),
        deletion_timestamp: meta.deletion_timestamp.take(),
        annotations: scheme.map(|pair| BTreeMap::from([pair])),
        ..ObjectMeta::default()
    };
}
