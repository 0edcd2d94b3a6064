//! Discovered members as members: health, groups, connections, and load while they come and go.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ringway_wire::{Client, Gate, Origin, Ringway, Setup, eventually, ok};
use serde_json::Value;

use crate::discovery::load;
use crate::discovery_nomad;
use crate::discovery_support::{
    all_named, becomes, is_listed, list, named, picks, replace, row, sections_of, stays,
};
use crate::fake_prometheus::{Server, vector};
use crate::health::while_well;

const FILE: &str = "provider: file, file: {poll_interval: 1h}";
const QUERY: &str = "query: {path: members}";

fn write(ringway: &Ringway, text: &str) {
    replace(&ringway.folder().join("members"), text);
}

fn entry(address: SocketAddr, keys: &str) -> String {
    format!(
        "{{\"name\": \"m{}\", \"address\": \"{address}\"{keys}}}",
        address.port()
    )
}

fn entries(entries: &[String]) -> String {
    format!("[{}]", entries.join(", "))
}

fn name(origin: &Origin) -> String {
    format!("lb-m{}", origin.address().port())
}

fn start(members: &str, keys: &str, template: &str) -> Ringway {
    let setup = Setup::new(sections_of(FILE, &format!("{QUERY}{keys}"), template));
    replace(&setup.folder().join("members"), members);
    setup.start()
}

// === health ===

const PROBE: &str = "healthcheck: {interval: 50ms, timeout: 2s, path: /probe, failure_threshold: 1, recovery_threshold: 1}";

#[test]
fn a_newcomer_is_not_asked_before_its_first_passing_probe() {
    let old = named("old");
    let (new, well) = while_well();
    well.store(false, Ordering::SeqCst);
    let ringway = start(&entries(&[entry(old.address(), "")]), "", PROBE);
    becomes(&ringway, &["old"]);
    write(
        &ringway,
        &entries(&[entry(old.address(), ""), entry(new.address(), "")]),
    );
    for _ in 0..3 {
        assert_eq!(new.next_request().target, "/probe");
    }
    is_listed(&ringway, &name(&new), "unavailable");
    stays(&ringway, &["old"]);
    let asked = new.requests();
    assert!(
        asked.iter().all(|request| request.target == "/probe"),
        "{asked:?}"
    );
    well.store(true, Ordering::SeqCst);
    becomes(&ringway, &["old", "x"]);
    is_listed(&ringway, &name(&new), "available");
    ringway.stop();
}

#[test]
fn a_newcomer_whose_first_probe_is_not_answered_is_initializing() {
    let gate = Gate::new();
    let wait = gate.clone();
    let origin = Origin::answering(move |request| {
        if request.target == "/probe" {
            wait.pass();
        }
        ok("x")
    });
    let probe = PROBE.replace("interval: 50ms", "interval: 1h");
    let ringway = start("[]", "", &probe);
    write(&ringway, &entries(&[entry(origin.address(), "")]));
    is_listed(&ringway, &name(&origin), "initializing");
    stays(&ringway, &["502"]);
    gate.open();
    becomes(&ringway, &["x"]);
    ringway.stop();
}

#[test]
fn who_survives_a_change_keeps_its_health() {
    let [a, c] = all_named(["a", "c"]);
    let (b, well) = while_well();
    let all = [
        entry(a.address(), ""),
        entry(b.address(), ""),
        entry(c.address(), ""),
    ];
    let ringway = start(
        &entries(&all),
        "",
        &PROBE.replace("interval: 50ms", "interval: 300ms"),
    );
    becomes(&ringway, &["a", "c", "x"]);
    well.store(false, Ordering::SeqCst);
    is_listed(&ringway, &name(&b), "unavailable");
    becomes(&ringway, &["a", "c"]);
    // The first of the list goes, so that others move up.
    write(&ringway, &entries(&all[1..]));
    eventually("it is gone", || {
        row(&ringway, &name(&a)).is_none().then_some(())
    });
    stays(&ringway, &["c"]);
    let (list, _) = row(&ringway, &name(&b)).expect("it is a member");
    assert_eq!(list, "unavailable");
    ringway.stop();
}

