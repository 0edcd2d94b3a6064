//! Health checks: what is asked, what counts as well, and what follows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ringway_wire::{Answer, Client, Origin, Port, Request, Ringway, Setup, eventually, ok};
use rustix::process::Signal;
use serde_json::Value;

/// An answer of this status.
fn status(code: u16) -> Vec<u8> {
    format!("HTTP/1.1 {code} X\r\nContent-Length: 0\r\n\r\n").into_bytes()
}

/// An origin that answers 200, and 500 once it is told that it is not well.
pub(crate) fn while_well() -> (Origin, Arc<AtomicBool>) {
    let well = Arc::new(AtomicBool::new(true));
    let flag = well.clone();
    let origin = Origin::answering(move |_| match flag.load(Ordering::SeqCst) {
        true => ok("x"),
        false => status(500),
    });
    (origin, well)
}

/// A backend `web` with these keys of `healthcheck`, in a pool `lb` of its own.
fn yaml(origin: std::net::SocketAddr, check: &str) -> String {
    format!(
        "mgmt: {{reload_rate_limit: 0}}\nbackends:\n  web:\n    provider: reverseproxy\n    \
         origin_url: http://{origin}/base\n    healthcheck: {{{check}}}\n  \
         lb: {{provider: alb, is_default: true, alb: {{mechanism: rr, pool: [web]}}}}\n"
    )
}

fn start(origin: &Origin, check: &str) -> Ringway {
    Setup::new(yaml(origin.address(), check)).start()
}

const QUICK: &str = "interval: 20ms, timeout: 2s, failure_threshold: 1, recovery_threshold: 1";

fn page(ringway: &Ringway) -> Value {
    let answer = Client::connect(ringway.metrics_address()).get("/trickster/health?json");
    serde_json::from_slice(&answer.body).expect("it is JSON")
}

/// The list that a backend is in, and its entry.
fn entry(ringway: &Ringway, name: &str) -> (String, Value) {
    let page = page(ringway);
    for list in ["available", "unavailable", "initializing", "unchecked"] {
        let mut items = page[list].as_array().into_iter().flatten();
        if let Some(item) = items.find(|item| item["name"] == name) {
            return (list.to_owned(), item.clone());
        }
    }
    panic!("{name} is not on the page: {page}");
}

/// Waits until `web` is in this list.
#[track_caller]
fn becomes(ringway: &Ringway, list: &str) -> Value {
    eventually(&format!("web is {list}"), || {
        let (found, item) = entry(ringway, "web");
        (found == list).then_some(item)
    })
}

/// Waits until `web` is unavailable for a reason like this.
#[track_caller]
fn fails_with(
    answer: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static,
    check: &str,
    why: &str,
) {
    let origin = Origin::answering(answer);
    let ringway = start(&origin, &format!("{QUICK}, {check}"));
    let item = becomes(&ringway, "unavailable");
    let detail = item["detail"].as_str().expect("there is a reason");
    assert!(detail.contains(why), "{detail}");
    ringway.stop();
}

#[track_caller]
fn passes_with(answer: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static, check: &str) {
    let origin = Origin::answering(answer);
    let ringway = start(&origin, &format!("{QUICK}, {check}"));
    becomes(&ringway, "available");
    ringway.stop();
}

#[test]
fn a_probe_is_sent_as_configured() {
    let origin = Origin::answering(|_| ok("x"));
    let check = "interval: 1h, verb: POST, path: /own/path, query: '?a=1 2', body: ping, \
                 headers: {X-Key: 'k-${KEY}'}";
    let ringway = Setup::new(yaml(origin.address(), check))
        .environment("KEY", "7")
        .start();
    let probe = origin.next_request();
    assert_eq!(probe.method, "POST");
    assert_eq!(
        probe.target, "/own/path?a=1%202",
        "the path replaces the origin's prefix"
    );
    assert_eq!(probe.header("x-key"), Some("k-7"));
    let host = origin.address().to_string();
    assert_eq!(probe.header("host"), Some(&*host));
    assert_eq!(probe.text(), "ping");
    assert!(
        probe
            .header("user-agent")
            .is_some_and(|agent| agent.starts_with("ringway/")),
        "{probe:?}"
    );
    ringway.stop();
}

