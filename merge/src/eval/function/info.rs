//! `info`: labels of info series put beside those of a vector.

use std::collections::HashMap;

use super::arguments::Arguments;
use super::labels::value_of;
use super::pattern::Pattern;
use super::settle;
use crate::eval::env::Env;
use crate::eval::error::{EvalError, Outcome};
use crate::eval::value::{Column, Series, Value, label_set};
use crate::labels::Label;
use crate::plan::Grid;
use crate::query::{MatchOperator, Matcher, Node};

/// Labels by which series and info series find each other.
const IDENTIFYING: [&str; 2] = ["instance", "job"];

/// Adds the data labels of the info series in the second value to the series of the first.
/// `selector` is what asked for info series.
pub(super) async fn info<'a>(
    env: &Env<'a>,
    grid: &Grid,
    mut given: Arguments<'a>,
    selector: Option<&Node>,
) -> Outcome<Value<'a>> {
    let (series, infos) = (given.vector(), given.vector());
    let asked = Asked::read(env, selector)?;
    let mut wanted: HashMap<Key<'a>, Vec<usize>> = HashMap::new();
    for (at, one) in infos.iter().enumerate() {
        env.pace.spend(128).await;
        wanted.entry(key(one.labels)).or_default().push(at);
    }
    let mut made: Vec<Series<'a>> = Vec::with_capacity(series.len());
    for one in series {
        env.pace.spend(128).await;
        if asked.is_info(value_of(one.labels, "__name__")) {
            made.push(one);
            continue;
        }
        let found = wanted.get(&key(one.labels)).map_or(&[][..], Vec::as_slice);
        let found: Vec<&Series<'a>> = found.iter().map(|at| &infos[*at]).collect();
        enrich(env, grid, &asked, one, &found, &mut made).await?;
    }
    let joined = settle::join(env, made, settle::Twice::AtOneStep).await?;
    Ok(Value::Vector(joined))
}

/// The values of the identifying labels.
type Key<'a> = [&'a str; 2];

fn key<'a>(labels: &[Label<'a>]) -> Key<'a> {
    IDENTIFYING.map(|name| value_of(labels, name))
}

/// Appends `series` with the labels that `infos` add, one for each set of labels that they add.
async fn enrich<'a>(
    env: &Env<'a>,
    grid: &Grid,
    asked: &Asked<'_>,
    series: Series<'a>,
    infos: &[&Series<'a>],
    made: &mut Vec<Series<'a>>,
) -> Outcome<()> {
    let from = made.len();
    for step in 0..grid.count {
        env.pace.spend(32 + 32 * infos.len()).await;
        if !series.column.has(step) {
            continue;
        }
        let present = infos.iter().filter(|one| one.column.has(step));
        let present: Vec<&[Label<'a>]> = present.map(|one| one.labels).collect();
        let Some(labels) = asked.labels(env, series.labels, &present)? else {
            continue;
        };
        let known = made[from..].iter().position(|one| one.labels == labels);
        let at = match known {
            Some(at) => from + at,
            None => {
                let column = Column::absent(env.bump, grid.count)?;
                made.push(Series { labels, column });
                made.len() - 1
            }
        };
        match series.column.histogram(step) {
            Some(histogram) => made[at].column.put_histogram(env.bump, step, histogram)?,
            None => made[at].column.floats[step] = series.column.floats[step],
        }
    }
    Ok(())
}

/// What the selector of info series asks for.
struct Asked<'q> {
    /// Data labels that are asked for, and whether all that is asked of them fits an empty value.
    data: Vec<(&'q str, bool)>,
    /// What a metric name must match to be one of an info series.
    names: Vec<Test>,
}

/// A matcher, ready to be asked.
struct Test {
    value: String,
    pattern: Option<Pattern>,
    is_negated: bool,
}

impl Test {
    fn read(env: &Env<'_>, matcher: &Matcher) -> Outcome<Self> {
        let (is_regex, is_negated) = match matcher.operator {
            MatchOperator::Equal => (false, false),
            MatchOperator::NotEqual => (false, true),
            MatchOperator::Regex => (true, false),
            MatchOperator::NotRegex => (true, true),
        };
        let pattern = match is_regex {
            true => Pattern::anchored(&unquoted(&matcher.value), env.dialect())?,
            false => None,
        };
        Ok(Self {
            value: matcher.value.clone(),
            pattern,
            is_negated,
        })
    }

    fn fits(&self, value: &str) -> bool {
        let found = match &self.pattern {
            Some(pattern) => pattern.matches(value),
            None => value == self.value,
        };
        found != self.is_negated
    }
}

impl<'q> Asked<'q> {
    fn read(env: &Env<'_>, selector: Option<&'q Node>) -> Outcome<Self> {
        let mut asked = Self {
            data: Vec::new(),
            names: Vec::new(),
        };
        let Some(Node::Selector(selector)) = selector else {
            return Ok(asked);
        };
        for matcher in &selector.matchers {
            let test = Test::read(env, matcher)?;
            if matcher.label == "__name__" {
                asked.names.push(test);
                continue;
            }
            let fits = test.fits("");
            let known = asked
                .data
                .iter_mut()
                .find(|(name, _)| *name == matcher.label);
            match known {
                Some((_, all)) => *all &= fits,
                None => asked.data.push((&matcher.label, fits)),
            }
        }
        Ok(asked)
    }

    /// Whether a series of that name is one of info itself.
    fn is_info(&self, name: &str) -> bool {
        self.names.iter().any(|test| test.fits(name))
    }

    /// The labels of a series at a step at which the info series `infos` are there; `None` where
    /// it has to go.
    fn labels<'a>(
        &self,
        env: &Env<'a>,
        own: &'a [Label<'a>],
        infos: &[&'a [Label<'a>]],
    ) -> Outcome<Option<&'a [Label<'a>]>> {
        let mut added: Vec<Label<'a>> = Vec::new();
        for (at, labels) in infos.iter().enumerate() {
            let name = value_of(labels, "__name__");
            if infos[..at]
                .iter()
                .any(|other| value_of(other, "__name__") == name)
            {
                return Err(EvalError::Execution(format!(
                    "found duplicate series for info metric {name}"
                )));
            }
            for label in *labels {
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
        }
        if added.is_empty() {
            let all_fit = self.data.iter().all(|(_, fits)| *fits);
            return Ok(all_fit.then_some(own));
        }
        added.extend_from_slice(own);
        Ok(Some(label_set(env.bump, &added)?))
    }
}

/// The text of a quoted literal.
fn unquoted(literal: &str) -> String {
    let inside = literal
        .get(1..literal.len().saturating_sub(1))
        .unwrap_or_default();
    if literal.starts_with('`') {
        return inside.to_owned();
    }
    let mut out = String::with_capacity(inside.len());
    let mut characters = inside.chars();
    while let Some(c) = characters.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match characters.next() {
            Some('n') => '\n',
            Some('t') => '\t',
            Some('r') => '\r',
            Some(other) => other,
            None => break,
        });
    }
    out
}
