//! The raw look at a head: finds its end, and refuses bytes no head may hold.
//!
//! Runs before the tokeniser, which accepts bare LF as a line end and forgives empty lines. It
//! remembers how far it came, so a head that trickles in is looked at once, not once per read.

use super::{HeadError, HeadLimits, Parsed};

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Where the scan of one head stands.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Scan {
    /// Bytes already judged.
    position: usize,
    /// First byte of the line being looked at.
    line_start: usize,
    /// Length of an empty line in front of the start line: 0 or 2.
    leading: usize,
    /// Complete lines seen: the start line, then one for each header.
    lines: usize,
}

impl Scan {
    /// Bytes in front of the start line.
    pub(super) fn leading(&self) -> usize {
        self.leading
    }

    /// Judges what is new in `buf`, which holds the same head as the call before, and more of it.
    /// `leading_line` says whether an empty line may come first.
    pub(super) fn advance(
        &mut self,
        buf: &[u8],
        limits: &HeadLimits,
        leading_line: bool,
    ) -> Result<Parsed, HeadError> {
        loop {
            let Some(at) = next_control(buf, self.position) else {
                self.position = buf.len();
                self.check_open_line(buf, buf.len(), limits)?;
                return Ok(Parsed::Partial);
            };
            if buf[at] == b'\t' {
                self.position = at + 1;
                continue;
            }
            // What is wrong with the line so far comes first, or else the error would depend on
            // where the input was cut.
            self.position = at;
            self.check_open_line(buf, at, limits)?;
            match (buf[at], buf.get(at + 1)) {
                (b'\r', Some(b'\n')) => {}
                (b'\r', None) => return Ok(Parsed::Partial),
                (b'\r', Some(_)) => return Err(HeadError::BareCarriageReturn { at }),
                (b'\n', _) => return Err(HeadError::BareLineFeed { at }),
                (byte, _) => return Err(HeadError::ControlByte { at, byte }),
            }
            if let Some(length) = self.end_line(at, limits, leading_line)? {
                return Ok(Parsed::Complete(length));
            }
        }
    }

    /// Takes the line that ends with the CR at `at`; `Some(head length)` when it was the last.
    fn end_line(
        &mut self,
        at: usize,
        limits: &HeadLimits,
        leading_line: bool,
    ) -> Result<Option<usize>, HeadError> {
        let next = at + 2;
        let empty = at == self.line_start;
        self.position = next;
        self.line_start = next;
        if !empty {
            self.lines += 1;
            if self.lines > limits.headers_max.saturating_add(1) {
                return Err(HeadError::TooManyHeaders {
                    headers_max: limits.headers_max,
                });
            }
            return Ok(None);
        }
        if self.lines > 0 {
            // The blank line is part of the head, so it counts against the bound.
            if next > limits.bytes_max {
                return Err(HeadError::TooLarge {
                    bytes_max: limits.bytes_max,
                });
            }
            return Ok(Some(next));
        }
        if !leading_line || self.leading > 0 {
            return Err(HeadError::EmptyStartLine);
        }
        self.leading = next;
        Ok(None)
    }

    /// Judges the line that began at `line_start` and reaches at least to `end`.
    fn check_open_line(
        &self,
        buf: &[u8],
        end: usize,
        limits: &HeadLimits,
    ) -> Result<(), HeadError> {
        // Before lengths, which are known only as the line grows: the answer must not depend on
        // how much of the line has come.
        if end > self.line_start && matches!(buf.get(self.line_start), Some(b' ' | b'\t')) {
            return Err(HeadError::LeadingWhitespace {
                at: self.line_start,
            });
        }
        let in_start_line = self.lines == 0;
        if in_start_line && end.saturating_sub(self.line_start) > limits.start_line_max {
            return Err(HeadError::StartLineTooLong {
                bytes_max: limits.start_line_max,
            });
        }
        if end > limits.bytes_max {
            return Err(if in_start_line {
                HeadError::StartLineTooLong {
                    bytes_max: limits.bytes_max,
                }
            } else {
                HeadError::TooLarge {
                    bytes_max: limits.bytes_max,
                }
            });
        }
        Ok(())
    }
}

/// Position of the first byte from `from` on that is below 0x20, or is 0x7f.
///
/// Eight bytes at a time: `x - 0x20…` borrows into the top bit of exactly the lanes below 0x20
/// (and, by carry, perhaps of lanes above the first such one, which do not matter here), `!x`
/// drops lanes that had it set; DEL is found the same way as a zero lane of `x ^ 0x7f…`.
pub(super) fn next_control(buf: &[u8], from: usize) -> Option<usize> {
    let rest = buf.get(from..)?;
    let mut chunks = rest.chunks_exact(8);
    let mut at = from;
    for chunk in chunks.by_ref() {
        let word = u64::from_le_bytes(chunk.try_into().expect("chunks_exact gives 8 bytes"));
        let low = word.wrapping_sub(ONES * 0x20) & !word;
        let flipped = word ^ (ONES * 0x7f);
        let delete = flipped.wrapping_sub(ONES) & !flipped;
        let hits = (low | delete) & HIGHS;
        if hits != 0 {
            return Some(at + (hits.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    let tail = chunks
        .remainder()
        .iter()
        .position(|&byte| byte < 0x20 || byte == 0x7f)?;
    Some(at + tail)
}
