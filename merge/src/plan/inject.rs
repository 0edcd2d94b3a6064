//! Labels that ringway adds to the answers of replica groups, in what the groups are asked.
//!
//! The servers do not know these labels. A matcher on one is decided here: it drops out of the
//! text for the groups whose value it accepts, and the other groups are not asked. An aggregation
//! that groups by one is asked without it, and the label is added before the groups' answers are
//! combined. What cannot be said that way is not left to the groups.

use super::push::Pushed;
use super::{Ask, Clock, Keep, Variant};
use crate::query::print::print;
use crate::query::{Aggregate, Binary, Grouping, MatchOperator, Matcher, Node, Selector, Subquery};
use crate::strategy::Strategy;

/// The labels of each group.
#[derive(Debug)]
pub(super) struct Injected<'o> {
    groups: &'o [Vec<(String, String)>],
    names: Vec<String>,
    apart: Vec<String>,
}

impl<'o> Injected<'o> {
    pub(super) fn new(groups: &'o [Vec<(String, String)>]) -> Self {
        let mut names: Vec<String> = groups
            .iter()
            .flatten()
            .map(|(name, _)| name.clone())
            .collect();
        names.sort_unstable();
        names.dedup();
        let has = |group: &Vec<(String, String)>, name: &String| group.iter().any(|l| l.0 == *name);
        let mut apart = names.clone();
        apart.retain(|name| groups.iter().all(|group| has(group, name)));
        let mut values: Vec<Vec<&str>> = groups
            .iter()
            .map(|group| {
                apart
                    .iter()
                    .filter_map(|name| value_of(group, name))
                    .collect()
            })
            .collect();
        values.sort_unstable();
        let count = values.len();
        values.dedup();
        if values.len() < count || count < 2 {
            apart.clear();
        }
        Self {
            groups,
            names,
            apart,
        }
    }

    /// Labels that every group has, if they tell each group from each other.
    pub(super) fn apart(&self) -> &[String] {
        &self.apart
    }

    pub(super) fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }

    fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    fn has(&self, label: &str) -> bool {
        self.names.iter().any(|name| name == label)
    }

    /// The labels that a grouping keeps in a merged aggregation.
    pub(super) fn grouped_by(&self, grouping: &Grouping) -> Keep {
        let Grouping::Include(labels) = grouping else {
            return Keep::Nothing;
        };
        let listed: Vec<String> = labels
            .iter()
            .filter(|label| self.has(label))
            .cloned()
            .collect();
        match listed.is_empty() {
            true => Keep::Nothing,
            false => Keep::Listed(listed),
        }
    }

    /// The same where the aggregation is an operand: what it does not drop stays.
    pub(super) fn left_by(&self, grouping: &Grouping) -> Keep {
        let Grouping::Exclude(gone) = grouping else {
            return self.grouped_by(grouping);
        };
        let kept = self.names.iter().filter(|name| !gone.contains(name));
        let kept: Vec<String> = kept.cloned().collect();
        match kept.is_empty() {
            true => Keep::Nothing,
            false => Keep::Listed(kept),
        }
    }

    /// Whether a matcher or grouping of `node` names one of the labels.
    pub(super) fn is_asked_for(&self, node: &Node) -> bool {
        let asks = |node: &Node| match node {
            Node::Selector(selector) => selector.matchers.iter().any(|m| self.has(&m.label)),
            Node::Aggregate(aggregate) => {
                matches!(&aggregate.grouping, Grouping::Include(by) if by.iter().any(|l| self.has(l)))
            }
            _ => false,
        };
        !self.is_empty() && node.find(&asks).is_some()
    }

    /// Whether what `node` says of these labels can be told to the groups. Only its outermost
    /// aggregation may group by one, and matchers on one are told for a single selector.
    pub(super) fn allows(&self, node: &Node) -> bool {
        if self.is_empty() {
            return true;
        }
        let inner = match node {
            Node::Aggregate(aggregate) => &*aggregate.input,
            Node::Binary(Binary { left, .. }) => match left.as_ref() {
                Node::Aggregate(aggregate) => &*aggregate.input,
                _ => node,
            },
            _ => node,
        };
        let needs_label = |node: &Node| match node {
            Node::Aggregate(aggregate) => self.names_in(&aggregate.grouping),
            Node::Binary(binary) => self.names_in(&binary.matching),
            Node::Call {
                function,
                arguments,
            } => {
                let has = |node: &Node| matches!(node, Node::Text(text) if self.has(text));
                function.starts_with("label_") && arguments.iter().any(has)
            }
            _ => false,
        };
        let selectors = count(node, &|node| matches!(node, Node::Selector(_)));
        let matching = count(node, &|node| match node {
            Node::Selector(selector) => selector.matchers.iter().any(|m| self.has(&m.label)),
            _ => false,
        });
        inner.find(&needs_label).is_none() && (matching == 0 || selectors == 1)
    }

    fn names_in(&self, grouping: &Grouping) -> bool {
        match grouping {
            Grouping::Include(labels) => labels.iter().any(|label| self.has(label)),
            Grouping::None | Grouping::Exclude(_) => false,
        }
    }

    /// The variants of `node` with the texts for each group; `None` where a matcher on one of the
    /// labels cannot be decided.
    pub(super) fn variants(
        &self,
        node: &Node,
        pushed: &Pushed,
        clock: &Clock,
    ) -> Option<Vec<Variant>> {
        let mut variants = Vec::new();
        for (name, operator) in pushed.renames() {
            let text = |node: &Node| print(&renamed(node, *operator), clock);
            let mut variant = Variant {
                name,
                query: Some(text(node)),
                ..Variant::default()
            };
            if self.is_asked_for(node) {
                let mut asked = Vec::new();
                for (index, labels) in self.groups.iter().enumerate() {
                    let mut told = node.clone();
                    if !tell(&mut told, labels)? {
                        continue;
                    }
                    asked.push(index);
                    if told != *node {
                        variant.by_group.push((index, text(&told)));
                    }
                }
                if asked.len() < self.groups.len() {
                    variant.ask = Ask::Groups(asked);
                }
            }
            variants.push(variant);
        }
        Some(variants)
    }
}

