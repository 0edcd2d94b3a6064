//! Faults that were found in use, each with what it broke.

use ringway_wire::{Client, Gate, Origin, Setup, eventually, ok};
use rustix::process::Signal;
use serde_json::Value;

fn two(one: &Origin, two: &Origin, keys: &str) -> Setup {
    Setup::new(format!(
        "backends:\n  one: {{provider: reverseproxy, origin_url: 'http://{}'{keys}}}\n  \
         two: {{provider: reverseproxy, origin_url: 'http://{}'}}\n",
        one.address(),
        two.address()
    ))
}

#[test]
fn a_hung_origin_does_not_use_up_the_connections_of_another() {
    let hung = Origin::start(|conn| {
        conn.request();
        conn.until_closed();
    });
    let good = Origin::answering(|_| ok("good"));
    let ringway = two(&hung, &good, ", max_concurrent_conns: 1")
        .shards(1)
        .start();
    let waiting: Vec<Client> = (0..4)
        .map(|_| {
            let mut client = ringway.client();
            client.send("GET /one/ HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    hung.next_request();
    assert_eq!(ringway.get("/two/").text(), "good");
    let open = |backend| {
        ringway.metric(
            "ringway_member_open_connections",
            &[("backend_name", backend)],
        )
    };
    assert_eq!(open("one"), Some(1.0), "each backend counts its own");
    drop(waiting);
    ringway.stop();
}

#[test]
fn a_scrape_during_a_drain_cuts_nothing() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |conn| {
        conn.request();
        conn.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab");
        held.pass();
        conn.send("cd");
    });
    let mut ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.head().0, 200);
    ringway.signal(Signal::TERM);
    for _ in 0..5 {
        let mut admin = Client::connect(ringway.metrics_address());
        assert_eq!(admin.get("/metrics").status, 200);
    }
    gate.open();
    assert_eq!(client.rest(), b"abcd");
    assert_eq!(ringway.wait().code(), Some(0));
}

#[test]
fn a_body_that_is_bad_from_its_beginning_is_answered_502() {
    let origin = Origin::start(|conn| {
        conn.request();
        conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nHELLO\r\nZZ\r\n");
        conn.until_closed();
    });
    let ringway = Setup::web(origin.address(), "").start();
    assert_eq!(ringway.get("/").status, 502);
    ringway.stop();
}

#[test]
fn a_request_that_got_an_interim_answer_is_not_sent_again() {
    let origin = Origin::start(|conn| {
        conn.request();
        conn.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        conn.request();
        conn.send("HTTP/1.1 103 Early Hints\r\n\r\n");
    });
    let ringway = Setup::web(origin.address(), "").shards(1).start();
    let mut client = ringway.client();
    assert_eq!(client.get("/").text(), "ok");
    assert_eq!(client.get("/").status, 502);
    assert_eq!(origin.requests().len(), 2, "nothing is sent twice");
    ringway.stop();
}

#[test]
fn an_origin_that_fails_is_logged_once_and_again_when_it_answers() {
    let origin = Origin::answering(|_| ok("good"));
    let address = origin.address();
    drop(origin);
    let ringway = Setup::web(address, "").shards(1).start();
    for _ in 0..3 {
        assert_eq!(ringway.get("/").status, 502);
    }
    eventually("the failure is logged", || {
        ringway
            .log()
            .contains("origin fails requests")
            .then_some(())
    });
    assert_eq!(ringway.log().matches("origin fails requests").count(), 1);
    ringway.stop();
}

#[test]
fn a_port_that_another_ringway_serves_is_refused() {
    let origin = Origin::answering(|_| ok("good"));
    let first = Setup::web(origin.address(), "").start();
    let folder = Setup::new("").folder().to_owned();
    let config = folder.join("second.yaml");
    let free = [ringway_wire::Port::claim(), ringway_wire::Port::claim()];
    let yaml = format!(
        "listeners:\n  default: {{address: 127.0.0.1, port: {}}}\n  \
         metrics: {{address: 127.0.0.1, port: {}}}\n  mgmt: {{address: 127.0.0.1, port: {}}}\n\
         backends:\n  web: {{provider: reverseproxy, origin_url: 'http://{}'}}\n",
        first.address().port(),
        free[0].number(),
        free[1].number(),
        origin.address()
    );
    std::fs::write(&config, yaml).expect("the folder is ours");
    let second = ringway_wire::run(&["run".as_ref(), "--config".as_ref(), config.as_os_str()]);
    assert_eq!(second.code, Some(1), "{second:?}");
    std::fs::remove_dir_all(folder).expect("the folder is ours");
    first.stop();
}

#[test]
fn asking_for_a_label_that_replicas_inject_unevenly_carries_a_warning() {
    const EMPTY: &str = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;
    let answer = |_: &ringway_wire::Request| {
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{EMPTY}",
            EMPTY.len()
        )
        .into_bytes()
    };
    let origins = [0; 3].map(|_| Origin::answering(answer));
    let mut yaml = "backends:\n".to_owned();
    for ((name, group), origin) in [("a", "x"), ("b", "x"), ("c", "y")].iter().zip(&origins) {
        yaml.push_str(&format!(
            "  {name}: {{provider: prometheus, origin_url: 'http://{}', replica_group: {group}, prometheus: {{labels: {{dc: {name}}}}}}}\n",
            origin.address()
        ));
    }
    yaml.push_str(
        "  all: {provider: alb, is_default: true, alb: {mechanism: tsm, pool: [a, b, c]}}\n",
    );
    let ringway = Setup::new(yaml).start();
    let warned = |query: &str| {
        let answer = ringway.get(&format!("/api/v1/query?query={query}"));
        let document: Value = serde_json::from_str(&answer.text()).expect("JSON");
        document["warnings"]
            .as_array()
            .is_some_and(|all| all.iter().any(|w| w.to_string().contains("label dc")))
    };
    assert!(warned("up%7Bdc%3D%22a%22%7D"));
    assert!(warned("sum%20by%20(dc)%20(up)"));
    assert!(!warned("up"));
    ringway.stop();
}

#[test]
fn a_path_of_one_server_goes_to_the_next_member_when_the_first_is_gone() {
    let gone = Origin::answering(|_| ok("x"));
    let address = gone.address();
    drop(gone);
    let there = Origin::answering(|_| ok(r#"{"status":"success","data":{}}"#));
    let mut yaml = "backends:\n".to_owned();
    for (name, address) in [("a", address), ("b", there.address())] {
        yaml.push_str(&format!(
            "  {name}: {{provider: prometheus, origin_url: 'http://{address}'}}\n"
        ));
    }
    yaml.push_str(
        "  all: {provider: alb, is_default: true, alb: {mechanism: tsm, pool: [a, b]}}\n",
    );
    let ringway = Setup::new(yaml).start();
    for path in ["/api/v1/metadata", "/api/v1/format_query?query=x"] {
        assert_eq!(ringway.get(path).status, 200, "{path}");
    }
    ringway.stop();
}

#[test]
fn a_server_name_that_would_break_headers_is_refused() {
    let folder = Setup::new("").folder().to_owned();
    let config = folder.join("name.yaml");
    std::fs::write(&config, "main:\n  server_name: \"a\\r\\nX-Evil: 1\"\n")
        .expect("the folder is ours");
    let finished = ringway_wire::run(&["check".as_ref(), "--config".as_ref(), config.as_os_str()]);
    assert_eq!(finished.code, Some(1));
    assert!(
        finished.err.contains("name.yaml:2:16: main.server_name:"),
        "{}",
        finished.err
    );
    std::fs::remove_dir_all(folder).expect("the folder is ours");
}
