//! Provider `consul`: instances of a service and the state of their checks, from Consul's health endpoint.
//!
//! Contract: autodiscovery page, 11.2.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use reqwest::Url;
use serde::Deserialize;

use super::blocking::{Cursor, Unchanged, Watch, check_address, or_default, tags_label};
use super::http::{Client, masked};
use super::settings::{Consul, Http, HttpAuth, Query};
use super::{Failure, Member, Readiness, Source};

/// Header of answers that holds the index.
const INDEX_HEADER: &str = "x-consul-index";
/// Check of an instance whose node is in maintenance.
const NODE_MAINTENANCE: &str = "_node_maintenance";
/// What the id of a check begins with whose instance is in maintenance.
const SERVICE_MAINTENANCE: &str = "_service_maintenance:";
/// Headers that can be credentials.
const CREDENTIAL_HEADERS: [&str; 2] = ["x-consul-token", "authorization"];

/// A Consul agent or server, and how it is asked.
#[derive(Clone, Debug)]
pub struct Connection {
    client: Client,
    base: Url,
    settings: Arc<Consul>,
}

/// A connection with these settings; asks nothing yet.
///
/// # Errors
/// When the settings cannot be used together.
pub fn connect(settings: &Consul) -> Result<Connection, Failure> {
    let client = Client::new(&settings.http)?;
    Ok(Connection {
        base: client.url("/v1/health/service", &[])?,
        client,
        settings: Arc::new(settings.clone()),
    })
}

impl Connection {
    /// The instances of a service.
    pub fn source(&self, query: Arc<Query>) -> Box<dyn Source> {
        let settings = &self.settings;
        let url = self.url(&query);
        let place = masked(&url);
        let mut silence = Silence::default();
        let has_credentials = has_credentials(&settings.http);
        let warning_is_ready = settings.warning_is_ready;
        let mut unchanged = Unchanged::default();
        let read = move |body: &[u8]| {
            let members = members(body, &query, warning_is_ready, &mut unchanged)?;
            if silence.fell(members.len()) && !has_credentials {
                tracing::warn!(
                    scope = "discovery",
                    url = place,
                    "a service that had instances has none; without a token, Consul hides what its ACLs \
                     protect: set http.bearer_token_file if that may be so, and alb.discovery.min_members to keep \
                     members then"
                );
            }
            Ok(members)
        };
        Box::new(Watch {
            client: self.client.clone(),
            url,
            index_header: INDEX_HEADER,
            cursor: Cursor::new(settings.wait, settings.http.interval),
            read: Box::new(read),
        })
    }

    fn url(&self, query: &Query) -> Url {
        let settings = &self.settings;
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.push(query.service.as_deref().unwrap_or_default());
        }
        let mut pairs = url.query_pairs_mut();
        for (name, value) in [
            ("dc", &settings.datacenter),
            ("ns", &settings.namespace),
            ("partition", &settings.partition),
            ("filter", &query.filter),
        ] {
            if let Some(value) = value {
                pairs.append_pair(name, value);
            }
        }
        if settings.allow_stale {
            pairs.append_key_only("stale");
        }
        if settings.only_passing {
            pairs.append_pair("passing", "true");
        }
        for tag in &query.tags {
            pairs.append_pair("tag", tag);
        }
        drop(pairs);
        // Without parameters there is no question mark either.
        if url.query() == Some("") {
            url.set_query(None);
        }
        url
    }
}

fn has_credentials(http: &Http) -> bool {
    let is_one = |name: &str| {
        CREDENTIAL_HEADERS
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known))
    };
    !matches!(http.auth, HttpAuth::None) || http.headers.iter().any(|(name, _)| is_one(name))
}

/// Notices the first time that a service which had members has none.
#[derive(Debug, Default)]
struct Silence {
    had_members: bool,
    was_noticed: bool,
}

impl Silence {
    fn fell(&mut self, members: usize) -> bool {
        let fell = self.had_members && members == 0;
        self.had_members = members > 0;
        let is_first = fell && !self.was_noticed;
        self.was_noticed |= fell;
        is_first
    }
}

