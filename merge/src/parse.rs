//! Reads one member's answer, in steps.
//!
//! The structure is walked here, byte by byte and string-aware, so that work can stop after any
//! sample; canonical samples are checked where they lie and kept as text. Everything else (escaped
//! strings, odd numbers, native histograms) goes to simd-json, one small piece at a time.
//!
//! Called by [`crate::merge`]. Promises: no recursion, no panic, bounded pieces; a body that is
//! not a Prometheus answer is a [`MemberFailure`] that names the place.

mod envelope;
mod samples;
#[cfg(test)]
mod tests;

pub(crate) use envelope::Envelope;

use bumpalo::Bump;

use crate::error::MemberFailure;
use crate::labels::{self, Label, LabelScratch, LabelSet};
use crate::limits::{LABEL_BYTES_MAX, SERIES_PER_ANSWER_MAX, STRING_BYTES_MAX};
use crate::sample::Points;
use crate::series::{Parsed, ResultKind, Series};
use crate::split::{self, Skip};
use crate::stats::Section;
use samples::Samples;

/// Where the reader stands.
#[derive(Debug, Clone, Copy)]
enum State {
    Start,
    /// In the envelope object.
    Top,
    /// In `data`, an object.
    Data,
    /// In `data.result`, an array of series.
    Result,
    /// In one series' object.
    Series,
    /// In `values` or `histograms`.
    Samples(Field),
    /// In `data`, an array of strings or label objects.
    List,
    /// In `data.stats`.
    Stats,
    /// In an object of numbers in `data.stats`.
    Numbers(Section),
    /// In `warnings` (or `infos`).
    Texts {
        are_infos: bool,
    },
    /// In a value of no interest; then back to the object around it.
    Skip(Skip, Around),
    /// After the envelope.
    End,
}

/// Which array of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Values,
    Histograms,
}

/// The object around a skipped value.
#[derive(Debug, Clone, Copy)]
enum Around {
    Top,
    Data,
    Series,
    Stats,
    Numbers(Section),
}

/// A series being read.
#[derive(Debug, Default)]
struct Open<'a> {
    set: Option<LabelSet<'a>>,
    samples: Samples<'a>,
}

/// Reads one answer.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    body: &'a [u8],
    bump: &'a Bump,
    injected: &'a [Label<'a>],
    at: usize,
    /// No item of the current container was read yet.
    is_fresh: bool,
    state: State,
    open: Open<'a>,
    parsed: Parsed<'a>,
    envelope: Envelope,
    label_scratch: LabelScratch,
}

type Outcome<T> = Result<T, MemberFailure>;

