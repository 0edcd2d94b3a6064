//! Message heads: from the first byte to the empty line.
//!
//! A head is parsed once, in place. [`RequestHead`] and [`ResponseHead`] hold offsets into the
//! caller's buffer, so each accessor that returns text takes that same buffer again; the caller
//! keeps the bytes at their place until it is done with the head. One value is reused for all
//! heads of a connection.
//!
//! Promises: a head that is `Complete` obeys every rule of [`HeadError`], and its framing is
//! beyond doubt. Bounds: [`HeadLimits`].

mod fields;
mod known;
mod request;
mod response;
mod scan;
mod target;
#[cfg(test)]
mod tests;

pub use fields::{Header, Headers};
pub use known::KnownHeader;
pub use request::{Method, RequestHead};
pub use response::ResponseHead;
pub use target::{TargetForm, is_valid_authority};

pub(super) use fields::is_token;

/// Default of [`HeadLimits::bytes_max`].
pub const HEAD_BYTES_MAX_DEFAULT: usize = 64 * 1024;
/// Default of [`HeadLimits::start_line_max`]: room for long queries sent by GET.
pub const START_LINE_BYTES_MAX_DEFAULT: usize = 32 * 1024;
/// Default of [`HeadLimits::headers_max`].
pub const HEADERS_MAX_DEFAULT: usize = 128;
/// No limit lets a head have more headers than this.
pub const HEADERS_MAX_CEILING: usize = 256;
/// No limit lets a head be longer than this: offsets are kept in 32 bits.
pub const HEAD_BYTES_MAX_CEILING: usize = u32::MAX as usize;

const _: () = assert!(START_LINE_BYTES_MAX_DEFAULT < HEAD_BYTES_MAX_DEFAULT);
const _: () = assert!(HEADERS_MAX_DEFAULT <= HEADERS_MAX_CEILING);

/// How large a head may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadLimits {
    /// Whole head, its empty line included.
    pub bytes_max: usize,
    /// First line, without its line end.
    pub start_line_max: usize,
    /// Header lines; never more than [`HEADERS_MAX_CEILING`].
    pub headers_max: usize,
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self {
            bytes_max: HEAD_BYTES_MAX_DEFAULT,
            start_line_max: START_LINE_BYTES_MAX_DEFAULT,
            headers_max: HEADERS_MAX_DEFAULT,
        }
    }
}

impl HeadLimits {
    /// The limits with what this module cannot represent cut off.
    fn clamped(&self) -> HeadLimits {
        HeadLimits {
            bytes_max: self.bytes_max.min(HEAD_BYTES_MAX_CEILING),
            start_line_max: self.start_line_max,
            headers_max: self.headers_max.min(HEADERS_MAX_CEILING),
        }
    }
}

/// How far parsing came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// More bytes are needed; call again with the same bytes and more behind them.
    Partial,
    /// The head is this many bytes long; what follows it is body, or the next message.
    Complete(usize),
}

/// Version of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
}

/// How a message's body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFraming {
    /// There is no body.
    None,
    /// It is this many bytes long; zero when the message says so itself.
    Length(u64),
    /// It comes in chunks.
    Chunked,
    /// It ends with the connection. Only responses.
    UntilClose,
}

/// A run of bytes of the caller's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn new(start: usize, end: usize) -> Span {
        debug_assert!(start <= end, "a span ends behind its start");
        debug_assert!(
            end <= HEAD_BYTES_MAX_CEILING,
            "the limits keep heads below 4 GiB"
        );
        Span {
            start: start as u32,
            end: end as u32,
        }
    }

    /// Where `part`, a piece of `whole`, lies in it.
    fn of(whole: &[u8], part: &[u8]) -> Span {
        if part.is_empty() {
            return Span::default();
        }
        let start = part.as_ptr().addr() - whole.as_ptr().addr();
        Span::new(start, start + part.len())
    }

    fn slice(self, buf: &[u8]) -> &[u8] {
        &buf[self.start as usize..self.end as usize]
    }

    fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// A table of letters, digits and `others`, for classes that are looked up byte by byte.
const fn byte_class(others: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut index = 0;
    while index < others.len() {
        table[others[index] as usize] = true;
        index += 1;
    }
    table
}

