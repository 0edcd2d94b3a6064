//! Provider `docker`: the table of containers, and the engine behind a socket and a URL.
//!
//! The fixtures have the shape of the engine's API at version 1.41, fields that nobody reads included.

use std::time::Duration;

use ringway_shards::plan::Scheme;
use serde_json::{Value, json};

use super::*;
use crate::discovery::settings::{AddressType, Port};
use crate::discovery::stub::{Fault, Folder, Reply, Stub, http};
use crate::discovery::{Exclusion, Member, Readiness};

/// A container as the engine lists it, with these keys changed.
fn container(changes: Value) -> Value {
    let mut container = json!({
        "Id": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "Names": ["/prom-a"],
        "Image": "prom/prometheus:v2",
        "ImageID": "sha256:0000000000000000000000000000000000000000000000000000000000000000",
        "Command": "/bin/prometheus --config.file=x",
        "Created": 1_767_225_600,
        "Ports": [{"PrivatePort": 9090, "Type": "tcp"}],
        "Labels": {"com.example.shard": "s0", "empty": ""},
        "State": "running",
        "Status": "Up 3 minutes (healthy)",
        "HostConfig": {"NetworkMode": "default"},
        "NetworkSettings": {"Networks": {"bridge": network("192.0.2.10", "")}},
        "Mounts": []
    });
    for (key, value) in changes.as_object().unwrap() {
        container[key] = value.clone();
    }
    container
}

fn network(ipv4: &str, ipv6: &str) -> Value {
    json!({
        "IPAMConfig": null, "Links": null, "Aliases": null, "NetworkID": "00", "EndpointID": "00",
        "Gateway": "192.0.2.1", "IPAddress": ipv4, "IPPrefixLen": 24, "IPv6Gateway": "",
        "GlobalIPv6Address": ipv6, "GlobalIPv6PrefixLen": 0, "MacAddress": "02:42:c0:00:02:0a",
        "DriverOpts": null
    })
}

fn read_at(place: &Place, query: &Query, changes: Value) -> Listing {
    let body = json!([container(changes)]).to_string();
    containers::parse(body.as_bytes(), query, place).unwrap()
}

/// The one member's address, or why there is none.
fn address_at(place: &Place, query: &Query, changes: Value) -> Result<String, String> {
    let mut listing = read_at(place, query, changes);
    match (listing.members.pop(), listing.excluded.pop()) {
        (Some(member), None) => Ok(member.address()),
        (None, Some(excluded)) => Err(excluded.reason),
        other => panic!("{other:?}"),
    }
}

fn address(query: &Query, changes: Value) -> Result<String, String> {
    address_at(&Place::Here, query, changes)
}

fn by(address_type: AddressType) -> Query {
    Query {
        address_type,
        ..Query::default()
    }
}

fn at_port(address_type: AddressType, number: u16) -> Query {
    Query {
        port: Some(Port::Number(number)),
        ..by(address_type)
    }
}

fn at_label(address_type: AddressType, key: &str) -> Query {
    Query {
        port_label: Some(key.into()),
        ..at_port(address_type, 7)
    }
}

fn tcp(private: u16) -> Value {
    json!({"PrivatePort": private, "Type": "tcp"})
}

fn udp(private: u16) -> Value {
    json!({"PrivatePort": private, "Type": "udp"})
}

fn bound(ip: &str, public: u16, private: u16) -> Value {
    json!({"IP": ip, "PrivatePort": private, "PublicPort": public, "Type": "tcp"})
}

fn said(result: Result<String, String>, part: &str) {
    let reason = result.expect_err(part);
    assert!(reason.contains(part), "{reason} has not {part}");
}

