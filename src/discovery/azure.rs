//! Provider `azure`: virtual machines of a subscription, joined to their network interfaces.
//!
//! A machine carries no address: lists of machines, of network interfaces and, where they are wanted, of public
//! addresses are read whole and joined. Bounds: [`PAGES_MAX`] pages of [`PAGE_BYTES_MAX`] of each list. Contract:
//! autodiscovery page, 14.

pub mod identity;
pub mod vm;

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{ACCEPT, AUTHORIZATION, HeaderValue};
use reqwest::Url;
use ringway_shards::plan::Secret;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::cloud::{
    Kept, Sorted, bearer, not_understood, or_default, parse_error, segment, too_many_pages,
};
use super::http::{Ask, Client, masked};
use super::settings::{AddressType, Azure, Query};
use super::{Again, Exclusion, Failure, Next, Reading, Source};
use identity::{Hosts, Identity};
use vm::{Lists, Machine};

/// Most pages of a list.
pub const PAGES_MAX: usize = 200;
/// Most bytes of a page.
pub const PAGE_BYTES_MAX: usize = 64 << 20;
const PROVIDER_API_VERSION: &str = "2021-04-01";
const COMPUTE: &str = "Microsoft.Compute";

/// One subscription, shared by all its queries.
#[derive(Clone, Debug)]
pub struct Connection {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    settings: Azure,
    client: Client,
    /// Base URL of the resource manager, without a final `/`.
    base: String,
    identity: Identity,
    token: Kept<Arc<Secret>>,
}

/// Makes the connection; nothing is asked yet.
///
/// # Errors
/// When the settings of block `http` cannot be used together.
pub fn connect(settings: &Azure) -> Result<Connection, Failure> {
    connect_to(settings, Hosts::of(settings.cloud))
}

fn connect_to(settings: &Azure, hosts: Hosts) -> Result<Connection, Failure> {
    let base = match &*settings.http.endpoint {
        "" => hosts.resource_manager.clone(),
        endpoint => endpoint.to_owned(),
    };
    Ok(Connection {
        inner: Arc::new(Inner {
            settings: settings.clone(),
            client: Client::new(&settings.http)?,
            base,
            identity: Identity::new(settings, hosts)?,
            token: Kept::new(identity::EARLY),
        }),
    })
}

impl Connection {
    /// The source of one query.
    pub fn source(&self, query: Arc<Query>) -> Box<dyn Source> {
        Box::new(Inventory {
            inner: Arc::clone(&self.inner),
            query,
            registration: Registration::NotAsked,
        })
    }
}

struct Inventory {
    inner: Arc<Inner>,
    query: Arc<Query>,
    registration: Registration,
}

/// Whether the subscription may have machines at all, as far as that was asked: only for an empty list, and once
/// for as long as it is empty.
enum Registration {
    NotAsked,
    Fine,
    Missing(Exclusion),
}

impl Source for Inventory {
    fn next(&mut self) -> Next<'_> {
        Box::pin(async {
            let lists = self.inner.lists(&self.query).await?;
            let mut sorted = Sorted::default();
            vm::sort(&lists, &self.query, &mut sorted);
            self.check_registration(&lists, &mut sorted).await;
            Ok(Reading {
                members: Some(sorted.members),
                excluded: sorted.excluded,
                again: Again::After(self.inner.settings.http.interval),
            })
        })
    }
}

impl Inventory {
    /// An empty list is also what an unregistered subscription answers: says so, among what is left out.
    async fn check_registration(&mut self, lists: &Lists, sorted: &mut Sorted) {
        if !lists.machines.is_empty() {
            self.registration = Registration::NotAsked;
            return;
        }
        if let Registration::NotAsked = self.registration {
            self.registration = match self.inner.registration().await {
                Ok(state) if state.eq_ignore_ascii_case("Registered") => Registration::Fine,
                Ok(state) => Registration::Missing(unregistered(&state)),
                // Who may read machines may not read this: it is only a hint.
                Err(_) => Registration::Fine,
            };
        }
        if let Registration::Missing(exclusion) = &self.registration {
            sorted.excluded.push(exclusion.clone());
        }
    }
}

fn unregistered(state: &str) -> Exclusion {
    let state = super::http::shown(state);
    Exclusion {
        name: COMPUTE.into(),
        reason: format!(
            "no machines, and the provider is {state:?} in this subscription: az provider register -n {COMPUTE} && \
             az provider register -n Microsoft.Network"
        ),
    }
}

