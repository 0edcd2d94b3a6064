//! Instances: mapping, states, exclusions, pages.

use std::collections::BTreeMap;

use super::*;
use crate::discovery::aws::tests::{settings, source};
use crate::discovery::cloud::PAGE_BYTES_MAX;
use crate::discovery::settings::{AwsService, Port};
use crate::discovery::stub::{Fault, Reply, Stub};

/// Shape of the API reference of DescribeInstances, also seen from moto; fields that are ignored are among it.
fn page(items: &str, next: &str) -> String {
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
  <requestId>00000000-0000-0000-0000-000000000000</requestId>
  <reservationSet><item><reservationId>r-0</reservationId><ownerId>000000000000</ownerId><groupSet/>
    <instancesSet>{items}</instancesSet></item></reservationSet>{next}
</DescribeInstancesResponse>"#
    )
}

fn instance(id: &str, state: &str, tags: &str) -> String {
    format!(
        r#"<item>
  <instanceId>{id}</instanceId><imageId>ami-0</imageId>
  <instanceState><code>16</code><name>{state}</name></instanceState>
  <privateDnsName>ip-192-0-2-10.ec2.internal</privateDnsName><dnsName/><reason/><keyName>k</keyName>
  <amiLaunchIndex>0</amiLaunchIndex><productCodes/><instanceType>t3.small</instanceType>
  <launchTime>2026-01-01T00:00:00.000Z</launchTime>
  <placement><availabilityZone>us-east-2a</availabilityZone><groupName/><tenancy>default</tenancy></placement>
  <monitoring><state>disabled</state></monitoring>
  <subnetId>subnet-0</subnetId><vpcId>vpc-0</vpcId>
  <privateIpAddress>192.0.2.10</privateIpAddress><ipAddress>198.51.100.10</ipAddress>
  <sourceDestCheck>true</sourceDestCheck><groupSet><item><groupId>sg-0</groupId></item></groupSet>
  <architecture>x86_64</architecture><rootDeviceType>ebs</rootDeviceType><blockDeviceMapping/>
  <tagSet>{tags}</tagSet>
  <networkInterfaceSet>
    <item><networkInterfaceId>eni-0</networkInterfaceId><ipv6AddressesSet/></item>
    <item><networkInterfaceId>eni-1</networkInterfaceId><ipv6AddressesSet>
      <item><ipv6Address>2001:db8::10</ipv6Address><isPrimaryIpv6>false</isPrimaryIpv6></item>
      <item><ipv6Address>2001:db8::11</ipv6Address></item></ipv6AddressesSet></item>
  </networkInterfaceSet>
</item>"#
    )
}

fn tag(key: &str, value: &str) -> String {
    format!("<item><key>{key}</key><value>{value}</value></item>")
}

fn static_port() -> Query {
    Query {
        port: Some(Port::Number(9090)),
        ..Query::default()
    }
}

fn sorted(document: &str, query: &Query) -> Sorted {
    let mut sorted = Sorted::default();
    for instance in &parse_page(document.as_bytes()).unwrap().instances {
        sort(instance, query, &mut sorted);
    }
    sorted
}

#[test]
fn an_instance_becomes_a_member() {
    let tags = [
        tag("Name", "web &amp; co"),
        tag("port", "8080"),
        tag("shard", "s0"),
        tag("e", ""),
    ];
    let document = page(&instance("i-0", "running", &tags.concat()), "<nextToken/>");
    let query = Query {
        port_label: Some("port".into()),
        replica_group_label: Some("shard".into()),
        ..static_port()
    };
    let member = &sorted(&document, &query).members[0];
    assert_eq!(&*member.name, "web & co");
    assert_eq!(member.key(), "http://192.0.2.10:8080");
    assert_eq!(&*member.replica_group, "s0");
    assert_eq!(member.ready, Readiness::Ready);
    let labels: Vec<_> = member.labels.iter().map(|(k, v)| (&**k, &**v)).collect();
    let wanted = [
        ("architecture", "x86_64"),
        ("availability_zone", "us-east-2a"),
        ("image_id", "ami-0"),
        ("instance_id", "i-0"),
        ("instance_state", "running"),
        ("instance_type", "t3.small"),
        ("private_dns", "ip-192-0-2-10.ec2.internal"),
        ("private_ip", "192.0.2.10"),
        ("public_ip", "198.51.100.10"),
        ("subnet_id", "subnet-0"),
        ("tag_Name", "web & co"),
        ("tag_port", "8080"),
        ("tag_shard", "s0"),
        ("vpc_id", "vpc-0"),
    ];
    assert_eq!(labels, wanted);
}

#[test]
fn the_address_is_of_the_wanted_type() {
    let document = page(&instance("i-0", "running", ""), "");
    for (address_type, wanted) in [
        (AddressType::Private, "192.0.2.10:9090"),
        (AddressType::Public, "198.51.100.10:9090"),
        (AddressType::Ipv6, "[2001:db8::10]:9090"),
    ] {
        let query = Query {
            address_type,
            ..static_port()
        };
        let member = &sorted(&document, &query).members[0];
        assert_eq!(member.address(), wanted);
        assert_eq!(&*member.name, "i-0");
    }
}

