//! The join: case of ids, order of interfaces, power states, exclusions.

use serde_json::{Value, json};

use super::*;
use crate::discovery::Member;
use crate::discovery::settings::Port;

const ZERO: &str = "00000000-0000-0000-0000-000000000000";

fn id(group: &str, kind: &str, name: &str) -> String {
    format!("/subscriptions/{ZERO}/resourceGroups/{group}/providers/{kind}/{name}")
}

/// Shapes of the API reference, with the case of ids as it differs in practice, and fields that are ignored. No
/// real server confirmed them.
pub(in crate::discovery::azure) fn machine(name: &str) -> Value {
    json!({
        "name": name, "id": id("PROD-RG", "Microsoft.Compute/virtualMachines", name),
        "type": "Microsoft.Compute/virtualMachines", "location": "westeurope", "zones": ["1"],
        "tags": {"Role": "prometheus", "Port": "8080", "Shard": "s0"},
        "properties": {
            "vmId": "1", "provisioningState": "Succeeded", "timeCreated": "2026-01-01T00:00:00Z",
            "hardwareProfile": {"vmSize": "Standard_B2s"}, "storageProfile": {}, "osProfile": {},
            "networkProfile": {"networkInterfaces": [
                {"id": id("prod-rg", "Microsoft.Network/networkInterfaces", &format!("nic-{name}"))}]}}
    })
}

pub(in crate::discovery::azure) fn interface(name: &str, address: &str) -> Value {
    json!({
        "name": format!("nic-{name}"),
        "id": id("Prod-RG", "Microsoft.Network/networkInterfaces", &format!("nic-{name}")),
        "etag": "W/\"0\"", "location": "westeurope", "tags": null,
        "properties": {"provisioningState": "Succeeded", "primary": true, "ipConfigurations": [
            {"name": "ipconfig1", "id": "x", "properties": {
                "privateIPAddress": address, "privateIPAllocationMethod": "Dynamic",
                "privateIPAddressVersion": "IPv4", "primary": true, "subnet": {"id": "x"},
                "publicIPAddress": {"id": id("prod-RG", "Microsoft.Network/publicIPAddresses", name)}}}],
            "virtualMachine": {"id": "x"}}
    })
}

pub(in crate::discovery::azure) fn public_address(name: &str, address: Option<&str>) -> Value {
    let mut document = json!({
        "name": name, "id": id("prod-rg", "Microsoft.Network/publicIPAddresses", name),
        "properties": {"publicIPAddressVersion": "IPv4", "publicIPAllocationMethod": "Static"}
    });
    if let Some(address) = address {
        document["properties"]["ipAddress"] = address.into();
    }
    document
}

pub(in crate::discovery::azure) fn state(name: &str, codes: &[&str]) -> Value {
    let mut machine = machine(&name.to_uppercase());
    let statuses: Vec<_> = codes
        .iter()
        .map(|code| json!({"code": code, "level": "Info", "displayStatus": "VM"}))
        .collect();
    machine["properties"]["instanceView"] = json!({"statuses": statuses});
    machine
}

fn read<T: serde::de::DeserializeOwned>(values: &[Value]) -> Vec<T> {
    values
        .iter()
        .map(|value| serde_json::from_value(value.clone()).unwrap())
        .collect()
}

fn lists(machines: &[Value], interfaces: &[Value]) -> Lists {
    Lists {
        machines: read(machines),
        interfaces: read(interfaces),
        addresses: None,
        states: None,
    }
}

fn query() -> Query {
    Query {
        port: Some(Port::Number(9090)),
        ..Query::default()
    }
}

fn sorted(lists: &Lists, query: &Query) -> Sorted {
    let mut all = Sorted::default();
    sort(lists, query, &mut all);
    all
}

fn only(lists: &Lists, query: &Query) -> Member {
    let mut sorted = sorted(lists, query);
    assert_eq!(sorted.excluded, []);
    assert_eq!(sorted.members.len(), 1);
    sorted.members.remove(0)
}

#[test]
fn a_machine_becomes_a_member_whatever_the_case_of_ids_and_tags() {
    let mut lists = lists(&[machine("vm-a")], &[interface("VM-A", "192.0.2.40")]);
    lists.addresses = Some(read(&[public_address("vm-a", Some("198.51.100.40"))]));
    let query = Query {
        tags: vec!["role".into()],
        port_label: Some("port".into()),
        replica_group_label: Some("SHARD".into()),
        address_type: AddressType::Public,
        ..query()
    };
    let member = only(&lists, &query);
    assert_eq!(member.key(), "http://198.51.100.40:8080");
    assert_eq!((&*member.name, &*member.replica_group), ("vm-a", "s0"));
    assert_eq!(member.ready, Readiness::Unknown);
    let labels: Vec<_> = member.labels.iter().map(|(k, v)| (&**k, &**v)).collect();
    let wanted = [
        ("location", "westeurope"),
        ("private_ip", "192.0.2.40"),
        ("public_ip", "198.51.100.40"),
        ("resource_group", "PROD-RG"),
        ("tag_Port", "8080"),
        ("tag_Role", "prometheus"),
        ("tag_Shard", "s0"),
        ("vm_id", "1"),
        ("vm_name", "vm-a"),
        ("vm_size", "Standard_B2s"),
    ];
    assert_eq!(labels, wanted);
}

