//! The YAML as a tree in which every key and value knows where it was written.

use std::collections::{HashMap, HashSet};

use super::problem::Mark;

/// A value and where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// First character of the value.
    pub mark: Mark,
    /// The value.
    pub value: Value,
}

/// A value of the tree. Scalars stay text: what they mean is for the key to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing written, or `null`.
    Null,
    /// Text of a scalar, unquoted.
    Scalar(String),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in written order.
    Map(Vec<Entry>),
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// First character of the key.
    pub mark: Mark,
    /// The value.
    pub node: Node,
}

impl Node {
    /// An empty mapping.
    pub fn empty_map(mark: Mark) -> Self {
        Node {
            mark,
            value: Value::Map(Vec::new()),
        }
    }

    /// The entries of a mapping; none for anything else.
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The value of a key of a mapping.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// The entry of a key of a mapping.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// The text of a scalar.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(text) => Some(text),
            _ => None,
        }
    }

    /// Whether nothing is written here.
    pub fn is_null(&self) -> bool {
        self.value == Value::Null
    }

    /// What kind of value this is, in an operator's words.
    pub fn kind_name(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Scalar(_) => "a single value",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }

    /// Number of nodes in this tree, this one included.
    pub fn count(&self) -> usize {
        match &self.value {
            Value::Null | Value::Scalar(_) => 1,
            Value::List(items) => 1 + items.iter().map(Node::count).sum::<usize>(),
            Value::Map(entries) => 1 + entries.iter().map(|e| e.node.count()).sum::<usize>(),
        }
    }

    /// Height of this tree: 1 for a scalar.
    pub fn height(&self) -> usize {
        let below = match &self.value {
            Value::Null | Value::Scalar(_) => None,
            Value::List(items) => items.iter().map(Node::height).max(),
            Value::Map(entries) => entries.iter().map(|e| e.node.height()).max(),
        };
        1 + below.unwrap_or(0)
    }

    /// Lays a later source over this one: mappings merge key by key, anything else replaces, `null` clears.
    /// Contract: config page, 1.
    pub fn overlay(&mut self, later: Node) {
        match (&mut self.value, later.value) {
            (Value::Map(mine), Value::Map(theirs)) => {
                let mut cleared = HashSet::new();
                let places = mine.iter().enumerate();
                let places: HashMap<String, usize> =
                    places.map(|(at, own)| (own.key.clone(), at)).collect();
                for entry in theirs {
                    match places.get(&entry.key) {
                        Some(_) if entry.node.is_null() => drop(cleared.insert(entry.key)),
                        Some(at) => {
                            mine[*at].node.overlay(entry.node);
                            mine[*at].mark = entry.mark;
                        }
                        None => mine.push(entry),
                    }
                }
                mine.retain(|own| !cleared.contains(&own.key));
            }
            (own, theirs) => {
                *own = theirs;
                self.mark = later.mark;
            }
        }
    }

    /// Sets the value at these keys, making mappings on the way.
    pub fn set(&mut self, keys: &[&str], mark: &Mark, text: &str) {
        let mut node = Node {
            mark: mark.clone(),
            value: Value::Scalar(text.to_owned()),
        };
        for key in keys.iter().rev() {
            node = Node {
                mark: mark.clone(),
                value: Value::Map(vec![Entry {
                    key: (*key).to_owned(),
                    mark: mark.clone(),
                    node,
                }]),
            };
        }
        self.overlay(node);
    }
}

/// A step of a [`Path`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Into a mapping.
    Key(String),
    /// Into a list.
    Item(usize),
}

/// The way from the root to a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<Step>);

impl Path {
    /// A path of keys.
    pub fn of(keys: &[&str]) -> Self {
        Path(keys.iter().map(|k| Step::Key((*k).to_owned())).collect())
    }

    /// One key further.
    pub fn key(&self, key: &str) -> Self {
        let mut steps = self.0.clone();
        steps.push(Step::Key(key.to_owned()));
        Path(steps)
    }

    /// One list item further.
    pub fn item(&self, index: usize) -> Self {
        let mut steps = self.0.clone();
        steps.push(Step::Item(index));
        Path(steps)
    }

    /// Whether this is `other` or above it.
    pub fn covers(&self, other: &Path) -> bool {
        other.0.starts_with(&self.0)
    }
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) => {
                    if index > 0 {
                        f.write_str(".")?;
                    }
                    if is_plain_key(key) {
                        f.write_str(key)?;
                    } else {
                        write!(f, "{key:?}")?;
                    }
                }
                Step::Item(item) => write!(f, "[{item}]")?,
            }
        }
        Ok(())
    }
}

/// Whether a key can stand in a path without quotes.
fn is_plain_key(key: &str) -> bool {
    !key.is_empty()
        && key
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '$'))
}

/// Where a path leads in a tree: the marks of its last key and its value.
#[derive(Clone, Debug)]
pub struct Found {
    /// The key, or the item itself.
    pub key: Mark,
    /// The value.
    pub value: Mark,
    /// Whether the whole path is there; else the marks are those of the last step that is.
    pub whole: bool,
}

impl Node {
    /// Follows a path as far as it leads.
    pub fn find(&self, path: &Path) -> Found {
        self.find_from(&self.mark, &path.0)
    }

    /// Follows the rest of a path from this value, whose key is there.
    pub fn find_from(&self, key: &Mark, steps: &[Step]) -> Found {
        let mut node = self;
        let mut key = key;
        for step in steps {
            let next = match step {
                Step::Key(name) => node.entry(name).map(|e| (&e.mark, &e.node)),
                Step::Item(index) => match &node.value {
                    Value::List(items) => items.get(*index).map(|n| (&n.mark, n)),
                    _ => None,
                },
            };
            match next {
                Some((mark, below)) => {
                    key = mark;
                    node = below;
                }
                None => {
                    return Found {
                        value: key.clone(),
                        key: key.clone(),
                        whole: false,
                    };
                }
            }
        }
        Found {
            key: key.clone(),
            value: node.mark.clone(),
            whole: true,
        }
    }
}
