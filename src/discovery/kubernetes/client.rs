//! The way to one API server: `kube`'s client, and around it what that leaves open.
//!
//! `kube` reads kubeconfig and service account, does TLS, proxies and credentials, including `exec` plugins. Around
//! each of its requests [`Guard`] adds the rate limit, the deadline of everything but a stream, bounds of what is
//! read, fresh credentials after a 401, and `Retry-After`, which `kube`'s errors do not carry.

use std::error::Error;
use std::fmt;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Either, Full, LengthLimitError, Limited};
use hyper::body::{Body as HttpBody, Frame};
use hyper::header::{HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};
use hyper_util::client::proxy::matcher::Matcher;
use kube::Config;
use kube::client::{AuthError, Body};
use kube::config::{Kubeconfig, KubeconfigError};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower_service::Service;

use crate::discovery::Failure;
use crate::discovery::cloud::more_pages_than;
use crate::discovery::http::{ERROR_BODY_BYTES_MAX, shown};
use crate::discovery::settings::Kubernetes;

/// Most bytes of one page of a list.
pub(super) const PAGE_BYTES_MAX: usize = 64 << 20;
/// Most pages of one list: 100,000 objects.
pub(super) const PAGES_MAX: usize = 200;
/// Most bytes of one event of a watch. What etcd stores is at most 1.5 MiB.
const EVENT_BYTES_MAX: usize = 8 << 20;
/// Longest that a server may ask to be left alone.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);
/// Certificates of `exec` plugins are renewed this long before they end.
const RENEW_BEFORE_SECONDS: i64 = 60;
/// Least time between two starts of one watch, for servers that end each stream at once.
const WATCH_START_GAP: Duration = Duration::from_secs(1);

type BoxError = Box<dyn Error + Send + Sync>;

/// Called whenever a watch shows that it is alive.
pub(super) type Alive = Arc<dyn Fn() + Send + Sync>;

/// What is needed to ask one API server.
pub(super) struct Access {
    config: Config,
    namespace: Option<String>,
    timeout: Duration,
    bucket: Bucket,
    slot: Mutex<Slot>,
}

/// The client, and its successor on the way.
#[derive(Default)]
struct Slot {
    built: Option<Built>,
    making: Option<JoinHandle<kube::Result<kube::Client>>>,
}

/// `kube`'s client, which holds the credentials as they were read last.
#[derive(Clone)]
struct Built {
    client: kube::Client,
    /// How many were built before it, to tell whether somebody else renewed it already.
    generation: u64,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").finish_non_exhaustive()
    }
}

impl Access {
    /// Reads what the settings name; asks nobody.
    ///
    /// # Errors
    /// When kubeconfig or service account cannot be read, or make no sense.
    pub(super) fn new(settings: &Kubernetes) -> Result<Access, Failure> {
        let (mut config, namespace) = match &settings.kubeconfig {
            Some(file) => from_kubeconfig(file)?,
            None => from_service_account()?,
        };
        let agent = HeaderValue::from_str(&settings.user_agent)
            .map_err(|_| Failure::new("kubernetes.user_agent: not a header value"))?;
        config.headers.push((USER_AGENT, agent));
        config.connect_timeout = Some(settings.timeout);
        // Its retries would be invisible, here they are counted and paced by the watch.
        config.default_retry = false;
        Ok(Access {
            config,
            namespace,
            timeout: settings.timeout,
            bucket: Bucket::new(settings.qps, settings.burst),
            slot: Mutex::default(),
        })
    }

    /// The namespace of queries that name none.
    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Limit of a request that is no stream.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The client, made when it is first needed: an `exec` plugin may have to run for it. That of generation
    /// `stale` is replaced by one with credentials read anew.
    async fn client(&self, stale: Option<u64>) -> Result<Built, Refused> {
        let mut slot = self.slot.lock().await;
        if let Some(built) = &slot.built
            && Some(built.generation) != stale
            && !is_ending(&built.client)
        {
            return Ok(built.clone());
        }
        // Who gives up waiting leaves it to the next: a plugin that hangs runs only once.
        let making = slot.making.get_or_insert_with(|| {
            let mut config = self.config.clone();
            tokio::task::spawn_blocking(move || {
                trim_token(&mut config);
                kube::Client::try_from(config)
            })
        });
        let made = making.await;
        slot.making = None;
        let client = made
            .map_err(|_| Refused::new("the client cannot be made"))?
            .map_err(|error| refusal(&error))?;
        let generation = slot.built.as_ref().map_or(0, |built| built.generation + 1);
        let built = Built { client, generation };
        slot.built = Some(built.clone());
        Ok(built)
    }
}

