//! Kind `endpointslices`: the endpoints behind a Service, one member each.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::objects::{Chosen, Endpoint, Mapped, Objects, Pod, Slice, choose, label, name, scheme};
use crate::discovery::settings::Query;
use crate::discovery::{Member, Readiness};

/// Longest host name.
const HOST_BYTES_MAX: usize = 253;

/// The members of slices. With `pods`, their groups are labels of these.
pub(super) fn map(query: &Query, slices: &Objects<Slice>, pods: Option<&Objects<Pod>>) -> Mapped {
    let mut mapped = Mapped::default();
    let mut found: BTreeMap<String, (Rank, Member)> = BTreeMap::new();
    let has_addresses = slices
        .values()
        .any(|slice| matches!(slice.address_type.as_str(), "IPv4" | "IPv6"));
    for slice in slices.values() {
        let family = match slice.address_type.as_str() {
            "IPv4" => Family::V4,
            "IPv6" => Family::V6,
            "FQDN" if has_addresses => continue,
            "FQDN" => Family::Name,
            _ => {
                mapped.exclude(name(&slice.metadata), "has an unknown addressType");
                continue;
            }
        };
        let mut staying = slice
            .endpoints
            .iter()
            .filter(|endpoint| endpoint.conditions.terminating != Some(true))
            .peekable();
        // A Service without endpoints has an empty slice, often without ports.
        if staying.peek().is_none() {
            continue;
        }
        let ports: Vec<_> = slice.ports.iter().collect();
        let port = match choose(query.port.as_ref(), &ports) {
            Ok(port) => port,
            Err(reason) => {
                mapped.exclude(name(&slice.metadata), reason);
                continue;
            }
        };
        for endpoint in staying {
            match member(query, &slice.metadata, family, port, endpoint, pods) {
                Ok(member) => keep_best(&mut found, slice, family, endpoint, member),
                Err(reason) => mapped.exclude(&endpoint_name(slice, endpoint), reason),
            }
        }
    }
    mapped.members = found.into_values().map(|(_, member)| member).collect();
    mapped.sorted()
}

/// What the addresses of a slice are, the wanted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Family {
    V4,
    V6,
    Name,
}

/// Of a Pod that several slices name, one endpoint counts: the least of these.
type Rank = (Family, bool, String);

fn keep_best(
    found: &mut BTreeMap<String, (Rank, Member)>,
    slice: &Slice,
    family: Family,
    endpoint: &Endpoint,
    member: Member,
) {
    let identity = match endpoint.target_ref.uid.as_str() {
        "" => format!("address:{}", member.address()),
        uid => uid.to_owned(),
    };
    let is_unready = member.ready != Readiness::Ready;
    let rank = (family, is_unready, name(&slice.metadata).to_owned());
    match found.get(&identity) {
        Some((best, _)) if *best <= rank => {}
        _ => {
            found.insert(identity, (rank, member));
        }
    }
}

fn member(
    query: &Query,
    meta: &ObjectMeta,
    family: Family,
    port: Chosen,
    endpoint: &Endpoint,
    pods: Option<&Objects<Pod>>,
) -> Result<Member, String> {
    let address = endpoint.addresses.first().map_or("", String::as_str);
    let host = match family {
        Family::Name => host_name(address),
        Family::V4 | Family::V6 => address.parse::<IpAddr>().ok().map(|ip| ip.to_string()),
    };
    let host = host.ok_or("has no usable address")?;
    let mut member = Member::at(scheme(query, port, None), &host, port.number);
    let target = &endpoint.target_ref;
    member.name = match target.name.as_str() {
        "" => host.into(),
        name => name.into(),
    };
    member.ready = match endpoint.conditions.ready {
        Some(false) => Readiness::NotReady,
        Some(true) | None => Readiness::Ready,
    };
    if let Some(pods) = pods
        && target.kind == "Pod"
        && let Some(pod) = pod_of(endpoint, pods)
    {
        let key = query.replica_group_label.as_deref();
        member.replica_group = label(&pod.metadata, key).into();
    }
    member.label("namespace", meta.namespace.as_deref().unwrap_or_default());
    member.label("service", query.service.as_deref().unwrap_or_default());
    Ok(member)
}

/// The Pod behind an endpoint. A Pod of the same name with another uid is its successor, with other labels.
fn pod_of<'a>(endpoint: &Endpoint, pods: &'a Objects<Pod>) -> Option<&'a Pod> {
    let target = &endpoint.target_ref;
    match target.uid.as_str() {
        "" => pods
            .values()
            .find(|pod| name(&pod.metadata) == target.name)
            .map(AsRef::as_ref),
        uid => pods.get(uid).map(AsRef::as_ref),
    }
}

fn host_name(text: &str) -> Option<String> {
    let is_fine = !text.is_empty()
        && text.len() <= HOST_BYTES_MAX
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    is_fine.then(|| text.to_owned())
}

fn endpoint_name(slice: &Slice, endpoint: &Endpoint) -> String {
    match endpoint.target_ref.name.as_str() {
        "" => format!("an endpoint of {}", name(&slice.metadata)),
        name => name.to_owned(),
    }
}
