//! A model server that answers in 1 ms, except that it stops for one second in the middle.

use super::super::pace::Pace;
use super::*;

const MS: u64 = 1_000_000;
const STALL: Range<u64> = 4_000 * MS..5_000 * MS;

/// When the model server answers what reached it at `at`.
fn answer_at(at: u64) -> u64 {
    let begun = if STALL.contains(&at) { STALL.end } else { at };
    begun + MS
}

fn recorder(rate: Option<f64>, expected_interval_ns: Option<u64>) -> Recorder {
    let offer = Offer {
        url: "u".into(),
        connections: 1,
        rate,
        expected_interval_ns,
    };
    Recorder::new(0..10 * SECOND_NS, offer)
}

fn closed_loop(expected_interval_ns: Option<u64>) -> Summary {
    let mut recorder = recorder(None, expected_interval_ns);
    let mut now = 0;
    while now < 10 * SECOND_NS {
        let sent = Sent {
            due_ns: now,
            sent_ns: now,
            free_ns: now,
        };
        now = answer_at(now);
        recorder.answered(sent, now, 200, 10);
    }
    recorder.finish()
}

/// One connection, like the closed loop, at just the rate that it reaches.
fn open_loop() -> Summary {
    let mut recorder = recorder(Some(1000.0), None);
    let mut pace = Pace::new(0, 10 * SECOND_NS, 1000.0);
    let mut free_ns = 0;
    while let Some(due_ns) = pace.take(u64::MAX) {
        let sent_ns = due_ns.max(free_ns);
        let done = answer_at(sent_ns);
        recorder.answered(
            Sent {
                due_ns,
                sent_ns,
                free_ns,
            },
            done,
            200,
            10,
        );
        free_ns = done;
    }
    recorder.finish()
}

/// Within what two roundings to three digits, of the value and of the interval, can shift it.
fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= expected * 0.005
}

#[test]
fn the_closed_loop_hides_a_stall_and_the_correction_shows_it() {
    let summary = closed_loop(None);
    let (raw, corrected) = (summary.latency.unwrap(), summary.corrected.unwrap());
    // 9,000 answers, one of them slow: as measured, not even p99.9 knows about the stall.
    assert_eq!(summary.answers_total, 9_000);
    assert!(
        near(raw.p999, 1_000.0) && near(raw.max, 1_000_000.0),
        "{raw:?}"
    );
    // 1,000 requests did not go out in that second. They would have waited 1,000 ms, 999 ms, ... so
    // of 10,000 the slowest 100 waited 900 ms or longer.
    assert!(near(corrected.p99, 901_000.0), "{corrected:?}");
    assert!(near(corrected.p50, 1_000.0), "{corrected:?}");
    assert!(near(summary.expected_interval_us.unwrap(), 1_000.0));
}

#[test]
fn the_given_interval_replaces_the_median() {
    let summary = closed_loop(Some(100 * MS));
    // Only nine requests are missing now: beside the one of 1,001 ms they waited 901, ... 101 ms. Of
    // 9,009 in all, the 9 slowest are above p99.9: it is the quickest of those ten.
    let corrected = summary.corrected.unwrap();
    assert!(
        near(corrected.p99, 1_000.0) && near(corrected.p999, 101_000.0),
        "{corrected:?}"
    );
    assert_eq!(summary.expected_interval_us, Some(100_000.0));
}

#[test]
fn the_open_loop_counts_from_the_due_time() {
    let latency = open_loop().latency.unwrap();
    // The connection never catches up (1 ms each, 1,000/s), so all due after 4 s wait a second.
    assert!(near(latency.p50, 1_000_000.0), "{latency:?}");
    assert!(near(latency.min, 1_000.0), "{latency:?}");
    let lag = open_loop().generator_lag.unwrap();
    assert!(lag.max <= 1.0, "the generator was never late: {lag:?}");
}

#[test]
fn what_a_stall_left_unsent_or_unanswered_is_recorded() {
    let mut recorder = recorder(Some(1.0), None);
    let sent = Sent {
        due_ns: SECOND_NS,
        sent_ns: SECOND_NS,
        free_ns: 0,
    };
    recorder.failed(Some(sent), 3 * SECOND_NS, Failure::Timeout);
    recorder.failed(Some(sent), 4 * SECOND_NS, Failure::Unfinished);
    recorder.failed(Some(sent), SECOND_NS + 1, Failure::Broken);
    recorder.failed(Some(sent), SECOND_NS + 1, Failure::Malformed);
    recorder.failed(None, SECOND_NS, Failure::Connect);
    let summary = recorder.finish();
    let latency = summary.latency.unwrap();
    assert!(
        near(latency.min, 2e6) && near(latency.max, 3e6),
        "{latency:?}"
    );
    assert_eq!(summary.errors.total(), 5);
    assert_eq!((summary.answers, summary.per_second), (0, 0.0));
}

#[test]
fn warm_up_counts_for_the_totals_only() {
    let offer = Offer {
        url: "u".into(),
        connections: 1,
        rate: None,
        expected_interval_ns: None,
    };
    let mut recorder = Recorder::new(SECOND_NS..2 * SECOND_NS, offer);
    for at in [0, SECOND_NS - 1, SECOND_NS, 2 * SECOND_NS - MS] {
        recorder.answered(
            Sent {
                due_ns: at,
                sent_ns: at,
                free_ns: at,
            },
            at + 1,
            200,
            7,
        );
    }
    let summary = recorder.finish();
    assert_eq!((summary.answers_total, summary.body_bytes_total), (4, 28));
    // The second completed inside the window, though it was sent before it.
    assert_eq!(summary.answers, 3);
    assert_eq!(summary.statuses[&200], 4);
}
