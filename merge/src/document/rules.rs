//! `/api/v1/rules`: groups by file and name, their rules by what defines them.
//!
//! A rule file that several replica groups load is there once. Equal rules become one: it has the worst
//! state, the worst health with its error, and the alerts of all; every other field is the first one's.
//! Groups are sorted as servers sort them, rules keep their order, and those that only later replica
//! groups have follow. Pages (`group_limit`) are cut here, since no server knows where another's end.

use std::collections::BTreeMap;

use super::alerts::{self, Alerts, severity};
use super::item::{Commas, Fields, List, Reading};
use super::join::{Join, PIECE_UNITS};
use super::walk::{Cut, Field, Shape};
use super::{Entry, Item, Trim};
use crate::error::MemberFailure;
use crate::labels::Label;
use crate::write::write_string;

const GROUPS: usize = 0;
const RULES: usize = 1;
pub(super) const DATA: Shape = Shape::object(None, &[("groups", Shape::array(None, &GROUP))]);
const GROUP: Shape = Shape::object(Some(GROUPS), &[("rules", Shape::array(None, &RULE))]);
const RULE: Shape = Shape::object(
    Some(RULES),
    &[("alerts", Shape::array(None, &Shape::object(Some(2), &[])))],
);

/// File and name.
type GroupKey<'a> = (&'a str, &'a str);

#[derive(Debug, Clone, Copy)]
pub(super) struct Group<'a> {
    key: GroupKey<'a>,
    fields: &'a [Field<'a>],
}

/// What makes two rules the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Identity<'a> {
    name: &'a str,
    kind: &'a str,
    query: &'a str,
    labels: &'a [Label<'a>],
    /// For how long it must hold, and is kept.
    durations: [&'a [u8]; 2],
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Rule<'a> {
    identity: Identity<'a>,
    fields: &'a [Field<'a>],
    severity: u8,
    state: &'a [u8],
    sickness: u8,
    health: &'a [u8],
    error: Option<&'a [u8]>,
}

pub(super) fn read<'a>(
    list: usize,
    cut: &Cut<'_, 'a>,
    reading: &mut Reading<'a>,
) -> Result<Item<'a>, MemberFailure> {
    match list {
        GROUPS => {
            let group = Group {
                key: (
                    reading.text_or_empty(cut, "file")?,
                    reading.text_of(cut, "name")?,
                ),
                fields: reading.fields_beside(cut, "rules")?,
            };
            Ok(Item::Group(reading.keep(group)?))
        }
        RULES => {
            let short = |name| cut.field(name).unwrap_or_default();
            let identity = Identity {
                name: reading.text_of(cut, "name")?,
                kind: reading.text_or_empty(cut, "type")?,
                query: reading.text_or_empty(cut, "query")?,
                labels: reading.labels_or_none(cut.field("labels"))?,
                durations: [short("duration"), short("keepFiringFor")],
            };
            let health = reading.text_or_empty(cut, "health")?;
            let rule = Rule {
                identity,
                fields: reading.fields_beside(cut, "alerts")?,
                severity: severity(reading.text_or_empty(cut, "state")?),
                state: short("state"),
                sickness: match health {
                    "err" => 2,
                    "ok" | "" => 0,
                    _ => 1,
                },
                health: short("health"),
                error: cut.field("lastError"),
            };
            Ok(Item::Rule(reading.keep(rule)?))
        }
        _ => alerts::read(cut, reading, false),
    }
}

/// A rule as it stands in the answer.
#[derive(Debug)]
struct JoinedRule<'a> {
    first: &'a Rule<'a>,
    /// Whose state is told.
    worst: &'a Rule<'a>,
    /// Whose health is told.
    sickest: &'a Rule<'a>,
    alerts: Alerts<'a>,
}

#[derive(Debug)]
struct JoinedGroup<'a> {
    first: &'a Group<'a>,
    /// Numbers of its rules, in order.
    rules: List<usize>,
}

/// Rules of one group that cannot be told apart; the n-th of each server are the same.
#[derive(Debug)]
struct Twins {
    first: usize,
    others: Vec<usize>,
    /// How many the document that is being taken has had so far.
    document: usize,
    met: usize,
}

