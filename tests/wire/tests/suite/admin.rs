//! What an operator asks and tells a running appliance: ping, metrics, health, configuration, reload,
//! stop.

use ringway_wire::{Answer, Client, Gate, Origin, Ringway, Setup, eventually, headers_of, ok};
use rustix::process::Signal;
use serde_json::Value;

fn web(origin: &Origin) -> Ringway {
    Setup::web(origin.address(), "").start()
}

#[track_caller]
fn metrics(ringway: &Ringway, path: &str) -> Answer {
    Client::connect(ringway.metrics_address()).get(path)
}

#[track_caller]
fn mgmt(ringway: &Ringway, path: &str) -> Answer {
    Client::connect(ringway.mgmt_address()).get(path)
}

#[test]
fn ping_is_answered_on_the_proxy_listener_by_get_and_head_only() {
    let origin = Origin::answering(|_| ok("origin"));
    let ringway = web(&origin);
    let mut client = ringway.client();
    let pong = client.get("/trickster/ping");
    assert_eq!((pong.status, pong.text().as_str()), (200, "pong"));
    assert_eq!(
        headers_of(&pong.head.headers, "cache-control"),
        ["no-cache"]
    );
    assert!(
        pong.header("content-type")
            .is_some_and(|value| value.starts_with("text/plain"))
    );
    client.send("HEAD /trickster/ping HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer_to("HEAD").status, 200);
    assert!(origin.requests().is_empty());
    ringway.stop();
}

#[test]
fn metrics_are_in_prometheus_text_form_and_count_requests() {
    let origin = Origin::answering(|request| {
        if request.target == "/missing" {
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec()
        } else {
            ok("x")
        }
    });
    let ringway = web(&origin);
    for _ in 0..3 {
        ringway.get("/");
    }
    ringway.get("/missing");
    let answer = metrics(&ringway, "/metrics");
    assert_eq!(answer.status, 200);
    assert!(
        answer
            .header("content-type")
            .is_some_and(|value| value.starts_with("text/plain"))
    );
    for line in answer.text().lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').expect("a sample has a value");
        let prefixes = ["trickster_", "ringway_", "process_"];
        assert!(
            prefixes.iter().any(|prefix| series.starts_with(prefix)),
            "{line}"
        );
        value.parse::<f64>().expect("a sample is a number");
    }
    let count = |class| {
        ringway.metric(
            "trickster_frontend_requests_total",
            &[("backend_name", "web"), ("http_status", class)],
        )
    };
    eventually("all four are counted", || {
        (count("2xx") == Some(3.0) && count("4xx") == Some(1.0)).then_some(())
    });
    assert_eq!(ringway.metric("trickster_build_info", &[]), Some(1.0));
    ringway.stop();
}

#[test]
fn the_driver_in_use_is_a_metric_and_is_logged() {
    let origin = Origin::answering(|_| ok("x"));
    let ringway = web(&origin);
    let text = metrics(&ringway, "/metrics").text();
    let log = ringway.log();
    for driver in ["io_uring", "epoll"] {
        let is_asked_for = std::env::var("RINGWAY_TEST_DRIVER").is_ok_and(|asked| asked == driver);
        let is_in_use = text.contains(&format!("driver=\"{driver}\""));
        assert!(is_in_use || !is_asked_for, "{driver} was asked for: {text}");
        assert!(
            !is_in_use || log.contains(driver),
            "{driver} is in use: {log}"
        );
    }
    ringway.stop();
}

