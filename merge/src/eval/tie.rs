//! Numbers so close that the last bits of a sum decide between two results.
//!
//! Sums that were computed in parts, one for each replica group, may differ in their last bits
//! from those of one server. That shows where something is decided by them: a comparison of two
//! numbers that are all but equal, a difference that is all but zero, a time right at a second.
//! Whoever decides looks; what is found asks for a second plan, in which nothing is computed in
//! parts.

use super::env::Env;
use super::value::Series;
use std::cell::Cell;

/// How much smaller than two numbers their difference may be by rounding alone: 2^-40, for sums of
/// many thousand terms.
const ROUNDING: f64 = 1.0 / (1u64 << 40) as f64;

/// How much smaller than two numbers their difference may be before the bits that they have lost
/// are more than a billionth of it: 2^-20.
const CANCELLING: f64 = 1.0 / (1u64 << 20) as f64;

/// Looks for ties where what is at hand makes it worth while, and remembers whether there was one.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    is_on: Cell<bool>,
    is_found: Cell<bool>,
}

impl Watch {
    /// Says of the operation that comes next whether its operands are of the kind that is watched.
    pub(crate) fn set(&self, is_on: bool) {
        self.is_on.set(is_on);
    }

    /// Whether it is worth looking.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.get() && !self.is_found.get()
    }

    /// Notes a tie if the operands are of that kind.
    pub(crate) fn note(&self, is_tie: bool) {
        if is_tie && self.is_on.get() {
            self.is_found.set(true);
        }
    }

    /// Whether there was a tie.
    pub(crate) fn is_found(&self) -> bool {
        self.is_found.get()
    }
}

/// Whether two numbers may be one, or the other way around. Zeros come from no rounding; what is
/// no sample is close to nothing.
#[inline]
pub(crate) fn are_close(a: f64, b: f64) -> bool {
    are_within(a, b, ROUNDING)
}

/// Whether two numbers all but cancel out when one is taken from the other: what rounding has cost
/// them shows in the difference.
#[inline]
pub(crate) fn cancel_out(a: f64, b: f64) -> bool {
    are_within(a, b, CANCELLING)
}

#[inline]
fn are_within(a: f64, b: f64, part: f64) -> bool {
    let size = a.abs().max(b.abs());
    size > 0.0 && size < f64::INFINITY && (a - b).abs() <= size * part
}

/// Whether a number of seconds may be of the second before, or after.
pub(crate) fn is_at_second(seconds: f64) -> bool {
    are_close(seconds, seconds.round())
}

/// Whether the function tells apart what is all but equal in a range.
pub(crate) fn tells_apart_in_range(function: &str) -> bool {
    matches!(
        function,
        "delta" | "idelta" | "deriv" | "stddev_over_time" | "stdvar_over_time" | "mad_over_time"
    )
}

/// Looks at a function of one number where it is steep.
pub(crate) fn is_steep_at(function: &str, value: f64) -> bool {
    match function {
        "ln" | "log2" | "log10" | "acosh" => are_close(value, 1.0),
        "asin" | "acos" | "atanh" => are_close(value.abs(), 1.0),
        _ => false,
    }
}

/// Looks for samples that follow each other and are all but equal. Equal ones are most likely sums
/// of equal numbers, and so they are on one server.
pub(crate) fn note_in_range(watch: &Watch, floats: &[(i64, f64)]) {
    if watch.is_on() {
        let is_tie =
            |pair: &[(i64, f64)]| pair[0].1 != pair[1].1 && are_close(pair[0].1, pair[1].1);
        watch.note(floats.windows(2).any(is_tie));
    }
}

/// Looks for series that follow each other and are all but equal at a step.
pub(crate) async fn note_among(env: &Env<'_>, series: &[Series<'_>]) {
    for pair in series.windows(2) {
        if !env.watch.is_on() {
            return;
        }
        let (first, second) = (&pair[0].column.floats, &pair[1].column.floats);
        env.pace.spend(32 + 2 * first.len()).await;
        let mut both = first.iter().zip(second.iter());
        env.watch
            .note(both.any(|(a, b)| a != b && are_close(*a, *b)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::value::ABSENT;
    use super::*;

    #[test]
    fn close_is_what_rounding_may_turn() {
        let close = [
            (1.0, 1.0),
            (0.3, 0.1 + 0.2),
            (-5.5, -5.500_000_000_000_1),
            (1e300, 1e300),
        ];
        let apart = [
            (0.0, 0.0),
            (0.0, -0.0),
            (0.0, 1e-300),
            (1.0, 1.000_000_001),
            (1.0, -1.0),
            (f64::INFINITY, f64::INFINITY),
            (f64::INFINITY, 1.0),
            (f64::NAN, f64::NAN),
            (ABSENT, ABSENT),
            (ABSENT, 1.0),
        ];
        for (a, b) in close {
            assert!(are_close(a, b) && are_close(b, a), "{a} {b}");
        }
        for (a, b) in apart {
            assert!(!are_close(a, b) && !are_close(b, a), "{a} {b}");
        }
        assert!(cancel_out(1e9 + 2.5, 1e9) && cancel_out(1e9, 1e9) && !cancel_out(0.0, 0.0));
        assert!(!cancel_out(1.0, 1.000_01) && !cancel_out(1.0, -1.0));
        assert!(is_at_second(1_700_000_000.000_000_1) && !is_at_second(1_700_000_000.5));
        assert!(!is_at_second(0.0));
    }

    #[test]
    fn a_watch_that_is_off_sees_nothing() {
        let watch = Watch::default();
        note_in_range(&watch, &[(0, 0.3), (1, 0.1 + 0.2)]);
        watch.note(true);
        assert!(!watch.is_found());
        watch.set(true);
        note_in_range(&watch, &[(0, 0.3), (1, 0.3), (2, 0.4)]);
        assert!(!watch.is_found());
        note_in_range(&watch, &[(0, 0.3), (1, 0.1 + 0.2)]);
        assert!(watch.is_found());
    }
}
