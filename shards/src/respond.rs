//! Every answer that ringway makes itself, and the one place that turns an error into one.

use std::borrow::Cow;
use std::time::Duration;

use ringway_io::net::deadline::Tripped;
use ringway_io::net::http1::{BodyError, HeadError, Method, Version, write};

use crate::clock::HttpDate;
use crate::headers;
use crate::passage::Front;
use crate::peers::AcquireError;
use crate::plan::Methods;

/// Whose fault a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The client's: its connection is closed, since what it sends next cannot be trusted.
    Client,
    /// The origin's, or that of the way to it.
    Upstream,
    /// Ours, or the configuration's.
    Local,
}

/// Why a request gets an answer of ours.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The head breaks a rule.
    #[error("{0}")]
    Head(#[from] HeadError),
    /// The body's framing breaks a rule.
    #[error("{0}")]
    Body(BodyError),
    /// The body is larger than the listener allows.
    #[error("request body is larger than {bytes_max} bytes")]
    BodyTooLarge {
        /// The listener's bound.
        bytes_max: u64,
    },
    /// A target that no route can serve, such as `*`.
    #[error("request target cannot be served here")]
    Target,
    /// A path that servers read in different ways.
    #[error(
        "request path can be read in more than one way: send it without dot segments and backslashes, encoded or not"
    )]
    Roundabout,
    /// A method that the path, or ringway, does not serve.
    #[error("method is not served here")]
    Method {
        /// Those that are.
        allowed: Methods,
    },
    /// The backend has no rule for this path.
    #[error("no path of this backend fits")]
    NoPath,
    /// Nothing serves this host and path.
    #[error("no backend serves this host and path")]
    NoRoute,
    /// No member of the pool is live.
    #[error("no member of {alb} is live")]
    NoLiveMember {
        /// The ALB.
        alb: Box<str>,
    },
    /// An authenticator refused the request.
    #[error("credentials are missing or wrong")]
    Unauthorized {
        /// Realm of the challenge; `None`: no challenge.
        realm: Option<Box<str>>,
    },
    /// So many passwords are being checked that this one cannot be.
    #[error("too many passwords are being checked")]
    LoginsBusy,
    /// A user router has no backend to use.
    #[error("no backend of {router} can be used for this user")]
    NoUserRoute {
        /// The router.
        router: Box<str>,
        /// The status it is configured to answer with.
        status: u16,
    },
    /// A rule sends the client elsewhere.
    #[error("a rule redirects this request")]
    Redirect {
        /// The status.
        status: u16,
        /// Value of `Location`.
        location: Box<[u8]>,
    },
    /// A rule sends the client elsewhere, and that cannot be sent.
    #[error("what this request is redirected to cannot be made of it")]
    NoLocation,
    /// More rules in a row than the first of them, or one behind it, allows.
    #[error("request passed as many rules as it may")]
    RuleBudget,
    /// A rewriter names a host whose addresses nobody knows.
    #[error("no address of {host} is known: a rewriter made this name")]
    UnknownHost {
        /// The host.
        host: Box<str>,
    },
    /// More virtual backends in a row than allowed.
    #[error("request passed more than {hops_max} virtual backends")]
    TooManyHops {
        /// The bound.
        hops_max: usize,
    },
    /// There is no connection to the origin.
    #[error("{0}")]
    Acquire(#[from] AcquireError),
    /// The connection ended before a whole answer head came.
    #[error("origin closed the connection before it answered")]
    NoAnswer {
        /// Not one byte of an answer came.
        before_any_byte: bool,
    },
    /// The origin's head breaks a rule.
    #[error("origin answered with a bad head: {0}")]
    AnswerHead(HeadError),
    /// The origin's body framing breaks a rule, or it ended early.
    #[error("origin answered with a bad body: {0}")]
    AnswerBody(BodyError),
    /// The range of a query is longer than allowed.
    #[error("query range is longer than the limit of {}", period(*limit))]
    QueryRange {
        /// The limit.
        limit: Duration,
    },
    /// The range of a query cannot be read, and so not be held against the limit.
    #[error(
        "start or end of the query cannot be read, and its range is limited to {}: write seconds or RFC 3339 times",
        period(*limit)
    )]
    QueryRangeUnread {
        /// The limit.
        limit: Duration,
    },
    /// Time is up while the client was to send.
    #[error("request did not arrive in time")]
    RequestTimeout,
    /// Time is up while the origin was to answer.
    #[error("origin did not answer in time")]
    UpstreamTimeout,
    /// The member did not begin to answer within the limit of one try, and another is asked.
    #[error("origin did not begin to answer within the limit of a try")]
    TryTimeout,
    /// The member became unavailable before it answered, and another is asked.
    #[error("origin became unavailable before it answered")]
    MemberLost,
    /// The client went away; nobody reads an answer.
    #[error("client closed the connection")]
    ClientGone,
    /// Something failed that only a bug of ours can cause.
    #[error("internal error")]
    Internal,
}