/// One member that is up, one that is down, one that is never probed, and a pool of all three; with the
/// JSON page that says so.
fn three_states(origin: &Origin) -> (Ringway, Value) {
    let gone = ringway_wire::Port::claim();
    let quick =
        "healthcheck: {interval: 100ms, timeout: 1s, failure_threshold: 1, recovery_threshold: 1}";
    let mut yaml = "backends:\n".to_owned();
    for (name, address, probe) in [
        ("up", origin.address(), quick),
        ("down", gone.address(), quick),
        ("unprobed", origin.address(), "is_default: false"),
    ] {
        yaml.push_str(&format!(
            "  {name}:\n    provider: reverseproxy\n    origin_url: http://{address}\n    {probe}\n"
        ));
    }
    yaml.push_str("  pool:\n    provider: alb\n    is_default: true\n    alb: {mechanism: rr, pool: [up, down, unprobed]}\n");
    let ringway = Setup::new(yaml).start();
    let page = eventually("both verdicts are on the page", || {
        let answer = metrics(&ringway, "/trickster/health?json");
        assert!(
            answer
                .header("content-type")
                .is_some_and(|value| value.starts_with("application/json"))
        );
        let page: Value = serde_json::from_slice(&answer.body).expect("it is JSON");
        let all = item(&page, "available", "up").is_some()
            && item(&page, "unavailable", "down").is_some()
            && item(&page, "unchecked", "unprobed").is_some();
        all.then_some(page)
    });
    (ringway, page)
}

/// An entry of one of the page's lists.
fn item<'a>(page: &'a Value, list: &str, name: &str) -> Option<&'a Value> {
    page[list]
        .as_array()?
        .iter()
        .find(|item| item["name"] == name)
}

#[test]
fn the_health_page_lists_states_as_json() {
    let origin = Origin::answering(|_| ok("x"));
    let (ringway, page) = three_states(&origin);
    let down = item(&page, "unavailable", "down").expect("it was there");
    assert!(
        down["downSince"].is_string() && down["detail"].is_string(),
        "{down}"
    );
    let lists = ["available", "unavailable"];
    let pool = lists
        .iter()
        .find_map(|list| item(&page, list, "pool"))
        .expect("the pool is listed");
    assert_eq!(pool["mechanism"], "rr");
    assert_eq!(pool["availablePoolMembers"], serde_json::json!(["up"]));
    assert_eq!(pool["unavailablePoolMembers"], serde_json::json!(["down"]));
    assert_eq!(
        pool["uncheckedPoolMembers"],
        serde_json::json!(["unprobed"])
    );
    let mut client = Client::connect(ringway.metrics_address());
    client.send("GET /trickster/health HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\n\r\n");
    assert!(serde_json::from_slice::<Value>(&client.answer().body).is_ok());
    ringway.stop();
}

#[test]
fn the_health_page_lists_states_as_text() {
    let origin = Origin::answering(|_| ok("x"));
    let (ringway, _) = three_states(&origin);
    let answer = metrics(&ringway, "/trickster/health");
    assert!(
        answer
            .header("content-type")
            .is_some_and(|value| value.starts_with("text/plain"))
    );
    let text = answer.text();
    assert!(
        text.starts_with("Trickster Backend Health Status"),
        "{text}"
    );
    assert!(
        text.contains("not configured for automated health checks"),
        "{text}"
    );
    assert!(text.contains("unavailable since "), "{text}");
    ringway.stop();
}

#[test]
fn the_running_configuration_is_shown_with_secrets_masked() {
    let origin = Origin::answering(|_| ok("x"));
    let address = origin.address();
    let yaml = format!(
        "backends:\n  web:\n    provider: reverseproxy\n    is_default: true\n    \
         origin_url: http://{address}\n    healthcheck:\n      interval: 1h\n      \
         headers:\n        Authorization: Bearer ${{TOKEN}}\n"
    );
    let ringway = Setup::new(yaml).environment("TOKEN", "hunter2").start();
    let answer = mgmt(&ringway, "/trickster/config");
    assert_eq!(answer.status, 200);
    let text = answer.text();
    assert!(
        text.contains("web:") && text.contains("reverseproxy"),
        "{text}"
    );
    assert!(!text.contains("hunter2"), "{text}");
    assert_eq!(
        metrics(&ringway, "/trickster/config").status,
        404,
        "only on the management listener"
    );
    ringway.stop();
}

/// Two origins that say who they are, and the product with the first behind `web`.
fn two() -> (Origin, Origin, Ringway) {
    let (one, two) = (
        Origin::answering(|_| ok("one")),
        Origin::answering(|_| ok("two")),
    );
    let section = "mgmt:\n  reload_rate_limit: 0\n";
    let ringway = Setup::web(one.address(), "").section(section).start();
    (one, two, ringway)
}