#[test]
fn a_probe_goes_where_host_says_with_that_authority() {
    let (origin, other) = (
        Origin::answering(|_| ok("origin")),
        Origin::answering(|_| ok("other")),
    );
    let host = other.address().to_string();
    let ringway = start(&origin, &format!("interval: 1h, host: '{host}'"));
    let probe = other.next_request();
    assert_eq!(probe.header("host"), Some(&*host));
    assert_eq!(ringway.get("/").text(), "origin", "requests do not");
    ringway.stop();
}

#[test]
fn each_provider_has_a_probe_of_its_own() {
    for (provider, target) in [
        ("reverseproxy", "/base"),
        ("prometheus", "/base/api/v1/query?query=vector(1)"),
    ] {
        let origin = Origin::answering(|_| ok("x"));
        let yaml = yaml(origin.address(), "interval: 1h")
            .replace("provider: reverseproxy", &format!("provider: {provider}"));
        let ringway = Setup::new(yaml).start();
        let probe = origin.next_request();
        assert_eq!((&*probe.method, &*probe.target), ("GET", target));
        ringway.stop();
    }
}

#[test]
fn without_an_interval_nobody_probes() {
    let origin = Origin::answering(|_| ok("x"));
    let ringway = start(&origin, "timeout: 1s");
    assert_eq!(ringway.get("/asked").status, 200);
    let (list, _) = entry(&ringway, "web");
    assert_eq!(list, "unchecked");
    let targets: Vec<String> = origin.requests().into_iter().map(|r| r.target).collect();
    assert_eq!(targets, ["/base/asked"]);
    ringway.stop();
}

#[test]
fn only_expected_codes_pass() {
    fails_with(|_| status(204), "path: /", "expected [200] got 204");
    passes_with(|_| status(204), "expected_codes: [200, 203-205]");
    fails_with(
        |_| status(206),
        "expected_codes: [200, 203-205]",
        "expected [200 203-205] got 206",
    );
}

#[test]
fn expected_headers_must_all_be_there_and_equal() {
    let answer = |_: &Request| {
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-A: 1\r\nX-A: 9\r\nX-B: 2\r\n\r\n".to_vec()
    };
    passes_with(answer, "expected_headers: {x-a: '1', X-B: '2'}");
    fails_with(
        answer,
        "expected_headers: {X-A: '1', X-B: '3'}",
        "header mismatch",
    );
    fails_with(answer, "expected_headers: {X-C: '1'}", "\"X-C\"");
}

#[test]
fn an_expected_body_is_compared_whole_and_read_up_to_a_bound() {
    passes_with(|_| ok("well"), "expected_body: well");
    fails_with(|_| ok("well!"), "expected_body: well", "body mismatch");
    fails_with(
        |_| ok("x".repeat(70_000)),
        "expected_body: x",
        "longer than 65536 bytes",
    );
    passes_with(|_| ok("x".repeat(70_000)), "path: /");
}

#[test]
fn the_first_broken_expectation_is_told_code_then_headers_then_body() {
    let all = "expected_headers: {X-A: '1'}, expected_body: well";
    fails_with(|_| status(500), all, "status code mismatch");
    fails_with(|_| ok("ill"), all, "header mismatch");
    let with_header =
        |_: &Request| b"HTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Length: 3\r\n\r\nill".to_vec();
    fails_with(with_header, all, "body mismatch");
}

#[test]
fn redirects_are_not_followed() {
    let elsewhere = Origin::answering(|_| ok("x"));
    let location = elsewhere.address();
    fails_with(
        move |_| {
            format!(
                "HTTP/1.1 302 Found\r\nLocation: http://{location}/\r\nContent-Length: 0\r\n\r\n"
            )
            .into_bytes()
        },
        "path: /",
        "got 302",
    );
    assert_eq!(elsewhere.opened(), 0);
}

#[test]
fn a_transport_failure_is_told_with_its_cause() {
    let gone = Port::claim();
    let check = format!("{QUICK}, path: /");
    let ringway = Setup::new(yaml(gone.address(), &check)).start();
    let item = becomes(&ringway, "unavailable");
    let detail = item["detail"].as_str().expect("there is a reason");
    let wanted = format!("error probing target: dial tcp {}: ", gone.address());
    assert!(detail.starts_with(&wanted), "{detail}");
    ringway.stop();

    let silent = Origin::start(|conn| while conn.request().is_some() {});
    let check = QUICK.replace("timeout: 2s", "timeout: 100ms");
    let ringway = start(&silent, &check);
    let item = becomes(&ringway, "unavailable");
    assert_eq!(
        item["detail"],
        "error probing target: no answer within 100ms"
    );
    ringway.stop();
}

