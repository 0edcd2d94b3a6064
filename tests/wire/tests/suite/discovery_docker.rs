//! Discovery by `docker`: an engine behind a socket, with answers in the shape of a real one's at API version 1.41.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;

use ringway_wire::{Origin, Ringway, Setup, eventually};
use serde_json::{Value, json};

use crate::discovery_stub::{Asked, Board, everywhere, is_last, json_of, text_of};
use crate::discovery_support::{
    LEFT_OUT, becomes, breaks_off, errors, excluded, garbage, is_listed, is_logged,
    is_logged_times, is_read, is_rejected, lines, outage, row, sections, stays, tables,
};

const DISCOVERER: &str =
    "provider: docker, http: {endpoint: 'unix://docker.sock', interval: 1s, timeout: 2s}";

/// What the engine has and how it answers.
#[derive(Default)]
struct Engine {
    containers: Vec<Value>,
    /// What it sends in place of a list.
    fault: Option<Vec<u8>>,
    /// Targets that were asked for.
    asked: Vec<String>,
}

/// The engine at its socket.
struct Docker {
    engine: Board<Engine>,
    socket: PathBuf,
}

impl Docker {
    fn start(folder: &Path, containers: Vec<Value>) -> Docker {
        let engine = Engine {
            containers,
            ..Engine::default()
        };
        let docker = Docker {
            engine: Board::new(engine),
            socket: folder.join("docker.sock"),
        };
        docker.listen();
        docker
    }

    /// Listens, again after [`stop`](Self::stop).
    fn listen(&self) {
        let listener = UnixListener::bind(&self.socket).expect("the folder is ours");
        let engine = self.engine.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { break };
                let engine = engine.clone();
                // A connection that breaks is the other side's affair.
                thread::spawn(move || drop(serve(stream, &engine)));
            }
        });
    }

    /// Nobody finds it any more; who is connected is cut at the next question.
    fn stop(&self) {
        std::fs::remove_file(&self.socket).expect("it is ours");
        self.engine.with(|engine| engine.fault = Some(Vec::new()));
    }

    fn resume(&self) {
        self.engine.with(|engine| engine.fault = None);
        self.listen();
    }

    fn has(&self, containers: Vec<Value>) {
        self.engine.with(|engine| engine.containers = containers);
    }
}

/// Answers requests one after the other, until an answer that is empty or the last of its connection.
fn serve(mut stream: UnixStream, engine: &Board<Engine>) -> std::io::Result<()> {
    let mut heard = Vec::new();
    loop {
        while !heard.windows(4).any(|four| four == b"\r\n\r\n") {
            let mut chunk = [0; 4096];
            let count = stream.read(&mut chunk)?;
            if count == 0 {
                return Ok(());
            }
            heard.extend_from_slice(&chunk[..count]);
        }
        let head = String::from_utf8_lossy(&std::mem::take(&mut heard)).into_owned();
        let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let answer = engine.with(|engine| engine.answer(target));
        stream.write_all(&answer)?;
        if answer.is_empty() || is_last(&answer) {
            return Ok(());
        }
    }
}

impl Engine {
    fn answer(&mut self, target: String) -> Vec<u8> {
        let asked = Asked::of(&target);
        self.asked.push(target);
        if let Some(fault) = &self.fault {
            return fault.clone();
        }
        let refused = |message: &str| json_of(400, &json!({"message": message}));
        match &*asked.path {
            "/v1.41/containers/json" => {}
            path if path.ends_with("/containers/json") => {
                let said = "client version 1.99 is too new. Maximum supported API version is 1.41";
                return refused(said);
            }
            _ => return json_of(404, &json!({"message": "page not found"})),
        }
        let filters = asked.pair("filters").unwrap_or("{}");
        let filters: Value = serde_json::from_str(filters).unwrap_or_default();
        let Some(filters) = filters.as_object() else {
            return refused("invalid filter");
        };
        let known = ["status", "label", "name"];
        if let Some(other) = filters.keys().find(|key| !known.contains(&key.as_str())) {
            return refused(&format!("Invalid filter '{other}'"));
        }
        let fits = |container: &&Value| {
            let wanted = |key: &str| filters.get(key).and_then(Value::as_array);
            let state = wanted("status").is_none_or(|all| all.contains(&container["State"]));
            let label = wanted("label").is_none_or(|all| {
                let mut all = all.iter().filter_map(Value::as_str);
                all.all(|text| {
                    let (key, value) = text.split_once('=').unwrap_or((text, ""));
                    container["Labels"][key] == value
                })
            });
            state && label
        };
        let found: Vec<_> = self.containers.iter().filter(fits).collect();
        json_of(200, &json!(found))
    }
}