impl Failure {
    /// The failure that a tripped deadline means, by who was being waited for.
    pub(crate) fn tripped(why: Tripped, fault: Fault) -> Failure {
        match (why, fault) {
            (Tripped::Gone | Tripped::Stopped, _) => Failure::ClientGone,
            (Tripped::Expired, Fault::Client) => Failure::RequestTimeout,
            (Tripped::Expired, Fault::Upstream | Fault::Local) => Failure::UpstreamTimeout,
        }
    }

    /// Status of the answer; 499 stands for no answer at all.
    pub(crate) fn status(&self) -> u16 {
        match self {
            Failure::Head(error) => error.status(),
            Failure::Body(_)
            | Failure::Target
            | Failure::Roundabout
            | Failure::QueryRange { .. }
            | Failure::QueryRangeUnread { .. } => 400,
            Failure::TooManyHops { .. } | Failure::RuleBudget | Failure::NoLocation => 400,
            Failure::Redirect { status, .. } => *status,
            Failure::BodyTooLarge { .. } => 413,
            Failure::Method { .. } => 405,
            Failure::NoRoute | Failure::NoPath => 404,
            Failure::RequestTimeout => 408,
            Failure::UpstreamTimeout | Failure::TryTimeout => 504,
            Failure::Unauthorized { .. } => 401,
            Failure::LoginsBusy => 503,
            Failure::NoUserRoute { status, .. } => *status,
            Failure::ClientGone => 499,
            Failure::Internal => 500,
            Failure::NoLiveMember { .. }
            | Failure::UnknownHost { .. }
            | Failure::Acquire(_)
            | Failure::NoAnswer { .. }
            | Failure::MemberLost
            | Failure::AnswerHead(_)
            | Failure::AnswerBody(_) => 502,
        }
    }

    /// Whose fault it is.
    pub(crate) fn fault(&self) -> Fault {
        if matches!(
            self,
            Failure::Unauthorized { .. }
                | Failure::LoginsBusy
                | Failure::NoUserRoute { .. }
                | Failure::Redirect { .. }
                | Failure::RuleBudget
                | Failure::NoLocation
        ) {
            return Fault::Local;
        }
        match self.status() {
            502 | 504 => Fault::Upstream,
            500 => Fault::Local,
            _ => Fault::Client,
        }
    }

    /// Whether the way to the origin failed, not what it said.
    pub(crate) fn is_of_transport(&self) -> bool {
        matches!(
            self,
            Failure::Acquire(_)
                | Failure::NoAnswer { .. }
                | Failure::TryTimeout
                | Failure::UpstreamTimeout
        )
    }

    /// Whether the client's connection cannot be trusted with another request. What is only not served here says
    /// nothing about how the client frames.
    pub(crate) fn ends_connection(&self) -> bool {
        let is_only_unserved = matches!(
            self,
            Failure::Method { .. }
                | Failure::NoPath
                | Failure::Roundabout
                | Failure::NoRoute
                | Failure::QueryRange { .. }
                | Failure::QueryRangeUnread { .. }
        );
        self.fault() == Fault::Client && !is_only_unserved
    }

    /// Whether it is the answer of a backend's own paths, authenticator or users to a request that came to it.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(
            self,
            Failure::NoPath
                | Failure::Method { .. }
                | Failure::Unauthorized { .. }
                | Failure::LoginsBusy
                | Failure::NoUserRoute { .. }
                | Failure::Redirect { .. }
                | Failure::RuleBudget
                | Failure::NoLocation
        )
    }

    /// Whether nobody has read the request, so that another member may get it.
    pub(crate) fn spares_request(&self) -> bool {
        matches!(self, Failure::Acquire(_))
    }

    /// Whether the member has said nothing, so that another may be asked if the request allows it.
    pub(crate) fn is_silent(&self) -> bool {
        let waited = matches!(
            self,
            Failure::TryTimeout | Failure::MemberLost | Failure::UpstreamTimeout
        );
        waited || self.spares_request() || self.may_retry()
    }

    /// Whether the same request may be sent again on a fresh connection, if it is idempotent.
    pub(crate) fn may_retry(&self) -> bool {
        matches!(
            self,
            Failure::NoAnswer {
                before_any_byte: true
            }
        )
    }
}

