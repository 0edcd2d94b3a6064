//! The members scenario: what a change of one member costs in a large pool, and what many pools of one source cost
//! that source.
//!
//! The harness plays a Consul whose blocking queries are answered the moment a member changes. First one pool of
//! thousands, of weights from 1 to 10, in which one member after another is replaced; ringway itself says how long each
//! change took from when the answer was read to the last shard that served it, the kernel what its control threads used
//! meanwhile, reading included. Then many pools with the same query, and how many queries are open.

#![expect(
    clippy::disallowed_types,
    reason = "the harness is no shard: its Consul is a thread per connection over one state"
)]

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::churn::{metrics_text, sum};
use super::proxy::{Program, Proxy, Setup};
use super::usage::thread_cpu_ns;
use crate::clock::pause;

const CONFIG: &str = include_str!("../../peers/ringway-members.yaml");
/// Members of the large pool.
const MEMBERS: usize = 2000;
/// Replaced one after another.
const CHANGES: usize = 20;
/// Pools that share a source.
const POOLS: usize = 200;
/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the scenario found.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Members {
    /// Members of the large pool.
    pub(super) members: usize,
    /// Changes of one member.
    pub(super) changes: usize,
    /// From when the answer of the source was read until every shard served the change, on average.
    pub(super) spread_mean_ms: f64,
    /// The longest of those.
    pub(super) spread_max_ms: f64,
    /// CPU time of all threads but the shards' for one change, reading the answer included.
    pub(super) control_cpu_ms: f64,
    /// CPU time of both shards for one change.
    pub(super) shard_cpu_ms: f64,
    /// Pools of the second part.
    pub(super) pools: usize,
    /// Queries that were open for all of them.
    pub(super) open_queries: usize,
}

impl Members {
    /// The findings for people.
    pub(super) fn lines(&self) -> Vec<String> {
        vec![
            format!(
                "members: {} changes in a pool of {}: served by every shard after {:.1} ms (mean), {:.1} ms (most); \
                 CPU of a change: {:.1} ms control, {:.2} ms both shards",
                self.changes,
                self.members,
                self.spread_mean_ms,
                self.spread_max_ms,
                self.control_cpu_ms,
                self.shard_cpu_ms,
            ),
            format!(
                "members: {} pools of one query: {} open at the source",
                self.pools, self.open_queries
            ),
        ]
    }
}

/// Runs the scenario.
pub(super) fn members(program: &Program, setup: &Setup<'_>) -> Result<Members> {
    let consul = Consul::start(MEMBERS)?;
    let proxy = start(program, setup, &consul, 1)?;
    wait_for(&proxy, "trickster_alb_discovery_members", MEMBERS as f64)?;
    // The source is waited for: what comes first is not part of a change.
    consul.wait_until_asked()?;
    let pid = proxy.process.pid();
    // A scrape of thousands of members costs more than a change, and is none.
    let served_before = spreads(&proxy)?;
    let before = thread_cpu_ns(pid)?;
    for change in 0..CHANGES {
        consul.replace(change);
        consul.wait_until_asked()?;
        pause(Duration::from_millis(150));
    }
    let after = thread_cpu_ns(pid)?;
    let changes = served_before.0 + CHANGES as f64;
    wait_for(&proxy, "ringway_discovery_spread_seconds_count", changes)?;
    let served = spreads(&proxy)?;
    let max = sum(
        &metrics_text(proxy.metrics)?,
        "ringway_discovery_spread_seconds_max",
    );
    drop(proxy);
    let (control, shards) = (after.0 - before.0, after.1 - before.1);
    let consul = Consul::start(1)?;
    let proxy = start(program, setup, &consul, POOLS)?;
    wait_for(&proxy, "trickster_alb_discovery_members", POOLS as f64)?;
    consul.wait_until_asked()?;
    let each = |ns: u64| ns as f64 / 1e6 / CHANGES as f64;
    Ok(Members {
        members: MEMBERS,
        changes: CHANGES,
        spread_mean_ms: (served.1 - served_before.1) * 1e3 / CHANGES as f64,
        spread_max_ms: max * 1e3,
        control_cpu_ms: each(control),
        shard_cpu_ms: each(shards),
        pools: POOLS,
        open_queries: consul.open(),
    })
}

fn start(program: &Program, setup: &Setup<'_>, consul: &Consul, pools: usize) -> Result<Proxy> {
    let alb = |number: usize| {
        format!(
            "  pool{number}:\n    provider: alb\n    alb:\n      mechanism: rr\n      discovery: {{discoverer_name: \
             registry, template_backend: template, query: {{service: web}}}}\n"
        )
    };
    let values = [
        ("CONSUL_PORT", consul.address.port().to_string()),
        ("ALBS", (0..pools).map(alb).collect()),
    ];
    program.start_with(CONFIG, setup, &values)
}

/// Changes that every shard serves, and the sum of their times in seconds.
fn spreads(proxy: &Proxy) -> Result<(f64, f64)> {
    let text = metrics_text(proxy.metrics)?;
    let of = |name| sum(&text, name);
    Ok((
        of("ringway_discovery_spread_seconds_count"),
        of("ringway_discovery_spread_seconds_sum"),
    ))
}

fn wait_for(proxy: &Proxy, metric: &str, value: f64) -> Result<()> {
    let steps = 100;
    for _ in 0..steps {
        if sum(&metrics_text(proxy.metrics)?, metric) >= value {
            return Ok(());
        }
        pause(PATIENCE / steps);
    }
    bail!("{metric} did not reach {value} within {PATIENCE:?}")
}