fn pointing_to(origin: &Origin) -> String {
    format!(
        "mgmt:\n  reload_rate_limit: 0\nbackends:\n  web:\n    provider: reverseproxy\n    is_default: true\n    \
         origin_url: http://{}\n",
        origin.address()
    )
}

#[test]
fn a_reload_by_signal_takes_effect_on_open_connections() {
    let (_one, two, ringway) = two();
    let mut client = ringway.client();
    assert_eq!(client.get("/").text(), "one");
    ringway.write_config(&pointing_to(&two));
    ringway.signal(Signal::HUP);
    eventually("the new origin answers", || {
        (client.get("/").text() == "two").then_some(())
    });
    assert_eq!(
        ringway.metric("trickster_config_last_reload_successful", &[]),
        Some(1.0)
    );
    ringway.stop();
}

#[test]
fn a_reload_by_the_endpoint_takes_effect_before_its_answer() {
    let (_one, two, ringway) = two();
    ringway.write_config(&pointing_to(&two));
    let answer = mgmt(&ringway, "/trickster/config/reload");
    assert_eq!(
        (answer.status, answer.text().trim()),
        (200, "configuration reloaded")
    );
    eventually("every shard has it", || {
        (0..8)
            .all(|_| ringway.get("/").text() == "two")
            .then_some(())
    });
    ringway.stop();
}

#[test]
fn a_refused_configuration_changes_nothing_and_says_why() {
    let (_one, two, ringway) = two();
    let successes = ringway.metric("trickster_config_reload_successes_total", &[]);
    for broken in [
        "backends: [",
        "backends:\n  web:\n    provider: nonsense\n",
        "no_such_section: 1\n",
    ] {
        ringway.write_config(broken);
        ringway.signal(Signal::HUP);
    }
    ringway.write_config(&format!("{}    no_such_key: 1\n", pointing_to(&two)));
    let answer = mgmt(&ringway, "/trickster/config/reload");
    assert!(answer.text().contains("NOT reloaded"), "{}", answer.text());
    eventually("the refusal is logged with its place", || {
        ringway.log().contains("no_such_key").then_some(())
    });
    assert_eq!(
        ringway.metric("trickster_config_last_reload_successful", &[]),
        Some(0.0)
    );
    assert_eq!(
        ringway.metric("trickster_config_reload_successes_total", &[]),
        successes
    );
    assert_eq!(ringway.get("/").text(), "one");
    ringway.write_config(&pointing_to(&two));
    ringway.signal(Signal::HUP);
    eventually("a good one is taken afterwards", || {
        (ringway.get("/").text() == "two").then_some(())
    });
    ringway.stop();
}

#[test]
fn a_reload_fails_no_request() {
    let (one, two, ringway) = two();
    std::thread::scope(|scope| {
        let (sender, stop) = std::sync::mpsc::channel::<()>();
        let shared = &ringway;
        let asking = scope.spawn(move || {
            let mut answers = 0;
            // Ends when the sender is dropped, also by a failure below.
            while stop.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                let mut client = shared.client();
                for _ in 0..10 {
                    assert_eq!(client.get("/").status, 200);
                    answers += 1;
                }
            }
            answers
        });
        for target in [&two, &one, &two, &one, &two] {
            let expected = if std::ptr::eq(target, &raw const two) {
                "two"
            } else {
                "one"
            };
            ringway.write_config(&pointing_to(target));
            ringway.signal(Signal::HUP);
            eventually("it is taken", || {
                (ringway.get("/").text() == expected).then_some(())
            });
        }
        drop(sender);
        assert!(asking.join().expect("no request fails") > 0);
    });
    ringway.stop();
}

