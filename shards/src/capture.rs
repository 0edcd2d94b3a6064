//! A member's answer held in memory, within two bounds: the member's own and that of the whole fan-out.
//!
//! An answer that is merged has its content coding undone as the bytes come, and the bounds count what is kept
//! after that, so a small body cannot grow without limit; one that is passed on is kept as it came. Contract: ALB
//! page, 5; decisions, 15.

mod segments;

use std::cell::Cell;
use std::io::Write as _;
use std::rc::Rc;

use flate2::write::MultiGzDecoder;
use ringway_merge::MemberFailure;

pub(crate) use segments::Segments;

/// Most coded bytes undone in one go: deflate grows at most about a thousandfold, so a step makes at most
/// some 500 KiB.
const CODED_STEP_BYTES: usize = 512;
/// Most bytes that are set aside for an answer of declared length before any of it has come.
const ROOM_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Most bytes that are copied in one go.
const COPY_STEP_BYTES: usize = 256 * 1024;
/// How much gzip is expected to have shrunk a body, for the room that is set aside.
const CODED_GROWTH: u64 = 16;
/// Work after which everything else gets a turn, in bytes undone from a coding: some 0.2 ms.
pub(crate) const WORK_PER_TURN: u64 = 128 * 1024;
/// A byte that is only copied is so much less work.
const COPIES_PER_WORK: u64 = 8;

/// What a fan-out may still capture, over all its members; `None` inside: no bound.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Option<Rc<Left>>);

#[derive(Debug)]
struct Left {
    bytes: Cell<u64>,
    /// Some capture wanted more than there was.
    overdrawn: Cell<bool>,
}

impl Budget {
    pub(crate) fn new(bytes_max: Option<u64>) -> Budget {
        Budget(bytes_max.map(|bytes| {
            Rc::new(Left {
                bytes: Cell::new(bytes),
                overdrawn: Cell::new(false),
            })
        }))
    }

    /// True once the members that were asked used all of it up, or wanted more: no other is even asked.
    pub(crate) fn is_spent(&self) -> bool {
        let is_spent = |left: &Rc<Left>| left.bytes.get() == 0 || left.overdrawn.get();
        self.0.as_ref().is_some_and(is_spent)
    }

    fn take(&self, bytes: u64) -> Result<(), MemberFailure> {
        let Some(left) = &self.0 else {
            return Ok(());
        };
        let rest = left.bytes.get().checked_sub(bytes);
        left.overdrawn.set(left.overdrawn.get() || rest.is_none());
        left.bytes.set(rest.ok_or(MemberFailure::AggregateCap)?);
        Ok(())
    }

    fn give_back(&self, bytes: u64) {
        if let Some(left) = &self.0 {
            left.bytes.set(left.bytes.get().saturating_add(bytes));
        }
    }
}

/// What one capture has taken out of a budget. Given back with the memory of a capture that fails, so that it fails
/// alone; kept by one that is finished.
struct Charge {
    budget: Budget,
    bytes: u64,
}

