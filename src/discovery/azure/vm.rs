//! Virtual machines, and the join that finds their addresses. Contract: autodiscovery page, 14.3.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

use crate::discovery::Readiness;
use crate::discovery::cloud::{Host, Sorted, or_default};
use crate::discovery::settings::{AddressType, Query};

/// What is joined.
#[derive(Debug, Default)]
pub struct Lists {
    /// Machines.
    pub machines: Vec<Machine>,
    /// Network interfaces.
    pub interfaces: Vec<Interface>,
    /// Public addresses, where they are wanted.
    pub addresses: Option<Vec<PublicAddress>>,
    /// Machines with their instance views, where power states are wanted.
    pub states: Option<Vec<Machine>>,
}

/// What is read of a machine. Absent and null are empty.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "Azure's own names")]
pub struct Machine {
    #[serde(deserialize_with = "or_default")]
    pub id: String,
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    #[serde(deserialize_with = "or_default")]
    pub location: String,
    #[serde(deserialize_with = "or_default")]
    pub tags: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub properties: MachineProperties,
}

/// Its properties.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "Azure's own names")]
pub struct MachineProperties {
    #[serde(deserialize_with = "or_default")]
    pub vm_id: String,
    #[serde(deserialize_with = "or_default")]
    pub hardware_profile: Hardware,
    #[serde(deserialize_with = "or_default")]
    pub network_profile: Network,
    #[serde(deserialize_with = "or_default")]
    pub instance_view: View,
}

/// Its hardware.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "Azure's own names")]
pub struct Hardware {
    #[serde(deserialize_with = "or_default")]
    pub vm_size: String,
}

/// Its network.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "Azure's own names")]
pub struct Network {
    #[serde(deserialize_with = "or_default")]
    pub network_interfaces: Vec<Reference>,
}

/// Its state.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "Azure's own names")]
pub struct View {
    #[serde(deserialize_with = "or_default")]
    pub statuses: Vec<Status>,
}

/// One of its states.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "Azure's own names")]
pub struct Status {
    #[serde(deserialize_with = "or_default")]
    pub code: String,
}

/// The id of something else, and whether it is the first choice among its like.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "Azure's own names")]
pub struct Reference {
    #[serde(deserialize_with = "or_default")]
    pub id: String,
    #[serde(deserialize_with = "or_default")]
    pub properties: ReferenceProperties,
}

/// What is said of the other.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "Azure's own names")]
pub struct ReferenceProperties {
    pub primary: Option<bool>,
}

/// What is read of a network interface.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "Azure's own names")]
pub struct Interface {
    #[serde(deserialize_with = "or_default")]
    pub id: String,
    #[serde(deserialize_with = "or_default")]
    pub properties: InterfaceProperties,
}

/// Its properties.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "Azure's own names")]
pub struct InterfaceProperties {
    pub primary: Option<bool>,
    #[serde(deserialize_with = "or_default")]
    pub ip_configurations: Vec<IpConfiguration>,
}

/// One of its addresses, or pair of them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "Azure's own names")]
pub struct IpConfiguration {
    #[serde(deserialize_with = "or_default")]
    pub properties: IpConfigurationProperties,
}

/// Its properties.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "Azure's own names")]
pub struct IpConfigurationProperties {
    pub primary: Option<bool>,
    #[serde(rename = "privateIPAddress", deserialize_with = "or_default")]
    pub private_ip_address: String,
    #[serde(rename = "privateIPAddressVersion", deserialize_with = "or_default")]
    pub private_ip_address_version: String,
    #[serde(rename = "publicIPAddress", deserialize_with = "or_default")]
    pub public_ip_address: Reference,
}

/// What is read of a public address.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "Azure's own names")]
pub struct PublicAddress {
    #[serde(deserialize_with = "or_default")]
    pub id: String,
    #[serde(deserialize_with = "or_default")]
    pub properties: PublicAddressProperties,
}

/// Its properties.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "Azure's own names")]
pub struct PublicAddressProperties {
    #[serde(deserialize_with = "or_default")]
    pub ip_address: String,
}

impl Machine {
    /// Whether it says anything of its state.
    pub fn has_instance_view(&self) -> bool {
        !self.properties.instance_view.statuses.is_empty()
    }

    /// Such as `running`; `None`: it does not say.
    fn power_state(&self) -> Option<&str> {
        let mut statuses = self.properties.instance_view.statuses.iter();
        statuses.find_map(|status| {
            let (kind, state) = status.code.split_once('/')?;
            kind.eq_ignore_ascii_case("PowerState").then_some(state)
        })
    }

    /// Names of tags have no case.
    fn tag(&self, name: &str) -> Option<&str> {
        let mut tags = self.tags.iter();
        let found = tags.find(|(key, _)| key.to_lowercase() == name.to_lowercase());
        found.map(|(_, value)| value.as_str())
    }

    fn resource_group(&self) -> &str {
        let mut segments = self.id.split('/');
        segments
            .find(|segment| segment.eq_ignore_ascii_case("resourceGroups"))
            .and_then(|_| segments.next())
            .unwrap_or_default()
    }
}