#[test]
fn a_container_is_a_member() {
    let query = Query {
        scheme: Some(Scheme::Https),
        replica_group_label: Some("com.example.shard".into()),
        ..Query::default()
    };
    let listing = read_at(&Place::Here, &query, json!({}));
    let mut member = Member::at(Scheme::Https, "192.0.2.10", 9090);
    member.name = "prom-a".into();
    member.ready = Readiness::Ready;
    member.replica_group = "s0".into();
    for (name, value) in [
        ("container_id", "0123456789ab"),
        ("container_name", "prom-a"),
        ("image", "prom/prometheus:v2"),
        ("state", "running"),
        ("network", "bridge"),
        ("private_ip", "192.0.2.10"),
        ("label_com.example.shard", "s0"),
    ] {
        member.label(name, value);
    }
    assert_eq!(listing.members, [member]);
    assert_eq!(listing.excluded, []);
}

#[test]
fn only_what_runs_is_there() {
    let states = [
        "created",
        "restarting",
        "paused",
        "removing",
        "exited",
        "dead",
        "stopping",
        "frozen",
        "",
    ];
    for state in states {
        // It would be excluded too, were it looked at.
        let changes = json!({"State": state, "Ports": []});
        assert_eq!(
            read_at(&Place::Here, &Query::default(), changes),
            Listing::default()
        );
    }
}

#[test]
fn readiness_is_what_the_status_says() {
    for (status, ready) in [
        ("Up 2 hours (healthy)", Readiness::Ready),
        ("Up 2 hours (unhealthy)", Readiness::NotReady),
        ("Up 1 second (health: starting)", Readiness::NotReady),
        ("Up 1 second (health: dreaming)", Readiness::NotReady),
        ("Up 2 hours", Readiness::Unknown),
        ("Up 2 hours (rested)", Readiness::Unknown),
        ("", Readiness::Unknown),
    ] {
        let listing = read_at(&Place::Here, &Query::default(), json!({"Status": status}));
        assert_eq!(listing.members[0].ready, ready, "{status}");
        // Text that changes by itself would make every reading a change.
        let shown = &listing.members[0].labels;
        assert!(
            !shown.values().any(|value| value.contains("Up")),
            "{shown:?}"
        );
    }
}

#[test]
fn names_are_the_containers_own() {
    for (names, name) in [
        (json!(["/a", "/b"]), "a"),
        (json!(["/web/db", "/db"]), "db"),
        (json!(["/web/db"]), "web/db"),
        (json!(["plain"]), "plain"),
        (json!(["/"]), "0123456789ab"),
        (json!([]), "0123456789ab"),
        (json!(null), "0123456789ab"),
    ] {
        let listing = read_at(&Place::Here, &Query::default(), json!({"Names": names}));
        assert_eq!(&*listing.members[0].name, name);
    }
    let listing = read_at(
        &Place::Here,
        &Query::default(),
        json!({"Id": "ab", "Names": null}),
    );
    assert_eq!(&*listing.members[0].name, "ab");
    assert_eq!(&*listing.members[0].labels["container_id"], "ab");
}

#[test]
fn absent_and_null_are_nothing() {
    let query = at_port(AddressType::Private, 80);
    let mut bare = container(json!({"Names": null, "Labels": null, "Ports": null, "Status": null}));
    let keys = bare.as_object_mut().unwrap();
    keys.remove("Image");
    let body = json!([bare]).to_string();
    let listing = containers::parse(body.as_bytes(), &query, &Place::Here).unwrap();
    assert_eq!(listing.members[0].address(), "192.0.2.10:80");
    for settings in [
        json!(null),
        json!({}),
        json!({"Networks": null}),
        json!({"Networks": {}}),
    ] {
        said(
            address(&query, json!({"NetworkSettings": settings})),
            "attached to no network",
        );
    }
    let settings = json!({"Networks": {"bridge": null}});
    said(
        address(&query, json!({"NetworkSettings": settings})),
        "no address in network bridge",
    );
}

