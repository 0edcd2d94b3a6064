//! A tree against the table of keys: every unknown key, wrong value and wrong provider, all in one pass.
//!
//! What passes comes out as a plain value that the written types decode; what does not is left out and
//! reported, so that the compiler can go on and find the rest.

use serde_json::{Map, Value as Json};

use super::authenticators::hash_form;
use super::backends::Provider;
use super::environment::Environment;
use super::fault::{Caution, Fault};
use super::problem::{Mark, Place, Problem, Warning};
use super::schema::{Key, Kind, Level, Plain, State, hint, home_of, nearest};
use super::tree::{Entry, Node, Path, Value};

/// What the check found.
#[derive(Debug)]
pub(super) struct Checked {
    /// All that passed.
    pub(super) value: Json,
    /// All that did not.
    pub(super) problems: Vec<Problem>,
    /// What passed but is worth a word.
    pub(super) warnings: Vec<Warning>,
}

/// Checks a whole tree.
pub(super) fn check(root: &Node, environment: &Environment) -> Checked {
    let mut walk = Walk {
        environment,
        problems: Vec::new(),
        warnings: Vec::new(),
    };
    let level = Level::root();
    let value = walk.map(root, &level, &Path::default(), Provider::Unset);
    Checked {
        value,
        problems: walk.problems,
        warnings: walk.warnings,
    }
}

struct Walk<'a> {
    environment: &'a Environment,
    problems: Vec<Problem>,
    warnings: Vec<Warning>,
}

