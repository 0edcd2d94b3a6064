//! Provider `nomad`: instances of a service of Nomad's own registry. It knows no checks: readiness stays unknown.
//!
//! Contract: autodiscovery page, 11.3.

use std::sync::Arc;

use reqwest::Url;
use serde::Deserialize;

use super::blocking::{Cursor, Unchanged, Watch, check_address, or_default, tags_label};
use super::http::Client;
use super::settings::{Nomad, Query};
use super::{Failure, Member, Source};

/// Header of answers that holds the index.
const INDEX_HEADER: &str = "x-nomad-index";

/// A Nomad agent or server, and how it is asked.
#[derive(Clone, Debug)]
pub struct Connection {
    client: Client,
    base: Url,
    settings: Arc<Nomad>,
}

/// A connection with these settings; asks nothing yet.
///
/// # Errors
/// When the settings cannot be used together.
pub fn connect(settings: &Nomad) -> Result<Connection, Failure> {
    let client = Client::new(&settings.http)?;
    Ok(Connection {
        base: client.url("/v1/service", &[])?,
        client,
        settings: Arc::new(settings.clone()),
    })
}

impl Connection {
    /// The instances of a service.
    pub fn source(&self, query: Arc<Query>) -> Box<dyn Source> {
        let settings = &self.settings;
        let mut unchanged = Unchanged::default();
        Box::new(Watch {
            client: self.client.clone(),
            url: self.url(&query),
            index_header: INDEX_HEADER,
            cursor: Cursor::new(settings.wait, settings.http.interval),
            read: Box::new(move |body| members(body, &query, &mut unchanged)),
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
            ("namespace", &settings.namespace),
            ("region", &settings.region),
            ("filter", &query.filter),
        ] {
            if let Some(value) = value {
                pairs.append_pair(name, value);
            }
        }
        if settings.allow_stale {
            pairs.append_key_only("stale");
        }
        drop(pairs);
        // Without parameters there is no question mark either.
        if url.query() == Some("") {
            url.set_query(None);
        }
        url
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Entry {
    #[serde(rename = "ID", deserialize_with = "or_default")]
    id: Box<str>,
    #[serde(deserialize_with = "or_default")]
    service_name: Box<str>,
    #[serde(deserialize_with = "or_default")]
    namespace: Box<str>,
    #[serde(rename = "NodeID", deserialize_with = "or_default")]
    node_id: Box<str>,
    #[serde(deserialize_with = "or_default")]
    datacenter: Box<str>,
    #[serde(rename = "JobID", deserialize_with = "or_default")]
    job_id: Box<str>,
    #[serde(rename = "AllocID", deserialize_with = "or_default")]
    alloc_id: Box<str>,
    #[serde(deserialize_with = "or_default")]
    tags: Vec<Box<str>>,
    #[serde(deserialize_with = "or_default")]
    address: Box<str>,
    #[serde(deserialize_with = "or_default")]
    port: i64,
}

/// The members that an answer names, of those that have all tags of the query: Nomad cannot choose by tags.
///
/// # Errors
/// When it is no such answer, or one of these instances cannot be a member.
pub fn members(
    body: &[u8],
    query: &Query,
    unchanged: &mut Unchanged,
) -> Result<Vec<Member>, String> {
    unchanged.members(body, |entry| {
        let entry: Entry = serde_json::from_slice(entry)
            .map_err(|error| format!("not a list of instances: {error}"))?;
        let has_tags = query.tags.iter().all(|tag| entry.tags.contains(tag));
        has_tags.then(|| member(&entry, query)).transpose()
    })
}

fn member(entry: &Entry, query: &Query) -> Result<Member, String> {
    let name = match &*entry.id {
        "" => &entry.service_name,
        _ => &entry.id,
    };
    let port = check_address(&entry.address, entry.port)
        .map_err(|reason| format!("instance {name:?}: {reason}"))?;
    let mut member = Member::at(query.scheme(), &entry.address, port);
    member.name = name.clone();
    for (label, value) in [
        ("service", &entry.service_name),
        ("service_id", &entry.id),
        ("job_id", &entry.job_id),
        ("alloc_id", &entry.alloc_id),
        ("node_id", &entry.node_id),
        ("namespace", &entry.namespace),
        ("datacenter", &entry.datacenter),
    ] {
        member.label(label, value);
    }
    member.label("tags", &tags_label(&entry.tags));
    Ok(member)
}

#[cfg(test)]
mod tests;
