//! Provider `docker`: containers of a Docker Engine.
//!
//! One GET for each reading, over a socket of this machine or to a URL: the engine's own list of containers, narrowed
//! by the query's filters. `containers` makes members of it. Nothing else is ever asked of the engine. Contract:
//! autodiscovery page, 15.

pub mod containers;

use std::sync::Arc;

use reqwest::{StatusCode, Url};
use serde::Deserialize;

use self::containers::{Listing, Place};
use super::http::{Answer, Ask, Client, url};
use super::settings::{Docker, DockerEngine, Query};
use super::{Again, Failure, Next, Reading, Source};

/// Most bytes of a list of containers.
const BODY_BYTES_MAX: usize = 32 << 20;
/// Base of URLs that go over a socket.
const SOCKET_BASE: &str = "http://localhost";

/// The engine, for all queries.
#[derive(Clone, Debug)]
pub struct Connection {
    client: Client,
    base: Box<str>,
    api_version: Box<str>,
    place: Arc<Place>,
}

/// Makes the client.
///
/// # Errors
/// When the settings cannot be used together.
pub fn connect(settings: &Docker) -> Result<Connection, Failure> {
    let (client, base, place) = match &settings.engine {
        DockerEngine::Unix(socket) => (
            Client::over_socket(&settings.http, socket)?,
            SOCKET_BASE.into(),
            Place::Here,
        ),
        DockerEngine::Url(base) => {
            let host = Url::parse(base)
                .ok()
                .and_then(|url| url.host_str().map(str::to_owned))
                .ok_or_else(|| Failure::new("docker: the endpoint is no URL with a host"))?;
            let host = host.trim_start_matches('[').trim_end_matches(']');
            (
                Client::new(&settings.http)?,
                base.clone(),
                Place::Host(host.into()),
            )
        }
    };
    Ok(Connection {
        client,
        base,
        api_version: settings.api_version.clone(),
        place: Arc::new(place),
    })
}

impl Connection {
    /// The containers that the query's filters leave.
    pub fn source(&self, query: Arc<Query>) -> Box<dyn Source> {
        Box::new(Containers {
            connection: self.clone(),
            query,
        })
    }
}

struct Containers {
    connection: Connection,
    query: Arc<Query>,
}

impl Source for Containers {
    fn next(&mut self) -> Next<'_> {
        Box::pin(self.read())
    }
}

impl Containers {
    async fn read(&self) -> Result<Reading, Failure> {
        let own = &self.connection;
        let path = format!("/{}/containers/json", own.api_version);
        let filters = filters(&self.query);
        let url = url(&own.base, &path, &[("filters", &filters)])?;
        let answer = own.client.ask(Ask::get(url, BODY_BYTES_MAX)).await?;
        if answer.status != StatusCode::OK {
            return Err(refusal(&answer));
        }
        let Listing { members, excluded } = self.listing(answer).await?;
        Ok(Reading {
            members: Some(members),
            excluded,
            again: Again::After(own.client.settings().interval),
        })
    }

    /// Reads the answer on another thread: it may be long, and a panic of its parser is a failure like any other.
    async fn listing(&self, answer: Answer) -> Result<Listing, Failure> {
        let query = self.query.clone();
        let place = self.connection.place.clone();
        let parsing =
            tokio::task::spawn_blocking(move || containers::parse(&answer.body, &query, &place));
        match parsing.await {
            Ok(result) => result.map_err(|reason| Failure::new(format!("containers: {reason}"))),
            Err(error) => Err(Failure::new(format!("containers: not read: {error}"))),
        }
    }
}

/// The engine's filter document. Without a filter for the state only what runs is asked for: hosts keep many
/// containers that ended.
fn filters(query: &Query) -> String {
    let mut filters = query.filters.clone();
    filters
        .entry("status".into())
        .or_insert_with(|| vec!["running".into()]);
    let pairs = filters.into_iter().map(|(name, values)| {
        let values: Vec<String> = values.into_iter().map(Into::into).collect();
        (String::from(name), serde_json::Value::from(values))
    });
    serde_json::Value::Object(pairs.collect()).to_string()
}

/// What the engine said, and the key that may be the remedy.
fn refusal(answer: &Answer) -> Failure {
    #[derive(Deserialize)]
    struct Document {
        message: String,
    }
    let document = serde_json::from_slice::<Document>(&answer.body).ok();
    let message = document.map(|document| document.message);
    let is_about_version = message
        .as_ref()
        .is_some_and(|text| text.contains("version"));
    let mut failure = answer.failure("containers", message);
    if answer.status == StatusCode::BAD_REQUEST {
        failure.reason.push_str(match is_about_version {
            true => "; set docker.api_version to one that the engine speaks",
            false => "; check query.filters and docker.api_version",
        });
    }
    failure
}

#[cfg(test)]
mod tests;
