//! What every operation of one evaluation has at hand.

use std::cell::RefCell;

use bumpalo::Bump;

use super::pace::Pace;
use super::tie::Watch;
use crate::limits::WARNINGS_MAX;
use crate::plan::{Clock, Dialect};
use crate::stats::Stats;

/// The surroundings of an evaluation.
#[derive(Debug)]
pub(crate) struct Env<'a> {
    pub(crate) bump: &'a Bump,
    pub(crate) pace: &'a Pace,
    pub(crate) clock: Clock,
    pub(crate) notes: RefCell<Notes>,
    pub(crate) watch: Watch,
    /// For equal values that compete where groups have put series in an order of their own.
    pub(crate) order: Watch,
}

/// Annotations of the answer, each text once.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) warnings: Vec<String>,
    pub(crate) infos: Vec<String>,
    /// Of the servers that were asked for the parts.
    pub(crate) stats: Option<Stats>,
}

impl Env<'_> {
    pub(crate) fn dialect(&self) -> Dialect {
        self.clock.dialect
    }

    /// Adds `PromQL warning: {text}`.
    pub(crate) fn warn(&self, text: &str) {
        note(
            &mut self.notes.borrow_mut().warnings,
            format!("PromQL warning: {text}"),
        );
    }

    /// Adds what others have said, as they said it.
    pub(crate) fn pass_on(&self, warnings: Vec<String>, infos: Vec<String>) {
        let mut notes = self.notes.borrow_mut();
        for text in warnings {
            note(&mut notes.warnings, text);
        }
        for text in infos {
            note(&mut notes.infos, text);
        }
    }

    /// Adds what a part's servers say of their work.
    pub(crate) fn count(&self, stats: Option<&Stats>) {
        if let Some(stats) = stats {
            let mut notes = self.notes.borrow_mut();
            notes.stats.get_or_insert_default().add_all(stats);
        }
    }

    /// Adds `PromQL info: {text}`.
    pub(crate) fn inform(&self, text: &str) {
        note(
            &mut self.notes.borrow_mut().infos,
            format!("PromQL info: {text}"),
        );
    }
}

fn note(texts: &mut Vec<String>, text: String) {
    if texts.len() < WARNINGS_MAX && !texts.contains(&text) {
        texts.push(text);
    }
}