/// `kube` takes a token file as it is, and the line's end of one that was written by hand fits no header. Such a file
/// is read here; again once its token is refused.
fn trim_token(config: &mut Config) {
    let auth = &mut config.auth_info;
    let (None, Some(file)) = (&auth.token, &auth.token_file) else {
        return;
    };
    if let Ok(text) = std::fs::read_to_string(file)
        && text.trim() != text
    {
        auth.token = Some(text.trim().to_owned().into());
    }
}

fn is_ending(client: &kube::Client) -> bool {
    let Some(end) = client.valid_until() else {
        return false;
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs().cast_signed());
    end.as_second() - RENEW_BEFORE_SECONDS <= now
}

fn from_kubeconfig(file: &Path) -> Result<(Config, Option<String>), Failure> {
    let shown = file.display();
    let fail = |error: &KubeconfigError| {
        let reason = match error {
            // The parser quotes the place, which may be a secret.
            KubeconfigError::Parse(_) => "not YAML of a kubeconfig".to_owned(),
            other => chain(other),
        };
        Failure::new(format!("kubeconfig {shown}: {reason}"))
    };
    let kubeconfig = Kubeconfig::read_from(file).map_err(|error| fail(&error))?;
    let current = kubeconfig.current_context.clone().unwrap_or_default();
    let context = kubeconfig
        .contexts
        .iter()
        .find(|context| context.name == current)
        .and_then(|named| named.context.clone())
        .unwrap_or_default();
    let has_proxy = kubeconfig
        .clusters
        .iter()
        .filter(|cluster| cluster.name == context.cluster)
        .filter_map(|named| named.cluster.as_ref()?.proxy_url.as_deref())
        .any(|url| !url.is_empty());
    let mut config = Config::try_from(kubeconfig).map_err(|error| fail(&error))?;
    // `kube` takes the proxy of the environment for every server, whatever NO_PROXY says.
    if !has_proxy && Matcher::from_env().intercept(&config.cluster_url).is_none() {
        config.proxy_url = None;
    }
    let namespace = context.namespace.filter(|name| !name.is_empty());
    Ok((config, namespace))
}

fn from_service_account() -> Result<(Config, Option<String>), Failure> {
    let config = Config::incluster_env().map_err(|error| {
        let why = chain(&error);
        Failure::new(format!(
            "no service account of a pod ({why}): outside of a cluster set kubernetes.kubeconfig"
        ))
    })?;
    let namespace = config.default_namespace.trim().to_owned();
    Ok((config, Some(namespace).filter(|name| !name.is_empty())))
}

/// An answer, or none, that is not what was asked for.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    /// Status of the answer.
    pub(super) status: Option<StatusCode>,
    /// In words, without secrets.
    pub(super) reason: String,
    /// How long the server asks to be left alone.
    pub(super) retry_after: Option<Duration>,
}

impl Refused {
    fn new(reason: impl Into<String>) -> Refused {
        Refused {
            status: None,
            reason: reason.into(),
            retry_after: None,
        }
    }

