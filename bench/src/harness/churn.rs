//! The churn scenario: is a request lost while members are killed, stopped, restarted and slowed, and the
//! configuration is reloaded all the time?
//!
//! Four origins stand behind one ALB; the first is always fine, the others go through [`SCRIPT`] again and again.
//! Two generators offer GET and POST in the open loop. A GET is idempotent: not one may fail. A POST that a member
//! had when it died cannot be saved by anybody; those are counted apart.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::Signal;
use serde::Serialize;

use super::Options;
use super::launch::{Place, Share};
use super::measure::{Load, Offered, Sample, connect};
use super::process::{Process, signal};
use super::proxy::{Program, Proxy, Setup, beside_this};
use super::report;
use super::run::start_origin;
use super::usage::Usage;
use crate::clock::pause;

const CONFIG: &str = include_str!("../../peers/ringway-churn.yaml");
/// Names of the members, as in the configuration.
const MEMBERS: [&str; 4] = ["zero", "one", "two", "three"];
/// Share of the requests that are GET.
const GET_SHARE: f64 = 0.7;
/// Connections of each generator: what a stopped member holds for seconds must not hold the load.
const CONNECTIONS: usize = 1500;
/// Time between two reloads.
const RELOAD_EVERY: Duration = Duration::from_secs(2);
/// Longest a request may take before it counts as failed: a stopped member holds its POSTs for some seconds.
const TIMEOUT: &str = "20s";
/// How slow a slow member is.
const SLOW: &str = "150ms";
/// Bytes of each POST.
const BODY_BYTES: usize = 700;

/// What happens to a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// SIGKILL: it is gone, and its connections are reset.
    Kill,
    /// SIGSTOP: its connections are open and nobody answers.
    Stop,
    /// SIGCONT.
    Continue,
    /// It starts anew on its old port, after SIGKILL if it runs.
    Restart,
    /// It starts anew and takes its time.
    Slow,
}

/// Seconds of a round, and what happens then to whom.
const SCRIPT: [(u64, Event, usize); 12] = [
    (1, Event::Kill, 1),
    (2, Event::Stop, 2),
    (3, Event::Restart, 1),
    (5, Event::Continue, 2),
    (6, Event::Slow, 3),
    (7, Event::Stop, 1),
    (8, Event::Kill, 2),
    (10, Event::Continue, 1),
    (10, Event::Restart, 2),
    (11, Event::Kill, 3),
    (11, Event::Stop, 2),
    (13, Event::Restart, 3),
];
/// Seconds of a round; what is stopped then goes on.
const ROUND: u64 = 14;

/// What the scenario found.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Churn {
    /// What may never fail.
    pub(super) get: Sample,
    /// What may fail where its member died with it.
    pub(super) post: Sample,
    /// Events that happened to members.
    pub(super) events: usize,
    /// Reloads.
    pub(super) reloads: usize,
    /// Resident memory after a second, and at the end.
    pub(super) rss_bytes: [u64; 2],
    /// What ringway counted, by metric.
    pub(super) counted: Vec<(&'static str, f64)>,
}

impl Churn {
    /// GETs that were not answered with 200.
    pub(super) fn lost(&self) -> u64 {
        failed(&self.get)
    }

    /// The findings for people.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "churn: {} events, {} reloads; resident {} MB after a second, {} MB at the end",
            self.events,
            self.reloads,
            self.rss_bytes[0] >> 20,
            self.rss_bytes[1] >> 20,
        )];
        for (name, sample) in [("GET", &self.get), ("POST", &self.post)] {
            let latency = sample.load.latency.map(|latency| latency.to_string());
            lines.push(format!(
                "churn: {name}: {} answered, {} failed (by status {:?}; {:?}); {}",
                sample.load.answers_total,
                failed(sample),
                sample.load.statuses,
                sample.load.errors,
                latency.unwrap_or_default(),
            ));
        }
        let counts: Vec<_> = self
            .counted
            .iter()
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        lines.push(format!("churn: {}", counts.join(", ")));
        lines
    }
}

