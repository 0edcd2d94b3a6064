//! The HTTP client of all providers that ask over HTTP.
//!
//! One client per discoverer, so that connections are shared by its queries. Adds what block `http` says to each
//! request, reads at most so much of an answer, and puts what went wrong into words without any secret: neither
//! headers nor credentials of a URL are ever part of an error. `reqwest` does the protocol. Contract: autodiscovery
//! page, 2.3 and 6.3.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use reqwest::redirect;
use reqwest::{Method, StatusCode, Url};

use super::Failure;
use super::settings::{Http, HttpAuth};
use crate::health::probe::user_agent;

/// Most bytes of an answer that is an error.
pub const ERROR_BODY_BYTES_MAX: usize = 64 << 10;
/// Most redirects in a row.
const REDIRECTS_MAX: usize = 10;
/// Most characters of a foreign error message that are passed on.
const MESSAGE_CHARS_MAX: usize = 300;
/// Longest that a source may ask to be left alone.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// A request, as far as block `http` does not say it.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Method.
    pub method: Method,
    /// Absolute URL. May hold no secret: it is part of errors.
    pub url: Url,
    /// Headers beside those of block `http`, which they replace.
    pub headers: HeaderMap,
    /// Body; empty: none.
    pub body: Bytes,
    /// Most bytes of the body of an answer.
    pub body_bytes_max: usize,
}

impl Ask {
    /// A GET.
    pub fn get(url: Url, body_bytes_max: usize) -> Ask {
        Ask {
            method: Method::GET,
            url,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            body_bytes_max,
        }
    }
}

/// An answer, whole.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body; of an error, at most its first [`ERROR_BODY_BYTES_MAX`].
    pub body: Bytes,
}

impl Answer {
    /// The failure that an unexpected answer is. `message` is what the source says in its body, found by the
    /// provider; without one, the body's beginning is shown.
    pub fn failure(&self, what: &str, message: Option<String>) -> Failure {
        let said = message.unwrap_or_else(|| String::from_utf8_lossy(&self.body).into_owned());
        let said = shown(&said);
        let reason = match said.is_empty() {
            true => format!("{what}: {}", self.status),
            false => format!("{what}: {}: {said}", self.status),
        };
        Failure {
            reason,
            retry_after: self.retry_after(),
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        let asks = [
            StatusCode::TOO_MANY_REQUESTS,
            StatusCode::SERVICE_UNAVAILABLE,
        ];
        if !asks.contains(&self.status) {
            return None;
        }
        let text = self.headers.get(RETRY_AFTER)?.to_str().ok()?;
        let wait = match text.trim().parse::<u64>() {
            Ok(seconds) => Duration::from_secs(seconds),
            Err(_) => httpdate::parse_http_date(text.trim())
                .ok()?
                .duration_since(std::time::SystemTime::now())
                .unwrap_or_default(),
        };
        Some(wait.min(RETRY_AFTER_MAX))
    }
}

/// What a source said, on one line and not too long.
pub fn shown(text: &str) -> String {
    let mut line: String = text
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .filter(|c| !c.is_control())
        .take(MESSAGE_CHARS_MAX + 1)
        .collect();
    if line.chars().count() > MESSAGE_CHARS_MAX {
        line.pop();
        line.push('…');
    }
    line
}

/// A client with the settings of one discoverer.
#[derive(Clone, Debug)]
pub struct Client {
    client: reqwest::Client,
    settings: Http,
}

impl Client {
    /// A client for the hosts of URLs, through the proxy of the environment where it names one.
    ///
    /// # Errors
    /// When the settings cannot be used together.
    pub fn new(settings: &Http) -> Result<Client, Failure> {
        Client::build(settings, |builder| builder)
    }

    /// A client that goes straight to its hosts: for metadata addresses.
    ///
    /// # Errors
    /// When the settings cannot be used together.
    pub fn direct(settings: &Http) -> Result<Client, Failure> {
        Client::build(settings, reqwest::ClientBuilder::no_proxy)
    }

    /// A client for one socket of this machine, whatever the host of a URL.
    ///
    /// # Errors
    /// When the settings cannot be used together.
    pub fn over_socket(settings: &Http, socket: &Path) -> Result<Client, Failure> {
        Client::build(settings, |builder| {
            builder.no_proxy().unix_socket(socket.to_owned())
        })
    }

    fn build(
        settings: &Http,
        more: impl FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder,
    ) -> Result<Client, Failure> {
        let tls = (*settings.tls.config()).clone();
        let builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(match settings.follow_redirects {
                true => redirect::Policy::custom(stay_at_host),
                false => redirect::Policy::none(),
            })
            // A source that is asked every half minute gains nothing from many.
            .pool_max_idle_per_host(2);
        let client = more(builder)
            .build()
            .map_err(|error| Failure::new(format!("no HTTP client: {}", chain(&error))))?;
        Ok(Client {
            client,
            settings: settings.clone(),
        })
    }

