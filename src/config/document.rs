//! The door to YAML: text to a tree with places, a checked tree to written types, values to YAML text.
//!
//! `saphyr-parser` gives events with positions, which `serde_yaml` does not; `serde_yaml` decodes what was
//! checked and writes the dump. Bounds: [`FILE_BYTES_MAX`], [`NODES_MAX`] after aliases are expanded,
//! [`DEPTH_MAX`].

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};

use super::fault::Fault;
use super::problem::{Mark, Place, Problem};
use super::tree::{Entry, Node, Value};

/// Most bytes of one configuration file.
pub const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Most values in one file, aliases expanded.
pub const NODES_MAX: usize = 100_000;
/// Most levels of nesting.
pub const DEPTH_MAX: usize = 64;

/// Most that one document may hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes.
    pub bytes: u64,
    /// Values, aliases expanded.
    pub nodes: usize,
}

/// Reads one file's text into a tree. An empty document is an empty mapping.
///
/// # Errors
/// When it is not one YAML document with a mapping at its root and scalar, distinct keys, or too large.
pub fn parse_str(source: &Arc<str>, text: &str) -> Result<Node, Problem> {
    let limits = Limits {
        bytes: FILE_BYTES_MAX,
        nodes: NODES_MAX,
    };
    let root = match parse_any(source, text, limits)? {
        Some(node) if !node.is_null() => node,
        _ => return Ok(Node::empty_map(start(source))),
    };
    if !matches!(root.value, Value::Map(_)) {
        return Err(Problem {
            at: place(root.mark.clone()),
            fault: Fault::RootNotMapping {
                found: root.kind_name(),
            },
        });
    }
    Ok(root)
}

/// Reads a document of any shape into a tree; `None`: there is nothing in it.
///
/// # Errors
/// When it is not one YAML document with scalar, distinct keys, or too large.
pub fn parse_any(source: &Arc<str>, text: &str, limits: Limits) -> Result<Option<Node>, Problem> {
    let mut builder = Builder::new(source, limits.nodes);
    if text.len() as u64 > limits.bytes {
        return Err(fail(
            start(source),
            Fault::FileTooLarge {
                bytes_max: limits.bytes,
            },
        ));
    }
    for event in Parser::new_from_str(text) {
        match event {
            Ok((event, span)) => builder.event(event, span)?,
            Err(error) => return Err(builder.scan_problem(&error)),
        }
    }
    Ok(builder.root)
}

/// Decodes a checked value.
///
/// # Errors
/// What `serde` says when the check let something through that the type refuses.
pub(super) fn decode<T: serde::de::DeserializeOwned>(
    value: &serde_json::Value,
) -> Result<T, String> {
    let yaml = serde_yaml::to_value(value).map_err(|error| error.to_string())?;
    serde_yaml::from_value(yaml).map_err(|error| error.to_string())
}

/// Writes a value as YAML text.
pub fn to_yaml(value: &serde_json::Value) -> String {
    // Only maps with keys that are not text can fail, and JSON has none.
    serde_yaml::to_string(value).unwrap_or_default()
}

/// The first character of a source.
fn start(source: &Arc<str>) -> Mark {
    Mark {
        source: source.clone(),
        line: 1,
        column: 1,
    }
}

/// A place without a path.
fn place(mark: Mark) -> Place {
    Place {
        mark,
        path: String::new(),
    }
}

/// A collection that is not closed yet.
struct Open {
    mark: Mark,
    anchor: usize,
    kind: OpenKind,
}

enum OpenKind {
    List(Vec<Node>),
    Map {
        entries: Vec<Entry>,
        seen: HashSet<String>,
        /// A key that waits for its value.
        key: Option<(String, Mark)>,
        /// Mappings of `<<`: their keys count where the mapping has none of its own.
        inherited: Vec<Node>,
    },
}

/// Builds the tree from events, without recursion.
struct Builder {
    source: Arc<str>,
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    nodes_max: usize,
    documents: usize,
    root: Option<Node>,
}

impl Builder {
    fn new(source: &Arc<str>, nodes_max: usize) -> Self {
        Builder {
            nodes_max,
            source: source.clone(),
            open: Vec::new(),
            anchors: HashMap::new(),
            nodes: 0,
            documents: 0,
            root: None,
        }
    }

    fn mark(&self, marker: saphyr_parser::Marker) -> Mark {
        Mark {
            source: self.source.clone(),
            line: u32::try_from(marker.line()).unwrap_or(u32::MAX),
            column: u32::try_from(marker.col() + 1).unwrap_or(u32::MAX),
        }
    }

