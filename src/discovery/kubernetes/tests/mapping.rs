//! How objects become members, without a server.

use std::collections::BTreeMap;

use ringway_shards::plan::Scheme;

use super::super::objects::{Kind, Mapped, Objects, Pod, Service, Slice, identity, trim};
use super::super::{pods, services, slices};
use super::*;
use crate::discovery::Readiness;
use crate::discovery::settings::Port;

fn objects<K: Kind>(values: &[Value]) -> Objects<K> {
    let mut objects = Objects::new();
    for value in values {
        let mut object: K = serde_json::from_value(value.clone()).unwrap();
        trim(object.meta_mut());
        objects.insert(identity(object.meta()), Arc::new(object));
    }
    objects
}

fn of_slices(query: &Query, values: &[Value]) -> Mapped {
    slices::map(query, &objects::<Slice>(values), None)
}

fn of_services(query: &Query, values: &[Value]) -> Mapped {
    services::map(query, &objects::<Service>(values), None)
}

fn of_pods(query: &Query, values: &[Value]) -> Mapped {
    pods::map(query, &objects::<Pod>(values), None)
}

fn with_port(port: &str) -> Query {
    Query {
        port: Some(match port.parse() {
            Ok(number) => Port::Number(number),
            Err(_) => Port::Name(port.into()),
        }),
        ..slices_query()
    }
}

fn keys(mapped: &Mapped) -> Vec<String> {
    mapped.members.iter().map(Member::key).collect()
}

fn excluded(mapped: &Mapped) -> Vec<(&str, &str)> {
    let all = mapped.excluded.iter();
    all.map(|one| (&*one.name, one.reason.as_str())).collect()
}

#[test]
fn an_endpoint_is_whole() {
    let mapped = of_slices(&slices_query(), &[slice("a", &[1])]);
    let mut wanted = Member::at(Scheme::Http, "192.0.2.1", 9090);
    wanted.name = "pod-1".into();
    wanted.ready = Readiness::Ready;
    wanted.label("service", "prometheus");
    assert_eq!(mapped.members, [wanted]);
    let mut value = slice("a", &[1]);
    value["metadata"]["namespace"] = "monitoring".into();
    value["endpoints"][0]["targetRef"] = Value::Null;
    let mapped = of_slices(&slices_query(), &[value]);
    assert_eq!(&*mapped.members[0].name, "192.0.2.1");
    let label = mapped.members[0].labels.get("namespace");
    assert_eq!(label.map(|text| &**text), Some("monitoring"));
}

#[test]
fn readiness_of_endpoints() {
    let ready = Some(Readiness::Ready);
    for (conditions, wanted) in [
        (json!({"ready": true}), ready),
        (
            json!({"ready": true, "serving": true, "terminating": false}),
            ready,
        ),
        (json!({}), ready),
        (Value::Null, ready),
        (json!({"ready": null, "terminating": null}), ready),
        (json!({"ready": false}), Some(Readiness::NotReady)),
        (
            json!({"ready": false, "serving": true}),
            Some(Readiness::NotReady),
        ),
        (json!({"ready": true, "invented": true}), ready),
        (
            json!({"ready": false, "serving": true, "terminating": true}),
            None,
        ),
        (json!({"ready": true, "terminating": true}), None),
    ] {
        let mut value = slice("a", &[1]);
        value["endpoints"][0]["conditions"] = conditions.clone();
        let mapped = of_slices(&slices_query(), &[value]);
        let found = mapped.members.first().map(|member| member.ready);
        assert_eq!(found, wanted, "{conditions}");
        assert_eq!(mapped.excluded, [], "{conditions}");
    }
}