/// A duration as an operator writes it: `1h30m`.
fn period(duration: Duration) -> String {
    let mut seconds = duration.as_secs();
    let mut text = String::new();
    for (unit, length) in [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)] {
        if seconds >= length {
            text.push_str(&format!("{}{unit}", seconds / length));
            seconds %= length;
        }
    }
    if text.is_empty() {
        format!("{}ms", duration.as_millis())
    } else {
        text
    }
}

/// What surrounds an answer of ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// Method of the request.
    pub(crate) method: Method,
    /// Version of the request.
    pub(crate) version: Version,
    /// The connection stays open.
    pub(crate) keep: bool,
}

/// What the answer to a failure says.
#[derive(Debug)]
pub(crate) struct Words {
    pub(crate) content_type: Option<&'static str>,
    /// A header line that belongs to its status.
    pub(crate) extra: Option<(&'static str, Cow<'static, [u8]>)>,
    pub(crate) body: Cow<'static, [u8]>,
}

impl Words {
    /// Bodies of 5xx are empty (Contract: ALB page, 8), others say why.
    pub(crate) fn of(failure: &Failure) -> Words {
        match failure.fault() {
            Fault::Local => Words::of_refusal(failure),
            Fault::Upstream => Words {
                content_type: None,
                extra: Some((
                    "X-Trickster-Result",
                    b"engine=HTTPProxy; status=proxy-error".into(),
                )),
                body: Cow::default(),
            },
            Fault::Client => Words {
                content_type: Some("text/plain; charset=utf-8"),
                extra: match failure {
                    Failure::Method { allowed } => {
                        Some(("Allow", allowed.allow().into_bytes().into()))
                    }
                    _ => None,
                },
                body: format!("{failure}\n").into_bytes().into(),
            },
        }
    }

    /// Of answers that are not about the way to an origin. Contract: config page, 6; ALB page, 6.6 (no route).
    fn of_refusal(failure: &Failure) -> Words {
        let extra: Option<(&str, Cow<'_, [u8]>)> = match failure {
            Failure::Unauthorized { realm: Some(realm) } => {
                Some(("WWW-Authenticate", challenge(realm).into()))
            }
            Failure::LoginsBusy => Some(("Retry-After", b"1".into())),
            Failure::Redirect { location, .. } => Some(("Location", location.to_vec().into())),
            _ => None,
        };
        let body: &[u8] = match (failure, failure.status()) {
            (Failure::Unauthorized { .. } | Failure::NoUserRoute { .. }, 401) => b"Unauthorized",
            (Failure::NoUserRoute { .. }, 404) => b"Resource Not Found",
            _ => b"",
        };
        Words {
            content_type: (!body.is_empty()).then_some("text/plain"),
            extra,
            body: body.into(),
        }
    }
}

/// Appends the answer to a failure.
pub(crate) fn failure(
    out: &mut Vec<u8>,
    failure: &Failure,
    framed: (Frame, &HttpDate),
    front: &Front<'_>,
) {
    let words = Words::of(failure);
    let extra = words.extra.as_ref().map(|(name, value)| (*name, &**value));
    let answer = Answer {
        status: failure.status(),
        content_type: words.content_type,
        extra: extra.as_slice(),
        body: &words.body,
    };
    local(out, &answer, framed, front);
}

/// The realm as a quoted string; what cannot be in one is left out. Contract: RFC 9110, 5.6.4.
fn challenge(realm: &str) -> Vec<u8> {
    let mut value = b"Basic realm=\"".to_vec();
    for byte in realm.bytes().filter(|byte| !byte.is_ascii_control()) {
        if matches!(byte, b'"' | b'\\') {
            value.push(b'\\');
        }
        value.push(byte);
    }
    value.push(b'"');
    value
}

/// A whole answer made here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) content_type: Option<&'a str>,
    pub(crate) extra: &'a [(&'a str, &'a [u8])],
    pub(crate) body: &'a [u8],
}

