//! Content codings of answers on their way to clients. Contract: config page, 3.4 (`compressible_types`).
//!
//! The one door to the compressing libraries. [`begin`] decides whether an answer is compressed and changes its
//! head; a [`Compressor`] then takes the body in steps. Called by `headers` and `reply`, whose callers give
//! everybody else a turn between two steps and flush whenever no more of the body is here, so that a slow
//! stream is not held back.
//!
//! Bounds: [`COMPRESSORS_MAX`] at once on a shard, each with windows of at most 256 KiB, which makes about 1 MiB
//! with their tables; an answer beyond it goes out as it is.

mod accept;

use std::cell::Cell;
use std::io::{self, Write};
use std::rc::Rc;

use flate2::write::GzEncoder;
use ringway_io::net::http1::{Method, RequestHead, ResponseHead, write};

use crate::headers::edits;
use crate::limits::{COMPRESSED_BYTES_MIN, COMPRESSORS_MAX};
use crate::reply::has_body;

pub(crate) use accept::Coding;

/// Most bytes taken in one go. Measured on the kind of JSON that Prometheus sends: 8 KiB take gzip 210 us, brotli
/// 215 us, and 16 KiB take zstd 90 us; a step may take 500 us.
pub(crate) const COMPRESS_STEP_BYTES: usize = 8 * 1024;

/// Levels that give most of the gain for little of the time.
const GZIP_LEVEL: u32 = 4;
const ZSTD_LEVEL: i32 = 3;
const BROTLI_LEVEL: i32 = 4;
/// 256 KiB, as a power of two.
const WINDOW_LOG: u8 = 18;
/// Most bytes that zstd collects before it compresses them.
const ZSTD_COLLECTS_BYTES: usize = 16 * 1024;

/// How many compressors of a shard are at work.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places(Rc<Cell<usize>>);

/// The right to be one of them.
struct Place(Places);

impl Places {
    fn take(&self) -> Option<Place> {
        if self.0.get() >= COMPRESSORS_MAX {
            return None;
        }
        self.0.set(self.0.get() + 1);
        Some(Place(self.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let taken = &self.0.0;
        taken.set(taken.get() - 1);
    }
}

/// What decides about an answer besides its headers.
#[derive(Clone, Copy)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    /// Length of its body, if it is known.
    pub(crate) length: Option<u64>,
    /// Content types worth compressing.
    pub(crate) types: &'a [Box<str>],
    pub(crate) client: &'a RequestHead,
    /// The bytes of `client`.
    pub(crate) client_bytes: &'a [u8],
    pub(crate) places: &'a Places,
}

/// Where the headers of an answer can be read.
#[derive(Clone, Copy)]
pub(crate) enum Lines<'a> {
    /// From an origin's head that nothing has changed.
    Head(&'a ResponseHead, &'a [u8]),
    /// From the lines written so far, behind this offset.
    Written(usize),
}

impl Lines<'_> {
    /// Whether a header of this name has a value that fits.
    fn any(&self, out: &[u8], name: &[u8], mut fits: impl FnMut(&[u8]) -> bool) -> bool {
        match *self {
            Lines::Head(head, bytes) => head
                .headers(bytes)
                .any(|header| header.name.eq_ignore_ascii_case(name) && fits(header.value)),
            Lines::Written(start) => edits::values(&out[start..], name).any(fits),
        }
    }
}

/// Decides whether the answer whose header lines are `out[start..]` is compressed, and changes them if so. An
/// answer that would be for another client says that it varies.
pub(crate) fn begin(
    out: &mut Vec<u8>,
    start: usize,
    lines: Lines<'_>,
    answer: &Answer<'_>,
) -> Option<Box<Compressor>> {
    if !is_worth_it(out, lines, answer) {
        return None;
    }
    let varies =
        |value: &[u8]| list(value).any(|name| name == b"*" || is(name, b"accept-encoding"));
    if !lines.any(out, b"Vary", varies) {
        write::header(out, b"Vary", b"Accept-Encoding");
    }
    if answer.client.method() == Method::Head {
        return None;
    }
    let coding = accept::choose(answer.client, answer.client_bytes)?;
    let compressor = Compressor::new(coding, answer.places)?;
    weaken_etag(out, start);
    edits::remove_if(out, start, |name| {
        is(name, b"accept-ranges")
            || is(name, b"content-md5")
            || is(name, b"content-encoding")
            || is(name, b"content-digest")
            || is(name, b"repr-digest")
            || is(name, b"digest")
    });
    write::header(out, b"Content-Encoding", coding.name().as_bytes());
    Some(Box::new(compressor))
}

fn is_worth_it(out: &[u8], lines: Lines<'_>, answer: &Answer<'_>) -> bool {
    if answer.types.is_empty() || !has_body(answer.status) || answer.status == 206 {
        return false;
    }
    if answer
        .length
        .is_some_and(|length| length < COMPRESSED_BYTES_MIN)
    {
        return false;
    }
    let is_of_types = |value: &[u8]| is_one_of(answer.types, value);
    let is_coded = |value: &[u8]| list(value).any(|coding| !is(coding, b"identity"));
    let forbids = |value: &[u8]| list(value).any(|directive| is(directive, b"no-transform"));
    lines.any(out, b"Content-Type", is_of_types)
        && !lines.any(out, b"Content-Encoding", is_coded)
        && !lines.any(out, b"Cache-Control", forbids)
}

