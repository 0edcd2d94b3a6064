//! From a part's merged answer to samples in the arena.

use crate::arena::Arena;
use crate::error::MemberFailure;
use crate::eval::PartData;
use crate::eval::env::Env;
use crate::eval::error::{EvalError, Outcome};
use crate::eval::native::Histogram;
use crate::eval::value::Samples;
use crate::parse::Reader;
use crate::plan::Part;
use crate::sample::PointCursor;

/// Reads `body`, which is kept in slot `slot` of the arena.
pub(super) async fn collect<'a>(
    env: &Env<'a>,
    arena: &'a Arena,
    slot: usize,
    body: Vec<Vec<u8>>,
    part: &Part,
) -> Outcome<PartData<'a>> {
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
    {
        let mut notes = env.notes.borrow_mut();
        for text in parsed.warnings {
            if !notes.warnings.contains(&text) {
                notes.warnings.push(text);
            }
        }
        for text in parsed.infos {
            if !notes.infos.contains(&text) {
                notes.infos.push(text);
            }
        }
    }
    let mut samples = Vec::with_capacity(parsed.series.len());
    for series in &parsed.series {
        let mut floats = Vec::new();
        let mut cursor = PointCursor::new(series.points);
        while let Some(point) = cursor.current() {
            floats.push((point.time_ms, point.number(cursor.pair())));
            cursor.advance();
        }
        env.pace.spend(64 + 24 * floats.len()).await;
        let mut histograms = Vec::new();
        for histogram in series.histograms {
            let read = Histogram::read(env.bump, histogram.text)?;
            env.pace.spend(64 + 4 * histogram.text.len()).await;
            histograms.push((histogram.time_ms, read));
        }
        let full = |_| EvalError::Limit("arena bytes");
        samples.push(Samples {
            labels: series.set.labels,
            floats: env.bump.try_alloc_slice_copy(&floats).map_err(full)?,
            histograms: env.bump.try_alloc_slice_copy(&histograms).map_err(full)?,
        });
    }
    if let Some(pair) = parsed.pair
        && let Some(point) = crate::sample::canonical_pair(pair.text)
    {
        let floats = [(point.time_ms, point.number(pair.text))];
        let full = |_| EvalError::Limit("arena bytes");
        samples.push(Samples {
            labels: &[],
            floats: env.bump.try_alloc_slice_copy(&floats).map_err(full)?,
            histograms: &[],
        });
    }
    Ok(PartData {
        samples,
        windows: part.windows,
    })
}

fn failed(failure: MemberFailure) -> EvalError {
    match failure {
        MemberFailure::Limit { limit } => EvalError::Limit(limit),
        other => EvalError::Execution(other.to_string()),
    }
}
