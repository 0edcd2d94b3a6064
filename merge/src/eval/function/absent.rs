//! `absent` and `absent_over_time`: a sample where there is none.

use super::CHUNK_STEPS;
use super::matcher::Test;
use crate::eval::env::Env;
use crate::eval::error::Outcome;
use crate::eval::value::{
    ABSENT, Column, Samples, Series, Value, Windows, label_set, numbers, text,
};
use crate::labels::Label;
use crate::plan::Grid;
use crate::query::{MatchOperator, Matcher, Node, Selector};

/// A vector that is 1 at the steps at which `value` has no sample. `node` is the argument as
/// written; the labels that it asks for by equality are the labels of the sample.
pub(super) async fn absent<'a>(
    env: &Env<'a>,
    grid: &Grid,
    value: Option<Value<'a>>,
    node: Option<&Node>,
) -> Outcome<Value<'a>> {
    let floats = numbers(env.bump, grid.count, 1.0)?;
    match &value {
        Some(Value::Vector(series)) => {
            for one in series {
                take_out(env, floats, |step| one.column.has(step)).await;
            }
        }
        Some(Value::Range(windows, samples)) => {
            for one in samples {
                take_out(env, floats, |step| has_any(windows, one, grid.time(step))).await;
            }
        }
        _ => {}
    }
    let column = Column {
        floats,
        histograms: None,
    };
    let labels = labels_asked_for(env, node)?;
    Ok(Value::Vector(vec![Series { labels, column }]))
}

/// Takes the steps out at which something `is_there`.
async fn take_out(env: &Env<'_>, floats: &mut [f64], is_there: impl Fn(usize) -> bool) {
    for (index, chunk) in floats.chunks_mut(CHUNK_STEPS / 4).enumerate() {
        env.pace.spend(64 + 32 * chunk.len()).await;
        for (at, value) in chunk.iter_mut().enumerate() {
            if is_there(index * (CHUNK_STEPS / 4) + at) {
                *value = ABSENT;
            }
        }
    }
}

/// Whether the window at `time_ms` has a sample of a series.
fn has_any(windows: &Windows, samples: &Samples<'_>, time_ms: i64) -> bool {
    let (from, to) = windows.at(time_ms);
    let is_before = |time: i64| time < from || (time == from && windows.is_left_open());
    let first = samples.floats.partition_point(|(time, _)| is_before(*time));
    if samples
        .floats
        .get(first)
        .is_some_and(|(time, _)| *time <= to)
    {
        return true;
    }
    let all = samples.histograms;
    let first = all.partition_point(|(time, _)| is_before(*time));
    all.get(first).is_some_and(|(time, _)| *time <= to)
}

/// The labels that a selector asks for by one equality matcher, and by no other matcher after it.
fn labels_asked_for<'a>(env: &Env<'a>, node: Option<&Node>) -> Outcome<&'a [Label<'a>]> {
    let Some(Node::Selector(selector)) = node else {
        return Ok(&[]);
    };
    let mut asked: Vec<(&str, Option<&str>)> = Vec::new();
    for matcher in in_order(env, selector)? {
        if matcher.label == "__name__" {
            continue;
        }
        let is_equal = matcher.operator == MatchOperator::Equal;
        let known = asked.iter_mut().find(|(name, _)| *name == matcher.label);
        match known {
            Some((_, value)) => *value = None,
            None if is_equal => asked.push((&matcher.label, Some(&matcher.value))),
            None => {}
        }
    }
    let mut labels = Vec::with_capacity(asked.len());
    for (name, value) in asked {
        labels.push(Label {
            name: text(env.bump, name)?,
            value: text(env.bump, value.unwrap_or_default())?,
        });
    }
    label_set(env.bump, &labels)
}

/// The matchers in the order in which the servers come to see them: since 2.51 what takes series
/// away from others comes last.
fn in_order<'s>(env: &Env<'_>, selector: &'s Selector) -> Outcome<Vec<&'s Matcher>> {
    let mut all = Vec::with_capacity(selector.matchers.len());
    for matcher in &selector.matchers {
        let test = Test::read(env, matcher)?;
        all.push((matcher, test.fits(""), test.is_negated));
    }
    if env.dialect().is_at_least(2, 51) {
        let mut set = all.iter().filter(|(_, fits_none, _)| !fits_none);
        let set: Vec<&str> = set
            .by_ref()
            .map(|(matcher, ..)| matcher.label.as_str())
            .collect();
        all.sort_by_key(|(matcher, fits_none, is_negated)| {
            !set.contains(&matcher.label.as_str()) || (*is_negated && *fits_none)
        });
    }
    Ok(all.into_iter().map(|(matcher, ..)| matcher).collect())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{labels_of, with_env};
    use super::*;
    use crate::query::parse;

    #[test]
    fn labels_come_from_equality_matchers() {
        let cases = [
            (r#"x{a="b"}"#, r#"{a="b"}"#),
            (r#"x{a="b"}[5m]"#, r#"{a="b"}"#),
            (r#"{a="b",__name__="x"}"#, r#"{a="b"}"#),
            (r#"x{b="2",a="1"}"#, r#"{a="1",b="2"}"#),
            (r#"x{a="1",a="2",b="c"}"#, r#"{b="c"}"#),
            (r#"x{a="1",a="1",b="c"}"#, r#"{b="c"}"#),
            (r#"x{a="1",a!="2",b="c"}"#, r#"{b="c"}"#),
            // Only what comes after the equality takes it back.
            (r#"x{a=~"1",a="2"}"#, r#"{a="2"}"#),
            (r#"x{a="",a="2"}"#, "{}"),
            (r#"x{a=""}"#, "{}"),
            (r#"-x{a="b"}"#, "{}"),
            (r#"x{a="b"}[5m:1m]"#, "{}"),
        ];
        let asked = |dialect, query| {
            let node = parse(query).unwrap();
            with_env(dialect, 1, |env, _| {
                labels_of(labels_asked_for(env, Some(&node)).unwrap())
            })
        };
        for (query, expected) in cases {
            for dialect in [(2, 42), (3, 5)] {
                assert_eq!(asked(dialect, query), expected, "{query}");
            }
        }
        // What takes away is looked at last by later versions, wherever it stands.
        let query = r#"x{a="1",b!="3",b="4"}"#;
        assert_eq!(asked((2, 42), query), r#"{a="1",b="4"}"#);
        assert_eq!(asked((3, 5), query), r#"{a="1"}"#);
    }
}