#[test]
fn readiness_of_pods() {
    let condition = |status: &str| json!([{"type": "Ready", "status": status}]);
    for (phase, conditions, wanted) in [
        ("Running", condition("True"), Some(Readiness::Ready)),
        ("Running", condition("False"), Some(Readiness::NotReady)),
        ("Running", condition("Unknown"), Some(Readiness::NotReady)),
        ("Running", condition("Invented"), Some(Readiness::NotReady)),
        ("Running", Value::Null, Some(Readiness::NotReady)),
        (
            "Running",
            json!([{"type": "Initialized", "status": "True"}]),
            Some(Readiness::NotReady),
        ),
        ("Pending", condition("True"), None),
        ("Succeeded", condition("True"), None),
        ("Failed", condition("False"), None),
        ("Unknown", condition("True"), None),
        ("Invented", condition("True"), None),
    ] {
        let mut value = pod(1);
        value["status"]["phase"] = phase.into();
        value["status"]["conditions"] = conditions.clone();
        let mapped = of_pods(&pods_query(), &[value]);
        let found = mapped.members.first().map(|member| member.ready);
        assert_eq!(found, wanted, "{phase} {conditions}");
        assert_eq!(mapped.excluded, [], "{phase} {conditions}");
    }
    let mut value = pod(1);
    value["status"]["podIP"] = Value::Null;
    assert_eq!(of_pods(&pods_query(), &[value]).members, []);
}

#[test]
fn ports_of_slices() {
    let ports = json!([
        {"name": "web", "port": 9090, "protocol": "TCP"},
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "tls", "port": 9443, "appProtocol": "https"},
        {"name": "any", "port": null},
    ]);
    let mut value = slice("a", &[1]);
    value["ports"] = ports;
    for (port, wanted) in [
        ("web", Ok("http://192.0.2.1:9090")),
        ("tls", Ok("https://192.0.2.1:9443")),
        ("9443", Ok("https://192.0.2.1:9443")),
        ("8080", Ok("http://192.0.2.1:8080")),
        ("53", Ok("http://192.0.2.1:53")),
        ("dns", Err("has no TCP port named \"dns\"")),
        ("any", Err("has no TCP port named \"any\"")),
        ("none", Err("has no TCP port named \"none\"")),
    ] {
        let mapped = of_slices(&with_port(port), std::slice::from_ref(&value));
        match wanted {
            Ok(key) => assert_eq!(keys(&mapped), [key], "{port}"),
            Err(reason) => assert_eq!(excluded(&mapped), [("a", reason)], "{port}"),
        }
    }
    let mapped = of_slices(&slices_query(), std::slice::from_ref(&value));
    let reason = "declares several TCP ports ([9090, 9443]): set query.port";
    assert_eq!(excluded(&mapped), [("a", reason)]);
    assert_eq!(mapped.members, []);
    value["ports"] = json!([{"port": 53, "protocol": "UDP"}, {"name": "web", "port": 9090}]);
    assert_eq!(
        keys(&of_slices(&slices_query(), &[value.clone()])),
        ["http://192.0.2.1:9090"]
    );
    value["ports"] = Value::Null;
    let mapped = of_slices(&slices_query(), &[value.clone()]);
    assert_eq!(
        excluded(&mapped),
        [("a", "declares no TCP port: set query.port")]
    );
    assert_eq!(
        keys(&of_slices(&with_port("80"), &[value])),
        ["http://192.0.2.1:80"]
    );
}

#[test]
fn impossible_ports_are_not_declared() {
    for port in [json!(0), json!(-1), json!(65_536), json!(null)] {
        let mut value = slice("a", &[1]);
        value["ports"] = json!([{"name": "web", "port": port}]);
        let mapped = of_slices(&slices_query(), &[value]);
        assert_eq!(mapped.members, [], "{port}");
        assert_eq!(mapped.excluded.len(), 1, "{port}");
    }
}

#[test]
fn ports_are_of_their_slice() {
    let mut other = slice("b", &[2]);
    other["ports"][0]["port"] = 9091.into();
    other["ports"][0]["appProtocol"] = "https".into();
    let mapped = of_slices(&with_port("web"), &[slice("a", &[1]), other]);
    assert_eq!(
        keys(&mapped),
        ["http://192.0.2.1:9090", "https://192.0.2.2:9091"]
    );
}

