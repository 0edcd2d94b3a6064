//! Discovery by `consul`: Consul itself where the set-up could get it, and always a registry of our own, so that each
//! shows that the other is believable.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use ringway_wire::{Client, Gate, Origin, Port, Ringway, Setup, eventually, ok};
use serde_json::{Value, json};

use crate::discovery_registry::Registry;
use crate::discovery_stub::text_of;
use crate::discovery_support::{
    all_named, becomes, breaks_off, errors, fails, garbage, is_listed, is_missing, is_read,
    is_rejected, named, outage, picks, sections, sections_of, silence, stays, tables,
};

/// One of both, with a service `web`.
enum Consul {
    Agent(Agent),
    Stub(Registry),
}

/// Consul in its development mode: nothing is kept over a restart.
struct Agent {
    program: PathBuf,
    folder: PathBuf,
    /// HTTP, gossip, and the servers among themselves.
    ports: [Port; 3],
    child: Option<Child>,
}

/// Runs a test against each.
#[track_caller]
fn each(test: impl Fn(&mut Consul)) {
    test(&mut Consul::Stub(stub()));
    match program() {
        Some(program) => test(&mut Consul::Agent(Agent::start(program))),
        None => is_missing(
            "there is no Consul here, so its stand-in alone was asked: tests/wire/get_consul.sh fetches it",
        ),
    }
}

/// Where `get_consul.sh` puts it, else on the path.
fn program() -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(home)?;
    let path = std::env::var("PATH").unwrap_or_default();
    let fetched = cache.join("ringway/consul-1.8.7/usr/bin/consul");
    let others = path
        .split(':')
        .map(|folder| Path::new(folder).join("consul"));
    std::iter::once(fetched)
        .chain(others)
        .find(|path| path.is_file())
}

// === the agent ===

impl Agent {
    fn start(program: PathBuf) -> Agent {
        let ports = [Port::claim(), Port::claim(), Port::claim()];
        let folder = std::env::temp_dir().join(format!("ringway-consul-{}", ports[0].number()));
        std::fs::create_dir_all(&folder).expect("there is a folder for such files");
        let mut agent = Agent {
            program,
            folder,
            ports,
            child: None,
        };
        agent.run();
        agent
    }

    fn run(&mut self) {
        let [http, gossip, servers] = self.ports.each_ref().map(|port| port.number().to_string());
        let log = std::fs::File::create(self.folder.join("log")).expect("the folder is ours");
        let child = Command::new(&self.program)
            .args(["agent", "-dev", "-node", "node-a", "-client", "127.0.0.1"])
            .args(["-bind", "127.0.0.1", "-http-port", &http, "-dns-port", "-1"])
            .args(["-grpc-port", "-1", "-serf-lan-port", &gossip])
            .args(["-serf-wan-port", "-1", "-server-port", &servers])
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stderr(log.try_clone().expect("an open file"))
            .stdout(log)
            .spawn();
        self.child = Some(child.expect("consul can be run"));
        eventually("consul has a leader", || {
            let mut client = Client::try_connect(self.ports[0].address()).ok()?;
            client
                .try_send("GET /v1/catalog/node/node-a HTTP/1.1\r\nHost: a\r\n\r\n")
                .ok()?;
            let answer = client.try_answer_to("GET").ok()?;
            (answer.status == 200 && answer.text().contains("node-a")).then_some(())
        });
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("it is our child");
            child.wait().expect("it is our child");
        }
    }

    fn put(&self, path: &str, body: &str) {
        let mut client = Client::connect(self.ports[0].address());
        let length = body.len();
        let answer = client
            .send(format!(
                "PUT {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}"
            ))
            .answer();
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill();
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

// === the stub ===

/// Knows `tag`, `passing` and one filter.
fn stub() -> Registry {
    Registry::start("X-Consul-Index", |entries, parameters| {
        let is_meant = |entry: &&Value| {
            let own = entry["Service"]["Tags"].as_array().expect("a list");
            let mut tags = parameters.all("tag").into_iter();
            let mut checks = entry["Checks"].as_array().into_iter().flatten();
            let is_passing = checks.all(|check| check["Status"] == "passing");
            let is_chosen = match parameters.get("filter") {
                Some("Service.Meta.zone == \"x\"") => entry["Service"]["Meta"]["zone"] == "x",
                Some(other) => panic!("a filter it does not know: {other}"),
                None => true,
            };
            tags.all(|tag| own.contains(&json!(tag)))
                && (is_passing || parameters.get("passing").is_none())
                && is_chosen
        };
        entries.iter().filter(is_meant).cloned().collect()
    })
}

/// An instance as the stub tells of it.
fn entry(id: &str, address: SocketAddr, keys: &Keys) -> Value {
    json!({
        "Node": {"ID": "0", "Node": "node-a", "Address": "127.0.0.1", "Datacenter": "dc1"},
        "Service": {
            "ID": id, "Service": "web", "Tags": keys.tags, "Address": address.ip().to_string(),
            "Port": address.port(), "Meta": {"zone": keys.zone}, "Weights": keys.weights(),
            "EnableTagOverride": false,
        },
        "Checks": [check("serfHealth", "passing"), check(&format!("check:{id}"), "passing")],
    })
}

fn check(id: &str, status: &str) -> Value {
    json!({"Node": "node-a", "CheckID": id, "Name": id, "Status": status, "Type": "ttl"})
}

// === both ===

/// What an instance has beside its address.
#[derive(Default)]
struct Keys {
    tags: &'static [&'static str],
    zone: &'static str,
    /// Of a passing and of a warning one; 0, 0: not said.
    weights: (u32, u32),
}