    fn answer(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Refused {
        let message = serde_json::from_slice::<StatusBody>(body)
            .ok()
            .and_then(|status| status.message);
        let said = message.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
        let said = shown(&said);
        let asks = headers.get(RETRY_AFTER).and_then(|value| {
            let seconds = value.to_str().ok()?.trim().parse().ok()?;
            Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
        });
        Refused {
            status: Some(status),
            reason: match said.is_empty() {
                true => status.to_string(),
                false => format!("{status}: {said}"),
            },
            retry_after: asks.filter(|_| matches!(status.as_u16(), 429 | 503)),
        }
    }
}

/// What is read of an error document.
#[derive(serde::Deserialize)]
struct StatusBody {
    message: Option<String>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl Error for Refused {}

/// What an error of `kube` means.
pub(super) fn refusal(error: &kube::Error) -> Refused {
    match error {
        kube::Error::Service(inner) => match inner.downcast_ref::<Refused>() {
            Some(refused) => refused.clone(),
            None => Refused::new(chain(inner.as_ref())),
        },
        kube::Error::Api(status) => Refused {
            status: StatusCode::from_u16(status.code).ok(),
            reason: format!("{}: {}", status.code, shown(&status.message)),
            retry_after: None,
        },
        kube::Error::Auth(error) => Refused::new(auth_failure(error)),
        // Its text may quote the answer.
        kube::Error::SerdeError(error) => Refused::new(format!(
            "an answer that is not understood, at line {} column {}",
            error.line(),
            error.column()
        )),
        other => Refused::new(chain(other)),
    }
}

/// Neither arguments and output of a plugin nor the text of its parser are shown: secrets may be in them.
fn auth_failure(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecRun { out, .. } => {
            format!("credentials plugin: failed with {}", out.status)
        }
        AuthError::AuthExecParse(_) => "credentials plugin: output not understood".to_owned(),
        other => format!("credentials: {}", chain(other)),
    }
}

/// An error and what caused it, each only once.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let said = inner.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = inner.source();
    }
    shown(&text)
}

/// A token bucket over the requests of one connection.
#[derive(Debug)]
struct Bucket {
    /// Tokens a second.
    rate: f64,
    /// Most tokens.
    burst: f64,
    /// Tokens, and when there were so many. Below zero there are waiting requests.
    level: Mutex<(f64, Instant)>,
}

impl Bucket {
    fn new(rate: f32, burst: u32) -> Bucket {
        let burst = f64::from(burst.max(1));
        Bucket {
            rate: f64::from(rate.max(f32::MIN_POSITIVE)),
            burst,
            level: Mutex::new((burst, Instant::now())),
        }
    }

    /// Waits for a token.
    async fn take(&self) {
        let wait = {
            let mut level = self.level.lock().await;
            self.reserve(&mut level, Instant::now())
        };
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    /// Takes a token and says in how long it is there.
    fn reserve(&self, level: &mut (f64, Instant), now: Instant) -> Duration {
        let grown = now.duration_since(level.1).as_secs_f64() * self.rate;
        *level = ((level.0 + grown).min(self.burst) - 1.0, now);
        let seconds = -level.0 / self.rate;
        Duration::from_secs_f64(seconds.clamp(0.0, RETRY_AFTER_MAX.as_secs_f64()))
    }
}

/// The service beneath a `kube` client of one watch.
#[derive(Clone)]
pub(super) struct Guard {
    access: Arc<Access>,
    alive: Alive,
    last_start: Arc<Mutex<Option<Instant>>>,
    /// Pages of the list that is being read.
    pages: Arc<AtomicUsize>,
}

impl Guard {
    /// A client whose requests go through a guard. `alive` is called when a watch starts and for its events.
    pub(super) fn client(access: &Arc<Access>, alive: Alive) -> kube::Client {
        let guard = Guard {
            access: Arc::clone(access),
            alive,
            last_start: Arc::default(),
            pages: Arc::default(),
        };
        kube::Client::new(guard, access.namespace().unwrap_or_default())
    }

    async fn exchange(self, request: Request<Body>) -> Result<Response<Guarded>, BoxError> {
        let (head, _) = request.into_parts();
        let query = head.uri.query().unwrap_or_default();
        let is_watch = query.split('&').any(|pair| pair == "watch=true");
        match is_watch {
            true => self.space_starts().await,
            false => self.count_page(query)?,
        }
        self.access.bucket.take().await;
        let limit = self.access.timeout;
        match tokio::time::timeout(limit, self.ask(&head, is_watch)).await {
            Ok(result) => Ok(result?),
            Err(_) => Err(Refused::new(format!("no answer within {limit:?}")).into()),
        }
    }