#[test]
fn the_port_is_the_labels_else_the_querys_else_the_only_one() {
    let private = AddressType::Private;
    let labels = json!({"port": "8080", "bad": "http", "zero": "0", "big": "65536", "none": ""});
    let changes = json!({"Labels": labels, "Ports": [tcp(9090), tcp(9091)]});
    assert_eq!(
        address(&at_label(private, "port"), changes.clone()).unwrap(),
        "192.0.2.10:8080"
    );
    assert_eq!(
        address(&at_label(private, "absent"), changes.clone()).unwrap(),
        "192.0.2.10:7"
    );
    for key in ["bad", "zero", "big", "none"] {
        said(
            address(&at_label(private, key), changes.clone()),
            &format!("label {key} is"),
        );
    }
    assert_eq!(
        address(&at_port(private, 9091), changes.clone()).unwrap(),
        "192.0.2.10:9091"
    );
    said(
        address(&by(private), changes),
        "exposes the TCP ports 9090, 9091: set query.port",
    );
    for (ports, port) in [
        (json!([udp(53), tcp(9090), udp(9091)]), Ok(9090)),
        (
            json!([bound("0.0.0.0", 80, 9090), bound("::", 80, 9090), tcp(9090)]),
            Ok(9090),
        ),
        (json!([udp(53)]), Err("exposes no TCP port")),
        (
            json!([{"PrivatePort": 1, "Type": "sctp"}]),
            Err("exposes no TCP port"),
        ),
        (json!([]), Err("exposes no TCP port")),
        (json!([tcp(3), tcp(2), tcp(10)]), Err("2, 3, 10")),
    ] {
        let found = address(&by(private), json!({"Ports": ports}));
        match port {
            Ok(port) => assert_eq!(found, Ok(format!("192.0.2.10:{port}"))),
            Err(part) => said(found, part),
        }
    }
}

#[test]
fn the_network_is_the_only_one_or_the_named() {
    let two = json!({"NetworkSettings": {"Networks": {
        "front": network("192.0.2.20", "2001:db8::20"), "back": network("198.51.100.20", "")
    }}});
    let within = |name: &str, address_type| Query {
        network: Some(name.into()),
        ..by(address_type)
    };
    let (private, ipv6) = (AddressType::Private, AddressType::Ipv6);
    assert_eq!(
        address(&within("back", private), two.clone()).unwrap(),
        "198.51.100.20:9090"
    );
    assert_eq!(
        address(&within("front", private), two.clone()).unwrap(),
        "192.0.2.20:9090"
    );
    assert_eq!(
        address(&within("front", ipv6), two.clone()).unwrap(),
        "[2001:db8::20]:9090"
    );
    said(
        address(&within("back", ipv6), two.clone()),
        "no IPv6 address in network back",
    );
    said(
        address(&by(private), two.clone()),
        "attached to back, front: set query.network",
    );
    said(
        address(&within("side", private), two.clone()),
        "not attached to network side, but to",
    );
    said(
        address(&within("side", private), json!({})),
        "not attached to network side",
    );
    let member = &read_at(&Place::Here, &within("back", private), two).members[0];
    assert_eq!(&*member.labels["network"], "back");
    assert_eq!(&*member.labels["private_ip"], "198.51.100.20");
}

#[test]
fn a_network_without_an_address_excludes() {
    for (name, ip) in [
        ("host", ""),
        ("none", ""),
        ("odd", "0.0.0.0"),
        ("odd", "garbage"),
    ] {
        let settings = json!({"Networks": {name: network(ip, "")}});
        let changes = json!({"NetworkSettings": settings, "Names": ["/h"]});
        let listing = read_at(&Place::Here, &at_port(AddressType::Private, 80), changes);
        let reason = format!("it has no address in network {name}");
        let name = "h".into();
        assert_eq!(listing.members, []);
        assert_eq!(listing.excluded, [Exclusion { name, reason }]);
    }
}

