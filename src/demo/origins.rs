//! The demo's origin servers: two web servers and four metric servers, on free loopback ports.
//!
//! They run on a thread and a runtime of their own, so that a slow or busy origin cannot slow the control core
//! down, just as if they were other machines. Bounds a request body by [`BODY_BYTES_MAX`].

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

use super::api;
use super::series::{Gaps, Group, Store};

const BODY_BYTES_MAX: usize = 1024 * 1024;

/// What one origin is.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Web(&'static str),
    Metrics(Group, Gaps),
}

/// Names of the origins in the configuration, in order.
pub(super) const NAMES: [&str; 6] = [
    "web-1", "web-2", "shard-a1", "shard-a2", "shard-b", "shard-c",
];

const KINDS: [Kind; 6] = [
    Kind::Web("web-1"),
    Kind::Web("web-2"),
    Kind::Metrics(Group::A, Gaps::First),
    Kind::Metrics(Group::A, Gaps::Second),
    Kind::Metrics(Group::B, Gaps::None),
    Kind::Metrics(Group::C, Gaps::None),
];

/// Starts all of them; their addresses in the order of [`NAMES`]. They run until the process ends.
pub(super) fn start() -> io::Result<[SocketAddr; 6]> {
    let mut listeners = Vec::new();
    let mut addresses = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); 6];
    for (address, kind) in addresses.iter_mut().zip(KINDS) {
        let listener = std::net::TcpListener::bind(*address)?;
        listener.set_nonblocking(true)?;
        *address = listener.local_addr()?;
        listeners.push((listener, kind));
    }
    std::thread::Builder::new()
        .name("demo-origins".into())
        .spawn(move || run(listeners))?;
    Ok(addresses)
}

fn run(listeners: Vec<(std::net::TcpListener, Kind)>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(error = %error, "the demo's origins cannot run");
            return;
        }
    };
    let local = tokio::task::LocalSet::new();
    for (listener, kind) in listeners {
        local.spawn_local(async move {
            if let Err(error) = serve(listener, kind).await {
                tracing::error!(error = %error, "a demo origin ended");
            }
        });
    }
    runtime.block_on(local);
}

async fn serve(listener: std::net::TcpListener, kind: Kind) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let store = match kind {
        Kind::Web(_) => None,
        Kind::Metrics(group, gaps) => Some(Store::new(group, gaps)),
    };
    let origin = Rc::new((kind, store));
    loop {
        let (stream, _) = listener.accept().await?;
        let origin = origin.clone();
        tokio::task::spawn_local(async move {
            let service = service_fn(|request| {
                let origin = origin.clone();
                async move {
                    let (kind, store) = &*origin;
                    Ok::<_, std::convert::Infallible>(match (kind, store) {
                        (Kind::Web(name), _) => web(name, &request),
                        (_, Some(store)) => metrics(store, request).await,
                        (_, None) => plain(StatusCode::NOT_FOUND, String::new()),
                    })
                }
            });
            // A client that breaks off is its own affair.
            let _ = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

type Answer = Response<Full<Bytes>>;

fn web(name: &str, request: &Request<Incoming>) -> Answer {
    plain(StatusCode::OK, format!("{name} {}\n", request.uri().path()))
}

async fn metrics(store: &Store, request: Request<Incoming>) -> Answer {
    let (head, body) = request.into_parts();
    let mut params = form(head.uri.query().unwrap_or_default());
    if head.method == Method::POST {
        match Limited::new(body, BODY_BYTES_MAX).collect().await {
            Ok(body) => {
                let body = body.to_bytes();
                params.extend(form(&String::from_utf8_lossy(&body)));
            }
            Err(_) => return plain(StatusCode::PAYLOAD_TOO_LARGE, "body too large\n".into()),
        }
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = now.map_or(0, |now| i64::try_from(now.as_millis()).unwrap_or(i64::MAX));
    let (status, json) = api::answer(store, &percent_decoded(head.uri.path()), &params, now_ms);
    let mut answer = plain(
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        json.to_string(),
    );
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

fn plain(status: StatusCode, body: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    answer
}

/// Names and values of a query string or a form.
fn form(text: &str) -> Vec<(String, String)> {
    text.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let blank = |text: &str| percent_decoded(&text.replace('+', " "));
            (blank(name), blank(value))
        })
        .collect()
}

fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let hex = |at: usize| {
        let digit = bytes.get(at).copied().map(char::from)?;
        digit.to_digit(16).map(|digit| digit as u8)
    };
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match (byte, hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push(high << 4 | low);
                at += 3;
            }
            _ => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_decoded() {
        let pairs = form("query=sum%28up%29&x=a+b&match%5B%5D=up&&odd=%zz&bare");
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(n, v)| (&**n, &**v)).collect();
        let expected = [
            ("query", "sum(up)"),
            ("x", "a b"),
            ("match[]", "up"),
            ("odd", "%zz"),
            ("bare", ""),
        ];
        assert_eq!(pairs, expected);
    }
}
