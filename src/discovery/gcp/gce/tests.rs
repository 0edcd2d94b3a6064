//! Instances: mapping, statuses, exclusions, zones that are not whole.

use super::*;
use crate::discovery::settings::Port;

/// Shape of the API reference of aggregatedList; fields that are ignored are among it. No real server confirmed it.
pub(in crate::discovery::gcp) fn instance(name: &str, status: &str) -> serde_json::Value {
    serde_json::json!({
        "kind": "compute#instance", "id": "4000000000000000001", "creationTimestamp": "2026-01-01T00:00:00Z",
        "name": name, "status": status, "zone": "https://c.example/v1/projects/p/zones/us-central1-a",
        "machineType": "https://c.example/v1/projects/p/zones/us-central1-a/machineTypes/e2-small",
        "tags": {"items": ["http-server", "blue"], "fingerprint": "0="},
        "networkInterfaces": [{
            "kind": "compute#networkInterface", "name": "nic0", "stackType": "IPV4_IPV6",
            "network": "https://c.example/v1/projects/p/global/networks/default",
            "subnetwork": "https://c.example/v1/projects/p/regions/us-central1/subnetworks/inner",
            "networkIP": "192.0.2.30", "ipv6Address": "2001:db8::30",
            "accessConfigs": [{"type": "ONE_TO_ONE_NAT", "name": "External NAT", "natIP": "198.51.100.30"}],
            "ipv6AccessConfigs": [{"type": "DIRECT_IPV6", "externalIpv6": "2001:db8:1::30",
                "externalIpv6PrefixLength": 96}]}],
        "disks": [], "scheduling": {"preemptible": false}, "canIpForward": false,
        "metadata": {"kind": "compute#metadata", "fingerprint": "0=", "items": [
            {"key": "startup-script", "value": "hunter2"}, {"key": "metaport", "value": "7070"}]},
        "labels": {"port": "8080", "shard": "s0"}, "labelFingerprint": "0="
    })
}

pub(in crate::discovery::gcp) fn page(zones: serde_json::Value, next: Option<&str>) -> String {
    let mut page = serde_json::json!({
        "kind": KIND, "id": "projects/p/aggregated/instances", "items": zones, "selfLink": "https://c.example"
    });
    if let Some(next) = next {
        page["nextPageToken"] = next.into();
    }
    page.to_string()
}

fn query() -> Query {
    Query {
        port: Some(Port::Number(9090)),
        ..Query::default()
    }
}

fn sorted_page(text: &str, query: &Query) -> Sorted {
    let mut sorted = Sorted::default();
    sort(&parse_page(text.as_bytes()).unwrap(), query, &mut sorted);
    sorted
}

fn sorted(instance: serde_json::Value, query: &Query) -> Sorted {
    let zones = serde_json::json!({"zones/us-central1-a": {"instances": [instance]}});
    sorted_page(&page(zones, None), query)
}

#[test]
fn an_instance_becomes_a_member() {
    let query = Query {
        port_label: Some("port".into()),
        replica_group_label: Some("shard".into()),
        tags: vec!["http-server".into()],
        ..query()
    };
    let sorted = sorted(instance("prom-a", "RUNNING"), &query);
    let member = &sorted.members[0];
    assert_eq!(&*member.name, "prom-a");
    assert_eq!(member.key(), "http://192.0.2.30:8080");
    assert_eq!(&*member.replica_group, "s0");
    let labels: Vec<_> = member.labels.iter().map(|(k, v)| (&**k, &**v)).collect();
    let wanted = [
        ("instance_id", "4000000000000000001"),
        ("instance_name", "prom-a"),
        ("label_port", "8080"),
        ("label_shard", "s0"),
        ("machine_type", "e2-small"),
        ("network", "default"),
        ("private_ip", "192.0.2.30"),
        ("public_ip", "198.51.100.30"),
        ("status", "RUNNING"),
        ("subnetwork", "inner"),
        ("tags", ",http-server,blue,"),
        ("zone", "us-central1-a"),
    ];
    assert_eq!(labels, wanted);
}

#[test]
fn statuses_decide_who_serves_and_who_leaves() {
    let (ready, not_ready) = (Some(Readiness::Ready), Some(Readiness::NotReady));
    let rows = [
        ("RUNNING", ready),
        ("PROVISIONING", not_ready),
        ("STAGING", not_ready),
        ("REPAIRING", not_ready),
        ("DREAMING", not_ready),
        ("STOPPING", None),
        ("SUSPENDING", None),
        ("SUSPENDED", None),
        ("TERMINATED", None),
    ];
    for (status, wanted) in rows {
        let sorted = sorted(instance("a", status), &query());
        let found: Vec<_> = sorted.members.iter().map(|member| member.ready).collect();
        assert_eq!(found, Vec::from_iter(wanted), "{status}");
        assert_eq!(sorted.excluded, []);
    }
}

