//! The tail scenario: do small requests suffer while their shard merges big answers?
//!
//! One ringway with one shard serves small requests in the open loop, first alone, then while one
//! client asks again and again for a range query that three origins answer with 8 MB each. All that
//! belongs to the merging (client and origins) takes only what is left of the load's CPU: it must not
//! delay the generator whose latencies are read, nor the origin of the small requests. `generator_lag`
//! of the result shows whether that worked.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use serde::Serialize;

use super::Options;
use super::launch::{Place, Share};
use super::measure::{Load, Offered, Sample, WARMUP};
use super::process::Process;
use super::proxy::{Program, Setup};
use super::run::start_origin;
use crate::fixtures::RangeAnswer;

const CONFIG: &str = include_str!("../../peers/ringway-tail.yaml");
/// Connections of the small requests.
const SMALL_CONNECTIONS: usize = 16;

/// Small requests alone and beside merging.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Tail {
    /// Small requests alone.
    pub(super) alone: Sample,
    /// Small requests beside the merging.
    pub(super) beside: Sample,
    /// The merging itself.
    pub(super) merging: Sample,
}

/// Runs the scenario.
pub(super) fn tail(options: &Options, program: &Program, setup: &Setup<'_>) -> Result<Tail> {
    let origins = range_origins(setup)?;
    let ports = origins.iter().enumerate().map(|(at, (_, address))| {
        (
            ["RANGE_0_PORT", "RANGE_1_PORT", "RANGE_2_PORT"][at],
            address.port().to_string(),
        )
    });
    let ports: Vec<_> = ports.collect();
    let proxy = program.start_with(CONFIG, setup, &ports)?;
    let pid = Some(proxy.process.pid());
    let small = Load {
        path: "/".to_owned(),
        connections: SMALL_CONNECTIONS,
        rate: Some(options.tail_rate),
        window: options.tail_window,
        place: Place {
            cpu: Some(setup.layout.load),
            share: Share::Nice(setup.nice),
        },
    };
    let merging = Load {
        path: query_path(),
        connections: 1,
        rate: None,
        // It begins before the small requests are measured and must outlast them.
        window: options.tail_window + WARMUP * 2,
        place: Place {
            cpu: Some(setup.layout.load),
            share: Share::Leftover,
        },
    };
    let alone = Offered::start(proxy.address, &small, pid)?.finish()?;
    let offered_merging = Offered::start(proxy.address, &merging, pid)?;
    let beside = Offered::start(proxy.address, &small, pid)?.finish()?;
    let merging = offered_merging.finish().context("the merging load")?;
    Ok(Tail {
        alone,
        beside,
        merging,
    })
}

/// The three servers of the range answers.
fn range_origins(setup: &Setup<'_>) -> Result<Vec<(Process, SocketAddr)>> {
    let place = Place {
        cpu: Some(setup.layout.origin),
        share: Share::Leftover,
    };
    (0..3)
        .map(|number| start_origin(number, &format!("range{number}"), place, setup.dir))
        .collect()
}

/// The range query that the fixture answers, through the merging backend.
fn query_path() -> String {
    let answer = RangeAnswer::EIGHT_MB;
    let (start, end) = answer.range_seconds();
    let step = answer.step_seconds;
    format!(
        "/merge/api/v1/query_range?query=http_requests:rate5m&start={start}&end={end}&step={step}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_asks_for_the_range_that_the_fixture_has() {
        assert_eq!(
            query_path(),
            "/merge/api/v1/query_range?query=http_requests:rate5m\
             &start=1767225600&end=1767229185&step=15"
        );
    }
}