    fn scan_problem(&self, error: &ScanError) -> Problem {
        let info = error.info();
        let hint = if info.contains("mapping values are not allowed") {
            "; a key cannot have a value on its line and keys below it (is a parent key such as `prometheus:` missing?)"
        } else {
            ""
        };
        Problem {
            at: place(self.mark(*error.marker())),
            fault: Fault::NotYaml {
                reason: format!("{info}{hint}"),
            },
        }
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Problem> {
        let mark = self.mark(span.start);
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(fail(mark, Fault::SecondDocument));
                }
                Ok(())
            }
            Event::Alias(id) => {
                let Some(node) = self.anchors.get(&id).cloned() else {
                    return Err(fail(mark, Fault::AliasCycle));
                };
                self.count(node.count(), node.height(), &mark)?;
                self.place_node(node, mark)
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.count(1, 1, &mark)?;
                let as_text = self.check_tag(tag.as_deref(), &mark)?;
                let plain = style == ScalarStyle::Plain && !as_text;
                let value = if plain && is_null(&text) {
                    Value::Null
                } else {
                    Value::Scalar(text.into_owned())
                };
                let node = Node {
                    mark: mark.clone(),
                    value,
                };
                self.keep_anchor(anchor, &node)?;
                self.place_node(node, mark)
            }
            Event::SequenceStart(anchor, tag) => {
                self.check_tag(tag.as_deref(), &mark)?;
                self.push(mark, anchor, OpenKind::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                self.check_tag(tag.as_deref(), &mark)?;
                let kind = OpenKind::Map {
                    entries: Vec::new(),
                    seen: HashSet::new(),
                    key: None,
                    inherited: Vec::new(),
                };
                self.push(mark, anchor, kind)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            _ => Ok(()),
        }
    }

    /// Accepts the core schema's tags. True when the tag makes the scalar a text.
    fn check_tag(&self, tag: Option<&Tag>, mark: &Mark) -> Result<bool, Problem> {
        match tag {
            None => Ok(false),
            Some(tag) if tag.is_yaml_core_schema() => Ok(tag.suffix == "str"),
            Some(tag) if tag.handle.is_empty() && tag.suffix == "!" => Ok(true),
            Some(tag) => Err(fail(
                mark.clone(),
                Fault::UnknownTag {
                    tag: tag.to_string(),
                },
            )),
        }
    }

    fn count(&mut self, nodes: usize, height: usize, mark: &Mark) -> Result<(), Problem> {
        self.nodes += nodes;
        if self.nodes > self.nodes_max {
            return Err(fail(
                mark.clone(),
                Fault::TooManyValues {
                    values_max: self.nodes_max,
                },
            ));
        }
        if self.open.len() + height > DEPTH_MAX {
            return Err(fail(
                mark.clone(),
                Fault::TooDeep {
                    depth_max: DEPTH_MAX,
                },
            ));
        }
        Ok(())
    }

    fn push(&mut self, mark: Mark, anchor: usize, kind: OpenKind) -> Result<(), Problem> {
        self.count(1, 1, &mark)?;
        if let Some(Open {
            kind: OpenKind::Map { key: None, .. },
            ..
        }) = self.open.last()
        {
            return Err(fail(mark, Fault::KeyNotScalar));
        }
        self.open.push(Open { mark, anchor, kind });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Problem> {
        let Some(open) = self.open.pop() else {
            return Ok(());
        };
        let value = match open.kind {
            OpenKind::List(items) => Value::List(items),
            OpenKind::Map {
                mut entries,
                mut seen,
                inherited,
                ..
            } => {
                for map in inherited {
                    let Value::Map(theirs) = map.value else {
                        continue;
                    };
                    for entry in theirs {
                        if seen.insert(entry.key.clone()) {
                            entries.push(entry);
                        }
                    }
                }
                Value::Map(entries)
            }
        };
        let node = Node {
            mark: open.mark.clone(),
            value,
        };
        self.keep_anchor(open.anchor, &node)?;
        self.place_node(node, open.mark)
    }

    /// Remembers an anchored value. The copy counts, so that anchors inside anchors stay bounded.
    fn keep_anchor(&mut self, anchor: usize, node: &Node) -> Result<(), Problem> {
        if anchor > 0 {
            self.count(node.count(), 0, &node.mark)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(())
    }

    /// Puts a finished node where it belongs: root, list item, key or value.
    fn place_node(&mut self, node: Node, mark: Mark) -> Result<(), Problem> {
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match &mut open.kind {
            OpenKind::List(items) => items.push(node),
            OpenKind::Map {
                entries,
                seen,
                key,
                inherited,
            } => match key.take() {
                None => {
                    let name = match node.value {
                        Value::Scalar(text) => text,
                        Value::Null => return Err(fail(mark, Fault::KeyEmpty)),
                        _ => return Err(fail(mark, Fault::KeyNotScalar)),
                    };
                    if name != "<<" && !seen.insert(name.clone()) {
                        return Err(fail(mark, Fault::DuplicateKey { key: name }));
                    }
                    *key = Some((name, mark));
                }
                Some((name, key_mark)) if name == "<<" => {
                    inherit(inherited, node).map_err(|fault| fail(key_mark, fault))?;
                }
                Some((name, key_mark)) => entries.push(Entry {
                    key: name,
                    mark: key_mark,
                    node,
                }),
            },
        }
        Ok(())
    }
}

/// Takes the value of `<<`: a mapping or a list of them.
fn inherit(inherited: &mut Vec<Node>, node: Node) -> Result<(), Fault> {
    match node.value {
        Value::Map(_) => inherited.push(node),
        Value::List(items) if items.iter().all(|i| matches!(i.value, Value::Map(_))) => {
            inherited.extend(items);
        }
        _ => return Err(Fault::MergeNotMapping),
    }
    Ok(())
}

fn fail(mark: Mark, fault: Fault) -> Problem {
    Problem {
        at: place(mark),
        fault,
    }
}

/// The core schema's spellings of nothing.
fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

#[cfg(test)]
mod tests;