fn failed(sample: &Sample) -> u64 {
    let good = sample.load.statuses.get(&200).copied().unwrap_or(0);
    sample.load.answers_total - good + sample.load.errors.total()
}

/// An origin that can be started again.
struct Member {
    number: usize,
    address: SocketAddr,
    process: Option<Process>,
}

impl Member {
    fn suffer(&mut self, event: Event, place: Place, dir: &Path) -> Result<()> {
        match event {
            Event::Kill => self.end(),
            Event::Stop => self.send(Signal::STOP),
            Event::Continue => self.send(Signal::CONT),
            Event::Restart => self.start("0s", place, dir)?,
            Event::Slow => self.start(SLOW, place, dir)?,
        }
        Ok(())
    }

    fn send(&self, what: Signal) {
        if let Some(process) = &self.process {
            signal(process.pid(), what);
        }
    }

    /// Ends it at once; what it had in flight is reset.
    fn end(&mut self) {
        self.send(Signal::KILL);
        self.process = None;
    }

    /// Starts it without waiting until it listens.
    fn start(&mut self, delay: &str, place: Place, dir: &Path) -> Result<()> {
        self.end();
        let program = beside_this("ringway-origin").context("ringway-origin is not beside this")?;
        let arguments = [
            "--number",
            &self.number.to_string(),
            "--listen",
            &self.address.to_string(),
            "--delay",
            delay,
        ]
        .map(str::to_owned);
        let name = MEMBERS[self.number];
        self.process = Some(Process::start(name, place, &program, &arguments, dir)?);
        Ok(())
    }
}

/// Runs the scenario.
pub(super) fn churn(options: &Options, program: &Program, setup: &Setup<'_>) -> Result<Churn> {
    let place = Place {
        cpu: None,
        share: Share::Nice(setup.nice),
    };
    let mut members = Vec::new();
    for (number, name) in MEMBERS.iter().enumerate() {
        let (process, address) = start_origin(number, name, place, setup.dir)?;
        members.push(Member {
            number,
            address,
            process: Some(process),
        });
    }
    let ports: Vec<_> = members
        .iter()
        .map(|member| member.address.port().to_string())
        .collect();
    let values = [
        ("ORIGIN_0_PORT", ports[0].clone()),
        ("ORIGIN_1_PORT", ports[1].clone()),
        ("ORIGIN_2_PORT", ports[2].clone()),
        ("ORIGIN_3_PORT", ports[3].clone()),
        ("CONNECTIONS_LIMIT", "10000".to_owned()),
        ("CONNECTIONS_MAX", "4000".to_owned()),
    ];
    let proxy = program.start_with(CONFIG, setup, &values)?;
    let body = setup.dir.join("body");
    fs::write(&body, vec![b'x'; BODY_BYTES]).context("cannot write the body")?;
    let body = body.display().to_string();
    let timeout = ["--timeout".to_owned(), TIMEOUT.to_owned()];
    let post = [&timeout[..], &["--body".to_owned(), body]].concat();
    let load = |share: f64| Load {
        path: "/".to_owned(),
        connections: CONNECTIONS,
        rate: Some(options.churn_rate * share),
        window: options.churn_window,
        place,
    };
    let get = Offered::start_with(proxy.address, &load(GET_SHARE), None, &timeout)?;
    let post = Offered::start_with(proxy.address, &load(1.0 - GET_SHARE), None, &post)?;
    pause(Duration::from_secs(1));
    let before = Usage::of_tree(proxy.process.pid())?.rss_bytes;
    let (events, reloads) = disturb(options, &mut members, &proxy, setup, place)?;
    let (get, post) = (get.finish().context("GET")?, post.finish().context("POST")?);
    let counted = counted(proxy.metrics)?;
    Ok(Churn {
        get,
        post,
        events,
        reloads,
        rss_bytes: [before, Usage::of_tree(proxy.process.pid())?.rss_bytes],
        counted,
    })
}

