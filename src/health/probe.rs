//! One probe: dial, ask, compare.
//!
//! Called by `schedule` for each tick and by the admin listener on demand. Each probe has a connection of its
//! own, so that it also finds out whether the origin still accepts any; redirects are not followed. Promises an
//! outcome within the check's timeout. Bounds the body it reads by [`PROBE_BODY_BYTES_MAX`].
//! Contract: health page, 1 and 2.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{Outcome, PROBE_BODY_BYTES_MAX};
use crate::compile::HealthCheck;

/// What ringway calls itself to origins. Contract: decisions, 36.
pub fn user_agent() -> String {
    use std::env::consts::{ARCH, OS};
    format!("ringway/{} ({OS}/{ARCH})", env!("CARGO_PKG_VERSION"))
}

/// An origin's answer to a probe.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body, as far as it was read.
    pub body: Bytes,
    /// Whether the body was longer than what was read.
    pub truncated: bool,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The host name has no address.
    #[error("no address for {0}")]
    Unresolved(Box<str>),
    /// No connection.
    #[error("dial tcp {address}: {source}")]
    Dial {
        /// The last address tried.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// No TLS.
    #[error("tls {host}: {source}")]
    Tls {
        /// The host whose certificate was expected.
        host: Box<str>,
        /// Why.
        source: io::Error,
    },
    /// The check cannot be sent as a request.
    #[error("cannot send: {0}")]
    Request(hyper::http::Error),
    /// The exchange broke.
    #[error("{0}")]
    Exchange(hyper::Error),
    /// Time is up.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
}

/// Asks once and compares.
pub async fn probe(check: &HealthCheck, addresses: &[IpAddr]) -> Outcome {
    match ask(check, addresses).await {
        Ok(answer) => judge(check, &answer),
        Err(error) => Outcome::Failed(format!("error probing target: {error}")),
    }
}

/// Asks once; addresses are tried in order until one accepts.
///
/// # Errors
/// When there is no whole answer within the check's timeout.
pub async fn ask(check: &HealthCheck, addresses: &[IpAddr]) -> Result<Answer, ProbeError> {
    let exchange = async {
        let stream = dial(check, addresses).await?;
        let Some(tls) = &check.tls else {
            return Box::pin(exchange(check, stream)).await;
        };
        let name =
            ServerName::try_from(check.host.to_string()).map_err(|error| ProbeError::Tls {
                host: check.host.clone(),
                source: io::Error::new(io::ErrorKind::InvalidInput, error),
            })?;
        let connector = TlsConnector::from(tls.config());
        let stream = connector
            .connect(name, stream)
            .await
            .map_err(|source| ProbeError::Tls {
                host: check.host.clone(),
                source,
            })?;
        Box::pin(exchange(check, stream)).await
    };
    // Boxed: a probe sleeps in a small task, what it needs is there while it runs.
    tokio::time::timeout(check.timeout, Box::pin(exchange))
        .await
        .unwrap_or(Err(ProbeError::Timeout(check.timeout)))
}

/// Compares an answer with what is expected: code, then headers, then body.
pub fn judge(check: &HealthCheck, answer: &Answer) -> Outcome {
    let code = answer.status.as_u16();
    if !check
        .expected_codes
        .iter()
        .any(|codes| codes.contains(&code))
    {
        let expected: Vec<String> = check
            .expected_codes
            .iter()
            .map(|codes| match codes.start() == codes.end() {
                true => codes.start().to_string(),
                false => format!("{}-{}", codes.start(), codes.end()),
            })
            .collect();
        return Outcome::Failed(format!(
            "required status code mismatch, expected [{}] got {code}",
            expected.join(" ")
        ));
    }
    for (name, expected) in &check.expected_headers {
        let found = answer.headers.get(&**name).map(HeaderValue::as_bytes);
        if found != Some(expected.as_bytes()) {
            let found = found.map_or("none".into(), String::from_utf8_lossy);
            return Outcome::Failed(format!(
                "required response header mismatch for {name:?}, expected {expected:?} got {found:?}"
            ));
        }
    }
    match &check.expected_body {
        Some(_) if answer.truncated => Outcome::Failed(format!(
            "required response body mismatch: longer than {PROBE_BODY_BYTES_MAX} bytes"
        )),
        Some(expected) if *answer.body != *expected.as_bytes() => {
            Outcome::Failed("required response body mismatch".to_owned())
        }
        _ => Outcome::Passed,
    }
}

async fn dial(check: &HealthCheck, addresses: &[IpAddr]) -> Result<TcpStream, ProbeError> {
    let mut failure = ProbeError::Unresolved(check.host.clone());
    for ip in addresses {
        let address = SocketAddr::new(*ip, check.port);
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(source) => failure = ProbeError::Dial { address, source },
        }
    }
    Err(failure)
}

async fn exchange<S>(check: &HealthCheck, stream: S) -> Result<Answer, ProbeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let request = request(check).map_err(ProbeError::Request)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(ProbeError::Exchange)?;
    let asked = async {
        let response = sender.send_request(request).await?;
        let (head, mut body) = response.into_parts();
        let mut collected = Vec::new();
        let mut truncated = false;
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else {
                continue;
            };
            let room = PROBE_BODY_BYTES_MAX - collected.len();
            collected.extend_from_slice(&data[..data.len().min(room)]);
            if data.len() > room {
                truncated = true;
                break;
            }
        }
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            body: collected.into(),
            truncated,
        })
    };
    // The connection moves the bytes; it may end first, when the origin closes behind its answer.
    let (mut asked, mut connection) = (std::pin::pin!(asked), std::pin::pin!(connection));
    let answer: Result<Answer, hyper::Error> = tokio::select! {
        answer = &mut asked => answer,
        _ = &mut connection => asked.await,
    };
    answer.map_err(ProbeError::Exchange)
}

fn request(check: &HealthCheck) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
    let method = Method::from_bytes(check.verb.as_bytes())?;
    let target: Uri = check.target.parse()?;
    let mut request = Request::builder()
        .method(method)
        .uri(target)
        .body(Full::new(Bytes::copy_from_slice(check.body.as_bytes())))?;
    let headers = request.headers_mut();
    headers.insert(HOST, HeaderValue::from_str(&check.authority)?);
    headers.insert(USER_AGENT, HeaderValue::from_str(&user_agent())?);
    for (name, value) in &check.headers {
        let name = HeaderName::from_bytes(name.as_bytes())?;
        headers.insert(name, HeaderValue::from_str(value)?);
    }
    Ok(request)
}

#[cfg(test)]
mod tests;