/// What is written next.
#[derive(Debug)]
enum Place<'a> {
    Start,
    Groups,
    Group(Fields<'a>),
    /// The rule of this place.
    Rules(Fields<'a>, usize),
    Rule(Fields<'a>, usize, Fields<'a>),
    Alerts(Fields<'a>, usize, Fields<'a>),
}

#[derive(Debug)]
pub(super) struct Joined<'a> {
    groups: List<JoinedGroup<'a>>,
    by_key: BTreeMap<GroupKey<'a>, usize>,
    rules: List<JoinedRule<'a>>,
    /// Rules by the place of their group and what makes them the same.
    known: BTreeMap<(usize, Identity<'a>), Twins>,
    /// Which document is being taken; where its groups and rules went.
    document: usize,
    group_places: List<usize>,
    rule_places: List<usize>,
    /// How many groups may be written still; from which one on.
    groups_left: u64,
    from: Option<(String, String)>,
    // === writing ===
    place: Place<'a>,
    group: usize,
    rule: usize,
    commas: Commas,
    alert_commas: Commas,
}

impl Joined<'_> {
    pub(super) fn new(trim: &Trim) -> Self {
        Self {
            groups: List::default(),
            by_key: BTreeMap::new(),
            rules: List::default(),
            known: BTreeMap::new(),
            document: 0,
            group_places: List::default(),
            rule_places: List::default(),
            groups_left: trim.groups.unwrap_or(u64::MAX),
            from: trim.from_group.clone(),
            place: Place::Start,
            group: 0,
            rule: 0,
            commas: Commas::default(),
            alert_commas: Commas::default(),
        }
    }
}

impl<'a> Join<'a> for Joined<'a> {
    fn begin(&mut self) {
        self.document += 1;
        self.group_places = List::default();
        self.rule_places = List::default();
    }

    fn take(&mut self, _: usize, entry: Entry<'a>) {
        match entry.item {
            Item::Group(group) => self.take_group(group),
            Item::Rule(rule) => self.take_rule(entry.parent, rule),
            Item::Alert(alert) => {
                let place = self.rule_places.get(entry.parent).copied();
                if let Some(rule) = place.and_then(|place| self.rules.get_mut(place)) {
                    rule.alerts.add(alert);
                }
            }
            _ => {}
        }
    }

    fn write(&mut self, out: &mut Vec<u8>) -> bool {
        self.place = match std::mem::replace(&mut self.place, Place::Groups) {
            Place::Start => {
                out.extend_from_slice(b"{\"groups\":[");
                Place::Groups
            }
            Place::Groups => match self.next_group(out) {
                Some(place) => place,
                None => return false,
            },
            Place::Group(mut fields) => match fields.write_next(out) {
                None => {
                    out.push(b'}');
                    Place::Groups
                }
                Some(field) if field.is("rules") => {
                    out.push(b'[');
                    Place::Rules(fields, 0)
                }
                Some(field) => {
                    out.extend_from_slice(field.value);
                    Place::Group(fields)
                }
            },
            Place::Rules(group, at) => self.next_rule(group, at, out),
            Place::Rule(group, at, fields) => self.next_field(group, at, fields, out),
            Place::Alerts(group, at, fields) => {
                let rule = self.rules.get_mut(self.rule);
                if rule.is_some_and(|rule| rule.alerts.write_next(&mut self.alert_commas, out)) {
                    Place::Alerts(group, at, fields)
                } else {
                    out.push(b']');
                    Place::Rule(group, at, fields)
                }
            }
        };
        true
    }

    fn drop_next(&mut self) -> usize {
        if self.known.pop_first().is_some() {
            return PIECE_UNITS;
        }
        match self.rules.drop_piece() {
            0 => self.groups.drop_piece(),
            units => units,
        }
    }
}

impl<'a> Joined<'a> {
    fn take_group(&mut self, group: &'a Group<'a>) {
        let new = self.groups.len();
        let place = *self.by_key.entry(group.key).or_insert(new);
        if place == new {
            self.groups.push(JoinedGroup {
                first: group,
                rules: List::default(),
            });
        }
        self.group_places.push(place);
    }