#[test]
fn nulls_are_nothing() {
    let mut value = slice("a", &[]);
    value["endpoints"] = Value::Null;
    value["ports"] = Value::Null;
    let mapped = of_slices(&slices_query(), &[value]);
    assert_eq!(mapped.members, []);
    assert_eq!(mapped.excluded, []);
}

#[test]
fn a_pod_with_two_addresses_is_one_member() {
    let mut six = slice("a-six", &[1, 2, 3]);
    six["addressType"] = "IPv6".into();
    for (at, octet) in [(0, 1), (1, 2), (2, 3)] {
        six["endpoints"][at]["addresses"] = json!([format!("2001:db8::{octet}")]);
    }
    let mut names = slice("a-names", &[1]);
    names["addressType"] = "FQDN".into();
    names["endpoints"][0]["addresses"] = json!(["one.example.com"]);
    let mapped = of_slices(
        &slices_query(),
        &[six.clone(), slice("four", &[1, 2]), names.clone()],
    );
    let wanted = [
        "http://192.0.2.1:9090",
        "http://192.0.2.2:9090",
        "http://[2001:db8::3]:9090",
    ];
    assert_eq!(keys(&mapped), wanted);
    assert_eq!(
        keys(&of_slices(&slices_query(), &[names])),
        ["http://one.example.com:9090"]
    );
    let mapped = of_slices(&slices_query(), &[six]);
    assert_eq!(keys(&mapped)[0], "http://[2001:db8::1]:9090");
}

#[test]
fn an_endpoint_that_moves_between_slices_is_one_member() {
    let old = slice_of("a", &[endpoint(1, false)]);
    let mapped = of_slices(&slices_query(), &[old, slice("b", &[1])]);
    assert_eq!(mapped.members.len(), 1);
    assert_eq!(mapped.members[0].ready, Readiness::Ready);
}

#[test]
fn addresses_are_not_trusted() {
    for address in [
        "",
        "localhost",
        "1.2.3",
        "192.0.2.1:80",
        "[2001:db8::1]",
        "192.0.2.1/../x",
    ] {
        let mut value = slice("a", &[1, 2]);
        value["endpoints"][0]["addresses"] = json!([address]);
        let mapped = of_slices(&slices_query(), &[value]);
        assert_eq!(names_of(&mapped.members), ["pod-2"], "{address}");
        assert_eq!(excluded(&mapped), [("pod-1", "has no usable address")]);
    }
    let mut value = slice("a", &[1]);
    value["addressType"] = "FQDN".into();
    value["endpoints"][0]["addresses"] = json!(["a b"]);
    assert_eq!(of_slices(&slices_query(), &[value.clone()]).members, []);
    value["addressType"] = "Invented".into();
    let mapped = of_slices(&slices_query(), &[value]);
    assert_eq!(excluded(&mapped), [("a", "has an unknown addressType")]);
}

#[test]
fn the_scheme_has_an_order() {
    let value = |app_protocol: &str, annotation: &str| {
        json!({
            "metadata": {"name": "s", "annotations": {"trickstercache.org/scheme": annotation, "x": "y"}},
            "spec": {"clusterIP": "198.51.100.1", "ports": [{"port": 80, "appProtocol": app_protocol}]},
        })
    };
    for (written, app_protocol, annotation, wanted) in [
        (None, "", "", Scheme::Http),
        (None, "https", "", Scheme::Https),
        (None, "HTTPS", "http", Scheme::Https),
        (None, "http", "https", Scheme::Https),
        (None, "", "https", Scheme::Https),
        (None, "kubernetes.io/h2c", "", Scheme::Http),
        (None, "", "gopher", Scheme::Http),
        (Some(Scheme::Http), "https", "https", Scheme::Http),
        (Some(Scheme::Https), "", "http", Scheme::Https),
    ] {
        let query = Query {
            scheme: written,
            ..pods_query()
        };
        let mapped = of_services(&query, &[value(app_protocol, annotation)]);
        assert_eq!(
            mapped.members[0].scheme, wanted,
            "{written:?} {app_protocol} {annotation}"
        );
    }
    let mut annotated = pod(1);
    annotated["metadata"]["annotations"] = json!({"trickstercache.org/scheme": "https"});
    assert_eq!(
        keys(&of_pods(&pods_query(), &[annotated])),
        ["https://192.0.2.1:9090"]
    );
}