impl Keys {
    fn weights(&self) -> Value {
        let (passing, warning) = match self.weights {
            (0, 0) => (1, 1),
            weights => weights,
        };
        json!({"Passing": passing, "Warning": warning})
    }
}

impl Consul {
    fn address(&self) -> SocketAddr {
        match self {
            Consul::Agent(agent) => agent.ports[0].address(),
            Consul::Stub(stub) => stub.origin.address(),
        }
    }

    fn stub(&self) -> &Registry {
        match self {
            Consul::Stub(stub) => stub,
            Consul::Agent(_) => panic!("it is none of ours"),
        }
    }

    /// Registers an instance that passes its check, or changes it.
    fn register(&self, id: &str, address: SocketAddr, keys: &Keys) {
        match self {
            Consul::Agent(agent) => {
                let body = json!({
                    "ID": id, "Name": "web", "Tags": keys.tags, "Address": address.ip().to_string(),
                    "Port": address.port(), "Meta": {"zone": keys.zone}, "Weights": keys.weights(),
                    "Check": {"CheckID": format!("check:{id}"), "TTL": "10m", "Status": "passing"},
                });
                agent.put("/v1/agent/service/register", &body.to_string());
            }
            Consul::Stub(stub) => {
                stub.change(|all| {
                    all.retain(|entry| entry["Service"]["ID"] != id);
                    all.push(entry(id, address, keys));
                });
            }
        }
    }

    fn deregister(&self, id: &str) {
        match self {
            Consul::Agent(agent) => agent.put(&format!("/v1/agent/service/deregister/{id}"), ""),
            Consul::Stub(stub) => {
                stub.change(|all| all.retain(|entry| entry["Service"]["ID"] != id));
            }
        }
    }

    /// `pass`, `warn` or `fail`.
    fn says(&self, id: &str, verdict: &str) {
        match self {
            Consul::Agent(agent) => {
                agent.put(&format!("/v1/agent/check/{verdict}/check:{id}"), "");
            }
            Consul::Stub(stub) => {
                let status = match verdict {
                    "pass" => "passing",
                    "warn" => "warning",
                    _ => "critical",
                };
                change_checks(stub, id, |checks| checks[1] = check("check", status));
            }
        }
    }

