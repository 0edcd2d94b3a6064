//! A stand-in for a Kubernetes API server, for tests: plain HTTP on a free port of 127.0.0.1.
//!
//! It keeps objects by collection (the path they are listed at) under one growing resourceVersion, with a log of all
//! changes, and answers list (selectors, `limit` and `continue`) and watch (replay, bookmarks, `timeoutSeconds`) as
//! a real one does. [`Faults`] make it refuse, garble, cut and fall silent. Everything it was asked is noted. Knows
//! nothing of the program under test. The tests at the wire include this file as well, so it names nothing of ours.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

/// How long [`ApiSim::until`] waits at most.
const PATIENCE: Duration = Duration::from_secs(30);

/// The server.
pub(crate) struct ApiSim {
    address: SocketAddr,
    store: Arc<watch::Sender<Store>>,
    server: Option<JoinHandle<()>>,
}

/// What goes wrong.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    /// Token that requests must have.
    pub(crate) token: Option<String>,
    /// Lists that are refused.
    pub(crate) list: Option<Refusal>,
    /// Watches that are refused.
    pub(crate) watch: Option<Refusal>,
    /// Body of lists in place of the right one.
    pub(crate) list_body: Option<String>,
    /// Whether bodies of lists break off half way.
    pub(crate) half: bool,
    /// Most objects in a page, whatever the client says.
    pub(crate) page_max: Option<usize>,
    /// Forgets all versions and continue tokens after the next first page.
    pub(crate) compacts_after_page: bool,
    /// Whether requests are read and never answered.
    pub(crate) deaf: bool,
    /// Whether streams send nothing and never end.
    pub(crate) silent: bool,
    /// Whether a version that is too old is an HTTP 410, in place of an ERROR frame.
    pub(crate) gone_as_status: bool,
}

/// Refuses some requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<u64>,
    /// How many.
    pub(crate) times: usize,
}

impl Refusal {
    /// Refuses so many requests with a status.
    pub(crate) fn with(status: u16, times: usize) -> Refusal {
        Refusal {
            status,
            retry_after: None,
            times,
        }
    }
}

/// A request that came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) authorization: Option<String>,
    pub(crate) user_agent: Option<String>,
}

impl Seen {
    /// Whether it asks for a stream.
    pub(crate) fn is_watch(&self) -> bool {
        matches!(
            self.query.get("watch").map(String::as_str),
            Some("1" | "true")
        )
    }

    /// A parameter, empty when it is absent.
    pub(crate) fn parameter(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str)
    }
}

/// What the server knows.
#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) seen: Vec<Seen>,
    /// Streams that are open.
    pub(crate) open: usize,
    pub(crate) faults: Faults,
    version: u64,
    /// Changes up to this version are forgotten.
    compacted: u64,
    objects: BTreeMap<(String, String), Value>,
    log: Vec<Change>,
    pages: BTreeMap<String, Vec<Value>>,
    /// Raw text for all open streams.
    raw: Vec<String>,
    /// How often all streams were cut.
    cuts: u64,
    /// How often all streams were ended.
    ends: u64,
}

impl Store {
    /// How many lists and watches of a collection came. Further pages are not counted.
    pub(crate) fn asked(&self, collection: &str) -> (usize, usize) {
        let of = || self.seen.iter().filter(|seen| seen.path == collection);
        let lists = of().filter(|seen| !seen.is_watch() && seen.parameter("continue").is_empty());
        (lists.count(), of().filter(|seen| seen.is_watch()).count())
    }

    fn refuses(&mut self, is_watch: bool) -> Option<Refusal> {
        let slot = match is_watch {
            true => &mut self.faults.watch,
            false => &mut self.faults.list,
        };
        let refusal = slot.as_mut()?;
        if refusal.times == 0 {
            return None;
        }
        refusal.times -= 1;
        Some(*refusal)
    }
}

#[derive(Debug)]
struct Change {
    version: u64,
    collection: String,
    before: Option<Value>,
    after: Option<Value>,
}

impl ApiSim {
    /// A server with nothing in it, on a free port.
    pub(crate) async fn start() -> ApiSim {
        ApiSim::start_at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await
    }

    /// A server with nothing in it.
    pub(crate) async fn start_at(address: SocketAddr) -> ApiSim {
        let store = Store {
            version: 100,
            ..Store::default()
        };
        let mut sim = ApiSim {
            address,
            store: Arc::new(watch::channel(store).0),
            server: None,
        };
        sim.listen().await;
        sim
    }

