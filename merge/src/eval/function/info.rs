//! `info`: labels of info series put beside those of a vector.
//!
//! Servers before 3.7 number the samples of a step and take the labels by which series find each
//! other from the series of that number, whether or not it is there at that step. So do we for them.

use std::collections::HashMap;

use super::arguments::Arguments;
use super::labels::value_of;
use super::matcher::Test;
use super::settle;
use crate::eval::env::Env;
use crate::eval::error::{EvalError, Outcome};
use crate::eval::unite::same_labels;
use crate::eval::value::{Column, Series, Value, label_set, text};
use crate::labels::Label;
use crate::plan::Grid;
use crate::query::{MatchOperator, Node};

/// Labels by which series and info series find each other.
const IDENTIFYING: [&str; 2] = ["instance", "job"];

/// Adds the data labels of the info series in the second value to the series of the first.
/// `selector` is what asked for info series, if it was written out. Where it names one metric, as it
/// does when nothing else is said, the values are the times of their samples, without the name.
pub(super) async fn info<'a>(
    env: &Env<'a>,
    grid: &Grid,
    mut given: Arguments<'a>,
    selector: Option<&Node>,
) -> Outcome<Value<'a>> {
    let asked = Asked::read(env, selector)?;
    let mut series = given.vector();
    series.retain(|one| !one.column.is_empty());
    env.pace.spend(16 * grid.count * series.len().min(64)).await;
    let mut table = Table {
        series: Vec::with_capacity(series.len()),
        infos: Vec::new(),
        known: HashMap::new(),
        made: Vec::new(),
        places: HashMap::new(),
    };
    let mut wanted = [Vec::new(), Vec::new()];
    for one in series {
        env.pace.spend(128).await;
        let is_info = asked.is_info(value_of(one.labels, "__name__"));
        let key = key(one.labels);
        for (values, value) in wanted.iter_mut().zip(key) {
            if !is_info && !value.is_empty() && !values.contains(&value) {
                values.push(value);
                env.pace.spend(values.len()).await;
            }
        }
        table.series.push((key, is_info, one));
    }
    let has_key = wanted.iter().any(|values| !values.is_empty());
    for one in given.vector() {
        env.pace.spend(128 + grid.count).await;
        let key = key(one.labels);
        let mut pairs = wanted.iter().zip(key);
        let is_wanted = pairs.all(|(values, value)| values.is_empty() || values.contains(&value));
        if has_key && is_wanted && !one.column.is_empty() {
            let name = asked.name.unwrap_or(value_of(one.labels, "__name__"));
            table.infos.push((key, name, one));
        }
    }
    for step in 0..grid.count {
        table.step(env, grid, &asked, has_key, step).await?;
    }
    let joined = settle::join(env, table.made, settle::Twice::AtOneStep).await?;
    Ok(Value::Vector(joined))
}

/// The values of the identifying labels.
type Key<'a> = [&'a str; 2];

fn key<'a>(labels: &[Label<'a>]) -> Key<'a> {
    IDENTIFYING.map(|name| value_of(labels, name))
}

/// The series of a call.
struct Table<'a> {
    /// With their keys, and whether they are info series themselves.
    series: Vec<(Key<'a>, bool, Series<'a>)>,
    /// With their keys and names.
    infos: Vec<(Key<'a>, &'a str, Series<'a>)>,
    /// Which labels a series has got from which info series; `None` where it has to go.
    known: HashMap<(usize, Vec<usize>), Option<&'a [Label<'a>]>>,
    made: Vec<Series<'a>>,
    places: HashMap<&'a [Label<'a>], usize>,
}

impl<'a> Table<'a> {
    /// Makes the samples of one step.
    async fn step(
        &mut self,
        env: &Env<'a>,
        grid: &Grid,
        asked: &Asked<'a>,
        has_key: bool,
        step: usize,
    ) -> Outcome<()> {
        let counts_present = !env.dialect().is_at_least(3, 7);
        let found = self.infos_at(env, counts_present, step).await?;
        let mut names: Vec<&str> = found.keys().map(|(_, name)| *name).collect();
        names.sort_unstable();
        names.dedup();
        let mut rank = 0;
        for at in 0..self.series.len() {
            env.pace.spend(16).await;
            if !self.series[at].2.column.has(step) {
                continue;
            }
            let (key, is_info, _) = self.series[if counts_present { rank } else { at }];
            rank += 1;
            env.pace.spend(128 + 64 * names.len()).await;
            let own = self.series[at].2.labels;
            let labels = if is_info {
                Some(own)
            } else {
                let infos = names.iter().filter_map(|name| found.get(&(key, *name)));
                let place = (at, infos.copied().collect::<Vec<_>>());
                match self.known.get(&place) {
                    Some(labels) => *labels,
                    None => {
                        let infos: Vec<_> =
                            place.1.iter().map(|at| self.infos[*at].2.labels).collect();
                        let labels = asked.labels(env, own, &infos, has_key)?;
                        self.known.insert(place, labels);
                        labels
                    }
                }
            };
            if let Some(labels) = labels {
                self.put(env, grid, labels, at, step)?;
            }
        }
        Ok(())
    }