    fn maintain(&self, id: &str, is_on: bool) {
        match self {
            Consul::Agent(agent) => {
                let path = format!("/v1/agent/service/maintenance/{id}?enable={is_on}&reason=work");
                agent.put(&path, "");
            }
            Consul::Stub(stub) => change_checks(stub, id, |checks| match is_on {
                true => checks.push(check(&format!("_service_maintenance:{id}"), "critical")),
                false => checks.truncate(2),
            }),
        }
    }

    fn stop(&mut self) {
        match self {
            Consul::Agent(agent) => agent.kill(),
            Consul::Stub(stub) => stub.cut(),
        }
    }

    /// Starts anew, with nothing known and an index that has gone back.
    fn start_anew(&mut self) {
        match self {
            Consul::Agent(agent) => agent.run(),
            Consul::Stub(stub) => {
                stub.begin_anew(Vec::new());
                stub.recover();
            }
        }
    }

    fn discoverer(&self, interval: &str, keys: &str) -> String {
        self.waiting_discoverer(interval, "5m", keys)
    }

    fn waiting_discoverer(&self, interval: &str, wait: &str, keys: &str) -> String {
        format!(
            "provider: consul, http: {{endpoint: 'http://{}', interval: {interval}}}, consul: {{wait: {wait}, {keys}}}",
            self.address()
        )
    }

    fn ringway(&self, interval: &str, keys: &str, discovery: &str) -> Ringway {
        Setup::new(sections(&self.discoverer(interval, keys), discovery)).start()
    }

    /// Ringway that nothing but an answer to a request held for a second brings news.
    fn short_waiting_ringway(&self) -> Ringway {
        Setup::new(sections(&self.waiting_discoverer("1h", "1s", ""), QUERY)).start()
    }
}

fn change_checks(stub: &Registry, id: &str, change: impl FnOnce(&mut Vec<Value>)) {
    stub.change(|all| {
        let entry = all.iter_mut().find(|entry| entry["Service"]["ID"] == id);
        let checks = entry.expect("it is registered")["Checks"].as_array_mut();
        change(checks.expect("a list"));
    });
}

const QUERY: &str = "query: {service: web}";

#[test]
fn instances_come_change_and_leave_by_answers_to_held_requests() {
    each(|consul| {
        let [a, b, c] = all_named(["a", "b", "c"]);
        consul.register("a", a.address(), &Keys::default());
        // Nothing but an answer to a held request can bring news within an hour.
        let ringway = consul.ringway("1h", "", QUERY);
        becomes(&ringway, &["a"]);
        consul.register("b", b.address(), &Keys::default());
        becomes(&ringway, &["a", "b"]);
        consul.register("a", c.address(), &Keys::default());
        becomes(&ringway, &["b", "c"]);
        let before = tables(&ringway);
        consul.deregister("b");
        becomes(&ringway, &["c"]);
        assert_eq!(tables(&ringway), before + 1.0);
        consul.deregister("a");
        becomes(&ringway, &["502"]);
        assert_eq!(errors(&ringway), 0.0);
        ringway.stop();
    });
}

#[test]
fn tags_and_a_filter_choose_instances() {
    each(|consul| {
        let [a, b, c, d] = all_named(["a", "b", "c", "d"]);
        let keys = |tags, zone| Keys {
            tags,
            zone,
            ..Keys::default()
        };
        consul.register("a", a.address(), &keys(&["blue", "v2", "more"], "x"));
        consul.register("b", b.address(), &keys(&["blue"], "x"));
        consul.register("c", c.address(), &keys(&["blue", "v2"], "y"));
        consul.register("d", d.address(), &keys(&["v2", "blue"], "x"));
        let filter = "filter: 'Service.Meta.zone == \"x\"'";
        let query = format!("query: {{service: web, tags: [blue, v2], {filter}}}");
        let ringway = consul.ringway("1h", "only_passing: true", &query);
        becomes(&ringway, &["a", "d"]);
        consul.says("d", "warn");
        becomes(&ringway, &["a"]);
        ringway.stop();
    });
}