impl Charge {
    fn take(&mut self, bytes: u64) -> Result<(), MemberFailure> {
        self.budget.take(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    fn keep(&mut self) {
        self.bytes = 0;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

/// The body of one answer as it arrives.
pub(crate) struct Capture {
    sink: Sink,
    bytes_max: u64,
    charge: Charge,
    /// Nothing has come: of an answer such as 204, whatever coding it names.
    is_empty: bool,
}

/// What one step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pushed {
    /// Bytes of the input that were used.
    pub(crate) taken: usize,
    /// How much work that was, in the unit of [`WORK_PER_TURN`].
    pub(crate) work: u64,
}

enum Sink {
    /// As it came, in pieces.
    Raw(Segments),
    Plain(Vec<u8>),
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
}

impl Capture {
    /// A capture of at most `bytes_max` bytes of a body in this content coding. What the answer declares as
    /// its length is reserved at once.
    pub(crate) fn new(
        coding: &[u8],
        declared: Option<u64>,
        bytes_max: u64,
        budget: &Budget,
    ) -> Result<Capture, MemberFailure> {
        let is_plain = coding.is_empty() || coding.eq_ignore_ascii_case(b"identity");
        let coded = declared.filter(|_| !is_plain);
        let declared = declared.filter(|_| is_plain);
        let charge = reserve(declared, bytes_max, budget)?;
        let sink = if is_plain {
            // All of it at once: a buffer that grows to 8 MiB by doubling is copied, in steps of milliseconds. What
            // is never received is never touched, and the bounds above hold it.
            let room = usize::try_from(charge.bytes)
                .unwrap_or(0)
                .min(ROOM_BYTES_MAX);
            Sink::Plain(Vec::with_capacity(room))
        } else if coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip") {
            let grown = coded
                .unwrap_or(0)
                .saturating_mul(CODED_GROWTH)
                .min(bytes_max);
            let room = usize::try_from(grown).unwrap_or(0).min(ROOM_BYTES_MAX);
            Sink::Gzip(Box::new(MultiGzDecoder::new(Vec::with_capacity(room))))
        } else {
            return Err(MemberFailure::Encoding);
        };
        Ok(Capture {
            sink,
            bytes_max,
            charge,
            is_empty: true,
        })
    }

    /// As [`Capture::new`], of a body that is kept as it comes, whatever its coding.
    pub(crate) fn raw(
        declared: Option<u64>,
        bytes_max: u64,
        budget: &Budget,
    ) -> Result<Capture, MemberFailure> {
        let charge = reserve(declared, bytes_max, budget)?;
        Ok(Capture {
            sink: Sink::Raw(Segments::expecting(charge.bytes)),
            bytes_max,
            charge,
            is_empty: true,
        })
    }

    /// Takes the next bytes of the body, or as many as one step allows.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Pushed, MemberFailure> {
        let before = self.len();
        self.is_empty &= bytes.is_empty();
        let taken = match &mut self.sink {
            Sink::Raw(kept) => {
                let step = bytes.len().min(COPY_STEP_BYTES);
                kept.push(&bytes[..step]);
                step
            }
            Sink::Plain(kept) => {
                let step = bytes.len().min(COPY_STEP_BYTES);
                kept.extend_from_slice(&bytes[..step]);
                step
            }
            Sink::Gzip(decoder) => {
                let step = bytes.len().min(CODED_STEP_BYTES);
                decoder
                    .write_all(&bytes[..step])
                    .map_err(|_| MemberFailure::Encoding)?;
                step
            }
        };
        self.count()?;
        let made = self.len() - before;
        Ok(Pushed {
            taken,
            work: match self.sink {
                Sink::Gzip(_) => made.max(taken as u64),
                Sink::Raw(_) | Sink::Plain(_) => made / COPIES_PER_WORK,
            },
        })
    }

    fn len(&self) -> u64 {
        match &self.sink {
            Sink::Raw(kept) => kept.len(),
            Sink::Plain(kept) => kept.len() as u64,
            Sink::Gzip(decoder) => decoder.get_ref().len() as u64,
        }
    }

    fn count(&mut self) -> Result<(), MemberFailure> {
        let len = self.len();
        if len > self.bytes_max {
            return Err(MemberFailure::Truncated);
        }
        self.charge.take(len.saturating_sub(self.charge.bytes))
    }

    /// The whole body, once its last byte was pushed.
    pub(crate) fn finish(mut self) -> Result<Vec<u8>, MemberFailure> {
        if self.is_empty {
            return Ok(Vec::new());
        }
        if let Sink::Gzip(decoder) = &mut self.sink {
            // The decoder holds some output back until it is told of the end.
            decoder.try_finish().map_err(|_| MemberFailure::Encoding)?;
            self.count()?;
        }
        self.charge.keep();
        match self.sink {
            Sink::Raw(kept) => Ok(kept.into_one()),
            Sink::Plain(kept) => Ok(kept),
            Sink::Gzip(decoder) => decoder.finish().map_err(|_| MemberFailure::Encoding),
        }
    }

    /// As [`Capture::finish`], in the pieces it is kept in.
    pub(crate) fn finish_in_pieces(mut self) -> Result<Segments, MemberFailure> {
        if let Sink::Raw(kept) = &mut self.sink {
            self.charge.keep();
            return Ok(std::mem::take(kept));
        }
        self.finish().map(|kept| Segments::of(vec![kept]))
    }
}

/// Takes a declared length out of the budget.
fn reserve(
    declared: Option<u64>,
    bytes_max: u64,
    budget: &Budget,
) -> Result<Charge, MemberFailure> {
    let length = declared.unwrap_or(0);
    if length > bytes_max {
        return Err(MemberFailure::Truncated);
    }
    let mut charge = Charge {
        budget: budget.clone(),
        bytes: 0,
    };
    charge.take(length)?;
    Ok(charge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).expect("a Vec takes all");
        encoder.finish().expect("a Vec takes all")
    }

