//! Arithmetic and comparisons, over columns.
//!
//! `%` keeps the sign of the dividend, as the servers' does.

use crate::eval::elementary;
use crate::eval::tie::{are_close, cancel_out};
use crate::eval::value::{ABSENT, is_absent};

/// An operator of two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Power,
    Atan2,
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
}

/// Operators as they are written.
const TEXTS: [(&str, Operator); 13] = [
    ("+", Operator::Add),
    ("-", Operator::Subtract),
    ("*", Operator::Multiply),
    ("/", Operator::Divide),
    ("%", Operator::Modulo),
    ("^", Operator::Power),
    ("atan2", Operator::Atan2),
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    (">", Operator::Greater),
    ("<", Operator::Less),
    (">=", Operator::GreaterOrEqual),
    ("<=", Operator::LessOrEqual),
];

impl Operator {
    /// Reads an operator as it is written.
    pub(super) fn read(text: &str) -> Option<Self> {
        let found = TEXTS.iter().find(|(own, _)| *own == text);
        found.map(|(_, operator)| *operator)
    }

    /// How it is written.
    pub(super) fn text(self) -> &'static str {
        let found = TEXTS.iter().find(|(_, operator)| *operator == self);
        found.map_or("", |(text, _)| text)
    }

    /// Units of work that one result takes at most. A remainder takes a step for each bit that the
    /// exponents are apart.
    pub(super) fn units(self) -> usize {
        match self {
            Self::Modulo => 256,
            Self::Power => 2 * elementary::UNITS,
            Self::Atan2 => elementary::UNITS,
            _ => 2,
        }
    }

    pub(super) fn is_comparison(self) -> bool {
        matches!(
            self,
            Self::Equal
                | Self::NotEqual
                | Self::Greater
                | Self::Less
                | Self::GreaterOrEqual
                | Self::LessOrEqual
        )
    }
}

/// What is done to two columns: the own one, which takes the result, and another one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operation {
    pub(super) operator: Operator,
    pub(super) returns_bool: bool,
    /// Whether the own column is the right operand.
    pub(super) is_flipped: bool,
    /// Whether a comparison that filters keeps the own value; else the other one.
    pub(super) keeps_own: bool,
    /// Whether the result has the metric name.
    pub(super) keeps_names: bool,
}

impl Operation {
    /// Whether it is a comparison that filters.
    pub(super) fn filters(self) -> bool {
        self.operator.is_comparison() && !self.returns_bool
    }

    /// The left and the right operand.
    pub(super) fn sides<T>(self, own: T, other: T) -> (T, T) {
        match self.is_flipped {
            false => (own, other),
            true => (other, own),
        }
    }

    /// Whether the last bits of two numbers decide a result.
    pub(super) fn has_tie(self, own: &[f64], other: &[f64]) -> bool {
        let mut pairs = own.iter().zip(other);
        match self.operator {
            Operator::Add => pairs.any(|(own, other)| cancel_out(*own, -*other)),
            Operator::Subtract => pairs.any(|(own, other)| cancel_out(*own, *other)),
            operator if operator.is_comparison() => {
                pairs.any(|(own, other)| are_close(*own, *other))
            }
            _ => false,
        }
    }

    /// Puts the results in the place of `own`; none where one of the values is absent.
    pub(super) fn apply(self, own: &mut [f64], other: &[f64]) {
        match self.operator {
            Operator::Add => self.compute(own, other, |a, b| a + b),
            Operator::Subtract => self.compute(own, other, |a, b| a - b),
            Operator::Multiply => self.compute(own, other, |a, b| a * b),
            Operator::Divide => self.compute(own, other, |a, b| a / b),
            Operator::Modulo => self.compute(own, other, |a, b| a % b),
            Operator::Power => self.compute(own, other, elementary::power),
            Operator::Atan2 => self.compute(own, other, elementary::atan2),
            Operator::Equal => self.compare(own, other, |a, b| a == b),
            Operator::NotEqual => self.compare(own, other, |a, b| a != b),
            Operator::Greater => self.compare(own, other, |a, b| a > b),
            Operator::Less => self.compare(own, other, |a, b| a < b),
            Operator::GreaterOrEqual => self.compare(own, other, |a, b| a >= b),
            Operator::LessOrEqual => self.compare(own, other, |a, b| a <= b),
        }
    }

    /// The result for two numbers, `own` and `other`; `None` where a comparison drops it.
    pub(super) fn of(self, own: f64, other: f64) -> Option<f64> {
        let mut cell = [own];
        self.apply(&mut cell, &[other]);
        let [value] = cell;
        (!is_absent(value)).then_some(value)
    }

    fn compute(self, own: &mut [f64], other: &[f64], compute: impl Fn(f64, f64) -> f64) {
        match self.is_flipped {
            false => each(own, other, compute),
            true => each(own, other, |own, other| compute(other, own)),
        }
    }

    fn compare(self, own: &mut [f64], other: &[f64], holds: impl Fn(f64, f64) -> bool) {
        let holds = |own: f64, other: f64| match self.is_flipped {
            false => holds(own, other),
            true => holds(other, own),
        };
        match (self.returns_bool, self.keeps_own) {
            (true, _) => each(own, other, |own, other| f64::from(holds(own, other))),
            (false, true) => each(own, other, |own, other| match holds(own, other) {
                true => own,
                false => ABSENT,
            }),
            (false, false) => each(own, other, |own, other| match holds(own, other) {
                true => other,
                false => ABSENT,
            }),
        }
    }
}

#[inline]
fn each(own: &mut [f64], other: &[f64], compute: impl Fn(f64, f64) -> f64) {
    for (own, other) in own.iter_mut().zip(other) {
        *own = match is_absent(*own) || is_absent(*other) {
            true => ABSENT,
            false => compute(*own, *other),
        };
    }
}