#[test]
fn checks_decide_who_is_ready_and_weights_how_much() {
    each(|consul| {
        let [a, b] = all_named(["a", "b"]);
        let heavy = Keys {
            weights: (3, 1),
            ..Keys::default()
        };
        consul.register("a", a.address(), &heavy);
        consul.register("b", b.address(), &Keys::default());
        let strict = consul.discoverer("1h", "warning_is_ready: false");
        let yaml = sections(
            &consul.discoverer("1h", ""),
            &format!("{QUERY}, health_mode: provider"),
        );
        let yaml = yaml.replace("backends:", &format!("  strict: {{{strict}}}\nbackends:"));
        let yaml = format!(
            "{yaml}  no: {{provider: alb, alb: {{mechanism: rr, discovery: {{discoverer_name: strict, \
             template_backend: tpl, {QUERY}, health_mode: provider}}}}}}\n"
        );
        let ringway = Setup::new(yaml).start();
        becomes(&ringway, &["a", "b"]);
        let share = |name: &str, of: usize| {
            let mut counts: BTreeMap<String, usize> = BTreeMap::new();
            for pick in picks(&ringway, of) {
                *counts.entry(pick).or_default() += 1;
            }
            counts.get(name).copied().unwrap_or_default()
        };
        assert_eq!(share("a", 40), 30);
        is_listed(&ringway, "no-a", "available");
        consul.says("a", "warn");
        is_listed(&ringway, "no-a", "unavailable");
        eventually("its weight is another", || {
            (share("a", 40) == 20).then_some(())
        });
        consul.says("a", "fail");
        becomes(&ringway, &["b"]);
        consul.says("a", "pass");
        becomes(&ringway, &["a", "b"]);
        is_listed(&ringway, "no-a", "available");
        consul.maintain("a", true);
        becomes(&ringway, &["b"]);
        consul.maintain("a", false);
        becomes(&ringway, &["a", "b"]);
        assert_eq!(errors(&ringway), 0.0);
        ringway.stop();
    });
}

#[test]
fn who_is_ready_is_asked_before_its_first_probe_and_who_is_not_after_it() {
    each(|consul| {
        let gate = Gate::new();
        let waits = gate.clone();
        let slow = move |name: &'static str| {
            let waits = waits.clone();
            Origin::answering(move |request| {
                if request.target == "/probe" {
                    waits.pass();
                }
                ok(name)
            })
        };
        let (ready, not_ready) = (slow("ready"), slow("not ready"));
        consul.register("not-ready", not_ready.address(), &Keys::default());
        consul.says("not-ready", "fail");
        consul.register("ready", ready.address(), &Keys::default());
        let probe = "healthcheck: {interval: 1h, timeout: 30s, path: /probe}";
        let yaml = sections_of(&consul.discoverer("1h", ""), QUERY, probe);
        let ringway = Setup::new(yaml).start();
        becomes(&ringway, &["ready"]);
        is_listed(&ringway, "lb-not-ready", "initializing");
        stays(&ringway, &["ready"]);
        gate.open();
        gate.open();
        becomes(&ringway, &["not ready", "ready"]);
        // From now on probes decide, whatever Consul says.
        let third = named("third");
        consul.says("ready", "fail");
        consul.register("third", third.address(), &Keys::default());
        becomes(&ringway, &["not ready", "ready", "third"]);
        ringway.stop();
    });
}

#[test]
fn an_agent_that_begins_anew_is_followed() {
    each(|consul| {
        let [a, b] = all_named(["a", "b"]);
        consul.register("a", a.address(), &Keys::default());
        // So that the index is well above where it begins.
        for _ in 0..5 {
            consul.says("a", "warn");
            consul.says("a", "pass");
        }
        let ringway = consul.ringway("1s", "", &format!("{QUERY}, min_members: 1"));
        becomes(&ringway, &["a"]);
        consul.stop();
        fails(&ringway, 1);
        stays(&ringway, &["a"]);
        is_rejected(&ringway, || consul.start_anew());
        stays(&ringway, &["a"]);
        consul.register("b", b.address(), &Keys::default());
        becomes(&ringway, &["b"]);
        consul.register("a", a.address(), &Keys::default());
        becomes(&ringway, &["a", "b"]);
        ringway.stop();
    });
}

