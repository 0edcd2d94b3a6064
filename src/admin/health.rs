//! The health answers: the status page, and the probe on demand.
//!
//! Called by `server` with what the control core knows; bodies of the page are made by `health::page`. The page
//! is never stored without asking again, and has validators of both kinds: dates of whole seconds cannot tell two
//! changes within one second apart, tags can. Contract: health page, 4.

use std::hash::{DefaultHasher, Hasher};

use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderName,
    HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, REFERRER_POLICY, RETRY_AFTER,
    VARY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Request, Response, StatusCode};

use super::server::{Answer, CheckNow, NoCheck, text, with};
use crate::health::page::{Format, Page, html};
use crate::health::schedule::addresses_of;
use crate::health::{Outcome, probe as probing};

/// The status page in the form that the request asks for.
pub(super) fn page(page: &Page, request: &Request<Incoming>) -> Answer {
    let headers = request.headers();
    let accept: Vec<&str> = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    let query = request.uri().query().unwrap_or_default();
    let format = Format::asked_for(&accept.join(","), query);
    let body = page.write(format);
    let modified = httpdate::fmt_http_date(page.last_change());
    let tag = tag(&body);
    let answer = match is_known(headers, &tag, &modified) {
        true => text(StatusCode::NOT_MODIFIED, ""),
        false => text(StatusCode::OK, body),
    };
    let mut answer = with(answer, CONTENT_TYPE, format.content_type());
    for (name, value) in [
        (LAST_MODIFIED, modified.as_str()),
        (ETAG, &tag),
        (CACHE_CONTROL, "no-cache"),
        (VARY, "Accept"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        answer = with(answer, name, value);
    }
    if format == Format::Html {
        let policy = html::content_security_policy();
        answer = with(answer, CONTENT_SECURITY_POLICY, &policy);
        answer = with(answer, REFERRER_POLICY, "no-referrer");
    }
    answer
}

/// Tells contents apart, not more.
fn tag(body: &str) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(body.as_bytes());
    format!("\"{:016x}\"", hasher.finish())
}

/// Whether the client has just this page. A tag, where there is one, decides alone.
fn is_known(headers: &HeaderMap, tag: &str, modified: &str) -> bool {
    if let Some(known) = headers.get(IF_NONE_MATCH) {
        let known = known.to_str().unwrap_or_default();
        let mut tags = known.split(',').map(str::trim);
        return tags.any(|known| known == "*" || known.trim_start_matches("W/") == tag);
    }
    let since = headers
        .get(IF_MODIFIED_SINCE)
        .and_then(|value| value.to_str().ok())
        .and_then(|date| httpdate::parse_http_date(date).ok());
    // Compared as dates of whole seconds, as they were sent.
    let modified = httpdate::parse_http_date(modified).ok();
    since.is_some() && since >= modified
}

/// Probes now and relays what the origin said. It changes no state.
pub(super) async fn probe(check: Result<CheckNow, NoCheck>) -> Answer {
    let now = match check {
        Ok(now) => now,
        Err(NoCheck::Unknown) => {
            return text(
                StatusCode::NOT_FOUND,
                "no such backend, or it has no probe\n",
            );
        }
        Err(NoCheck::Busy) => {
            let answer = text(
                StatusCode::TOO_MANY_REQUESTS,
                "too many probes on demand, try again\n",
            );
            return with(answer, RETRY_AFTER, "1");
        }
    };
    let addresses = addresses_of(&now.check, &now.book);
    let asked = probing::ask(&now.check, &addresses).await;
    let mut answer = match asked {
        Err(error) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("error probing target: {error}\n"),
        ),
        Ok(found) => {
            let outcome = probing::judge(&now.check, &found);
            let mut answer = Response::new(Full::new(found.body));
            copy_headers(&found.headers, answer.headers_mut());
            *answer.status_mut() = found.status;
            if let Outcome::Failed(why) = outcome {
                // The expectation counts: an origin that answers 200 with the wrong body is not well.
                *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                let status = found.status.as_u16().to_string();
                answer = with(answer, ours("trk-hc-origin-status"), &status);
                answer = with(answer, ours("trk-hc-expectation"), &printable(&why));
            }
            // What an origin answers must not run as a page of this listener.
            answer = with(answer, CONTENT_SECURITY_POLICY, "sandbox");
            with(answer, X_CONTENT_TYPE_OPTIONS, "nosniff")
        }
    };
    answer = with(answer, CACHE_CONTROL, "no-store");
    answer = with(answer, ours("trk-hc-status"), &now.health.to_string());
    if now.health < 0 {
        answer = with(answer, ours("trk-hc-detail"), &printable(&now.detail));
    }
    drop(now.slot);
    answer
}

fn ours(name: &'static str) -> HeaderName {
    HeaderName::from_static(name)
}

/// A detail as a header value: it may hold what an origin sent.
fn printable(detail: &str) -> String {
    let fits = |c: char| c.is_ascii_graphic() || c == ' ';
    detail
        .chars()
        .map(|c| if fits(c) { c } else { '?' })
        .collect()
}

/// First values only, and none that speak of the connection or the length of the body.
fn copy_headers(from: &HeaderMap, to: &mut HeaderMap) {
    const HELD_BACK: [&str; 8] = [
        "connection",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
    ];
    for name in from.keys() {
        let value: Option<&HeaderValue> = from.get(name);
        if let Some(value) = value
            && !HELD_BACK.contains(&name.as_str())
        {
            to.insert(name, value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_page_is_told_by_tag_then_by_date() {
        let modified = "Wed, 01 Jan 2020 00:00:07 GMT";
        for (name, value, known) in [
            (IF_MODIFIED_SINCE, modified, true),
            (IF_MODIFIED_SINCE, "Wed, 01 Jan 2020 00:00:08 GMT", true),
            (IF_MODIFIED_SINCE, "Wed, 01 Jan 2020 00:00:06 GMT", false),
            (IF_MODIFIED_SINCE, "yesterday", false),
            (IF_NONE_MATCH, "\"a\"", true),
            (IF_NONE_MATCH, "\"b\", W/\"a\"", true),
            (IF_NONE_MATCH, "*", true),
            (IF_NONE_MATCH, "\"b\"", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(&name, HeaderValue::from_static(value));
            assert_eq!(
                is_known(&headers, "\"a\"", modified),
                known,
                "{name} {value}"
            );
        }
        let mut both = HeaderMap::new();
        both.insert(IF_NONE_MATCH, HeaderValue::from_static("\"b\""));
        both.insert(IF_MODIFIED_SINCE, HeaderValue::from_static(modified));
        assert!(
            !is_known(&both, "\"a\"", modified),
            "another state of the same second"
        );
        assert!(!is_known(&HeaderMap::new(), "\"a\"", modified));
    }

    #[test]
    fn tags_tell_contents_apart() {
        assert_eq!(tag("a"), tag("a"));
        assert_ne!(tag("a"), tag("b"));
    }

    #[test]
    fn details_fit_into_a_header() {
        assert_eq!(printable("a\r\nb: é"), "a??b: ?");
    }

    #[test]
    fn headers_of_the_connection_are_held_back() {
        let mut from = HeaderMap::new();
        from.insert("connection", HeaderValue::from_static("close"));
        from.append("x-a", HeaderValue::from_static("1"));
        from.append("x-a", HeaderValue::from_static("2"));
        let mut to = HeaderMap::new();
        copy_headers(&from, &mut to);
        assert_eq!(to.len(), 1);
        assert_eq!(to["x-a"], "1");
    }
}