/// An origin that answers probes with these codes, the last one for ever; and how many it has answered.
fn scripted(codes: &'static [u16]) -> (Origin, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let origin = Origin::answering(move |_| {
        let turn = count.fetch_add(1, Ordering::SeqCst);
        status(codes[turn.min(codes.len() - 1)])
    });
    (origin, asked)
}

fn log_lines(ringway: &Ringway, event: &str) -> Vec<String> {
    let log = ringway.log();
    let lines = log.lines().filter(|line| line.contains(event));
    lines.map(str::to_owned).collect()
}

#[test]
fn only_results_in_a_row_flip() {
    // Each code is told apart, so that the log says which probe flipped.
    let (origin, _) = scripted(&[
        200, 500, 200, 200, 200, 501, 502, 200, 503, 504, 505, 200, 506, 200, 200, 507, 200, 200,
        200,
    ]);
    let ringway = start(&origin, "interval: 10ms, timeout: 2s");
    eventually("it is up, down and up again", || {
        (log_lines(&ringway, "backend is available").len() == 2).then_some(())
    });
    let down = log_lines(&ringway, "backend is unavailable");
    assert_eq!(down.len(), 1, "{down:?}");
    assert!(
        down[0].contains("from=1 to=-1 threshold=3") && down[0].contains("got 505"),
        "{down:?}"
    );
    let up = log_lines(&ringway, "backend is available");
    assert!(up[0].contains("from=0 to=1 threshold=3"), "{up:?}");
    assert!(up[1].contains("from=-1 to=1 threshold=3"), "{up:?}");
    becomes(&ringway, "available");
    ringway.stop();
}

#[test]
fn mixed_results_leave_a_backend_initializing_and_in_its_pool() {
    let turn = AtomicUsize::new(0);
    let origin = Origin::answering(move |request| match request.target.as_str() {
        "/base" if turn.fetch_add(1, Ordering::SeqCst) % 2 == 1 => status(500),
        _ => ok("x"),
    });
    let ringway = start(
        &origin,
        "interval: 10ms, timeout: 2s, failure_threshold: 2, recovery_threshold: 2",
    );
    let probes = || {
        ringway.metric(
            "ringway_healthcheck_probes_total",
            &[("backend_name", "web")],
        )
    };
    eventually("many probes have been counted", || {
        probes().filter(|count| *count >= 12.0)
    });
    assert_eq!(entry(&ringway, "web").0, "initializing");
    assert_eq!(ringway.get("/").status, 200);
    ringway.stop();
}

#[test]
fn a_member_that_is_down_gets_no_requests_until_it_is_up() {
    let (origin, well) = while_well();
    let ringway = start(&origin, QUICK);
    becomes(&ringway, "available");
    assert_eq!(ringway.get("/").status, 200);
    well.store(false, Ordering::SeqCst);
    becomes(&ringway, "unavailable");
    eventually("the pool is empty on all shards", || {
        (0..8).all(|_| ringway.get("/").status == 502).then_some(())
    });
    let live = || ringway.metric("ringway_alb_live_members", &[("backend_name", "lb")]);
    assert_eq!(live(), Some(0.0));
    assert_eq!(entry(&ringway, "lb").0, "unavailable");
    well.store(true, Ordering::SeqCst);
    let item = becomes(&ringway, "available");
    assert!(
        item["downSince"].is_null() && item["detail"].is_null(),
        "{item}"
    );
    eventually("it is asked again on all shards", || {
        (0..8).all(|_| ringway.get("/").status == 200).then_some(())
    });
    ringway.stop();
}

