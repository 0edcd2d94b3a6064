//! Three real nginx behind `rr`: the acceptance run of the round robin mechanism.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use ringway_wire::{Client, Port, Ringway, Setup, eventually};

/// One nginx in the foreground, with everything it writes in a folder of its own.
struct Nginx {
    name: &'static str,
    port: Port,
    folder: PathBuf,
    child: Option<Child>,
}

impl Nginx {
    fn new(name: &'static str, parent: &std::path::Path) -> Self {
        let folder = parent.join(name);
        std::fs::create_dir_all(&folder).expect("the folder is ours");
        let port = Port::claim();
        let config = format!(
            "daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log {folder}/error.log;\n\
             events {{ worker_connections 512; }}\nhttp {{\n  access_log off;\n  \
             client_body_temp_path {folder}/1;\n  proxy_temp_path {folder}/2;\n  \
             fastcgi_temp_path {folder}/3;\n  uwsgi_temp_path {folder}/4;\n  scgi_temp_path {folder}/5;\n  \
             keepalive_requests 100000;\n  server {{\n    listen {};\n    location / {{ return 200 {name}; }}\n  }}\n}}\n",
            port.address(),
            folder = folder.display()
        );
        std::fs::write(folder.join("nginx.conf"), config).expect("the folder is ours");
        Self {
            name,
            port,
            folder,
            child: None,
        }
    }

    fn start(&mut self) {
        let child = Command::new(find())
            .arg("-p")
            .arg(&self.folder)
            .arg("-c")
            .arg(self.folder.join("nginx.conf"))
            .args(["-e", "error.log"])
            .stdin(Stdio::null())
            .spawn();
        self.child = Some(child.expect("nginx can be run"));
        eventually("nginx listens", || {
            let mut client = Client::try_connect(self.port.address()).ok()?;
            client.try_send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").ok()?;
            client.try_answer_to("GET").ok()
        });
    }

    fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("it is our child");
        child.wait().expect("it is our child");
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
    }
}

/// Debian keeps nginx where only root looks for it.
fn find() -> PathBuf {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/sbin"]).map(PathBuf::from);
    let found = folders
        .map(|folder| folder.join("nginx"))
        .find(|path| path.is_file());
    found.expect("nginx is missing: run .ci/setup.sh test")
}

const MEMBERS: [&str; 3] = ["a", "b", "c"];
/// 2 failures, 200 ms apart, 1 s at most each.
const PROBE: &str =
    "healthcheck: {interval: 200ms, timeout: 1s, failure_threshold: 2, recovery_threshold: 2}";

fn start(servers: &[Nginx], setup: Setup) -> Ringway {
    let mut yaml = String::new();
    for server in servers {
        yaml.push_str(&format!(
            "  {}:\n    provider: reverseproxy\n    origin_url: http://{}\n    {PROBE}\n",
            server.name,
            server.port.address()
        ));
    }
    yaml.push_str(
        "  pool:\n    provider: alb\n    is_default: true\n    alb:\n      mechanism: rr\n      pool:\n        \
         - {name: a, weight: 1}\n        - {name: b, weight: 2}\n        - {name: c, weight: 3}\n",
    );
    setup.section(&yaml).start()
}

fn count(picks: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for pick in picks {
        *counts.entry(pick.as_str()).or_insert(0) += 1;
    }
    counts
}

/// `number` requests one after the other, over connections that each live for a while.
fn sequential(ringway: &Ringway, number: usize) -> Vec<String> {
    let mut picks = Vec::with_capacity(number);
    while picks.len() < number {
        let mut client = ringway.client();
        for _ in 0..100.min(number - picks.len()) {
            picks.push(client.get("/").text());
        }
    }
    picks
}

/// `number` requests over `clients` connections at once.
fn concurrent(ringway: &Ringway, number: usize, clients: usize) -> Vec<String> {
    let (sender, picks) = mpsc::channel();
    let taken = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..clients {
            let (sender, taken) = (sender.clone(), &taken);
            scope.spawn(move || {
                let mut client = ringway.client();
                while taken.fetch_add(1, Ordering::Relaxed) < number {
                    sender
                        .send(client.get("/").text())
                        .expect("the test listens");
                }
            });
        }
    });
    drop(sender);
    picks.iter().collect()
}

