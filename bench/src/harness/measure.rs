//! One turn: offer load to an address, and read what the proxy used meanwhile.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::launch::{self, Place};
use super::proxy::beside_this;
use super::usage::Usage;
use crate::http::AnswerReader;
use crate::load::Summary;

/// Load before the measured time: caches fill, connections are made.
pub(super) const WARMUP: Duration = Duration::from_millis(500);
/// A request that takes longer is an error.
const TIMEOUT: Duration = Duration::from_secs(4);

/// What the load is.
#[derive(Debug, Clone)]
pub(super) struct Load {
    /// The path asked for.
    pub(super) path: String,
    /// Keep-alive connections.
    pub(super) connections: usize,
    /// Open loop: requests per second.
    pub(super) rate: Option<f64>,
    /// The measured time.
    pub(super) window: Duration,
    /// Where the generator runs.
    pub(super) place: Place,
}

/// What one turn found.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Sample {
    /// What the load generator saw.
    pub(super) load: Summary,
    /// What the proxy used; absent when there was none.
    pub(super) cost: Option<Cost>,
}

/// What a proxy used during one turn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Cost {
    /// CPU microseconds per answered request, warm-up included on both sides.
    pub(super) cpu_us_per_request: f64,
    /// The same from the tick counters, as a check.
    pub(super) cpu_us_per_request_by_ticks: f64,
    /// Share of one CPU, in percent.
    pub(super) cpu_percent: f64,
    /// Share of the time in which it was ready to run but somebody else had the CPU, in percent.
    pub(super) cpu_wait_percent: f64,
    /// Resident memory at the end.
    pub(super) rss_bytes: u64,
}

/// A load generator under way.
pub(super) struct Offered {
    child: std::process::Child,
    began: Instant,
    before: Option<Usage>,
    pid: Option<u32>,
}

impl Offered {
    /// Starts to offer load. `pid` is the proxy's.
    pub(super) fn start(address: SocketAddr, load: &Load, pid: Option<u32>) -> Result<Self> {
        Self::start_with(address, load, pid, &[])
    }

    /// As [`Offered::start`], with further arguments that win over those made of `load`.
    pub(super) fn start_with(
        address: SocketAddr,
        load: &Load,
        pid: Option<u32>,
        more: &[String],
    ) -> Result<Self> {
        let program = beside_this("ringway-load").context("ringway-load is not beside this")?;
        let mut command = launch::command(load.place, &program)?;
        command
            .arg(format!("http://{address}{}", load.path))
            .args(["--json", "--connections", &load.connections.to_string()])
            .args(["--duration", &milliseconds(load.window)])
            .args([
                "--warmup",
                &milliseconds(WARMUP),
                "--timeout",
                &milliseconds(TIMEOUT),
            ]);
        if let Some(rate) = load.rate {
            command.args(["--rate", &rate.to_string()]);
        }
        command.args(more);
        let before = pid.map(Usage::of_tree).transpose()?;
        let began = Instant::now();
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start ringway-load")?;
        Ok(Self {
            child,
            began,
            before,
            pid,
        })
    }

    /// Waits for the end, which the generator itself bounds.
    pub(super) fn finish(self) -> Result<Sample> {
        let output = self
            .child
            .wait_with_output()
            .context("cannot wait for ringway-load")?;
        let wall = self.began.elapsed();
        let after = self.pid.map(Usage::of_tree).transpose()?;
        let load: Summary = serde_json::from_slice(&output.stdout).with_context(|| {
            format!(
                "ringway-load: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            )
        })?;
        if load.answers_total == 0 {
            bail!("no request was answered: {:?}", load.errors);
        }
        let cost = self
            .before
            .zip(after)
            .map(|(before, after)| Cost::between(before, after, load.answers_total, wall));
        Ok(Sample { load, cost })
    }
}

impl Cost {
    fn between(before: Usage, after: Usage, answers: u64, wall: Duration) -> Self {
        let cpu_ns = after.cpu_ns.saturating_sub(before.cpu_ns) as f64;
        let ticks_ns = after.cpu_by_ticks_ns.saturating_sub(before.cpu_by_ticks_ns) as f64;
        let wait_ns = after.wait_ns.saturating_sub(before.wait_ns) as f64;
        Self {
            cpu_us_per_request: cpu_ns / 1e3 / answers as f64,
            cpu_us_per_request_by_ticks: ticks_ns / 1e3 / answers as f64,
            cpu_percent: cpu_ns / wall.as_nanos() as f64 * 100.0,
            cpu_wait_percent: wait_ns / wall.as_nanos() as f64 * 100.0,
            rss_bytes: after.rss_bytes,
        }
    }
}

impl Sample {
    /// Share of the answers that were not 200, and of requests without an answer.
    pub(super) fn failed_share(&self) -> f64 {
        let good = self.load.statuses.get(&200).copied().unwrap_or(0);
        let all = self.load.answers_total + self.load.errors.total();
        (all - good) as f64 / all as f64
    }
}

fn milliseconds(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}

/// Asks once, on a connection of its own. Returns the status.
pub(super) fn get_once(address: SocketAddr, path: &str) -> Result<u16> {
    let mut stream = connect(address)?;
    exchange(&mut stream, path)
}

/// Connects with the time limits of a check.
pub(super) fn connect(address: SocketAddr) -> Result<TcpStream> {
    let limit = Duration::from_secs(2);
    let stream = TcpStream::connect_timeout(&address, limit).context("cannot connect")?;
    stream
        .set_read_timeout(Some(limit))
        .context("cannot set a time limit")?;
    stream
        .set_write_timeout(Some(limit))
        .context("cannot set a time limit")?;
    Ok(stream)
}

/// Makes one exchange on a connection, which stays usable.
pub(super) fn exchange(stream: &mut TcpStream, path: &str) -> Result<u16> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n");
    stream
        .write_all(request.as_bytes())
        .context("cannot send")?;
    let mut reader = AnswerReader::new(false);
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer).context("no answer")?;
        if count == 0 {
            bail!("closed without an answer");
        }
        if let Some(answer) = reader.feed(&buffer[..count])? {
            return Ok(answer.status);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_is_what_was_added_divided_by_the_answers() {
        let before = Usage {
            cpu_ns: 1_000,
            wait_ns: 0,
            cpu_by_ticks_ns: 0,
            rss_bytes: 1,
        };
        let after = Usage {
            cpu_ns: 16_001_000,
            wait_ns: 8_000_000,
            cpu_by_ticks_ns: 20_000_000,
            rss_bytes: 7,
        };
        let cost = Cost::between(before, after, 1_000, Duration::from_millis(32));
        let expected = Cost {
            cpu_us_per_request: 16.0,
            cpu_us_per_request_by_ticks: 20.0,
            cpu_percent: 50.0,
            cpu_wait_percent: 25.0,
            rss_bytes: 7,
        };
        assert_eq!(cost, expected);
    }
}