#[test]
fn a_reload_keeps_what_is_known_by_name() {
    let origin = Origin::answering(|_| status(500));
    let ringway = start(&origin, QUICK);
    let before = becomes(&ringway, "unavailable");
    // Nobody will probe for an hour, but for the first probe, which passes no verdict.
    let later = "interval: 1h, failure_threshold: 3";
    ringway.write_config(&yaml(origin.address(), later));
    ringway.signal(Signal::HUP);
    eventually("the new configuration is in force", || {
        (ringway.metric("ringway_plan_generation", &[])? == 2.0).then_some(())
    });
    let (list, after) = entry(&ringway, "web");
    assert_eq!(list, "unavailable");
    assert_eq!(after["downSince"], before["downSince"]);
    assert_eq!(ringway.get("/").status, 502);
    ringway.stop();
}

#[test]
fn a_floor_of_one_waits_for_the_first_verdict() {
    let may_pass = Arc::new(AtomicBool::new(false));
    let flag = may_pass.clone();
    let origin = Origin::answering(move |request| match request.target.as_str() {
        "/base" if !flag.load(Ordering::SeqCst) => status(500),
        _ => ok("x"),
    });
    let check = QUICK.replace("failure_threshold: 1", "failure_threshold: 1000000");
    let yaml =
        yaml(origin.address(), &check).replace("pool: [web]", "pool: [web], healthy_floor: 1");
    let ringway = Setup::new(yaml).start();
    assert_eq!(ringway.get("/").status, 502, "unknown is below 1");
    may_pass.store(true, Ordering::SeqCst);
    eventually("the first pass admits it", || {
        (ringway.get("/").status == 200).then_some(())
    });
    ringway.stop();
}

#[test]
fn floors_and_their_resets_are_gauges() {
    let origin = Origin::answering(|_| status(500));
    let address = origin.address();
    let mut yaml = format!(
        "backends:\n  probed: {{provider: rp, origin_url: 'http://{address}', healthcheck: {{{QUICK}}}}}\n  \
         unprobed: {{provider: rp, origin_url: 'http://{address}'}}\n"
    );
    for (name, members, floor) in [
        ("any", "probed", -1),
        ("strict", "probed", 1),
        ("reset", "probed, unprobed", 1),
        ("usual", "probed, unprobed", 0),
    ] {
        yaml.push_str(&format!(
            "  {name}: {{provider: alb, alb: {{mechanism: rr, pool: [{members}], healthy_floor: {floor}}}}}\n"
        ));
    }
    let ringway = Setup::new(yaml).start();
    eventually("the probed one is down", || {
        (entry(&ringway, "probed").0 == "unavailable").then_some(())
    });
    for (name, reset, admits, effective, live, configured) in [
        ("any", 0.0, 1.0, -1.0, 1.0, 1.0),
        ("strict", 0.0, 0.0, 1.0, 0.0, 1.0),
        ("reset", 1.0, 0.0, 0.0, 1.0, 2.0),
        ("usual", 0.0, 0.0, 0.0, 1.0, 2.0),
    ] {
        for (metric, value) in [
            ("trickster_alb_pool_floor_reset", reset),
            ("trickster_alb_pool_admits_failing", admits),
            ("ringway_alb_effective_floor", effective),
            ("ringway_alb_live_members", live),
            ("ringway_alb_configured_members", configured),
        ] {
            let found = ringway.metric(metric, &[("backend_name", name)]);
            assert_eq!(found, Some(value), "{metric} of {name}");
        }
    }
    assert!(
        log_lines(&ringway, "healthy_floor")
            .iter()
            .any(|line| line.contains("reset") && line.contains("unprobed")),
        "the reset is told with the member: {}",
        ringway.log()
    );
    ringway.stop();
}

#[test]
fn probes_are_counted_by_result_and_timed() {
    let (origin, well) = while_well();
    let ringway = start(&origin, QUICK);
    let web = ("backend_name", "web");
    let state = || ringway.metric("ringway_healthcheck_target_state", &[web]);
    becomes(&ringway, "available");
    assert_eq!(state(), Some(1.0));
    well.store(false, Ordering::SeqCst);
    becomes(&ringway, "unavailable");
    assert_eq!(state(), Some(-1.0));
    let count = |result| {
        let labels = [web, ("result", result)];
        ringway.metric("ringway_healthcheck_probes_total", &labels)
    };
    assert!(count("pass") >= Some(1.0) && count("fail") >= Some(1.0));
    let timed = ringway.metric("trickster_healthcheck_probe_latency_seconds_count", &[web]);
    assert!(timed >= Some(2.0), "{timed:?}");
    let panics = "trickster_healthcheck_probe_panic_recovered_total";
    assert_eq!(ringway.metric(panics, &[web]), Some(0.0));
    ringway.stop();
}