#[test]
fn a_public_address_and_port_are_of_one_binding() {
    let public = AddressType::Public;
    let loopback = "127.0.0.1";
    let mixed = json!([
        bound("0.0.0.0", 8081, 81),
        bound("127.0.0.1", 8080, 80),
        bound("192.0.2.9", 443, 8443)
    ]);
    let both = json!([bound("::", 8080, 80), bound("0.0.0.0", 8080, 80)]);
    let six = json!([bound("2001:db8::9", 8080, 80)]);
    for (query, ports, found) in [
        (
            at_port(public, 8080),
            mixed.clone(),
            "127.0.0.1:8080".to_owned(),
        ),
        (
            at_port(public, 443),
            mixed.clone(),
            "192.0.2.9:443".to_owned(),
        ),
        // By the container's port where none is published under the number.
        (
            at_port(public, 8443),
            mixed.clone(),
            "192.0.2.9:443".to_owned(),
        ),
        (
            at_port(public, 81),
            mixed.clone(),
            format!("{loopback}:8081"),
        ),
        (
            at_port(public, 9000),
            mixed.clone(),
            format!("{loopback}:9000"),
        ),
        (by(public), both, format!("{loopback}:8080")),
        (by(public), six, "[2001:db8::9]:8080".to_owned()),
        (
            by(public),
            json!([bound("", 8080, 80), tcp(9090), udp(1)]),
            format!("{loopback}:8080"),
        ),
        (
            at_port(public, 53),
            json!([udp(53), bound("192.0.2.9", 1, 2)]),
            format!("{loopback}:53"),
        ),
        (
            at_label(public, "port"),
            mixed.clone(),
            "192.0.2.9:443".to_owned(),
        ),
        // A published number goes before a container's.
        (
            at_port(public, 80),
            json!([bound("192.0.2.8", 8080, 80), bound("192.0.2.9", 80, 8080)]),
            "192.0.2.9:80".to_owned(),
        ),
    ] {
        let mut ports = ports.as_array().unwrap().clone();
        // The engine lists ports in any order.
        for _ in 0..2 {
            ports.reverse();
            let changes = json!({"Ports": ports, "Labels": {"port": "443"}});
            assert_eq!(address(&query, changes), Ok(found.clone()), "{query:?}");
        }
    }
}

#[test]
fn without_a_port_one_is_published() {
    let public = AddressType::Public;
    let mixed = json!([
        bound("192.0.2.9", 443, 8443),
        bound("", 8081, 81),
        bound("::", 8080, 80)
    ]);
    said(
        address(&by(public), json!({"Ports": mixed})),
        "publishes the TCP ports 443, 8080, 8081",
    );
    said(address(&by(public), json!({})), "publishes no TCP port");
    let unpublished = json!([{"IP": "0.0.0.0", "PrivatePort": 1, "PublicPort": 0, "Type": "tcp"}]);
    said(
        address(&by(public), json!({"Ports": unpublished})),
        "publishes no TCP port",
    );
}

#[test]
fn a_port_that_nobody_publishes_is_at_the_engines_machine_unless_there_is_no_network() {
    let query = at_port(AddressType::Public, 9000);
    let within = |name: &str| json!({"NetworkSettings": {"Networks": {name: network("", "")}}});
    assert_eq!(address(&query, within("host")).unwrap(), "127.0.0.1:9000");
    said(
        address(&query, within("none")),
        "no address in network none",
    );
}

#[test]
fn what_a_remote_engine_publishes_is_at_its_host() {
    let remote = Place::Host("docker.example.com".into());
    let six = Place::Host("2001:db8::2".into());
    let near = Place::Host("127.0.0.1".into());
    let query = by(AddressType::Public);
    let wildcard = json!({"Ports": [bound("0.0.0.0", 8080, 80)]});
    let loopback = json!({"Ports": [bound("127.0.0.1", 8080, 80)]});
    let own = json!({"Ports": [bound("192.0.2.9", 8080, 80)]});
    for (place, changes, found) in [
        (&remote, &wildcard, "docker.example.com:8080"),
        (&six, &wildcard, "[2001:db8::2]:8080"),
        (&near, &wildcard, "127.0.0.1:8080"),
        (&near, &loopback, "127.0.0.1:8080"),
        (&remote, &own, "192.0.2.9:8080"),
    ] {
        assert_eq!(
            address_at(place, &query, changes.clone()).as_deref(),
            Ok(found)
        );
    }
    said(
        address_at(&remote, &query, loopback),
        "only that machine reaches it",
    );
    let unpublished = address_at(&remote, &at_port(AddressType::Public, 9000), json!({}));
    assert_eq!(unpublished.unwrap(), "docker.example.com:9000");
}

