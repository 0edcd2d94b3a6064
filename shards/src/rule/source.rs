//! Parts of requests that rules look at, and pieces of them. Contract: rule page, 3 and 4.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::path;
use crate::plan::{Source, Split};
use crate::rewrite::{Request, find, first_param};

/// What a source says of a request; empty where there is nothing.
pub(super) fn value<'q>(source: &Source, request: &'q Request<'_>) -> Cow<'q, [u8]> {
    match source {
        Source::Path => path(request),
        Source::Header(name) => request.header(name.as_bytes()).unwrap_or_default().into(),
        Source::Param(name) => {
            let query = request.query().unwrap_or_default();
            first_param(query, name.as_bytes()).unwrap_or_default()
        }
        Source::Query => request.query().unwrap_or_default().into(),
        Source::Method => request.method_text().into(),
        Source::Host => lower(bytes(request.host())),
        Source::Hostname => lower(without_root(bytes(request.hostname()))),
        Source::Port => request.port().to_string().into_bytes().into(),
        Source::Scheme => request.scheme().as_bytes().into(),
        Source::Url => url(request, true).into(),
        Source::UrlWithoutQuery => url(request, false).into(),
    }
}

fn bytes(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => text.as_bytes().into(),
        Cow::Owned(text) => text.into_bytes().into(),
    }
}

/// Names of hosts have no case, and a client chooses how it writes them.
fn lower(host: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    match host.iter().any(u8::is_ascii_uppercase) {
        true => host.to_ascii_lowercase().into(),
        false => host,
    }
}

/// `example.com.` is the same host as `example.com`, as it is for routes.
fn without_root(host: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    match host {
        Cow::Borrowed(name) => name.strip_suffix(b".").unwrap_or(name).into(),
        Cow::Owned(mut name) => {
            name.pop_if(|last| *last == b'.');
            name.into()
        }
    }
}

fn url(request: &Request<'_>, with_query: bool) -> Vec<u8> {
    let mut url = request.scheme().as_bytes().to_vec();
    url.extend_from_slice(b"://");
    url.extend_from_slice(request.host().as_bytes());
    url.extend_from_slice(request.path());
    if let Some(query) = request.query().filter(|_| with_query) {
        url.push(b'?');
        url.extend_from_slice(query);
    }
    url
}

/// One piece of a text; empty where there is none.
pub(super) fn piece<'t>(text: &'t [u8], split: &Split) -> &'t [u8] {
    let delimiter = split.delimiter.as_bytes();
    let mut rest = text;
    if text.len() < delimiter.len() {
        return b"";
    }
    for _ in 0..split.index {
        match find(rest, delimiter) {
            Some(at) => rest = &rest[at + delimiter.len()..],
            None => return b"",
        }
    }
    &rest[..find(rest, delimiter).unwrap_or(rest.len())]
}

/// The text that was encoded; empty where it is none. Ends of lines do not count.
pub(super) fn from_base64(text: &[u8]) -> Vec<u8> {
    let has_ends = text.iter().any(|byte| matches!(byte, b'\r' | b'\n'));
    let decoded = match has_ends {
        false => STANDARD.decode(text),
        true => {
            let bytes = text.iter().copied();
            let bytes = bytes.filter(|byte| !matches!(byte, b'\r' | b'\n'));
            STANDARD.decode(bytes.collect::<Vec<u8>>())
        }
    };
    decoded.unwrap_or_default()
}
