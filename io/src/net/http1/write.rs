//! The text ringway writes: start lines, headers, chunk framing, dates.
//!
//! Every function appends to a buffer the caller owns and does nothing else; none goes through
//! `core::fmt`. Names and values are the caller's: those that do not come from a parsed head are
//! judged once, where they enter, by [`is_valid_header_name`] and [`is_valid_header_value`].

mod date;
#[cfg(test)]
mod tests;

pub use date::{DateCache, HTTP_DATE_BYTES};

use super::head::{Version, is_token};

/// Digits of `u64::MAX`.
const DECIMAL_DIGITS_MAX: usize = 20;
/// Hexadecimal digits of `u64::MAX`.
const HEX_DIGITS_MAX: usize = 16;

/// Behind the data of each chunk.
pub const CHUNK_END: &[u8] = b"\r\n";
/// The last chunk, up to where trailers go; the empty line of [`end_of_head`] follows.
pub const LAST_CHUNK: &[u8] = b"0\r\n";
/// The last chunk of a body without trailers.
pub const LAST_CHUNK_AND_END: &[u8] = b"0\r\n\r\n";
/// The interim answer to `Expect: 100-continue`.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// `GET /path HTTP/1.1`. The target is written as given.
pub fn request_line(out: &mut Vec<u8>, method: &[u8], target: &[u8], version: Version) {
    debug_assert!(is_token(method), "a method is a token");
    debug_assert!(
        is_valid_target(target),
        "a target has no spaces and no controls"
    );
    out.extend_from_slice(method);
    out.push(b' ');
    out.extend_from_slice(target);
    out.push(b' ');
    out.extend_from_slice(version_text(version));
    out.extend_from_slice(b"\r\n");
}

/// `HTTP/1.1 200 OK`, with the reason that belongs to the status.
pub fn status_line(out: &mut Vec<u8>, status: u16) {
    status_line_with_reason(out, status, reason_phrase(status).as_bytes());
}

/// `HTTP/1.1 200 …`, with a reason as an origin sent it.
pub fn status_line_with_reason(out: &mut Vec<u8>, status: u16, reason: &[u8]) {
    debug_assert!((100..=999).contains(&status), "a status has three digits");
    debug_assert!(is_valid_header_value(reason), "a reason has no controls");
    out.extend_from_slice(b"HTTP/1.1 ");
    decimal(out, u64::from(status));
    out.push(b' ');
    out.extend_from_slice(reason);
    out.extend_from_slice(b"\r\n");
}

/// `Name: value`.
#[inline]
pub fn header(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    debug_assert!(is_valid_header_name(name), "a header name is a token");
    debug_assert!(
        is_valid_header_value(value),
        "a header value has no controls"
    );
    out.reserve(name.len() + value.len() + 4);
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// `Name: 123`.
pub fn header_decimal(out: &mut Vec<u8>, name: &[u8], value: u64) {
    debug_assert!(is_valid_header_name(name), "a header name is a token");
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    decimal(out, value);
    out.extend_from_slice(b"\r\n");
}

/// `Content-Length: 123`.
pub fn content_length(out: &mut Vec<u8>, length: u64) {
    header_decimal(out, b"Content-Length", length);
}

/// `Transfer-Encoding: chunked`.
pub fn transfer_encoding_chunked(out: &mut Vec<u8>) {
    out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
}

/// The empty line behind headers, or behind trailers.
pub fn end_of_head(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

/// What goes in front of the data of a chunk; [`CHUNK_END`] goes behind it. Not for empty data,
/// which would end the body.
pub fn chunk_header(out: &mut Vec<u8>, length: u64) {
    debug_assert!(length > 0, "a chunk of no bytes ends the body");
    hex(out, length);
    out.extend_from_slice(b"\r\n");
}

/// A number in decimal.
pub fn decimal(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0_u8; DECIMAL_DIGITS_MAX];
    let mut first = DECIMAL_DIGITS_MAX;
    loop {
        first -= 1;
        digits[first] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[first..]);
}

/// A number in hexadecimal, lower case.
pub fn hex(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0_u8; HEX_DIGITS_MAX];
    let mut first = HEX_DIGITS_MAX;
    loop {
        first -= 1;
        digits[first] = b"0123456789abcdef"[(value & 0xf) as usize];
        value >>= 4;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[first..]);
}

/// Whether `name` may be a header name.
pub fn is_valid_header_name(name: &[u8]) -> bool {
    is_token(name)
}

/// Whether `value` may be a header value: no controls but tab.
pub fn is_valid_header_value(value: &[u8]) -> bool {
    value
        .iter()
        .all(|&byte| byte == b'\t' || (byte >= 0x20 && byte != 0x7f))
}

/// Whether `target` may stand in a request line.
pub fn is_valid_target(target: &[u8]) -> bool {
    !target.is_empty() && target.iter().all(|&byte| byte > 0x20 && byte < 0x7f)
}

fn version_text(version: Version) -> &'static [u8] {
    match version {
        Version::Http10 => b"HTTP/1.0",
        Version::Http11 => b"HTTP/1.1",
    }
}

/// The usual reason of a status, or an empty one.
pub fn reason_phrase(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        102 => "Processing",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        207 => "Multi-Status",
        208 => "Already Reported",
        226 => "IM Used",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        305 => "Use Proxy",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        423 => "Locked",
        424 => "Failed Dependency",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        511 => "Network Authentication Required",
        _ => "",
    }
}
