//! How a time series merge would answer a query, from the plan alone: for the command line.

pub use crate::mechanism::time_series_merge::explain::{ExplainError, Question, explain};
