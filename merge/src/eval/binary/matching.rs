//! Arithmetic and comparisons of two vectors.
//!
//! The series of the side that may be many meet the one series of their match group, at each step
//! anew: which series that is may change from step to step.

use std::collections::HashMap;

use super::groups::{Group, Groups, groups, presence};
use super::histograms;
use super::operation::Operation;
use crate::eval::env::Env;
use crate::eval::error::{EvalError, Outcome};
use crate::eval::keys::{NAME, Projection};
use crate::eval::text::label_set;
use crate::eval::unite::{STEPS_AT_ONCE, pour, same_labels, unite};
use crate::eval::value::{self, Column, Series};
use crate::labels::Label;
use crate::plan::Grid;
use crate::query::{Binary, Cardinality, Grouping};

/// Applies `operation` to the samples of `many` and those that they match in `one`.
pub(super) async fn combine<'a>(
    env: &Env<'a>,
    grid: &Grid,
    binary: &Binary,
    operation: Operation,
    mut many: Vec<Series<'a>>,
    mut one: Vec<Series<'a>>,
) -> Outcome<Vec<Series<'a>>> {
    let projection = Projection::of_match(&binary.matching);
    let Groups {
        groups: all,
        labels,
    } = groups(env, projection, &many, &one).await?;
    let is_reversed = matches!(binary.cardinality, Cardinality::OneToMany(_));
    let mut matcher = Matcher {
        env,
        steps: grid.count,
        binary,
        operation,
        // Later ones look before they filter.
        counts_dropped: operation.filters() && env.dialect().is_at_least(3, 9),
        violation: None,
        made: Vec::with_capacity(many.len()),
    };
    // Asked before columns are taken away.
    let is_asked = match all.iter().any(|group| group.one.len() > 1) {
        true => presence(env, grid.count, many.iter()).await,
        false => Vec::new(),
    };
    for (group, labels) in all.iter().zip(labels) {
        let Some(single) = group.one.first() else {
            continue;
        };
        let mut facing = Facing {
            column: take(&mut one[*single].column),
            owners: None,
        };
        if group.one.len() > 1 {
            let text = (labels, if is_reversed { "left" } else { "right" });
            let found = matcher
                .merge(&mut facing, group, &mut one, &is_asked, text)
                .await?;
            matcher.note(found);
        }
        matcher.meet(group, &mut many, &one, &facing).await?;
    }
    matcher.finish().await
}

/// Takes a column out of its series.
fn take<'a>(column: &mut Column<'a>) -> Column<'a> {
    let nothing = Column {
        floats: &mut [],
        histograms: None,
    };
    std::mem::replace(column, nothing)
}

/// What the many of a group face: one sample for each step.
struct Facing<'a> {
    column: Column<'a>,
    /// By step, which of the group's series the sample is of, where there are several.
    owners: Option<Vec<usize>>,
}

/// A match that must not be. The least one by step and place is what the servers stop at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Violation {
    step: usize,
    /// At a step, all series of the one side are looked at first, then the many, then the result.
    phase: u8,
    /// The series, in order.
    index: usize,
    text: String,
}

const IMPLICIT: &str = "multiple matches for labels: many-to-one matching must be explicit \
                        (group_left/group_right)";
const NOT_UNIQUE: &str = "multiple matches for labels: grouping labels must ensure unique matches";

struct Matcher<'e, 'a> {
    env: &'e Env<'a>,
    steps: usize,
    binary: &'e Binary,
    operation: Operation,
    /// Whether a sample that a comparison drops still counts as a match.
    counts_dropped: bool,
    violation: Option<Violation>,
    /// Results, with the index of the series that they come from.
    made: Vec<(usize, Series<'a>)>,
}

/// A result of one series of the many side.
struct Part<'a> {
    series: Series<'a>,
    /// By step, whether there was a match, if dropped samples count.
    matched: Option<Vec<bool>>,
}

/// Where the results of one group are.
struct Place {
    /// Index into the results.
    made: usize,
    /// By step, whether there was a match, if dropped samples count.
    matched: Option<Vec<bool>>,
}

