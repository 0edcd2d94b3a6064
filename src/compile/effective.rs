//! Every value in force and where it came from: for `check --explain` and for the redacted dump.

use serde_json::{Map, Value as Json};

use crate::config::document::to_yaml;
use crate::config::units::{Period, Port};
use crate::config::{Mark, Path, Step};

/// What stands for a secret.
pub(super) const MASK: &str = "*****";

/// Sections in the order of a dump.
const SECTIONS: &[&str] = &[
    "main",
    "logging",
    "mgmt",
    "shards",
    "authenticators",
    "listeners",
    "discovery",
    "backends",
];

/// The values in force, in the order they were compiled.
#[derive(Clone, Debug, Default)]
pub struct Effective {
    rows: Vec<Row>,
}

/// One value in force.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its key.
    pub path: Path,
    /// The value; secrets are already masked.
    pub value: Json,
    /// Where it came from.
    pub from: Provenance,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// Written here.
    Written(Mark),
    /// A default; the contract page.
    Default(&'static str),
    /// Follows from something else; what.
    Derived(String),
}

impl std::fmt::Display for Provenance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Provenance::Written(mark) => mark.fmt(f),
            Provenance::Default(contract) => write!(f, "default ({contract})"),
            Provenance::Derived(from) => write!(f, "derived: {from}"),
        }
    }
}

impl Effective {
    pub(super) fn note(&mut self, path: &Path, value: Json, from: Provenance) {
        self.rows.push(Row {
            path: path.clone(),
            value,
            from,
        });
    }

    /// Puts sections and, by `place`, backends in order; within them the order of compilation stays.
    pub(super) fn sort(&mut self, place: impl Fn(&str) -> Option<usize>) {
        let rank = |row: &Row| {
            let key = |index: usize| match row.path.0.get(index) {
                Some(Step::Key(key)) => key.as_str(),
                _ => "",
            };
            let section = SECTIONS.iter().position(|section| *section == key(0));
            let backend = match key(0) {
                "backends" => place(key(1)),
                _ => None,
            };
            (section, backend)
        };
        // Stable, as the order within a backend is that of compilation.
        self.rows.sort_by_cached_key(rank);
    }

    /// The values, section by section.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// One line for each value: key, value, origin.
    pub fn explain(&self) -> String {
        let mut out = String::new();
        for row in &self.rows {
            out.push_str(&format!("{} = {}  # {}\n", row.path, row.value, row.from));
        }
        out
    }

    /// The configuration in force as YAML, secrets masked. Loading it again means the same, secrets aside.
    pub fn dump(&self) -> String {
        let mut root = Json::Object(Map::new());
        for row in &self.rows {
            insert(&mut root, &row.path.0, &row.value);
        }
        to_yaml(&root)
    }
}

/// Puts a value at the end of a path, making mappings and lists on the way.
fn insert(slot: &mut Json, steps: &[Step], value: &Json) {
    match steps {
        [] => *slot = value.clone(),
        [Step::Key(key), rest @ ..] => {
            if !slot.is_object() {
                *slot = Json::Object(Map::new());
            }
            if let Json::Object(map) = slot {
                let below = map.entry(key.clone()).or_insert(Json::Null);
                insert(below, rest, value);
            }
        }
        [Step::Item(index), rest @ ..] => {
            if !slot.is_array() {
                *slot = Json::Array(Vec::new());
            }
            if let Json::Array(list) = slot {
                if list.len() <= *index {
                    list.resize(*index + 1, Json::Null);
                }
                insert(&mut list[*index], rest, value);
            }
        }
    }
}

/// A value as it would be written.
pub(super) trait Shown: Clone {
    /// As a plain value.
    fn shown(&self) -> Json;
}

impl Shown for Period {
    fn shown(&self) -> Json {
        Json::String(self.to_string())
    }
}

impl Shown for Port {
    fn shown(&self) -> Json {
        match self {
            Port::Off => Json::from(0),
            Port::Any => Json::from("any"),
            Port::Number(number) => Json::from(*number),
        }
    }
}

macro_rules! shown_as_json {
    ($($type:ty),*) => {
        $(impl Shown for $type {
            fn shown(&self) -> Json {
                Json::from(self.clone())
            }
        })*
    };
}

shown_as_json!(bool, i8, i64, u8, u16, u32, u64, String);

impl Shown for Vec<String> {
    fn shown(&self) -> Json {
        Json::from(self.clone())
    }
}
