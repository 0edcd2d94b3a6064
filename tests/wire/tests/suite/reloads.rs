//! Reloads under load: no request is lost, whatever its connection went through.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use ringway_wire::{Client, Gate, Origin, Port, Ringway, Setup, eventually, ok};
use rustix::process::Signal;

/// An ALB over two origins as the default backend.
fn sections(first: &Origin, second: &Origin) -> String {
    format!(
        "mgmt:\n  reload_rate_limit: 0\nbackends:\n  one:\n    provider: reverseproxy\n    origin_url: http://{}\n  two:\n    \
         provider: reverseproxy\n    origin_url: http://{}\n  pool:\n    provider: alb\n    \
         is_default: true\n    alb:\n      mechanism: rr\n      pool: [one, two]\n",
        first.address(),
        second.address()
    )
}

/// Reloads the file as it is now and waits until every shard serves it.
#[track_caller]
fn reload(ringway: &Ringway) {
    let generation = || {
        ringway
            .metric("ringway_plan_generation", &[])
            .unwrap_or_default()
    };
    let before = generation();
    ringway.signal(Signal::HUP);
    eventually("the reload is taken into force", || {
        (generation() > before).then_some(())
    });
}

/// Asks one request after the other until told to stop, GET and POST in turns; the number of answers, or
/// what went wrong. With `once`, each has a connection of its own.
fn load(
    address: std::net::SocketAddr,
    stop: &Arc<AtomicBool>,
    once: bool,
) -> JoinHandle<Result<usize, String>> {
    let stop = Arc::clone(stop);
    thread::spawn(move || {
        let mut answers = 0;
        let mut kept: Option<Client> = None;
        while !stop.load(Ordering::SeqCst) {
            let fault = |error| format!("request {answers}: {error}");
            let mut client = match kept.take() {
                Some(client) => client,
                None => Client::try_connect(address).map_err(fault)?,
            };
            let request = match answers % 2 {
                0 => "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
                _ => "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
            };
            client.try_send(request).map_err(fault)?;
            let answer = client.try_answer_to("GET").map_err(fault)?;
            if answer.status != 200 {
                return Err(format!("request {answers}: status {}", answer.status));
            }
            answers += 1;
            if !once && answer.header("connection") != Some("close") {
                kept = Some(client);
            }
        }
        Ok(answers)
    })
}

#[test]
fn reloads_of_backends_and_listener_limits_lose_no_request() {
    let origins: Vec<_> = (0..3).map(|_| Origin::answering(|_| ok("x"))).collect();
    let setup = Setup::new(sections(&origins[0], &origins[1])).listener("connections_limit: 500");
    let ringway = setup.start();
    let stop = Arc::new(AtomicBool::new(false));
    let loads: Vec<_> = [false, false, false, true]
        .into_iter()
        .map(|once| load(ringway.address(), &stop, once))
        .collect();
    for round in 0..30 {
        let second = &origins[1 + round % 2];
        ringway.write_config(&sections(&origins[0], second));
        let text = std::fs::read_to_string(ringway.config_path()).expect("it was written");
        let text = text.replace(
            "connections_limit: 500",
            &format!("connections_limit: {}", 500 + round),
        );
        std::fs::write(ringway.config_path(), text).expect("the folder is ours");
        reload(&ringway);
    }
    stop.store(true, Ordering::SeqCst);
    for load in loads {
        let answers = load.join().expect("no panic").expect("no request is lost");
        assert!(answers > 0);
    }
    assert!(!origins[2].requests().is_empty(), "the change was served");
    ringway.stop();
}

#[test]
fn connections_of_a_removed_listener_get_one_more_answer_each() {
    let gate = Gate::new();
    let wait = gate.clone();
    let origin = Origin::answering(move |request| {
        if request.target == "/held" {
            wait.pass();
        }
        ok("x")
    });
    let extra = Port::claim();
    let ringway = Setup::new(sections(&origin, &origin)).start();
    let without = std::fs::read_to_string(ringway.config_path()).expect("it was written");
    let listener = format!(
        "listeners:\n  extra:\n    address: 127.0.0.1\n    port: {}\n",
        extra.number()
    );
    let with = without.replace("listeners:\n", &listener);
    let with = with.replace(
        "is_default: true\n",
        "is_default: true\n    listener_name: extra\n",
    );
    std::fs::write(ringway.config_path(), with).expect("the folder is ours");
    reload(&ringway);
    // One is being answered, of another the head has begun.
    let mut held = Client::connect(extra.address());
    held.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n");
    origin.next_request();
    let mut begun = Client::connect(extra.address());
    assert_eq!(begun.get("/first").status, 200);
    begun.send("GET /sec");
    std::fs::write(ringway.config_path(), without).expect("the folder is ours");
    reload(&ringway);
    eventually("nobody listens any more", || {
        Client::try_connect(extra.address()).err()
    });
    gate.open();
    assert_eq!(held.answer().text(), "x");
    begun.send("ond HTTP/1.1\r\nHost: a\r\n\r\n");
    for client in [&mut begun, held.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")] {
        let last = client.answer();
        assert_eq!(
            (last.status, last.header("connection")),
            (200, Some("close"))
        );
        client.assert_closed();
    }
    ringway.stop();
}
