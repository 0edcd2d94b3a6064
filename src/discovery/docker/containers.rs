//! A Docker Engine's list of containers, as members.
//!
//! A container that runs and has no one address and port is excluded, with the reason; one that does not run is left
//! out without a word. The engine lists ports and networks in no order, so nothing here depends on one. Contract:
//! autodiscovery page, 15.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::Deserialize;

use crate::discovery::members::port;
use crate::discovery::settings::{AddressType, Port, Query};
use crate::discovery::{Exclusion, Member, Readiness};

/// Characters of a short container id.
const SHORT_ID_CHARS: usize = 12;
const LOOPBACK: &str = "127.0.0.1";
/// The network of containers that have none.
const NO_NETWORK: &str = "none";

/// Where the engine is, and so where a port is that it publishes on all addresses of its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On this machine.
    Here,
    /// At this host, without brackets.
    Host(Box<str>),
}

impl Place {
    fn host(&self) -> &str {
        match self {
            Place::Here => LOOPBACK,
            Place::Host(host) => host,
        }
    }

    /// Whether the engine's loopback addresses are this machine's.
    fn is_here(&self) -> bool {
        match self {
            Place::Here => true,
            Place::Host(host) => {
                let address = host.parse::<IpAddr>();
                &**host == "localhost" || address.is_ok_and(|address| address.is_loopback())
            }
        }
    }
}

/// Members and what was left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The members.
    pub members: Vec<Member>,
    /// Containers that run and cannot be members.
    pub excluded: Vec<Exclusion>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Container {
    id: String,
    names: Option<Vec<String>>,
    image: Option<String>,
    state: String,
    status: Option<String>,
    labels: Option<BTreeMap<String, Option<String>>>,
    ports: Option<Vec<Exposed>>,
    network_settings: Option<NetworkSettings>,
}

/// A port of a container; with `PublicPort` also a binding of it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Exposed {
    #[serde(rename = "IP")]
    ip: Option<String>,
    private_port: Option<u16>,
    public_port: Option<u16>,
    r#type: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct NetworkSettings {
    networks: Option<BTreeMap<String, Option<Network>>>,
}

#[derive(Default, Deserialize)]
struct Network {
    #[serde(rename = "IPAddress")]
    ip_address: Option<String>,
    #[serde(rename = "GlobalIPv6Address")]
    global_ipv6_address: Option<String>,
}

/// Reads the body of `GET /containers/json`.
///
/// # Errors
/// When it is not the list that the engine's API describes.
pub fn parse(body: &[u8], query: &Query, place: &Place) -> Result<Listing, String> {
    let containers: Vec<Container> =
        serde_json::from_slice(body).map_err(|error| format!("not a list of them: {error}"))?;
    let mut listing = Listing::default();
    for container in containers.iter().filter(|c| c.state == "running") {
        match container.member(query, place) {
            Ok(member) => listing.members.push(member),
            Err(reason) => listing.excluded.push(Exclusion {
                name: container.name().into(),
                reason,
            }),
        }
    }
    Ok(listing)
}

/// A published port.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Binding<'a> {
    public: u16,
    is_ipv6: bool,
    ip: &'a str,
    private: u16,
}

impl Container {
    fn member(&self, query: &Query, place: &Place) -> Result<Member, String> {
        let (network_name, network) = self.network(query)?;
        let private_ip = address(network.ip_address.as_deref());
        let (host, port) = match query.address_type {
            AddressType::Public => self.public(query, place, network_name)?,
            AddressType::Private => {
                let host = private_ip.clone();
                let host = host.ok_or_else(|| no_address(network_name))?;
                (host, self.private_port(query)?)
            }
            AddressType::Ipv6 => {
                let host = address(network.global_ipv6_address.as_deref());
                let host = host
                    .ok_or_else(|| format!("it has no IPv6 address in network {network_name}"))?;
                (host, self.private_port(query)?)
            }
        };
        let mut member = Member::at(query.scheme(), &host, port);
        member.name = self.name().into();
        member.ready = readiness(self.status.as_deref().unwrap_or_default());
        if let Some(key) = &query.replica_group_label {
            member.replica_group = self.label(key).unwrap_or_default().into();
        }
        member.label("container_id", self.short_id());
        member.label("container_name", self.name());
        member.label("image", self.image.as_deref().unwrap_or_default());
        member.label("state", &self.state);
        member.label("network", network_name);
        member.label("private_ip", private_ip.as_deref().unwrap_or_default());
        for (key, value) in self.labels.iter().flatten() {
            let value = value.as_deref().unwrap_or_default();
            member.label(&format!("label_{key}"), value);
        }
        Ok(member)
    }

    fn short_id(&self) -> &str {
        self.id.get(..SHORT_ID_CHARS).unwrap_or(&self.id)
    }

    /// The first name that is its own, not one that another container calls it by over a link.
    fn name(&self) -> &str {
        let names = || {
            let names = self.names.iter().flatten();
            names.map(|name| name.strip_prefix('/').unwrap_or(name))
        };
        let own = names().find(|name| !name.is_empty() && !name.contains('/'));
        let any = || names().find(|name| !name.is_empty());
        own.or_else(any).unwrap_or(self.short_id())
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.labels.as_ref()?.get(key)?.as_deref()
    }

