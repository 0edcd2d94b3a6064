//! Block `http` of a discoverer. Contract: autodiscovery page, 2.3 and 15.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use ringway_io::net::tls::ClientTls;
use ringway_shards::plan::Secret;
use serde_json::{Map, Value as Json};

use super::{secret, text};
use crate::compile::context::Context;
use crate::compile::edits::FRAMING;
use crate::compile::effective::{MASK, Provenance};
use crate::compile::tls;
use crate::config::discovery::Http as Written;
use crate::config::origin_url::{Authority, OriginUrl};
use crate::config::units::Period;
use crate::config::{Caution, Fault, Path, defaults};
use crate::discovery::settings::{DockerEngine, Http, HttpAuth};

/// What the default limit of a blocking query has over the latest answer.
const BLOCKING_SLACK: Duration = Duration::from_secs(10);
/// Ports of `tcp://` endpoints that name none: without TLS and with it.
const DOCKER_PORTS: (u16, u16) = (2375, 2376);

/// How long a request may take.
pub(super) enum Pace {
    /// It is answered at once.
    Polled,
    /// The server waits for news as long as this key of this block says.
    Blocking(&'static str, Period),
}

/// The block of a provider that has no endpoint of its own.
pub(super) fn of_registry(
    context: &mut Context<'_>,
    entry: &Path,
    written: Option<&Written>,
    pace: &Pace,
    example: &'static str,
) -> Option<Http> {
    let at = entry.key("http");
    let none = Written::default();
    let own = written.unwrap_or(&none);
    let place = at.key("endpoint");
    let endpoint = text(context, &place, own.endpoint.as_ref());
    if endpoint.is_none() && !context.was_refused(&at) {
        context.fail_key(&place, Fault::Endpoint { example });
    }
    let url = endpoint.and_then(|text| url(context, &place, &text));
    let tls = tls(context, &at, own, url.as_ref().map(|(url, _)| url));
    let settings = rest(context, &at, own, pace);
    let (_, endpoint) = url?;
    Some(settings.with(endpoint, tls?))
}

/// The block of a provider that knows its endpoint and has credentials of its own.
pub(super) fn of_cloud(
    context: &mut Context<'_>,
    entry: &Path,
    written: Option<&Written>,
) -> Option<Http> {
    let at = entry.key("http");
    let none = Written::default();
    let own = written.unwrap_or(&none);
    for key in ["username", "password", "bearer_token", "bearer_token_file"] {
        context.warn_no_effect(&at.key(key), "the provider has credentials of its own");
    }
    let place = at.key("endpoint");
    let endpoint = text(context, &place, own.endpoint.as_ref());
    let url = endpoint.map(|text| url(context, &place, &text));
    // Whatever the endpoint: tokens come from elsewhere.
    let tls = tls(context, &at, own, None);
    let settings = rest(context, &at, own, &Pace::Polled);
    let endpoint = match url {
        None => Box::default(),
        Some(url) => url?.1,
    };
    Some(settings.with(endpoint, tls?))
}

/// The block of a Docker Engine, and where that listens.
pub(super) fn of_docker(
    context: &mut Context<'_>,
    entry: &Path,
    written: Option<&Written>,
) -> Option<(Http, DockerEngine)> {
    let at = entry.key("http");
    let none = Written::default();
    let own = written.unwrap_or(&none);
    let place = at.key("endpoint");
    let endpoint = own.endpoint.as_deref().filter(|text| !text.is_empty());
    let endpoint = context.pick_text(&place, endpoint, defaults::DOCKER_ENDPOINT);
    let settings = rest(context, &at, own, &Pace::Polled);
    if let Some(path) = endpoint.strip_prefix("unix://") {
        if !path.starts_with('/') || path.len() == 1 {
            let reason = "a unix:// endpoint is the absolute path of a socket".into();
            context.fail_value(&place, Fault::DockerEndpoint { reason });
        }
        if own.tls.is_some() {
            context.fail_key(&at.key("tls"), Fault::SocketTls);
        }
        let tls = tls::unspoken(context, &at)?;
        let engine = DockerEngine::Unix(path.into());
        return Some((settings.with(Box::default(), tls), engine));
    }
    let url = docker_url(&endpoint, own.tls.is_some())
        .map_err(|reason| context.fail_value(&place, Fault::DockerEndpoint { reason }))
        .ok();
    let parsed = url.as_ref().map(|(parsed, _)| parsed);
    let tls = tls(context, &at, own, parsed);
    let (_, url) = url?;
    Some((
        settings.with(Box::default(), tls?),
        DockerEngine::Url(url.into()),
    ))
}

/// What a `tcp://` endpoint means, or one that is a URL already.
fn docker_url(endpoint: &str, has_tls: bool) -> Result<(OriginUrl, String), String> {
    let Some(rest) = endpoint.strip_prefix("tcp://") else {
        let url = OriginUrl::parse(endpoint)?;
        return Ok((url, endpoint.trim_end_matches('/').to_owned()));
    };
    let authority = Authority::parse(rest.split('/').next().unwrap_or_default())?;
    let (scheme, port) = match has_tls {
        true => ("https", DOCKER_PORTS.1),
        false => ("http", DOCKER_PORTS.0),
    };
    let port = authority.port.unwrap_or(port);
    let host = match authority.host.contains(':') {
        true => format!("[{}]", authority.host),
        false => authority.host,
    };
    let path = rest.find('/').map_or("", |at| &rest[at..]);
    let text = format!("{scheme}://{host}:{port}{path}");
    let url = OriginUrl::parse(&text)?;
    Ok((url, text.trim_end_matches('/').to_owned()))
}

/// An endpoint taken apart, and as a base for paths.
fn url(context: &mut Context<'_>, at: &Path, text: &str) -> Option<(OriginUrl, Box<str>)> {
    match OriginUrl::parse(text) {
        Ok(url) => Some((url, text.trim_end_matches('/').into())),
        Err(reason) => {
            context.fail_value(at, Fault::OriginUrl { reason });
            None
        }
    }
}

/// TLS settings; `url` is the only place that is spoken to, if there is only one.
fn tls(
    context: &mut Context<'_>,
    at: &Path,
    own: &Written,
    url: Option<&OriginUrl>,
) -> Option<ClientTls> {
    let client = tls::client(context, at, url, own.tls.as_ref())?;
    match client.settings {
        Some(settings) => Some(settings),
        None => tls::unspoken(context, at),
    }
}

/// The block without endpoint and TLS.
struct Rest {
    interval: Duration,
    timeout: Duration,
    headers: Vec<(Box<str>, Arc<Secret>)>,
    auth: HttpAuth,
    follow_redirects: bool,
}

impl Rest {
    fn with(self, endpoint: Box<str>, tls: ClientTls) -> Http {
        Http {
            endpoint,
            interval: self.interval,
            timeout: self.timeout,
            tls,
            headers: self.headers,
            auth: self.auth,
            follow_redirects: self.follow_redirects,
        }
    }
}

fn rest(context: &mut Context<'_>, at: &Path, own: &Written, pace: &Pace) -> Rest {
    Rest {
        interval: context
            .pick(&at.key("interval"), own.interval, defaults::HTTP_INTERVAL)
            .0,
        timeout: timeout(context, &at.key("timeout"), own.timeout, pace),
        headers: headers(context, &at.key("headers"), own),
        auth: auth(context, at, own),
        follow_redirects: context.pick(
            &at.key("follow_redirects"),
            own.follow_redirects,
            defaults::FOLLOW_REDIRECTS,
        ),
    }
}

/// The limit of a request; of a blocking query it goes beyond the latest answer.
fn timeout(context: &mut Context<'_>, at: &Path, written: Option<Period>, pace: &Pace) -> Duration {
    let Pace::Blocking(block, wait) = *pace else {
        return context.pick(at, written, defaults::HTTP_TIMEOUT).0;
    };
    let latest = wait.0 + wait.0 / 16;
    let derived = Period(latest + BLOCKING_SLACK);
    let timeout = context.pick_or_derive(at, written, derived, "wait + wait/16 + 10s");
    let instead = derived.to_string();
    if timeout <= wait {
        let fault = Fault::TimeoutWithinWait {
            block,
            wait: wait.to_string(),
            instead,
        };
        context.fail_value(at, fault);
    } else if timeout.0 < latest {
        context.warn_key(at, Caution::TimeoutMargin { instead });
    }
    timeout.0
}

fn headers(context: &mut Context<'_>, at: &Path, own: &Written) -> Vec<(Box<str>, Arc<Secret>)> {
    let Some(written) = &own.headers else {
        return Vec::new();
    };
    let mut shown = Map::new();
    let mut headers: Vec<(Box<str>, Arc<Secret>)> = Vec::new();
    for (name, value) in written {
        shown.insert(name.clone(), Json::from(MASK));
        let here = at.key(name);
        let name = name.clone();
        if HeaderName::from_bytes(name.as_bytes()).is_err() {
            context.fail_key(&here, Fault::HeaderName { name });
        } else if FRAMING.contains(&name.to_ascii_lowercase().as_str()) {
            context.fail_key(&here, Fault::FramingHeader { name });
        } else if HeaderValue::from_str(value).is_err() {
            context.fail_value(&here, Fault::HeaderValue { name });
        } else {
            headers.push((name.into(), Arc::new(Secret::new(value.as_str()))));
        }
    }
    let from = Provenance::Written(context.document.place_of_value(at).mark);
    context.note(at, Json::Object(shown), from);
    headers
}

/// One kind of credentials; a second is an error, whichever would win.
fn auth(context: &mut Context<'_>, at: &Path, own: &Written) -> HttpAuth {
    let user = text(context, &at.key("username"), own.username.as_ref());
    let password = secret(context, &at.key("password"), own.password.as_ref());
    let token = secret(context, &at.key("bearer_token"), own.bearer_token.as_ref());
    let file = &own.bearer_token_file;
    let file = text(context, &at.key("bearer_token_file"), file.as_ref());
    if user.is_none() && password.is_some() {
        context.fail_key(&at.key("password"), Fault::PasswordWithoutUser);
    }
    if user.as_ref().is_some_and(|user| user.contains(':')) {
        let reason = "it has a colon, which ends the name in `Authorization: Basic`";
        context.fail_value(&at.key("username"), Fault::UserName { reason });
    }
    check_single(
        context,
        at,
        own,
        [user.is_some(), token.is_some(), file.is_some()],
    );
    if token.as_ref().is_some_and(|token| !fits_header(token)) {
        let name = "Authorization".to_owned();
        context.fail_value(&at.key("bearer_token"), Fault::HeaderValue { name });
    }
    match (user, token, file) {
        (Some(user), _, _) => {
            let empty = || Arc::new(Secret::new(""));
            HttpAuth::Basic(user, password.unwrap_or_else(empty))
        }
        (None, Some(token), _) => HttpAuth::Bearer(token),
        (None, None, Some(file)) => HttpAuth::BearerFile(String::from(file).into()),
        (None, None, None) => HttpAuth::None,
    }
}

/// Says which kind of credentials is already there, at every further one.
fn check_single(
    context: &mut Context<'_>,
    at: &Path,
    own: &Written,
    [has_user, has_token, has_file]: [bool; 3],
) {
    let mut names = own.headers.iter().flatten().map(|(name, _)| name);
    let named = names.find(|name| name.eq_ignore_ascii_case(AUTHORIZATION.as_str()));
    let kinds = [
        ("username", at.key("username"), has_user),
        ("bearer_token", at.key("bearer_token"), has_token),
        ("bearer_token_file", at.key("bearer_token_file"), has_file),
        (
            "headers",
            at.key("headers").key(named.map_or("", String::as_str)),
            named.is_some(),
        ),
    ];
    let mut written = kinds.iter().filter(|(_, _, is_written)| *is_written);
    if let Some((other, _, _)) = written.next() {
        for (_, place, _) in written {
            context.fail_key(place, Fault::SecondAuthentication { other });
        }
    }
}

fn fits_header(secret: &Secret) -> bool {
    HeaderValue::from_str(secret.expose()).is_ok()
}
