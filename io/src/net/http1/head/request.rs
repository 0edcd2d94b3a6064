//! A request's head.

use std::mem::MaybeUninit;

use super::fields::Fields;
use super::scan::Scan;
use super::target::{Target, TargetForm};
use super::{
    BodyFraming, HEADERS_MAX_CEILING, HeadError, HeadLimits, Headers, KnownHeader, Parsed, Span,
    Version, is_token, is_valid_authority,
};

/// A request method. Names are case-sensitive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each variant is the method of that name")]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Connect,
    Options,
    Trace,
    Patch,
    Purge,
    /// Any other token; its text is [`RequestHead::method_text`].
    Other,
}

impl Method {
    /// The method of this name.
    pub fn classify(name: &[u8]) -> Method {
        match name {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"CONNECT" => Self::Connect,
            b"OPTIONS" => Self::Options,
            b"TRACE" => Self::Trace,
            b"PATCH" => Self::Patch,
            b"PURGE" => Self::Purge,
            _ => Self::Other,
        }
    }

    /// Whether doing it twice is as good as doing it once. Contract: RFC 9110 section 9.2.2.
    pub fn is_idempotent(self) -> bool {
        matches!(
            self,
            Self::Get | Self::Head | Self::Put | Self::Delete | Self::Options | Self::Trace
        )
    }
}

/// The head of one request after another on a connection.
#[derive(Debug)]
pub struct RequestHead {
    scan: Scan,
    fields: Fields,
    method: Method,
    method_text: Span,
    version: Version,
    target: Target,
    framing: BodyFraming,
    authority: Option<Span>,
}

impl Default for RequestHead {
    fn default() -> Self {
        Self::new()
    }
}

impl RequestHead {
    /// An empty head; allocates with the first one it parses.
    pub fn new() -> RequestHead {
        RequestHead {
            scan: Scan::default(),
            fields: Fields::default(),
            method: Method::Other,
            method_text: Span::default(),
            version: Version::Http11,
            target: Target::EMPTY,
            framing: BodyFraming::None,
            authority: None,
        }
    }

    /// Forgets a head that was begun and will not be finished from the same buffer.
    pub fn reset(&mut self) {
        self.scan = Scan::default();
        self.fields.clear();
    }

    /// Parses the head that begins at `buf[0]`. After `Partial`, the next call passes the same
    /// bytes with more behind them; after anything else it begins a new head.
    pub fn parse(&mut self, buf: &[u8], limits: &HeadLimits) -> Result<Parsed, HeadError> {
        let limits = limits.clamped();
        match self.scan.advance(buf, &limits, true) {
            Ok(Parsed::Partial) => Ok(Parsed::Partial),
            Ok(Parsed::Complete(length)) => {
                let leading = self.scan.leading();
                self.scan = Scan::default();
                self.tokenise(&buf[..length], leading, &limits)?;
                Ok(Parsed::Complete(length))
            }
            Err(error) => {
                self.scan = Scan::default();
                Err(error)
            }
        }
    }

    fn tokenise(
        &mut self,
        head: &[u8],
        leading: usize,
        limits: &HeadLimits,
    ) -> Result<(), HeadError> {
        let text = &head[leading..];
        let mut slots = [const { MaybeUninit::uninit() }; HEADERS_MAX_CEILING];
        let mut request = httparse::Request::new(&mut []);
        match request.parse_with_uninit_headers(text, &mut slots) {
            Ok(httparse::Status::Complete(length)) if length == text.len() => {}
            // The scan saw the end of the head; a tokeniser that did not is not to be trusted.
            Ok(_) => return Err(HeadError::InvalidStartLine),
            Err(error) => return Err(translate(error, text, limits)),
        }
        let (Some(method), Some(path), Some(minor)) =
            (request.method, request.path, request.version)
        else {
            return Err(HeadError::InvalidStartLine);
        };
        self.version = if minor == 0 {
            Version::Http10
        } else {
            Version::Http11
        };
        self.method_text = Span::of(head, method.as_bytes());
        self.method = Method::classify(method.as_bytes());
        self.target = Target::parse(head, Span::of(head, path.as_bytes()), self.method)?;
        self.fields.fill(head, request.headers, true)?;
        self.conclude(head)
    }

    /// Judges what the headers say together.
    fn conclude(&mut self, head: &[u8]) -> Result<(), HeadError> {
        match self.fields.host() {
            Some(host) if !is_valid_authority(host.slice(head)) => {
                return Err(HeadError::InvalidHost);
            }
            None if self.version == Version::Http11 => return Err(HeadError::MissingHost),
            _ => {}
        }
        // An absolute target overrules Host. Contract: RFC 9112 section 3.2.2.
        self.authority = self.target.authority.or(self.fields.host());
        self.framing = self
            .fields
            .framing(self.version)?
            .unwrap_or(BodyFraming::None);
        if self.method == Method::Connect {
            if !matches!(self.framing, BodyFraming::None | BodyFraming::Length(0)) {
                return Err(HeadError::ConnectWithBody);
            }
            self.framing = BodyFraming::None;
        }
        Ok(())
    }
}

