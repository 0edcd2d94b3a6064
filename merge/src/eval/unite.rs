//! Series that an operation has given the same labels become one, as long as no step has a sample
//! of both.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};

use super::env::Env;
use super::error::{EvalError, Outcome};
use super::keys::NAME;
use super::value::{Column, Series, is_absent, without_name};
use crate::labels::{Label, compare};

/// So many steps are worked on in one go.
pub(super) const STEPS_AT_ONCE: usize = 4096;

/// So many series are looked at in one go, at one step.
pub(super) const SERIES_AT_ONCE: usize = 1024;

/// The error where one step has two samples of the same labels.
pub(super) fn same_labels() -> EvalError {
    EvalError::Execution("vector cannot contain metrics with the same labelset".to_owned())
}

/// Drops the metric names, which must leave at most one sample for each label set and step.
pub(super) async fn drop_names<'a>(
    env: &Env<'a>,
    mut series: Vec<Series<'a>>,
) -> Outcome<Vec<Series<'a>>> {
    let name = |labels: &[Label<'a>]| labels.iter().find(|label| label.name == NAME).copied();
    let first = series.first().and_then(|one| name(one.labels));
    let mut has_one_name = true;
    for one in &mut series {
        has_one_name &= name(one.labels) == first;
        one.labels = without_name(env.bump, one.labels)?;
        env.pace.spend(16).await;
    }
    match has_one_name {
        true => Ok(series),
        false => unite(env, series).await?.map_err(|_| same_labels()),
    }
}

/// Unites series of the same labels. Series without samples are left out. The inner error is the
/// first step at which two series both have a sample.
pub(super) async fn unite<'a>(
    env: &Env<'a>,
    series: Vec<Series<'a>>,
) -> Outcome<Result<Vec<Series<'a>>, usize>> {
    let mut places: HashMap<&'a [Label<'a>], usize> = HashMap::with_capacity(series.len());
    let mut united: Vec<Series<'a>> = Vec::with_capacity(series.len());
    let mut conflict: Option<usize> = None;
    for one in series {
        env.pace.spend(64 + one.column.floats.len() / 16).await;
        if one.column.is_empty() {
            continue;
        }
        let place = *places.entry(one.labels).or_insert(united.len());
        match united.get_mut(place) {
            None => united.push(one),
            Some(other) => {
                let found = pour(env, &mut other.column, &one.column).await?;
                conflict = conflict.into_iter().chain(found).min();
            }
        }
    }
    Ok(conflict.map_or(Ok(united), Err))
}

/// Refuses two series of the same labels, at whatever steps they have samples. Of series in order only neighbours are
/// compared.
pub(crate) async fn refuse_twice(env: &Env<'_>, series: &[&[Label<'_>]]) -> Outcome<()> {
    /// Of one comparison of label sets.
    const UNITS: usize = 64;
    let mut is_sorted = true;
    for pair in series.windows(2) {
        env.pace.spend(UNITS).await;
        match compare(pair[0], pair[1]) {
            Ordering::Less => {}
            Ordering::Equal => return Err(same_labels()),
            Ordering::Greater => {
                is_sorted = false;
                break;
            }
        }
    }
    if is_sorted {
        return Ok(());
    }
    let mut seen = BTreeSet::new();
    for labels in series {
        env.pace.spend(8 * UNITS).await;
        if !seen.insert(*labels) {
            return Err(same_labels());
        }
    }
    Ok(())
}

/// Copies the samples of `from` to where `into` has none. Returns the first step where both have.
pub(super) async fn pour<'a>(
    env: &Env<'a>,
    into: &mut Column<'a>,
    from: &Column<'a>,
) -> Outcome<Option<usize>> {
    for start in (0..from.floats.len()).step_by(STEPS_AT_ONCE) {
        let end = from.floats.len().min(start + STEPS_AT_ONCE);
        for step in start..end {
            let (float, histogram) = (from.floats[step], from.histogram(step));
            if is_absent(float) && histogram.is_none() {
                continue;
            }
            if into.has(step) {
                return Ok(Some(step));
            }
            match histogram {
                Some(histogram) => into.put_histogram(env.bump, step, histogram)?,
                None => into.floats[step] = float,
            }
        }
        env.pace.spend(end - start).await;
    }
    Ok(None)
}