#[test]
fn tags_are_a_matter_of_presence() {
    let lists = lists(&[machine("vm-a")], &[interface("vm-a", "192.0.2.40")]);
    for (tag, count) in [("ROLE", 1), ("absent", 0)] {
        let query = Query {
            tags: vec![tag.into()],
            ..query()
        };
        let sorted = sorted(&lists, &query);
        assert_eq!((sorted.members.len(), sorted.excluded.len()), (count, 0));
    }
}

#[test]
fn the_primary_comes_first() {
    let mut two = machine("vm-a");
    let [second, first] = ["b", "a"].map(|name| interface(name, "192.0.2.1")["id"].clone());
    two["properties"]["networkProfile"]["networkInterfaces"] = json!([{"id": second, "properties": {"primary": false}}, {"id": first, "properties": {"primary": true}}]);
    let configuration = |address: &str, version: &str, primary: Value| json!({"properties": {"privateIPAddress": address, "privateIPAddressVersion": version, "primary": primary}});
    let mut a = interface("a", "192.0.2.1");
    a["properties"]["ipConfigurations"] = json!([
        configuration("2001:db8::41", "IPv6", json!(null)),
        configuration("192.0.2.41", "IPv4", json!(true))
    ]);
    let lists = lists(&[two], &[interface("b", "192.0.2.40"), a]);
    assert_eq!(only(&lists, &query()).address(), "192.0.2.41:9090");
    let query = Query {
        address_type: AddressType::Ipv6,
        ..query()
    };
    assert_eq!(only(&lists, &query).address(), "[2001:db8::41]:9090");
}

#[test]
fn machines_that_cannot_be_members_say_why() {
    let mut none = machine("none");
    none["properties"]["networkProfile"] = json!(null);
    let mut unnumbered = interface("c", "");
    unnumbered["properties"]["ipConfigurations"] = json!(null);
    let machines = [none, machine("b"), machine("c"), machine("d")];
    let interfaces = [unnumbered, interface("d", "192.0.2.4")];
    let found = sorted(&lists(&machines, &interfaces), &query());
    assert_eq!(found.members.len(), 1);
    let reasons: Vec<_> = found
        .excluded
        .iter()
        .map(|one| (&*one.name, &*one.reason))
        .collect();
    assert_eq!(reasons[0], ("none", "it has no network interface"));
    assert_eq!(reasons[1].0, "b");
    assert!(reasons[1].1.contains("another resource group"));
    assert_eq!(reasons[2], ("c", "it has no private address"));
    let label_only = Query {
        port_label: Some("absent".into()),
        ..Query::default()
    };
    let found = sorted(&lists(&machines, &interfaces), &label_only);
    assert_eq!(found.excluded.len(), 4);
}

#[test]
fn a_public_address_may_not_be_there_yet() {
    let mut lists = lists(&[machine("vm-a")], &[interface("vm-a", "192.0.2.40")]);
    lists.addresses = Some(read(&[public_address("vm-a", None)]));
    let query = Query {
        address_type: AddressType::Public,
        ..query()
    };
    assert!(sorted(&lists, &query).excluded[0].reason.contains("public"));
}

#[test]
fn power_states_decide_who_serves_and_who_leaves() {
    let (ready, unknown) = (Some(Readiness::Ready), Some(Readiness::Unknown));
    let rows: [(&[&str], Option<Readiness>); 8] = [
        (
            &["ProvisioningState/succeeded", "PowerState/running"],
            ready,
        ),
        (&["powerstate/Running"], ready),
        (&["PowerState/starting"], None),
        (&["PowerState/stopping"], None),
        (&["PowerState/stopped"], None),
        (&["PowerState/deallocated"], None),
        (&["PowerState/levitating"], None),
        (&["ProvisioningState/creating"], unknown),
    ];
    for (codes, wanted) in rows {
        let mut lists = lists(&[machine("vm-a")], &[interface("vm-a", "192.0.2.40")]);
        lists.states = Some(read(&[state("vm-a", codes)]));
        let found = sorted(&lists, &query());
        let states: Vec<_> = found.members.iter().map(|member| member.ready).collect();
        assert_eq!(states, Vec::from_iter(wanted), "{codes:?}");
        assert_eq!(found.excluded, []);
    }
    let mut lists = lists(&[machine("vm-a")], &[interface("vm-a", "192.0.2.40")]);
    lists.states = Some(read(&[state("other", &["PowerState/running"])]));
    assert_eq!(only(&lists, &query()).ready, Readiness::Unknown);
    lists.states = Some(read(&[state("vm-a", &["PowerState/running"])]));
    assert_eq!(&*only(&lists, &query()).labels["power_state"], "running");
}