    /// Listens, again at the same port after [`stop`](Self::stop).
    pub(crate) async fn listen(&mut self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.address = listener.local_addr().unwrap();
        let store = Arc::clone(&self.store);
        self.server = Some(tokio::spawn(accept(listener, store)));
    }

    /// Closes the port and all connections; what is stored stays.
    pub(crate) async fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.abort();
            let _ = server.await;
        }
        self.store.send_modify(|store| store.open = 0);
    }

    /// A kubeconfig for this server. `user` is JSON.
    pub(crate) fn kubeconfig(&self, namespace: Option<&str>, user: &Value) -> String {
        let mut context = json!({"cluster": "sim", "user": "me"});
        if let Some(namespace) = namespace {
            context["namespace"] = namespace.into();
        }
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{"name": "sim", "cluster": {"server": format!("http://{}", self.address)}}],
            "contexts": [{"name": "here", "context": context}],
            "users": [{"name": "me", "user": user}],
        })
        .to_string()
    }

    /// Creates or replaces an object.
    pub(crate) fn put(&self, collection: &str, mut object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        self.store.send_modify(|store| {
            store.version += 1;
            let version = store.version;
            let key = (collection.to_owned(), name.clone());
            let before = store.objects.get(&key).cloned();
            let uid = match &before {
                Some(before) => before["metadata"]["uid"].clone(),
                None => format!("uid-{version}").into(),
            };
            let meta = &mut object["metadata"];
            if meta["uid"].is_null() {
                meta["uid"] = uid;
            }
            meta["namespace"] = collection.split('/').rev().nth(1).unwrap().into();
            meta["resourceVersion"] = version.to_string().into();
            meta["creationTimestamp"] = "2026-01-02T03:04:05Z".into();
            meta["managedFields"] = json!([{"manager": "sim", "operation": "Update"}]);
            store.objects.insert(key, object.clone());
            store.log.push(Change {
                version,
                collection: collection.to_owned(),
                before,
                after: Some(object),
            });
        });
    }

    /// Deletes an object.
    pub(crate) fn delete(&self, collection: &str, name: &str) {
        self.store.send_modify(|store| {
            let key = (collection.to_owned(), name.to_owned());
            let before = store.objects.remove(&key).unwrap();
            store.version += 1;
            store.log.push(Change {
                version: store.version,
                collection: collection.to_owned(),
                before: Some(before),
                after: None,
            });
        });
    }

    /// Forgets all changes so far, and the rests of lists.
    pub(crate) fn compact(&self) {
        self.store.send_modify(Store::compact);
    }

    /// Lets the version grow without any change of an object.
    pub(crate) fn advance(&self) {
        self.store.send_modify(|store| store.version += 1);
    }

    /// Sends a line to all open streams.
    pub(crate) fn send_raw(&self, line: &str) {
        let line = format!("{line}\n");
        self.store.send_modify(|store| store.raw.push(line));
    }

    /// Breaks off all open streams within a frame.
    pub(crate) fn cut(&self) {
        self.store.send_modify(|store| store.cuts += 1);
    }

    /// Ends all open streams as after `timeoutSeconds`, with a bookmark.
    pub(crate) fn end_streams(&self) {
        self.store.send_modify(|store| store.ends += 1);
    }

    /// Changes what goes wrong.
    pub(crate) fn faults(&self, change: impl FnOnce(&mut Faults)) {
        self.store.send_modify(|store| change(&mut store.faults));
    }

    /// Reads what the server knows.
    pub(crate) fn look<T>(&self, read: impl FnOnce(&Store) -> T) -> T {
        read(&self.store.borrow())
    }

    /// Waits until the server knows something.
    pub(crate) async fn until(&self, what: &str, is_so: impl FnMut(&Store) -> bool) {
        let mut store = self.store.subscribe();
        let waited = tokio::time::timeout(PATIENCE, store.wait_for(is_so)).await;
        assert!(waited.is_ok(), "not so in time: {what}");
    }
}

impl Drop for ApiSim {
    fn drop(&mut self) {
        if let Some(server) = &self.server {
            server.abort();
        }
    }
}

impl Store {
    fn compact(&mut self) {
        self.compacted = self.version;
        self.pages.clear();
    }
}

