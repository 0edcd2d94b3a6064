//! Provider `gcp`: Compute Engine instances, by the aggregated list of a project.
//!
//! One paged call covers all zones. A zone that cannot be reached contributes nothing and is named among what was
//! left out. Bounds: [`PAGES_MAX`] pages of a reading. Contract: autodiscovery page, 13.

pub mod credentials;
pub mod gce;

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::AUTHORIZATION;

use super::cloud::{Kept, PAGE_BYTES_MAX, Sorted, bearer, parse_error, segment, too_many_pages};
use super::http::{Ask, Client};
use super::settings::{Gcp, Query};
use super::{Again, Failure, Next, Reading, Source};
use credentials::{Account, Finder, Surroundings};

/// Most pages of a reading.
pub const PAGES_MAX: usize = 100;
const ENDPOINT: &str = "https://compute.googleapis.com";

/// One project, shared by all its queries.
#[derive(Clone, Debug)]
pub struct Connection {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    settings: Gcp,
    client: Client,
    finder: Finder,
    account: Kept<Account>,
}

/// Makes the connection; of a configured key file only its type is looked at, and only if it can be read: it may
/// come later.
///
/// # Errors
/// When the settings of block `http` cannot be used together, or the key file is of another type.
pub fn connect(settings: &Gcp) -> Result<Connection, Failure> {
    connect_within(settings, Surroundings::of_environment())
}

fn connect_within(settings: &Gcp, surroundings: Surroundings) -> Result<Connection, Failure> {
    if let Some(file) = &settings.credentials_file
        && let Ok(text) = std::fs::read(file)
    {
        credentials::parse_service_key(&text)?;
    }
    Ok(Connection {
        inner: Arc::new(Inner {
            settings: settings.clone(),
            client: Client::new(&settings.http)?,
            finder: Finder::new(settings, surroundings)?,
            account: Kept::new(credentials::EARLY),
        }),
    })
}

impl Connection {
    /// The source of one query.
    pub fn source(&self, query: Arc<Query>) -> Box<dyn Source> {
        Box::new(Inventory {
            inner: Arc::clone(&self.inner),
            query,
        })
    }
}

struct Inventory {
    inner: Arc<Inner>,
    query: Arc<Query>,
}

impl Source for Inventory {
    fn next(&mut self) -> Next<'_> {
        Box::pin(async {
            let sorted = self.inner.read(&self.query).await?;
            Ok(Reading {
                members: Some(sorted.members),
                excluded: sorted.excluded,
                again: Again::After(self.inner.settings.http.interval),
            })
        })
    }
}

impl Inner {
    async fn read(&self, query: &Query) -> Result<Sorted, Failure> {
        let mut sorted = Sorted::default();
        let mut token = String::new();
        for _ in 0..PAGES_MAX {
            let page = self.page(query, &token).await?;
            gce::sort(&page, query, &mut sorted);
            if page.next_page_token.is_empty() {
                return Ok(sorted);
            }
            token = page.next_page_token;
        }
        Err(too_many_pages(gce::WHAT, PAGES_MAX))
    }

    async fn page(&self, query: &Query, token: &str) -> Result<gce::Page, Failure> {
        let lease = self.account.get(|| Box::pin(self.finder.account())).await?;
        let base = match &*self.settings.http.endpoint {
            "" => ENDPOINT,
            endpoint => endpoint,
        };
        let project = segment(&lease.value.project);
        let path = format!("/compute/v1/projects/{project}/aggregated/instances");
        let mut pairs = vec![("returnPartialSuccess", "true")];
        if let Some(filter) = &query.filter {
            pairs.push(("filter", filter));
        }
        if !token.is_empty() {
            pairs.push(("pageToken", token));
        }
        let mut ask = Ask::get(super::http::url(base, &path, &pairs)?, PAGE_BYTES_MAX);
        let value = bearer(&lease.value.token)?;
        ask.headers.insert(AUTHORIZATION, value);
        let answer = self.client.ask(ask).await?;
        match answer.status {
            StatusCode::OK => gce::parse_page(&answer.body),
            status => {
                if status == StatusCode::UNAUTHORIZED {
                    self.account.forget(&lease).await;
                }
                Err(answer.failure(gce::WHAT, parse_error(&answer.body)))
            }
        }
    }
}

#[cfg(test)]
mod tests;