/// Lets the script happen, and reloads, until the load ends. Returns the number of both.
fn disturb(
    options: &Options,
    members: &mut [Member],
    proxy: &Proxy,
    setup: &Setup<'_>,
    place: Place,
) -> Result<(usize, usize)> {
    let began = Instant::now();
    let until = options.churn_window.saturating_sub(Duration::from_secs(1));
    let (mut events, mut reloads, mut second) = (0, 0, 0);
    while began.elapsed() < until {
        pause(Duration::from_millis(10));
        if began.elapsed() >= RELOAD_EVERY * u32::try_from(reloads + 1).unwrap_or(u32::MAX) {
            reloads += 1;
            reload(proxy, setup.dir, reloads)?;
        }
        if began.elapsed().as_secs() < second {
            continue;
        }
        let due = SCRIPT.iter().filter(|(at, _, _)| *at == second % ROUND);
        for &(_, event, member) in due {
            report::progress(&format!("churn: {second} s: {event:?} {}", MEMBERS[member]));
            members[member].suffer(event, place, setup.dir)?;
            events += 1;
        }
        if second % ROUND == 0 {
            members.iter().for_each(|member| member.send(Signal::CONT));
        }
        second += 1;
    }
    members.iter().for_each(|member| member.send(Signal::CONT));
    Ok((events, reloads))
}

/// Changes a value of the listener and of each member, and reloads.
fn reload(proxy: &Proxy, dir: &Path, count: usize) -> Result<()> {
    let file = dir.join("ringway.yaml");
    let text = fs::read_to_string(&file).context("cannot read the configuration")?;
    let changed: Vec<_> = text
        .lines()
        .map(|line| match line.split_once(':') {
            Some((key, _)) if key.trim() == "connections_limit" => {
                format!("{key}: {}", 10_000 + count)
            }
            Some((key, _)) if key.trim() == "max_concurrent_conns" => {
                format!("{key}: {}", 4_000 + count)
            }
            _ => line.to_owned(),
        })
        .collect();
    fs::write(&file, changed.join("\n")).context("cannot write the configuration")?;
    signal(proxy.process.pid(), Signal::HUP);
    Ok(())
}

/// Sums of the counters that tell what retries did.
fn counted(metrics: SocketAddr) -> Result<Vec<(&'static str, f64)>> {
    let text = metrics_text(metrics)?;
    let names = [
        "trickster_proxy_upstream_retries_total",
        "ringway_alb_retry_budget_exhausted_total",
        "ringway_member_resends_total",
        "ringway_member_retries_total",
        "ringway_member_failovers_total",
        "trickster_config_reload_successes_total",
        "ringway_shard_panics_total",
    ];
    Ok(names.map(|name| (name, sum(&text, name))).to_vec())
}

/// All metrics, as text.
pub(super) fn metrics_text(metrics: SocketAddr) -> Result<String> {
    let mut stream = connect(metrics)?;
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")
        .context("cannot ask for the metrics")?;
    let mut text = String::new();
    stream
        .read_to_string(&mut text)
        .context("cannot read the metrics")?;
    Ok(text)
}

/// The sum of all series of a metric.
pub(super) fn sum(text: &str, name: &str) -> f64 {
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let is_it = rest.starts_with(['{', ' ']);
        let value = rest.rsplit(' ').next()?.trim();
        is_it.then(|| value.parse::<f64>().ok())?
    });
    values.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_leaves_the_first_member_alone_and_every_other_one_running() {
        let mut last = [Event::Restart; MEMBERS.len()];
        let mut before = 0;
        for (at, event, member) in SCRIPT {
            assert!(member != 0, "one member is always fine");
            assert!(at >= before && at < ROUND, "in order, within the round");
            before = at;
            last[member] = event;
        }
        // What is stopped at the end of a round goes on with the next.
        assert!(!last.contains(&Event::Kill), "{last:?}");
    }

    #[test]
    fn series_of_one_metric_are_added_up() {
        let text = "# HELP a_total x\na_total{n=\"1\"} 2\na_total{n=\"2\"} 3\na_total_b 9\r\nb 1\n";
        assert_eq!(sum(text, "a_total"), 5.0);
        assert_eq!(sum(text, "b"), 1.0);
        assert_eq!(sum(text, "c"), 0.0);
    }
}