fn value_of<'l>(labels: &'l [(String, String)], name: &str) -> Option<&'l str> {
    let found = labels.iter().find(|label| label.0 == name);
    found.map(|(_, value)| value.as_str())
}

fn count(node: &Node, is_wanted: &dyn Fn(&Node) -> bool) -> usize {
    let below = node
        .children()
        .into_iter()
        .map(|child| count(child, is_wanted));
    usize::from(is_wanted(node)) + below.sum::<usize>()
}

/// Puts another operator in the place of an aggregation's, or asks when a selector's samples were
/// taken, under their name.
fn renamed(node: &Node, operator: Option<&'static str>) -> Node {
    match (operator, node) {
        (Some(function), Node::Selector(selector)) => {
            let call = |function, arguments| Node::Call {
                function,
                arguments,
            };
            let text = |text: &str| Node::Text(text.to_owned());
            let name = selector.name().unwrap_or_default();
            let times = call(function, vec![node.clone()]);
            call(
                "label_replace",
                vec![times, text("__name__"), text(name), text(""), text("")],
            )
        }
        (Some(operator), Node::Aggregate(aggregate)) => Node::Aggregate(Aggregate {
            operator,
            ..aggregate.clone()
        }),
        _ => node.clone(),
    }
}

/// Rewrites `node` for a group that adds `labels`. Returns whether the group can have any of its
/// series; `None` where that cannot be told.
fn tell(node: &mut Node, labels: &[(String, String)]) -> Option<bool> {
    match node {
        Node::Selector(selector) => tell_selector(selector, labels),
        Node::Aggregate(aggregate) => {
            if let Grouping::Include(by) = &mut aggregate.grouping {
                by.retain(|label| value_of(labels, label).is_none());
            }
            tell(&mut aggregate.input, labels)
        }
        Node::Subquery(Subquery { input, .. }) | Node::Negate(input) => tell(input, labels),
        Node::Call { arguments, .. } => {
            let mut all = true;
            for argument in arguments {
                all &= tell(argument, labels)?;
            }
            Some(all)
        }
        Node::Binary(binary) => {
            let left = tell(&mut binary.left, labels)?;
            Some(left & tell(&mut binary.right, labels)?)
        }
        Node::Number(_) | Node::Text(_) | Node::Part { .. } => Some(true),
    }
}