#[test]
fn label_then_metadata_then_the_static_port() {
    for (label, port) in [("port", 8080), ("metaport", 7070), ("none", 9090)] {
        let query = Query {
            port_label: Some(label.into()),
            ..query()
        };
        let sorted = sorted(instance("a", "RUNNING"), &query);
        assert_eq!(sorted.members[0].port, port, "{label}");
    }
    let secret = Query {
        port_label: Some("startup-script".into()),
        ..query()
    };
    let excluded = sorted(instance("a", "RUNNING"), &secret).excluded;
    assert!(!excluded[0].reason.contains("hunter2"), "{excluded:?}");
}

#[test]
fn the_address_is_of_the_first_interface_that_has_one() {
    let mut two = instance("a", "RUNNING");
    two["networkInterfaces"] = serde_json::json!([
        {"networkIP": "192.0.2.1", "accessConfigs": [{"type": "ONE_TO_ONE_NAT"}]},
        {"networkIP": "192.0.2.2", "accessConfigs": [{"natIP": "198.51.100.2"}], "ipv6Address": "2001:db8::2"}
    ]);
    let rows = [
        (AddressType::Private, "192.0.2.1", "192.0.2.30"),
        (AddressType::Public, "198.51.100.2", "198.51.100.30"),
        (AddressType::Ipv6, "2001:db8::2", "2001:db8:1::30"),
    ];
    for (address_type, of_two, of_one) in rows {
        let query = Query {
            address_type,
            ..query()
        };
        assert_eq!(&*sorted(two.clone(), &query).members[0].host, of_two);
        let one = instance("a", "RUNNING");
        assert_eq!(&*sorted(one, &query).members[0].host, of_one);
    }
}

#[test]
fn absent_and_null_are_empty() {
    let bare = serde_json::json!({"id": "7", "name": null, "status": "RUNNING", "tags": {"fingerprint": "0="},
        "metadata": {"kind": "compute#metadata"}, "labels": null, "networkInterfaces": null});
    let found = sorted(bare, &query());
    assert_eq!(found.members, []);
    assert_eq!(&*found.excluded[0].name, "7");
    let tagged = Query {
        tags: vec!["blue".into(), "absent".into()],
        ..query()
    };
    let found = sorted(instance("a", "RUNNING"), &tagged);
    assert_eq!((found.members, found.excluded), (vec![], vec![]));
}

#[test]
fn zones_that_are_not_whole_are_named() {
    let empty = serde_json::json!({"warning": {"code": "NO_RESULTS_ON_PAGE", "message": "none",
        "data": [{"key": "scope", "value": "zones/b"}]}});
    let ill = serde_json::json!({"warning": {"code": "UNREACHABLE", "message": "try later"}});
    let full = serde_json::json!({"instances": [instance("a", "RUNNING")]});
    let zones = serde_json::json!({"zones/c": ill, "zones/b": empty, "zones/a": full});
    let mut text: serde_json::Value = serde_json::from_str(&page(zones, None)).unwrap();
    text["unreachables"] = serde_json::json!(["zones/d"]);
    let sorted = sorted_page(&text.to_string(), &query());
    assert_eq!(sorted.members.len(), 1);
    let names: Vec<_> = sorted.excluded.iter().map(|one| &*one.name).collect();
    assert_eq!(names, ["zones/d", "zones/c"]);
    assert!(sorted.excluded[1].reason.contains("try later"));
}

#[test]
fn only_a_list_is_understood() {
    assert!(parse_page(page(serde_json::json!({}), None).as_bytes()).is_ok());
    assert!(parse_page(format!(r#"{{"kind":"{KIND}"}}"#).as_bytes()).is_ok());
    for text in [
        "",
        "{}",
        "[]",
        "null",
        r#"{"error":{}}"#,
        r#"{"items":[]}"#,
        "<html>",
    ] {
        assert!(parse_page(text.as_bytes()).is_err(), "{text}");
    }
    let odd = r#"{"items":{"z":{"instances":[{"metadata":{"items":[{"key":"a","value":["hunter2"]}]}}]}}}"#;
    let failure = parse_page(odd.as_bytes()).unwrap_err();
    assert!(!failure.reason.contains("hunter2"), "{failure}");
    let whole = page(
        serde_json::json!({"z": {"instances": [instance("a", "RUNNING")]}}),
        None,
    );
    assert!(!format!("{:?}", parse_page(whole.as_bytes())).contains("hunter2"));
}
