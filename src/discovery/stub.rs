//! An HTTP server for the tests of providers: it sees requests, answers as told, and fails as told.
//!
//! Listens on a free port of 127.0.0.1 or on a socket of the test's own folder, and ends when dropped. One task
//! owns the handler, so that a handler may keep state without locks; connections ask that task.

#![allow(dead_code, reason = "the tests of each provider use a part of it")]

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::TokioIo;
use ringway_io::net::tls::{ClientTls, ClientTlsOptions, SystemRoots};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};

use super::settings::{Http, HttpAuth};

/// Bytes of one piece of an endless body.
const FILLER_BYTES: usize = 64 << 10;

/// A request as the handler sees it.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// Method.
    pub(super) method: Method,
    /// Path, as it was sent.
    pub(super) path: String,
    /// Query, as it was sent, without `?`.
    pub(super) query: String,
    /// Headers.
    pub(super) headers: HeaderMap,
    /// Whole body.
    pub(super) body: Bytes,
}

impl Request {
    /// A header as text; absent ones are `None`.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Decoded pairs of the query, in order.
    pub(super) fn pairs(&self) -> Vec<(String, String)> {
        let url = reqwest::Url::parse(&format!("http://stub/?{}", self.query)).unwrap();
        let pairs = url.query_pairs();
        pairs
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
            .collect()
    }

    /// First decoded value of this name in the query.
    pub(super) fn pair(&self, name: &str) -> Option<String> {
        let mut pairs = self.pairs().into_iter();
        pairs.find(|pair| pair.0 == name).map(|pair| pair.1)
    }

    /// Decoded pairs of a form in the body, in order.
    pub(super) fn form(&self) -> Vec<(String, String)> {
        let text = String::from_utf8(self.body.to_vec()).unwrap();
        let form = Request {
            query: text,
            ..self.clone()
        };
        form.pairs()
    }

    /// Path and query, for asserts.
    pub(super) fn target(&self) -> String {
        match self.query.is_empty() {
            true => self.path.clone(),
            false => format!("{}?{}", self.path, self.query),
        }
    }
}

/// What goes wrong with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The answer comes so much later.
    Delay(Duration),
    /// The connection closes before the head.
    Cut,
    /// The head promises the whole body, the connection closes after half of it.
    HalfBody,
    /// A body of so many spaces comes instead, without its length in the head.
    Oversize(usize),
}

/// An answer.
#[derive(Debug)]
pub(super) struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: Content,
    fault: Option<Fault>,
    later: Option<oneshot::Receiver<Reply>>,
}

impl Reply {
    /// This status and body.
    pub(super) fn new(status: u16, body: impl Into<Bytes>) -> Reply {
        Reply {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: Content::Whole(body.into()),
            fault: None,
            later: None,
        }
    }

    /// 200 with this body.
    pub(super) fn ok(body: impl Into<Bytes>) -> Reply {
        Reply::new(200, body)
    }

    /// An answer that comes when the test sends it; it never comes, and the connection is cut, when the sender is
    /// dropped.
    pub(super) fn later(answer: oneshot::Receiver<Reply>) -> Reply {
        Reply {
            later: Some(answer),
            ..Reply::ok("")
        }
    }

    /// 200 with a body whose pieces the test sends; it ends with the sender, or breaks off with an `Err`.
    pub(super) fn stream(pieces: mpsc::UnboundedReceiver<io::Result<Bytes>>) -> Reply {
        Reply {
            body: Content::Pieces(pieces),
            ..Reply::ok("")
        }
    }

    /// Adds a header.
    #[must_use]
    pub(super) fn header(mut self, name: &str, value: &str) -> Reply {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        self.headers
            .append(name, HeaderValue::from_str(value).unwrap());
        self
    }

    /// Makes it go wrong.
    #[must_use]
    pub(super) fn fault(mut self, fault: Fault) -> Reply {
        self.fault = Some(fault);
        self
    }
}

type Handler = Box<dyn FnMut(&Request) -> Reply + Send>;