/// A Consul with one service, as far as a blocking query sees it.
struct Consul {
    address: SocketAddr,
    state: Arc<(Mutex<State>, Condvar)>,
}

struct State {
    /// Of each member, how often it was replaced.
    members: Vec<usize>,
    index: u64,
    /// Queries that wait for the next index.
    open: usize,
    /// Index that somebody was last seen to wait behind.
    waited: u64,
}

impl Consul {
    fn start(members: usize) -> Result<Consul> {
        let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen as a Consul")?;
        let address = listener.local_addr()?;
        let state = Arc::new((
            Mutex::new(State {
                members: vec![0; members],
                index: 10,
                open: 0,
                waited: 0,
            }),
            Condvar::new(),
        ));
        let shared = state.clone();
        // Ends with the harness.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = shared.clone();
                std::thread::spawn(move || answer_all(stream, &shared));
            }
        });
        Ok(Consul { address, state })
    }

    /// Another address for one member.
    fn replace(&self, member: usize) {
        let (state, bell) = &*self.state;
        let mut state = state.lock().unwrap_or_else(|e| e.into_inner());
        state.members[member] += 1;
        state.index += 1;
        bell.notify_all();
    }

    /// Waits until a query is open for what comes after the last change.
    fn wait_until_asked(&self) -> Result<()> {
        let (state, bell) = &*self.state;
        let state = state.lock().unwrap_or_else(|e| e.into_inner());
        let asked = bell.wait_timeout_while(state, PATIENCE, |s| s.waited != s.index);
        let asked = asked.unwrap_or_else(|e| e.into_inner());
        if asked.1.timed_out() {
            bail!("nobody waits for a change within {PATIENCE:?}");
        }
        Ok(())
    }

    fn open(&self) -> usize {
        let (state, _) = &*self.state;
        state.lock().unwrap_or_else(|e| e.into_inner()).open
    }
}

/// Serves one connection until it ends.
fn answer_all(stream: TcpStream, shared: &(Mutex<State>, Condvar)) {
    let Ok(mut writer) = stream.try_clone() else {
        return;
    };
    let mut reader = BufReader::new(stream);
    while let Some(held) = read_index(&mut reader) {
        let (state, bell) = shared;
        let mut state = state.lock().unwrap_or_else(|e| e.into_inner());
        if held == state.index {
            state.open += 1;
            state.waited = held;
            bell.notify_all();
            state = bell
                .wait_while(state, |state| state.index == held)
                .unwrap_or_else(|e| e.into_inner());
            state.open -= 1;
        }
        let body = body(&state.members);
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Consul-Index: {}\r\nContent-Length: {}\r\n\r\n",
            state.index,
            body.len()
        );
        drop(state);
        let sent = writer.write_all(head.as_bytes());
        if sent
            .and_then(|()| writer.write_all(body.as_bytes()))
            .is_err()
        {
            return;
        }
    }
}

/// The index that a request holds; `None` when there is no further request.
fn read_index(reader: &mut BufReader<TcpStream>) -> Option<u64> {
    let mut line = String::new();
    reader
        .read_line(&mut line)
        .ok()
        .filter(|count| *count > 0)?;
    let index = line
        .split(['?', '&', ' '])
        .find_map(|part| part.strip_prefix("index="));
    let index = index.and_then(|text| text.parse().ok()).unwrap_or(0);
    while line != "\r\n" {
        line.clear();
        reader
            .read_line(&mut line)
            .ok()
            .filter(|count| *count > 0)?;
    }
    Some(index)
}

fn body(members: &[usize]) -> String {
    let entry = |(number, replaced): (usize, &usize)| {
        let address = format!(
            "127.{}.{}.{}",
            1 + replaced % 250,
            number / 250,
            1 + number % 250
        );
        format!(
            r#"{{"Node":{{"ID":"","Node":"node-{number}","Address":"{address}","Datacenter":"dc1","Meta":null}},"Service":{{"ID":"web-{number}","Service":"web","Tags":["production"],"Address":"{address}","Port":9090,"Meta":{{"shard":"s{}"}},"Weights":{{"Passing":{},"Warning":1}},"EnableTagOverride":false}},"Checks":[{{"Node":"node-{number}","CheckID":"c","Name":"c","Status":"passing","Notes":"","Output":"","ServiceID":"web-{number}"}}]}}"#,
            number % 7,
            1 + number % 10
        )
    };
    let entries: Vec<String> = members.iter().enumerate().map(entry).collect();
    format!("[{}]", entries.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_addresses_of_their_own_and_change_alone() {
        let before = body(&[0; 300]);
        let mut members = vec![0; 300];
        members[299] = 1;
        let after = body(&members);
        assert!(before.contains("127.1.1.50") && !before.contains("127.2."));
        assert_eq!(after.matches("127.2.1.50").count(), 2);
        let parsed: serde_json::Value = serde_json::from_str(&after).unwrap();
        assert_eq!(parsed.as_array().unwrap().len(), 300);
    }

    #[test]
    fn a_query_that_holds_the_index_waits_for_the_next() {
        let consul = Consul::start(1).unwrap();
        let mut stream = TcpStream::connect(consul.address).unwrap();
        stream
            .write_all(b"GET /v1/health/service/web?index=10&wait=300s HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap();
        consul.wait_until_asked().unwrap();
        assert_eq!(consul.open(), 1);
        consul.replace(0);
        let mut reader = BufReader::new(stream);
        let mut text = String::new();
        while !text.contains("X-Consul-Index: 11\r\n") {
            assert!(reader.read_line(&mut text).unwrap() > 0, "{text}");
        }
    }
}
