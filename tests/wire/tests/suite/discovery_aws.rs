//! Discovery by `aws`: EC2 and ECS of moto, which is nobody of ours, and a stand-in for what moto does not do.

use std::net::{SocketAddr, TcpStream};

use ringway_wire::{Origin, Port, Ringway, eventually};
use serde_json::json;

use crate::discovery_aws_account::{
    Host, KEYS, account, ec2_error, ec2_page, ecs_error, host, hosts, ringway, serve, setup, start,
};
use crate::discovery_moto::{Moto, gateway, gateway_of_small_pages, moto};
use crate::discovery_stub::{everywhere, json_of, text_of};
use crate::discovery_support::{
    LEFT_OUT, becomes, breaks_off, errors, excluded, garbage, is_listed, is_logged,
    is_logged_times, is_read, is_rejected, lines, outage, row, sections, silence, snapshots, stays,
    tables,
};

const EC2_QUERY: &str = "query: {filters: {'tag:role': [web]}, port_label: web-port}";
const ECS_QUERY: &str = "query: {cluster: prod, port_label: web-port}";

// === moto ===

#[test]
fn instances_and_tasks_of_moto_are_members_as_they_come_change_and_go() {
    let Some(moto) = moto(None) else { return };
    std::thread::scope(|scope| {
        scope.spawn(|| instances_of(&moto));
        scope.spawn(|| tasks_of(&moto));
    });
}

fn instances_of(moto: &Moto) {
    let (origin, other) = (everywhere(), everywhere());
    let port = origin.address().port();
    let region = "eu-west-1";
    let subnet = moto.subnet(region, "127.1.0.0/16");
    let first = moto.instance(region, &subnet, "127.1.0.5", Some(port));
    let (gate, is_down) = gateway(moto.address());
    let aws = format!("service: ec2, region: {region}, {KEYS}");
    let ringway = setup(gate.address(), &aws, EC2_QUERY).start();
    becomes(&ringway, &["127.1.0.5"]);
    let second = moto.instance(region, &subnet, "127.1.0.6", Some(port));
    becomes(&ringway, &["127.1.0.5", "127.1.0.6"]);
    // Its port changes: made anew in place.
    moto.tag(
        region,
        &second,
        "web-port",
        &other.address().port().to_string(),
    );
    eventually("it moved to the other port", || {
        ringway.get("/");
        (!other.requests().is_empty()).then_some(())
    });
    let before = tables(&ringway);
    is_read(&ringway);
    assert_eq!(tables(&ringway), before, "nothing has changed");
    let members = ["127.1.0.5", "127.1.0.6"];
    outage(
        &ringway,
        &members,
        || is_down.with(|down| *down = true),
        || is_down.with(|down| *down = false),
    );
    // Moto goes on listing who was stopped.
    moto.ec2(
        region,
        &[("Action", "StopInstances"), ("InstanceId.1", &first)],
    );
    becomes(&ringway, &["127.1.0.6"]);
    assert_eq!(excluded(&ringway), 0.0, "who leaves is not left out");
    moto.ec2(
        region,
        &[("Action", "StartInstances"), ("InstanceId.1", &first)],
    );
    becomes(&ringway, &members);
    let third = moto.instance(region, &subnet, "127.1.0.7", None);
    eventually("one is left out", || {
        (excluded(&ringway) == 1.0).then_some(())
    });
    is_read(&ringway);
    is_logged_times(&ringway, 1, LEFT_OUT);
    is_logged(&ringway, "web-127.1.0.7: it has no");
    for id in [&first, &second, &third] {
        moto.ec2(
            region,
            &[("Action", "TerminateInstances"), ("InstanceId.1", id)],
        );
    }
    becomes(&ringway, &["502"]);
    assert_eq!(excluded(&ringway), 0.0);
    assert!(!ringway.log().contains("aws-secret"));
    ringway.stop();
}

