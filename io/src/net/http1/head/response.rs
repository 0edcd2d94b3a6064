//! A response's head.

use std::mem::MaybeUninit;

use super::fields::Fields;
use super::request::is_other_version;
use super::scan::Scan;
use super::{
    BodyFraming, HEADERS_MAX_CEILING, HeadError, HeadLimits, Headers, KnownHeader, Method, Parsed,
    Span, Version,
};

/// Length of `HTTP/1.1 200`: what comes before the reason.
const STATUS_LINE_FIXED: usize = 12;

/// The head of one response after another on an origin connection.
#[derive(Debug)]
pub struct ResponseHead {
    scan: Scan,
    fields: Fields,
    version: Version,
    status: u16,
    reason: Span,
    framing: BodyFraming,
    keep_alive: bool,
}

impl Default for ResponseHead {
    fn default() -> Self {
        Self::new()
    }
}

impl ResponseHead {
    /// An empty head; allocates with the first one it parses.
    pub fn new() -> ResponseHead {
        ResponseHead {
            scan: Scan::default(),
            fields: Fields::default(),
            version: Version::Http11,
            status: 0,
            reason: Span::default(),
            framing: BodyFraming::None,
            keep_alive: false,
        }
    }

    /// Forgets a head that was begun and will not be finished from the same buffer.
    pub fn reset(&mut self) {
        self.scan = Scan::default();
        self.fields.clear();
    }

    /// Parses the head that begins at `buf[0]` and answers a request of `request_method`. After
    /// `Partial`, the next call passes the same bytes with more behind them; after anything else
    /// it begins a new head.
    pub fn parse(
        &mut self,
        buf: &[u8],
        request_method: Method,
        limits: &HeadLimits,
    ) -> Result<Parsed, HeadError> {
        let limits = limits.clamped();
        match self.scan.advance(buf, &limits, false) {
            Ok(Parsed::Partial) => Ok(Parsed::Partial),
            Ok(Parsed::Complete(length)) => {
                self.scan = Scan::default();
                self.tokenise(&buf[..length], &limits)?;
                self.conclude(request_method)?;
                Ok(Parsed::Complete(length))
            }
            Err(error) => {
                self.scan = Scan::default();
                Err(error)
            }
        }
    }

    fn tokenise(&mut self, head: &[u8], limits: &HeadLimits) -> Result<(), HeadError> {
        let mut slots = [const { MaybeUninit::uninit() }; HEADERS_MAX_CEILING];
        let mut response = httparse::Response::new(&mut []);
        let config = httparse::ParserConfig::default();
        match config.parse_response_with_uninit_headers(&mut response, head, &mut slots) {
            Ok(httparse::Status::Complete(length)) if length == head.len() => {}
            // The scan saw the end of the head; a tokeniser that did not is not to be trusted.
            Ok(_) => return Err(HeadError::InvalidStartLine),
            Err(error) => return Err(translate(error, head, limits)),
        }
        let (Some(status), Some(minor)) = (response.code, response.version) else {
            return Err(HeadError::InvalidStartLine);
        };
        if status < 100 {
            return Err(HeadError::InvalidStatus);
        }
        self.version = if minor == 0 {
            Version::Http10
        } else {
            Version::Http11
        };
        self.status = status;
        self.reason = reason(head);
        self.fields.fill(head, response.headers, false)
    }

    /// Decides how the body ends and whether the connection can carry another exchange.
    fn conclude(&mut self, request_method: Method) -> Result<(), HeadError> {
        let said = self.fields.framing(self.version)?;
        let is_tunnel = request_method == Method::Connect && (200..300).contains(&self.status);
        let has_no_body = request_method == Method::Head
            || is_tunnel
            || self.status < 200
            || matches!(self.status, 204 | 304);
        self.keep_alive = self.fields.keep_alive(self.version);
        self.framing = match said {
            _ if has_no_body => BodyFraming::None,
            Some(framing) => framing,
            None => BodyFraming::UntilClose,
        };
        // An origin that frames a body where none may be might also send it.
        let frames_nothing = (self.status < 200 || self.status == 204)
            && (self.fields.has_transfer_encoding() || self.fields.content_length() > Some(0));
        if self.framing == BodyFraming::UntilClose || frames_nothing {
            self.keep_alive = false;
        }
        Ok(())
    }
}

// === What the head says ===

impl ResponseHead {
    /// The version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The status, 100 to 999.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The reason phrase as sent; may be empty.
    pub fn reason<'b>(&self, buf: &'b [u8]) -> &'b [u8] {
        self.reason.slice(buf)
    }

    /// Whether another head follows for the same request: 1xx other than 101.
    pub fn is_informational(&self) -> bool {
        self.status < 200 && self.status != 101
    }

    /// Whether the origin leaves HTTP/1 on this connection.
    pub fn is_switching_protocols(&self) -> bool {
        self.status == 101
    }

    /// How the body ends. `None` after a CONNECT that succeeded: what follows is the tunnel's.
    pub fn framing(&self) -> BodyFraming {
        self.framing
    }

    /// What `Content-Length` says, also where there is no body (HEAD, 304).
    pub fn content_length(&self) -> Option<u64> {
        self.fields.content_length()
    }

    /// Whether the connection can carry another exchange once the body has ended.
    pub fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// Whether the origin names another protocol and marks it as such; with 101, it was taken.
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

/// What the tokeniser drops when it is not ASCII is taken from the line itself.
fn reason(head: &[u8]) -> Span {
    let end = head
        .iter()
        .position(|&byte| byte == b'\r')
        .unwrap_or(head.len());
    let start = (STATUS_LINE_FIXED + 1).min(end);
    Span::new(start, end)
}

fn translate(error: httparse::Error, head: &[u8], limits: &HeadLimits) -> HeadError {
    match error {
        httparse::Error::HeaderName => HeadError::InvalidHeaderName,
        httparse::Error::HeaderValue => HeadError::InvalidHeaderValue,
        httparse::Error::TooManyHeaders => HeadError::TooManyHeaders {
            headers_max: limits.headers_max,
        },
        httparse::Error::Version if head.get(..8).is_some_and(is_other_version) => {
            HeadError::UnsupportedVersion
        }
        httparse::Error::Status => HeadError::InvalidStatus,
        _ => HeadError::InvalidStartLine,
    }
}