impl<'a> Matcher<'_, 'a> {
    fn note(&mut self, found: Option<Violation>) {
        self.violation = self.violation.take().into_iter().chain(found).min();
    }

    /// Merges the series of the one side of a group, which must not both have a sample at any
    /// step at which the many side has any sample at all.
    async fn merge(
        &self,
        facing: &mut Facing<'a>,
        group: &Group,
        one: &mut [Series<'a>],
        is_asked: &[bool],
        (labels, side): (&[Label<'a>], &str),
    ) -> Outcome<Option<Violation>> {
        let mut owners = vec![0usize; self.steps];
        let mut first: Option<(usize, usize, usize)> = None;
        for (number, index) in group.one.iter().enumerate().skip(1) {
            let column = take(&mut one[*index].column);
            for start in (0..self.steps).step_by(STEPS_AT_ONCE) {
                let end = self.steps.min(start + STEPS_AT_ONCE);
                for step in start..end {
                    if !column.has(step) || !is_asked[step] {
                        continue;
                    }
                    if facing.column.has(step) {
                        let found = (step, *index, group.one[owners[step]]);
                        first = first.into_iter().chain([found]).min();
                        continue;
                    }
                    owners[step] = number;
                    match column.histogram(step) {
                        None => facing.column.floats[step] = column.floats[step],
                        Some(histogram) => {
                            facing
                                .column
                                .put_histogram(self.env.bump, step, histogram)?;
                        }
                    }
                }
                self.env.pace.spend(2 * (end - start)).await;
            }
        }
        facing.owners = Some(owners);
        let Some((step, later, earlier)) = first else {
            return Ok(None);
        };
        let text = |labels: &[Label<'a>]| label_set(labels, self.env.dialect());
        Ok(Some(Violation {
            step,
            phase: 0,
            index: later,
            text: format!(
                "found duplicate series for the match group {} on the {side} hand-side of the \
                 operation: [{}, {}];many-to-many matching not allowed: matching labels must be \
                 unique on one side",
                text(labels),
                text(one[later].labels),
                text(one[earlier].labels),
            ),
        }))
    }

    /// Computes the results of a group.
    async fn meet(
        &mut self,
        group: &Group,
        many: &mut [Series<'a>],
        one: &[Series<'a>],
        facing: &Facing<'a>,
    ) -> Outcome<()> {
        let mut taken: Option<Place> = None;
        let mut places: HashMap<&'a [Label<'a>], Place> = HashMap::new();
        for index in &group.many {
            let mut column = take(&mut many[*index].column);
            let matched = self.matched(&column, &facing.column).await;
            self.compute(&mut column, &facing.column).await?;
            let labels = many[*index].labels;
            if self.binary.cardinality == Cardinality::Plain {
                let labels = self.plain_labels(labels)?;
                if group.many.len() > 1 {
                    let found = self.claim(&mut taken, &column, matched, *index).await;
                    self.note(found);
                }
                self.made.push((*index, Series { labels, column }));
                continue;
            }
            let whole = Part {
                series: Series { labels, column },
                matched,
            };
            for part in self.parts(group, one, facing, whole).await? {
                self.place(&mut places, *index, part).await?;
            }
        }
        Ok(())
    }

    /// By step, whether both sides have a sample; `None` where only results count.
    async fn matched(&self, own: &Column<'a>, other: &Column<'a>) -> Option<Vec<bool>> {
        if !self.counts_dropped {
            return None;
        }
        self.env.pace.spend(2 * self.steps).await;
        let both = (0..self.steps).map(|step| own.has(step) && other.has(step));
        Some(both.collect())
    }

    /// Puts the results in the place of `own`.
    async fn compute(&self, own: &mut Column<'a>, other: &Column<'a>) -> Outcome<()> {
        let found = histograms::with_column(self.env, self.operation, own, other).await?;
        super::scalars(self.env, self.operation, own.floats, other.floats).await;
        histograms::put(self.env, own, found)?;
        self.env.pace.spend(64).await;
        Ok(())
    }

    /// One-to-one: no step may have two results of one group.
    async fn claim(
        &self,
        taken: &mut Option<Place>,
        column: &Column<'a>,
        matched: Option<Vec<bool>>,
        index: usize,
    ) -> Option<Violation> {
        self.env.pace.spend(2 * self.steps).await;
        let is_match = |step: usize| matched.as_ref().map_or(column.has(step), |all| all[step]);
        let before = taken.get_or_insert_with(|| Place {
            made: index,
            matched: Some(vec![false; self.steps]),
        });
        let mut first = None;
        for (step, is_taken) in before.matched.iter_mut().flatten().enumerate() {
            if is_match(step) {
                if *is_taken && first.is_none() {
                    first = Some(step);
                }
                *is_taken = true;
            }
        }
        first.map(|step| Violation {
            step,
            phase: 1,
            index,
            text: IMPLICIT.to_owned(),
        })
    }

    /// Many-to-one: the results of one series, by their labels. `whole` still has its own labels.
    async fn parts(
        &self,
        group: &Group,
        one: &[Series<'a>],
        facing: &Facing<'a>,
        mut whole: Part<'a>,
    ) -> Outcome<Vec<Part<'a>>> {
        let labels = whole.series.labels;
        let Some(owners) = &facing.owners else {
            whole.series.labels = self.grouped_labels(labels, one[group.one[0]].labels)?;
            return Ok(vec![whole]);
        };
        let (column, matched) = (&whole.series.column, &whole.matched);
        let mut parts: Vec<Part<'a>> = Vec::new();
        let mut part_of: Vec<Option<usize>> = vec![None; group.one.len()];
        for step in 0..self.steps {
            let is_match = matched.as_ref().is_some_and(|all| all[step]);
            if !column.has(step) && !is_match {
                continue;
            }
            let owner = owners[step];
            let at = match part_of[owner] {
                Some(at) => at,
                None => {
                    let labels = self.grouped_labels(labels, one[group.one[owner]].labels)?;
                    let at = self.part_with(&mut parts, labels)?;
                    part_of[owner] = Some(at);
                    at
                }
            };
            let part = &mut parts[at];
            match column.histogram(step) {
                Some(histogram) => {
                    let room = &mut part.series.column;
                    room.put_histogram(self.env.bump, step, histogram)?;
                }
                None => part.series.column.floats[step] = column.floats[step],
            }
            if let Some(flags) = &mut part.matched {
                flags[step] |= is_match;
            }
            self.env.pace.spend(4).await;
        }
        Ok(parts)
    }

    /// The part with these labels; an empty one is added where there is none.
    fn part_with(&self, parts: &mut Vec<Part<'a>>, labels: &'a [Label<'a>]) -> Outcome<usize> {
        let found = parts.iter().position(|part| part.series.labels == labels);
        if let Some(at) = found {
            return Ok(at);
        }
        parts.push(Part {
            series: Series {
                labels,
                column: Column::absent(self.env.bump, self.steps)?,
            },
            matched: self.counts_dropped.then(|| vec![false; self.steps]),
        });
        Ok(parts.len() - 1)
    }

    /// Adds a result of a many-to-one match. Within a group its labels must be its own.
    async fn place(
        &mut self,
        places: &mut HashMap<&'a [Label<'a>], Place>,
        index: usize,
        Part { series, matched }: Part<'a>,
    ) -> Outcome<()> {
        let Some(before) = places.get_mut(series.labels) else {
            let made = self.made.len();
            places.insert(series.labels, Place { made, matched });
            self.made.push((index, series));
            return Ok(());
        };
        self.env.pace.spend(2 * self.steps).await;
        let into = &mut self.made[before.made].1.column;
        let mut step = pour(self.env, into, &series.column).await?;
        if let (Some(own), Some(new)) = (&mut before.matched, &matched) {
            step = own.iter().zip(new).position(|(own, new)| *own && *new);
            for (own, new) in own.iter_mut().zip(new) {
                *own |= *new;
            }
        }
        self.note(step.map(|step| Violation {
            step,
            phase: 1,
            index,
            text: NOT_UNIQUE.to_owned(),
        }));
        Ok(())
    }

    /// Labels of a one-to-one result.
    fn plain_labels(&self, labels: &'a [Label<'a>]) -> Outcome<&'a [Label<'a>]> {
        let drops_names = !self.operation.keeps_names;
        let keeps = |label: &Label<'a>| {
            let is_kept = match &self.binary.matching {
                Grouping::None => true,
                Grouping::Include(names) => names.iter().any(|name| name == label.name),
                Grouping::Exclude(names) => names.iter().all(|name| name != label.name),
            };
            is_kept && (!drops_names || label.name != NAME)
        };
        if labels.iter().all(keeps) {
            return Ok(labels);
        }
        let kept: Vec<Label<'a>> = labels.iter().copied().filter(keeps).collect();
        value::label_set(self.env.bump, &kept)
    }

    /// Labels of a many-to-one result: those of the many side, and the ones asked for of the one.
    fn grouped_labels(
        &self,
        many: &'a [Label<'a>],
        one: &'a [Label<'a>],
    ) -> Outcome<&'a [Label<'a>]> {
        let (Cardinality::ManyToOne(included) | Cardinality::OneToMany(included)) =
            &self.binary.cardinality
        else {
            return Ok(many);
        };
        let is_included = |label: &&Label<'a>| included.iter().any(|name| name == label.name);
        let drops_names = !self.operation.keeps_names;
        if included.is_empty() && !drops_names {
            return Ok(many);
        }
        let own = many
            .iter()
            .filter(|label| !is_included(label) && (!drops_names || label.name != NAME));
        let mut labels: Vec<Label<'a>> = own.copied().collect();
        // An arithmetic result may get the name of the one side.
        let takes_name = !self.operation.returns_bool;
        let taken = one
            .iter()
            .filter(|label| is_included(label) && (takes_name || label.name != NAME));
        labels.extend(taken);
        value::label_set(self.env.bump, &labels)
    }

    /// Unites the results, in the order of the many side, or fails as the servers do.
    async fn finish(mut self) -> Outcome<Vec<Series<'a>>> {
        self.made.sort_by_key(|(index, _)| *index);
        let series = self.made.drain(..).map(|(_, series)| series).collect();
        let united = unite(self.env, series).await?;
        let conflict = united.as_ref().err().copied();
        if let Some(violation) = self.violation
            && conflict.is_none_or(|step| violation.step <= step)
        {
            return Err(EvalError::Execution(violation.text));
        }
        united.map_err(|_| same_labels())
    }
}