/// A container with address 127.0.0.`octet` in the default network and one port.
fn container(octet: u8, port: u16) -> Value {
    json!({
        "Id": format!("{octet:064x}"),
        "Names": [format!("/web-{octet}")],
        "Image": "web:1",
        "ImageID": "sha256:0000000000000000000000000000000000000000000000000000000000000000",
        "Command": "/bin/web --config=x",
        "Created": 1_767_225_600 + u64::from(octet),
        "Ports": [
            {"PrivatePort": port, "Type": "tcp"},
            {"PrivatePort": 53, "Type": "udp"},
        ],
        "Labels": {"com.example.role": "web", "empty": ""},
        "State": "running",
        "Status": "Up 3 minutes",
        "HostConfig": {"NetworkMode": "default"},
        "NetworkSettings": {"Networks": {"bridge": network(&format!("127.0.0.{octet}"))}},
        "Mounts": [],
    })
}

fn network(address: &str) -> Value {
    json!({
        "IPAMConfig": null, "Links": null, "Aliases": null, "NetworkID": "00", "EndpointID": "00",
        "Gateway": "127.0.0.1", "IPAddress": address, "IPPrefixLen": 8, "IPv6Gateway": "",
        "GlobalIPv6Address": "", "GlobalIPv6PrefixLen": 0, "MacAddress": "02:42:7f:00:00:02", "DriverOpts": null,
    })
}

/// With these keys in place of its own.
fn with(mut container: Value, changes: Value) -> Value {
    let Value::Object(changes) = changes else {
        panic!("an object")
    };
    for (key, value) in changes {
        container[key] = value;
    }
    container
}

/// An engine with containers at an origin's port, and ringway with a pool of them.
fn start(origin: &Origin, octets: &[u8], discovery: &str) -> (Docker, Ringway) {
    let port = origin.address().port();
    let containers = octets.iter().map(|octet| container(*octet, port)).collect();
    start_with(containers, discovery)
}

fn start_with(containers: Vec<Value>, discovery: &str) -> (Docker, Ringway) {
    let setup = Setup::new("");
    let docker = Docker::start(setup.folder(), containers);
    // The socket's path is absolute, whatever folder a configuration is in.
    let socket = format!("unix://{}", docker.socket.display());
    let discoverer = DISCOVERER.replace("unix://docker.sock", &socket);
    let ringway = setup.section(&sections(&discoverer, discovery)).start();
    (docker, ringway)
}

#[test]
fn containers_are_members_as_they_come_change_and_go() {
    let origin = everywhere();
    let other = everywhere();
    let port = origin.address().port();
    let (docker, ringway) = start(
        &origin,
        &[2],
        "query: {filters: {label: ['com.example.role=web']}}",
    );
    becomes(&ringway, &["127.0.0.2"]);
    let stranger = with(container(9, port), json!({"Labels": {}}));
    docker.has(vec![container(3, port), container(2, port), stranger]);
    becomes(&ringway, &["127.0.0.2", "127.0.0.3"]);
    let before = tables(&ringway);
    // The text for people changes all the time.
    docker.has(vec![
        with(container(2, port), json!({"Status": "Up 4 minutes"})),
        container(3, port),
    ]);
    is_read(&ringway);
    assert_eq!(tables(&ringway), before, "nothing has changed");
    docker.has(vec![
        container(2, other.address().port()),
        container(3, port),
    ]);
    eventually("it moved to the other port", || {
        ringway.get("/");
        (!other.requests().is_empty()).then_some(())
    });
    docker.has(vec![container(3, port)]);
    becomes(&ringway, &["127.0.0.3"]);
    docker.has(Vec::new());
    becomes(&ringway, &["502"]);
    assert_eq!(errors(&ringway), 0.0);
    let asked = docker.engine.with(|engine| engine.asked.clone());
    for target in asked {
        let asked = Asked::of(&target);
        assert_eq!(asked.path, "/v1.41/containers/json");
        let filters = asked.pair("filters").expect("always");
        let filters: Value = serde_json::from_str(filters).expect("JSON");
        let wanted = json!({"label": ["com.example.role=web"], "status": ["running"]});
        assert_eq!(filters, wanted);
    }
    ringway.stop();
}

