//! What the suites of discovery share: configurations, who answers, and outages.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;

use ringway_wire::{Client, Origin, Ringway, eventually, ok};
use rustix::process::Signal;
use serde_json::Value;

use crate::discovery_stub::{broken_off, stuck};

/// Requests that are enough for each of a few members of a rotation to get one.
const ROUND: usize = 12;

/// What the log says of those who cannot be members.
pub(crate) const LEFT_OUT: &str = "left out: they cannot be members";

/// How many cannot be members now, by the metric.
pub(crate) fn excluded(ringway: &Ringway) -> f64 {
    let metric = ringway.metric("ringway_discovery_excluded", &[]);
    metric.expect("there is such a row")
}

/// A configuration with discoverer `src`, template `tpl` and the default ALB `lb` over both.
///
/// `discoverer` is the discoverer's keys, `discovery` what `alb.discovery` has beside both names.
pub(crate) fn sections(discoverer: &str, discovery: &str) -> String {
    sections_of(discoverer, discovery, "")
}

/// The same with further keys of the template.
pub(crate) fn sections_of(discoverer: &str, discovery: &str, template: &str) -> String {
    format!(
        "mgmt: {{reload_rate_limit: 0}}\ndiscovery:\n  src: {{{discoverer}}}\nbackends:\n  \
         tpl: {{provider: reverseproxy, is_template: true, {template}}}\n  \
         lb: {{provider: alb, is_default: true, alb: {{mechanism: rr, discovery: {{\
         discoverer_name: src, template_backend: tpl, {discovery}}}}}}}\n"
    )
}

/// An origin that answers its name.
pub(crate) fn named(name: &'static str) -> Origin {
    Origin::answering(move |_| ok(name))
}

