//! The admin listeners: HTTP/1.1 by hyper on the control thread.
//!
//! Owns the sockets of the `metrics` and `mgmt` listeners. Each connection is a task that answers from what the
//! control core sends back for a [`Call`]; no request body is read. A reload binds new sockets before anything
//! changes ([`Servers::prepare`]) and swaps afterwards ([`Servers::commit`]); an address that stays keeps its
//! socket and its connections. Bounds: the configured connection limit, at most [`CONNECTIONS_MAX`], the head
//! timeout, and [`ANSWER_MAX`] for an answer of the control core. Contract: config page, 1 and 9; health page, 4.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

use super::{health, metrics};
use crate::compile::{AdminListener, AdminPage, HealthCheck};
use crate::control::reload::Refusal;
use crate::health::page::Page;
use crate::health::schedule::AddressBook;

/// Most connections of one admin listener, where no lower limit is configured.
pub const CONNECTIONS_MAX: u32 = 512;
/// Longest wait for the control core; a reload may take the longest.
pub const ANSWER_MAX: Duration = Duration::from_secs(30);
const _: () = assert!(ANSWER_MAX.as_millis() > crate::control::reload::PREPARE_MAX.as_millis());

/// Pause after an accept that failed, such as for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a connection asks of the control core.
#[derive(Debug)]
pub enum Call {
    /// The health page.
    Health(oneshot::Sender<Page>),
    /// What it takes to probe this backend now.
    Check(Box<str>, oneshot::Sender<Result<CheckNow, NoCheck>>),
    /// The text of a scrape.
    Metrics(oneshot::Sender<String>),
    /// The configuration in force as YAML, secrets masked.
    Config(oneshot::Sender<String>),
    /// Read the configuration again.
    Reload(oneshot::Sender<Result<(), Refusal>>),
}

/// A probe on demand.
#[derive(Debug)]
pub struct CheckNow {
    /// The probe.
    pub check: HealthCheck,
    /// Where host names lead.
    pub book: AddressBook,
    /// The backend's health as a number.
    pub health: i8,
    /// Why it is down.
    pub detail: String,
    /// Held while the probe runs.
    pub slot: OwnedSemaphorePermit,
}

/// Why there is no probe on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoCheck {
    /// No such backend, or it has no probe.
    Unknown,
    /// Too many are running, or the last one was just now.
    Busy,
}

/// The admin listeners in force.
#[derive(Debug)]
pub struct Servers {
    calls: mpsc::Sender<Call>,
    running: BTreeMap<&'static str, Server>,
}

#[derive(Debug)]
struct Server {
    /// As configured, port 0 included.
    configured: SocketAddr,
    bound: SocketAddr,
    settings: watch::Sender<Arc<AdminListener>>,
    /// Dropped to stop accepting.
    _open: oneshot::Sender<()>,
}

/// Listeners bound for a configuration that is not in force yet.
#[derive(Debug)]
pub struct Prepared {
    wanted: Vec<AdminListener>,
    bound: BTreeMap<&'static str, std::net::TcpListener>,
}

impl Servers {
    /// No listeners yet; connections will send their calls to `calls`.
    pub fn new(calls: mpsc::Sender<Call>) -> Self {
        Servers {
            calls,
            running: BTreeMap::new(),
        }
    }

    /// Binds what `wanted` has and is not bound yet.
    ///
    /// # Errors
    /// When an address cannot be bound.
    pub fn prepare(&self, wanted: &[AdminListener]) -> Result<Prepared, Refusal> {
        let mut bound = BTreeMap::new();
        for listener in wanted {
            let stays = self
                .running
                .get(listener.name)
                .is_some_and(|server| server.configured == listener.address);
            if stays {
                continue;
            }
            let refused = |error: std::io::Error| Refusal::AdminListener {
                name: listener.name,
                address: listener.address,
                cause: error.to_string(),
            };
            let socket = std::net::TcpListener::bind(listener.address).map_err(refused)?;
            socket.set_nonblocking(true).map_err(refused)?;
            bound.insert(listener.name, socket);
        }
        Ok(Prepared {
            wanted: wanted.to_vec(),
            bound,
        })
    }

    /// Serves what was prepared and stops the rest. The addresses now served, by listener name.
    pub fn commit(&mut self, mut prepared: Prepared) -> Vec<(&'static str, SocketAddr)> {
        self.running
            .retain(|name, _| prepared.wanted.iter().any(|wanted| wanted.name == *name));
        let mut served = Vec::new();
        for wanted in prepared.wanted {
            let name = wanted.name;
            let settings = Arc::new(wanted);
            match prepared.bound.remove(name).map(TcpListener::from_std) {
                Some(Ok(socket)) => {
                    let server = Server::start(socket, settings, &self.calls);
                    served.push((name, server.bound));
                    self.running.insert(name, server);
                }
                Some(Err(error)) => {
                    tracing::error!(listener = name, error = %error, "admin listener lost");
                }
                None => {
                    if let Some(server) = self.running.get(name) {
                        server.settings.send_replace(settings);
                        served.push((name, server.bound));
                    }
                }
            }
        }
        served
    }
}

impl Server {
    fn start(
        socket: TcpListener,
        settings: Arc<AdminListener>,
        calls: &mpsc::Sender<Call>,
    ) -> Self {
        let configured = settings.address;
        let bound = socket.local_addr().unwrap_or(configured);
        let (settings, watcher) = watch::channel(settings);
        let (open, closed) = oneshot::channel();
        tokio::spawn(accept(socket, watcher, calls.clone(), closed));
        Server {
            configured,
            bound,
            settings,
            _open: open,
        }
    }
}