fn tasks_of(moto: &Moto) {
    let origin = everywhere();
    let port = origin.address().port();
    let region = "eu-central-1";
    let subnet = moto.subnet(region, "127.2.0.0/16");
    moto.cluster(region);
    let run = |port| moto.task(region, &subnet, port);
    let (first, first_address) = run(Some(port));
    let (gate, is_down) = gateway(moto.address());
    let aws = format!("service: ecs, region: {region}, {KEYS}");
    let ringway = setup(gate.address(), &aws, ECS_QUERY).start();
    becomes(&ringway, &[&first_address]);
    let (second, second_address) = run(Some(port));
    let members = [&*first_address, &*second_address];
    becomes(&ringway, &members);
    outage(
        &ringway,
        &members,
        || is_down.with(|down| *down = true),
        || is_down.with(|down| *down = false),
    );
    let (third, _) = run(None);
    eventually("one is left out", || {
        (excluded(&ringway) == 1.0).then_some(())
    });
    is_read(&ringway);
    is_logged_times(&ringway, 1, LEFT_OUT);
    let stop = |arn: &str| moto.ecs(region, "StopTask", &json!({"cluster": "prod", "task": arn}));
    stop(&first);
    becomes(&ringway, &[&second_address]);
    stop(&second);
    stop(&third);
    becomes(&ringway, &["502"]);
    assert_eq!(excluded(&ringway), 0.0);
    is_no_empty_cluster(&ringway, &aws, gate.address());
    ringway.stop();
}

/// A cluster that is not there is a failure and no empty one.
fn is_no_empty_cluster(ringway: &Ringway, aws: &str, address: SocketAddr) {
    let query = "query: {cluster: nowhere, port_label: web-port}";
    let discoverer = format!(
        "provider: aws, aws: {{{aws}}}, http: {{endpoint: 'http://{address}', interval: 1s}}"
    );
    ringway.write_config(&sections(&discoverer, query));
    crate::discovery_support::reload(ringway);
    is_logged_times(ringway, 1, "ClusterNotFoundException");
}

#[test]
fn filters_and_tags_choose_instances_of_moto_on_all_pages() {
    let Some(moto) = moto(None) else { return };
    let origin = everywhere();
    let port = origin.address().port();
    let region = "us-east-2";
    let subnet = moto.subnet(region, "127.4.0.0/16");
    let run = |octet: u8| moto.instance(region, &subnet, &format!("127.4.0.{octet}"), Some(port));
    let ids = [5, 6, 7, 8, 9].map(run);
    let tag = |id: &str, key: &str, value: &str| moto.tag(region, id, key, value);
    for id in &ids[1..] {
        tag(id, "tier", "front");
    }
    tag(&ids[2], "role", "api");
    tag(&ids[3], "role", "db");
    let gate = gateway_of_small_pages(moto.address());
    let aws = format!("service: ec2, region: {region}, {KEYS}");
    let filters = "filters: {'tag:role': [web, api], instance-type: [t3.small]}";
    let query = format!("query: {{tags: [tier], {filters}, port_label: web-port}}");
    let ringway = setup(gate.address(), &aws, &query).start();
    becomes(&ringway, &["127.4.0.6", "127.4.0.7", "127.4.0.9"]);
    assert_eq!(snapshots(&ringway, "applied"), 1.0, "they came at once");
    let asked = gate.requests();
    let further = asked.iter().filter(|one| one.text().contains("NextToken="));
    assert!(further.count() >= 3, "four fit the filters");
    tag(&ids[3], "role", "web");
    becomes(
        &ringway,
        &["127.4.0.6", "127.4.0.7", "127.4.0.8", "127.4.0.9"],
    );
    // A tag counts whatever its value.
    tag(&ids[0], "tier", "");
    tag(&ids[4], "role", "db");
    becomes(
        &ringway,
        &["127.4.0.5", "127.4.0.6", "127.4.0.7", "127.4.0.8"],
    );
    assert_eq!(excluded(&ringway), 0.0, "who is not chosen is not left out");
    ringway.stop();
}

#[test]
fn moto_checks_signatures_and_credentials_may_be_rotated() {
    /// Set-up calls that are not checked: a network, an instance, a user with a policy and a key.
    const FREE: usize = 7;
    let Some(moto) = moto(Some(FREE)) else { return };
    let origin = everywhere();
    let region = "us-west-2";
    let subnet = moto.subnet(region, "127.3.0.0/16");
    moto.instance(region, &subnet, "127.3.0.5", Some(origin.address().port()));
    let (key, secret) = moto.user("reader", "ec2:DescribeInstances");
    let file = |secret: &str| {
        format!("[default]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n")
    };
    let aws = format!("service: ec2, region: {region}");
    let setup = setup(moto.address(), &aws, EC2_QUERY);
    let credentials = setup.folder().join("credentials");
    std::fs::write(&credentials, file("not-the-secret")).expect("the folder is ours");
    let ringway = setup.start();
    eventually("it is refused", || (errors(&ringway) > 0.0).then_some(()));
    stays(&ringway, &["502"]);
    eventually("the reason is logged", || {
        let log = ringway.log();
        let is_told = log.contains("AuthFailure") || log.contains("SignatureDoesNotMatch");
        is_told.then_some(())
    });
    std::fs::write(&credentials, file(&secret)).expect("the folder is ours");
    becomes(&ringway, &["127.3.0.5"]);
    let log = ringway.log();
    assert!(
        !log.contains("not-the-secret") && !log.contains(&secret),
        "{log}"
    );
    ringway.stop();
}

