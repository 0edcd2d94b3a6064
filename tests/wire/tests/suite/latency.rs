//! Simulated latency: in front of the backend that the client asks, and nobody else waits.

use std::time::{Duration, Instant};

use ringway_wire::{Answer, Origin, Setup, ok};

#[track_caller]
fn told(answer: &Answer) -> Option<u64> {
    let value = answer.header("x-simulated-latency")?;
    let millis = value.strip_suffix("ms").expect("it ends with the unit");
    Some(millis.parse().expect("a whole number"))
}

#[test]
fn the_pause_is_made_and_told_whatever_the_answer() {
    let origin = Origin::answering(|_| ok("x"));
    let keys = "latency_min: 20ms\nlatency_max: 30ms\npaths:\n\
                - {path: /l, handler: localresponse}\n- {path: /m, methods: [PUT]}";
    let ringway = Setup::web(origin.address(), keys).start();
    for (path, status) in [("/", 200), ("/l", 200), ("/m", 405)] {
        let begun = Instant::now();
        let answer = ringway.get(path);
        assert_eq!(answer.status, status);
        let told = told(&answer).expect("it is told");
        assert!((20..=30).contains(&told), "{told}");
        assert!(begun.elapsed() >= Duration::from_millis(told), "{told}");
    }
    ringway.stop();
}

#[test]
fn only_the_backend_that_the_client_asks_pauses() {
    let origin = Origin::answering(|_| ok("x"));
    let ringway = Setup::new(format!(
        "backends:\n  slow:\n    provider: reverseproxy\n    origin_url: http://{}\n    latency_min: 5ms\n  \
         lb:\n    provider: alb\n    is_default: true\n    alb: {{pool: [slow]}}\n",
        origin.address()
    ))
    .start();
    assert_eq!(told(&ringway.get("/")), None);
    assert_eq!(told(&ringway.get("/slow/")), Some(5));
    ringway.stop();
}

#[test]
fn others_are_served_while_one_waits() {
    let origin = Origin::answering(|_| ok("x"));
    let address = origin.address();
    let ringway = Setup::new(format!(
        "backends:\n  slow:\n    provider: reverseproxy\n    origin_url: http://{address}\n    latency_min: 5m\n  \
         quick:\n    provider: reverseproxy\n    origin_url: http://{address}\n    is_default: true\n"
    ))
    .shards(1)
    .start();
    let mut waiting = ringway.client();
    waiting.send("GET /slow/ HTTP/1.1\r\nHost: a\r\n\r\n");
    // On the one shard there is.
    for _ in 0..3 {
        assert_eq!(ringway.get("/").text(), "x");
    }
    assert!(
        origin
            .requests()
            .iter()
            .all(|request| request.target == "/")
    );
    drop(waiting);
    ringway.stop();
}
