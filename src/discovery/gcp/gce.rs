//! Compute Engine instances, as the aggregated list has them. Contract: autodiscovery page, 13.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::discovery::cloud::{Host, Sorted, joined, last_segment, not_understood, or_default};
use crate::discovery::settings::{AddressType, Query};
use crate::discovery::{Failure, Readiness};

/// What is asked, for people.
pub const WHAT: &str = "instances of Compute Engine";
const KIND: &str = "compute#instanceAggregatedList";
/// Code of the warning that a zone has no instances, which is none.
const NO_RESULTS: &str = "NO_RESULTS_ON_PAGE";

/// One page.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the API's own names")]
pub struct Page {
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    pub items: Option<BTreeMap<String, Zone>>,
    #[serde(deserialize_with = "or_default")]
    pub next_page_token: String,
    #[serde(deserialize_with = "or_default")]
    pub unreachables: Vec<String>,
    pub warning: Option<Warning>,
}

/// What a page has of one zone.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the API's own names")]
pub struct Zone {
    #[serde(deserialize_with = "or_default")]
    pub instances: Vec<Instance>,
    pub warning: Option<Warning>,
}

/// What is not as it should be.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the API's own names")]
pub struct Warning {
    #[serde(deserialize_with = "or_default")]
    pub code: String,
    #[serde(deserialize_with = "or_default")]
    pub message: String,
}

/// What is read of an instance. Absent and null are empty.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the API's own names")]
pub struct Instance {
    #[serde(deserialize_with = "or_default")]
    pub id: String,
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    #[serde(deserialize_with = "or_default")]
    pub status: String,
    #[serde(deserialize_with = "or_default")]
    pub zone: String,
    #[serde(deserialize_with = "or_default")]
    pub machine_type: String,
    #[serde(deserialize_with = "or_default")]
    pub network_interfaces: Vec<Interface>,
    #[serde(deserialize_with = "or_default")]
    pub labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub tags: Items<String>,
    #[serde(deserialize_with = "or_default")]
    pub metadata: Items<Entry>,
}

/// A list in an object of its own.
#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "the API's own names")]
pub struct Items<T> {
    #[serde(
        default = "Vec::new",
        deserialize_with = "or_default",
        bound(deserialize = "T: Deserialize<'de>")
    )]
    pub items: Vec<T>,
}

impl<T> Default for Items<T> {
    fn default() -> Self {
        Items { items: Vec::new() }
    }
}

