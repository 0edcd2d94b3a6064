//! The health status page: what is known of every backend, as text, JSON, YAML or a web page.
//!
//! Pure: [`Page::of`] copies what it needs from the state, the rest is formatting; `format` chooses the form, `html`
//! writes the web page. Called by the admin listener. Contract: health page, 4.

use std::collections::BTreeMap;
use std::time::SystemTime;

use ringway_shards::plan::{Alb, Backend, BackendKind, Plan};
use ringway_shards::snapshot::Health;
use serde_json::{Map, Value, json};

use super::Record;
use crate::control::ejection::Ejections;
use crate::control::members::Members;
use crate::control::state::State;
use crate::utc::page_time;

mod format;
pub mod html;

pub use format::Format;

const TITLE: &str = "Trickster Backend Health Status";
/// Narrowest cell, and the space behind the widest one.
const CELL_CHARS_MIN: usize = 10;
const CELL_GAP: usize = 3;
const RULE_CHARS: usize = 79;

/// A copy of all that the page shows.
#[derive(Clone, Debug)]
pub struct Page {
    last_change: SystemTime,
    rows: Vec<Row>,
}

/// Groups of rows, in the order shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Unavailable,
    Available,
    Initializing,
    Unchecked,
}

const GROUPS: [(Group, &str); 4] = [
    (Group::Unavailable, "unavailable"),
    (Group::Available, "available"),
    (Group::Initializing, "initializing"),
    (Group::Unchecked, "unchecked"),
];

impl Group {
    fn word(self) -> &'static str {
        let found = GROUPS.iter().find(|(group, _)| *group == self);
        found.map_or("unchecked", |(_, word)| word)
    }
}

/// What a source says of a member, for people.
type Labels = BTreeMap<Box<str>, Box<str>>;

#[derive(Clone, Debug)]
struct Row {
    group: Group,
    name: Box<str>,
    provider: &'static str,
    /// By which ALB and discoverer it was found, and the labels of its source.
    found: Option<(String, Labels)>,
    down_since: Option<SystemTime>,
    detail: String,
    pool: Option<PoolLists>,
}

/// Members of an ALB by group.
#[derive(Clone, Debug, Default)]
struct PoolLists {
    mechanism: &'static str,
    unavailable: Vec<Box<str>>,
    available: Vec<Box<str>>,
    unchecked: Vec<Box<str>>,
    initializing: Vec<Box<str>>,
    /// Left out for failures of their connections; in none of the other lists but `unavailable`.
    ejected: Vec<Box<str>>,
}

impl PoolLists {
    /// The lists that hold anyone: mark of the text, key of the JSON, members.
    fn lists(&self) -> impl Iterator<Item = (&'static str, &'static str, &[Box<str>])> {
        let lists = [
            ("u", "unavailablePoolMembers", &self.unavailable),
            ("e", "ejectedPoolMembers", &self.ejected),
            ("a", "availablePoolMembers", &self.available),
            ("i", "initializingPoolMembers", &self.initializing),
            ("nc", "uncheckedPoolMembers", &self.unchecked),
        ];
        lists
            .into_iter()
            .map(|(mark, key, members)| (mark, key, members.as_slice()))
            .filter(|(_, _, members)| !members.is_empty())
    }
}

impl Page {
    /// The page of `state` now, with who was discovered.
    pub fn of(state: &State, members: &Members) -> Self {
        let mut rows = Vec::new();
        if let (Some(plan), Some(table)) = (state.plan(), state.table()) {
            let groups: Vec<Group> = state
                .backends()
                .map(|(backend, record)| {
                    group_of(backend, record, table.backend(backend.id).health)
                })
                .collect();
            let known = Known {
                plan,
                groups: &groups,
                ejections: state.ejections(),
                members,
            };
            for (backend, record) in state.backends() {
                rows.push(row(&known, backend, record));
            }
        }
        // Origins before ALBs, each by name.
        rows.sort_by(|a, b| {
            let key = |row: &Row| (row.group, row.pool.is_some());
            key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
        });
        Page {
            last_change: state.last_change(),
            rows,
        }
    }

    /// When the content last changed, for `Last-Modified`.
    pub fn last_change(&self) -> SystemTime {
        self.last_change
    }

    /// The page in `format`.
    pub fn write(&self, format: Format) -> String {
        match format {
            Format::Text => self.text(),
            Format::Json => format!("{:#}\n", self.value()),
            Format::Yaml => yaml(&self.value()),
            Format::Html => html::write(self),
        }
    }

    fn text(&self) -> String {
        let width = |longest: usize| longest.max(CELL_CHARS_MIN) + CELL_GAP;
        let providers: Vec<String> = self.rows.iter().map(Row::provider_cell).collect();
        let name_width = width(
            self.rows
                .iter()
                .map(|r| r.name.chars().count())
                .max()
                .unwrap_or(0),
        );
        let provider_width = width(
            providers
                .iter()
                .map(|p| p.chars().count())
                .max()
                .unwrap_or(0),
        );
        let rule = "-".repeat(RULE_CHARS);
        let mut text = format!(
            "{TITLE}{:12}last change: {}\n{rule}\n\n",
            "",
            page_time(self.last_change)
        );
        let mut group = None;
        for (row, provider) in self.rows.iter().zip(&providers) {
            if group.is_some_and(|group| group != row.group) {
                text.push('\n');
            }
            group = Some(row.group);
            text.push_str(&format!(
                "{:name_width$}{provider:provider_width$}{}\n",
                row.name,
                row.state_cell()
            ));
        }
        if !self.rows.is_empty() {
            text.push('\n');
        }
        text.push_str(&rule);
        text.push_str(
            "\nYou can also provide a 'Accept: application/json' Header or query param ?json\n",
        );
        text
    }