/// Why a head was refused. After any of them the connection is closed: where the next message
/// would begin is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// The head reaches beyond its bound.
    #[error("head is longer than {bytes_max} bytes")]
    TooLarge {
        /// The bound.
        bytes_max: usize,
    },
    /// The first line alone reaches beyond its bound.
    #[error("start line is longer than {bytes_max} bytes")]
    StartLineTooLong {
        /// The bound.
        bytes_max: usize,
    },
    /// More header lines than allowed.
    #[error("more than {headers_max} headers")]
    TooManyHeaders {
        /// The bound.
        headers_max: usize,
    },
    /// LF without CR in front of it.
    #[error("line feed without carriage return at byte {at}")]
    BareLineFeed {
        /// Offset in the buffer.
        at: usize,
    },
    /// CR without LF behind it.
    #[error("carriage return without line feed at byte {at}")]
    BareCarriageReturn {
        /// Offset in the buffer.
        at: usize,
    },
    /// NUL, another control byte, or DEL.
    #[error("control byte {byte:#04x} at byte {at}")]
    ControlByte {
        /// Offset in the buffer.
        at: usize,
        /// The byte.
        byte: u8,
    },
    /// A line begins with space or tab: a folded header, or space before the first header.
    #[error("line at byte {at} begins with whitespace (folded headers are not accepted)")]
    LeadingWhitespace {
        /// Offset in the buffer.
        at: usize,
    },
    /// An empty line where the start line must be.
    #[error("empty line in place of a start line")]
    EmptyStartLine,
    /// The first line is not `method target version` or `version status reason`.
    #[error("malformed start line")]
    InvalidStartLine,
    /// The method is not a token.
    #[error("method is not a token")]
    InvalidMethod,
    /// The target is in none of the four forms, or not in the one its method needs.
    #[error("invalid request target")]
    InvalidTarget,
    /// A version other than 1.0 and 1.1.
    #[error("protocol version is neither HTTP/1.0 nor HTTP/1.1")]
    UnsupportedVersion,
    /// A status that is not a number from 100 to 999.
    #[error("invalid status code")]
    InvalidStatus,
    /// Empty, or not a token, or space before the colon, or no colon.
    #[error("invalid header name")]
    InvalidHeaderName,
    /// A byte that no header value may hold.
    #[error("invalid header value")]
    InvalidHeaderValue,
    /// HTTP/1.1 without Host.
    #[error("no host header")]
    MissingHost,
    /// Host given twice.
    #[error("more than one host header")]
    DuplicateHost,
    /// Host is not `name`, `name:port`, an address, or is empty.
    #[error("invalid host header")]
    InvalidHost,
    /// Content-Length is not a plain number that fits 64 bits.
    #[error("invalid content-length")]
    InvalidContentLength,
    /// Content-Length given twice, even with one value.
    #[error("more than one content-length")]
    DuplicateContentLength,
    /// Content-Length beside Transfer-Encoding.
    #[error("content-length together with transfer-encoding")]
    ConflictingFraming,
    /// Transfer-Encoding whose last coding is not `chunked`, or that is malformed.
    #[error("transfer-encoding does not end with a single chunked")]
    InvalidTransferEncoding,
    /// A coding before `chunked` that ringway does not undo.
    #[error("transfer coding other than chunked")]
    UnknownTransferCoding,
    /// Transfer-Encoding in a message of a version that does not know it.
    #[error("transfer-encoding in an HTTP/1.0 message")]
    TransferEncodingInHttp10,
    /// A body on a CONNECT request.
    #[error("CONNECT request with a body")]
    ConnectWithBody,
    /// Expect with something other than `100-continue`.
    #[error("expectation other than 100-continue")]
    UnknownExpectation,
}

impl HeadError {
    /// Status a client is answered with. For an origin's head it is 502, whatever the error.
    pub fn status(&self) -> u16 {
        match self {
            Self::TooLarge { .. } | Self::TooManyHeaders { .. } => 431,
            Self::StartLineTooLong { .. } => 414,
            Self::UnsupportedVersion => 505,
            Self::UnknownTransferCoding => 501,
            Self::UnknownExpectation => 417,
            _ => 400,
        }
    }
}