#[test]
fn one_bad_container_leaves_the_others() {
    let bad = container(json!({"Names": ["/bad"], "Ports": []}));
    let body = json!([bad, container(json!({}))]).to_string();
    let listing = containers::parse(body.as_bytes(), &Query::default(), &Place::Here).unwrap();
    assert_eq!(listing.members.len(), 1);
    assert_eq!(&*listing.excluded[0].name, "bad");
    let empty = containers::parse(b"[]", &Query::default(), &Place::Here).unwrap();
    assert_eq!(empty, Listing::default());
}

#[test]
fn what_is_no_list_is_a_failure() {
    for body in [
        "",
        "{}",
        "null",
        "[",
        "[1]",
        "[null]",
        "[{}]",
        "<html>",
        r#"[{"Id":1}]"#,
    ] {
        let refused = containers::parse(body.as_bytes(), &Query::default(), &Place::Here);
        assert!(
            refused.unwrap_err().contains("not a list of them"),
            "{body}"
        );
    }
}

// === the engine ===

fn settings(engine: DockerEngine) -> Docker {
    Docker {
        http: http(""),
        engine,
        api_version: "v1.41".into(),
    }
}

fn one() -> Reply {
    Reply::ok(json!([container(json!({}))]).to_string())
}

#[tokio::test]
async fn the_engine_is_asked_over_its_socket() {
    let folder = Folder::new();
    let socket = folder.join("docker.sock");
    let mut stub = Stub::on_socket(&socket, |_| one());
    let filters = [(
        "label".into(),
        vec!["com.example.discover=yes".into(), "a".into()],
    )];
    let query = Query {
        filters: filters.into(),
        ..Query::default()
    };
    let mut settings = settings(DockerEngine::Unix(socket.clone()));
    settings.http.interval = Duration::from_secs(5);
    let mut source = connect(&settings).unwrap().source(Arc::new(query));
    let reading = source.next().await.unwrap();
    assert_eq!(reading.members.unwrap()[0].address(), "192.0.2.10:9090");
    assert_eq!(reading.again, Again::After(Duration::from_secs(5)));
    let request = stub.next_seen().await;
    assert_eq!(
        (request.method.as_str(), &*request.path),
        ("GET", "/v1.41/containers/json")
    );
    assert_eq!(request.header("host"), Some("localhost"));
    let pairs = request.pairs();
    let document = r#"{"label":["com.example.discover=yes","a"],"status":["running"]}"#;
    assert_eq!(pairs, [("filters".to_owned(), document.to_owned())]);
    stub.answer(|_| Reply::ok("[]\n"));
    assert_eq!(source.next().await.unwrap().members.unwrap(), []);
    drop(stub);
    source.next().await.unwrap_err();
    // The engine comes back under the same path.
    std::fs::remove_file(&socket).unwrap();
    let _stub = Stub::on_socket(&socket, |_| one());
    source.next().await.unwrap();
}

