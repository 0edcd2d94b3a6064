//! Discovery by `nomad`, against a registry of our own: there is no Nomad in any archive of Debian.

use std::net::SocketAddr;

use ringway_wire::{Ringway, Setup, eventually};
use serde_json::{Value, json};

use crate::discovery_registry::Registry;
use crate::discovery_stub::text_of;
use crate::discovery_support::{
    all_named, becomes, breaks_off, errors, garbage, is_read, is_rejected, outage, sections,
    silence, stays, tables,
};
use crate::fake_prometheus::Parameters;

/// An instance as Nomad tells of it.
pub(crate) fn instance(id: &str, address: SocketAddr, tags: &[&str]) -> Value {
    json!({
        "ID": id, "ServiceName": "web", "Namespace": "default", "NodeID": "n", "Datacenter": "dc1",
        "JobID": "site", "AllocID": format!("alloc-{id}"), "Address": address.ip().to_string(),
        "Port": address.port(), "CreateIndex": 11, "ModifyIndex": 11,
        "Tags": match tags { [] => Value::Null, tags => json!(tags) },
    })
}

/// A registry of Nomad; tags are not for it to choose by.
pub(crate) fn registry() -> Registry {
    Registry::start("X-Nomad-Index", |entries, _| entries.to_vec())
}

/// Ringway that asks it again `interval` after failures and has requests held for `wait`.
pub(crate) fn start(nomad: &Registry, interval: &str, wait: &str, keys: &str) -> Ringway {
    let discoverer = format!(
        "provider: nomad, http: {{endpoint: 'http://{}', interval: {interval}}}, \
         nomad: {{wait: {wait}, namespace: team one}}",
        nomad.origin.address()
    );
    Setup::new(sections(&discoverer, keys)).start()
}

#[test]
fn a_change_ends_the_wait_of_a_held_request() {
    let [a, b, c] = all_named(["a", "b", "c"]);
    let nomad = registry();
    nomad.change(|all| all.push(instance("a", a.address(), &[])));
    // Nothing but an answer to a held request can bring news within an hour.
    let ringway = start(&nomad, "1h", "5m", "query: {service: my web}");
    becomes(&ringway, &["a"]);
    let first = nomad.origin.next_request();
    assert_eq!(first.target, "/v1/service/my%20web?namespace=team+one");
    let held = nomad.origin.next_request();
    let held = Parameters::of(&held);
    for (name, value) in [("namespace", "team one"), ("index", "11"), ("wait", "5m")] {
        assert_eq!(held.all(name), [value]);
    }
    nomad.change(|all| all.push(instance("b", b.address(), &["x"])));
    becomes(&ringway, &["a", "b"]);
    nomad.change(|all| all[0] = instance("a", c.address(), &[]));
    becomes(&ringway, &["b", "c"]);
    nomad.change(|all| drop(all.remove(0)));
    becomes(&ringway, &["b"]);
    nomad.change(Vec::clear);
    becomes(&ringway, &["502"]);
    assert_eq!(errors(&ringway), 0.0);
    ringway.stop();
}

#[test]
fn a_wait_that_is_over_and_an_index_of_others_change_nothing() {
    let [a] = all_named(["a"]);
    let nomad = registry();
    nomad.change(|all| all.push(instance("a", a.address(), &[])));
    let ringway = start(&nomad, "1h", "1s", "query: {service: web}");
    becomes(&ringway, &["a"]);
    let before = tables(&ringway);
    nomad.origin.requests();
    for _ in 0..2 {
        assert!(
            nomad
                .origin
                .next_request()
                .target
                .contains("index=11&wait=1s")
        );
    }
    nomad.change_nothing();
    eventually("the new index is asked with", || {
        let request = nomad.origin.next_request();
        request.target.contains("index=12").then_some(())
    });
    assert_eq!(tables(&ringway), before);
    stays(&ringway, &["a"]);
    assert_eq!(errors(&ringway), 0.0);
    ringway.stop();
}

