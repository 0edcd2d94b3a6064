//! What the providers of clouds share: an inventory lists hosts, most of them somebody else's, behind tokens and
//! pages.
//!
//! A host that cannot be a member is excluded and named, never a failure: an inventory has hosts that nobody has
//! tagged yet. Bounds: [`PAGE_BYTES_MAX`] for a page, [`RESOLVE_MAX`] to get credentials. Contract: autodiscovery
//! page, 6.2 and 12 to 14.

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use ringway_shards::plan::Secret;
use serde::{Deserialize, Deserializer};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::http::{Answer, Ask};
use super::settings::{AddressType, Port, Query};
use super::{Exclusion, Failure, Member, Readiness};

/// Most bytes of a page.
pub const PAGE_BYTES_MAX: usize = 32 << 20;
/// Most bytes of an answer that holds a token.
pub const TOKEN_BYTES_MAX: usize = 64 << 10;
/// Limit of getting credentials, all of it.
pub const RESOLVE_MAX: Duration = Duration::from_secs(15);
/// How long a failure to get credentials counts for all who ask.
pub const FAILURE_KEPT: Duration = Duration::from_secs(5);
/// Life of a token that does not say.
pub const TOKEN_LIFE_DEFAULT: Duration = Duration::from_secs(300);
/// Longest life of a token that is believed.
const TOKEN_LIFE_MAX: Duration = Duration::from_secs(24 * 3600);

// === Hosts ===

/// What an inventory says of one host, before it is known whether it can be a member.
#[derive(Debug)]
pub struct Host<'a> {
    /// What people call it.
    pub name: &'a str,
    /// Its address of the wanted kind.
    pub address: Option<&'a str>,
    /// Value of the label that holds its port.
    pub port: Option<&'a str>,
    /// Value of the label that holds its replica group.
    pub replica_group: Option<&'a str>,
    /// Whether it serves.
    pub ready: Readiness,
    /// Its labels; empty ones are left out.
    pub labels: Vec<(&'a str, &'a str)>,
    /// The labels of the user: prefix, then keys and values.
    pub own_labels: (&'static str, Vec<(&'a str, &'a str)>),
}

impl Host<'_> {
    /// The member that it is.
    ///
    /// # Errors
    /// When it has no such address, or no port.
    pub fn member(&self, query: &Query) -> Result<Member, Exclusion> {
        let excluded = |reason: String| Exclusion {
            name: self.name.into(),
            reason,
        };
        let Some(address) = self.address.filter(|text| !text.is_empty()) else {
            return Err(excluded(no_address(query.address_type)));
        };
        // A name in place of an address would be resolved and dialled, whatever it names.
        let Ok(address) = address.parse::<IpAddr>() else {
            return Err(excluded("what should be its address is none".into()));
        };
        let port = port(self.port, query).map_err(excluded)?;
        let mut member = Member::at(query.scheme(), &address.to_string(), port);
        member.name = self.name.into();
        member.ready = self.ready;
        member.replica_group = self.replica_group.unwrap_or_default().into();
        let (prefix, own) = &self.own_labels;
        for (key, value) in own {
            member.label(&format!("{prefix}{key}"), value);
        }
        for (key, value) in &self.labels {
            member.label(key, value);
        }
        Ok(member)
    }
}

fn no_address(kind: AddressType) -> String {
    let kind = match kind {
        AddressType::Private => "private",
        AddressType::Public => "public",
        AddressType::Ipv6 => "IPv6",
    };
    format!("it has no {kind} address")
}

/// The port of a host: what its label says, else the query's.
fn port(said: Option<&str>, query: &Query) -> Result<u16, String> {
    let label = query.port_label.as_deref().unwrap_or_default();
    match said.map(str::trim).filter(|text| !text.is_empty()) {
        Some(text) => match text.parse::<u16>() {
            Ok(port) if port > 0 => Ok(port),
            // Somebody else's tag may hold anything, also a secret: it is not repeated.
            _ => Err(format!("its {label:?} is no port (1 to 65535)")),
        },
        None => match &query.port {
            Some(Port::Number(port)) => Ok(*port),
            _ => Err(format!("it has no {label:?} that could say its port")),
        },
    }
}

/// Members and exclusions, as hosts are sorted into them.
#[derive(Debug, Default)]
pub struct Sorted {
    /// Those that can be members.
    pub members: Vec<Member>,
    /// Those that cannot.
    pub excluded: Vec<Exclusion>,
}