    /// The info series at a step, by key and name: the newest ones.
    async fn infos_at(
        &self,
        env: &Env<'a>,
        counts_present: bool,
        step: usize,
    ) -> Outcome<HashMap<(Key<'a>, &'a str), usize>> {
        let mut found: HashMap<(Key<'a>, &'a str), usize> = HashMap::new();
        let mut rank = 0;
        for (at, (_, _, one)) in self.infos.iter().enumerate() {
            env.pace.spend(16).await;
            let time = one.column.floats[step];
            if !one.column.has(step) {
                continue;
            }
            let (key, name, _) = &self.infos[if counts_present { rank } else { at }];
            rank += 1;
            env.pace.spend(128).await;
            let known = found.entry((*key, *name)).or_insert(at);
            if *known == at {
                continue;
            }
            let other = self.infos[*known].2.column.floats[step];
            if time == other {
                return Err(EvalError::Execution(format!(
                    "found duplicate series for info metric {name}"
                )));
            }
            if time > other {
                *known = at;
            }
        }
        Ok(found)
    }

    /// Puts the sample of series `at` under `labels`.
    fn put(
        &mut self,
        env: &Env<'a>,
        grid: &Grid,
        labels: &'a [Label<'a>],
        at: usize,
        step: usize,
    ) -> Outcome<()> {
        let from = &self.series[at].2.column;
        let place = *self.places.entry(labels).or_insert(self.made.len());
        if place == self.made.len() {
            let column = Column::absent(env.bump, grid.count)?;
            self.made.push(Series { labels, column });
        }
        let to = &mut self.made[place].column;
        if to.has(step) {
            return Err(same_labels());
        }
        match from.histogram(step) {
            Some(histogram) => to.put_histogram(env.bump, step, histogram)?,
            None => to.floats[step] = from.floats[step],
        }
        Ok(())
    }
}

/// What the selector of info series asks for.
struct Asked<'a> {
    /// Data labels that are asked for, and whether all that is asked of them fits an empty value.
    data: Vec<(String, bool)>,
    /// What a metric name must match to be one of an info series.
    names: Vec<Test>,
    /// The metric name, where there is one.
    name: Option<&'a str>,
    /// Whether the selector says something of the name.
    has_name: bool,
}

/// The metric of info series where no other is named.
const DEFAULT_NAME: &str = "target_info";

impl<'a> Asked<'a> {
    fn read(env: &Env<'a>, selector: Option<&Node>) -> Outcome<Self> {
        let mut asked = Self {
            data: Vec::new(),
            names: Vec::new(),
            name: None,
            has_name: false,
        };
        let Some(Node::Selector(selector)) = selector else {
            asked.name = Some(DEFAULT_NAME);
            asked.names.push(Test::equal(DEFAULT_NAME));
            return Ok(asked);
        };
        for matcher in &selector.matchers {
            let test = Test::read(env, matcher)?;
            if matcher.label == "__name__" {
                asked.names.push(test);
                asked.has_name = true;
                if matcher.operator == MatchOperator::Equal {
                    asked.name = Some(text(env.bump, &matcher.value)?);
                }
                continue;
            }
            let fits = test.fits("");
            let known = asked
                .data
                .iter_mut()
                .find(|(name, _)| *name == matcher.label);
            match known {
                Some((_, all)) => *all &= fits,
                None => asked.data.push((matcher.label.clone(), fits)),
            }
        }
        if !asked.has_name {
            asked.name = Some(DEFAULT_NAME);
        }
        Ok(asked)
    }

    /// Whether a series of that name is one of info itself.
    fn is_info(&self, name: &str) -> bool {
        self.names.iter().any(|test| test.fits(name))
    }

    /// The labels of a series at a step at which the info series `infos` are there; `None` where
    /// it has to go. Without a series that has a key, the name is asked for like data.
    fn labels(
        &self,
        env: &Env<'a>,
        own: &'a [Label<'a>],
        infos: &[&'a [Label<'a>]],
        has_key: bool,
    ) -> Outcome<Option<&'a [Label<'a>]>> {
        let mut added: Vec<Label<'a>> = Vec::new();
        for label in infos.iter().copied().flatten() {
            let is_asked =
                self.data.is_empty() || self.data.iter().any(|(name, _)| *name == label.name);
            if label.name == "__name__" || !is_asked {
                continue;
            }
            match added.iter().find(|known| known.name == label.name) {
                Some(known) if known.value != label.value => {
                    return Err(EvalError::Execution(format!(
                        "conflicting label: {}",
                        label.name
                    )));
                }
                None if value_of(own, label.name).is_empty() => added.push(*label),
                _ => {}
            }
        }
        if added.is_empty() {
            let names_fit =
                has_key || !self.has_name || self.names.iter().all(|test| test.fits(""));
            let all_fit = names_fit && self.data.iter().all(|(_, fits)| *fits);
            return Ok(all_fit.then_some(own));
        }
        added.extend_from_slice(own);
        Ok(Some(label_set(env.bump, &added)?))
    }
}
