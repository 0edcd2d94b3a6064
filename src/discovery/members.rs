//! Member lists: the documents of providers `file` and `http_sd`.
//!
//! Reading is strict and all or nothing, because an entry that is guessed at is traffic sent elsewhere: a key that no
//! member has, a bad address or a bad weight refuses the whole document, and the error says which entry, counted from
//! 0, and what to write. Pure functions over bytes. Bounds: [`BYTES_MAX`], [`NODES_MAX`]. Contract: autodiscovery
//! page, 10.2.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ringway_shards::plan::Scheme;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::http::shown;
use super::settings::ListFormat;
use super::{Failure, Member};
use crate::config::document::{Limits, parse_any};
use crate::config::origin_url::{Authority, OriginUrl};
use crate::config::tree::{Entry, Node, Value};
use crate::config::{Fault, Mark, Problem};

/// Most bytes of a member list.
pub const BYTES_MAX: usize = 16 << 20;
/// Most values of a member list: a member with all its keys is 13.
pub const NODES_MAX: usize = 1_000_000;
/// Label of a target group that says the scheme of its members.
const SCHEME_LABEL: &str = "__scheme__";
/// What a member may have.
const KEYS: [&str; 6] = [
    "address",
    "name",
    "scheme",
    "path_prefix",
    "weight",
    "replica_group",
];

/// Reads a member list; `scheme` is that of entries without one. An empty document is an empty list in the
/// `trickster` format and an error in the other.
///
/// # Errors
/// What is wrong with it, on one line and not too long.
pub fn parse(format: ListFormat, bytes: &[u8], scheme: Scheme) -> Result<Vec<Member>, String> {
    if bytes.len() > BYTES_MAX {
        return Err(format!("a member list has at most {BYTES_MAX} bytes"));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| format!("not UTF-8 at byte {}", error.valid_up_to()))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let members = match format {
        ListFormat::Trickster => trickster(text, scheme),
        ListFormat::Prometheus => prometheus(text, scheme),
    };
    members.map_err(|reason| shown(&reason))
}

/// As [`parse`], away from the calling thread, which a long list would hold up. A panic of the parser is a failure
/// like any other.
///
/// # Errors
/// As [`parse`].
pub(super) async fn parse_aside(
    format: ListFormat,
    bytes: impl AsRef<[u8]> + Send + 'static,
    scheme: Scheme,
) -> Result<Vec<Member>, Failure> {
    let parsing = tokio::task::spawn_blocking(move || parse(format, bytes.as_ref(), scheme));
    match parsing.await {
        Ok(result) => result.map_err(|reason| Failure::new(format!("member list: {reason}"))),
        Err(error) => Err(Failure::new(format!("member list: not read: {error}"))),
    }
}

/// Reads `host:port`: a host name, an IPv4 address or an IPv6 address in brackets, and a port from 1 to 65535. The
/// host comes without brackets, in lower case, and an IPv6 address in its one short form.
///
/// # Errors
/// What is wrong with it, in words.
pub fn host_port(text: &str) -> Result<(Box<str>, u16), String> {
    let wrong = |why: &str| {
        let shown = masked(text);
        format!("{shown:?}: {why}; write host:port, an IPv6 address in brackets")
    };
    if text.contains("://") {
        return Err(wrong("it is a URL"));
    }
    if text.contains('@') {
        return Err(wrong("it holds credentials, which a template has"));
    }
    let authority = Authority::parse(text).map_err(|why| wrong(&why))?;
    let port = authority.port.ok_or_else(|| wrong("the port is missing"))?;
    let host = match authority.host.parse::<IpAddr>() {
        Ok(address) => address.to_string().into(),
        Err(_) => authority.host.into(),
    };
    Ok((host, port))
}

/// What a list says, for people: whatever may be a credential in it is left out.
fn masked(text: &str) -> String {
    let plain = match text.rsplit_once('@') {
        Some((_, rest)) => format!("***@{rest}"),
        None => text.to_owned(),
    };
    match plain.find(['?', '#']) {
        Some(at) => format!("{}***", &plain[..=at]),
        None => plain,
    }
}

/// Reads a port number from 1 to 65535, as labels and tags hold it.
pub fn port(text: &str) -> Option<u16> {
    let digits = text.trim();
    let is_number = digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|port| is_number && *port > 0)
}

/// Reads `http` or `https`.
///
/// # Errors
/// What to write.
pub fn scheme(text: &str) -> Result<Scheme, String> {
    match text {
        "http" => Ok(Scheme::Http),
        "https" => Ok(Scheme::Https),
        _ => Err(format!("{text:?} is no scheme; write http or https")),
    }
}

// === format trickster ===