    fn network(&self, query: &Query) -> Result<(&str, &Network), String> {
        const NO_ADDRESSES: &Network = &Network {
            ip_address: None,
            global_ipv6_address: None,
        };
        let networks = self.network_settings.as_ref();
        let networks = networks.and_then(|settings| settings.networks.as_ref());
        let names: Vec<&str> = networks
            .iter()
            .flat_map(|networks| networks.keys().map(String::as_str))
            .collect();
        let name = match (query.network.as_deref(), names.as_slice()) {
            (_, []) => return Err("it is attached to no network".to_owned()),
            (Some(wanted), names) if names.contains(&wanted) => wanted,
            (Some(wanted), names) => {
                let names = names.join(", ");
                return Err(format!(
                    "it is not attached to network {wanted}, but to {names}"
                ));
            }
            (None, [only]) => only,
            (None, names) => {
                let names = names.join(", ");
                return Err(format!(
                    "it is attached to {names}: set query.network to one"
                ));
            }
        };
        // The name as the container has it: that of the query may not live as long.
        let found = networks.and_then(|networks| networks.get_key_value(name));
        match found {
            Some((name, Some(network))) => Ok((name, network)),
            Some((name, None)) => Ok((name, NO_ADDRESSES)),
            None => Err("it is attached to no network".to_owned()),
        }
    }

    /// The port that the query asks for: that of the label, else the static one.
    fn wanted_port(&self, query: &Query) -> Result<Option<u16>, String> {
        let key = query.port_label.as_deref();
        if let Some(key) = key
            && let Some(text) = self.label(key)
        {
            let found = port(text);
            let found = found.ok_or_else(|| format!("label {key} is {text:?}, which is no port"));
            return found.map(Some);
        }
        match query.port {
            Some(Port::Number(number)) => Ok(Some(number)),
            Some(Port::Name(_)) | None => Ok(None),
        }
    }

    fn tcp(&self) -> impl Iterator<Item = &Exposed> {
        let is_tcp = |port: &&Exposed| port.r#type.as_deref() == Some("tcp");
        self.ports.iter().flatten().filter(is_tcp)
    }

    fn private_port(&self, query: &Query) -> Result<u16, String> {
        if let Some(port) = self.wanted_port(query)? {
            return Ok(port);
        }
        let ports: BTreeSet<u16> = self.tcp().filter_map(|port| port.private_port).collect();
        sole(&ports, "exposes")
    }

    /// Host and port of one and the same binding.
    fn public(&self, query: &Query, place: &Place, network: &str) -> Result<(String, u16), String> {
        let bindings: BTreeSet<Binding<'_>> = self.tcp().filter_map(binding).collect();
        let wanted = self.wanted_port(query)?;
        let number = match wanted {
            Some(number) => number,
            None => sole(
                &bindings.iter().map(|binding| binding.public).collect(),
                "publishes",
            )?,
        };
        let by_public = bindings.iter().find(|binding| binding.public == number);
        let by_private = || bindings.iter().find(|binding| binding.private == number);
        let Some(binding) = by_public.or_else(by_private) else {
            // A container that shares its host's network publishes nothing, and is there all the same.
            return match network {
                NO_NETWORK => Err(no_address(network)),
                _ => Ok((place.host().to_owned(), number)),
            };
        };
        let Some(address) = address(Some(binding.ip)) else {
            return Ok((place.host().to_owned(), binding.public));
        };
        let is_loopback = address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        if is_loopback && !place.is_here() {
            let host = place.host();
            let port = binding.public;
            return Err(format!(
                "port {port} is published on {address} of {host}, where only that machine reaches it"
            ));
        }
        Ok((address, binding.public))
    }
}

fn no_address(network: &str) -> String {
    format!("it has no address in network {network}")
}

fn binding(port: &Exposed) -> Option<Binding<'_>> {
    let ip = port.ip.as_deref().unwrap_or_default();
    Some(Binding {
        public: port.public_port.filter(|port| *port > 0)?,
        is_ipv6: ip.contains(':'),
        ip,
        private: port.private_port.unwrap_or_default(),
    })
}

/// The one port of a set.
fn sole(ports: &BTreeSet<u16>, does: &str) -> Result<u16, String> {
    let all: Vec<u16> = ports.iter().copied().filter(|port| *port > 0).collect();
    match all.as_slice() {
        [only] => Ok(*only),
        [] => Err(format!(
            "it {does} no TCP port: set query.port or query.port_label"
        )),
        several => {
            let several: Vec<String> = several.iter().map(u16::to_string).collect();
            let several = several.join(", ");
            Err(format!(
                "it {does} the TCP ports {several}: set query.port or query.port_label"
            ))
        }
    }
}

/// An address that can be dialled, in its one short form; none where the engine has none, or all.
fn address(text: Option<&str>) -> Option<String> {
    let address: IpAddr = text?.parse().ok()?;
    (!address.is_unspecified()).then(|| address.to_string())
}

/// The engine's list tells of health checks in its text for people only.
fn readiness(status: &str) -> Readiness {
    if status.contains("(healthy)") {
        Readiness::Ready
    } else if status.contains("(unhealthy)") || status.contains("(health: ") {
        Readiness::NotReady
    } else {
        Readiness::Unknown
    }
}