    fn run(
        coding: &[u8],
        body: &[u8],
        max: u64,
        budget: &Budget,
    ) -> Result<Vec<u8>, MemberFailure> {
        let mut capture = Capture::new(coding, None, max, budget)?;
        let mut rest = body;
        while !rest.is_empty() {
            rest = &rest[capture.push(rest)?.taken..];
        }
        capture.finish()
    }

    #[test]
    fn a_body_up_to_the_cap_is_kept_and_one_above_fails() {
        let budget = Budget::new(None);
        assert_eq!(run(b"", b"12345", 5, &budget), Ok(b"12345".to_vec()));
        assert_eq!(
            run(b"", b"123456", 5, &budget),
            Err(MemberFailure::Truncated)
        );
    }

    #[test]
    fn a_declared_length_above_the_cap_fails_before_any_byte() {
        let made = Capture::new(b"", Some(6), 5, &Budget::new(None)).map(|_| ());
        assert_eq!(made, Err(MemberFailure::Truncated));
    }

    #[test]
    fn a_raw_capture_keeps_coded_bytes_as_they_came() {
        let budget = Budget::new(Some(1000));
        let coded = gzip(b"text");
        let mut capture = Capture::raw(Some(coded.len() as u64), 1000, &budget).expect("it fits");
        assert_eq!(
            capture.push(&coded).map(|pushed| pushed.taken),
            Ok(coded.len())
        );
        let kept = capture.finish_in_pieces().expect("nothing to decode");
        assert_eq!(kept.into_one(), coded);
        let over = Capture::raw(Some(1000), 1000, &budget).map(|_| ());
        assert_eq!(over, Err(MemberFailure::AggregateCap));
        let mut long = Capture::raw(None, 3, &Budget::new(None)).expect("no length is declared");
        assert_eq!(long.push(b"1234"), Err(MemberFailure::Truncated));
    }

    #[test]
    fn gzip_is_undone_and_bounded_by_what_it_grows_to() {
        let body = vec![b'a'; 100_000];
        let coded = gzip(&body);
        let budget = Budget::new(None);
        assert!(run(b"gzip", &coded, 100_000, &budget) == Ok(body));
        assert_eq!(
            run(b"gzip", &coded, 99_999, &budget),
            Err(MemberFailure::Truncated)
        );
        assert_eq!(
            run(b"gzip", &coded[..coded.len() - 9], 100_000, &budget),
            Err(MemberFailure::Encoding)
        );
        assert_eq!(run(b"gzip", b"", 10, &budget), Ok(Vec::new()));
        assert_eq!(
            run(b"zstd", b"x", 10, &budget),
            Err(MemberFailure::Encoding)
        );
    }

    #[test]
    fn members_share_the_budget_of_their_fan_out() {
        let budget = Budget::new(Some(8));
        assert_eq!(run(b"", b"12345", 100, &budget), Ok(b"12345".to_vec()));
        assert_eq!(
            run(b"", b"1234", 100, &budget),
            Err(MemberFailure::AggregateCap)
        );
        assert!(budget.is_spent(), "for members that are not asked yet");
        let declared = Capture::new(b"", Some(4), 100, &budget).map(|_| ());
        assert_eq!(declared, Err(MemberFailure::AggregateCap));
        drop(Capture::new(b"", Some(3), 100, &budget).expect("there is room"));
        let rest = run(b"", b"123", 100, &budget);
        assert_eq!(rest, Ok(b"123".to_vec()), "what failed is given back");
    }
}
