//! Block `healthcheck`: the provider's probe, field by field replaced. Contract: health page, 1.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use hyper::header::{HeaderName, HeaderValue};
use ringway_shards::plan::{Backend, BackendKind, Origin, OriginProvider, Scheme};
use serde_json::{Map, Value as Json};

use super::context::Context;
use super::control::HealthCheck;
use super::effective::{MASK, Provenance};
use super::roster::{Entry, Roster};
use super::templates::TemplateProbe;
use super::{tls, unless_zero};
use crate::config::healthcheck::HealthCheck as Written;
use crate::config::origin_url::Authority;
use crate::config::units::{Period, parse_codes};
use crate::config::{Caution, Fault, Path, defaults};

/// The probe of every origin, with or without an interval.
pub(super) fn compile(
    context: &mut Context<'_>,
    roster: &Roster<'_>,
    backends: &[Backend],
) -> Vec<HealthCheck> {
    let mut checks = Vec::new();
    for backend in backends {
        let BackendKind::Origin(origin) = &backend.kind else {
            continue;
        };
        let none = Written::default();
        let entry = roster.entry(backend.id);
        let written = entry.and_then(|entry| entry.written.healthcheck.as_ref());
        let at = Path::of(&["backends", &backend.name, "healthcheck"]);
        checks.push(check(
            context,
            &at,
            backend,
            origin,
            written.unwrap_or(&none),
        ));
    }
    checks
}

/// The probe of a template's members, with what of its place is written.
pub(super) fn of_template(
    context: &mut Context<'_>,
    entry: &Entry<'_>,
    backend: &Backend,
    origin: &Origin,
) -> TemplateProbe {
    let none = Written::default();
    let written = entry.written.healthcheck.as_ref().unwrap_or(&none);
    let at = Path::of(&["backends", entry.name, "healthcheck"]);
    let check = check(context, &at, backend, origin, written);
    let is_written = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    TemplateProbe {
        has_scheme: is_written(&written.scheme),
        has_host: is_written(&written.host),
        has_path: is_written(&written.path),
        check,
    }
}

fn check(
    context: &mut Context<'_>,
    at: &Path,
    backend: &Backend,
    origin: &Origin,
    written: &Written,
) -> HealthCheck {
    let interval = context.pick(
        &at.key("interval"),
        written.interval,
        defaults::PROBE_INTERVAL,
    );
    let timeout = context.pick(&at.key("timeout"), written.timeout, defaults::PROBE_TIMEOUT);
    if written.timeout.is_some()
        && interval > Period(std::time::Duration::ZERO)
        && timeout > interval
    {
        context.warn_key(&at.key("timeout"), Caution::ProbeTimeout);
    }
    let failure_threshold = threshold(
        context,
        &at.key("failure_threshold"),
        written.failure_threshold,
        defaults::FAILURE_THRESHOLD,
    );
    let recovery_threshold = threshold(
        context,
        &at.key("recovery_threshold"),
        written.recovery_threshold,
        defaults::RECOVERY_THRESHOLD,
    );
    let verb = context.pick_text(
        &at.key("verb"),
        written.verb.as_deref(),
        defaults::PROBE_VERB,
    );
    let place = endpoint(context, at, origin, written);
    let target = target(context, at, origin, written);
    let headers = headers(context, &at.key("headers"), written.headers.as_ref(), true);
    let expected_headers = headers_expected(context, at, written);
    let body = written.body.clone().unwrap_or_default();
    let expected_body = written
        .expected_body
        .clone()
        .filter(|body| !body.is_empty());
    for (key, text) in [
        ("body", Some(&body)),
        ("expected_body", expected_body.as_ref()),
    ] {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            context.note_written(&at.key(key), Json::from(text.as_str()));
        }
    }
    HealthCheck {
        backend: backend.id,
        backend_name: backend.name.clone(),
        interval: unless_zero(interval),
        timeout: timeout.0,
        failure_threshold,
        recovery_threshold,
        verb: verb.into(),
        tls: tls::for_probe(context, &at.key("scheme"), place.scheme, origin),
        scheme: place.scheme,
        host: place.authority.host.as_str().into(),
        port: place.authority.port.unwrap_or(place.scheme.default_port()),
        authority: place.authority.host_header(place.scheme).into(),
        target: target.into(),
        headers,
        body: body.into(),
        expected_codes: codes(
            context,
            &at.key("expected_codes"),
            written.expected_codes.as_deref(),
        ),
        expected_headers,
        expected_body: expected_body.map(Into::into),
    }
}

/// A count of which 0 means the default.
fn threshold(
    context: &mut Context<'_>,
    at: &Path,
    written: Option<u32>,
    preset: defaults::Preset<u32>,
) -> u32 {
    context.pick(at, written.filter(|count| *count > 0), preset)
}

/// Where a probe goes.
struct Endpoint {
    scheme: Scheme,
    authority: Authority,
}

