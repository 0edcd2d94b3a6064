//! Kind `service`: Services at their cluster address, one member each.

use std::net::IpAddr;

use super::objects::{Mapped, Objects, Pod, Service, choose, label, name, scheme};
use crate::discovery::Member;
use crate::discovery::settings::Query;

/// The members of Services. Nothing is known of their readiness.
pub(super) fn map(query: &Query, services: &Objects<Service>, _: Option<&Objects<Pod>>) -> Mapped {
    let mut mapped = Mapped::default();
    for service in services.values() {
        match member(query, service) {
            Ok(member) => mapped.members.push(member),
            Err(reason) => mapped.exclude(name(&service.metadata), reason),
        }
    }
    mapped.sorted()
}

fn member(query: &Query, service: &Service) -> Result<Member, String> {
    let meta = &service.metadata;
    let address = service.spec.cluster_ip.as_str();
    if address.is_empty() || address == "None" {
        return Err("has no cluster address: for headless services use kind endpointslices".into());
    }
    let host: IpAddr = address
        .parse()
        .map_err(|_| "has a cluster address that is no IP address")?;
    let ports: Vec<_> = service.spec.ports.iter().collect();
    let port = choose(query.port.as_ref(), &ports)?;
    let scheme = scheme(query, port, meta.annotations.as_ref());
    let mut member = Member::at(scheme, &host.to_string(), port.number);
    member.name = name(meta).into();
    member.replica_group = label(meta, query.replica_group_label.as_deref()).into();
    member.label("namespace", meta.namespace.as_deref().unwrap_or_default());
    Ok(member)
}