    /// The settings it was made of.
    pub fn settings(&self) -> &Http {
        &self.settings
    }

    /// A URL below the endpoint: `path` begins with `/` and is percent-encoded, pairs are not.
    ///
    /// # Errors
    /// When the two do not make a URL.
    pub fn url(&self, path: &str, pairs: &[(&str, &str)]) -> Result<Url, Failure> {
        url(&self.settings.endpoint, path, pairs)
    }

    /// Asks once, with what block `http` says, and reads the whole answer, all within its timeout. Any status is
    /// an answer.
    ///
    /// # Errors
    /// When there is no answer in time, it breaks off, or its body is too long.
    pub async fn ask(&self, ask: Ask) -> Result<Answer, Failure> {
        let headers = self.headers(&ask.headers).await?;
        self.send(ask, headers).await
    }

    /// As [`ask`](Self::ask), without anything of block `http` but its timeout and TLS: for hosts that are not the
    /// endpoint, such as those that give out tokens.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub async fn ask_plain(&self, ask: Ask) -> Result<Answer, Failure> {
        let mut headers = ask.headers.clone();
        name_ourselves(&mut headers);
        self.send(ask, headers).await
    }

    async fn send(&self, ask: Ask, headers: HeaderMap) -> Result<Answer, Failure> {
        let limit = self.settings.timeout;
        let place = masked(&ask.url);
        let exchange = self.exchange(ask, headers);
        match tokio::time::timeout(limit, exchange).await {
            Ok(result) => result.map_err(|reason| Failure::new(format!("{place}: {reason}"))),
            Err(_) => Err(Failure::new(format!("{place}: no answer within {limit:?}"))),
        }
    }

    async fn exchange(&self, ask: Ask, headers: HeaderMap) -> Result<Answer, String> {
        let secrets = self.secrets(&headers);
        let mut request = self.client.request(ask.method, ask.url).headers(headers);
        if !ask.body.is_empty() {
            request = request.body(ask.body);
        }
        let mut answer = request.send().await.map_err(|error| chain(&error))?;
        let status = answer.status();
        let is_fine = status.is_success() || status == StatusCode::NOT_MODIFIED;
        let most = match is_fine {
            true => ask.body_bytes_max,
            false => ERROR_BODY_BYTES_MAX,
        };
        let mut body = BytesMut::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| chain(&error))? {
            if body.len() + chunk.len() > most {
                if !is_fine {
                    body.extend_from_slice(&chunk[..most - body.len()]);
                    break;
                }
                return Err(format!("the answer is longer than {most} bytes"));
            }
            body.extend_from_slice(&chunk);
        }
        if !is_fine {
            body = without(&body, &secrets);
        }
        Ok(Answer {
            status,
            headers: std::mem::take(answer.headers_mut()),
            body: body.freeze(),
        })
    }

    /// Headers of block `http` and of the request, and the credentials.
    async fn headers(&self, own: &HeaderMap) -> Result<HeaderMap, Failure> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.settings.headers {
            let name = HeaderName::from_bytes(name.as_bytes());
            let value = secret_value(value.expose());
            let (Ok(name), Some(value)) = (name, value) else {
                return Err(Failure::new("http.headers: not a header"));
            };
            headers.insert(name, value);
        }
        if let Some(value) = self.credentials().await? {
            headers.insert(AUTHORIZATION, value);
        }
        for (name, value) in own {
            headers.insert(name, value.clone());
        }
        name_ourselves(&mut headers);
        Ok(headers)
    }

    /// What must not come back in an error that repeats the request.
    fn secrets(&self, headers: &HeaderMap) -> Vec<String> {
        /// Shorter ones are anybody's words.
        const BYTES_MIN: usize = 4;
        let sent = headers.values().filter(|value| value.is_sensitive());
        let sent = sent.filter_map(|value| value.to_str().ok());
        let tokens = sent.map(|text| text.split_once(' ').map_or(text, |(_, token)| token));
        let mut secrets: Vec<String> = tokens.map(str::to_owned).collect();
        if let HttpAuth::Basic(_, password) = &self.settings.auth {
            secrets.push(password.expose().to_owned());
        }
        secrets.retain(|secret| secret.len() >= BYTES_MIN);
        secrets
    }

    async fn credentials(&self) -> Result<Option<HeaderValue>, Failure> {
        use base64::Engine as _;
        let text = match &self.settings.auth {
            HttpAuth::None => return Ok(None),
            HttpAuth::Basic(user, password) => {
                let pair = format!("{user}:{}", password.expose());
                let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
                format!("Basic {encoded}")
            }
            HttpAuth::Bearer(token) => format!("Bearer {}", token.expose()),
            HttpAuth::BearerFile(file) => {
                let token = read_token(file).await?;
                format!("Bearer {token}")
            }
        };
        let value = secret_value(&text);
        let value = value.ok_or_else(|| Failure::new("credentials that fit no header"))?;
        Ok(Some(value))
    }
}

