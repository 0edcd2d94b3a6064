//! `count_values`: one series for each group and value, the value being a label.

use std::collections::HashMap;

use super::histograms;
use crate::eval::env::Env;
use crate::eval::error::{EvalError, Outcome};
use crate::eval::keys::{Keys, NAME, Projection};
use crate::eval::text::{is_plain_label, plain_number, quoted};
use crate::eval::value::{self, Column, Series, is_absent};
use crate::labels::Label;
use crate::plan::Grid;
use crate::query::Aggregate;

/// Counts values; `label` is the label that they go into.
pub(super) async fn count<'a>(
    env: &Env<'a>,
    grid: &Grid,
    aggregate: &Aggregate,
    label: &'a str,
    mut input: Vec<Series<'a>>,
) -> Outcome<Vec<Series<'a>>> {
    let is_name = match env.dialect().is_at_least(3, 0) {
        true => !label.is_empty(),
        false => is_plain_label(label),
    };
    if !is_name {
        let problem = format!("invalid label name {}", quoted(label));
        return Err(EvalError::Execution(problem));
    }
    histograms::prepare(env, aggregate.operator, &mut input).await;
    let projection = Projection::of_groups(&aggregate.grouping);
    // `without` may leave the label out again.
    let shows_value = projection.includes() || (label != NAME && projection.keeps(label));
    let mut keys = Keys::new(env.bump, projection.but(label));
    let mut counts = Counts {
        env,
        steps: grid.count,
        label,
        places: HashMap::new(),
        made: Vec::new(),
    };
    for one in &input {
        let number = keys.number(one.labels)?;
        let group = (number, keys.labels(number));
        env.pace.spend(64).await;
        for (step, value) in one.column.floats.iter().enumerate().take(grid.count) {
            let seen = match one.column.histogram(step) {
                _ if !shows_value && one.column.has(step) => Seen::Any,
                Some(histogram) => Seen::Text(histograms::label_text(histogram)),
                None if is_absent(*value) => continue,
                None if value.is_nan() => Seen::Number(f64::NAN.to_bits()),
                None => Seen::Number(value.to_bits()),
            };
            counts.add(group, step, seen)?;
            env.pace.spend(24).await;
        }
    }
    Ok(counts.made)
}

/// What is counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Seen {
    /// Anything, where the value is not shown.
    Any,
    /// The bits of a number.
    Number(u64),
    /// The text of a histogram.
    Text(String),
}

struct Counts<'e, 'a> {
    env: &'e Env<'a>,
    steps: usize,
    label: &'a str,
    places: HashMap<(usize, Seen), usize>,
    made: Vec<Series<'a>>,
}

impl<'a> Counts<'_, 'a> {
    fn add(&mut self, group: (usize, &[Label<'a>]), step: usize, seen: Seen) -> Outcome<()> {
        let key = (group.0, seen);
        let place = match self.places.get(&key) {
            Some(place) => *place,
            None => {
                self.made.push(Series {
                    labels: self.labels(group.1, &key.1)?,
                    column: Column::absent(self.env.bump, self.steps)?,
                });
                self.places.insert(key, self.made.len() - 1);
                self.made.len() - 1
            }
        };
        let count = &mut self.made[place].column.floats[step];
        *count = if is_absent(*count) { 1.0 } else { *count + 1.0 };
        Ok(())
    }

    /// The labels of a group and a value.
    fn labels(&self, group: &[Label<'a>], seen: &Seen) -> Outcome<&'a [Label<'a>]> {
        let text = match seen {
            Seen::Any => return value::label_set(self.env.bump, group),
            Seen::Number(bits) => &plain_number(f64::from_bits(*bits)),
            Seen::Text(text) => text,
        };
        let mut labels = group.to_vec();
        labels.push(Label {
            name: self.label,
            value: value::text(self.env.bump, text)?,
        });
        value::label_set(self.env.bump, &labels)
    }
}