// === what moto does not do ===

fn all_of(octets: impl IntoIterator<Item = u8>) -> Vec<String> {
    octets
        .into_iter()
        .map(|octet| format!("127.0.0.{octet}"))
        .collect()
}

fn texts(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

/// Pages of a service: all or nothing.
#[track_caller]
fn pages_of(service: &str, query: &str, fault: Vec<u8>) {
    let origin = everywhere();
    let port = origin.address().port();
    let (account, _service, ringway) = start(service, hosts(2..7, port), query);
    account.with(|own| own.page = 2);
    let all = all_of(2..7);
    becomes(&ringway, &texts(&all));
    assert_eq!(snapshots(&ringway, "applied"), 1.0, "they came at once");
    let seen = errors(&ringway);
    account.with(|own| {
        own.hosts.rotate_left(3);
        own.fault = Some((1, fault));
    });
    eventually("a later page fails", || {
        (errors(&ringway) > seen).then_some(())
    });
    stays(&ringway, &texts(&all));
    account.with(|own| {
        own.fault = None;
        own.hosts.truncate(3);
    });
    becomes(&ringway, &["127.0.0.2", "127.0.0.5", "127.0.0.6"]);
    ringway.stop();
}

const STUB_QUERY: &str = "query: {port_label: web-port}";

#[test]
fn all_pages_of_instances_are_members_or_none() {
    pages_of("ec2", STUB_QUERY, ec2_error(503, "RequestLimitExceeded"));
}

#[test]
fn all_pages_of_tasks_are_members_or_none() {
    pages_of(
        "ecs",
        ECS_QUERY,
        ecs_error("ThrottlingException", "Rate exceeded"),
    );
}

#[test]
fn answers_of_ec2_that_are_no_list_change_nothing() {
    let origin = everywhere();
    let hosts = hosts([2], origin.address().port());
    let (account, _service, ringway) = start("ec2", hosts, STUB_QUERY);
    becomes(&ringway, &["127.0.0.2"]);
    let faults = [
        text_of(200, "<html><body>maintenance</body></html>"),
        text_of(200, "<DescribeInstancesResponse/>"),
        text_of(200, "{}"),
    ];
    garbage(&ringway, &["127.0.0.2"], faults, |fault| {
        account.with(|own| own.fault = Some((0, fault)));
    });
    ringway.stop();
}

#[test]
fn an_answer_of_ec2_that_breaks_off_changes_nothing() {
    let origin = everywhere();
    let all = hosts([2, 3], origin.address().port());
    let other = ec2_page(&all[1..], "");
    let (account, _service, ringway) = start("ec2", all[..1].to_vec(), STUB_QUERY);
    becomes(&ringway, &["127.0.0.2"]);
    breaks_off(&ringway, &["127.0.0.2"], &other, |bytes| {
        account.with(|own| own.fault = bytes.map(|bytes| (0, bytes)));
    });
    ringway.stop();
}

#[test]
fn an_ec2_that_never_answers_changes_nothing() {
    let origin = everywhere();
    let all = hosts([2, 3], origin.address().port());
    let other = ec2_page(&all[1..], "");
    is_silent("ec2", all[..1].to_vec(), STUB_QUERY, &other);
}

#[test]
fn an_ecs_that_never_answers_changes_nothing() {
    let origin = everywhere();
    let all = hosts([2, 3], origin.address().port());
    let other = json_of(200, &json!({"taskArns": [all[1].arn()]}));
    is_silent("ecs", all[..1].to_vec(), ECS_QUERY, &other);
}

/// A service that falls silent and has host 2.
#[track_caller]
fn is_silent(service: &str, hosts: Vec<Host>, query: &str, other: &[u8]) {
    let (account, _service, ringway) = start(service, hosts, query);
    becomes(&ringway, &["127.0.0.2"]);
    silence(&ringway, &["127.0.0.2"], other, |bytes| {
        account.with(|own| own.fault = bytes.map(|bytes| (0, bytes)));
    });
    ringway.stop();
}

#[test]
fn an_ecs_that_is_down_changes_nothing() {
    let origin = everywhere();
    let all = hosts([2, 3], origin.address().port());
    let account = account(all.clone());
    let port = Port::claim();
    let listen = || Origin::start_at(port.address(), serve(&account, "ecs"));
    let (service, mut again) = (listen(), None);
    let ringway = ringway(port.address(), "ecs", ECS_QUERY);
    let members = ["127.0.0.2", "127.0.0.3"];
    becomes(&ringway, &members);
    let down = || {
        drop(service);
        eventually("its port is closed", || {
            TcpStream::connect(port.address()).is_err().then_some(())
        });
    };
    outage(&ringway, &members, down, || again = Some(listen()));
    account.with(|own| own.hosts.truncate(1));
    becomes(&ringway, &["127.0.0.2"]);
    drop(again);
    ringway.stop();
}

#[test]
fn tags_choose_tasks() {
    let origin = everywhere();
    let port = origin.address().port();
    let tagged = |octet, tags| Host {
        tags,
        ..host(octet, port)
    };
    let all = vec![
        tagged(2, &["tier", "owner", "more"]),
        tagged(3, &["tier"]),
        tagged(4, &["owner", "tier"]),
        tagged(5, &[]),
        tagged(6, &["Tier", "Owner"]),
    ];
    let query = "query: {cluster: prod, tags: [tier, owner], port_label: web-port}";
    let (account, _service, ringway) = start("ecs", all, query);
    becomes(&ringway, &["127.0.0.2", "127.0.0.4"]);
    account.with(|own| {
        own.hosts[1].tags = &["tier", "owner"];
        own.hosts[2].tags = &["owner"];
    });
    becomes(&ringway, &["127.0.0.2", "127.0.0.3"]);
    assert_eq!(excluded(&ringway), 0.0, "who is not chosen is not left out");
    assert_eq!(errors(&ringway), 0.0);
    ringway.stop();
}

#[test]
fn answers_of_ecs_that_are_no_tasks_change_nothing() {
    let origin = everywhere();
    let hosts = hosts([2], origin.address().port());
    let (account, _service, ringway) = start("ecs", hosts, ECS_QUERY);
    becomes(&ringway, &["127.0.0.2"]);
    let before = tables(&ringway);
    let others = || {
        [
            text_of(200, "<html><body>maintenance</body></html>"),
            text_of(200, "{}"),
            json_of(403, &json!({"taskArns": [], "tasks": []})),
        ]
    };
    garbage(&ringway, &["127.0.0.2"], others(), |fault| {
        account.with(|own| own.fault = Some((0, fault)));
    });
    account.with(|own| own.fault = None);
    is_read(&ringway);
    garbage(&ringway, &["127.0.0.2"], others(), |fault| {
        account.with(|own| own.undescribed = Some(fault));
    });
    account.with(|own| own.undescribed = None);
    is_read(&ringway);
    stays(&ringway, &["127.0.0.2"]);
    assert_eq!(tables(&ringway), before);
    ringway.stop();
}

#[test]
fn no_tasks_empty_the_pool() {
    let origin = everywhere();
    let hosts = hosts([2], origin.address().port());
    let (account, _service, ringway) = start("ecs", hosts.clone(), ECS_QUERY);
    becomes(&ringway, &["127.0.0.2"]);
    account.with(|own| own.hosts.clear());
    becomes(&ringway, &["502"]);
    account.with(|own| own.hosts = hosts);
    becomes(&ringway, &["127.0.0.2"]);
    assert_eq!(errors(&ringway), 0.0);
    ringway.stop();
}

/// A service that has nothing, where there must be a member.
#[track_caller]
fn nothing_is_rejected(service: &str, query: &str) {
    let origin = everywhere();
    let hosts = hosts([2], origin.address().port());
    let query = format!("min_members: 1, {query}");
    let (account, _service, ringway) = start(service, hosts, &query);
    becomes(&ringway, &["127.0.0.2"]);
    is_rejected(&ringway, || account.with(|own| own.hosts.clear()));
    stays(&ringway, &["127.0.0.2"]);
    assert_eq!(errors(&ringway), 0.0);
    ringway.stop();
}

#[test]
fn no_instances_are_rejected_below_min_members() {
    nothing_is_rejected("ec2", STUB_QUERY);
}

#[test]
fn no_tasks_are_rejected_below_min_members() {
    nothing_is_rejected("ecs", ECS_QUERY);
}

/// States of a service: who is a member, and how well it is.
#[track_caller]
fn states_of(service: &str, query: &str, states: &[(&'static str, &'static str, &str)]) {
    let origin = everywhere();
    let port = origin.address().port();
    let all = (2..).zip(states);
    let hosts = all.map(|(octet, (state, health, _))| Host {
        state,
        health,
        ..host(octet, port)
    });
    let hosts: Vec<_> = hosts.collect();
    let query = format!("health_mode: provider, {query}");
    let (account, _service, ringway) = start(service, hosts, &query);
    for (octet, (_, _, list)) in (2..).zip(states) {
        let name = format!("lb-web-{octet}");
        match *list {
            "" => assert_eq!(row(&ringway, &name), None),
            list => drop(is_listed(&ringway, &name, list)),
        }
    }
    assert_eq!(excluded(&ringway), 0.0, "who leaves is not left out");
    // The first begins to leave: it is gone from the pool while it is still listed.
    let leaving = states.iter().find(|(_, _, list)| list.is_empty());
    let leaving = leaving.expect("one leaves").0;
    account.with(|own| own.hosts[0].state = leaving);
    eventually("it has left", || {
        row(&ringway, "lb-web-2").is_none().then_some(())
    });
    ringway.stop();
}

#[test]
fn instances_are_as_well_as_their_state_says() {
    states_of(
        "ec2",
        STUB_QUERY,
        &[
            ("running", "", "available"),
            ("pending", "", "unavailable"),
            // From an API of times to come.
            ("hibernating", "", "unavailable"),
            ("shutting-down", "", ""),
            ("stopping", "", ""),
            ("stopped", "", ""),
            ("terminated", "", ""),
        ],
    );
}

#[test]
fn tasks_are_as_well_as_their_state_and_health_say() {
    states_of(
        "ecs",
        ECS_QUERY,
        &[
            ("RUNNING", "HEALTHY", "available"),
            ("RUNNING", "UNKNOWN", "available"),
            ("RUNNING", "UNHEALTHY", "unavailable"),
            ("RUNNING", "WAVERING", "unavailable"),
            ("ACTIVATING", "UNKNOWN", "unavailable"),
            ("HIBERNATING", "HEALTHY", "unavailable"),
            ("DEACTIVATING", "HEALTHY", ""),
            ("STOPPING", "HEALTHY", ""),
            ("DEPROVISIONING", "UNKNOWN", ""),
            ("STOPPED", "UNKNOWN", ""),
        ],
    );
}

#[test]
fn many_tasks_are_described_a_hundred_at_a_time() {
    let origin = everywhere();
    let port = origin.address().port();
    let mut all = hosts(2..=132, port);
    all[7].has_interface = false;
    all[8].service = "other";
    let query = "query: {cluster: prod, service: web, port_label: web-port}";
    let (account, _service, ringway) = start("ecs", all, query);
    account.with(|own| own.missing = vec![own.hosts[5].arn()]);
    let members = || ringway.metric("trickster_alb_discovery_members", &[]);
    eventually("all but three are members", || {
        (members() == Some(128.0) && excluded(&ringway) == 2.0).then_some(())
    });
    assert_eq!(account.with(|own| own.batch), 100);
    is_logged(&ringway, "only awsvpc mode is supported");
    is_logged(&ringway, "ECS does not describe it: MISSING");
    is_read(&ringway);
    let said = lines(&ringway, LEFT_OUT);
    is_read(&ringway);
    assert_eq!(lines(&ringway, LEFT_OUT), said, "the same are left out");
    assert_eq!(errors(&ringway), 0.0);
    ringway.stop();
}

#[test]
fn a_service_that_throttles_changes_nothing() {
    let origin = everywhere();
    let hosts = hosts([2], origin.address().port());
    let (account, _service, ringway) = start("ecs", hosts, ECS_QUERY);
    becomes(&ringway, &["127.0.0.2"]);
    let throttled = ecs_error("ThrottlingException", "Rate exceeded");
    outage(
        &ringway,
        &["127.0.0.2"],
        || account.with(|own| own.fault = Some((0, throttled))),
        || account.with(|own| own.fault = None),
    );
    assert_eq!(lines(&ringway, "ThrottlingException: Rate exceeded"), 1);
    ringway.stop();
}