    /// A list that never ends would be read for ever, and nothing be said of it.
    fn count_page(&self, query: &str) -> Result<(), Refused> {
        let is_first = !query.split('&').any(|pair| pair.starts_with("continue="));
        if is_first {
            self.pages.store(0, Ordering::Relaxed);
        }
        match self.pages.fetch_add(1, Ordering::Relaxed) < PAGES_MAX {
            true => Ok(()),
            false => Err(Refused::new(more_pages_than(PAGES_MAX))),
        }
    }

    async fn space_starts(&self) {
        let mut last = self.last_start.lock().await;
        if let Some(last) = *last {
            tokio::time::sleep_until(last + WATCH_START_GAP).await;
        }
        *last = Some(Instant::now());
    }

    async fn ask(&self, head: &Parts, is_watch: bool) -> Result<Response<Guarded>, Refused> {
        let built = self.access.client(None).await?;
        let mut answer = send(&built, head).await?;
        if answer.status() == StatusCode::UNAUTHORIZED {
            let built = self.access.client(Some(built.generation)).await?;
            answer = send(&built, head).await?;
        }
        let (head, body) = answer.into_parts();
        if !head.status.is_success() {
            let body = beginning(body).await;
            return Err(Refused::answer(head.status, &head.headers, &body));
        }
        if is_watch {
            (self.alive)();
            let events = Events {
                body,
                unfinished: 0,
                alive: Arc::clone(&self.alive),
            };
            return Ok(Response::from_parts(head, Either::Right(events)));
        }
        let body = Limited::new(body, PAGE_BYTES_MAX).collect().await;
        let body = body.map_err(|error| match error.is::<LengthLimitError>() {
            true => Refused::new(format!("the answer is longer than {PAGE_BYTES_MAX} bytes")),
            false => Refused::new(format!("the answer broke off: {}", chain(error.as_ref()))),
        })?;
        let body = Full::new(body.to_bytes());
        Ok(Response::from_parts(head, Either::Left(body)))
    }
}

async fn send(built: &Built, head: &Parts) -> Result<Response<Body>, Refused> {
    let request = Request::from_parts(head.clone(), Body::empty());
    let answer = built.client.send(request).await;
    answer.map_err(|error| refusal(&error))
}

/// As much of an error document as is worth reading.
async fn beginning(mut body: Body) -> Vec<u8> {
    let mut text = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Some(data) = frame.data_ref() else { break };
        let room = ERROR_BODY_BYTES_MAX - text.len();
        text.extend_from_slice(&data[..data.len().min(room)]);
        if text.len() == ERROR_BODY_BYTES_MAX {
            break;
        }
    }
    text
}

impl Service<Request<Body>> for Guard {
    type Response = Response<Guarded>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().exchange(request))
    }
}

/// A page that was read already, or a stream.
type Guarded = Either<Full<Bytes>, Events>;

/// The stream of a watch, one event a line.
pub(super) struct Events {
    body: Body,
    /// Bytes since the last line feed.
    unfinished: usize,
    alive: Alive,
}

/// An event that never ends.
#[derive(Debug)]
pub(super) struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an event is longer than {EVENT_BYTES_MAX} bytes")
    }
}

impl Error for TooLong {}

impl HttpBody for Events {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            None => return Poll::Ready(None),
            Some(Err(error)) => return Poll::Ready(Some(Err(Box::new(error)))),
            Some(Ok(frame)) => frame,
        };
        if let Some(data) = frame.data_ref() {
            let first = data.iter().position(|byte| *byte == b'\n');
            self.unfinished += first.unwrap_or(data.len());
            if self.unfinished > EVENT_BYTES_MAX {
                return Poll::Ready(Some(Err(Box::new(TooLong))));
            }
            if let Some(last) = data.iter().rposition(|byte| *byte == b'\n') {
                self.unfinished = data.len() - last - 1;
                (self.alive)();
            }
        }
        Poll::Ready(Some(Ok(frame)))
    }
}

#[cfg(test)]
mod tests;