enum Order {
    Asked(Request, oneshot::Sender<Reply>),
    Handler(Handler),
    Fault(Option<Fault>),
}

/// The server.
#[derive(Debug)]
pub(super) struct Stub {
    address: Option<SocketAddr>,
    orders: mpsc::UnboundedSender<Order>,
    seen: mpsc::UnboundedReceiver<Request>,
    tasks: [AbortHandle; 2],
}

impl Drop for Stub {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Stub {
    /// Listens on a free port of 127.0.0.1.
    pub(super) async fn start(handler: impl FnMut(&Request) -> Reply + Send + 'static) -> Stub {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accept = move |orders| async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(serve(stream, Clone::clone(&orders)));
            }
        };
        Stub::run(Some(address), handler, accept)
    }

    /// Listens on this socket.
    pub(super) fn on_socket(
        socket: &Path,
        handler: impl FnMut(&Request) -> Reply + Send + 'static,
    ) -> Stub {
        let listener = UnixListener::bind(socket).unwrap();
        let accept = move |orders| async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(serve(stream, Clone::clone(&orders)));
            }
        };
        Stub::run(None, handler, accept)
    }

    fn run<F>(
        address: Option<SocketAddr>,
        handler: impl FnMut(&Request) -> Reply + Send + 'static,
        accept: impl FnOnce(mpsc::UnboundedSender<Order>) -> F,
    ) -> Stub
    where
        F: Future<Output = Infallible> + Send + 'static,
    {
        let (orders, inbox) = mpsc::unbounded_channel();
        let (tell, seen) = mpsc::unbounded_channel();
        let handling = tokio::spawn(handle(Box::new(handler), inbox, tell));
        let accepting = tokio::spawn(accept(orders.clone()));
        Stub {
            address,
            orders,
            seen,
            tasks: [handling.abort_handle(), accepting.abort_handle()],
        }
    }

    /// Where it listens, as `http://127.0.0.1:<port>`.
    pub(super) fn endpoint(&self) -> String {
        format!("http://{}", self.address.unwrap())
    }

    /// Answers requests from now on.
    pub(super) fn answer(&self, handler: impl FnMut(&Request) -> Reply + Send + 'static) {
        self.order(Order::Handler(Box::new(handler)));
    }

    /// Makes all answers from now on go wrong that do not do so by themselves; `None`: no longer.
    pub(super) fn fault(&self, fault: Option<Fault>) {
        self.order(Order::Fault(fault));
    }

    fn order(&self, order: Order) {
        assert!(self.orders.send(order).is_ok(), "a handler panicked");
    }

    /// The requests since the last call.
    pub(super) fn seen(&mut self) -> Vec<Request> {
        let mut all = Vec::new();
        while let Ok(request) = self.seen.try_recv() {
            all.push(request);
        }
        all
    }

    /// Waits for the next request that no call returned yet.
    pub(super) async fn next_seen(&mut self) -> Request {
        self.seen.recv().await.unwrap()
    }
}

async fn handle(
    mut handler: Handler,
    mut inbox: mpsc::UnboundedReceiver<Order>,
    seen: mpsc::UnboundedSender<Request>,
) {
    let mut switch = None;
    while let Some(order) = inbox.recv().await {
        match order {
            Order::Handler(new) => handler = new,
            Order::Fault(fault) => switch = fault,
            Order::Asked(request, answer) => {
                let mut reply = handler(&request);
                reply.fault = reply.fault.or(switch);
                // The test may have stopped looking, and whoever asked gone.
                let _ = seen.send(request);
                let _ = answer.send(reply);
            }
        }
    }
}