/// Origins that answer their names.
pub(crate) fn all_named<const N: usize>(names: [&'static str; N]) -> [Origin; N] {
    names.map(named)
}

/// A member list of these addresses, in JSON, which is YAML too.
pub(crate) fn list(members: &[SocketAddr]) -> String {
    let entries = members
        .iter()
        .map(|address| format!("{{\"address\": \"{address}\"}}"));
    format!("[{}]", entries.collect::<Vec<_>>().join(", "))
}

/// Puts a whole file in the place of another, so that nobody reads a half of it.
pub(crate) fn replace(path: &Path, text: &str) {
    let aside = path.with_extension("new");
    std::fs::write(&aside, text).expect("the folder is ours");
    std::fs::rename(aside, path).expect("the folder is ours");
}

/// Says that a program is not here, past what captures the output of tests that pass. In CI, where nobody reads that,
/// the test fails.
#[track_caller]
pub(crate) fn is_missing(note: &str) {
    let is_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    assert!(!is_ci, "{note}");
    drop(std::io::stderr().write_all(format!("note: {note}\n").as_bytes()));
}

// === who answers ===

/// What some requests in a row are answered: bodies, or statuses other than 200.
pub(crate) fn picks(ringway: &Ringway, requests: usize) -> Vec<String> {
    let mut client = ringway.client();
    let answer = |_| {
        let answer = client.get("/");
        match answer.status {
            200 => answer.text(),
            status => status.to_string(),
        }
    };
    (0..requests).map(answer).collect()
}

/// Who answers now.
pub(crate) fn who(ringway: &Ringway) -> BTreeSet<String> {
    picks(ringway, ROUND).into_iter().collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(ToString::to_string).collect()
}

/// Waits until these and no others answer; `["502"]` stands for an empty pool.
#[track_caller]
pub(crate) fn becomes(ringway: &Ringway, names: &[&str]) {
    let mut last = BTreeSet::new();
    let wanted = set(names);
    let caller = std::panic::Location::caller();
    eventually(&format!("{names:?} answer, {caller}"), || {
        last = who(ringway);
        (last == wanted).then_some(())
    });
}

/// Checks that these and no others answer.
#[track_caller]
pub(crate) fn stays(ringway: &Ringway, names: &[&str]) {
    assert_eq!(who(ringway), set(names), "{}", ringway.log());
}

// === metrics ===

/// Failed readings so far.
pub(crate) fn errors(ringway: &Ringway) -> f64 {
    let name = "trickster_discovery_refresh_errors_total";
    ringway
        .metric(name, &[("discoverer", "src")])
        .unwrap_or(0.0)
}

/// Pool tables made so far under this configuration.
pub(crate) fn tables(ringway: &Ringway) -> f64 {
    let tables = ringway.metric("ringway_pool_tables_total", &[]);
    tables.expect("there is such a row")
}

/// When the source last answered.
fn refreshed(ringway: &Ringway) -> f64 {
    let name = "trickster_alb_discovery_last_refresh_success_time_seconds";
    ringway.metric(name, &[]).unwrap_or(0.0)
}

/// Snapshots with this result so far.
pub(crate) fn snapshots(ringway: &Ringway, result: &str) -> f64 {
    let name = "trickster_alb_discovery_snapshots_total";
    ringway.metric(name, &[("result", result)]).unwrap_or(0.0)
}

/// Waits until that many more readings have failed.
#[track_caller]
pub(crate) fn fails(ringway: &Ringway, more: u32) {
    let before = errors(ringway);
    eventually("readings fail", || {
        (errors(ringway) >= before + f64::from(more)).then_some(())
    });
}

/// Waits for a reading that began after now: the second that ends after it.
#[track_caller]
pub(crate) fn is_read(ringway: &Ringway) {
    for _ in 0..2 {
        let before = refreshed(ringway);
        eventually("the source is read", || {
            (refreshed(ringway) > before).then_some(())
        });
    }
}

/// Waits until that many more snapshots were rejected.
#[track_caller]
pub(crate) fn is_rejected(ringway: &Ringway, change: impl FnOnce()) {
    let before = snapshots(ringway, "rejected");
    change();
    eventually("a snapshot is rejected", || {
        (snapshots(ringway, "rejected") > before).then_some(())
    });
}

/// Log lines with this text.
pub(crate) fn lines(ringway: &Ringway, text: &str) -> usize {
    let log = ringway.log();
    log.lines().filter(|line| line.contains(text)).count()
}

/// Waits until the log has a line with this text: it is written by a thread of its own, so what a line tells of may be
/// seen elsewhere before.
#[track_caller]
pub(crate) fn is_logged(ringway: &Ringway, text: &str) {
    eventually(&format!("{text:?} is logged"), || {
        (lines(ringway, text) > 0).then_some(())
    });
}

/// Waits until the log has so many lines with this text, and checks that it has no more.
#[track_caller]
pub(crate) fn is_logged_times(ringway: &Ringway, times: usize, text: &str) {
    eventually(&format!("{text:?} is logged {times} times"), || {
        (lines(ringway, text) >= times).then_some(())
    });
    assert_eq!(lines(ringway, text), times, "{text:?}: {}", ringway.log());
}

/// A source that is down for several readings in a row: members stay, all failures are counted, one line is logged,
/// and one when it is back.
#[track_caller]
pub(crate) fn outage(ringway: &Ringway, members: &[&str], down: impl FnOnce(), up: impl FnOnce()) {
    const FAILS: &str = "discovery fails, members stay as they are";
    const WORKS: &str = "discovery works again";
    let (fails_before, works_before) = (lines(ringway, FAILS), lines(ringway, WORKS));
    let tables_before = tables(ringway);
    down();
    fails(ringway, 2);
    stays(ringway, members);
    is_logged_times(ringway, fails_before + 1, FAILS);
    assert_eq!(lines(ringway, WORKS), works_before, "{}", ringway.log());
    up();
    is_logged_times(ringway, works_before + 1, WORKS);
    stays(ringway, members);
    assert_eq!(lines(ringway, FAILS), fails_before + 1, "{}", ringway.log());
    assert_eq!(tables(ringway), tables_before, "nothing has changed");
}

/// A source that takes requests and answers none in time, neither at all nor to the end: members stay, that is a failure
/// like others, and it works again once it answers. `send` gives out bytes in place of answers, or answers again;
/// `other` is an answer with other members.
#[track_caller]
pub(crate) fn silence(
    ringway: &Ringway,
    members: &[&str],
    other: &[u8],
    send: impl Fn(Option<Vec<u8>>),
) {
    const LATE: &str = "no answer within";
    let late_before = lines(ringway, LATE);
    let down = || {
        send(Some(Vec::new()));
        fails(ringway, 1);
        send(Some(stuck(other)));
    };
    outage(ringway, members, down, || send(None));
    assert_eq!(lines(ringway, LATE), late_before + 1, "{}", ringway.log());
}

/// A source whose answer ends before all of it has come, though all of a document with other members is there: members
/// stay, that is a failure like others, and it works again. `send` is as in [`silence`].
#[track_caller]
pub(crate) fn breaks_off(
    ringway: &Ringway,
    members: &[&str],
    other: &[u8],
    send: impl Fn(Option<Vec<u8>>),
) {
    let down = || send(Some(broken_off(other)));
    outage(ringway, members, down, || send(None));
    assert_eq!(lines(ringway, "the answer broke off"), 1);
}

/// Answers that cannot be read: each fails, and members stay.
#[track_caller]
pub(crate) fn garbage<T>(
    ringway: &Ringway,
    members: &[&str],
    documents: impl IntoIterator<Item = T>,
    write: impl Fn(T),
) {
    for document in documents {
        write(document);
        fails(ringway, 1);
        stays(ringway, members);
    }
}

// === the status page ===

/// The list of the status page that a backend is in, and its entry there.
pub(crate) fn row(ringway: &Ringway, name: &str) -> Option<(String, Value)> {
    let page = Client::connect(ringway.metrics_address()).get("/trickster/health?json");
    let page: Value = serde_json::from_slice(&page.body).expect("it is JSON");
    for list in ["available", "unavailable", "initializing", "unchecked"] {
        let mut items = page[list].as_array().into_iter().flatten();
        if let Some(item) = items.find(|item| item["name"] == name) {
            return Some((list.to_owned(), item.clone()));
        }
    }
    None
}

/// Waits until a backend is in this list of the status page.
#[track_caller]
pub(crate) fn is_listed(ringway: &Ringway, name: &str, list: &str) -> Value {
    eventually(&format!("{name} is {list}"), || {
        let (found, item) = row(ringway, name)?;
        (found == list).then_some(item)
    })
}

// === reloads ===

/// Reloads the file as it is now and waits until every shard serves it.
#[track_caller]
pub(crate) fn reload(ringway: &Ringway) {
    let generation = || ringway.metric("ringway_plan_generation", &[]);
    let before = generation();
    ringway.signal(Signal::HUP);
    eventually("the reload is taken into force", || {
        (generation() > before).then_some(())
    });
}