fn is_one_of(types: &[Box<str>], content_type: &[u8]) -> bool {
    let essence = content_type.split(|&byte| byte == b';').next();
    let essence = essence.unwrap_or_default().trim_ascii();
    types.iter().any(|known| match known.strip_suffix('*') {
        Some(kind) => essence
            .get(..kind.len())
            .is_some_and(|start| is(start, kind.as_bytes())),
        None => is(essence, known.as_bytes()),
    })
}

/// An answer is not byte for byte what its tag names any more. Contract: RFC 9110, 8.8.3.
fn weaken_etag(out: &mut Vec<u8>, start: usize) {
    let strong = edits::values(&out[start..], b"ETag").find(|value| value.starts_with(b"\""));
    if let Some(tag) = strong.map(<[u8]>::to_vec) {
        edits::remove_if(out, start, |name| is(name, b"etag"));
        write::header(out, b"ETag", &[b"W/", tag.as_slice()].concat());
    }
}

fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let items = value.split(|&byte| byte == b',');
    items
        .map(<[u8]>::trim_ascii)
        .filter(|item| !item.is_empty())
}

fn is(one: &[u8], other: &[u8]) -> bool {
    one.eq_ignore_ascii_case(other)
}

/// A body being compressed.
pub(crate) struct Compressor {
    sink: Sink,
    /// Bytes pushed and not flushed.
    behind: usize,
    _place: Place,
}

enum Sink {
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
    Brotli(Box<brotli::CompressorWriter<Vec<u8>>>),
}

impl Compressor {
    /// `None` when too many are at work, or there is no memory for one more.
    fn new(coding: Coding, places: &Places) -> Option<Compressor> {
        let place = places.take()?;
        let sink = match coding {
            Coding::Gzip => {
                let level = flate2::Compression::new(GZIP_LEVEL);
                Sink::Gzip(GzEncoder::new(Vec::new(), level))
            }
            Coding::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL).ok()?;
                encoder.window_log(u32::from(WINDOW_LOG)).ok()?;
                Sink::Zstd(encoder)
            }
            Coding::Brotli => {
                let params = brotli::enc::BrotliEncoderParams {
                    quality: BROTLI_LEVEL,
                    lgwin: i32::from(WINDOW_LOG),
                    ..brotli::enc::BrotliEncoderParams::default()
                };
                let writer =
                    brotli::CompressorWriter::with_params(Vec::new(), COMPRESS_STEP_BYTES, &params);
                Sink::Brotli(Box::new(writer))
            }
        };
        Some(Compressor {
            sink,
            behind: 0,
            _place: place,
        })
    }

    /// Takes the next bytes, at most [`COMPRESS_STEP_BYTES`].
    pub(crate) fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        debug_assert!(bytes.len() <= COMPRESS_STEP_BYTES, "a step is bounded");
        self.behind += bytes.len();
        let collects_at_most = match &mut self.sink {
            Sink::Gzip(encoder) => {
                encoder.write_all(bytes)?;
                usize::MAX
            }
            Sink::Zstd(encoder) => {
                encoder.write_all(bytes)?;
                ZSTD_COLLECTS_BYTES
            }
            Sink::Brotli(writer) => {
                writer.write_all(bytes)?;
                COMPRESS_STEP_BYTES
            }
        };
        // Left alone, these two collect blocks of 64 and 128 KiB and compress them in one go.
        if self.behind >= collects_at_most {
            self.flush()?;
        }
        Ok(())
    }

    /// Lets all that was pushed be read.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.behind) == 0 {
            return Ok(());
        }
        match &mut self.sink {
            Sink::Gzip(encoder) => encoder.flush(),
            Sink::Zstd(encoder) => encoder.flush(),
            Sink::Brotli(writer) => writer.flush(),
        }
    }

    /// Bytes that [`Compressor::take`] would give.
    pub(crate) fn ready_len(&self) -> usize {
        match &self.sink {
            Sink::Gzip(encoder) => encoder.get_ref().len(),
            Sink::Zstd(encoder) => encoder.get_ref().len(),
            Sink::Brotli(writer) => writer.get_ref().len(),
        }
    }

    /// What has been made since the last time.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(match &mut self.sink {
            Sink::Gzip(encoder) => encoder.get_mut(),
            Sink::Zstd(encoder) => encoder.get_mut(),
            Sink::Brotli(writer) => writer.get_mut(),
        })
    }

    /// What is left to send when all has been pushed.
    pub(crate) fn finish(self) -> io::Result<Vec<u8>> {
        match self.sink {
            Sink::Gzip(encoder) => encoder.finish(),
            Sink::Zstd(encoder) => encoder.finish(),
            Sink::Brotli(writer) => Ok(writer.into_inner()),
        }
    }
}

#[cfg(test)]
mod tests;