#[test]
fn an_index_that_goes_back_is_believed_and_everything_read_anew() {
    let [a, b, c] = all_named(["a", "b", "c"]);
    let nomad = registry();
    nomad.change(|all| all.push(instance("a", a.address(), &[])));
    let ringway = start(&nomad, "1h", "1s", "query: {service: web}");
    becomes(&ringway, &["a"]);
    // The first one was plain too.
    nomad.origin.requests();
    nomad.begin_anew(vec![instance("b", b.address(), &[])]);
    becomes(&ringway, &["b"]);
    eventually("a plain read follows", || {
        let request = nomad.origin.next_request();
        (!request.target.contains("index=")).then_some(())
    });
    eventually("and then requests with the new index", || {
        let request = nomad.origin.next_request();
        request.target.contains("index=3&").then_some(())
    });
    nomad.change(|all| all.push(instance("c", c.address(), &[])));
    becomes(&ringway, &["b", "c"]);
    assert_eq!(errors(&ringway), 0.0);
    ringway.stop();
}

#[test]
fn instances_have_all_tags_of_the_query_and_only_they_must_be_well_formed() {
    let [a, b] = all_named(["a", "b"]);
    let nomad = registry();
    nomad.change(|all| {
        *all = vec![
            instance("a", a.address(), &["blue", "v2", "x"]),
            instance("b", b.address(), &["blue"]),
            json!({"ID": "c", "Address": "", "Port": 0}),
        ];
    });
    let ringway = start(
        &nomad,
        "1s",
        "5m",
        "query: {service: web, tags: [v2, blue]}",
    );
    becomes(&ringway, &["a"]);
    let bad = |key: &str, value: Value| {
        let mut bad = instance("b", b.address(), &["v2", "blue"]);
        bad[key] = value;
        bad
    };
    let entries = [bad("Port", json!(70000)), bad("Address", Value::Null)];
    garbage(&ringway, &["a"], entries, |entry| {
        nomad.change(|all| all[1] = entry);
    });
    nomad.change(|all| all[1] = bad("Datacenter", Value::Null));
    becomes(&ringway, &["a", "b"]);
    ringway.stop();
}

#[test]
fn an_answer_that_breaks_off_changes_nothing() {
    let [a, b] = all_named(["a", "b"]);
    let nomad = registry();
    nomad.change(|all| all.push(instance("a", a.address(), &[])));
    let ringway = start(&nomad, "1s", "5m", "query: {service: web}");
    becomes(&ringway, &["a"]);
    let other = json!([instance("b", b.address(), &[])]);
    let other = text_of(200, &other.to_string());
    breaks_off(&ringway, &["a"], &other, |bytes| nomad.send(bytes));
    ringway.stop();
}

#[test]
fn a_server_that_never_answers_changes_nothing_and_one_at_the_end_of_a_wait_is_not_late() {
    let [a, b] = all_named(["a", "b"]);
    let nomad = registry();
    nomad.change(|all| all.push(instance("a", a.address(), &[])));
    let ringway = start(&nomad, "1s, timeout: 3s", "1s", "query: {service: web}");
    becomes(&ringway, &["a"]);
    is_read(&ringway);
    assert_eq!(errors(&ringway), 0.0, "{}", ringway.log());
    let other = json!([instance("b", b.address(), &[])]);
    let other = text_of(200, &other.to_string());
    silence(&ringway, &["a"], &other, |bytes| nomad.send(bytes));
    nomad.change(|all| all.push(instance("b", b.address(), &[])));
    becomes(&ringway, &["a", "b"]);
    ringway.stop();
}

#[test]
fn a_server_that_is_down_or_refuses_changes_nothing() {
    let [a] = all_named(["a"]);
    let nomad = registry();
    nomad.change(|all| all.push(instance("a", a.address(), &[])));
    let ringway = start(&nomad, "1s", "5m", "query: {service: web}, min_members: 1");
    becomes(&ringway, &["a"]);
    outage(&ringway, &["a"], || nomad.cut(), || nomad.recover());
    let answers = [
        "HTTP/1.1 403 Forbidden\r\nContent-Length: 17\r\n\r\nPermission denied",
        "HTTP/1.1 200 OK\r\nX-Nomad-Index: 99\r\nContent-Length: 1\r\n\r\n[",
    ];
    garbage(&ringway, &["a"], answers, |answer| nomad.fail(answer));
    nomad.recover();
    let failed = errors(&ringway);
    is_rejected(&ringway, || {
        nomad.change(Vec::clear);
    });
    stays(&ringway, &["a"]);
    assert_eq!(errors(&ringway), failed);
    ringway.stop();
}