async fn serve<S>(stream: S, orders: mpsc::UnboundedSender<Order>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| respond(request, orders.clone()));
    let connection = hyper::server::conn::http1::Builder::new();
    // Faults are errors of the connection.
    let _ = connection
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn respond(
    request: hyper::Request<Incoming>,
    orders: mpsc::UnboundedSender<Order>,
) -> io::Result<Response<Content>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let request = Request {
        method: head.method,
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: head.headers,
        body,
    };
    let (answer, answered) = oneshot::channel();
    let gone = || io::Error::other("cut");
    orders
        .send(Order::Asked(request, answer))
        .map_err(|_| gone())?;
    let mut reply = answered.await.map_err(|_| gone())?;
    if let Some(later) = reply.later.take() {
        let switch = reply.fault;
        reply = later.await.map_err(|_| gone())?;
        reply.fault = reply.fault.or(switch);
    }
    let mut length = match &reply.body {
        Content::Whole(bytes) => Some(bytes.len()),
        _ => None,
    };
    match reply.fault {
        None => {}
        Some(Fault::Delay(time)) => tokio::time::sleep(time).await,
        Some(Fault::Cut) => return Err(gone()),
        Some(Fault::HalfBody) => {
            if let Content::Whole(bytes) = reply.body {
                let half = bytes.slice(..bytes.len() / 2);
                reply.body = Content::Half(half);
            }
        }
        Some(Fault::Oversize(bytes)) => {
            reply.body = Content::Filler(bytes);
            length = None;
        }
    }
    let may_have_body = reply.status != StatusCode::NOT_MODIFIED;
    if let Some(length) = length.filter(|_| may_have_body) {
        reply.headers.insert(CONTENT_LENGTH, length.into());
    }
    let mut response = Response::new(reply.body);
    *response.status_mut() = reply.status;
    *response.headers_mut() = reply.headers;
    Ok(response)
}

/// A body.
#[derive(Debug)]
enum Content {
    Whole(Bytes),
    /// Breaks off after this.
    Half(Bytes),
    /// Breaks off once what was sent is on its way.
    Breaking,
    Broken,
    Filler(usize),
    Pieces(mpsc::UnboundedReceiver<io::Result<Bytes>>),
}

impl Body for Content {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = match &mut *self {
            Content::Whole(bytes) if bytes.is_empty() => None,
            Content::Whole(bytes) => Some(Ok(std::mem::take(bytes))),
            Content::Half(bytes) => {
                let half = std::mem::take(bytes);
                *self = Content::Breaking;
                Some(Ok(half))
            }
            Content::Breaking => {
                *self = Content::Broken;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Content::Broken => Some(Err(io::Error::other("cut"))),
            Content::Filler(0) => None,
            Content::Filler(left) => {
                let now = FILLER_BYTES.min(*left);
                *left -= now;
                Some(Ok(Bytes::from(vec![b' '; now])))
            }
            Content::Pieces(pieces) => match pieces.poll_recv(context) {
                Poll::Ready(Some(Err(_))) => {
                    *self = Content::Broken;
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(piece) => piece,
                Poll::Pending => return Poll::Pending,
            },
        };
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }
}

/// The settings of a client of this endpoint: no authentication, no redirects, an interval of 30 seconds, a timeout
/// of 10 seconds.
pub(super) fn http(endpoint: &str) -> Http {
    let trusting = ClientTlsOptions {
        insecure_skip_verify: true,
        ..ClientTlsOptions::default()
    };
    Http {
        endpoint: endpoint.trim_end_matches('/').into(),
        interval: Duration::from_secs(30),
        timeout: Duration::from_secs(10),
        tls: ClientTls::build(&trusting, &SystemRoots::none(), &[]).unwrap(),
        headers: Vec::new(),
        auth: HttpAuth::None,
        follow_redirects: false,
    }
}

/// A folder of one test, empty at first and removed when dropped.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// A new one.
    pub(super) fn new() -> Folder {
        let name = |count| format!("ringway-discovery-{}-{count}", std::process::id());
        let mut paths = (0u32..).map(|count| std::env::temp_dir().join(name(count)));
        let path = paths.find(|path| std::fs::create_dir(path).is_ok());
        Folder(path.unwrap())
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// A path in it.
    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file in it.
    pub(super) fn write(&self, name: &str, content: &str) -> PathBuf {
        let file = self.join(name);
        std::fs::write(&file, content).unwrap();
        file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