/// Lists by id. Ids have no case, and are written in more than one.
struct Index<'a> {
    interfaces: HashMap<String, &'a Interface>,
    addresses: HashMap<String, &'a PublicAddress>,
    states: Option<HashMap<String, &'a Machine>>,
}

/// Sorts the machines.
pub fn sort(lists: &Lists, query: &Query, sorted: &mut Sorted) {
    let interfaces = lists.interfaces.iter();
    let addresses = lists.addresses.iter().flatten();
    let index = Index {
        interfaces: interfaces.map(|one| (one.id.to_lowercase(), one)).collect(),
        addresses: addresses.map(|one| (one.id.to_lowercase(), one)).collect(),
        states: lists.states.as_ref().map(|states| {
            let states = states.iter();
            states.map(|one| (one.id.to_lowercase(), one)).collect()
        }),
    };
    for machine in &lists.machines {
        if query.tags.iter().all(|tag| machine.tag(tag).is_some()) {
            sort_machine(machine, &index, query, sorted);
        }
    }
}

fn sort_machine(machine: &Machine, index: &Index<'_>, query: &Query, sorted: &mut Sorted) {
    let power = index.states.as_ref().and_then(|states| {
        // One that is missing there was made in between, or says nothing yet: that is not stopped.
        states.get(&machine.id.to_lowercase())?.power_state()
    });
    let ready = match power {
        None => Readiness::Unknown,
        Some(state) if state.eq_ignore_ascii_case("running") => Readiness::Ready,
        Some(_) => return,
    };
    let configurations = match configurations(machine, index) {
        Ok(configurations) => configurations,
        Err(reason) => return sorted.exclude(&machine.name, reason),
    };
    let private = private(&configurations);
    let public = public(&configurations, index);
    let own = machine.tags.iter();
    let host = Host {
        name: &machine.name,
        address: match query.address_type {
            AddressType::Private => private,
            AddressType::Public => public,
            AddressType::Ipv6 => ipv6(&configurations),
        },
        port: query.port_label.as_ref().and_then(|name| machine.tag(name)),
        replica_group: {
            let label = query.replica_group_label.as_ref();
            label.and_then(|name| machine.tag(name))
        },
        ready,
        labels: vec![
            ("vm_name", &machine.name),
            ("vm_id", &machine.properties.vm_id),
            ("location", &machine.location),
            ("vm_size", &machine.properties.hardware_profile.vm_size),
            ("resource_group", machine.resource_group()),
            ("private_ip", private.unwrap_or_default()),
            ("public_ip", public.unwrap_or_default()),
            ("power_state", power.unwrap_or_default()),
        ],
        own_labels: ("tag_", own.map(|(key, value)| (&**key, &**value)).collect()),
    };
    sorted.add(host.member(query));
}

/// The ip configurations of a machine, in order: of its primary interface first, of each the primary one first.
fn configurations<'a>(
    machine: &Machine,
    index: &Index<'a>,
) -> Result<Vec<&'a IpConfigurationProperties>, &'static str> {
    let references = &machine.properties.network_profile.network_interfaces;
    if references.is_empty() {
        return Err("it has no network interface");
    }
    let mut found: Vec<(bool, &Interface)> = references
        .iter()
        .filter_map(|reference| {
            let interface = *index.interfaces.get(&reference.id.to_lowercase())?;
            let says = reference.properties.primary;
            let is_primary = says.or(interface.properties.primary).unwrap_or_default();
            Some((is_primary, interface))
        })
        .collect();
    if found.is_empty() {
        return Err(
            "none of its network interfaces is in the list of them: they may be in another resource group or \
             subscription than azure.resource_group and azure.subscription_id say",
        );
    }
    found.sort_by_key(|(is_primary, _)| !is_primary);
    let mut all = Vec::new();
    for (_, interface) in found {
        let listed = interface.properties.ip_configurations.iter();
        let mut listed: Vec<_> = listed.map(|one| &one.properties).collect();
        listed.sort_by_key(|one| !one.primary.unwrap_or_default());
        all.extend(listed);
    }
    Ok(all)
}

fn private<'a>(configurations: &[&'a IpConfigurationProperties]) -> Option<&'a str> {
    let mut addresses = configurations.iter().map(|one| &*one.private_ip_address);
    addresses.find(|address| !address.is_empty())
}

fn ipv6<'a>(configurations: &[&'a IpConfigurationProperties]) -> Option<&'a str> {
    let configurations = configurations.iter();
    let mut addresses = configurations
        .filter(|one| one.private_ip_address_version.eq_ignore_ascii_case("IPv6"))
        .map(|one| &*one.private_ip_address);
    addresses.find(|address| !address.is_empty())
}

fn public<'a>(configurations: &[&IpConfigurationProperties], index: &Index<'a>) -> Option<&'a str> {
    let mut ids = configurations.iter().map(|one| &one.public_ip_address.id);
    ids.find_map(|id| {
        let address = index.addresses.get(&id.to_lowercase())?;
        Some(&*address.properties.ip_address).filter(|text| !text.is_empty())
    })
}

#[cfg(test)]
pub(super) mod tests;
