//! Provider `http_sd`: a member list from an HTTP endpoint.
//!
//! One GET for each reading. A validator (`ETag`) is kept, as it came, once its document was accepted, so that a
//! later 304 can never stand for a document that was refused. Contract: autodiscovery page, 10.

use std::sync::Arc;

use hyper::header::{ACCEPT, ETAG, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH};
use reqwest::StatusCode;

use super::http::{Ask, Client};
use super::members::{self, BYTES_MAX};
use super::settings::{HttpSd, ListFormat, Query};
use super::{Again, Failure, Next, Reading, Source};

/// Tells servers that make lists on demand how often to.
const INTERVAL: HeaderName = HeaderName::from_static("x-prometheus-refresh-interval-seconds");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The endpoint, for all queries.
#[derive(Clone, Debug)]
pub struct Connection {
    client: Client,
    format: ListFormat,
}

/// Makes the client.
///
/// # Errors
/// When the settings cannot be used together.
pub fn connect(settings: &HttpSd) -> Result<Connection, Failure> {
    Ok(Connection {
        client: Client::new(&settings.http)?,
        format: settings.format,
    })
}

impl Connection {
    /// A list: the endpoint with `query.path` after it.
    pub fn source(&self, query: Arc<Query>) -> Box<dyn Source> {
        Box::new(List {
            connection: self.clone(),
            query,
            validator: None,
        })
    }
}

struct List {
    connection: Connection,
    query: Arc<Query>,
    /// `ETag` of the last accepted document.
    validator: Option<HeaderValue>,
}

impl Source for List {
    fn next(&mut self) -> Next<'_> {
        Box::pin(self.read())
    }
}

impl List {
    async fn read(&mut self) -> Result<Reading, Failure> {
        let Connection { client, format } = &self.connection;
        let path = self.query.path.as_deref().unwrap_or_default();
        let mut ask = Ask::get(client.url(path, &[])?, BYTES_MAX);
        ask.headers = self.headers()?;
        let answer = client.ask(ask).await?;
        let members = match answer.status {
            StatusCode::OK => {
                let read = members::parse_aside(*format, answer.body, self.query.scheme());
                let members = read.await?;
                let validator = answer.headers.get(ETAG).cloned();
                self.validator = validator.filter(|value| !value.is_empty());
                Some(members)
            }
            StatusCode::NOT_MODIFIED if self.validator.is_some() => None,
            StatusCode::NOT_MODIFIED => {
                let why = "member list: 304 to a request without If-None-Match";
                return Err(Failure::new(why));
            }
            _ => return Err(answer.failure("member list", None)),
        };
        Ok(Reading {
            members,
            excluded: Vec::new(),
            again: Again::After(client.settings().interval),
        })
    }

    fn headers(&self) -> Result<HeaderMap, Failure> {
        let Connection { client, format } = &self.connection;
        let mut headers = HeaderMap::new();
        let seconds = client.settings().interval.as_secs_f64().to_string();
        let seconds = HeaderValue::from_str(&seconds);
        headers.insert(
            INTERVAL,
            seconds.map_err(|_| Failure::new("an interval that fits no header"))?,
        );
        if *format == ListFormat::Prometheus {
            headers.insert(ACCEPT, JSON);
        }
        if let Some(validator) = &self.validator {
            headers.insert(IF_NONE_MATCH, validator.clone());
        }
        Ok(headers)
    }
}

#[cfg(test)]
mod tests;