impl Inner {
    async fn lists(&self, query: &Query) -> Result<Lists, Failure> {
        let compute = &*self.settings.compute_api_version;
        let network = &*self.settings.network_api_version;
        let scope = self.scope();
        let machines = format!("{scope}/providers/{COMPUTE}/virtualMachines");
        let machines: Vec<Machine> = self.list(&machines, &[("api-version", compute)]).await?;
        let below = |kind| format!("{scope}/providers/Microsoft.Network/{kind}");
        let interfaces = below("networkInterfaces");
        let interfaces = self.list(&interfaces, &[("api-version", network)]).await?;
        let addresses = match query.address_type {
            AddressType::Public => {
                let addresses = below("publicIPAddresses");
                let addresses = self.list(&addresses, &[("api-version", network)]).await?;
                Some(addresses)
            }
            AddressType::Private | AddressType::Ipv6 => None,
        };
        let states = match self.settings.power_state {
            true => Some(self.states(compute).await?),
            false => None,
        };
        Ok(Lists {
            machines,
            interfaces,
            addresses,
            states,
        })
    }

    /// Power states, always of the whole subscription: the list of a group ignores the parameter.
    async fn states(&self, compute: &str) -> Result<Vec<Machine>, Failure> {
        let path = format!(
            "{}/providers/{COMPUTE}/virtualMachines",
            self.subscription()
        );
        let pairs = [("api-version", compute), ("statusOnly", "true")];
        let states: Vec<Machine> = self.list(&path, &pairs).await?;
        match states.is_empty() || states.iter().any(Machine::has_instance_view) {
            true => Ok(states),
            false => Err(Failure::new(format!(
                "{path}: no machine has an instance view, so none can be told from a stopped one"
            ))),
        }
    }

    fn subscription(&self) -> String {
        format!("/subscriptions/{}", segment(&self.settings.subscription_id))
    }

    fn scope(&self) -> String {
        let mut scope = self.subscription();
        if let Some(group) = &self.settings.resource_group {
            scope.push_str("/resourceGroups/");
            scope.push_str(&segment(group));
        }
        scope
    }

    /// All pages of a list.
    async fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        pairs: &[(&str, &str)],
    ) -> Result<Vec<T>, Failure> {
        let first = super::http::url(&self.base, path, pairs)?;
        let mut next = first.clone();
        let mut all = Vec::new();
        for _ in 0..PAGES_MAX {
            let page: Page<T> = parse_page(path, &self.get(path, next).await?)?;
            all.extend(page.value);
            if page.next_link.is_empty() {
                return Ok(all);
            }
            next = next_url(&first, &page.next_link)?;
        }
        Err(too_many_pages(path, PAGES_MAX))
    }

    async fn registration(&self) -> Result<String, Failure> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Provider {
            registration_state: String,
        }
        let path = format!("{}/providers/{COMPUTE}", self.subscription());
        let pairs = [("api-version", PROVIDER_API_VERSION)];
        let url = super::http::url(&self.base, &path, &pairs)?;
        let provider: Provider = serde_json::from_slice(&self.get(&path, url).await?)
            .map_err(|error| not_understood(&path, &error))?;
        Ok(provider.registration_state)
    }

    async fn get(&self, what: &str, url: Url) -> Result<bytes::Bytes, Failure> {
        let lease = self.token.get(|| Box::pin(self.identity.token())).await?;
        let mut ask = Ask::get(url, PAGE_BYTES_MAX);
        let value = bearer(&lease.value)?;
        ask.headers.insert(AUTHORIZATION, value);
        let json = HeaderValue::from_static("application/json");
        ask.headers.insert(ACCEPT, json);
        let answer = self.client.ask(ask).await?;
        match answer.status {
            StatusCode::OK => Ok(answer.body),
            status => {
                if status == StatusCode::UNAUTHORIZED {
                    self.token.forget(&lease).await;
                }
                Err(answer.failure(what, parse_error(&answer.body)))
            }
        }
    }
}

/// One page of a list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Page<T> {
    /// Its entries.
    pub value: Vec<T>,
    /// Where the next page is; empty: there is none.
    #[serde(default, deserialize_with = "or_default")]
    pub next_link: String,
}

/// Reads a page of what `what` names.
///
/// # Errors
/// When it is none.
pub fn parse_page<T: DeserializeOwned>(what: &str, body: &[u8]) -> Result<Page<T>, Failure> {
    serde_json::from_slice(body).map_err(|error| not_understood(what, &error))
}

/// The URL of the next page, if it is of the host of the first: the token goes nowhere else.
fn next_url(first: &Url, next: &str) -> Result<Url, Failure> {
    let odd = |shown: &str| {
        let place = masked(first);
        Failure::new(format!("{place}: its next page is elsewhere, {shown}"))
    };
    let url = Url::parse(next).map_err(|_| odd("at what is no URL"))?;
    let is_same = url.scheme() == first.scheme()
        && url.host() == first.host()
        && url.port_or_known_default() == first.port_or_known_default();
    match is_same {
        true => Ok(url),
        false => Err(odd(url.host_str().unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests;