impl Sorted {
    /// Adds one.
    pub fn add(&mut self, result: Result<Member, Exclusion>) {
        match result {
            Ok(member) => self.members.push(member),
            Err(exclusion) => self.excluded.push(exclusion),
        }
    }

    /// Adds an exclusion.
    pub fn exclude(&mut self, name: &str, reason: impl Into<String>) {
        self.excluded.push(Exclusion {
            name: name.into(),
            reason: reason.into(),
        });
    }
}

/// One segment of the path of a URL.
pub fn segment(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// What follows the last `/`.
pub fn last_segment(text: &str) -> &str {
    text.rsplit_once('/').map_or(text, |(_, last)| last)
}

// === Documents ===

/// Reads `null` as what an absent key means.
///
/// # Errors
/// Those of the value.
pub fn or_default<'de, D, T>(reader: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(reader)?.unwrap_or_default())
}

/// Why a document was not understood: only where, as values in it may be secret.
pub fn not_understood(what: &str, error: &serde_json::Error) -> Failure {
    let (line, column) = (error.line(), error.column());
    Failure::new(format!(
        "{what}: the answer is not understood, line {line} column {column}"
    ))
}

/// The failure of too many pages.
pub fn too_many_pages(what: &str, most: usize) -> Failure {
    Failure::new(format!("{what}: {}", more_pages_than(most)))
}

/// Why a list is given up.
pub fn more_pages_than(most: usize) -> String {
    format!("more than {most} pages; narrow the query or the discoverer")
}

/// `code: message` of `{"error": {"code", "message", "status"}}`; a code of words, else the status.
pub fn parse_error(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Document {
        error: Inner,
    }
    #[derive(Deserialize)]
    struct Inner {
        #[serde(default)]
        code: serde_json::Value,
        #[serde(default, deserialize_with = "or_default")]
        status: String,
        #[serde(default, deserialize_with = "or_default")]
        message: String,
    }
    let Document { error } = serde_json::from_slice(body).ok()?;
    let code = error.code.as_str().unwrap_or(&error.status);
    Some(joined(code, &error.message))
}

/// `first: second`, or the one that is there.
pub fn joined(first: &str, second: &str) -> String {
    match (first, second) {
        ("", said) | (said, "") => said.to_owned(),
        (first, second) => format!("{first}: {second}"),
    }
}

// === Tokens ===

/// Something that was just resolved.
#[derive(Clone, Debug)]
pub struct Fresh<T> {
    /// It.
    pub value: T,
    /// How long it is good for; `None`: until it is refused.
    pub life: Option<Duration>,
}

