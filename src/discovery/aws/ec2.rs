//! EC2 instances, by `DescribeInstances`. Contract: autodiscovery page, 12.2.

use std::collections::HashMap;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::Deserialize;

use super::{Call, Inner, PAGES_MAX};
use crate::discovery::cloud::{Host, Sorted, too_many_pages};
use crate::discovery::settings::{AddressType, Query};
use crate::discovery::{Failure, Readiness};

/// Instances of a page: the most that EC2 gives.
pub const PAGE_SIZE: usize = 1000;
const WHAT: &str = "ec2 DescribeInstances";
const VERSION: &str = "2016-11-15";

pub(super) async fn read(inner: &Inner, query: &Query) -> Result<Sorted, Failure> {
    let mut sorted = Sorted::default();
    let mut token = String::new();
    for _ in 0..PAGES_MAX {
        let form = HeaderValue::from_static("application/x-www-form-urlencoded; charset=utf-8");
        let call = Call {
            what: WHAT,
            service: "ec2",
            headers: HeaderMap::from_iter([(CONTENT_TYPE, form)]),
            body: form_of(query, inner.page_size, &token),
        };
        let page = parse_page(&inner.send(&call).await?)?;
        for instance in &page.instances {
            sort(instance, query, &mut sorted);
        }
        if page.next_token.is_empty() {
            return Ok(sorted);
        }
        token = page.next_token;
    }
    Err(too_many_pages(WHAT, PAGES_MAX))
}

/// The parameters of a request.
fn form_of(query: &Query, page_size: usize, token: &str) -> Bytes {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("Action", "DescribeInstances");
    form.append_pair("Version", VERSION);
    form.append_pair("MaxResults", &page_size.to_string());
    for (n, (name, values)) in query.filters.iter().enumerate() {
        let n = n + 1;
        form.append_pair(&format!("Filter.{n}.Name"), name);
        for (m, value) in values.iter().enumerate() {
            form.append_pair(&format!("Filter.{n}.Value.{}", m + 1), value);
        }
    }
    if !token.is_empty() {
        form.append_pair("NextToken", token);
    }
    form.finish().into()
}

/// One page of instances.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Those of all reservations.
    pub instances: Vec<Instance>,
    /// What the next page is asked for with; empty: there is none.
    pub next_token: String,
}

/// What is read of an instance. Absent is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "EC2's own names")]
pub struct Instance {
    pub instance_id: String,
    pub image_id: String,
    pub instance_state: State,
    pub private_dns_name: String,
    pub dns_name: String,
    pub instance_type: String,
    pub placement: Placement,
    pub subnet_id: String,
    pub vpc_id: String,
    pub private_ip_address: String,
    pub ip_address: String,
    pub architecture: String,
    pub tag_set: Items<Tag>,
    pub network_interface_set: Items<Interface>,
}

/// Its state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "EC2's own names")]
pub struct State {
    pub name: String,
}

/// Where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "EC2's own names")]
pub struct Placement {
    pub availability_zone: String,
}

/// One of its tags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "EC2's own names")]
pub struct Tag {
    pub key: String,
    pub value: String,
}

/// One of its interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "EC2's own names")]
pub struct Interface {
    pub ipv6_addresses_set: Items<Ipv6>,
}

/// One of its IPv6 addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "EC2's own names")]
pub struct Ipv6 {
    pub ipv6_address: String,
}

/// A list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Items<T> {
    /// Its items.
    #[serde(default = "Vec::new")]
    pub item: Vec<T>,
}

impl<T> Default for Items<T> {
    fn default() -> Self {
        Items { item: Vec::new() }
    }
}

/// Reads a page.
///
/// # Errors
/// When it is no answer of `DescribeInstances`: another document must not pass for one without instances.
pub fn parse_page(body: &[u8]) -> Result<Page, Failure> {
    #[derive(Deserialize)]
    enum Root {
        DescribeInstancesResponse(Response),
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Response {
        reservation_set: Items<Reservation>,
        #[serde(default)]
        next_token: String,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Reservation {
        #[serde(default)]
        instances_set: Items<Instance>,
    }
    let not_understood = || Failure::new(format!("{WHAT}: the answer is not understood"));
    let text = std::str::from_utf8(body).map_err(|_| not_understood())?;
    let Root::DescribeInstancesResponse(response) =
        quick_xml::de::from_str(text).map_err(|_| not_understood())?;
    let reservations = response.reservation_set.item.into_iter();
    Ok(Page {
        instances: reservations
            .flat_map(|reservation| reservation.instances_set.item)
            .collect(),
        next_token: response.next_token,
    })
}

/// Whether an instance serves; `None`: it is leaving. States that are not known do not serve.
pub fn readiness(state: &str) -> Option<Readiness> {
    match state {
        "running" => Some(Readiness::Ready),
        "shutting-down" | "stopping" | "stopped" | "terminated" => None,
        _ => Some(Readiness::NotReady),
    }
}

fn sort(instance: &Instance, query: &Query, sorted: &mut Sorted) {
    let tags: HashMap<&str, &str> = instance
        .tag_set
        .item
        .iter()
        .map(|tag| (&*tag.key, &*tag.value))
        .collect();
    if !query.tags.iter().all(|tag| tags.contains_key(&**tag)) {
        return;
    }
    let Some(ready) = readiness(&instance.instance_state.name) else {
        return;
    };
    let interfaces = &instance.network_interface_set.item;
    let address = match query.address_type {
        AddressType::Private => Some(&instance.private_ip_address),
        AddressType::Public => Some(&instance.ip_address),
        AddressType::Ipv6 => interfaces
            .iter()
            .find_map(|interface| interface.ipv6_addresses_set.item.first())
            .map(|address| &address.ipv6_address),
    };
    let tag = |key: &Option<Box<str>>| tags.get(key.as_deref()?).copied();
    let name = tags.get("Name").copied().filter(|name| !name.is_empty());
    let host = Host {
        name: name.unwrap_or(&instance.instance_id),
        address: address.map(String::as_str),
        port: tag(&query.port_label),
        replica_group: tag(&query.replica_group_label),
        ready,
        labels: vec![
            ("instance_id", &instance.instance_id),
            ("instance_type", &instance.instance_type),
            ("instance_state", &instance.instance_state.name),
            ("image_id", &instance.image_id),
            ("availability_zone", &instance.placement.availability_zone),
            ("vpc_id", &instance.vpc_id),
            ("subnet_id", &instance.subnet_id),
            ("architecture", &instance.architecture),
            ("private_ip", &instance.private_ip_address),
            ("public_ip", &instance.ip_address),
            ("private_dns", &instance.private_dns_name),
            ("public_dns", &instance.dns_name),
        ],
        own_labels: ("tag_", tags.into_iter().collect()),
    };
    sorted.add(host.member(query));
}

#[cfg(test)]
mod tests;