/// A body without these texts.
fn without(body: &[u8], secrets: &[String]) -> BytesMut {
    let mut text = String::from_utf8_lossy(body).into_owned();
    for secret in secrets {
        text = text.replace(secret, "***");
    }
    BytesMut::from(text.as_bytes())
}

/// A token in a file, without the white space around it.
///
/// # Errors
/// When the file cannot be read or has no token.
pub async fn read_token(file: &Path) -> Result<String, Failure> {
    let shown = file.display();
    let text = tokio::fs::read_to_string(file)
        .await
        .map_err(|error| Failure::new(format!("token file {shown}: {error}")))?;
    match text.trim() {
        "" => Err(Failure::new(format!("token file {shown} is empty"))),
        token => Ok(token.to_owned()),
    }
}

/// A URL of a base and what is below it: `path` begins with `/` and is percent-encoded, pairs are not.
///
/// # Errors
/// When the two do not make a URL.
pub fn url(base: &str, path: &str, pairs: &[(&str, &str)]) -> Result<Url, Failure> {
    let base = base.trim_end_matches('/');
    let mut url = Url::parse(&format!("{base}{path}"))
        .map_err(|error| Failure::new(format!("not a URL: {error}")))?;
    if !pairs.is_empty() {
        url.query_pairs_mut().extend_pairs(pairs);
    }
    Ok(url)
}

/// A URL for people: without credentials and without its query.
pub fn masked(url: &Url) -> String {
    let mut shown = url.clone();
    // Only URLs that can have neither refuse.
    let _ = shown.set_password(None);
    let _ = shown.set_username("");
    shown.set_query(None);
    shown.to_string()
}

fn name_ourselves(headers: &mut HeaderMap) {
    if !headers.contains_key(USER_AGENT)
        && let Ok(value) = HeaderValue::from_str(&user_agent())
    {
        headers.insert(USER_AGENT, value);
    }
}

fn secret_value(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Headers of the configuration may be credentials too: they go to no other host.
fn stay_at_host(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let Some(last) = attempt.previous().last() else {
        return attempt.stop();
    };
    if attempt.previous().len() > REDIRECTS_MAX {
        return attempt.error("too many redirects");
    }
    let next = attempt.url();
    let is_same = next.scheme() == last.scheme()
        && next.host() == last.host()
        && next.port_or_known_default() == last.port_or_known_default();
    match is_same {
        true => attempt.follow(),
        false => attempt.error("redirected to another host, where credentials do not go"),
    }
}

/// An error and what caused it; `reqwest` says the URL, which may hold a secret, so it is left out.
fn chain(error: &reqwest::Error) -> String {
    let mut text = match () {
        () if error.is_timeout() => "time is up".to_owned(),
        () if error.is_connect() => "cannot connect".to_owned(),
        () if error.is_redirect() => "redirect refused".to_owned(),
        () if error.is_body() || error.is_decode() => "the answer broke off".to_owned(),
        () => "no answer".to_owned(),
    };
    let mut cause = error.source();
    while let Some(inner) = cause {
        let said = inner.to_string();
        if !text.ends_with(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::stub::{self, Reply, Stub};
    use std::sync::Arc;

    use ringway_shards::plan::Secret;

    #[tokio::test]
    async fn an_error_that_repeats_the_request_tells_no_secret() {
        let echo = |request: &stub::Request| {
            let headers = format!("{:?}", request.headers);
            Reply::new(500, format!("you sent {headers} and pass-word"))
        };
        let stub = Stub::start(echo).await;
        let mut settings = stub::http(&stub.endpoint());
        settings.auth = HttpAuth::Basic("me".into(), Arc::new(Secret::new("pass-word")));
        settings.headers = vec![("x-key".into(), Arc::new(Secret::new("key-of-mine")))];
        let client = Client::new(&settings).unwrap();
        let answer = client
            .ask(Ask::get(client.url("/", &[]).unwrap(), 1000))
            .await;
        let failure = answer.unwrap().failure("the source", None);
        let said = failure.to_string();
        assert!(said.contains("you sent") && said.contains("***"), "{said}");
        for secret in ["pass-word", "key-of-mine", "bWU6cGFzcy13b3Jk"] {
            assert!(!said.contains(secret), "{secret}: {said}");
        }
    }
}