    fn take_rule(&mut self, parent: usize, rule: &'a Rule<'a>) {
        let Some(group) = self.group_places.get(parent).copied() else {
            return;
        };
        let new = self.rules.len();
        let key = (group, rule.identity);
        let twins = self.known.entry(key).or_insert_with(|| Twins {
            first: new,
            others: Vec::new(),
            document: 0,
            met: 0,
        });
        if twins.document != self.document {
            twins.document = self.document;
            twins.met = 0;
        }
        let place = match twins.met.checked_sub(1) {
            None => twins.first,
            Some(at) if at < twins.others.len() => twins.others[at],
            Some(_) => {
                twins.others.push(new);
                new
            }
        };
        twins.met += 1;
        if let Some(known) = self.rules.get_mut(place) {
            if rule.severity > known.worst.severity {
                known.worst = rule;
            }
            if rule.sickness > known.sickest.sickness {
                known.sickest = rule;
            }
        } else {
            if let Some(group) = self.groups.get_mut(group) {
                group.rules.push(new);
            }
            self.rules.push(JoinedRule {
                first: rule,
                worst: rule,
                sickest: rule,
                alerts: Alerts::default(),
            });
        }
        self.rule_places.push(place);
    }

    // === writing ===

    /// Begins the next group, or ends the answer.
    fn next_group(&mut self, out: &mut Vec<u8>) -> Option<Place<'a>> {
        let next = self.by_key.pop_first();
        let Some(((file, name), place)) = next else {
            out.extend_from_slice(b"]}");
            return None;
        };
        let is_before = |(from_file, from_name): &(String, String)| {
            (file, name) < (from_file.as_str(), from_name.as_str())
        };
        if self.from.as_ref().is_some_and(is_before) {
            return Some(Place::Groups);
        }
        if self.groups_left == 0 {
            out.extend_from_slice(b"],\"groupNextToken\":");
            write_string(out, &Trim::token(file, name));
            out.push(b'}');
            return None;
        }
        self.groups_left -= 1;
        self.group = place;
        self.commas.next(out);
        out.push(b'{');
        let first = self.groups.get(place)?.first;
        Some(Place::Group(Fields::new(first.fields)))
    }

    /// Begins the rule of this place of the group, or ends the list.
    fn next_rule(&mut self, group: Fields<'a>, at: usize, out: &mut Vec<u8>) -> Place<'a> {
        let number = self
            .groups
            .get(self.group)
            .and_then(|group| group.rules.get(at));
        let rule = number.and_then(|number| Some((*number, self.rules.get(*number)?.first)));
        let Some((number, first)) = rule else {
            out.push(b']');
            return Place::Group(group);
        };
        if at > 0 {
            out.push(b',');
        }
        out.push(b'{');
        self.rule = number;
        self.alert_commas.reset();
        Place::Rule(group, at, Fields::new(first.fields))
    }

    /// Writes the next field of a rule, or ends it.
    fn next_field(
        &mut self,
        group: Fields<'a>,
        at: usize,
        mut fields: Fields<'a>,
        out: &mut Vec<u8>,
    ) -> Place<'a> {
        let Some(rule) = self.rules.get(self.rule) else {
            return Place::Rules(group, at + 1);
        };
        let Some(field) = fields.write_next(out) else {
            // The first one was well and so has no error to replace.
            if let (None, Some(error)) = (rule.first.error, rule.sickest.error) {
                out.extend_from_slice(b",\"lastError\":");
                out.extend_from_slice(error);
            }
            out.push(b'}');
            return Place::Rules(group, at + 1);
        };
        if field.is("alerts") {
            out.push(b'[');
            return Place::Alerts(group, at, fields);
        }
        let value = if field.is("state") {
            rule.worst.state
        } else if field.is("health") {
            rule.sickest.health
        } else if field.is("lastError") {
            rule.sickest.error.unwrap_or(b"\"\"")
        } else {
            field.value
        };
        out.extend_from_slice(value);
        Place::Rule(group, at, fields)
    }
}