fn trickster(text: &str, scheme: Scheme) -> Result<Vec<Member>, String> {
    // JSON is read as such, which costs a fraction, and may be what is no YAML, such as a character outside the basic
    // plane in two escapes. What is wrong with a list the other reader tells better.
    let json = json(text);
    if let Some(root) = &json
        && let Ok(members) = listed(root, scheme)
    {
        return Ok(members);
    }
    let root = match (yaml(text), json) {
        (Ok(root), _) => root,
        (Err(problem), Some(json)) if matches!(problem.fault, Fault::NotYaml { .. }) => Some(json),
        (Err(problem), _) => return Err(told(&problem)),
    };
    match root {
        Some(root) if !root.is_null() => listed(&root, scheme),
        _ => Ok(Vec::new()),
    }
}

/// The members of a list.
fn listed(root: &Node, scheme: Scheme) -> Result<Vec<Member>, String> {
    let Value::List(entries) = &root.value else {
        return Err(format!(
            "it is {}; write a list of members, each beginning with `- address: host:port`",
            root.kind_name()
        ));
    };
    let members = entries.iter().enumerate().map(|(index, node)| {
        member(node, scheme).map_err(|(mark, why)| match mark.line {
            0 => format!("entry [{index}]: {why}"),
            line => format!("entry [{index}] at line {line}: {why}"),
        })
    });
    members.collect()
}

/// A list in JSON as a tree.
fn json(text: &str) -> Option<Node> {
    let may_be = text.trim_start().starts_with('[') && values_max(text) <= NODES_MAX;
    let JsonNode(root) = may_be.then(|| serde_json::from_str(text).ok())??;
    Some(root)
}

fn told(problem: &Problem) -> String {
    match &problem.fault {
        Fault::SecondDocument => format!("{}: only one YAML document per list", problem.at),
        _ => problem.to_string(),
    }
}

/// The document as a tree.
fn yaml(text: &str) -> Result<Option<Node>, Box<Problem>> {
    let limits = Limits {
        bytes: BYTES_MAX as u64,
        nodes: NODES_MAX,
    };
    let source: Arc<str> = "line".into();
    parse_any(&source, text, limits).map_err(Box::new)
}

/// At least as many as JSON text can have values: each follows one of these.
fn values_max(text: &str) -> usize {
    let begins = |b: &u8| matches!(b, b'[' | b'{' | b',' | b':');
    1 + text.bytes().filter(begins).count()
}

/// A tree of JSON, in which nothing has a place. A key that is there twice is an error.
struct JsonNode(Node);

impl<'de> Deserialize<'de> for JsonNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonValue)
    }
}

struct JsonValue;

impl JsonValue {
    fn node(value: Value) -> JsonNode {
        JsonNode(Node {
            mark: Mark::whole(""),
            value,
        })
    }

    fn scalar(text: impl fmt::Display) -> JsonNode {
        Self::node(Value::Scalar(text.to_string()))
    }
}

impl<'de> Visitor<'de> for JsonValue {
    type Value = JsonNode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<JsonNode, E> {
        Ok(Self::node(Value::Null))
    }

    fn visit_bool<E>(self, is_so: bool) -> Result<JsonNode, E> {
        Ok(Self::scalar(is_so))
    }