#[test]
fn a_stop_lets_running_requests_finish_and_takes_no_new_ones() {
    let gate = Gate::new();
    let wait = gate.clone();
    let origin = Origin::start(move |conn| {
        while conn.request().is_some() {
            wait.pass();
            conn.send(ok("finished"));
        }
    });
    let mut ringway = web(&origin);
    let mut idle = ringway.client();
    assert_eq!(idle.get("/trickster/ping").status, 200);
    let mut running = ringway.client();
    running.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    origin.next_request();
    ringway.signal(Signal::TERM);
    idle.assert_closed();
    eventually("nobody listens any more", || {
        Client::try_connect(ringway.address()).err()
    });
    assert!(ringway.runs(), "it waits for the running request");
    gate.open();
    assert_eq!(running.answer().text(), "finished");
    running.assert_closed();
    assert_eq!(ringway.wait().code(), Some(0));
}

#[test]
fn an_interrupt_stops_it_as_well() {
    let origin = Origin::answering(|_| ok("x"));
    let mut ringway = web(&origin);
    assert_eq!(ringway.get("/").status, 200);
    ringway.signal(Signal::INT);
    assert_eq!(ringway.wait().code(), Some(0));
}

#[test]
fn unknown_paths_of_the_admin_listeners_are_404_and_malformed_requests_do_no_harm() {
    let origin = Origin::answering(|_| ok("x"));
    let ringway = web(&origin);
    assert_eq!(metrics(&ringway, "/nonsense").status, 404);
    assert_eq!(mgmt(&ringway, "/nonsense").status, 404);
    for address in [ringway.metrics_address(), ringway.mgmt_address()] {
        let mut client = Client::connect(address);
        client.send("nonsense\r\n\r\n");
        client.rest();
    }
    assert_eq!(metrics(&ringway, "/metrics").status, 200);
    ringway.stop();
}

#[test]
fn a_port_that_is_taken_ends_the_start_with_a_message() {
    let taken = Origin::answering(|_| ok("x"));
    let folder = Setup::new("").folder().to_owned();
    let config = folder.join("taken.yaml");
    let port = taken.address().port();
    let free = [ringway_wire::Port::claim(), ringway_wire::Port::claim()];
    let yaml = format!(
        "listeners:\n  default: {{address: 127.0.0.1, port: {port}}}\n  \
         metrics: {{address: 127.0.0.1, port: {}}}\n  mgmt: {{address: 127.0.0.1, port: {}}}\n\
         backends:\n  web: {{provider: reverseproxy, origin_url: 'http://{}'}}\n",
        free[0].number(),
        free[1].number(),
        taken.address()
    );
    std::fs::write(&config, yaml).expect("the folder is ours");
    let finished = ringway_wire::run(&["run".as_ref(), "--config".as_ref(), config.as_os_str()]);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    let said = format!("{}{}", finished.out, finished.err);
    assert!(said.contains(&port.to_string()), "{said}");
    std::fs::remove_dir_all(folder).expect("the folder is ours");
}

#[test]
fn connections_of_a_removed_listener_end_and_are_not_served_by_another() {
    let (one, two) = (
        Origin::answering(|_| ok("one")),
        Origin::answering(|_| ok("two")),
    );
    let extra = ringway_wire::Port::claim();
    let backend = |name: &str, origin: &Origin, more: &str| {
        let url = origin.address();
        format!(
            "  {name}: {{provider: reverseproxy, origin_url: 'http://{url}', is_default: true{more}}}\n"
        )
    };
    let only_one = format!("backends:\n{}", backend("one", &one, ""));
    let both = format!(
        "{only_one}{}",
        backend("two", &two, ", listener_name: extra")
    );
    let listener = format!(
        "connections_limit: 0\n  extra: {{address: 127.0.0.1, port: {}}}",
        extra.number()
    );
    let ringway = Setup::new(both).listener(&listener).start();
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], extra.number()));
    let mut client = ringway_wire::Client::connect(address);
    assert_eq!(client.get("/").text(), "two");
    ringway.write_config(&only_one);
    ringway.signal(Signal::HUP);
    assert_eq!(client.rest(), b"", "closed without a byte");
    assert_eq!(ringway.get("/").text(), "one");
    ringway.stop();
}
