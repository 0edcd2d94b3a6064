//! Where a body ends.

use anyhow::{Context, Result, bail};
use httparse::Header;

/// How the end of a body is found, with what is left to read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// So many bytes are left.
    Length(u64),
    /// Chunks until the empty one.
    Chunked(Chunks),
    /// Everything until the connection closes.
    UntilClose,
}

/// What one call of [`Body::take`] did.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// Bytes of the input that belong to this body.
    pub(super) used: usize,
    /// How many of them were payload.
    pub(super) payload_bytes: u64,
    /// Whether the body is complete.
    pub(super) done: bool,
}

/// Where in the chunk framing the next byte falls.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Chunks {
    /// In a chunk-size line: the value so far, whether a digit was seen, whether an extension began.
    Size {
        value: u64,
        any_digit: bool,
        extension: bool,
    },
    /// In the data of a chunk, with so many bytes left.
    Data(u64),
    /// After the data: CR and LF are due.
    DataEnd,
    /// In the trailer section; the line so far is this long.
    Trailer { line_bytes: usize },
}

impl Chunks {
    /// The start of a chunked body.
    pub(super) const START: Self = Self::Size {
        value: 0,
        any_digit: false,
        extension: false,
    };
}

impl Body {
    /// Takes what belongs to this body from the front of `input`.
    pub(super) fn take(&mut self, input: &[u8]) -> Result<Taken> {
        match self {
            Self::Length(left) => {
                let used = input
                    .len()
                    .min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= used as u64;
                Ok(Taken {
                    used,
                    payload_bytes: used as u64,
                    done: *left == 0,
                })
            }
            Self::UntilClose => Ok(Taken {
                used: input.len(),
                payload_bytes: input.len() as u64,
                done: false,
            }),
            Self::Chunked(chunks) => take_chunks(chunks, input),
        }
    }
}

fn take_chunks(chunks: &mut Chunks, input: &[u8]) -> Result<Taken> {
    let mut taken = Taken::default();
    while !taken.done && taken.used < input.len() {
        let rest = &input[taken.used..];
        if let Chunks::Data(left) = chunks {
            let used = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= used as u64;
            taken.used += used;
            taken.payload_bytes += used as u64;
            if *left == 0 {
                *chunks = Chunks::DataEnd;
            }
            continue;
        }
        taken.used += 1;
        taken.done = take_framing_byte(chunks, rest[0])?;
    }
    Ok(taken)
}

/// Advances over one byte of framing. Returns whether it was the last of the body.
fn take_framing_byte(chunks: &mut Chunks, byte: u8) -> Result<bool> {
    match chunks {
        Chunks::Data(_) => unreachable!("data is taken in one piece by take_chunks"),
        Chunks::DataEnd => match byte {
            b'\r' => {}
            b'\n' => *chunks = Chunks::START,
            _ => bail!("chunk data is longer than its size"),
        },
        Chunks::Size {
            value,
            any_digit,
            extension,
        } => match byte {
            b'\n' if !*any_digit => bail!("chunk size line without a size"),
            b'\n' if *value == 0 => *chunks = Chunks::Trailer { line_bytes: 0 },
            b'\n' => *chunks = Chunks::Data(*value),
            b'\r' => {}
            b';' => *extension = true,
            _ if *extension => {}
            _ => {
                let digit = char::from(byte)
                    .to_digit(16)
                    .context("chunk size is not hex")?;
                let shifted = value
                    .checked_mul(16)
                    .context("chunk size is out of range")?;
                *value = shifted + u64::from(digit);
                *any_digit = true;
            }
        },
        Chunks::Trailer { line_bytes } => match byte {
            b'\r' => {}
            b'\n' if *line_bytes == 0 => return Ok(true),
            b'\n' => *line_bytes = 0,
            _ => *line_bytes += 1,
        },
    }
    Ok(false)
}

/// Returns how the headers frame the body, if they do.
pub(super) fn framing(headers: &[Header<'_>]) -> Result<Option<Body>> {
    let mut body = None;
    for header in headers {
        if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Ok(Some(Body::Chunked(Chunks::START)));
        }
        if header.name.eq_ignore_ascii_case("content-length") {
            let text = std::str::from_utf8(header.value).context("content-length is not text")?;
            let length = text
                .trim()
                .parse()
                .context("content-length is not a number")?;
            body = Some(Body::Length(length));
        }
    }
    Ok(body)
}

/// Returns whether the connection outlives the message.
pub(super) fn keeps_alive(is_http_1_1: bool, headers: &[Header<'_>]) -> bool {
    for header in headers {
        if header.name.eq_ignore_ascii_case("connection") {
            if header.value.eq_ignore_ascii_case(b"close") {
                return false;
            }
            if header.value.eq_ignore_ascii_case(b"keep-alive") {
                return true;
            }
        }
    }
    is_http_1_1
}
