//! A rolling deploy of every member of a pool under load: nobody notices.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ringway_wire::{Answer, Client, Origin, Port, Ringway, Setup, eventually, ok};
use serde_json::{Value, json};

use crate::discovery_cluster::{Cluster, endpoint};
use crate::discovery_support::{is_logged_times, picks, sections};

const MEMBERS: u8 = 5;
/// Connections of the load.
const CLIENTS: u32 = 10;
/// Each client's share of 500 requests a second.
const EVERY: Duration = Duration::from_millis(20);

/// What the cluster says of one Pod.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Starting,
    Ready,
    Terminating,
}

impl Phase {
    fn conditions(self) -> Value {
        match self {
            Phase::Starting => json!({"ready": false, "serving": false, "terminating": false}),
            Phase::Ready => json!({"ready": true, "serving": true, "terminating": false}),
            Phase::Terminating => json!({"ready": false, "serving": true, "terminating": true}),
        }
    }
}

/// The process in a Pod.
struct Process {
    origin: Origin,
    /// Whether it answers who it is, and not 503 as one that has not begun or is at its end.
    serves: Arc<AtomicBool>,
}

/// A Pod: what the cluster says of it.
struct Pod {
    phase: Phase,
    process: Process,
}

/// The Pods of a Deployment, by the last octet of their addresses, all at one port.
struct Deployment {
    cluster: Cluster,
    port: Port,
    pods: BTreeMap<u8, Pod>,
}

impl Deployment {
    fn new() -> Self {
        let mut deployment = Deployment {
            cluster: Cluster::start(),
            port: Port::claim(),
            pods: BTreeMap::new(),
        };
        for octet in 2..2 + MEMBERS {
            deployment.add(octet, Phase::Ready);
        }
        deployment.tell();
        deployment
    }

    /// Starts a Pod; it serves once it is ready.
    fn add(&mut self, octet: u8, phase: Phase) {
        let address = SocketAddr::from((Ipv4Addr::new(127, 0, 0, octet), self.port.number()));
        let serves = Arc::new(AtomicBool::new(phase == Phase::Ready));
        let own = Arc::clone(&serves);
        let origin = Origin::start_at(address, move |conn| {
            while conn.request().is_some() {
                let answer = match own.load(Ordering::SeqCst) {
                    true => ok(octet.to_string()),
                    false => b"HTTP/1.1 503 Not Now\r\nContent-Length: 0\r\n\r\n".to_vec(),
                };
                if !conn.send(answer) {
                    break;
                }
            }
        });
        let process = Process { origin, serves };
        self.pods.insert(octet, Pod { phase, process });
    }

    /// Writes the slice anew.
    fn tell(&self) {
        let endpoints: Vec<_> = self
            .pods
            .iter()
            .map(|(octet, pod)| endpoint(*octet, &pod.phase.conditions()))
            .collect();
        self.cluster
            .put_slice("web-a", self.port.number(), &endpoints);
    }

    fn set(&mut self, octet: u8, phase: Phase) {
        self.pods.get_mut(&octet).expect("it is there").phase = phase;
        self.tell();
    }
}

/// Changes of members that every shard serves.
fn spreads(ringway: &Ringway) -> f64 {
    let count = ringway.metric("ringway_discovery_spread_seconds_count", &[]);
    count.unwrap_or_default()
}

/// One client of the load: what was answered, and what failed and how.
#[derive(Default)]
struct Count {
    answers: BTreeMap<String, usize>,
    failures: Vec<String>,
}

/// One request over a connection, or over a new one.
fn exchange(
    address: SocketAddr,
    kept: Option<Client>,
    request: &str,
) -> std::io::Result<(Client, Answer)> {
    let mut client = match kept {
        Some(client) => client,
        None => Client::try_connect(address)?,
    };
    client.try_send(request)?;
    let answer = client.try_answer_to("GET")?;
    Ok((client, answer))
}

