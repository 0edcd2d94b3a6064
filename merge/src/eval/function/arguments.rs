//! The evaluated arguments of a call, taken one after the other.
//!
//! The parser has checked their types; what does not fit all the same is an error, not a panic.

use crate::eval::error::{EvalError, Outcome};
use crate::eval::value::{Series, Value};

/// Arguments that are still to be taken.
#[derive(Debug)]
pub(super) struct Arguments<'a> {
    left: std::vec::IntoIter<Value<'a>>,
}

impl<'a> Arguments<'a> {
    pub(super) fn new(values: Vec<Value<'a>>) -> Self {
        Self {
            left: values.into_iter(),
        }
    }

    pub(super) fn next(&mut self) -> Option<Value<'a>> {
        self.left.next()
    }

    /// How many are left.
    pub(super) fn count(&self) -> usize {
        self.left.len()
    }

    pub(super) fn vector(&mut self) -> Vec<Series<'a>> {
        self.next().map(Value::into_vector).unwrap_or_default()
    }

    /// One number for each step.
    pub(super) fn scalar(&mut self) -> Outcome<&'a mut [f64]> {
        self.optional_scalar()
            .ok_or_else(|| EvalError::Execution("expected a scalar argument".to_owned()))
    }

    pub(super) fn optional_scalar(&mut self) -> Option<&'a mut [f64]> {
        match self.next() {
            Some(Value::Scalar(column)) => Some(column),
            _ => None,
        }
    }

    pub(super) fn text(&mut self) -> Outcome<&'a str> {
        match self.next() {
            Some(Value::Text(text)) => Ok(text),
            _ => Err(EvalError::Execution(
                "expected a string argument".to_owned(),
            )),
        }
    }
}