#[test]
fn a_probe_that_ends_after_its_member_is_gone_leaves_nothing_behind() {
    let gate = Gate::new();
    let wait = gate.clone();
    let [stays] = all_named(["stays"]);
    let goes = Origin::start(move |conn| {
        while conn.request().is_some() {
            wait.pass();
            conn.send(ok(""));
        }
    });
    let all = [entry(stays.address(), ""), entry(goes.address(), "")];
    let ringway = start(&entries(&all), "", PROBE);
    goes.next_request();
    write(&ringway, &entries(&all[..1]));
    let probes = |origin: &Origin| {
        let labels = [("backend_name", &*name(origin))];
        ringway.metric("ringway_healthcheck_probes_total", &labels)
    };
    let has_rows = || probes(&goes).is_some();
    eventually("it is gone", || (!has_rows()).then_some(()));
    gate.open();
    // What ends later is reported later.
    let before = probes(&stays).unwrap_or_default();
    eventually("others go on being probed", || {
        (probes(&stays)? > before + 3.0).then_some(())
    });
    assert!(!has_rows());
    ringway.stop();
}

#[test]
fn a_source_that_says_nothing_of_health_leaves_it_to_probes_or_to_nobody() {
    let [a] = all_named(["a"]);
    let ringway = start("[]", ", health_mode: provider", "");
    write(&ringway, &entries(&[entry(a.address(), "")]));
    becomes(&ringway, &["a"]);
    is_listed(&ringway, &name(&a), "unchecked");
    ringway.stop();
    let (b, well) = while_well();
    let ringway = start(
        &entries(&[entry(b.address(), "")]),
        ", health_mode: provider",
        PROBE,
    );
    becomes(&ringway, &["x"]);
    well.store(false, Ordering::SeqCst);
    is_listed(&ringway, &name(&b), "unavailable");
    becomes(&ringway, &["502"]);
    ringway.stop();
}

// === groups ===

/// The value of `sum(up)` over all groups.
fn sum(ringway: &Ringway) -> Option<String> {
    let answer = ringway.get("/api/v1/query?time=1700000000&query=sum(up)");
    let body: Value = serde_json::from_slice(&answer.body).ok()?;
    let value = body["data"]["result"][0]["value"][1].as_str()?;
    Some(value.to_owned())
}

#[test]
fn members_are_regrouped_in_place() {
    let one = |name| Server::saying(name, vector(&[("", "5")]));
    let servers = [one("a"), one("b")];
    let [a, b] = servers.each_ref().map(|server| server.origin.address());
    let group = |address, group: &str| entry(address, &format!(", \"replica_group\": \"{group}\""));
    let setup = Setup::new(
        sections_of(FILE, QUERY, "")
            .replace("provider: reverseproxy", "provider: prometheus")
            .replace("mechanism: rr", "mechanism: tsm"),
    );
    replace(
        &setup.folder().join("members"),
        &entries(&[group(a, "g"), group(b, "g")]),
    );
    let ringway = setup.start();
    assert_eq!(sum(&ringway).as_deref(), Some("5"), "one group counts once");
    let changes = |event| {
        ringway.metric(
            "trickster_alb_discovery_member_changes_total",
            &[("event", event)],
        )
    };
    let before = (changes("add"), changes("remove"));
    write(&ringway, &entries(&[group(a, "g"), group(b, "h")]));
    eventually("groups add up", || (sum(&ringway)? == "10").then_some(()));
    write(&ringway, &entries(&[entry(a, ""), entry(b, "")]));
    eventually("without a group each is its own", || {
        (sum(&ringway)? == "10").then_some(())
    });
    write(&ringway, &entries(&[group(a, "h"), group(b, "h")]));
    eventually("one group counts once", || {
        (sum(&ringway)? == "5").then_some(())
    });
    assert_eq!(
        (changes("add"), changes("remove")),
        before,
        "nobody came or went"
    );
    ringway.stop();
}