    fn visit_u64<E>(self, number: u64) -> Result<JsonNode, E> {
        Ok(Self::scalar(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<JsonNode, E> {
        Ok(Self::scalar(number))
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<JsonNode, E> {
        // Written in many ways: the other reader keeps the one that is there.
        Err(E::custom("a fraction"))
    }

    fn visit_str<E>(self, text: &str) -> Result<JsonNode, E> {
        Ok(Self::scalar(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<JsonNode, A::Error> {
        let mut items = Vec::new();
        while let Some(JsonNode(item)) = list.next_element()? {
            items.push(item);
        }
        Ok(Self::node(Value::List(items)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonNode, A::Error> {
        let mut entries: Vec<Entry> = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            if entries.len() > KEYS.len() || entries.iter().any(|entry| entry.key == key) {
                return Err(A::Error::custom("a key twice, or more than a member has"));
            }
            let JsonNode(node) = map.next_value()?;
            let mark = Mark::whole("");
            entries.push(Entry { key, mark, node });
        }
        Ok(Self::node(Value::Map(entries)))
    }
}

fn member(node: &Node, scheme_of_query: Scheme) -> Result<Member, (Mark, String)> {
    let at_node = |why: String| (node.mark.clone(), why);
    let Value::Map(entries) = &node.value else {
        let found = node.kind_name();
        let why = format!("it is {found}; write `address: host:port` and what else is known");
        return Err(at_node(why));
    };
    let mut written = Written::default();
    for entry in entries {
        let at_entry = |why: String| (entry.mark.clone(), format!("{}: {why}", entry.key));
        if !KEYS.contains(&entry.key.as_str()) {
            return Err(at_entry(unknown_key(&entry.key)));
        }
        match (entry.node.text(), entry.node.is_null()) {
            (Some(text), _) => written.take(&entry.key, text).map_err(at_entry)?,
            (None, true) => {}
            (None, false) => return Err(at_entry("it must be a single value".to_owned())),
        }
    }
    let Some((host, port)) = written.address else {
        return Err(at_node(
            "address is missing; write `address: host:port`".to_owned(),
        ));
    };
    let mut member = Member::at(written.scheme.unwrap_or(scheme_of_query), &host, port);
    if !written.name.is_empty() {
        member.name = written.name;
    }
    member.path_prefix = written.path_prefix;
    member.weight = written.weight;
    member.replica_group = written.replica_group;
    Ok(member)
}

fn unknown_key(key: &str) -> String {
    match key {
        "targets" | "labels" => {
            "members have no such key; format prometheus has, which http_sd.format must then name"
                .to_owned()
        }
        _ => format!("members have no such key; they have {}", KEYS.join(", ")),
    }
}

/// What an entry says.
#[derive(Default)]
struct Written {
    address: Option<(Box<str>, u16)>,
    name: Box<str>,
    scheme: Option<Scheme>,
    path_prefix: Box<str>,
    weight: u32,
    replica_group: Box<str>,
}

impl Written {
    fn take(&mut self, key: &str, text: &str) -> Result<(), String> {
        match key {
            "address" => self.address = Some(host_port(text)?),
            "name" => self.name = text.into(),
            "scheme" => self.scheme = Some(scheme(text)?),
            "path_prefix" => self.path_prefix = path_prefix(text)?,
            "weight" => self.weight = weight(text)?,
            "replica_group" => self.replica_group = text.into(),
            _ => return Err(unknown_key(key)),
        }
        Ok(())
    }
}

fn weight(text: &str) -> Result<u32, String> {
    let is_number = text.bytes().all(|b| b.is_ascii_digit());
    text.parse()
        .ok()
        .filter(|_| is_number)
        .ok_or_else(|| format!("{text:?} is no weight; write a whole number, at least 0"))
}

/// A path as a configured origin may have one; without its trailing slash, so `/` is none.
fn path_prefix(text: &str) -> Result<Box<str>, String> {
    if text.is_empty() {
        return Ok(Box::default());
    }
    if !text.starts_with('/') {
        return Err(format!(
            "{:?}: write a path that begins with /",
            masked(text)
        ));
    }
    let url = OriginUrl::parse(&format!("http://host{text}"));
    let url = url.map_err(|why| format!("{:?}: {why}", masked(text)))?;
    Ok(url.path_prefix.into())
}

// === format prometheus ===

/// One target group.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    targets: Vec<String>,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

fn prometheus(text: &str, scheme_of_query: Scheme) -> Result<Vec<Member>, String> {
    let groups: Indexed<Group> = serde_json::from_str(text).map_err(|error| {
        format!("{error}; format prometheus is a JSON list of {{\"targets\": [\"host:port\"], \"labels\": {{}}}}")
    })?;
    let mut members = Vec::new();
    for (index, group) in groups.0.into_iter().enumerate() {
        let mut labels = group.labels.unwrap_or_default();
        let wrong = |why: String| format!("entry [{index}]: {why}");
        let scheme = match labels.remove(SCHEME_LABEL) {
            Some(text) => {
                scheme(&text).map_err(|why| wrong(format!("label {SCHEME_LABEL}: {why}")))?
            }
            None => scheme_of_query,
        };
        for target in &group.targets {
            let (host, port) = host_port(target).map_err(|why| wrong(format!("target {why}")))?;
            let mut member = Member::at(scheme, &host, port);
            member.name = target.as_str().into();
            for (name, value) in &labels {
                member.label(name, value);
            }
            members.push(member);
        }
    }
    Ok(members)
}

/// A list whose errors say which item is wrong.
struct Indexed<T>(Vec<T>);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Indexed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<T>(Vec<T>);
        impl<'de, T: DeserializeOwned> Visitor<'de> for Items<T> {
            type Value = Indexed<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<Indexed<T>, A::Error> {
                loop {
                    let index = self.0.len();
                    let item = list
                        .next_element()
                        .map_err(|error| A::Error::custom(format!("entry [{index}]: {error}")))?;
                    match item {
                        Some(item) => self.0.push(item),
                        None => return Ok(Indexed(self.0)),
                    }
                }
            }
        }
        deserializer.deserialize_seq(Items(Vec::new()))
    }
}

#[cfg(test)]
mod tests;