/// The token of an answer of a token endpoint: `access_token`, and `expires_in` as number or text.
///
/// # Errors
/// When there is none; nothing of the answer is in the failure.
pub fn parse_token(what: &str, body: &[u8]) -> Result<Fresh<Arc<Secret>>, Failure> {
    #[derive(Deserialize)]
    struct Document {
        access_token: String,
        #[serde(default)]
        expires_in: serde_json::Value,
    }
    let document: Document =
        serde_json::from_slice(body).map_err(|error| not_understood(what, &error))?;
    if document.access_token.is_empty() {
        return Err(Failure::new(format!("{what}: an empty token")));
    }
    let seconds = match &document.expires_in {
        serde_json::Value::Number(number) => number.as_u64(),
        serde_json::Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    let life = seconds.map_or(TOKEN_LIFE_DEFAULT, Duration::from_secs);
    Ok(Fresh {
        value: Arc::new(Secret::new(document.access_token)),
        life: Some(life.min(TOKEN_LIFE_MAX)),
    })
}

/// The failure that an answer of a token endpoint is. Only `error` and `error_description` are shown: the rest may
/// repeat what was sent.
pub fn token_refused(what: &str, answer: &Answer) -> Failure {
    #[derive(Deserialize)]
    struct Document {
        #[serde(default, deserialize_with = "or_default")]
        error: String,
        #[serde(default, deserialize_with = "or_default")]
        error_description: String,
    }
    let said = serde_json::from_slice::<Document>(&answer.body)
        .map(|document| joined(&document.error, &document.error_description))
        .unwrap_or_default();
    answer.failure(what, Some(said))
}

/// A POST of a form, for a token.
pub fn form(url: Url, pairs: &[(&str, &str)]) -> Ask {
    let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.extend_pairs(pairs);
    Ask {
        method: Method::POST,
        headers: HeaderMap::from_iter([(CONTENT_TYPE, kind)]),
        body: form.finish().into(),
        ..Ask::get(url, TOKEN_BYTES_MAX)
    }
}

/// `Bearer` and a token, as the value of a header.
///
/// # Errors
/// When the token fits no header.
pub fn bearer(token: &Secret) -> Result<HeaderValue, Failure> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose()))
        .map_err(|_| Failure::new("a token that fits no header"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Credentials that are resolved when needed and kept while they are good.
///
/// Who asks while they are being resolved waits and gets the same. Only successes are kept; a failure counts for
/// [`FAILURE_KEPT`], so that many queries do not ask again at once. What expires is renewed before, and used on
/// until its end when that fails.
#[derive(Debug)]
pub struct Kept<T> {
    early: Duration,
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    held: Option<Held<T>>,
    failed: Option<(Instant, Failure)>,
    serial: u64,
}

#[derive(Debug)]
struct Held<T> {
    value: T,
    renew: Option<Instant>,
    end: Option<Instant>,
}

/// Something kept, and which one it is.
#[derive(Clone, Debug)]
pub struct Lease<T> {
    /// It.
    pub value: T,
    serial: u64,
}

impl<T: Clone> Kept<T> {
    /// Nothing yet; later, what expires is renewed so long before, but not in the first half of its life.
    pub fn new(early: Duration) -> Kept<T> {
        Kept {
            early,
            state: Mutex::new(State {
                held: None,
                failed: None,
                serial: 0,
            }),
        }
    }

    /// What is kept, else what `resolve` gives.
    ///
    /// # Errors
    /// Those of `resolve`, and when it takes longer than [`RESOLVE_MAX`].
    pub async fn get<F>(&self, resolve: impl FnOnce() -> F) -> Result<Lease<T>, Failure>
    where
        F: Future<Output = Result<Fresh<T>, Failure>>,
    {
        self.get_by(Instant::now, resolve).await
    }

    async fn get_by<F>(
        &self,
        clock: impl Fn() -> Instant,
        resolve: impl FnOnce() -> F,
    ) -> Result<Lease<T>, Failure>
    where
        F: Future<Output = Result<Fresh<T>, Failure>>,
    {
        let mut state = self.state.lock().await;
        let now = clock();
        if let Some(lease) = state.lease(|held| held.renew.is_none_or(|renew| now < renew)) {
            return Ok(lease);
        }
        let recent = state.failed.take().filter(|(until, _)| now < *until);
        let failure = match recent {
            Some(recent) => {
                let failure = recent.1.clone();
                state.failed = Some(recent);
                failure
            }
            None => match resolved(resolve()).await {
                Ok(fresh) => return Ok(state.keep(fresh, self.early, clock())),
                Err(failure) => {
                    state.failed = Some((clock() + FAILURE_KEPT, failure.clone()));
                    failure
                }
            },
        };
        let now = clock();
        let lease = state.lease(|held| held.end.is_none_or(|end| now < end));
        lease.ok_or(failure)
    }

    /// Drops what was refused, unless it has been replaced since.
    pub async fn forget(&self, refused: &Lease<T>) {
        let mut state = self.state.lock().await;
        if state.serial == refused.serial {
            state.held = None;
        }
    }
}

impl<T: Clone> State<T> {
    fn lease(&self, is_good: impl Fn(&Held<T>) -> bool) -> Option<Lease<T>> {
        let held = self.held.as_ref().filter(|held| is_good(held))?;
        Some(Lease {
            value: held.value.clone(),
            serial: self.serial,
        })
    }

    fn keep(&mut self, fresh: Fresh<T>, early: Duration, now: Instant) -> Lease<T> {
        self.serial += 1;
        self.held = Some(Held {
            value: fresh.value.clone(),
            renew: fresh.life.map(|life| now + life - early.min(life / 2)),
            end: fresh.life.map(|life| now + life),
        });
        Lease {
            value: fresh.value,
            serial: self.serial,
        }
    }
}

async fn resolved<T>(
    resolve: impl Future<Output = Result<Fresh<T>, Failure>>,
) -> Result<Fresh<T>, Failure> {
    timeout(RESOLVE_MAX, resolve).await.unwrap_or_else(|_| {
        let reason = format!("no credentials within {RESOLVE_MAX:?}");
        Err(Failure::new(reason))
    })
}

#[cfg(test)]
mod tests;
