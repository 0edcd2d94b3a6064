//! `/api/v1/alerts`: an alert is its labels and annotations; of equal ones the worst state is told.

use std::collections::BTreeMap;

use super::item::{Commas, Reading, Written};
use super::join::Join;
use super::walk::{Cut, Shape};
use super::{Entry, Item};
use crate::error::MemberFailure;
use crate::labels::Label;

pub(super) const DATA: Shape = Shape::object(
    None,
    &[("alerts", Shape::array(None, &Shape::object(Some(0), &[])))],
);

/// One alert.
#[derive(Debug, Clone, Copy)]
pub(super) struct Alert<'a> {
    labels: &'a [Label<'a>],
    annotations: &'a [Label<'a>],
    severity: u8,
    written: Written<'a>,
}

/// How bad a state of an alert or of a rule is.
pub(super) fn severity(state: &str) -> u8 {
    match state {
        "firing" => 3,
        "pending" => 2,
        "inactive" => 1,
        _ => 0,
    }
}

/// Reads an alert; `with_injected` adds the labels of who answered.
pub(super) fn read<'a>(
    cut: &Cut<'_, 'a>,
    reading: &mut Reading<'a>,
    with_injected: bool,
) -> Result<Item<'a>, MemberFailure> {
    let (written, labels) = if with_injected {
        reading.labelled(cut, "labels")?
    } else {
        let labels = reading.labels_or_none(cut.field("labels"))?;
        (reading.whole(cut)?, labels)
    };
    let alert = Alert {
        labels,
        annotations: reading.labels_or_none(cut.field("annotations"))?,
        severity: severity(reading.text_or_empty(cut, "state")?),
        written,
    };
    Ok(Item::Alert(reading.keep(alert)?))
}

/// Alerts by labels and annotations, in that order.
#[derive(Debug, Default)]
pub(super) struct Alerts<'a>(BTreeMap<(&'a [Label<'a>], &'a [Label<'a>]), &'a Alert<'a>>);

impl<'a> Alerts<'a> {
    /// Of two that are equal the worse one stays, else the one that was there.
    pub(super) fn add(&mut self, alert: &'a Alert<'a>) {
        let key = (alert.labels, alert.annotations);
        let known = self.0.entry(key).or_insert(alert);
        if alert.severity > known.severity {
            *known = alert;
        }
    }

    /// Takes out the first one and writes it.
    pub(super) fn write_next(&mut self, commas: &mut Commas, out: &mut Vec<u8>) -> bool {
        let Some((_, alert)) = self.0.pop_first() else {
            return false;
        };
        commas.next(out);
        alert.written.write(out);
        true
    }
}

#[derive(Debug, Default)]
pub(super) struct Joined<'a> {
    alerts: Alerts<'a>,
    has_begun: bool,
    commas: Commas,
}

impl<'a> Join<'a> for Joined<'a> {
    fn take(&mut self, _: usize, entry: Entry<'a>) {
        if let Item::Alert(alert) = entry.item {
            self.alerts.add(alert);
        }
    }

    fn write(&mut self, out: &mut Vec<u8>) -> bool {
        if !std::mem::replace(&mut self.has_begun, true) {
            out.extend_from_slice(b"{\"alerts\":[");
        }
        let has_more = self.alerts.write_next(&mut self.commas, out);
        if !has_more {
            out.extend_from_slice(b"]}");
        }
        has_more
    }
}