    fn value(&self) -> Value {
        let mut page = Map::new();
        page.insert("title".into(), TITLE.into());
        page.insert("updateTime".into(), page_time(self.last_change).into());
        for (group, key) in GROUPS {
            let items: Vec<Value> = self
                .rows
                .iter()
                .filter(|row| row.group == group)
                .map(Row::value)
                .collect();
            if !items.is_empty() {
                page.insert(key.into(), items.into());
            }
        }
        Value::Object(page)
    }
}

impl Row {
    fn provider_cell(&self) -> String {
        match (&self.pool, &self.found) {
            (Some(pool), _) => format!("alb ({})", pool.mechanism),
            (None, Some((by, _))) => format!("{} ({by})", self.provider),
            (None, None) => self.provider.to_owned(),
        }
    }

    fn state_cell(&self) -> String {
        let mut cell = match (self.group, self.down_since) {
            (Group::Unavailable, Some(since)) => format!("unavailable since {}", page_time(since)),
            (Group::Unavailable, None) => "unavailable".to_owned(),
            (Group::Available, _) => "available".to_owned(),
            (Group::Initializing, _) => "initializing".to_owned(),
            (Group::Unchecked, _) => "not configured for automated health checks".to_owned(),
        };
        if let Some(pool) = &self.pool {
            for (mark, _, members) in pool.lists() {
                cell.push_str(&format!(" {mark}:[{}]", members.join(", ")));
            }
        }
        cell
    }

    fn value(&self) -> Value {
        let mut item = Map::new();
        item.insert("name".into(), json!(self.name));
        let provider = match &self.found {
            Some(_) => self.provider_cell(),
            None => self.provider.to_owned(),
        };
        item.insert("provider".into(), provider.into());
        if let Some((_, labels)) = &self.found
            && !labels.is_empty()
        {
            item.insert("labels".into(), json!(labels));
        }
        if self.group == Group::Unavailable {
            if let Some(since) = self.down_since {
                item.insert("downSince".into(), page_time(since).into());
            }
            if !self.detail.is_empty() {
                item.insert("detail".into(), json!(self.detail));
            }
        }
        if let Some(pool) = &self.pool {
            item.insert("mechanism".into(), pool.mechanism.into());
            for (_, key, members) in pool.lists() {
                item.insert(key.into(), json!(members));
            }
        }
        Value::Object(item)
    }
}

fn group_of(backend: &Backend, record: &Record, in_table: Health) -> Group {
    let is_virtual = !matches!(backend.kind, BackendKind::Origin(_));
    match (in_table, is_virtual || record.is_checked()) {
        (_, false) => Group::Unchecked,
        (Health::Unavailable, true) if record.is_initializing() => Group::Initializing,
        (Health::Unavailable, true) => Group::Unavailable,
        (Health::Available, true) => Group::Available,
        (Health::Unknown, true) => Group::Initializing,
    }
}

/// What rows are made of.
struct Known<'a> {
    plan: &'a Plan,
    groups: &'a [Group],
    ejections: &'a Ejections,
    members: &'a Members,
}

fn row(known: &Known<'_>, backend: &Backend, record: &Record) -> Row {
    let pool = match &backend.kind {
        BackendKind::Alb(alb) => Some(pool_lists(known, alb)),
        BackendKind::Origin(_) | BackendKind::Rule(_) => None,
    };
    Row {
        group: known.groups[backend.id.index()],
        name: backend.name.clone(),
        provider: shown_provider(backend.provider_label),
        found: known.members.found(&backend.name).map(|found| {
            let labels = (*found.member.labels).clone();
            (format!("{} via {}", found.alb, found.discoverer), labels)
        }),
        down_since: record.down_since(),
        detail: record.detail().to_owned(),
        pool,
    }
}

fn pool_lists(known: &Known<'_>, alb: &Alb) -> PoolLists {
    let plan = known.plan;
    let mut lists = PoolLists {
        mechanism: alb.mechanism.name(),
        ..PoolLists::default()
    };
    let mut seen = vec![false; plan.backends.len()];
    for member in &plan.pools[alb.pool.0 as usize].members {
        let id = member.backend.index();
        // A member listed twice for its weight is shown once.
        if std::mem::replace(&mut seen[id], true) {
            continue;
        }
        let is_out = known.ejections.is_out(alb.pool, member.backend);
        let list = match known.groups[id] {
            Group::Unavailable => &mut lists.unavailable,
            _ if is_out => &mut lists.ejected,
            Group::Available => &mut lists.available,
            Group::Initializing => &mut lists.initializing,
            Group::Unchecked => &mut lists.unchecked,
        };
        list.push(plan.backends[id].name.clone());
    }
    lists
}

/// The page's word for a provider: the seed page shows `proxy` for a reverse proxy.
fn shown_provider(label: &'static str) -> &'static str {
    match label {
        "reverseproxy" | "rp" => "proxy",
        "reverseproxycache" => "rpc",
        other => other,
    }
}

/// The value as YAML: mappings and lists in blocks, scalars as JSON writes them, which YAML reads alike.
fn yaml(value: &Value) -> String {
    let Value::Object(page) = value else {
        return format!("{value}\n");
    };
    let mut text = String::new();
    for (key, value) in page {
        let Value::Array(items) = value else {
            text.push_str(&format!("{key}: {value}\n"));
            continue;
        };
        text.push_str(&format!("{key}:\n"));
        for item in items.iter().filter_map(Value::as_object) {
            for (n, (key, value)) in item.iter().enumerate() {
                let lead = if n == 0 { "- " } else { "  " };
                text.push_str(&format!("{lead}{key}: {value}\n"));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests;