// === What the head says ===

impl RequestHead {
    /// The method.
    pub fn method(&self) -> Method {
        self.method
    }

    /// The method as sent.
    pub fn method_text<'b>(&self, buf: &'b [u8]) -> &'b [u8] {
        self.method_text.slice(buf)
    }

    /// The version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The whole request target.
    pub fn target<'b>(&self, buf: &'b [u8]) -> &'b [u8] {
        self.target.whole.slice(buf)
    }

    /// Form of the target.
    pub fn target_form(&self) -> TargetForm {
        self.target.form
    }

    /// Whether the target is absolute with scheme `https`.
    pub fn target_is_https(&self) -> bool {
        self.target.is_https
    }

    /// Path of the target. `/` for an absolute target without one, `*` for the asterisk form,
    /// empty for CONNECT.
    pub fn path<'b>(&self, buf: &'b [u8]) -> &'b [u8] {
        if self.target.form == TargetForm::Absolute && self.target.path.is_empty() {
            return b"/";
        }
        self.target.path.slice(buf)
    }

    /// What follows the first `?` of the target.
    pub fn query<'b>(&self, buf: &'b [u8]) -> Option<&'b [u8]> {
        self.target.query.map(|query| query.slice(buf))
    }

    /// Host and port the request is for: of the target when it has them, else of `Host`. `None`
    /// only in HTTP/1.0.
    pub fn authority<'b>(&self, buf: &'b [u8]) -> Option<&'b [u8]> {
        self.authority.map(|authority| authority.slice(buf))
    }

    /// Value of `Host` as sent.
    pub fn host<'b>(&self, buf: &'b [u8]) -> Option<&'b [u8]> {
        self.fields.host().map(|host| host.slice(buf))
    }

    /// How the body ends; never `UntilClose`.
    pub fn framing(&self) -> BodyFraming {
        self.framing
    }

    /// Whether the client keeps the connection open after the answer.
    pub fn keep_alive(&self) -> bool {
        self.fields.keep_alive(self.version)
    }

    /// Whether the client waits for `100 Continue` before it sends the body.
    pub fn expect_continue(&self) -> bool {
        self.version == Version::Http11 && self.fields.expect_continue()
    }

    /// Whether the client offers another protocol; which, is the value of `Upgrade`.
    pub fn upgrade(&self) -> bool {
        self.fields.upgrade(self.version)
    }

    /// All headers, in order.
    pub fn headers<'h, 'b>(&'h self, buf: &'b [u8]) -> Headers<'h, 'b> {
        self.fields.headers(buf)
    }

    /// Value of the first header of this kind; `Other` finds the first unknown one.
    pub fn first<'b>(&self, buf: &'b [u8], known: KnownHeader) -> Option<&'b [u8]> {
        self.fields.first(buf, known)
    }

    /// Value of the first header of this name, in any case.
    pub fn find<'b>(&self, buf: &'b [u8], name: &[u8]) -> Option<&'b [u8]> {
        self.fields.find(buf, name)
    }

    /// Whether a field of this name stays on this connection. For trailers; headers carry the
    /// answer already.
    pub fn is_hop_by_hop(&self, buf: &[u8], name: &[u8]) -> bool {
        self.fields.is_hop_by_hop(buf, name)
    }
}

/// Finds out which part of the head the tokeniser stumbled on.
fn translate(error: httparse::Error, text: &[u8], limits: &HeadLimits) -> HeadError {
    let line = text.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|&byte| byte == b' ');
    let method = words.next().unwrap_or_default();
    let last = words.next_back().unwrap_or_default();
    match error {
        httparse::Error::HeaderName => HeadError::InvalidHeaderName,
        httparse::Error::HeaderValue => HeadError::InvalidHeaderValue,
        httparse::Error::TooManyHeaders => HeadError::TooManyHeaders {
            headers_max: limits.headers_max,
        },
        httparse::Error::Version if is_other_version(last) => HeadError::UnsupportedVersion,
        httparse::Error::Token if !is_token(method) => HeadError::InvalidMethod,
        httparse::Error::Token => HeadError::InvalidTarget,
        _ => HeadError::InvalidStartLine,
    }
}

/// `HTTP/`, digit, dot, digit, but not a version this module reads. Case matters.
pub(super) fn is_other_version(text: &[u8]) -> bool {
    matches!(text, [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
        if major.is_ascii_digit() && minor.is_ascii_digit()
            && !matches!((major, minor), (b'1', b'0' | b'1')))
}
