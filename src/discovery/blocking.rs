//! Blocking queries, as Consul and Nomad have them: the server holds a request until its answer changes.
//!
//! [`Cursor`] knows the protocol, without a clock and without I/O; [`Watch`] is the source that follows it. What
//! is asked and how answers are read is the provider's. Contract: autodiscovery page, 11.1.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use reqwest::{StatusCode, Url};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::http::{Ask, Client, masked};
use super::{Again, Failure, Member, Next, Reading, Source};
use crate::config::origin_url::check_host_name;

/// Least time between the starts of two requests, whatever the server answers.
pub const PACE: Duration = Duration::from_millis(100);
/// Least limit of a request that the server does not hold, if the configured one is not shorter.
const PLAIN_LIMIT_MIN: Duration = Duration::from_secs(10);
/// Most bytes of an answer.
const BODY_BYTES_MAX: usize = 32 << 20;

// === Cursor ===

/// Where the conversation with a server stands.
#[derive(Clone, Debug)]
pub struct Cursor {
    /// Index of the answer that was read last; 0: none, the next request is a plain read.
    index: u64,
    wait: Duration,
    interval: Duration,
    started: Option<Instant>,
}

impl Cursor {
    /// Nothing read yet. The server is to hold requests for `wait`; a server without indexes is asked each `interval`.
    pub fn new(wait: Duration, interval: Duration) -> Cursor {
        Cursor {
            index: 0,
            wait,
            interval,
            started: None,
        }
    }

    /// Values of the parameters `index` and `wait` of the next request; `None`: it has neither.
    pub fn parameters(&self) -> Option<(String, String)> {
        (self.index > 0).then(|| (self.index.to_string(), wait_text(self.wait)))
    }

    /// Limit of the next request. One that the server does not hold gets only what `timeout` is beyond the wait, so
    /// that a server that does not answer is noticed long before a wait is over.
    pub fn limit(&self, timeout: Duration) -> Duration {
        match self.index {
            0 => timeout
                .saturating_sub(self.wait)
                .max(PLAIN_LIMIT_MIN)
                .min(timeout),
            _ => timeout,
        }
    }

    /// How long the next request has to wait before it may start.
    pub fn pause(&self, now: Instant) -> Duration {
        match self.started {
            Some(started) => PACE.saturating_sub(now.saturating_duration_since(started)),
            None => Duration::ZERO,
        }
    }

    /// A request starts.
    pub fn started(&mut self, now: Instant) {
        self.started = Some(now);
    }

    /// Whether an answer with this index says the same as the one before: its wait is over.
    pub fn stands_still(&self, index: u64) -> bool {
        index > 0 && index == self.index
    }

    /// An answer with this index was read, and is a reading.
    pub fn accepted(&mut self, index: u64) -> Again {
        // Going back means that the server's state began anew: the old index would wait for a future that may
        // never come.
        self.index = match index < self.index {
            true => 0,
            false => index,
        };
        match index {
            0 => Again::After(self.interval),
            _ => Again::Now,
        }
    }

    /// A request failed, or its answer could not be read: the next one reads everything.
    pub fn failed(&mut self) {
        self.index = 0;
    }
}