impl<'a> Reader<'a> {
    /// Starts reading `body`. `injected` is sorted by name.
    pub(crate) fn new(body: &'a [u8], bump: &'a Bump, injected: &'a [Label<'a>]) -> Self {
        Self {
            body,
            bump,
            injected,
            at: 0,
            is_fresh: true,
            state: State::Start,
            open: Open::default(),
            parsed: Parsed {
                is_sorted: true,
                ..Parsed::default()
            },
            envelope: Envelope::default(),
            label_scratch: LabelScratch::default(),
        }
    }

    /// Reads on for about `units` bytes. Returns the bytes read, and whether the body is done.
    pub(crate) fn step(&mut self, units: usize) -> Outcome<(usize, bool)> {
        let start = self.at;
        while self.at - start < units {
            match self.state {
                State::Start => self.start()?,
                State::Top => self.top()?,
                State::Data => self.data()?,
                State::Result => self.result()?,
                State::Series => self.series()?,
                State::Samples(field) => self.samples(field, units - (self.at - start))?,
                State::List => self.list()?,
                State::Stats => self.stats()?,
                State::Numbers(section) => self.numbers(section)?,
                State::Texts { are_infos } => self.texts(are_infos)?,
                State::Skip(skip, around) => self.skip(skip, around, units - (self.at - start))?,
                State::End => {
                    self.at = split::skip_space(self.body, self.at);
                    if self.at < self.body.len() {
                        return Err(self.bad("text after the answer"));
                    }
                    return Ok((self.at - start, true));
                }
            }
        }
        Ok((self.at - start, false))
    }

    /// Returns the answer of a body that is done: the data, or the error envelope.
    pub(crate) fn finish(self, status: u16) -> Outcome<Parsed<'a>> {
        self.envelope.judge(status)?;
        match (self.parsed.kind, self.parsed.pair.is_some()) {
            (Some(ResultKind::Scalar | ResultKind::Text), false) => Err(MemberFailure::Malformed {
                at: 0,
                problem: "scalar without a value",
            }),
            (Some(ResultKind::Matrix | ResultKind::Vector | ResultKind::List), true) => {
                Err(MemberFailure::Malformed {
                    at: 0,
                    problem: "result type does not fit",
                })
            }
            (None, _) => Err(MemberFailure::Malformed {
                at: 0,
                problem: "answer without data",
            }),
            _ => Ok(self.parsed),
        }
    }

    fn bad(&self, problem: &'static str) -> MemberFailure {
        MemberFailure::Malformed {
            at: self.at,
            problem,
        }
    }

    // === structure ===

    fn peek(&self) -> Option<u8> {
        self.body.get(self.at).copied()
    }

    fn enter(&mut self, state: State) {
        self.at += 1;
        self.state = state;
        self.is_fresh = true;
    }

    /// Goes to the next item of the current container, or past its end. Returns whether there is
    /// an item.
    fn next_item(&mut self, close: u8) -> Outcome<bool> {
        self.at = split::skip_space(self.body, self.at);
        match self.peek() {
            Some(byte) if byte == close => {
                self.at += 1;
                return Ok(false);
            }
            Some(b',') if !self.is_fresh => {
                self.at = split::skip_space(self.body, self.at + 1);
                if self.peek() == Some(close) {
                    return Err(self.bad("comma before a closing bracket"));
                }
            }
            Some(_) if self.is_fresh => {}
            Some(_) => return Err(self.bad("expected a comma")),
            None => return Err(self.bad("unexpected end")),
        }
        self.is_fresh = false;
        Ok(true)
    }

    fn leave_to(&mut self, state: State) {
        self.state = state;
        self.is_fresh = false;
    }

    /// Reads the next key of the current object and goes to its value.
    fn next_key(&mut self) -> Outcome<Option<&'a str>> {
        if !self.next_item(b'}')? {
            return Ok(None);
        }
        let Some((key, after)) = labels::plain_string(self.body, self.at) else {
            return Err(self.bad("expected a key"));
        };
        self.at = split::skip_space(self.body, after);
        if self.peek() != Some(b':') {
            return Err(self.bad("expected a colon"));
        }
        self.at = split::skip_space(self.body, self.at + 1);
        Ok(Some(key))
    }

    /// Cuts out the value here, of at most `length_max` bytes.
    fn value(&mut self, length_max: usize, limit: &'static str) -> Outcome<&'a [u8]> {
        match split::value_end(self.body, self.at, length_max) {
            Some(end) => {
                let text = &self.body[self.at..end];
                self.at = end;
                Ok(text)
            }
            None if self.body.len() - self.at > length_max => Err(MemberFailure::Limit { limit }),
            None => Err(self.bad("unexpected end")),
        }
    }

    /// Reads a string that may have escapes.
    fn string(&mut self) -> Outcome<&'a str> {
        if let Some((text, after)) = labels::plain_string(self.body, self.at)
            && text.len() <= STRING_BYTES_MAX
        {
            self.at = after;
            return Ok(text);
        }
        if self.peek() != Some(b'"') {
            return Err(self.bad("expected a string"));
        }
        let place = self.at;
        let quoted = self.value(STRING_BYTES_MAX, "length of a string")?;
        let mut bytes = Vec::with_capacity(quoted.len() + 2);
        bytes.push(b'[');
        bytes.extend_from_slice(quoted);
        bytes.push(b']');
        let bad = MemberFailure::Malformed {
            at: place,
            problem: "bad string",
        };
        let tape = simd_json::to_tape(&mut bytes).map_err(|_| bad.clone())?;
        match tape.0.as_slice() {
            [_, simd_json::Node::String(text)] => labels::keep(self.bump, text),
            _ => Err(bad),
        }
    }

    fn begin_skip(&mut self, around: Around) {
        self.state = State::Skip(Skip::default(), around);
    }

    fn skip(&mut self, mut skip: Skip, around: Around, units: usize) -> Outcome<()> {
        let (at, is_done) = skip.step(self.body, self.at, units);
        if at >= self.body.len() && !is_done {
            return Err(self.bad("unexpected end"));
        }
        if at == self.at && !is_done {
            return Err(self.bad("expected a value"));
        }
        self.at = at;
        if is_done {
            self.leave_to(match around {
                Around::Top => State::Top,
                Around::Data => State::Data,
                Around::Series => State::Series,
                Around::Stats => State::Stats,
                Around::Numbers(section) => State::Numbers(section),
            });
        } else {
            self.state = State::Skip(skip, around);
        }
        Ok(())
    }

    // === series ===

    fn result(&mut self) -> Outcome<()> {
        if !self.next_item(b']')? {
            self.leave_to(State::Data);
            return Ok(());
        }
        if self.peek() != Some(b'{') {
            return Err(self.bad("expected a series"));
        }
        self.open = Open::default();
        self.enter(State::Series);
        Ok(())
    }

    fn series(&mut self) -> Outcome<()> {
        let Some(key) = self.next_key()? else {
            return self.close_series();
        };
        match key {
            "metric" => {
                if self.peek() != Some(b'{') {
                    return Err(self.bad("expected a label object"));
                }
                self.open.set = Some(self.label_set()?);
            }
            "values" | "histograms" => {
                if self.peek() != Some(b'[') {
                    return Err(self.bad("expected an array of samples"));
                }
                let field = if key == "values" {
                    Field::Values
                } else {
                    Field::Histograms
                };
                self.enter(State::Samples(field));
            }
            "value" | "histogram" => {
                let field = if key == "value" {
                    Field::Values
                } else {
                    Field::Histograms
                };
                self.sample(field)?;
            }
            _ => self.begin_skip(Around::Series),
        }
        Ok(())
    }

    fn label_set(&mut self) -> Outcome<LabelSet<'a>> {
        let place = self.at;
        let text = self.value(LABEL_BYTES_MAX, "bytes of one label set")?;
        labels::read(text, self.injected, &mut self.label_scratch, self.bump).map_err(|failure| {
            match failure {
                MemberFailure::Malformed { problem, .. } => {
                    MemberFailure::Malformed { at: place, problem }
                }
                other => other,
            }
        })
    }

    fn close_series(&mut self) -> Outcome<()> {
        let open = std::mem::take(&mut self.open);
        let Some(set) = open.set else {
            return Err(self.bad("series without labels"));
        };
        let (points, histograms) = open.samples.close(self.bump)?;
        self.push(Series {
            set,
            points,
            histograms,
        })?;
        self.leave_to(State::Result);
        Ok(())
    }

    fn push(&mut self, series: Series<'a>) -> Outcome<()> {
        if self.parsed.series.len() >= SERIES_PER_ANSWER_MAX {
            return Err(MemberFailure::Limit {
                limit: "series of one answer",
            });
        }
        if let Some(last) = self.parsed.series.last()
            && self.parsed.is_sorted
        {
            let order = labels::compare(last.set.labels, series.set.labels);
            self.parsed.is_sorted = order != std::cmp::Ordering::Greater;
        }
        self.parsed.series.push(series);
        Ok(())
    }

    // === lists ===

    fn list(&mut self) -> Outcome<()> {
        if !self.next_item(b']')? {
            self.leave_to(State::Top);
            return Ok(());
        }
        let set = match self.peek() {
            Some(b'{') => self.label_set()?,
            _ => {
                let value = self.string()?;
                let labels = labels::copy(self.bump, &[Label { name: "", value }])?;
                LabelSet { labels, text: None }
            }
        };
        self.push(Series {
            set,
            points: Points::default(),
            histograms: &[],
        })
    }
}
