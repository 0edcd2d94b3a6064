//! `sort`, `sort_desc`, `sort_by_label`, `sort_by_label_desc`.
//!
//! Metric names stay. Only an instant query has an order: the series of a range answer are always
//! sorted by labels.

use std::cmp::Ordering;

use super::arguments::Arguments;
use super::labels::value_of;
use super::order;
use crate::eval::env::Env;
use crate::eval::error::Outcome;
use crate::eval::value::{Series, Value};
use crate::labels::{Label, compare};
use crate::plan::Grid;

/// Calls one of these functions.
pub(super) async fn call<'a>(
    env: &Env<'a>,
    grid: &Grid,
    function: &str,
    mut given: Arguments<'a>,
) -> Outcome<Value<'a>> {
    let mut series = given.vector();
    let is_descending = function.ends_with("_desc");
    let is_by_label = function.starts_with("sort_by_label");
    if !is_by_label && env.dialect().is_at_least(3, 0) {
        for one in &mut series {
            one.column.histograms = None;
        }
    }
    if grid.count != 1 {
        if env.dialect().is_at_least(3, 6) {
            env.warn(
                "sort is ineffective for range queries since results are always ordered by labels",
            );
        }
        return Ok(Value::Vector(series));
    }
    series.retain(|one| one.column.has(0));
    let turn = |ordering: Ordering| match is_descending {
        true => ordering.reverse(),
        false => ordering,
    };
    let mut places: Vec<usize> = (0..series.len()).collect();
    if is_by_label {
        let mut names = Vec::with_capacity(given.count());
        while given.count() > 0 {
            names.push(given.text()?);
        }
        let labels = |at: &usize| series[*at].labels;
        order::sort(env, &mut places, |a, b| {
            turn(by_label(&names, labels(a), labels(b)))
        })
        .await;
    } else {
        let has_sums = env.dialect().is_at_least(2, 44);
        let value = |at: &usize| {
            let column = &series[*at].column;
            // Before 3.0 histograms stand where their sums would, before 2.44 where 0 would.
            match column.histogram(0) {
                Some(histogram) if has_sums => histogram.sum(),
                Some(_) => 0.0,
                None => column.floats[0],
            }
        };
        order::sort(env, &mut places, |a, b| {
            by_value(value(a), value(b), is_descending)
        })
        .await;
    }
    let mut taken: Vec<Option<Series<'a>>> = series.into_iter().map(Some).collect();
    let sorted = places.into_iter().filter_map(|at| taken[at].take());
    Ok(Value::Vector(sorted.collect()))
}

/// NaN comes last whichever way the numbers run, and a NaN comes before another.
fn by_value(left: f64, right: f64, is_descending: bool) -> Ordering {
    if right.is_nan() {
        return Ordering::Less;
    }
    let ordering = left.partial_cmp(&right).unwrap_or(Ordering::Equal);
    match (left.is_nan(), is_descending) {
        (true, _) => Ordering::Greater,
        (false, true) => ordering.reverse(),
        (false, false) => ordering,
    }
}

/// By the labels of these names, then by all.
fn by_label(names: &[&str], left: &[Label<'_>], right: &[Label<'_>]) -> Ordering {
    for name in names {
        let (a, b) = (value_of(left, name), value_of(right, name));
        if a != b {
            return match is_naturally_less(a, b) {
                true => Ordering::Less,
                false => Ordering::Greater,
            };
        }
    }
    compare(left, right)
}

/// Whether `left` comes before `right` where runs of digits count as numbers. Not a strict order:
/// of texts that differ in leading zeros alone each comes before the other.
fn is_naturally_less(left: &str, right: &str) -> bool {
    let (mut left, mut right) = (Runs { left }, Runs { left: right });
    while let Some(a) = left.next() {
        let Some(b) = right.next() else {
            return false;
        };
        let are_equal = match (a.parse::<i64>(), b.parse::<i64>()) {
            (Ok(a), Ok(b)) if a != b => return a < b,
            (Ok(_), Ok(_)) => true,
            _ if a != b => return a < b,
            _ => true,
        };
        if are_equal && left.left.is_empty() {
            return true;
        }
    }
    false
}

/// The runs of digits and of other characters of a text.
struct Runs<'t> {
    left: &'t str,
}

impl<'t> Iterator for Runs<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        let is_number = self.left.as_bytes().first()?.is_ascii_digit();
        let end = self
            .left
            .bytes()
            .position(|byte| byte.is_ascii_digit() != is_number);
        let (run, left) = self.left.split_at(end.unwrap_or(self.left.len()));
        self.left = left;
        Some(run)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    #[test]
    fn natural_order_counts_digits_as_numbers() {
        let cases = [
            ("a2", "a10", true),
            ("a10", "a2", false),
            ("a", "a1", true),
            ("a1", "a", false),
            ("1", "a", true),
            ("10:9100", "9:9100", false),
            ("99999999999999999999", "1", false),
            ("10000000000000000000", "9", true),
            ("", "x", false),
            ("x", "", false),
            ("01a", "1a", true),
            ("1a", "01a", true),
        ];
        for (left, right, expected) in cases {
            assert_eq!(is_naturally_less(left, right), expected, "{left} {right}");
        }
    }

    #[test]
    fn order_is_by_value_or_label() {
        let values = "x{i=\"1\"} 2\nx{i=\"2\"} NaN\nx{i=\"3\"} _\nx{i=\"10\"} -Inf\nx{i=\"4\"} 7";
        let names = |text: String| {
            let order = text.lines().map(|line| line.split('"').nth(1).unwrap());
            order.collect::<Vec<_>>().join(" ")
        };
        let ask = |function| names(run((3, 5), 1, function, &[values]));
        assert_eq!(ask("sort"), "10 1 4 2");
        assert_eq!(ask("sort_desc"), "4 1 10 2");
        let ask = |function| names(run((3, 5), 1, function, &[values, "'i"]));
        assert_eq!(ask("sort_by_label"), "1 2 4 10");
        assert_eq!(ask("sort_by_label_desc"), "10 4 2 1");
    }

    #[test]
    fn nan_is_never_in_the_way() {
        let many: Vec<String> = (0..100)
            .map(|i| match i % 3 {
                0 => format!("x{{i=\"{i}\"}} NaN"),
                _ => format!("x{{i=\"{i}\"}} {}", i * 37 % 11),
            })
            .collect();
        let sorted = run((3, 5), 1, "sort", &[&many.join("\n")]);
        let values: Vec<f64> = sorted
            .lines()
            .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(values.len(), 100);
        let numbers = values.iter().take_while(|value| !value.is_nan()).count();
        assert_eq!(numbers, 66);
        assert!(values[..numbers].is_sorted());
        assert!(values[numbers..].iter().all(|value| value.is_nan()));
    }
}