// === on demand ===

#[track_caller]
fn on_demand(ringway: &Ringway, method: &str, name: &str) -> Answer {
    let mut client = Client::connect(ringway.metrics_address());
    client
        .send(format!(
            "{method} /trickster/health/{name} HTTP/1.1\r\nHost: a\r\n\r\n"
        ))
        .answer_to(method)
}

#[test]
fn a_probe_on_demand_relays_the_answer_and_changes_nothing() {
    let origin = Origin::answering(|_| {
        b"HTTP/1.1 200 OK\r\nX-Who: me\r\nX-Who: other\r\nContent-Type: text/html\r\n\
          Content-Length: 4\r\n\r\nbody"
            .to_vec()
    });
    let ringway = start(&origin, "recovery_threshold: 1, query: x=1");
    let answer = on_demand(&ringway, "GET", "web");
    assert_eq!((answer.status, answer.text().as_str()), (200, "body"));
    assert_eq!(answer.header("x-who"), Some("me"), "first values");
    assert_eq!(answer.header("trk-hc-status"), Some("0"));
    assert_eq!(answer.header("trk-hc-detail"), None);
    assert_eq!(
        answer.header("content-security-policy"),
        Some("sandbox"),
        "what an origin says is no page of the listener"
    );
    assert_eq!(origin.next_request().target, "/base?x=1");
    assert_eq!(entry(&ringway, "web").0, "unchecked");
    eventually("HEAD is answered as GET without a body", || {
        (on_demand(&ringway, "HEAD", "web").status == 200).then_some(())
    });
    ringway.stop();
}

#[test]
fn a_probe_on_demand_says_what_is_known_of_the_backend() {
    let origin = Origin::answering(|_| status(500));
    let ringway = start(&origin, QUICK);
    becomes(&ringway, "unavailable");
    let answer = on_demand(&ringway, "GET", "web");
    assert_eq!(answer.status, 503, "an expectation fails");
    assert_eq!(answer.header("trk-hc-status"), Some("-1"));
    let detail = answer.header("trk-hc-detail").expect("it is down");
    assert!(detail.contains("expected [200] got 500"), "{detail}");
    assert_eq!(answer.header("trk-hc-origin-status"), Some("500"));
    ringway.stop();
}

#[test]
fn a_probe_on_demand_relays_only_the_beginning_of_a_long_body() {
    let origin = Origin::answering(|_| ok("x".repeat(200_000)));
    let ringway = start(&origin, "timeout: 2s");
    let answer = on_demand(&ringway, "GET", "web");
    assert_eq!((answer.status, answer.body.len()), (200, 65_536));
    ringway.stop();
}

#[test]
fn a_probe_on_demand_of_whom_nobody_answers_for_is_an_error() {
    let gone = Port::claim();
    let ringway = Setup::new(yaml(gone.address(), "timeout: 1s")).start();
    let answer = on_demand(&ringway, "GET", "web");
    assert_eq!(answer.status, 500);
    assert!(
        answer.text().starts_with("error probing target: dial tcp "),
        "{}",
        answer.text()
    );
    for unknown in ["nobody", "lb", "web/more", "default"] {
        assert_eq!(on_demand(&ringway, "GET", unknown).status, 404, "{unknown}");
    }
    let refused = on_demand(&ringway, "POST", "web");
    assert_eq!(refused.status, 405);
    assert_eq!(refused.header("allow"), Some("GET, HEAD"));
    ringway.stop();
}

#[test]
fn probes_on_demand_do_not_flood_an_origin() {
    let origin = Origin::answering(|_| ok("x"));
    let ringway = start(&origin, "timeout: 2s");
    let mut admitted = 0;
    let refused = eventually("one comes too soon", || {
        let answer = on_demand(&ringway, "GET", "web");
        admitted += usize::from(answer.status == 200);
        (answer.status == 429).then_some(answer)
    });
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(
        origin.requests().len(),
        admitted,
        "a refused one is not sent"
    );
    eventually("it is admitted later", || {
        (on_demand(&ringway, "GET", "web").status == 200).then_some(())
    });
    ringway.stop();
}