#[test]
fn services_without_an_address_are_left_out() {
    for address in [json!("None"), json!(""), Value::Null, json!("nonsense")] {
        let value = json!({"metadata": {"name": "s"}, "spec": {"clusterIP": address, "ports": [{"port": 80}]}});
        let mapped = of_services(&pods_query(), &[value]);
        assert_eq!(mapped.members, [], "{address}");
        assert_eq!(mapped.excluded.len(), 1, "{address}");
    }
    let value = json!({"metadata": {"name": "s"}, "spec": {"clusterIP": "2001:db8::5", "ports": [{"port": 80}]}});
    let mapped = of_services(&pods_query(), &[value]);
    assert_eq!(keys(&mapped), ["http://[2001:db8::5]:80"]);
    assert_eq!(mapped.members[0].ready, Readiness::Unknown);
}

#[test]
fn groups_are_labels_of_services_and_pods() {
    let query = Query {
        replica_group_label: Some("shard".into()),
        ..pods_query()
    };
    let mut unlabelled = pod(2);
    unlabelled["metadata"]["labels"] = Value::Null;
    let mapped = of_pods(&query, &[pod(1), unlabelled]);
    let groups: Vec<_> = mapped
        .members
        .iter()
        .map(|member| &*member.replica_group)
        .collect();
    assert_eq!(groups, ["shard-1", ""]);
    let value = json!({
        "metadata": {"name": "s", "labels": {"shard": "x"}},
        "spec": {"clusterIP": "198.51.100.1", "ports": [{"port": 80}]},
    });
    assert_eq!(
        &*of_services(&query, &[value]).members[0].replica_group,
        "x"
    );
    let pods = objects::<Pod>(&[pod(1)]);
    let mut by_name = endpoint(1, true);
    by_name["targetRef"]["uid"] = Value::Null;
    let mut no_pod = endpoint(1, true);
    no_pod["targetRef"]["kind"] = "Node".into();
    for (endpoint, wanted) in [
        (endpoint(1, true), "shard-1"),
        (by_name, "shard-1"),
        (no_pod, ""),
    ] {
        let slices = objects::<Slice>(&[slice_of("a", &[endpoint])]);
        let mapped = slices::map(&query, &slices, Some(&pods));
        assert_eq!(&*mapped.members[0].replica_group, wanted);
    }
}

#[test]
fn ports_of_pods() {
    let mut value = pod(1);
    value["spec"]["containers"][1]["ports"] = json!([{"name": "side", "containerPort": 8080}]);
    let query = |port: Option<Port>| Query {
        port,
        ..pods_query()
    };
    let named = query(Some(Port::Name("side".into())));
    assert_eq!(
        keys(&of_pods(&named, &[value.clone()])),
        ["http://192.0.2.1:8080"]
    );
    let mapped = of_pods(&query(None), &[value]);
    let reason = "declares several TCP ports ([8080, 9090]): set query.port";
    assert_eq!(excluded(&mapped), [("pod-1", reason)]);
    assert_eq!(
        keys(&of_pods(&query(None), &[pod(1)])),
        ["http://192.0.2.1:9090"]
    );
}

#[test]
fn only_what_is_read_is_kept() {
    let mut value = slice("a", &[1]);
    value["metadata"]["managedFields"] = json!([{"manager": "x"}]);
    value["metadata"]["annotations"] = json!({"secret": "s"});
    value["metadata"]["resourceVersion"] = "7".into();
    let kept = objects::<Slice>(&[value]);
    assert_eq!(kept, objects::<Slice>(&[slice("a", &[1])]));
    let none: BTreeMap<String, String> = BTreeMap::new();
    let meta = &kept.values().next().unwrap().metadata;
    assert_eq!(meta.annotations.clone().unwrap_or_default(), none);
}