#[test]
fn an_engine_that_is_down_changes_nothing() {
    let origin = everywhere();
    let (docker, ringway) = start(&origin, &[2, 3], "query: {}");
    let members = ["127.0.0.2", "127.0.0.3"];
    becomes(&ringway, &members);
    outage(&ringway, &members, || docker.stop(), || docker.resume());
    docker.has(vec![container(4, origin.address().port())]);
    becomes(&ringway, &["127.0.0.4"]);
    ringway.stop();
}

#[test]
fn answers_that_are_no_list_of_containers_change_nothing() {
    let origin = everywhere();
    let (docker, ringway) = start(&origin, &[2], "query: {}");
    becomes(&ringway, &["127.0.0.2"]);
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n[";
    let faults = [
        text_of(200, "{}"),
        text_of(200, "null"),
        text_of(200, r#"[{"Id": 7}]"#),
        text_of(500, "[]"),
        text_of(204, ""),
        b"220 smtp\r\n\r\n".to_vec(),
    ];
    garbage(&ringway, &["127.0.0.2"], faults, |fault| {
        docker.engine.with(|engine| engine.fault = Some(fault));
    });
    // An engine that stops in the midst of its answer is given up.
    let seen = errors(&ringway);
    docker
        .engine
        .with(|engine| engine.fault = Some(half.into()));
    eventually("it is given up", || (errors(&ringway) > seen).then_some(()));
    stays(&ringway, &["127.0.0.2"]);
    docker.engine.with(|engine| engine.fault = None);
    docker.has(vec![container(3, origin.address().port())]);
    becomes(&ringway, &["127.0.0.3"]);
    ringway.stop();
}

#[test]
fn an_answer_that_breaks_off_changes_nothing() {
    let origin = everywhere();
    let (docker, ringway) = start(&origin, &[2], "query: {}");
    becomes(&ringway, &["127.0.0.2"]);
    let other = json!([container(3, origin.address().port())]);
    let other = json_of(200, &other);
    breaks_off(&ringway, &["127.0.0.2"], &other, |bytes| {
        docker.engine.with(|engine| engine.fault = bytes);
    });
    ringway.stop();
}

#[test]
fn an_engine_that_refuses_what_it_understood_changes_nothing() {
    let origin = everywhere();
    let port = origin.address().port();
    let (docker, ringway) = start(&origin, &[2], "query: {}");
    becomes(&ringway, &["127.0.0.2"]);
    // Another one took its place.
    let said = "client version 1.41 is too old. Minimum supported API version is 1.44";
    let others = json_of(500, &json!([container(3, port)]));
    for fault in [json_of(400, &json!({"message": said})), others] {
        outage(
            &ringway,
            &["127.0.0.2"],
            || docker.engine.with(|engine| engine.fault = Some(fault)),
            || docker.engine.with(|engine| engine.fault = None),
        );
    }
    assert_eq!(lines(&ringway, said), 1);
    assert_eq!(lines(&ringway, "set docker.api_version"), 1);
    ringway.stop();
}

#[test]
fn what_an_engine_refuses_is_told_with_its_words_and_the_remedy() {
    let origin = everywhere();
    let (docker, ringway) = start(&origin, &[2], "query: {filters: {nope: [x]}}");
    eventually("it is refused", || (errors(&ringway) > 0.0).then_some(()));
    stays(&ringway, &["502"]);
    is_logged(&ringway, "Invalid filter 'nope'");
    is_logged(&ringway, "check query.filters");
    let discoverer = format!(
        "provider: docker, docker: {{api_version: v1.99}}, http: {{endpoint: 'unix://{}', interval: 1s}}",
        docker.socket.display()
    );
    ringway.write_config(&sections(&discoverer, "query: {}"));
    crate::discovery_support::reload(&ringway);
    is_logged(&ringway, "client version 1.99 is too new");
    is_logged(&ringway, "set docker.api_version");
    ringway.stop();
}

#[test]
fn no_containers_are_rejected_below_min_members() {
    let origin = everywhere();
    let (docker, ringway) = start(&origin, &[2, 3], "min_members: 1, query: {}");
    becomes(&ringway, &["127.0.0.2", "127.0.0.3"]);
    is_rejected(&ringway, || docker.has(Vec::new()));
    stays(&ringway, &["127.0.0.2", "127.0.0.3"]);
    docker.has(vec![container(3, origin.address().port())]);
    becomes(&ringway, &["127.0.0.3"]);
    ringway.stop();
}

#[test]
fn containers_are_as_well_as_their_health_checks_say() {
    let origin = everywhere();
    let port = origin.address().port();
    let of = |octet: u8, state: &str, status: &str| {
        let changes = json!({"State": state, "Status": status});
        with(container(octet, port), changes)
    };
    let (docker, ringway) = start_with(
        vec![
            of(2, "running", "Up 3 minutes (healthy)"),
            of(3, "running", "Up 3 minutes (unhealthy)"),
            of(4, "running", "Up 3 seconds (health: starting)"),
            of(5, "running", "Up 3 minutes"),
            of(6, "paused", "Up 3 minutes (Paused)"),
            of(7, "hibernating", "Up 3 minutes (healthy)"),
            // From an engine of times to come.
            of(8, "running", "Up 3 minutes (health: wavering)"),
        ],
        "health_mode: provider, query: {filters: {status: [running, paused, hibernating]}}",
    );
    is_listed(&ringway, "lb-web-2", "available");
    for octet in [3, 4, 8] {
        is_listed(&ringway, &format!("lb-web-{octet}"), "unavailable");
    }
    is_listed(&ringway, "lb-web-5", "unchecked");
    for octet in [6, 7] {
        assert_eq!(row(&ringway, &format!("lb-web-{octet}")), None);
    }
    becomes(&ringway, &["127.0.0.2", "127.0.0.5"]);
    docker.has(vec![
        of(2, "exited", "Exited (0) 1 second ago"),
        of(3, "running", "Up 4 minutes (healthy)"),
        of(5, "paused", "Up 4 minutes (Paused)"),
    ]);
    becomes(&ringway, &["127.0.0.3"]);
    assert_eq!(excluded(&ringway), 0.0, "who leaves is not left out");
    ringway.stop();
}

#[test]
fn who_is_left_out_is_counted_and_named_once_for_each_change() {
    let origin = everywhere();
    let port = origin.address().port();
    let two_ports = json!({"Ports": [
        {"PrivatePort": port, "Type": "tcp"}, {"PrivatePort": 9, "Type": "tcp"},
    ]});
    let two_networks = json!({"NetworkSettings": {"Networks": {
        "bridge": network("127.0.0.4"), "back": network("127.0.0.5"),
    }}});
    let host = json!({
        "HostConfig": {"NetworkMode": "host"}, "Ports": [],
        "NetworkSettings": {"Networks": {"host": network("")}},
    });
    let all = |octets: &[u8]| {
        let mut all: Vec<_> = octets.iter().map(|octet| container(*octet, port)).collect();
        all.push(with(container(13, port), two_ports.clone()));
        all.push(with(container(14, port), two_networks.clone()));
        all
    };
    let (docker, ringway) = start_with(all(&[2]), "query: {}");
    becomes(&ringway, &["127.0.0.2"]);
    assert_eq!(excluded(&ringway), 2.0);
    is_logged(&ringway, "web-13: it exposes the TCP ports");
    is_logged(&ringway, "web-14: it is attached to back, bridge");
    let mut turned = all(&[2, 3]);
    turned.reverse();
    docker.has(turned);
    becomes(&ringway, &["127.0.0.2", "127.0.0.3"]);
    assert_eq!(lines(&ringway, LEFT_OUT), 1, "the same are left out");
    let mut more = all(&[2]);
    more.push(with(container(15, port), host));
    docker.has(more);
    becomes(&ringway, &["127.0.0.2"]);
    assert_eq!(excluded(&ringway), 3.0);
    is_logged_times(&ringway, 2, LEFT_OUT);
    docker.has(vec![container(2, port)]);
    eventually("nobody is left out", || {
        (excluded(&ringway) == 0.0).then_some(())
    });
    assert_eq!(lines(&ringway, LEFT_OUT), 2);
    ringway.stop();
}

#[test]
fn a_published_port_is_reached_where_it_is_published() {
    let origin = everywhere();
    let port = origin.address().port();
    let published = |octet: u8, ip: &str| {
        let ports = json!({"Ports": [
            {"IP": ip, "PrivatePort": 80, "PublicPort": port, "Type": "tcp"},
            {"PrivatePort": 443, "Type": "tcp"},
        ]});
        with(container(octet, 80), ports)
    };
    let all = vec![published(2, "0.0.0.0"), published(3, "127.0.0.7")];
    let (_docker, ringway) = start_with(all, "query: {address_type: public}");
    becomes(&ringway, &["127.0.0.1", "127.0.0.7"]);
    ringway.stop();
}