#[test]
fn a_wait_that_is_over_is_no_failure_and_no_change() {
    each(|consul| {
        let [a, b] = all_named(["a", "b"]);
        consul.register("a", a.address(), &Keys::default());
        let ringway = consul.short_waiting_ringway();
        becomes(&ringway, &["a"]);
        let before = tables(&ringway);
        is_read(&ringway);
        stays(&ringway, &["a"]);
        assert_eq!(tables(&ringway), before);
        consul.register("b", b.address(), &Keys::default());
        becomes(&ringway, &["a", "b"]);
        assert_eq!(errors(&ringway), 0.0);
        ringway.stop();
    });
}

#[test]
fn an_index_that_goes_back_is_believed_and_everything_read_anew() {
    let [a, b, c] = all_named(["a", "b", "c"]);
    let consul = Consul::Stub(stub());
    let registry = consul.stub();
    consul.register("a", a.address(), &Keys::default());
    let ringway = consul.short_waiting_ringway();
    becomes(&ringway, &["a"]);
    // The first one was plain too.
    registry.origin.requests();
    registry.begin_anew(vec![entry("b", b.address(), &Keys::default())]);
    becomes(&ringway, &["b"]);
    eventually("a plain read follows", || {
        let request = registry.origin.next_request();
        (!request.target.contains("index=")).then_some(())
    });
    let next = registry.origin.next_request();
    assert!(next.target.contains("index=3&"), "{}", next.target);
    consul.register("c", c.address(), &Keys::default());
    becomes(&ringway, &["b", "c"]);
    assert_eq!(errors(&ringway), 0.0);
    ringway.stop();
}

#[test]
fn an_answer_that_breaks_off_changes_nothing() {
    let [a, b] = all_named(["a", "b"]);
    let consul = Consul::Stub(stub());
    consul.register("a", a.address(), &Keys::default());
    let ringway = consul.ringway("1s", "", QUERY);
    becomes(&ringway, &["a"]);
    let other = json!([entry("b", b.address(), &Keys::default())]);
    let other = text_of(200, &other.to_string());
    breaks_off(&ringway, &["a"], &other, |bytes| consul.stub().send(bytes));
    ringway.stop();
}

#[test]
fn a_server_that_never_answers_changes_nothing_and_one_at_the_end_of_a_wait_is_not_late() {
    let [a, b] = all_named(["a", "b"]);
    let consul = Consul::Stub(stub());
    consul.register("a", a.address(), &Keys::default());
    let discoverer = consul.waiting_discoverer("1s, timeout: 3s", "1s", "");
    let ringway = Setup::new(sections(&discoverer, QUERY)).start();
    becomes(&ringway, &["a"]);
    is_read(&ringway);
    assert_eq!(errors(&ringway), 0.0, "{}", ringway.log());
    let other = json!([entry("b", b.address(), &Keys::default())]);
    let other = text_of(200, &other.to_string());
    silence(&ringway, &["a"], &other, |bytes| consul.stub().send(bytes));
    consul.register("b", b.address(), &Keys::default());
    becomes(&ringway, &["a", "b"]);
    ringway.stop();
}

#[test]
fn an_outage_is_told_once() {
    let consul = Consul::Stub(stub());
    let registry = consul.stub();
    let [a] = all_named(["a"]);
    consul.register("a", a.address(), &Keys::default());
    let ringway = consul.ringway("1s", "", QUERY);
    becomes(&ringway, &["a"]);
    outage(&ringway, &["a"], || registry.cut(), || registry.recover());
    let bad = json!([{"Node": {"Address": ""}, "Service": {"ID": "x", "Port": 80}, "Checks": []}]);
    let body = bad.to_string();
    let answers = [
        "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n".to_owned(),
        format!(
            "HTTP/1.1 200 OK\r\nX-Consul-Index: 5\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ),
    ];
    garbage(&ringway, &["a"], answers, |answer| registry.fail(answer));
    ringway.stop();
}