#[test]
fn states_decide_who_serves_and_who_leaves() {
    for (state, wanted) in [
        ("running", Some(Readiness::Ready)),
        ("pending", Some(Readiness::NotReady)),
        ("hibernating", Some(Readiness::NotReady)),
        ("", Some(Readiness::NotReady)),
        ("shutting-down", None),
        ("stopping", None),
        ("stopped", None),
        ("terminated", None),
    ] {
        assert_eq!(readiness(state), wanted, "{state}");
        let sorted = sorted(&page(&instance("i-0", state, ""), ""), &static_port());
        assert_eq!(sorted.members.len(), usize::from(wanted.is_some()));
        assert_eq!(sorted.excluded, [], "leaving is no exclusion");
    }
}

#[test]
fn tags_are_a_matter_of_presence() {
    let tags = tag("role", "") + &tag("env", "prod");
    let document = page(&instance("i-0", "running", &tags), "");
    for (wanted_tags, count) in [
        (vec!["role"], 1),
        (vec!["role", "env"], 1),
        (vec!["Role"], 0),
    ] {
        let query = Query {
            tags: wanted_tags.into_iter().map(Into::into).collect(),
            ..static_port()
        };
        let sorted = sorted(&document, &query);
        assert_eq!((sorted.members.len(), sorted.excluded.len()), (count, 0));
    }
}

#[test]
fn hosts_that_cannot_be_members_are_named() {
    let bare = "<item><instanceId>i-1</instanceId><instanceState><name>running</name></instanceState></item>";
    let document = page(&(instance("i-0", "running", "") + bare), "");
    let excluded = sorted(&document, &static_port()).excluded;
    assert_eq!(excluded.len(), 1);
    assert_eq!(&*excluded[0].name, "i-1");
    let query = Query {
        port_label: Some("port".into()),
        ..Query::default()
    };
    assert_eq!(sorted(&document, &query).excluded.len(), 2);
}

#[test]
fn only_an_answer_of_the_call_is_understood() {
    let whole = page(&instance("i-0", "running", ""), "");
    assert_eq!(parse_page(whole.as_bytes()).unwrap().instances.len(), 1);
    let empty = "<DescribeInstancesResponse><reservationSet/></DescribeInstancesResponse>";
    assert_eq!(parse_page(empty.as_bytes()).unwrap(), Page::default());
    let half = &whole[..whole.len() / 2];
    let entity = whole.replace("t3.small", "&lol;");
    let bad = [
        "",
        "<html><body>hello</body></html>",
        "<DescribeInstancesResponse/>",
        "<ErrorResponse><Error><Code>A</Code></Error></ErrorResponse>",
        "{}",
        half,
        &entity,
    ];
    for text in bad {
        assert!(parse_page(text.as_bytes()).is_err(), "{text}");
    }
    assert!(parse_page(&[0xff]).is_err());
}

#[test]
fn filters_are_numbered_in_order() {
    let values = |list: &[&str]| list.iter().map(|text| (*text).into()).collect();
    let query = Query {
        filters: BTreeMap::from([
            ("tag:service".into(), values(&["a b", "c&d"])),
            ("instance-state-name".into(), values(&["running"])),
        ]),
        ..Query::default()
    };
    let wanted = "Action=DescribeInstances&Version=2016-11-15&MaxResults=1000\
                  &Filter.1.Name=instance-state-name&Filter.1.Value.1=running\
                  &Filter.2.Name=tag%3Aservice&Filter.2.Value.1=a+b&Filter.2.Value.2=c%26d";
    assert_eq!(form_of(&query, PAGE_SIZE, ""), wanted);
    let next = form_of(&query, PAGE_SIZE, "t/1=");
    assert_eq!(next, format!("{wanted}&NextToken=t%2F1%3D"));
}

#[tokio::test]
async fn all_pages_or_nothing() {
    let paged = |last: fn() -> Reply| {
        Stub::start(move |request| {
            let next = request
                .form()
                .into_iter()
                .find(|pair| pair.0 == "NextToken");
            match next.as_ref().map(|pair| &*pair.1) {
                None => Reply::ok(page(
                    &instance("i-0", "running", ""),
                    "<nextToken>a</nextToken>",
                )),
                _ => last(),
            }
        })
    };
    let mut stub = paged(|| Reply::ok(page(&instance("i-1", "running", ""), ""))).await;
    let mut reader = source(&settings(&stub, AwsService::Ec2), static_port(), 5);
    let reading = reader.next().await.unwrap();
    let members = reading.members.unwrap();
    let names: Vec<_> = members.iter().map(|member| &*member.name).collect();
    assert_eq!(names, ["i-0", "i-1"]);
    let first = &stub.seen()[0];
    assert_eq!((first.method.as_str(), &*first.path), ("POST", "/"));
    assert!(first.form().contains(&("MaxResults".into(), "5".into())));
    let faults: [fn() -> Reply; 5] = [
        || Reply::new(500, "<html>"),
        || Reply::ok("<html>"),
        || Reply::ok(page("", "")).fault(Fault::HalfBody),
        || Reply::ok("").fault(Fault::Cut),
        || Reply::ok("").fault(Fault::Oversize(PAGE_BYTES_MAX + 1)),
    ];
    for fault in faults {
        let stub = paged(fault).await;
        let mut reader = source(&settings(&stub, AwsService::Ec2), static_port(), 5);
        reader.next().await.unwrap_err();
    }
}

#[tokio::test]
async fn pages_without_end_are_a_failure() {
    let endless = |_: &_| Reply::ok(page("", "<nextToken>a</nextToken>"));
    let mut stub = Stub::start(endless).await;
    let mut reader = source(&settings(&stub, AwsService::Ec2), static_port(), 5);
    let failure = reader.next().await.unwrap_err();
    assert!(failure.reason.contains("100 pages"), "{failure}");
    assert_eq!(stub.seen().len(), PAGES_MAX);
}