// === connections ===

#[test]
fn a_change_that_is_none_of_its_address_keeps_a_members_connections() {
    let [a, b, c] = all_named(["a", "b", "c"]);
    let light = [
        entry(a.address(), ""),
        entry(b.address(), ""),
        entry(c.address(), ""),
    ];
    let setup = Setup::new(sections_of(FILE, QUERY, "")).shards(1);
    replace(&setup.folder().join("members"), &entries(&light));
    let ringway = setup.start();
    becomes(&ringway, &["a", "b", "c"]);
    let opened = (b.opened(), c.opened());
    assert_eq!(opened, (1, 1));
    write(
        &ringway,
        &entries(&[
            light[0].clone(),
            entry(b.address(), ", \"weight\": 4"),
            light[2].clone(),
        ]),
    );
    eventually("the weight counts", || {
        let bs = picks(&ringway, 12)
            .iter()
            .filter(|pick| *pick == "b")
            .count();
        (bs == 8).then_some(())
    });
    // Whoever comes before them goes, and somebody new comes.
    let d = named("d");
    write(
        &ringway,
        &entries(&[light[1].clone(), light[2].clone(), entry(d.address(), "")]),
    );
    becomes(&ringway, &["b", "c", "d"]);
    assert_eq!((b.opened(), c.opened()), opened, "no new connections");
    ringway.stop();
}

#[test]
fn requests_in_flight_to_who_leaves_are_answered() {
    let gate = Gate::new();
    let wait = gate.clone();
    let leaving = Origin::answering(move |request| {
        if request.target == "/held" {
            wait.pass();
        }
        ok("leaving")
    });
    let other = named("other");
    let ringway = start(&list(&[leaving.address()]), "", "");
    let mut client: Client = ringway.client();
    client.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(leaving.next_request().target, "/held");
    write(&ringway, &list(&[other.address()]));
    becomes(&ringway, &["other"]);
    gate.open();
    assert_eq!(client.answer().text(), "leaving");
    assert_eq!(client.get("/").text(), "other");
    ringway.stop();
}

#[test]
fn a_hundred_changes_under_load_lose_no_request() {
    let nomad = discovery_nomad::registry();
    let origins = all_named(["a", "b", "c"]);
    let instance = |index: usize| {
        let id = ["i0", "i1", "i2"][index];
        discovery_nomad::instance(id, origins[index].address(), &[])
    };
    nomad.change(|all| *all = vec![instance(0), instance(1)]);
    let ringway = discovery_nomad::start(&nomad, "1h", "5m", "query: {service: web}");
    becomes(&ringway, &["a", "b"]);
    let stop = Arc::new(AtomicBool::new(false));
    let loads = [
        load(&ringway, &stop),
        load(&ringway, &stop),
        load(&ringway, &stop),
    ];
    for round in 0..100 {
        let index = nomad.change(|all| *all = vec![instance(round % 3), instance((round + 1) % 3)]);
        let own = format!("index={index}&");
        eventually("it is read", || {
            nomad
                .origin
                .next_request()
                .target
                .contains(&own)
                .then_some(())
        });
    }
    stop.store(true, Ordering::SeqCst);
    for load in loads {
        let answers = load.join().expect("no panic").expect("no request is lost");
        assert!(answers > 0);
    }
    becomes(&ringway, &["a", "b"]);
    let changes = ringway.metric(
        "trickster_alb_discovery_member_changes_total",
        &[("event", "add")],
    );
    assert!(changes.is_some_and(|changes| changes > 60.0), "{changes:?}");
    ringway.stop();
}
