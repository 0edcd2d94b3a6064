//! Provider `aws`: EC2 instances or ECS tasks.
//!
//! Asks plain signed requests; `aws-config` finds region and credentials, `aws-sigv4` signs. No service library of
//! AWS is used: that for EC2 takes gigabytes of memory to compile for the one call that is needed. Bounds:
//! [`PAGES_MAX`] pages of a reading. Contract: autodiscovery page, 12.

pub mod credentials;
pub mod ec2;
pub mod ecs;
pub mod sign;

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::HeaderMap;
use reqwest::Method;
use serde::Deserialize;

use super::cloud::{PAGE_BYTES_MAX, joined};
use super::http::{Ask, Client};
use super::settings::{Aws, AwsService, Query};
use super::{Again, Failure, Next, Reading, Source};
use credentials::{Account, Chain};

/// Most pages of a reading.
pub const PAGES_MAX: usize = 100;
/// Codes of answers to credentials that are no longer good.
const REJECTED: [&str; 7] = [
    "AuthFailure",
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "RequestExpired",
    "UnrecognizedClientException",
];

/// One account, region and service of AWS, shared by all its queries.
#[derive(Clone, Debug)]
pub struct Connection {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    settings: Aws,
    client: Client,
    chain: Chain,
    page_size: usize,
}

/// Makes the connection; nothing is asked yet.
///
/// # Errors
/// When the settings of block `http` cannot be used together.
pub fn connect(settings: &Aws) -> Result<Connection, Failure> {
    let page_size = match settings.service {
        AwsService::Ec2 => ec2::PAGE_SIZE,
        AwsService::Ecs => ecs::PAGE_SIZE,
    };
    Ok(Connection {
        inner: Arc::new(Inner {
            settings: settings.clone(),
            client: Client::new(&settings.http)?,
            chain: Chain::new(settings)?,
            page_size,
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
            let sorted = match self.inner.settings.service {
                AwsService::Ec2 => ec2::read(&self.inner, &self.query).await?,
                AwsService::Ecs => ecs::read(&self.inner, &self.query).await?,
            };
            Ok(Reading {
                members: Some(sorted.members),
                excluded: sorted.excluded,
                again: Again::After(self.inner.settings.http.interval),
            })
        })
    }
}

/// One call of a service.
struct Call {
    /// For people.
    what: &'static str,
    /// Name of the service in endpoints and signatures.
    service: &'static str,
    headers: HeaderMap,
    body: Bytes,
}

impl Inner {
    /// Sends a call and returns the body of its answer. Where credentials are refused that were not written into
    /// the configuration, they are resolved again and the call is sent once more.
    async fn send(&self, call: &Call) -> Result<Bytes, Failure> {
        let mut may_resend = !self.chain.is_fixed();
        loop {
            let account = self.chain.account().await?;
            let answer = self.client.ask(self.signed(call, &account)?).await?;
            if answer.status == StatusCode::OK {
                return Ok(answer.body);
            }
            let fault = parse_error(&answer.body);
            let code = fault.as_ref().map_or("", |fault| &fault.code);
            if REJECTED.contains(&code) && std::mem::take(&mut may_resend) {
                self.chain.forget(&account).await;
                continue;
            }
            let said = fault.map(|fault| joined(&fault.code, &fault.message));
            return Err(answer.failure(call.what, said));
        }
    }

    fn signed(&self, call: &Call, account: &Account) -> Result<Ask, Failure> {
        let url = match &*self.settings.http.endpoint {
            "" => super::http::url(&endpoint(call.service, &account.region), "/", &[])?,
            _ => self.client.url("/", &[])?,
        };
        let mut ask = Ask {
            method: Method::POST,
            url,
            headers: call.headers.clone(),
            body: call.body.clone(),
            body_bytes_max: PAGE_BYTES_MAX,
        };
        let place = sign::Scope {
            region: &account.region,
            service: call.service,
        };
        sign::sign(&mut ask, &account.lease.value, place, SystemTime::now())?;
        Ok(ask)
    }
}

/// A service's own endpoint in a region.
fn endpoint(service: &str, region: &str) -> String {
    let suffix = match region.starts_with("cn-") {
        true => "amazonaws.com.cn",
        false => "amazonaws.com",
    };
    format!("https://{service}.{region}.{suffix}")
}

/// What a service says is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Code, such as `AuthFailure`.
    pub code: String,
    /// Text for people; may be empty.
    pub message: String,
}

/// The fault in the body of an answer, in any of the forms that are in use: XML of EC2, XML of the others, JSON.
pub fn parse_error(body: &[u8]) -> Option<Fault> {
    let text = std::str::from_utf8(body).ok()?;
    match text.trim_start().starts_with('<') {
        true => parse_error_xml(text),
        false => parse_error_json(text),
    }
}

fn parse_error_xml(text: &str) -> Option<Fault> {
    #[derive(Deserialize)]
    enum Root {
        Response(Outer),
        ErrorResponse(Outer),
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Outer {
        errors: Option<Errors>,
        error: Option<Inner>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Errors {
        error: Vec<Inner>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Inner {
        code: String,
        #[serde(default)]
        message: String,
    }
    let (Root::Response(outer) | Root::ErrorResponse(outer)) =
        quick_xml::de::from_str(text).ok()?;
    let among = outer.errors.and_then(|list| list.error.into_iter().next());
    let Inner { code, message } = outer.error.or(among)?;
    Some(Fault { code, message })
}

fn parse_error_json(text: &str) -> Option<Fault> {
    #[derive(Deserialize)]
    struct Document {
        #[serde(rename = "__type")]
        kind: String,
        message: Option<String>,
        #[serde(rename = "Message")]
        other_message: Option<String>,
    }
    let document: Document = serde_json::from_str(text).ok()?;
    let code = document.kind.rsplit('#').next().unwrap_or_default();
    Some(Fault {
        code: code.to_owned(),
        message: document
            .message
            .or(document.other_message)
            .unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests;
