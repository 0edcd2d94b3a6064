//! The samples of one series: canonical ones where they lie, others rewritten into the arena.

use std::cell::Cell;

use bumpalo::Bump;
use simd_json::{Node, StaticNode};

use super::{Field, Outcome, Reader, State};
use crate::error::MemberFailure;
use crate::limits::{HISTOGRAMS_PER_SERIES_MAX, SAMPLE_BYTES_MAX, SAMPLE_DEPTH_MAX};
use crate::number::{parse_float, write_float, write_time};
use crate::sample::{Form, Histogram, Points, Segment, canonical_pair};
use crate::split;

/// Rewritten samples are moved to the arena in pieces of about this size.
const REWRITTEN_BYTES: usize = 16 * 1024;

const ARENA_FULL: MemberFailure = MemberFailure::Limit {
    limit: "arena bytes",
};

/// The samples read so far.
#[derive(Debug, Default)]
pub(super) struct Samples<'a> {
    first: &'a [u8],
    /// Where the first segment lies in the body, if it does and is the only one.
    first_place: Option<(usize, usize)>,
    /// The segments after the first.
    more: Option<&'a Segment<'a>>,
    last: Option<&'a Segment<'a>>,
    /// Rewritten samples that are not in the arena yet.
    rewritten: Vec<u8>,
    last_time_ms: Option<i64>,
    histograms: Vec<Histogram<'a>>,
}

impl<'a> Samples<'a> {
    /// Takes canonical text that lies in the body from `start` to `end`.
    fn push(&mut self, body: &'a [u8], start: usize, end: usize, bump: &'a Bump) -> Outcome<()> {
        self.flush(bump)?;
        if let Some((first_start, first_end)) = self.first_place
            // Only the comma is between them: a run that was interrupted by the end of a step.
            && start == first_end + 1
        {
            self.first = &body[first_start..end];
            self.first_place = Some((first_start, end));
            return Ok(());
        }
        let is_first = self.first.is_empty();
        self.append(&body[start..end], bump)?;
        self.first_place = is_first.then_some((start, end));
        Ok(())
    }

    fn append(&mut self, text: &'a [u8], bump: &'a Bump) -> Outcome<()> {
        self.first_place = None;
        if self.first.is_empty() {
            self.first = text;
            return Ok(());
        }
        let segment = bump
            .try_alloc(Segment {
                text,
                next: Cell::new(None),
            })
            .map_err(|_| ARENA_FULL)?;
        match self.last {
            Some(last) => last.next.set(Some(segment)),
            None => self.more = Some(segment),
        }
        self.last = Some(segment);
        Ok(())
    }

    /// Takes a sample that has to be rewritten.
    fn rewrite(&mut self, time_ms: i64, value: f64, bump: &'a Bump) -> Outcome<()> {
        if !self.rewritten.is_empty() {
            self.rewritten.push(b',');
        }
        self.rewritten.push(b'[');
        write_time(&mut self.rewritten, time_ms);
        self.rewritten.extend_from_slice(b",\"");
        write_float(&mut self.rewritten, value);
        self.rewritten.extend_from_slice(b"\"]");
        if self.rewritten.len() >= REWRITTEN_BYTES {
            self.flush(bump)?;
        }
        Ok(())
    }

    fn flush(&mut self, bump: &'a Bump) -> Outcome<()> {
        if self.rewritten.is_empty() {
            return Ok(());
        }
        let text = bump
            .try_alloc_slice_copy(&self.rewritten)
            .map_err(|_| ARENA_FULL)?;
        self.rewritten.clear();
        self.append(text, bump)
    }

    /// Notes the time of the next sample; `false` when it is not later than the one before.
    fn is_in_order(&mut self, time_ms: i64) -> bool {
        let is_later = self.last_time_ms.is_none_or(|last| time_ms > last);
        self.last_time_ms = Some(time_ms);
        is_later
    }

    /// Ends the series.
    pub(super) fn close(mut self, bump: &'a Bump) -> Outcome<(Points<'a>, &'a [Histogram<'a>])> {
        self.flush(bump)?;
        let histograms: &[Histogram<'a>] = match self.histograms.is_empty() {
            true => &[],
            false => bump
                .try_alloc_slice_copy(&self.histograms)
                .map_err(|_| ARENA_FULL)?,
        };
        Ok((
            Points {
                text: self.first,
                more: self.more,
            },
            histograms,
        ))
    }
}

