//! Matchers of a selector, ready to be asked about values.

use super::pattern::Pattern;
use crate::eval::env::Env;
use crate::eval::error::Outcome;
use crate::query::{MatchOperator, Matcher};

/// What a matcher asks of a value.
#[derive(Debug)]
pub(super) struct Test {
    value: String,
    pattern: Option<Pattern>,
    /// It wants what does not match.
    pub(super) is_negated: bool,
}

impl Test {
    pub(super) fn read(env: &Env<'_>, matcher: &Matcher) -> Outcome<Self> {
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

    /// That a value is this one.
    pub(super) fn equal(value: &str) -> Self {
        Self {
            value: value.to_owned(),
            pattern: None,
            is_negated: false,
        }
    }

    /// Whether a value is what is asked for.
    pub(super) fn fits(&self, value: &str) -> bool {
        let found = match &self.pattern {
            Some(pattern) => pattern.matches(value),
            None => value == self.value,
        };
        found != self.is_negated
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