fn endpoint(context: &mut Context<'_>, at: &Path, origin: &Origin, written: &Written) -> Endpoint {
    let scheme = context.pick_or_derive(
        &at.key("scheme"),
        written.scheme.clone(),
        origin.scheme.name().to_owned(),
        "origin_url",
    );
    let scheme = match scheme.as_str() {
        "https" => Scheme::Https,
        _ => Scheme::Http,
    };
    let own = Authority {
        host: origin.host.to_string(),
        port: Some(origin.port),
    };
    let authority = match written.host.as_deref().filter(|host| !host.is_empty()) {
        None => own,
        Some(host) => {
            context.note_written(&at.key("host"), Json::from(host));
            Authority::parse(host).unwrap_or_else(|reason| {
                let host = host.to_owned();
                context.fail_value(&at.key("host"), Fault::BadHost { host, reason });
                own
            })
        }
    };
    Endpoint { scheme, authority }
}

/// The path of an origin's probe where none is written.
pub(super) fn own_path(origin: &Origin) -> String {
    let prefix = &origin.path_prefix;
    match origin.provider {
        OriginProvider::Prometheus => format!("{prefix}{}", defaults::PROMETHEUS_PROBE_PATH),
        OriginProvider::ReverseProxy if prefix.is_empty() => "/".to_owned(),
        OriginProvider::ReverseProxy => prefix.to_string(),
    }
}

/// Path and query. A written path replaces the origin's prefix too.
fn target(context: &mut Context<'_>, at: &Path, origin: &Origin, written: &Written) -> String {
    let own_path = own_path(origin);
    let own_query = match origin.provider {
        OriginProvider::Prometheus => defaults::PROMETHEUS_PROBE_QUERY,
        OriginProvider::ReverseProxy => "",
    };
    let provider = "the provider's probe";
    let path_at = at.key("path");
    let path = written.path.clone().filter(|path| !path.is_empty());
    let path = context.pick_or_derive(&path_at, path, own_path, provider);
    if !path.starts_with('/')
        || !path
            .chars()
            .all(|c| c.is_ascii_graphic() && c != '#' && c != '?')
    {
        context.fail_value(&path_at, Fault::BadPath);
    }
    let query = written.query.as_deref().map(|q| q.trim_start_matches('?'));
    let query = query.filter(|query| !query.is_empty()).map(str::to_owned);
    let query = context.pick_or_derive(&at.key("query"), query, own_query.to_owned(), provider);
    match query.is_empty() {
        true => path,
        false => format!("{path}?{}", encoded(&query)),
    }
}

/// A query as operators write it, made fit for a request line: what cannot stand there is percent-encoded,
/// what is already encoded stays.
fn encoded(query: &str) -> String {
    let mut out = String::with_capacity(query.len());
    for byte in query.bytes() {
        let fits = byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?%[]".contains(&byte);
        match fits {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

type Headers = Vec<(Box<str>, Box<str>)>;

fn headers_expected(context: &mut Context<'_>, at: &Path, written: &Written) -> Headers {
    let at = at.key("expected_headers");
    headers(context, &at, written.expected_headers.as_ref(), false)
}

fn headers(
    context: &mut Context<'_>,
    at: &Path,
    written: Option<&BTreeMap<String, String>>,
    secret: bool,
) -> Headers {
    let Some(written) = written else {
        return Vec::new();
    };
    let mut shown = Map::new();
    let mut out = Vec::new();
    for (name, value) in written {
        let here = at.key(name);
        if HeaderName::from_bytes(name.as_bytes()).is_err() {
            let name = name.clone();
            context.fail_key(&here, Fault::HeaderName { name });
        }
        if HeaderValue::from_str(value).is_err() {
            let name = name.clone();
            context.fail_value(&here, Fault::HeaderValue { name });
        }
        let value_shown = if secret { MASK } else { value };
        shown.insert(name.clone(), Json::from(value_shown));
        out.push((name.as_str().into(), value.as_str().into()));
    }
    context.note_written(at, Json::Object(shown));
    out
}

fn codes(
    context: &mut Context<'_>,
    at: &Path,
    written: Option<&[String]>,
) -> Vec<RangeInclusive<u16>> {
    if written.is_some_and(<[String]>::is_empty) && !context.was_refused_within(at) {
        context.fail_value(
            at,
            Fault::EmptyList {
                what: "status code",
            },
        );
    }
    match written.filter(|codes| !codes.is_empty()) {
        Some(written) => {
            let shown = |code: &String| match code.parse::<u16>() {
                Ok(code) => Json::from(code),
                Err(_) => Json::from(code.as_str()),
            };
            context.note_written(at, written.iter().map(shown).collect());
            written
                .iter()
                .filter_map(|code| parse_codes(code))
                .collect()
        }
        None => {
            let code = defaults::PROBE_CODE;
            let from = Provenance::Default(code.contract);
            context.note(at, Json::from(vec![code.value]), from);
            vec![code.value..=code.value]
        }
    }
}