impl Reader<'_> {
    /// Reads the samples of an array for about `units` bytes.
    pub(super) fn samples(&mut self, field: Field, units: usize) -> Outcome<()> {
        let start = self.at;
        while self.at - start < units {
            if field == Field::Values {
                self.canonical_run(units - (self.at - start))?;
                if self.at - start >= units {
                    return Ok(());
                }
            }
            if !self.next_item(b']')? {
                self.leave_to(State::Series);
                return Ok(());
            }
            if field == Field::Values && canonical_pair(&self.body[self.at..]).is_some() {
                // Canonical again after white space: a run starts here.
                self.is_fresh = true;
            } else {
                self.sample(field)?;
            }
        }
        Ok(())
    }

    /// Reads canonical samples joined by bare commas, and keeps them as one segment.
    fn canonical_run(&mut self, units: usize) -> Outcome<()> {
        let mut start = self.at;
        if !self.is_fresh {
            if self.peek() != Some(b',') {
                return Ok(());
            }
            start += 1;
        }
        let (mut next, mut end) = (start, start);
        let mut last_time_ms = self.open.samples.last_time_ms.unwrap_or(i64::MIN);
        let mut form = Form::default();
        while let Some(rest) = self.body.get(next..) {
            let point = match form.later(rest) {
                Some(point) => point,
                None => {
                    let Some((time_ms, point)) = canonical_pair(rest) else {
                        break;
                    };
                    if time_ms <= form.time_ms().unwrap_or(last_time_ms) {
                        return Err(self.bad("samples out of order"));
                    }
                    last_time_ms = time_ms;
                    form = Form::of(rest, &point);
                    point
                }
            };
            self.parsed.samples += 1;
            end = next + point.length();
            if self.body.get(end) != Some(&b',') || end - start >= units {
                break;
            }
            next = end + 1;
        }
        if end > start {
            self.open.samples.last_time_ms = Some(form.time_ms().unwrap_or(last_time_ms));
            self.open.samples.push(self.body, start, end, self.bump)?;
            self.at = end;
            self.is_fresh = false;
        }
        Ok(())
    }

    /// Reads one sample of any form.
    pub(super) fn sample(&mut self, field: Field) -> Outcome<()> {
        let place = self.at;
        let text = self.value(SAMPLE_BYTES_MAX, "bytes of one sample")?;
        let bad = |problem| MemberFailure::Malformed { at: place, problem };
        self.parsed.samples += 1;
        let samples = &mut self.open.samples;
        match field {
            Field::Values => {
                let canonical =
                    canonical_pair(text).filter(|(_, point)| point.length() == text.len());
                let (time_ms, odd) = match canonical {
                    Some((time_ms, _)) => (time_ms, None),
                    None => {
                        let (time_ms, value) = odd_pair(text).ok_or_else(|| bad("bad sample"))?;
                        (time_ms, Some(value))
                    }
                };
                if !samples.is_in_order(time_ms) {
                    return Err(bad("samples out of order"));
                }
                match odd {
                    Some(value) => samples.rewrite(time_ms, value, self.bump),
                    None => samples.push(self.body, place, self.at, self.bump),
                }
            }
            Field::Histograms => {
                let histogram = histogram(text).ok_or_else(|| bad("bad histogram"))?;
                let list = &mut samples.histograms;
                if list
                    .last()
                    .is_some_and(|last| histogram.time_ms <= last.time_ms)
                {
                    return Err(bad("samples out of order"));
                }
                if list.len() >= HISTOGRAMS_PER_SERIES_MAX {
                    return Err(MemberFailure::Limit {
                        limit: "histograms of one series",
                    });
                }
                list.push(histogram);
                Ok(())
            }
        }
    }
}

/// Returns milliseconds of a time in seconds, as servers round it.
fn time_of(node: &Node<'_>) -> Option<i64> {
    let seconds = match node {
        Node::Static(StaticNode::I64(seconds)) => *seconds as f64,
        Node::Static(StaticNode::U64(seconds)) => *seconds as f64,
        Node::Static(StaticNode::F64(seconds)) => *seconds,
        _ => return None,
    };
    let milliseconds = (seconds * 1000.0).round();
    // Within this bound every whole double is exact.
    (milliseconds.abs() <= 9e15).then_some(milliseconds as i64)
}

fn odd_pair(text: &[u8]) -> Option<(i64, f64)> {
    let mut bytes = text.to_vec();
    let tape = simd_json::to_tape(&mut bytes).ok()?;
    match tape.0.as_slice() {
        [Node::Array { .. }, time, Node::String(value)] => {
            Some((time_of(time)?, parse_float(value.as_bytes())?))
        }
        _ => None,
    }
}

/// Reads `[time,{…}]` and keeps the object's text.
fn histogram(text: &[u8]) -> Option<Histogram<'_>> {
    let mut bytes = text.to_vec();
    let mut buffers = simd_json::Buffers::with_max_depth(text.len(), SAMPLE_DEPTH_MAX);
    let tape = simd_json::to_tape_with_buffers(&mut bytes, &mut buffers).ok()?;
    let [Node::Array { len: 2, .. }, time, Node::Object { .. }, ..] = tape.0.as_slice() else {
        return None;
    };
    let time_ms = time_of(time)?;
    let comma = text.iter().position(|b| *b == b',')?;
    let start = split::skip_space(text, comma + 1);
    let end = split::value_end(text, start, text.len())?;
    Some(Histogram {
        time_ms,
        text: text.get(start..end)?,
    })
}
