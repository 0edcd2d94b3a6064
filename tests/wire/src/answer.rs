//! An HTTP/1.1 message read from a byte stream, strictly: one line ending, one framing.

use std::io::{self, ErrorKind, Read};

/// Bytes of a head beyond which the test gives up.
const HEAD_BYTES_MAX: usize = 1 << 20;

/// Header lines in order: names as sent, values without surrounding blanks.
pub type Headers = Vec<(String, String)>;

/// How the end of a body was known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// No body can follow.
    None,
    /// `Content-Length`.
    Length,
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// The connection's end.
    Close,
}

/// The start line and the header lines.
#[derive(Debug, Clone)]
pub struct Head {
    /// The first line, without its line ending.
    pub start: String,
    /// Names as sent, values without surrounding blanks.
    pub headers: Headers,
    /// Every byte up to and with the empty line.
    pub raw: Vec<u8>,
}

/// One answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Its head.
    pub head: Head,
    /// Its body without framing.
    pub body: Vec<u8>,
    /// Trailer lines of a chunked body.
    pub trailers: Headers,
    /// How the body ended.
    pub framing: Framing,
}

impl Answer {
    /// The one value of a header.
    #[track_caller]
    pub fn header(&self, name: &str) -> Option<&str> {
        header_of(&self.head.headers, name)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// All values of a header.
pub fn headers_of<'a>(headers: &'a [(String, String)], name: &str) -> Vec<&'a str> {
    let same = headers
        .iter()
        .filter(|(key, _)| key.eq_ignore_ascii_case(name));
    same.map(|(_, value)| value.as_str()).collect()
}

/// The one value of a header.
///
/// # Panics
/// When it is there more than once.
#[track_caller]
pub fn header_of<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let values = headers_of(headers, name);
    assert!(
        values.len() < 2,
        "{name} is there {} times: {values:?}",
        values.len()
    );
    values.first().copied()
}

/// A stream and what was read from it beyond the last message.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) buffer: Vec<u8>,
}

impl Reader {
    pub(crate) fn new() -> Self {
        Self { buffer: Vec::new() }
    }

    /// Reads once into the buffer; the number of bytes, 0 at the end.
    pub(crate) fn fill(&mut self, stream: &mut impl Read) -> io::Result<usize> {
        let mut chunk = [0_u8; 64 * 1024];
        loop {
            match stream.read(&mut chunk) {
                Ok(count) => {
                    self.buffer.extend_from_slice(&chunk[..count]);
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes bytes up to and with `end`; `None` when the stream ended before the first byte.
    pub(crate) fn until(
        &mut self,
        stream: &mut impl Read,
        end: &[u8],
    ) -> io::Result<Option<Vec<u8>>> {
        let mut searched = 0;
        loop {
            let from = searched;
            let found = self.buffer[from..]
                .windows(end.len())
                .position(|window| window == end);
            if let Some(at) = found {
                let rest = self.buffer.split_off(from + at + end.len());
                return Ok(Some(std::mem::replace(&mut self.buffer, rest)));
            }
            searched = self.buffer.len().saturating_sub(end.len() - 1);
            if self.buffer.len() > HEAD_BYTES_MAX {
                return Err(bad("no end of the head within 1 MiB"));
            }
            if self.fill(stream)? == 0 {
                if self.buffer.is_empty() {
                    return Ok(None);
                }
                let text = String::from_utf8_lossy(&self.buffer).into_owned();
                return Err(cut(&format!("the stream ended inside a head: {text:?}")));
            }
        }
    }

    /// Takes exactly `count` bytes.
    pub(crate) fn exactly(&mut self, stream: &mut impl Read, count: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < count {
            if self.fill(stream)? == 0 {
                return Err(cut(&format!(
                    "the stream ended after {} of {count} bytes",
                    self.buffer.len()
                )));
            }
        }
        let rest = self.buffer.split_off(count);
        Ok(std::mem::replace(&mut self.buffer, rest))
    }

    /// Takes a head; `None` when the stream ended before its first byte.
    pub(crate) fn head(&mut self, stream: &mut impl Read) -> io::Result<Option<Head>> {
        let Some(raw) = self.until(stream, b"\r\n\r\n")? else {
            return Ok(None);
        };
        let text = String::from_utf8_lossy(&raw[..raw.len() - 4]).into_owned();
        let mut lines = text.split("\r\n");
        let start = lines.next().unwrap_or_default().to_owned();
        let headers = lines.map(header_line).collect::<io::Result<Vec<_>>>()?;
        Ok(Some(Head {
            start,
            headers,
            raw,
        }))
    }

    /// Takes a chunked body and its trailers.
    pub(crate) fn chunked(&mut self, stream: &mut impl Read) -> io::Result<(Vec<u8>, Headers)> {
        let mut body = Vec::new();
        loop {
            let data = self.chunk(stream)?;
            if data.is_empty() {
                break;
            }
            body.extend_from_slice(&data);
        }
        let mut trailers = Vec::new();
        loop {
            let line = self.line(stream)?;
            if line.is_empty() {
                return Ok((body, trailers));
            }
            trailers.push(header_line(&line)?);
        }
    }

    /// Takes one chunk without framing; empty for the last.
    pub(crate) fn chunk(&mut self, stream: &mut impl Read) -> io::Result<Vec<u8>> {
        let line = self.line(stream)?;
        let digits = line.split(';').next().unwrap_or_default();
        let size =
            usize::from_str_radix(digits, 16).map_err(|_| bad(&format!("chunk size {line:?}")))?;
        if size == 0 {
            return Ok(Vec::new());
        }
        let mut data = self.exactly(stream, size + 2)?;
        if data.split_off(size) != b"\r\n" {
            return Err(bad("no line ending behind a chunk"));
        }
        Ok(data)
    }

    fn line(&mut self, stream: &mut impl Read) -> io::Result<String> {
        let line = self
            .until(stream, b"\r\n")?
            .ok_or_else(|| cut("the stream ended inside a chunked body"))?;
        Ok(String::from_utf8_lossy(&line[..line.len() - 2]).into_owned())
    }
}

/// Splits `Name: value`.
fn header_line(line: &str) -> io::Result<(String, String)> {
    let (name, value) = line
        .split_once(':')
        .ok_or_else(|| bad(&format!("header line {line:?}")))?;
    if name.is_empty()
        || name.contains([' ', '\t', '\n', '\r'])
        || value.contains(['\n', '\r', '\0'])
    {
        return Err(bad(&format!("header line {line:?}")));
    }
    Ok((name.to_owned(), value.trim().to_owned()))
}

/// What a head says about its body.
pub(crate) fn declared(headers: &[(String, String)]) -> io::Result<Option<(Framing, usize)>> {
    let lengths = headers_of(headers, "content-length");
    let codings = headers_of(headers, "transfer-encoding");
    match (lengths.as_slice(), codings.as_slice()) {
        ([], []) => Ok(None),
        ([], ["chunked"]) => Ok(Some((Framing::Chunked, 0))),
        ([length], []) => {
            let length = length
                .parse()
                .map_err(|_| bad(&format!("Content-Length {length:?}")))?;
            Ok(Some((Framing::Length, length)))
        }
        _ => Err(bad(&format!(
            "framed twice: lengths {lengths:?}, codings {codings:?}"
        ))),
    }
}

pub(crate) fn bad(message: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, message)
}

pub(crate) fn cut(message: &str) -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, message)
}
