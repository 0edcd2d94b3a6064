//! Kind `pods`: running Pods at their own address, one member each.

use std::net::IpAddr;

use super::objects::{Mapped, Objects, Pod, choose, label, name, scheme};
use crate::discovery::settings::Query;
use crate::discovery::{Member, Readiness};

/// The members of Pods. Those that do not run, are going, or have no address yet are left out.
pub(super) fn map(query: &Query, pods: &Objects<Pod>, _: Option<&Objects<Pod>>) -> Mapped {
    let mut mapped = Mapped::default();
    for pod in pods.values() {
        let is_there = pod.status.phase == "Running"
            && pod.metadata.deletion_timestamp.is_none()
            && !pod.status.pod_ip.is_empty();
        if !is_there {
            continue;
        }
        match member(query, pod) {
            Ok(member) => mapped.members.push(member),
            Err(reason) => mapped.exclude(name(&pod.metadata), reason),
        }
    }
    mapped.sorted()
}

fn member(query: &Query, pod: &Pod) -> Result<Member, String> {
    let meta = &pod.metadata;
    let host: IpAddr = pod
        .status
        .pod_ip
        .parse()
        .map_err(|_| "has an address that is no IP address")?;
    let containers = &pod.spec.containers;
    let ports: Vec<_> = containers.iter().flat_map(|one| &one.ports).collect();
    let port = choose(query.port.as_ref(), &ports)?;
    let scheme = scheme(query, port, meta.annotations.as_ref());
    let mut member = Member::at(scheme, &host.to_string(), port.number);
    member.name = name(meta).into();
    member.ready = readiness(pod);
    member.replica_group = label(meta, query.replica_group_label.as_deref()).into();
    member.label("namespace", meta.namespace.as_deref().unwrap_or_default());
    Ok(member)
}

fn readiness(pod: &Pod) -> Readiness {
    let conditions = &pod.status.conditions;
    let is_ready = conditions
        .iter()
        .any(|condition| condition.kind == "Ready" && condition.status == "True");
    match is_ready {
        true => Readiness::Ready,
        false => Readiness::NotReady,
    }
}