impl Walk<'_> {
    fn fail(&mut self, mark: &Mark, path: &Path, fault: Fault) {
        self.problems.push(Problem {
            at: place(mark, path),
            fault,
        });
    }

    fn warn(&mut self, mark: &Mark, path: &Path, caution: Caution) {
        self.warnings.push(Warning {
            at: place(mark, path),
            caution,
        });
    }

    fn map(&mut self, node: &Node, level: &Level, path: &Path, provider: Provider<'_>) -> Json {
        let mut out = Map::new();
        for entry in node.entries() {
            let here = path.key(&entry.key);
            let Some(below) = level.child(&entry.key) else {
                let hint = unknown_hint(&entry.key, level);
                self.fail(&entry.mark, &here, Fault::UnknownKey { hint });
                continue;
            };
            if let Some(value) = self.entry(entry, below, &here, provider) {
                out.insert(entry.key.clone(), value);
            }
        }
        Json::Object(out)
    }

    fn entry(
        &mut self,
        entry: &Entry,
        level: &Level,
        path: &Path,
        provider: Provider<'_>,
    ) -> Option<Json> {
        let key = level.key?;
        let node = &entry.node;
        match key.state {
            State::NotBuilt(feature) => {
                let feature = feature.to_owned();
                self.fail(&entry.mark, path, Fault::NotBuilt { feature });
                return None;
            }
            State::Deprecated(instead) => {
                let instead = instead.to_owned();
                self.warn(&entry.mark, path, Caution::Deprecated { instead });
            }
            State::Built => {}
        }
        let provider = match key.path {
            "backends.*" => Provider::of_entry(node),
            _ => provider,
        };
        if let Some(name) = provider.built_name()
            && !key.providers.include(name)
        {
            self.fail(
                &entry.mark,
                path,
                Fault::WrongProvider {
                    provider: name.to_owned(),
                    allowed: key.providers.words(),
                },
            );
            return None;
        }
        // A cleared section is an absent one; a cleared name in a mapping of names is still a name.
        if node.is_null() {
            let empty = match key.kind {
                Kind::Texts => Json::Array(Vec::new()),
                _ => Json::Object(Map::new()),
            };
            return key.path.ends_with(".*").then_some(empty);
        }
        self.value(node, key, level, path, provider)
    }

    fn value(
        &mut self,
        node: &Node,
        key: &Key,
        level: &Level,
        path: &Path,
        provider: Provider<'_>,
    ) -> Option<Json> {
        match (key.kind, &node.value) {
            (Kind::Section | Kind::Names | Kind::PoolEntry, Value::Map(_)) => {
                Some(self.map(node, level, path, provider))
            }
            (Kind::TextMap | Kind::Credentials, Value::Map(entries)) => {
                Some(self.text_map(entries, key, path))
            }
            (Kind::Items, Value::List(items)) => Some(self.items(items, level, path, provider)),
            (
                Kind::Texts | Kind::Codes | Kind::Choices(_) | Kind::ListOrCount,
                Value::List(items),
            ) => {
                let texts = self.scalars(items, key, path);
                Some(Json::Array(texts.into_iter().map(Json::String).collect()))
            }
            (Kind::Rows, Value::List(items)) => Some(self.rows(items, key, path)),
            (Kind::Cpus, Value::List(items)) => {
                Some(Json::String(self.scalars(items, key, path).join(",")))
            }
            (
                Kind::Section
                | Kind::Names
                | Kind::Items
                | Kind::Texts
                | Kind::Rows
                | Kind::TextMap
                | Kind::Credentials
                | Kind::Choices(_)
                | Kind::Codes,
                _,
            )
            | (_, Value::List(_) | Value::Map(_) | Value::Null) => {
                self.fail(
                    &node.mark,
                    path,
                    Fault::WrongKind {
                        expected: key.kind.expected(),
                        found: node.kind_name(),
                    },
                );
                None
            }
            (_, Value::Scalar(text)) => self.scalar(text, &node.mark, (key, key.kind), path),
        }
    }

    fn items(
        &mut self,
        items: &[Node],
        level: &Level,
        path: &Path,
        provider: Provider<'_>,
    ) -> Json {
        let mut out = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let here = path.item(index);
            let below = level.item().and_then(|below| Some((below, below.key?)));
            let value =
                below.and_then(|(below, key)| self.value(item, key, below, &here, provider));
            // A refused item keeps its place, so that later ones are still found by their index.
            out.push(value.unwrap_or(Json::Object(Map::new())));
        }
        Json::Array(out)
    }

    fn rows(&mut self, items: &[Node], key: &Key, path: &Path) -> Json {
        let mut out = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let here = path.item(index);
            let row = match &item.value {
                Value::List(texts) => self.scalars(texts, key, &here),
                _ => {
                    let fault = Fault::WrongKind {
                        expected: "a list".into(),
                        found: item.kind_name(),
                    };
                    self.fail(&item.mark, &here, fault);
                    Vec::new()
                }
            };
            // A refused row keeps its place, so that later ones are still found by their index.
            out.push(Json::from(row));
        }
        Json::Array(out)
    }

    fn scalars(&mut self, items: &[Node], key: &Key, path: &Path) -> Vec<String> {
        let mut out = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let here = path.item(index);
            match &item.value {
                Value::Scalar(text) => {
                    let of_item = (key, key.kind.of_item());
                    let value = self.scalar(text, &item.mark, of_item, &here);
                    out.extend(value.and_then(|v| v.as_str().map(str::to_owned)));
                }
                _ => self.fail(
                    &item.mark,
                    &here,
                    Fault::WrongKind {
                        expected: "a single value".into(),
                        found: item.kind_name(),
                    },
                ),
            }
        }
        out
    }

    fn text_map(&mut self, entries: &[Entry], key: &Key, path: &Path) -> Json {
        let mut out = Map::new();
        for entry in entries {
            let here = path.key(&entry.key);
            let value = match &entry.node.value {
                Value::Scalar(text) => self.scalar(text, &entry.node.mark, (key, key.kind), &here),
                Value::Null => Some(Json::String(String::new())),
                _ => {
                    self.fail(
                        &entry.node.mark,
                        &here,
                        Fault::WrongKind {
                            expected: "a text".into(),
                            found: entry.node.kind_name(),
                        },
                    );
                    None
                }
            };
            if let Some(value) = value {
                out.insert(entry.key.clone(), value);
            }
        }
        Json::Object(out)
    }

    fn scalar(
        &mut self,
        text: &str,
        mark: &Mark,
        (key, kind): (&Key, Kind),
        path: &Path,
    ) -> Option<Json> {
        // What looks like variables in a hash are parts of it.
        let is_hash = kind == Kind::Credentials && hash_form(text).is_some();
        let expanded = match key.env && !is_hash {
            true => {
                let (expanded, unset) = self.environment.expand(text);
                for name in unset {
                    self.warn(mark, path, Caution::UnsetVariable { name });
                }
                expanded
            }
            false => text.to_owned(),
        };
        match kind.read(&expanded) {
            Some(Plain::Text(text)) => Some(Json::String(text)),
            Some(Plain::Int(number)) => Some(Json::from(number)),
            Some(Plain::Bool(flag)) => Some(Json::Bool(flag)),
            None => {
                let found = if key.secret { "***".into() } else { expanded };
                self.fail(
                    mark,
                    path,
                    Fault::BadValue {
                        expected: kind.expected_item(),
                        found,
                    },
                );
                None
            }
        }
    }
}

fn place(mark: &Mark, path: &Path) -> Place {
    Place {
        mark: mark.clone(),
        path: path.to_string(),
    }
}

/// What to say of an unknown key: a near one here, or where it belongs.
fn unknown_hint(key: &str, level: &Level) -> String {
    if nearest(key, level.names()).is_some() {
        return hint(key, level.names());
    }
    match home_of(key) {
        Some(home) => format!("; it belongs at {}", home.replace('*', "<name>")),
        None => String::new(),
    }
}