/// Appends a whole answer. Rules change its headers; status and body say what happened.
pub(crate) fn local(
    out: &mut Vec<u8>,
    answer: &Answer<'_>,
    (frame, date): (Frame, &HttpDate),
    front: &Front<'_>,
) {
    write::status_line(out, answer.status);
    let start = out.len();
    write::header(out, b"Date", date);
    if let Some(content_type) = answer.content_type {
        write::header(out, b"Content-Type", content_type.as_bytes());
    }
    for (name, value) in answer.extra {
        write::header(out, name.as_bytes(), value);
    }
    headers::finish_answer(out, start, front);
    connection(out, frame);
    if answer.status != 204 && answer.status >= 200 {
        write::content_length(out, answer.body.len() as u64);
    }
    write::end_of_head(out);
    if frame.method != Method::Head {
        out.extend_from_slice(answer.body);
    }
}

/// Appends the `Connection` header an answer needs, if it needs one.
pub(crate) fn connection(out: &mut Vec<u8>, frame: Frame) {
    match (frame.version, frame.keep) {
        (_, false) => write::header(out, b"Connection", b"close"),
        (Version::Http10, true) => write::header(out, b"Connection", b"keep-alive"),
        (Version::Http11, true) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: HttpDate = *b"Sun, 06 Nov 1994 08:49:37 GMT";

    #[test]
    fn a_bad_gateway_has_an_empty_body_and_keeps_the_connection() {
        let mut out = Vec::new();
        let frame = Frame {
            method: Method::Get,
            version: Version::Http11,
            keep: true,
        };
        failure(
            &mut out,
            &Failure::NoLiveMember { alb: "web".into() },
            (frame, &DATE),
            &Front::default(),
        );
        let text = String::from_utf8(out).expect("ASCII");
        assert!(text.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{text}");
        let date = "\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        assert!(text.contains(date), "{text}");
        assert!(text.ends_with("Content-Length: 0\r\n\r\n"), "{text}");
        assert!(!text.contains("Connection"), "{text}");
    }

    #[test]
    fn a_limit_is_named_as_it_is_written() {
        assert_eq!(period(Duration::from_secs(3600)), "1h");
        assert_eq!(period(Duration::from_secs(93_784)), "1d2h3m4s");
        assert_eq!(period(Duration::from_millis(250)), "250ms");
    }

    #[test]
    fn who_is_refused_is_asked_in_where_there_is_a_realm() {
        let frame = Frame {
            method: Method::Get,
            version: Version::Http11,
            keep: true,
        };
        let answer = |failure| {
            let mut out = Vec::new();
            super::failure(&mut out, &failure, (frame, &DATE), &Front::default());
            String::from_utf8(out).expect("text")
        };
        let asked = answer(Failure::Unauthorized {
            realm: Some("a \"b\"\r\n".into()),
        });
        assert!(asked.starts_with("HTTP/1.1 401 "), "{asked}");
        assert!(asked.contains("Content-Type: text/plain\r\n"), "{asked}");
        assert!(
            asked.contains("\r\nWWW-Authenticate: Basic realm=\"a \\\"b\\\"\"\r\n"),
            "{asked}"
        );
        assert!(asked.ends_with("\r\n\r\nUnauthorized"), "{asked}");
        let silent = answer(Failure::Unauthorized { realm: None });
        assert!(!silent.contains("WWW-Authenticate"), "{silent}");
        for (status, body) in [
            (401, "Unauthorized"),
            (404, "Resource Not Found"),
            (502, ""),
            (403, ""),
            (599, ""),
        ] {
            let router = "users".into();
            let text = answer(Failure::NoUserRoute { router, status });
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{text}");
            assert!(text.ends_with(&format!("\r\n\r\n{body}")), "{text}");
        }
    }

    #[test]
    fn a_refusal_says_why() {
        let mut out = Vec::new();
        let frame = Frame {
            method: Method::Get,
            version: Version::Http11,
            keep: false,
        };
        let refusal = Failure::Head(HeadError::DuplicateHost);
        failure(&mut out, &refusal, (frame, &DATE), &Front::default());

        let text = String::from_utf8(out).expect("ASCII");
        assert!(text.contains("\r\nConnection: close\r\n"), "{text}");
        assert!(
            text.ends_with("\r\n\r\nmore than one host header\n"),
            "{text}"
        );
    }
}