/// Waits until the health page lists a member so.
fn await_state(ringway: &Ringway, member: &str, list: &str) {
    eventually(&format!("{member} is {list}"), || {
        let page = Client::connect(ringway.metrics_address()).get("/trickster/health?json");
        let page: serde_json::Value = serde_json::from_slice(&page.body).ok()?;
        let found = page[list]
            .as_array()?
            .iter()
            .any(|entry| entry["name"] == member);
        found.then_some(())
    });
}

#[test]
fn three_nginx_of_weights_1_2_3_share_6000_requests_exactly() {
    let setup = Setup::new("backends:\n");
    let mut servers = MEMBERS.map(|name| Nginx::new(name, setup.folder()));
    servers.iter_mut().for_each(Nginx::start);
    let ringway = start(&servers, setup);
    for name in MEMBERS {
        await_state(&ringway, name, "available");
    }
    let picks = sequential(&ringway, 6_000);
    for (number, window) in picks.chunks(6).enumerate() {
        assert_eq!(
            count(window),
            BTreeMap::from([("a", 1), ("b", 2), ("c", 3)]),
            "window {number}"
        );
    }
    let picks = concurrent(&ringway, 6_000, 64);
    assert_eq!(
        count(&picks),
        BTreeMap::from([("a", 1_000), ("b", 2_000), ("c", 3_000)])
    );
    ringway.stop();
}

/// Asks without end until told to stop; what was answered, and how often not with 200.
fn ask(ringway: &Ringway, stop: &AtomicBool) -> (Vec<String>, usize) {
    let (mut picks, mut failed) = (Vec::new(), 0);
    let mut client = ringway.client();
    while !stop.load(Ordering::SeqCst) {
        let asked = client.try_send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        match asked.and_then(|()| client.try_answer_to("GET")) {
            Ok(answer) if answer.status == 200 => picks.push(answer.text()),
            Ok(_) => failed += 1,
            Err(_) => {
                failed += 1;
                client = ringway.client();
            }
        }
    }
    (picks, failed)
}

#[test]
fn a_killed_nginx_leaves_the_pool_without_failing_requests_and_comes_back() {
    const CLIENTS: usize = 4;
    let setup = Setup::new("backends:\n");
    let mut servers = MEMBERS.map(|name| Nginx::new(name, setup.folder()));
    servers.iter_mut().for_each(Nginx::start);
    let ringway = start(&servers, setup);
    for name in MEMBERS {
        await_state(&ringway, name, "available");
    }
    let stop = AtomicBool::new(false);
    let (shared, stop) = (&ringway, &stop);
    let results = thread::scope(|scope| {
        let asking: Vec<_> = (0..CLIENTS)
            .map(|_| scope.spawn(move || ask(shared, stop)))
            .collect();
        // Whatever fails here must not leave the clients asking for ever.
        let end = StopAtEnd(stop);
        let killed = Instant::now();
        servers[1].kill();
        await_state(shared, "b", "unavailable");
        println!(
            "b left the pool after {:?} (bound: 2 x 200 ms + 1 s)",
            killed.elapsed()
        );
        eventually("b gets nothing any more", || {
            (0..6).all(|_| shared.get("/").text() != "b").then_some(())
        });
        servers[1].start();
        await_state(shared, "b", "available");
        eventually("b is back", || {
            (shared.get("/").text() == "b").then_some(())
        });
        drop(end);
        asking
            .into_iter()
            .map(|client| client.join().expect("it counts"))
            .collect::<Vec<_>>()
    });
    let answered: usize = results.iter().map(|(picks, _)| picks.len()).sum();
    let failed: usize = results.iter().map(|(_, failed)| failed).sum();
    println!("{answered} requests were answered, {failed} failed");
    assert!(answered > 100, "{answered}");
    // In flight on b when it was killed: at most one for each client.
    assert!(failed <= CLIENTS, "{failed} of {answered} failed");
    let picks = sequential(&ringway, 60);
    for window in picks.chunks(6) {
        assert_eq!(
            count(window),
            BTreeMap::from([("a", 1), ("b", 2), ("c", 3)])
        );
    }
    ringway.stop();
}

struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