fn tell_selector(selector: &mut Selector, labels: &[(String, String)]) -> Option<bool> {
    let mut kept = Vec::with_capacity(selector.matchers.len());
    for matcher in selector.matchers.drain(..) {
        match value_of(labels, &matcher.label) {
            None => kept.push(matcher),
            Some(value) => match accepts(&matcher, value) {
                Some(true) => {}
                other => return other,
            },
        }
    }
    if kept.is_empty() {
        // A selector needs a matcher that not everything passes.
        kept.push(Matcher {
            label: "__name__".to_owned(),
            operator: MatchOperator::NotEqual,
            value: String::new(),
        });
    }
    selector.matchers = kept;
    Some(true)
}

/// Whether `matcher` accepts `value`; `None` for a pattern that takes more than comparing.
fn accepts(matcher: &Matcher, value: &str) -> Option<bool> {
    match matcher.operator {
        MatchOperator::Equal => Some(matcher.value == value),
        MatchOperator::NotEqual => Some(matcher.value != value),
        MatchOperator::Regex => matches_pattern(&matcher.value, value),
        MatchOperator::NotRegex => matches_pattern(&matcher.value, value).map(|is| !is),
    }
}

/// Alternatives of plain text, each perhaps with `.*` or `.+` at an end; in quotes.
fn matches_pattern(literal: &str, value: &str) -> Option<bool> {
    let pattern = literal.get(1..literal.len().checked_sub(1)?)?;
    let mut found = false;
    for alternative in pattern.split('|') {
        found |= matches_alternative(alternative, value)?;
    }
    Some(found)
}

fn matches_alternative(alternative: &str, value: &str) -> Option<bool> {
    if value.contains('\n') {
        return None;
    }
    let (alternative, starts) = match alternative {
        text if text.starts_with(".*") => (&text[2..], Some(0)),
        text if text.starts_with(".+") => (&text[2..], Some(1)),
        text => (text, None),
    };
    let (plain, ends) = match alternative {
        text if text.ends_with(".*") => (&text[..text.len() - 2], Some(0)),
        text if text.ends_with(".+") => (&text[..text.len() - 2], Some(1)),
        text => (text, None),
    };
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | ':' | '/' | ' ' | ',');
    if !plain.chars().all(is_plain) {
        return None;
    }
    // Every place where the plain text stands, with enough around it.
    let least = |want: Option<usize>, have: usize| want.map_or(have == 0, |count| have >= count);
    let mut at = 0..=value.len().saturating_sub(plain.len());
    Some(at.any(|at| {
        value.get(at..).is_some_and(|rest| rest.starts_with(plain))
            && least(starts, at)
            && least(ends, value.len() - at - plain.len())
    }))
}

impl Injected<'_> {
    /// How a part keeps the labels when it is an operand of what is evaluated here.
    pub(super) fn as_operand(&self, node: &Node, pushed: Pushed) -> Pushed {
        match node {
            Node::Aggregate(aggregate) if pushed.strategy != Strategy::Dedup => Pushed {
                keeps: self.left_by(&aggregate.grouping),
                ..pushed
            },
            _ => pushed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_patterns_are_decided() {
        let cases = [
            ("\"us\"", "us", Some(true)),
            ("\"us|eu\"", "eu", Some(true)),
            ("\"us|eu\"", "e", Some(false)),
            ("\".*\"", "", Some(true)),
            ("\".+\"", "", Some(false)),
            ("'u.*'", "us", Some(true)),
            ("\".+s\"", "us", Some(true)),
            ("\".+us\"", "us", Some(false)),
            ("\".*-a.+\"", "x-a-ab", Some(true)),
            ("\"\"", "", Some(true)),
            ("\"u[sk]\"", "us", None),
            ("\"(us)\"", "us", None),
        ];
        for (pattern, value, expected) in cases {
            assert_eq!(
                matches_pattern(pattern, value),
                expected,
                "{pattern} {value}"
            );
        }
    }
}