/// Asks at a steady pace over one connection until told to stop, GET and POST in turns: nobody may send a POST twice.
/// A server may end a connection only by saying so.
fn ask(address: SocketAddr, stop: &AtomicBool) -> Count {
    let mut count = Count::default();
    let mut kept: Option<Client> = None;
    let mut due = Instant::now();
    let requests = [
        "GET / HTTP/1.1\r\nHost: shop\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: shop\r\nContent-Length: 3\r\n\r\nabc",
    ];
    for request in requests.iter().cycle() {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        match exchange(address, kept.take(), request) {
            Ok((client, answer)) if answer.status == 200 => {
                if answer.header("connection") != Some("close") {
                    kept = Some(client);
                }
                *count.answers.entry(answer.text()).or_default() += 1;
            }
            Ok((_, answer)) => count.failures.push(format!("status {}", answer.status)),
            Err(error) => count.failures.push(error.to_string()),
        }
        // Who is late asks at once, and does not make up for it.
        let now = Instant::now();
        due = (due + EVERY).max(now);
        thread::park_timeout(due - now);
    }
    count
}

/// Replaces one Pod by another, as a Deployment with one Pod more than it needs does.
fn replace(deployment: &mut Deployment, ringway: &Ringway, old: u8, new: u8) {
    let before = spreads(ringway);
    deployment.add(new, Phase::Starting);
    deployment.tell();
    eventually("the new one is known", || {
        (spreads(ringway) > before).then_some(())
    });
    let process = &deployment.pods[&new].process;
    assert!(process.origin.requests().is_empty(), "it is not ready");
    process.serves.store(true, Ordering::SeqCst);
    deployment.set(new, Phase::Ready);
    eventually("the new one serves", || {
        let served = deployment.pods[&new].process.origin.requests();
        (!served.is_empty()).then_some(())
    });
    let before = spreads(ringway);
    deployment.set(old, Phase::Terminating);
    let removed = format!("member=lb-pod-{old} ");
    let has_left = |line: &str| line.contains("member removed") && line.contains(&removed);
    eventually("the old one has left every shard", || {
        let is_told = ringway.log().lines().any(has_left);
        (spreads(ringway) > before && is_told).then_some(())
    });
    let Process { origin, serves } = deployment.pods.remove(&old).expect("it was there").process;
    eventually("nobody asks it, not even who was about to", || {
        origin.requests();
        picks(ringway, 12);
        origin.requests().is_empty().then_some(())
    });
    // From now on whoever is sent there sees it. The process goes, and after it the endpoint.
    serves.store(false, Ordering::SeqCst);
    let seen = picks(ringway, 12);
    assert!(!seen.contains(&"503".to_owned()), "{seen:?}");
    origin.retire();
    deployment.tell();
}

#[test]
fn five_members_are_replaced_under_load_and_no_request_fails() {
    let mut deployment = Deployment::new();
    let setup = Setup::new("");
    let keys = deployment.cluster.discoverer(setup.folder(), &json!({}));
    let query = "health_mode: provider, query: {service: web}";
    let ringway = setup.section(&sections(&keys, query)).start();
    let first: Vec<u8> = deployment.pods.keys().copied().collect();
    eventually("all five serve", || {
        let seen = picks(&ringway, 10);
        first
            .iter()
            .all(|octet| seen.contains(&octet.to_string()))
            .then_some(())
    });
    let stop = AtomicBool::new(false);
    let counts: Vec<Count> = thread::scope(|scope| {
        let address = ringway.address();
        let stop = &stop;
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| scope.spawn(move || ask(address, stop)))
            .collect();
        // Whatever fails here must not leave the clients asking for ever.
        let end = StopAtEnd(stop);
        for old in first {
            replace(&mut deployment, &ringway, old, old + MEMBERS);
        }
        drop(end);
        let counts = clients
            .into_iter()
            .map(|client| client.join().expect("it counts"));
        counts.collect()
    });
    let mut answers: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, number) in counts.iter().flat_map(|count| &count.answers) {
        *answers.entry(name).or_default() += number;
    }
    let failures: Vec<&String> = counts.iter().flat_map(|count| &count.failures).collect();
    println!("answers by member: {answers:?}, failed: {}", failures.len());
    assert_eq!(failures.len(), 0, "{failures:?}\n{}", ringway.log());
    for octet in 2..2 + 2 * MEMBERS {
        let name = octet.to_string();
        assert!(
            answers.contains_key(&*name),
            "{name} served nobody: {answers:?}"
        );
    }
    is_logged_times(&ringway, 2 * usize::from(MEMBERS), "member added");
    is_logged_times(&ringway, usize::from(MEMBERS), "member removed");
    ringway.stop();
}

struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