// === answers ===

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Entry {
    #[serde(deserialize_with = "or_default")]
    node: Node,
    #[serde(deserialize_with = "or_default")]
    service: Service,
    #[serde(deserialize_with = "or_default")]
    checks: Vec<Check>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Node {
    #[serde(deserialize_with = "or_default")]
    node: Box<str>,
    #[serde(deserialize_with = "or_default")]
    address: Box<str>,
    #[serde(deserialize_with = "or_default")]
    datacenter: Box<str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Service {
    #[serde(rename = "ID", deserialize_with = "or_default")]
    id: Box<str>,
    #[serde(deserialize_with = "or_default")]
    service: Box<str>,
    #[serde(deserialize_with = "or_default")]
    tags: Vec<Box<str>>,
    #[serde(deserialize_with = "or_default")]
    address: Box<str>,
    #[serde(deserialize_with = "or_default")]
    port: i64,
    #[serde(deserialize_with = "or_default")]
    meta: BTreeMap<Box<str>, Box<str>>,
    #[serde(deserialize_with = "or_default")]
    weights: Weights,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Weights {
    #[serde(deserialize_with = "or_default")]
    passing: i64,
    #[serde(deserialize_with = "or_default")]
    warning: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Check {
    #[serde(rename = "CheckID", deserialize_with = "or_default")]
    id: Box<str>,
    #[serde(deserialize_with = "or_default")]
    status: Box<str>,
}

/// State of an instance, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Status<'a> {
    Passing,
    Warning,
    Maintenance,
    Critical,
    /// One that Consul may have one day.
    Other(&'a str),
}

impl<'a> Status<'a> {
    fn of(text: &'a str) -> Status<'a> {
        match text {
            "passing" => Status::Passing,
            "warning" => Status::Warning,
            "maintenance" => Status::Maintenance,
            "critical" => Status::Critical,
            other => Status::Other(other),
        }
    }

    /// The worst of an instance's checks. Maintenance is a critical check with an id of its own; it is what an
    /// operator wants to read, even where a check beside it fails because of it.
    fn worst(checks: &'a [Check]) -> Status<'a> {
        let is_maintenance = |check: &Check| {
            &*check.id == NODE_MAINTENANCE || check.id.starts_with(SERVICE_MAINTENANCE)
        };
        if checks.iter().any(is_maintenance) {
            return Status::Maintenance;
        }
        let statuses = checks.iter().map(|check| Status::of(&check.status));
        statuses.max().unwrap_or(Status::Passing)
    }

    fn readiness(self, warning_is_ready: bool) -> Readiness {
        match self {
            Status::Passing => Readiness::Ready,
            Status::Warning if warning_is_ready => Readiness::Ready,
            _ => Readiness::NotReady,
        }
    }
}

impl fmt::Display for Status<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::Passing => "passing",
            Status::Warning => "warning",
            Status::Maintenance => "maintenance",
            Status::Critical => "critical",
            Status::Other(text) => text,
        })
    }
}

/// The members that an answer names, all of them.
///
/// # Errors
/// When it is no such answer, or one of its instances cannot be a member.
pub fn members(
    body: &[u8],
    query: &Query,
    warning_is_ready: bool,
    unchanged: &mut Unchanged,
) -> Result<Vec<Member>, String> {
    unchanged.members(body, |entry| {
        let entry: Entry = serde_json::from_slice(entry)
            .map_err(|error| format!("not a list of instances: {error}"))?;
        member(&entry, query, warning_is_ready).map(Some)
    })
}

fn member(entry: &Entry, query: &Query, warning_is_ready: bool) -> Result<Member, String> {
    let Entry {
        node,
        service,
        checks,
    } = entry;
    let name = match &*service.id {
        "" => &service.service,
        _ => &service.id,
    };
    let host = match &*service.address {
        "" => &node.address,
        _ => &service.address,
    };
    let port = check_address(host, service.port)
        .map_err(|reason| format!("instance {name:?}: {reason}"))?;
    let status = Status::worst(checks);
    let weight = match status {
        Status::Warning => service.weights.warning,
        _ => service.weights.passing,
    };
    let mut member = Member::at(query.scheme(), host, port);
    member.name = name.clone();
    member.weight = u32::try_from(weight.max(0)).unwrap_or(u32::MAX);
    member.ready = status.readiness(warning_is_ready);
    if let Some(label) = &query.replica_group_label {
        member.replica_group = service.meta.get(label).cloned().unwrap_or_default();
    }
    member.label("service", &service.service);
    member.label("service_id", &service.id);
    member.label("node", &node.node);
    member.label("datacenter", &node.datacenter);
    member.label("status", &status.to_string());
    member.label("tags", &tags_label(&service.tags));
    for (key, value) in &service.meta {
        member.label(&format!("meta_{key}"), value);
    }
    Ok(member)
}

#[cfg(test)]
mod tests;