async fn accept(
    socket: TcpListener,
    settings: watch::Receiver<Arc<AdminListener>>,
    calls: mpsc::Sender<Call>,
    mut closed: oneshot::Receiver<()>,
) {
    let limit = settings.borrow().connections_limit;
    let permits = limit.unwrap_or(CONNECTIONS_MAX).clamp(1, CONNECTIONS_MAX);
    let permits = Arc::new(Semaphore::new(permits as usize));
    loop {
        // Over the limit nobody is accepted: clients wait in the kernel's queue.
        let Ok(permit) = permits.clone().acquire_owned().await else {
            return;
        };
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            _ = &mut closed => return,
        };
        match accepted {
            Ok((stream, _)) => {
                let (settings, calls) = (settings.clone(), calls.clone());
                tokio::spawn(async move {
                    serve(stream, settings, calls).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::debug!(error = %error, "accept failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(
    stream: TcpStream,
    settings: watch::Receiver<Arc<AdminListener>>,
    calls: mpsc::Sender<Call>,
) {
    let head_timeout = settings.borrow().read_header_timeout;
    let service = service_fn(|request: Request<Incoming>| {
        let listener = settings.borrow().clone();
        let calls = calls.clone();
        async move { Ok::<_, std::convert::Infallible>(answer(&listener, &calls, &request).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!(error = %error, "admin connection failed");
    }
}

pub(super) type Answer = Response<Full<Bytes>>;

/// The route of a path: an exact one, or a health path with a backend's name behind it.
fn route<'a>(listener: &AdminListener, path: &'a str) -> Option<(AdminPage, Option<&'a str>)> {
    for route in &listener.routes {
        if path == route.path {
            return Some((route.page, None));
        }
        let below = path
            .strip_prefix(route.path.as_str())
            .and_then(|rest| rest.strip_prefix('/'));
        match below {
            Some(name) if route.page == AdminPage::Health && !name.is_empty() => {
                return Some((route.page, Some(name)));
            }
            _ => {}
        }
    }
    None
}

async fn answer(
    listener: &AdminListener,
    calls: &mpsc::Sender<Call>,
    request: &Request<Incoming>,
) -> Answer {
    let Some((page, name)) = route(listener, request.uri().path()) else {
        return text(StatusCode::NOT_FOUND, "not found\n");
    };
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let is_reload = page == AdminPage::Reload && *request.method() == Method::POST;
    if !is_read && !is_reload {
        let allowed = match page {
            AdminPage::Reload => "GET, HEAD, POST",
            _ => "GET, HEAD",
        };
        let answer = text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n");
        return with(answer, ALLOW, allowed);
    }
    // HEAD asks what GET would answer, and must not act.
    if page == AdminPage::Reload && *request.method() == Method::HEAD {
        return text(StatusCode::OK, "");
    }
    match (page, name) {
        (AdminPage::Ping, _) => with(text(StatusCode::OK, "pong"), CACHE_CONTROL, "no-cache"),
        (AdminPage::Metrics, _) => match ask(calls, Call::Metrics).await {
            Some(body) => with(
                text(StatusCode::OK, body),
                CONTENT_TYPE,
                metrics::CONTENT_TYPE,
            ),
            None => unavailable(),
        },
        (AdminPage::Config, _) => match ask(calls, Call::Config).await {
            Some(body) => with(text(StatusCode::OK, body), CONTENT_TYPE, "text/yaml"),
            None => unavailable(),
        },
        (AdminPage::Reload, _) => match ask(calls, Call::Reload).await {
            Some(result) => reloaded(result),
            None => unavailable(),
        },
        (AdminPage::Health, None) => match ask(calls, Call::Health).await {
            Some(page) => health::page(&page, request),
            None => unavailable(),
        },
        (AdminPage::Health, Some(name)) => {
            let name: Box<str> = name.into();
            match ask(calls, |reply| Call::Check(name, reply)).await {
                Some(check) => health::probe(check).await,
                None => unavailable(),
            }
        }
    }
}

/// Asks the control core; `None` when it does not answer in time.
async fn ask<T>(
    calls: &mpsc::Sender<Call>,
    call: impl FnOnce(oneshot::Sender<T>) -> Call,
) -> Option<T> {
    let (reply, answer) = oneshot::channel();
    calls.send(call(reply)).await.ok()?;
    tokio::time::timeout(ANSWER_MAX, answer).await.ok()?.ok()
}

fn reloaded(result: Result<(), Refusal>) -> Answer {
    match result {
        Ok(()) => text(StatusCode::OK, "configuration reloaded\n"),
        Err(refusal) => {
            let status = match &refusal {
                Refusal::RateLimited(_) => StatusCode::TOO_MANY_REQUESTS,
                Refusal::Busy | Refusal::Stopping => StatusCode::SERVICE_UNAVAILABLE,
                Refusal::Invalid(_) => StatusCode::UNPROCESSABLE_ENTITY,
                Refusal::NotPrepared(_)
                | Refusal::TimedOut(_)
                | Refusal::AdminListener { .. }
                | Refusal::Log(_) => StatusCode::INTERNAL_SERVER_ERROR,
            };
            let reasons = match &refusal {
                Refusal::Invalid(problems) => problems.join("\n"),
                other => other.to_string(),
            };
            text(status, format!("configuration NOT reloaded\n{reasons}\n"))
        }
    }
}

fn unavailable() -> Answer {
    text(StatusCode::SERVICE_UNAVAILABLE, "no answer in time\n")
}

/// An answer of this text.
pub(super) fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    with(answer, CONTENT_TYPE, "text/plain; charset=utf-8")
}

/// A value that is no header value is left out: details of failures may hold anything.
pub(super) fn with(mut answer: Answer, name: HeaderName, value: &str) -> Answer {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
    answer
}
