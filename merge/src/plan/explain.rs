//! A plan as readable text and as JSON: what each group is asked, how answers combine, what is
//! evaluated here, and whether the answer is exact.

use std::fmt;

use super::{Ask, Plan, Variant, Window};
use crate::merge::GroupSpec;
use crate::query::print::print_outline;
use crate::query::{Kind, Node};
use crate::write::{write_list, write_string};

/// One sub-query.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PartSaid {
    /// The text by group, where it differs from the first.
    texts: Vec<(String, String)>,
    /// Names of the variants with their texts; `None` is the request's own.
    variants: Vec<(&'static str, Option<String>)>,
    window: String,
    groups: String,
    rule: &'static str,
    why: Option<String>,
}

/// A plan, explained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    parts: Vec<PartSaid>,
    /// Operators that are evaluated here, outermost first, with their depth.
    operators: Vec<(usize, String)>,
    refusal: Option<String>,
    reasons: Vec<String>,
}

impl Plan {
    /// Explains the plan for a pool of `groups`.
    pub fn explain(&self, groups: &[GroupSpec]) -> Explanation {
        let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        let mut said = Explanation {
            parts: Vec::new(),
            operators: Vec::new(),
            refusal: self.refusal.clone(),
            reasons: match groups.len() {
                1 => Vec::new(),
                _ => self.warnings.iter().map(ToString::to_string).collect(),
            },
        };
        let Some(local) = &self.local else {
            if self.refusal.is_none() {
                said.parts.push(part_said(self, &names, None));
            }
            return said;
        };
        for (index, part) in local.parts.iter().enumerate() {
            let source = local
                .sources
                .iter()
                .find(|source| source.parts.contains(&index));
            let why = match source {
                Some(source) => source.why.clone(),
                None => {
                    "shows the query as it was written to a server, which may refuse it".to_owned()
                }
            };
            said.parts.push(part_said(&part.plan, &names, Some(why)));
        }
        let parts: Vec<String> = local
            .sources
            .iter()
            .map(
                |source| match (source.parts.len(), source.parts.start + 1) {
                    (0, _) => "nothing (no group or step to ask)".to_owned(),
                    (1, first) => format!("sub-query {first}"),
                    (count, first) => format!("sub-queries {first} to {}", first + count - 1),
                },
            )
            .collect();
        outline(&local.tree, 0, &parts, &mut said.operators);
        said
    }
}

fn part_said(plan: &Plan, names: &[&str], why: Option<String>) -> PartSaid {
    let first = plan.variants.first();
    let others = first.map_or(&[][..], |variant| &variant.by_group);
    let name = |index: usize| names.get(index).copied().unwrap_or("?").to_owned();
    PartSaid {
        texts: others
            .iter()
            .map(|(index, text)| (name(*index), text.clone()))
            .collect(),
        variants: plan
            .variants
            .iter()
            .map(|variant| (variant.name, variant.query.clone()))
            .collect(),
        window: window_said(first),
        groups: match &plan.ask {
            Ask::EveryGroup => names.join(", "),
            Ask::AnyGroup => "any one".to_owned(),
            Ask::Groups(groups) => {
                let named: Vec<String> = groups.iter().map(|index| name(*index)).collect();
                named.join(", ")
            }
        },
        rule: plan.strategy.name(),
        why,
    }
}

fn window_said(variant: Option<&Variant>) -> String {
    let seconds = |ms: i64| {
        let sign = if ms < 0 { "-" } else { "" };
        format!(
            "{sign}{}.{:03}",
            ms.unsigned_abs() / 1000,
            ms.unsigned_abs() % 1000
        )
    };
    match variant.and_then(|variant| variant.window) {
        None => "as requested".to_owned(),
        Some(Window::Instant(time)) => format!("at {}", seconds(time)),
        Some(Window::Range(grid)) => format!(
            "from {} to {} every {} s ({} steps)",
            seconds(grid.start_ms),
            seconds(grid.end_ms()),
            seconds(grid.step_ms),
            grid.count
        ),
    }
}