/// An index as its header has it; 0 where it is none.
pub fn index(value: Option<&[u8]>) -> u64 {
    value
        .and_then(|bytes| std::str::from_utf8(bytes).ok())
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

/// A wait as the servers read it: whole minutes, else whole seconds.
pub fn wait_text(wait: Duration) -> String {
    let seconds = wait.as_secs();
    match seconds > 0 && seconds.is_multiple_of(60) {
        true => format!("{}m", seconds / 60),
        false => format!("{seconds}s"),
    }
}

// === Unchanged ===

/// What the entries of the last answer came to: most of them are in the next one to the letter, and reading a large
/// answer is most of what a change of one member costs.
#[derive(Debug, Default)]
pub struct Unchanged {
    /// By what is written: which answer had it last, and what it came to.
    known: HashMap<Box<[u8]>, (u64, Option<Member>)>,
    /// Counts answers.
    answers: u64,
}

impl Unchanged {
    /// The members of an answer that is a JSON list; `read` makes one of an entry that was not in the last, or says
    /// that it is not asked for.
    ///
    /// # Errors
    /// When it is no such list, or one of its entries cannot be a member.
    pub fn members(
        &mut self,
        body: &[u8],
        read: impl FnMut(&[u8]) -> Result<Option<Member>, String>,
    ) -> Result<Vec<Member>, String> {
        self.answers += 1;
        let members = self.read(body, read);
        // Also where one cannot be read: what is kept is of one answer, and so bounded as that is.
        self.known.retain(|_, (answer, _)| *answer == self.answers);
        members
    }

    fn read(
        &mut self,
        body: &[u8],
        mut read: impl FnMut(&[u8]) -> Result<Option<Member>, String>,
    ) -> Result<Vec<Member>, String> {
        let mut members = Vec::with_capacity(self.known.len());
        for entry in entries(body)? {
            if let Some((answer, member)) = self.known.get_mut(entry) {
                *answer = self.answers;
                members.extend(member.clone());
                continue;
            }
            let member = read(entry)?;
            members.extend(member.clone());
            self.known.insert(entry.into(), (self.answers, member));
        }
        Ok(members)
    }
}

/// The entries of a JSON list, as they are written.
fn entries(body: &[u8]) -> Result<Vec<&[u8]>, String> {
    let broken = |what: &str| format!("not a list of instances: {what}");
    let mut rest = body.trim_ascii();
    rest = rest.strip_prefix(b"[").ok_or_else(|| broken("no list"))?;
    rest = rest.trim_ascii_start();
    let mut found = Vec::new();
    if rest == b"]" {
        return Ok(found);
    }
    loop {
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<IgnoredAny>();
        match values.next() {
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(broken(&error.to_string())),
            None => return Err(broken("it breaks off")),
        }
        let (entry, after) = rest.split_at(values.byte_offset());
        found.push(entry.trim_ascii());
        let after = after.trim_ascii_start();
        match after.split_first() {
            Some((b',', after)) => rest = after.trim_ascii_start(),
            Some((b']', [])) => return Ok(found),
            _ => return Err(broken("neither a comma nor its end after an entry")),
        }
    }
}

// === Watch ===

/// Reads the body of an answer.
pub type Read = Box<dyn FnMut(&[u8]) -> Result<Vec<Member>, String> + Send>;

/// The source of all queries that a server can hold.
pub struct Watch {
    /// Asks.
    pub client: Client,
    /// What is asked, without index and wait.
    pub url: Url,
    /// Header of answers that holds the index.
    pub index_header: &'static str,
    /// Where it stands.
    pub cursor: Cursor,
    /// Makes members of answers.
    pub read: Read,
}

impl Watch {
    async fn round(&mut self) -> Result<Reading, Failure> {
        tokio::time::sleep(self.cursor.pause(Instant::now())).await;
        self.cursor.started(Instant::now());
        let mut url = self.url.clone();
        if let Some((index, wait)) = self.cursor.parameters() {
            url.query_pairs_mut()
                .append_pair("index", &index)
                .append_pair("wait", &wait);
        }
        let place = masked(&url);
        let limit = self.cursor.limit(self.client.settings().timeout);
        let asking = self.client.ask(Ask::get(url, BODY_BYTES_MAX));
        let answer = tokio::time::timeout(limit, asking)
            .await
            .map_err(|_| Failure::new(format!("{place}: no answer within {limit:?}")))??;
        if answer.status != StatusCode::OK {
            return Err(answer.failure(&place, None));
        }
        let header = answer.headers.get(self.index_header);
        let index = index(header.map(|value| value.as_bytes()));
        if self.cursor.stands_still(index) {
            return Ok(Reading {
                members: None,
                excluded: Vec::new(),
                again: Again::Now,
            });
        }
        let members = (self.read)(&answer.body)
            .map_err(|reason| Failure::new(format!("{place}: {reason}")))?;
        Ok(Reading {
            members: Some(members),
            excluded: Vec::new(),
            again: self.cursor.accepted(index),
        })
    }
}

impl Source for Watch {
    fn next(&mut self) -> Next<'_> {
        Box::pin(async {
            let result = self.round().await;
            if result.is_err() {
                self.cursor.failed();
            }
            result
        })
    }
}

// === what both read ===

/// A field that may be null, which counts as absent.
///
/// # Errors
/// When it is there and of another type.
pub fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Checks what an instance says of its address.
///
/// # Errors
/// What is wrong with it, in words.
pub fn check_address(host: &str, port: i64) -> Result<u16, String> {
    if host.is_empty() {
        return Err("it has no address".into());
    }
    if host.parse::<IpAddr>().is_err() {
        check_host_name(host).map_err(|reason| format!("its address {host:?}: {reason}"))?;
    }
    match u16::try_from(port) {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(format!("its port {port} is outside 1 to 65535")),
    }
}

/// Tags as a label has them: `,a,b,`; none is nothing.
pub fn tags_label(tags: &[Box<str>]) -> String {
    match tags {
        [] => String::new(),
        tags => format!(",{},", tags.join(",")),
    }
}

#[cfg(test)]
mod tests;