#[tokio::test]
async fn the_engine_is_asked_at_its_url() {
    let mut stub = Stub::start(|_| one()).await;
    let query = Query {
        filters: [("status".into(), vec!["exited".into()])].into(),
        ..Query::default()
    };
    let mut settings = settings(DockerEngine::Url(stub.endpoint().into()));
    settings.api_version = "v1.44".into();
    let mut source = connect(&settings).unwrap().source(Arc::new(query));
    source.next().await.unwrap();
    let request = stub.next_seen().await;
    assert_eq!(request.path, "/v1.44/containers/json");
    assert_eq!(request.pair("filters").unwrap(), r#"{"status":["exited"]}"#);
    assert!(stub.seen().is_empty());
    assert!(connect(&self::settings(DockerEngine::Url("http://".into()))).is_err());
}

#[test]
fn the_host_of_the_url_is_where_ports_are_published() {
    for (url, host) in [
        ("http://docker.example.com:2375", "docker.example.com"),
        ("https://[2001:db8::2]:2376", "2001:db8::2"),
    ] {
        let connection = connect(&settings(DockerEngine::Url(url.into()))).unwrap();
        assert_eq!(*connection.place, Place::Host(host.into()));
    }
    let connection = connect(&settings(DockerEngine::Unix("/run/x.sock".into()))).unwrap();
    assert_eq!(*connection.place, Place::Here);
}

#[tokio::test]
async fn a_refusal_is_shown_with_its_remedy() {
    let old = r#"{"message":"client version 1.41 is too old. Minimum supported API version is 1.44, please upgrade your client to a newer version"}"#;
    let filter = r#"{"message":"Invalid filter 'nope'"}"#;
    for (status, body, parts) in [
        (
            400,
            old,
            [
                "Minimum supported API version is 1.44",
                "; set docker.api_version",
            ],
        ),
        (
            400,
            filter,
            [
                "Invalid filter 'nope'",
                "query.filters and docker.api_version",
            ],
        ),
        (400, "<html>bad</html>", ["bad", "docker.api_version"]),
        (500, r#"{"message":"no space"}"#, ["500", "no space"]),
        (403, "", ["403", "containers"]),
        (
            404,
            r#"{"message":"page not found"}"#,
            ["404", "page not found"],
        ),
        (201, "[]", ["201", "[]"]),
    ] {
        let stub = Stub::start(move |_| Reply::new(status, body)).await;
        let connection = connect(&settings(DockerEngine::Url(stub.endpoint().into()))).unwrap();
        let mut source = connection.source(Arc::new(Query::default()));
        let failure = source.next().await.unwrap_err();
        for part in parts {
            assert!(failure.reason.contains(part), "{failure} has not {part}");
        }
        assert_eq!(
            failure.reason.contains("api_version"),
            status == 400,
            "{failure}"
        );
    }
}

#[tokio::test]
async fn what_goes_wrong_on_the_way_is_a_failure_and_the_next_reading_works() {
    let stub = Stub::start(|_| one()).await;
    let mut settings = settings(DockerEngine::Url(stub.endpoint().into()));
    settings.http.timeout = Duration::from_millis(500);
    let mut source = connect(&settings)
        .unwrap()
        .source(Arc::new(Query::default()));
    for fault in [
        Fault::Cut,
        Fault::HalfBody,
        Fault::Delay(Duration::from_secs(60)),
    ] {
        stub.fault(Some(fault));
        source.next().await.unwrap_err();
        stub.fault(None);
        assert_eq!(
            source.next().await.unwrap().members.unwrap().len(),
            1,
            "{fault:?}"
        );
    }
    stub.answer(|_| Reply::ok("not JSON"));
    let failure = source.next().await.unwrap_err();
    assert!(failure.reason.contains("not a list of them"), "{failure}");
}

#[tokio::test]
async fn an_endless_answer_is_a_failure() {
    let endless = Fault::Oversize(BODY_BYTES_MAX + 1);
    let stub = Stub::start(move |_| one().fault(endless)).await;
    let connection = connect(&settings(DockerEngine::Url(stub.endpoint().into()))).unwrap();
    let mut source = connection.source(Arc::new(Query::default()));
    let failure = source.next().await.unwrap_err();
    assert!(failure.reason.contains("longer than"), "{failure}");
}