fn outline(node: &Node, depth: usize, parts: &[String], lines: &mut Vec<(usize, String)>) {
    match node {
        Node::Part { index, kind } => {
            let what = parts.get(*index).map_or("?", String::as_str);
            let form = match kind {
                Kind::Matrix => ", raw samples",
                _ => "",
            };
            lines.push((depth, format!("{what}{form}")));
            return;
        }
        node => lines.push((depth, print_outline(node))),
    }
    let is_absent = matches!(node, Node::Call { function, .. } if function.starts_with("absent"));
    for (at, child) in node.children().into_iter().enumerate() {
        if !(is_absent && at > 0) {
            outline(child, depth + 1, parts, lines);
        }
    }
}

impl Explanation {
    /// Whether the answer is provably what one server with all the data would say.
    pub fn is_exact(&self) -> bool {
        self.reasons.is_empty()
    }

    /// The same as JSON.
    pub fn to_json(&self) -> String {
        let mut out = Vec::new();
        out.extend_from_slice(b"{\"exact\":");
        out.extend_from_slice(if self.is_exact() { b"true" } else { b"false" });
        out.extend_from_slice(b",\"reasons\":");
        write_list(&mut out, &self.reasons, |out, reason| {
            write_string(out, reason)
        });
        if let Some(refusal) = &self.refusal {
            field(&mut out, "refusal", refusal);
        }
        out.extend_from_slice(b",\"subqueries\":");
        write_list(&mut out, &self.parts, part_json);
        out.extend_from_slice(b",\"local\":");
        write_list(&mut out, &self.operators, |out, (depth, text)| {
            out.extend_from_slice(format!("{{\"depth\":{depth}").as_bytes());
            field(out, "operator", text);
            out.push(b'}');
        });
        out.push(b'}');
        String::from_utf8_lossy(&out).into_owned()
    }
}

fn part_json(out: &mut Vec<u8>, part: &PartSaid) {
    out.extend_from_slice(b"{\"queries\":");
    write_list(out, &part.variants, |out, (name, text)| {
        out.push(b'{');
        write_string(out, "variant");
        out.push(b':');
        write_string(out, name);
        if let Some(text) = text {
            field(out, "query", text);
        }
        out.push(b'}');
    });
    out.extend_from_slice(b",\"by_group\":");
    write_list(out, &part.texts, |out, (group, text)| {
        out.push(b'{');
        write_string(out, "group");
        out.push(b':');
        write_string(out, group);
        field(out, "query", text);
        out.push(b'}');
    });
    field(out, "window", &part.window);
    field(out, "groups", &part.groups);
    field(out, "merge", part.rule);
    if let Some(why) = &part.why {
        field(out, "why", why);
    }
    out.push(b'}');
}

/// Appends `,"name":"text"`.
fn field(out: &mut Vec<u8>, name: &str, text: &str) {
    out.push(b',');
    write_string(out, name);
    out.push(b':');
    write_string(out, text);
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.refusal, self.is_exact()) {
            (Some(refusal), _) => writeln!(f, "refused: {refusal}")?,
            (None, true) => writeln!(f, "exact: yes")?,
            (None, false) => writeln!(f, "exact: not provably")?,
        }
        for reason in &self.reasons {
            writeln!(f, "  {reason}")?;
        }
        for (at, part) in self.parts.iter().enumerate() {
            writeln!(f, "sub-query {}", at + 1)?;
            for (name, text) in &part.variants {
                let name = if name.is_empty() { "query" } else { name };
                writeln!(f, "  {name}: {}", text.as_deref().unwrap_or("as requested"))?;
            }
            for (group, text) in &part.texts {
                writeln!(f, "  query of {group}: {text}")?;
            }
            writeln!(f, "  times: {}", part.window)?;
            writeln!(f, "  groups: {}", part.groups)?;
            writeln!(f, "  merge: {}", part.rule)?;
            if let Some(why) = &part.why {
                writeln!(f, "  why: {why}")?;
            }
        }
        if !self.operators.is_empty() {
            writeln!(f, "evaluated here")?;
        }
        for (depth, text) in &self.operators {
            writeln!(f, "  {:indent$}{text}", "", indent = 2 * depth)?;
        }
        Ok(())
    }
}
