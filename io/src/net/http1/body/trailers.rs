//! Header fields behind a chunked body.

use std::ops::Range;

use super::BodyError;
use crate::net::http1::head::{Header, KnownHeader};

/// Default of [`TrailerLimits::bytes_max`].
pub const TRAILER_BYTES_MAX_DEFAULT: usize = 8 * 1024;
/// Default and ceiling of [`TrailerLimits::fields_max`].
pub const TRAILERS_MAX: usize = 32;

/// How much may follow a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrailerLimits {
    /// All trailer lines together, the empty line included.
    pub bytes_max: usize,
    /// Trailer lines; never more than [`TRAILERS_MAX`].
    pub fields_max: usize,
}

impl Default for TrailerLimits {
    fn default() -> Self {
        Self {
            bytes_max: TRAILER_BYTES_MAX_DEFAULT,
            fields_max: TRAILERS_MAX,
        }
    }
}

/// Collects trailer lines up to the empty one, then judges them. Small, since it moves with each decoder and few
/// bodies have trailers.
#[derive(Debug)]
pub(super) struct TrailerReader {
    limits: TrailerLimits,
    lines: Option<Box<Lines>>,
}

/// What has come.
#[derive(Debug, Default)]
struct Lines {
    text: Vec<u8>,
    line_start: usize,
    fields: Vec<Field>,
}

#[derive(Debug)]
struct Field {
    name: Range<usize>,
    value: Range<usize>,
}

/// The trailers of a body, in order.
#[derive(Debug, Clone)]
pub struct Trailers<'t> {
    fields: std::slice::Iter<'t, Field>,
    text: &'t [u8],
}

impl<'t> Iterator for Trailers<'t> {
    type Item = Header<'t>;

    fn next(&mut self) -> Option<Header<'t>> {
        let field = self.fields.next()?;
        let name = &self.text[field.name.clone()];
        Some(Header {
            name,
            value: &self.text[field.value.clone()],
            known: KnownHeader::classify(name),
            // Those that are, were refused; what `Connection` names is known to the head only.
            hop_by_hop: false,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.fields.size_hint()
    }
}

impl ExactSizeIterator for Trailers<'_> {}

impl TrailerReader {
    pub(super) fn new(limits: TrailerLimits) -> TrailerReader {
        let fields_max = limits.fields_max.min(TRAILERS_MAX);
        TrailerReader {
            limits: TrailerLimits {
                fields_max,
                ..limits
            },
            lines: None,
        }
    }

    pub(super) fn clear(&mut self) {
        self.lines = None;
    }

    pub(super) fn fields(&self) -> Trailers<'_> {
        match &self.lines {
            Some(lines) => Trailers {
                fields: lines.fields.iter(),
                text: &lines.text,
            },
            None => Trailers {
                fields: [].iter(),
                text: &[],
            },
        }
    }

    /// Takes bytes up to and with the empty line. Returns how many, and whether it was there.
    pub(super) fn read(&mut self, input: &[u8]) -> Result<(usize, bool), BodyError> {
        const EMPTY_LINE: &[u8] = b"\r\n";
        let fits = EMPTY_LINE.len() <= self.limits.bytes_max;
        if self.lines.is_none() && fits && input.starts_with(EMPTY_LINE) {
            return Ok((EMPTY_LINE.len(), true));
        }
        self.lines.get_or_insert_default().read(input, self.limits)
    }
}

impl Lines {
    fn read(&mut self, input: &[u8], limits: TrailerLimits) -> Result<(usize, bool), BodyError> {
        for (index, &byte) in input.iter().enumerate() {
            let after_cr = self.text.last() == Some(&b'\r');
            match byte {
                b'\n' if !after_cr => return Err(BodyError::InvalidLineEnd),
                b'\n' | b'\r' | b'\t' | b' '..=0x7e | 0x80.. => {}
                _ => return Err(BodyError::InvalidTrailer),
            }
            if after_cr && byte != b'\n' {
                return Err(BodyError::InvalidLineEnd);
            }
            if self.text.len() == limits.bytes_max {
                return Err(BodyError::TrailersTooLarge {
                    bytes_max: limits.bytes_max,
                });
            }
            let at_line_start = self.text.len() == self.line_start;
            if at_line_start && matches!(byte, b' ' | b'\t') {
                return Err(BodyError::InvalidTrailer);
            }
            self.text.push(byte);
            if byte == b'\n' {
                if self.text.len() == self.line_start + 2 {
                    self.judge(limits.fields_max)?;
                    return Ok((index + 1, true));
                }
                self.line_start = self.text.len();
            }
        }
        Ok((input.len(), false))
    }

    fn judge(&mut self, fields_max: usize) -> Result<(), BodyError> {
        let mut headers = [httparse::EMPTY_HEADER; TRAILERS_MAX];
        let parsed = match httparse::parse_headers(&self.text, &mut headers) {
            Ok(httparse::Status::Complete((length, parsed))) if length == self.text.len() => parsed,
            Err(httparse::Error::TooManyHeaders) => {
                return Err(BodyError::TooManyTrailers { fields_max });
            }
            _ => return Err(BodyError::InvalidTrailer),
        };
        if parsed.len() > fields_max {
            return Err(BodyError::TooManyTrailers { fields_max });
        }
        for header in parsed {
            if header.name.is_empty() {
                return Err(BodyError::InvalidTrailer);
            }
            if KnownHeader::classify(header.name.as_bytes()).is_forbidden_in_trailers() {
                return Err(BodyError::ForbiddenTrailer);
            }
            self.fields.push(Field {
                name: range_in(&self.text, header.name.as_bytes()),
                value: range_in(&self.text, header.value),
            });
        }
        Ok(())
    }
}

/// Where `part`, a piece of `whole`, lies in it.
fn range_in(whole: &[u8], part: &[u8]) -> Range<usize> {
    if part.is_empty() {
        return 0..0;
    }
    let start = part.as_ptr().addr() - whole.as_ptr().addr();
    start..start + part.len()
}