async fn accept(listener: TcpListener, store: Arc<watch::Sender<Store>>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let store = Arc::clone(&store);
        connections.spawn(async move {
            let service = service_fn(move |request| answer(request, Arc::clone(&store)));
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

type Reply = Response<Either<Full<Bytes>, Stream>>;

async fn answer(
    request: Request<Incoming>,
    store: Arc<watch::Sender<Store>>,
) -> Result<Reply, Infallible> {
    let header = |name| {
        let value = request.headers().get(name)?;
        Some(value.to_str().ok()?.to_owned())
    };
    let seen = Seen {
        path: request.uri().path().to_owned(),
        query: pairs(request.uri().query().unwrap_or_default()),
        authorization: header(AUTHORIZATION),
        user_agent: header(USER_AGENT),
    };
    let mut refusal = None;
    store.send_modify(|store| {
        store.seen.push(seen.clone());
        if seen.path != "/version" {
            refusal = store.refuses(seen.is_watch());
        }
    });
    let faults = store.borrow().faults.clone();
    if faults.deaf {
        std::future::pending::<()>().await;
    }
    let wanted = faults.token.map(|token| format!("Bearer {token}"));
    Ok(match refusal {
        Some(refusal) => {
            let mut reply = status(refusal.status, "refused for a test", None);
            if let Some(seconds) = refusal.retry_after {
                reply.headers_mut().insert(RETRY_AFTER, seconds.into());
            }
            reply
        }
        None if seen.path == "/version" => page(&json!({
            "major": "1", "minor": "33", "gitVersion": "v1.33.0", "platform": "linux/amd64",
        })),
        None if wanted.is_some() && wanted != seen.authorization => {
            status(401, "Unauthorized", None)
        }
        None if kind_of(&seen.path).is_none() => {
            status(404, "the server has no such resource", None)
        }
        None => match Selector::of(&seen) {
            None => status(400, "unable to parse the selector", None),
            Some(selector) if seen.is_watch() => start_watch(&seen, selector, store),
            Some(selector) => list(&seen, &selector, &store),
        },
    })
}

// === list ===

fn list(seen: &Seen, selector: &Selector, store: &watch::Sender<Store>) -> Reply {
    let mut reply = None;
    store.send_modify(|store| reply = Some(list_of(seen, selector, store)));
    reply.unwrap()
}

fn list_of(seen: &Seen, selector: &Selector, store: &mut Store) -> Reply {
    if let Some(body) = &store.faults.list_body {
        return text(200, body.clone());
    }
    let least = seen.parameter("resourceVersion").parse().unwrap_or(0);
    if least > store.version {
        return status(504, "Too large resource version", None);
    }
    let token = seen.parameter("continue");
    let all = match token {
        "" => store
            .objects
            .iter()
            .filter(|((collection, _), object)| *collection == seen.path && selector.fits(object))
            .map(|(_, object)| object.clone())
            .collect(),
        token => match store.pages.get(token) {
            Some(rest) => rest.clone(),
            None => {
                return status(
                    410,
                    "The provided continue parameter is too old",
                    Some("fresh"),
                );
            }
        },
    };
    let asked = seen.parameter("limit").parse().unwrap_or(usize::MAX);
    let limit = asked.min(store.faults.page_max.unwrap_or(usize::MAX));
    let rest = all.get(limit..).unwrap_or_default().to_vec();
    let items: Vec<_> = all.into_iter().take(limit).collect();
    let mut meta = json!({"resourceVersion": store.version.to_string()});
    if !rest.is_empty() {
        let token = format!("{}-{}", store.version, store.pages.len());
        meta["continue"] = token.clone().into();
        meta["remainingItemCount"] = rest.len().into();
        store.pages.insert(token, rest);
        if std::mem::take(&mut store.faults.compacts_after_page) {
            store.compact();
        }
    }
    let (kind, version) = kind_of(&seen.path).unwrap();
    let body = json!({
        "kind": format!("{kind}List"), "apiVersion": version, "metadata": meta, "items": items,
    });
    match store.faults.half {
        true => half(&body),
        false => page(&body),
    }
}

fn page(body: &Value) -> Reply {
    text(200, body.to_string())
}

fn text(code: u16, body: String) -> Reply {
    Response::builder()
        .status(code)
        .header(CONTENT_TYPE, "application/json")
        .body(Either::Left(Full::new(body.into())))
        .unwrap()
}

/// The first half of a body, after which the connection breaks.
fn half(body: &Value) -> Reply {
    let text = body.to_string();
    let (sender, stream) = stream();
    tokio::spawn(async move {
        let _ = sender
            .send(Ok(text[..text.len() / 2].to_owned().into()))
            .await;
        let _ = sender.send(Err(io::Error::other("cut"))).await;
    });
    Response::new(Either::Right(stream))
}

fn status(code: u16, message: &str, token: Option<&str>) -> Reply {
    text(code, status_document(code, message, token).to_string())
}

fn status_document(code: u16, message: &str, token: Option<&str>) -> Value {
    let reason = match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        410 => "Expired",
        429 => "TooManyRequests",
        504 => "Timeout",
        _ => "InternalError",
    };
    let mut meta = json!({});
    if let Some(token) = token {
        meta["continue"] = token.into();
    }
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": meta, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    })
}

// === watch ===

fn start_watch(seen: &Seen, selector: Selector, store: Arc<watch::Sender<Store>>) -> Reply {
    let from: u64 = seen.parameter("resourceVersion").parse().unwrap_or(0);
    let (compacted, gone_as_status) = {
        let store = store.borrow();
        (store.compacted, store.faults.gone_as_status)
    };
    if from < compacted && gone_as_status {
        return status(410, "too old resource version", None);
    }
    let (sender, stream) = stream();
    if from < compacted {
        let gone = status_document(410, "too old resource version", None);
        let line = format!("{}\n", json!({"type": "ERROR", "object": gone}));
        let _ = sender.try_send(Ok(line.into()));
        return Response::new(Either::Right(stream));
    }
    let seconds = seen.parameter("timeoutSeconds").parse().unwrap_or(1800);
    let mut feed = Feed {
        collection: seen.path.clone(),
        selector,
        at: from,
        raw: 0,
        cuts_seen: 0,
        ends_seen: 0,
        ends: Instant::now() + Duration::from_secs(seconds),
        has_bookmarks: matches!(seen.parameter("allowWatchBookmarks"), "1" | "true"),
        sender,
    };
    store.send_modify(|store| {
        store.open += 1;
        // Whoever sees it open may cut or end it from now on.
        (feed.raw, feed.cuts_seen, feed.ends_seen) = (store.raw.len(), store.cuts, store.ends);
    });
    tokio::spawn(async move {
        feed.run(&store).await;
        store.send_modify(|store| store.open = store.open.saturating_sub(1));
    });
    Response::new(Either::Right(stream))
}

/// One stream at work.
struct Feed {
    collection: String,
    selector: Selector,
    /// Version up to which everything was sent.
    at: u64,
    /// How many lines of raw text were sent, or came before it.
    raw: usize,
    cuts_seen: u64,
    ends_seen: u64,
    ends: Instant,
    has_bookmarks: bool,
    sender: mpsc::Sender<Result<Bytes, io::Error>>,
}

impl Feed {
    async fn run(mut self, store: &watch::Sender<Store>) {
        let mut news = store.subscribe();
        loop {
            let (mut text, is_cut, is_ended, is_silent) = {
                let store = news.borrow_and_update();
                let mut text = self.frames(&store);
                text.extend(store.raw[self.raw..].iter().cloned());
                self.raw = store.raw.len();
                let is_cut = store.cuts > self.cuts_seen;
                let is_ended = store.ends > self.ends_seen;
                (text, is_cut, is_ended, store.faults.silent)
            };
            if is_silent {
                self.sender.closed().await;
                return;
            }
            if is_cut {
                text.push(r#"{"type":"ADDED","object":{"kind":"EndpointSl"#.to_owned());
            }
            if is_ended {
                text.extend(self.bookmark());
            }
            if !text.is_empty() && self.sender.send(Ok(text.concat().into())).await.is_err() {
                return;
            }
            if is_cut {
                // The half frame shall be on its way first.
                tokio::task::yield_now().await;
                let _ = self.sender.send(Err(io::Error::other("cut"))).await;
            }
            if is_cut || is_ended {
                return;
            }
            tokio::select! {
                _ = news.changed() => {}
                () = self.sender.closed() => return,
                () = tokio::time::sleep_until(self.ends) => {
                    if let Some(line) = self.bookmark() {
                        let _ = self.sender.send(Ok(line.into())).await;
                    }
                    return;
                }
            }
        }
    }

    /// What happened since.
    fn frames(&mut self, store: &Store) -> Vec<String> {
        let from = self.at;
        self.at = store.version.max(from);
        let changes = store.log.iter().filter(|change| change.version > from);
        changes
            .filter(|change| change.collection == self.collection)
            .filter_map(|change| self.frame(change))
            .collect()
    }

    fn frame(&self, change: &Change) -> Option<String> {
        let was = change
            .before
            .as_ref()
            .filter(|object| self.selector.fits(object));
        let is = change
            .after
            .as_ref()
            .filter(|object| self.selector.fits(object));
        let (what, object) = match (was, is) {
            (None, None) => return None,
            (None, Some(object)) => ("ADDED", object),
            (Some(_), Some(object)) => ("MODIFIED", object),
            (Some(object), None) => ("DELETED", object),
        };
        let mut object = object.clone();
        let (kind, version) = kind_of(&self.collection)?;
        object["kind"] = kind.into();
        object["apiVersion"] = version.into();
        object["metadata"]["resourceVersion"] = change.version.to_string().into();
        Some(format!("{}\n", json!({"type": what, "object": object})))
    }

    /// Says how far this stream is, and no further: whoever goes on from there misses nothing.
    fn bookmark(&self) -> Option<String> {
        let (kind, version) = kind_of(&self.collection).filter(|_| self.has_bookmarks)?;
        let object = json!({
            "kind": kind, "apiVersion": version,
            "metadata": {"resourceVersion": self.at.to_string(), "creationTimestamp": null},
        });
        Some(format!(
            "{}\n",
            json!({"type": "BOOKMARK", "object": object})
        ))
    }
}

/// A body that is fed bit by bit.
pub(crate) struct Stream(mpsc::Receiver<Result<Bytes, io::Error>>);

fn stream() -> (mpsc::Sender<Result<Bytes, io::Error>>, Stream) {
    let (sender, receiver) = mpsc::channel(64);
    (sender, Stream(receiver))
}

impl Body for Stream {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let polled = self.0.poll_recv(cx);
        polled.map(|bytes| bytes.map(|bytes| bytes.map(Frame::data)))
    }
}

// === parameters ===

/// Label and field selector of a request, equality only.
#[derive(Clone, Debug)]
struct Selector {
    labels: Vec<(String, String)>,
    name: Option<String>,
}

impl Selector {
    fn of(seen: &Seen) -> Option<Selector> {
        let mut selector = Selector {
            labels: terms(seen.parameter("labelSelector"))?,
            name: None,
        };
        for (field, value) in terms(seen.parameter("fieldSelector"))? {
            if field != "metadata.name" {
                return None;
            }
            selector.name = Some(value);
        }
        Some(selector)
    }

    fn fits(&self, object: &Value) -> bool {
        let meta = &object["metadata"];
        let has = |(key, value): &(String, String)| meta["labels"][key] == value.as_str();
        let is_named = self
            .name
            .as_ref()
            .is_none_or(|name| meta["name"] == name.as_str());
        is_named && self.labels.iter().all(has)
    }
}

fn terms(selector: &str) -> Option<Vec<(String, String)>> {
    selector
        .split(',')
        .filter(|term| !term.is_empty())
        .map(|term| {
            let (key, value) = term.split_once('=')?;
            (!key.is_empty()).then(|| (key.to_owned(), value.to_owned()))
        })
        .collect()
}

/// Kind and API version of the objects at a path.
fn kind_of(collection: &str) -> Option<(&'static str, &'static str)> {
    let base = match collection.rsplit('/').next()? {
        "endpointslices" => ("EndpointSlice", "discovery.k8s.io/v1"),
        "services" => ("Service", "v1"),
        "pods" => ("Pod", "v1"),
        _ => return None,
    };
    let root = match base.1 {
        "v1" => "/api/v1/namespaces/",
        _ => "/apis/discovery.k8s.io/v1/namespaces/",
    };
    collection.starts_with(root).then_some(base)
}

fn pairs(query: &str) -> BTreeMap<String, String> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        })
        .collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut plain = Vec::new();
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'+' => b' ',
            b'%' => {
                let pair = [bytes.next().unwrap_or(b'0'), bytes.next().unwrap_or(b'0')];
                u8::from_str_radix(str::from_utf8(&pair).unwrap_or("3f"), 16).unwrap_or(b'?')
            }
            other => other,
        });
    }
    String::from_utf8_lossy(&plain).into_owned()
}