/// One entry of the metadata of an instance. Has no `Debug` of its value: it may be secret.
#[derive(Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the API's own names")]
pub struct Entry {
    #[serde(deserialize_with = "or_default")]
    pub key: String,
    #[serde(deserialize_with = "or_default")]
    pub value: String,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// One of the interfaces of an instance.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the API's own names")]
pub struct Interface {
    #[serde(deserialize_with = "or_default")]
    pub network: String,
    #[serde(deserialize_with = "or_default")]
    pub subnetwork: String,
    #[serde(rename = "networkIP", deserialize_with = "or_default")]
    pub network_ip: String,
    #[serde(deserialize_with = "or_default")]
    pub ipv6_address: String,
    #[serde(deserialize_with = "or_default")]
    pub access_configs: Vec<Access>,
    #[serde(deserialize_with = "or_default")]
    pub ipv6_access_configs: Vec<Access>,
}

/// How an interface is reached from outside.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the API's own names")]
pub struct Access {
    #[serde(rename = "natIP", deserialize_with = "or_default")]
    pub nat_ip: String,
    #[serde(deserialize_with = "or_default")]
    pub external_ipv6: String,
}

/// Reads a page.
///
/// # Errors
/// When it is none: another document must not pass for one without instances.
pub fn parse_page(body: &[u8]) -> Result<Page, Failure> {
    let page: Page = serde_json::from_slice(body).map_err(|error| not_understood(WHAT, &error))?;
    match page.items.is_some() || page.kind == KIND {
        true => Ok(page),
        false => Err(Failure::new(format!(
            "{WHAT}: the answer is no list of them"
        ))),
    }
}

/// Whether an instance serves; `None`: it is leaving. States that are not known do not serve.
pub fn readiness(status: &str) -> Option<Readiness> {
    match status {
        "RUNNING" => Some(Readiness::Ready),
        "STOPPING" | "SUSPENDING" | "SUSPENDED" | "TERMINATED" => None,
        _ => Some(Readiness::NotReady),
    }
}

/// Sorts the instances of a page, zone after zone, and names what is missing of it.
pub fn sort(page: &Page, query: &Query, sorted: &mut Sorted) {
    for zone in &page.unreachables {
        sorted.exclude(zone, "it cannot be reached, so its instances are not known");
    }
    if let Some(reason) = page.warning.as_ref().and_then(trouble) {
        sorted.exclude(WHAT, reason);
    }
    for (name, zone) in page.items.iter().flatten() {
        if let Some(reason) = zone.warning.as_ref().and_then(trouble) {
            sorted.exclude(name, reason);
        }
        for instance in &zone.instances {
            sort_instance(instance, query, sorted);
        }
    }
}

fn trouble(warning: &Warning) -> Option<String> {
    match &*warning.code {
        NO_RESULTS => None,
        code => {
            let said = joined(code, &warning.message);
            Some(format!(
                "some of its instances may be missing: {}",
                crate::discovery::http::shown(&said)
            ))
        }
    }
}

fn sort_instance(instance: &Instance, query: &Query, sorted: &mut Sorted) {
    let tags = &instance.tags.items;
    let has_tag = |wanted: &str| tags.iter().any(|tag| tag == wanted);
    if !query.tags.iter().all(|wanted| has_tag(wanted)) {
        return;
    }
    let Some(ready) = readiness(&instance.status) else {
        return;
    };
    let [private, public] = [AddressType::Private, AddressType::Public]
        .map(|kind| address(instance, kind).unwrap_or_default());
    let first = instance.network_interfaces.first();
    let (network, subnetwork) = first.map_or(("", ""), |interface| {
        (&*interface.network, &*interface.subnetwork)
    });
    let joined_tags = match tags.is_empty() {
        true => String::new(),
        false => format!(",{},", tags.join(",")),
    };
    let host = Host {
        name: match instance.name.is_empty() {
            true => &instance.id,
            false => &instance.name,
        },
        address: address(instance, query.address_type),
        port: said(instance, query.port_label.as_deref()),
        replica_group: said(instance, query.replica_group_label.as_deref()),
        ready,
        labels: vec![
            ("instance_id", &instance.id),
            ("instance_name", &instance.name),
            ("status", &instance.status),
            ("zone", last_segment(&instance.zone)),
            ("machine_type", last_segment(&instance.machine_type)),
            ("network", last_segment(network)),
            ("subnetwork", last_segment(subnetwork)),
            ("private_ip", private),
            ("public_ip", public),
            ("tags", &joined_tags),
        ],
        own_labels: ("label_", {
            let own = instance.labels.iter();
            own.map(|(key, value)| (&**key, &**value)).collect()
        }),
    };
    sorted.add(host.member(query));
}

/// What a label says, else the metadata.
fn said<'a>(instance: &'a Instance, key: Option<&str>) -> Option<&'a str> {
    let key = key?;
    let label = instance.labels.get(key).map(String::as_str);
    let mut metadata = instance.metadata.items.iter();
    label.filter(|value| !value.is_empty()).or_else(|| {
        let found = metadata.find(|entry| entry.key == key)?;
        Some(&found.value)
    })
}

/// The address of the first interface that has one of this kind; of IPv6, those for outside come first.
fn address(instance: &Instance, kind: AddressType) -> Option<&str> {
    fn of(interface: &Interface, kind: AddressType) -> Option<&str> {
        let is_there = |text: &&str| !text.is_empty();
        let access = interface.access_configs.iter();
        let access_ipv6 = interface.ipv6_access_configs.iter();
        match kind {
            AddressType::Private => Some(&*interface.network_ip).filter(is_there),
            AddressType::Public => access.map(|config| &*config.nat_ip).find(is_there),
            AddressType::Ipv6 => access_ipv6
                .map(|config| &*config.external_ipv6)
                .find(is_there)
                .or(Some(&*interface.ipv6_address).filter(is_there)),
        }
    }
    let mut interfaces = instance.network_interfaces.iter();
    interfaces.find_map(|interface| of(interface, kind))
}

#[cfg(test)]
pub(super) mod tests;
