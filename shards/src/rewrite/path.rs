//! Instructions about the path.
//!
//! They see it decoded, but for what would change its meaning: an encoded slash, backslash, percent sign or control
//! stays encoded. What they write is encoded where it has to be; a path with dot segments is not written, so that no
//! captured text leads out of the part of an origin that is meant.

use std::borrow::Cow;

use super::text::replaced_where;
use super::{Dropped, Request, is_clean};
use crate::limits::REWRITTEN_BYTES_MAX;
use crate::plan::spelling;

/// Segments of a path that are told apart.
const SEGMENTS_MAX: usize = 1024;

impl Request<'_> {
    pub(super) fn set_path(&mut self, value: &[u8], depth: Option<u16>) -> Result<(), Dropped> {
        let path = match depth {
            None if value.first() == Some(&b'/') => value.to_vec(),
            None => [b"/", value].concat(),
            Some(depth) => {
                let path = readable(self.path());
                match with_segment(&path, depth, |_| Ok(Some(value.to_vec())))? {
                    Some(path) => path,
                    None => return Ok(()),
                }
            }
        };
        self.put_path(&path)
    }

    pub(super) fn replace_in_path(
        &mut self,
        change: (&[u8], &[u8]),
        depth: Option<u16>,
    ) -> Result<(), Dropped> {
        let path = readable(self.path());
        let in_text = |text: &[u8]| {
            replaced_where(text, change, None, |place| {
                !cuts_escape(text, place.start) && !cuts_escape(text, place.end)
            })
        };
        let changed = match depth {
            None => in_text(&path)?,
            Some(depth) => with_segment(&path, depth, in_text)?,
        };
        match changed {
            Some(path) => self.put_path(&path),
            None => Ok(()),
        }
    }

    fn put_path(&mut self, path: &[u8]) -> Result<(), Dropped> {
        if !is_clean(path) {
            return Err(Dropped);
        }
        let path = encoded(path);
        if path.len() > REWRITTEN_BYTES_MAX || spelling::is_roundabout(&path) {
            return Err(Dropped);
        }
        if self.path() != path {
            self.changes().path = Some(path);
        }
        Ok(())
    }
}

/// Whether a place in a readable path is within an escape, so that what is changed there would make another byte.
fn cuts_escape(path: &[u8], at: usize) -> bool {
    let is_begun = |back: usize| at >= back && path[at - back..].first() == Some(&b'%');
    is_begun(1) || is_begun(2)
}

/// The path with another segment in this place; `None` where there is none, or no change.
fn with_segment(
    path: &[u8],
    depth: u16,
    change: impl FnOnce(&[u8]) -> Result<Option<Vec<u8>>, Dropped>,
) -> Result<Option<Vec<u8>>, Dropped> {
    let rest = path.strip_prefix(b"/").unwrap_or(path);
    let depth = usize::from(depth);
    let Some(segment) = rest.split(|&byte| byte == b'/').nth(depth) else {
        return Ok(None);
    };
    if depth >= SEGMENTS_MAX {
        return Err(Dropped);
    }
    let Some(changed) = change(segment)? else {
        return Ok(None);
    };
    let mut out = Vec::with_capacity(path.len() + changed.len());
    for (index, segment) in rest.split(|&byte| byte == b'/').enumerate() {
        out.push(b'/');
        out.extend_from_slice(if index == depth { &changed } else { segment });
    }
    Ok(Some(out))
}

/// The path with its percent-encoding undone, as rules look at it.
pub(crate) fn decoded(path: &[u8]) -> Cow<'_, [u8]> {
    decode(path, |_| true)
}

/// The path as instructions see it.
fn readable(path: &[u8]) -> Cow<'_, [u8]> {
    decode(path, |byte| {
        !matches!(byte, b'/' | b'\\' | b'%') && !byte.is_ascii_control()
    })
}

/// Undoes the percent-encoding of the bytes that `may` be decoded.
fn decode(text: &[u8], may: impl Fn(u8) -> bool) -> Cow<'_, [u8]> {
    if !text.contains(&b'%') {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        match escape(rest) {
            Some(byte) if may(byte) => {
                out.push(byte);
                rest = &rest[3..];
            }
            _ => {
                out.push(byte);
                rest = behind;
            }
        }
    }
    Cow::Owned(out)
}

/// The byte that is percent-encoded here.
fn escape(text: &[u8]) -> Option<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    match text {
        [b'%', high, low, ..] => {
            let value = digit(high)? * 16 + digit(low)?;
            u8::try_from(value).ok()
        }
        _ => None,
    }
}

/// A path as it is sent: what may not stand in one is encoded.
fn encoded(path: &[u8]) -> Vec<u8> {
    encode(path, |byte| {
        byte.is_ascii_graphic()
            && !matches!(
                byte,
                b'?' | b'#' | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}'
            )
    })
}

/// A text in which bytes that do not fit are percent-encoded; what is encoded already stays.
pub(super) fn encode(text: &[u8], fits: impl Fn(u8) -> bool) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = Vec::with_capacity(text.len());
    for (at, &byte) in text.iter().enumerate() {
        let is_sign = byte == b'%' && escape(&text[at..]).is_none();
        if fits(byte) && !is_sign {
            out.push(byte);
        } else {
            let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
            out.extend_from_slice(&[b'%', DIGITS[high], DIGITS[low]]);
        }
    }
    out
}

/// A text that any part of a URL may be made of: what may not be sent is encoded.
pub(crate) fn sendable(text: &[u8]) -> Vec<u8> {
    encode(text, |byte| byte.is_ascii_graphic())
}
