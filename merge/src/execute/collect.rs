//! From a part's merged answer to samples in the arena.

use crate::arena::Arena;
use crate::error::MemberFailure;
use crate::eval::env::Env;
use crate::eval::error::{EvalError, Outcome};
use crate::eval::native::Histogram;
use crate::eval::value::{Samples, slice};
use crate::labels::compare;
use crate::parse::Reader;
use crate::sample::{PointCursor, Points};

/// Reads `body`, which is kept in slot `slot` of the arena.
pub(super) async fn collect<'a>(
    env: &Env<'a>,
    arena: &'a Arena,
    slot: usize,
    body: Vec<Vec<u8>>,
) -> Outcome<Vec<Samples<'a>>> {
    let Some(body) = arena.keep(slot, body.concat()) else {
        return Err(EvalError::Limit("arena slots"));
    };
    let mut reader = Reader::new(body, arena.bump(), &[]);
    loop {
        let (used, is_done) = reader.step(8 * 1024).map_err(failed)?;
        env.pace.spend(used).await;
        if is_done {
            break;
        }
    }
    let parsed = reader.finish(200).map_err(failed)?;
    env.pass_on(parsed.warnings, parsed.infos);
    env.count(parsed.stats.as_deref());
    let mut samples = Vec::with_capacity(parsed.series.len());
    for series in &parsed.series {
        let mut floats = Vec::new();
        let mut cursor = PointCursor::new(series.points);
        while let Some(sample) = cursor.current() {
            floats.push((sample.time_ms(), sample.number()));
            cursor.advance();
        }
        env.pace.spend(64 + 24 * floats.len()).await;
        let mut histograms = Vec::new();
        for histogram in series.histograms {
            let read = Histogram::read(env.bump, histogram.text)?;
            env.pace.spend(64 + 4 * histogram.text.len()).await;
            histograms.push((histogram.time_ms, read));
        }
        samples.push(Samples {
            labels: series.set.labels,
            floats: slice(env.bump, &floats)?,
            histograms: slice(env.bump, &histograms)?,
        });
    }
    let pair = parsed.pair.map_or(&[][..], |pair| pair.text);
    let pair = Points {
        text: pair,
        more: None,
    };
    if let Some(sample) = PointCursor::new(pair).current() {
        let floats = [(sample.time_ms(), sample.number())];
        samples.push(Samples {
            labels: &[],
            floats: slice(env.bump, &floats)?,
            histograms: &[],
        });
    }
    Ok(samples)
}

/// Joins what parts that follow each other in time were answered; each is sorted by labels.
pub(super) async fn join<'a>(
    env: &Env<'a>,
    parts: &[Vec<Samples<'a>>],
) -> Outcome<Vec<Samples<'a>>> {
    if let [only] = parts {
        return Ok(only.iter().map(|one| Samples { ..*one }).collect());
    }
    let mut next = vec![0; parts.len()];
    let mut joined = Vec::new();
    loop {
        let heads = || {
            parts
                .iter()
                .zip(&next)
                .filter_map(|(part, at)| part.get(*at))
        };
        let Some(first) = heads().min_by(|a, b| compare(a.labels, b.labels)) else {
            return Ok(joined);
        };
        let (mut floats, mut histograms) = (Vec::new(), Vec::new());
        for (part, at) in parts.iter().zip(&mut next) {
            if let Some(head) = part.get(*at).filter(|head| head.labels == first.labels) {
                floats.extend_from_slice(head.floats);
                histograms.extend_from_slice(head.histograms);
                *at += 1;
                env.pace
                    .spend(4 * (head.floats.len() + head.histograms.len()))
                    .await;
            }
        }
        env.pace.spend(24 * parts.len()).await;
        joined.push(Samples {
            labels: first.labels,
            floats: slice(env.bump, &floats)?,
            histograms: slice(env.bump, &histograms)?,
        });
    }
}

fn failed(failure: MemberFailure) -> EvalError {
    match failure {
        MemberFailure::Limit { limit } => EvalError::Limit(limit),
        other => EvalError::Execution(other.to_string()),
    }
}
