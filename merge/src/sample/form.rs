//! Reads pairs that are written like the one before them, many bytes at once.
//!
//! Almost all pairs of an answer have times of the same length and plain values. Bytes are sorted
//! into digits and others eight at a time, and what is no digit must stand where it stood, or where
//! a plain value has it. Any other pair is left to [`super::read`], which knows all forms.
//!
//! Some functions are inlined always: places that stay in registers, or are not asked for, cost
//! nothing.

use super::read::{DIGITS_MAX, eight_digits};
use super::{Number, Point, Shape, WINDOW, Window, padded};
use crate::number::{parse_float, quotient};

/// Heads of up to this many bytes after the bracket are known again: `1435781430.781,"`.
const HEAD: usize = 16;
/// Values are looked at up to this many bytes: a sign, 17 digits, a point, and the quote.
const VALUE: usize = 24;

const TOP_BITS: u64 = 0x8080_8080_8080_8080;
const ZEROS: u64 = 0x3030_3030_3030_3030;
const ALL_ZEROS: u128 = (ZEROS as u128) << 64 | ZEROS as u128;

/// Sets the top bit of each byte that is no digit, and nothing else.
#[inline]
fn others(eight: u64) -> u64 {
    // A digit becomes 0 to 9. Without the top bits nothing is carried from byte to byte.
    let digits = eight ^ ZEROS;
    (((digits & !TOP_BITS) + 0x7676_7676_7676_7676) | digits) & TOP_BITS
}

#[inline]
fn others_of_head(head: u128) -> u128 {
    u128::from(others((head >> 64) as u64)) << 64 | u128::from(others(head as u64))
}

/// Joins the top bits of eight bytes, that of the first lowest.
#[inline]
fn joined(top_bits: u64) -> u32 {
    ((top_bits >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
}

#[inline]
fn word(window: &Window, at: usize) -> u64 {
    let eight = window.get(at..).and_then(|rest| rest.first_chunk());
    eight.map_or(0, |eight| u64::from_le_bytes(*eight))
}

#[inline]
fn double_word(window: &Window, at: usize) -> u128 {
    let sixteen = window.get(at..).and_then(|rest| rest.first_chunk());
    sixteen.map_or(0, |sixteen| u128::from_le_bytes(*sixteen))
}

/// All bits of the first bytes, as many as the index.
const FIRST_BYTES: [u128; 17] = {
    let mut masks = [u128::MAX; 17];
    let mut at = 0;
    while at < 16 {
        masks[at] = (1 << (8 * at)) - 1;
        at += 1;
    }
    masks
};

/// The first `count` bytes, all bits set.
#[inline]
fn first_bytes(count: usize) -> u128 {
    FIRST_BYTES[count.min(16)]
}

/// How the head of a pair is written: its time, the comma, and the quote before the value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    /// The head, its first byte lowest, without the bracket; 0 where the form is of no use.
    head: u128,
    /// All bits of the head's bytes.
    bytes: u128,
    /// All bits of those that are no digits.
    punctuation: u128,
    /// All bits of the decimals.
    decimals: u128,
    value_at: u8,
}

impl Default for Form {
    /// A form that no pair has.
    fn default() -> Self {
        Self {
            head: 0,
            bytes: 0,
            punctuation: u128::MAX,
            decimals: 0,
            value_at: 0,
        }
    }
}

/// A pair with a value that has no exponent, among others of its form.
///
/// It is kept as places, which cost nothing to find: what they mean is told where it is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plain<'a> {
    window: &'a Window,
    extent: Extent,
}

impl<'a> Plain<'a> {
    /// Returns the length of the pair, brackets included.
    #[inline]
    pub(crate) fn length(&self) -> usize {
        usize::from(self.extent.length())
    }

    /// Appends the text of the pair up to the value.
    #[inline]
    pub(crate) fn write_head(&self, out: &mut Vec<u8>) {
        // A copy of fixed length is a few instructions; what is too much is cut off again.
        let end = out.len() + self.value_at();
        out.extend_from_slice(&self.window[..2 * HEAD]);
        out.truncate(end);
    }

    /// Returns the text of the pair.
    #[inline]
    pub(crate) fn pair(&self) -> &'a [u8] {
        self.window.get(..self.length()).unwrap_or_default()
    }

    #[inline]
    fn value_at(&self) -> usize {
        self.extent.first - usize::from(self.extent.is_negative)
    }

    /// Returns the value as a double.
    #[inline(always)]
    pub(crate) fn number(&self) -> f64 {
        let number = self.extent.number(self.window);
        let magnitude =
            number.and_then(|number| quotient(mantissa(self.window, &number), number.scale));
        match magnitude {
            Some(magnitude) if self.extent.is_negative => -magnitude,
            Some(magnitude) => magnitude,
            None => self.long_number(),
        }
    }

    #[cold]
    fn long_number(&self) -> f64 {
        let value = self.window.get(self.value_at()..self.length() - 2);
        // Canonical text always parses.
        value.and_then(parse_float).unwrap_or(f64::NAN)
    }

    /// Whether this value and another, at the same time, are different numbers.
    #[inline]
    pub(crate) fn differs_from(&self, other: &Self) -> bool {
        self.is_far_from(other) || self.differs_nearby(other)
    }

    #[inline(never)]
    fn differs_nearby(&self, other: &Self) -> bool {
        self.pair() != other.pair() && self.number() != other.number()
    }

    /// Whether the values of two pairs of one form are far apart: of one sign, with as many digits
    /// before the point, and more than 1 apart where the first eight bytes end. No double is nearest
    /// to both then.
    #[inline]
    fn is_far_from(&self, other: &Self) -> bool {
        let (own, others) = (&self.extent, &other.extent);
        let point = first_bytes(own.whole + 1) ^ first_bytes(own.whole);
        (own.first, own.whole) == (others.first, others.whole)
            && self
                .leading(point as u64)
                .abs_diff(other.leading(point as u64))
                > 1
    }

    /// Returns the digits among the first eight bytes, with a 0 instead of the point.
    #[inline]
    fn leading(&self, point: u64) -> u64 {
        let digits = word(self.window, self.extent.first) ^ ZEROS;
        eight_digits(digits & first_bytes(self.extent.end) as u64 & !point)
    }
}

impl Form {
    /// Returns the form of the pair that begins `text` and was read in full.
    pub(crate) fn of(text: &[u8], point: &Point) -> Self {
        let length = usize::from(point.value_at) - 1;
        // Times before 1970 have an order of their own.
        if length > HEAD || text.get(1) == Some(&b'-') {
            return Self::default();
        }
        let mut window = [0; WINDOW];
        window[..length].copy_from_slice(&text[1..=length]);
        let bytes = first_bytes(length);
        let head = double_word(&window, 0);
        let marks = (others_of_head(head) & bytes) >> 7;
        let decimals = match window.iter().position(|byte| *byte == b'.') {
            Some(at) => first_bytes(length - 2) & !first_bytes(at + 1),
            None => 0,
        };
        Self {
            head,
            bytes,
            punctuation: marks * 0xff,
            decimals,
            value_at: point.value_at,
        }
    }

    /// Returns the head of the last pair as a number, or 0 where it is too long.
    #[inline]
    pub(crate) fn head(&self) -> u128 {
        self.head
    }

    /// Returns the time of the last pair, if it had a form.
    pub(crate) fn time_ms(&self) -> Option<i64> {
        let mut text = [0; HEAD + 1];
        text[1..].copy_from_slice(&self.head.to_le_bytes());
        (self.head != 0).then(|| super::read::time_of(&text))
    }

    /// Reads the pair that begins `text` if it is canonical, of this form, and of a later time than
    /// the last; it is the last then.
    #[inline]
    pub(crate) fn later(&mut self, text: &[u8]) -> Option<Point> {
        match text.first_chunk() {
            Some(window) => self.read::<false>(window),
            None => self.read::<false>(&padded(text)),
        }
    }

    /// The same of text that is known to be canonical and in order.
    #[inline]
    pub(super) fn next(&mut self, text: &[u8]) -> Option<Point> {
        match text.first_chunk() {
            Some(window) => self.read::<true>(window),
            None => self.read::<true>(&padded(text)),
        }
    }

    /// Reads the pair that begins `text`, known to be canonical and in order, if it is of this form
    /// and not among the last of its segment; it is the last then.
    #[inline(always)]
    pub(crate) fn next_plain<'a>(&mut self, text: &'a [u8]) -> Option<Plain<'a>> {
        let window = text.first_chunk()?;
        let head = double_word(window, 1) & self.bytes;
        if others_of_head(head) & self.bytes != self.punctuation & ALL_TOP_BITS {
            return None;
        }
        self.head = head;
        self.plain(window)
    }

    /// The same of a pair that must be of the last one's time.
    #[inline(always)]
    pub(crate) fn same_time<'a>(&self, text: &'a [u8]) -> Option<Plain<'a>> {
        let window = text.first_chunk()?;
        if double_word(window, 1) & self.bytes != self.head {
            return None;
        }
        self.plain(window)
    }

    #[inline(always)]
    fn plain<'a>(&self, window: &'a Window) -> Option<Plain<'a>> {
        let extent = Extent::of(window, self.value_at);
        let is_plain = extent.whole > 0 && extent.byte(window, extent.end) == b'"';
        is_plain.then_some(Plain { window, extent })
    }

    #[inline]
    fn read<const IS_KNOWN: bool>(&mut self, window: &Window) -> Option<Point> {
        let head = double_word(window, 1) & self.bytes;
        if others_of_head(head) & self.bytes != self.punctuation & ALL_TOP_BITS {
            return None;
        }
        if !IS_KNOWN {
            let is_alike = (head ^ self.head) & self.punctuation == 0;
            // Digits of one length are in the order of their numbers.
            let is_later = head.swap_bytes() > self.head.swap_bytes();
            // Decimals of zeros are not written.
            let is_exact = self.decimals == 0 || (head ^ ALL_ZEROS) & self.decimals != 0;
            if !(window[0] == b'[' && is_alike && is_later && is_exact) {
                return None;
            }
        }
        let (number, length) = plain_number::<IS_KNOWN>(window, self.value_at)?;
        self.head = head;
        Some(Point {
            length,
            value_at: self.value_at,
            number,
        })
    }
}

const ALL_TOP_BITS: u128 = (TOP_BITS as u128) << 64 | TOP_BITS as u128;

/// Where a value without an exponent has its parts.
#[derive(Debug, Clone, Copy)]
struct Extent {
    is_negative: bool,
    /// Where its first digit is in the pair.
    first: usize,
    /// Digits before the point, or all.
    whole: usize,
    /// Bytes from the first digit up to the quote.
    end: usize,
    has_point: bool,
}

impl Extent {
    /// Finds the first two bytes that are no digits, in a value that starts at `at`.
    #[inline(always)]
    fn of(window: &Window, at: u8) -> Self {
        // A value starts within the first 31 bytes: what is masked off is 0.
        let at = usize::from(at & 31);
        let is_negative = window[at] == b'-';
        let first = at + usize::from(is_negative);
        let others = joined(others(word(window, first)))
            | joined(others(word(window, first + 8))) << 8
            | joined(others(word(window, first + 16))) << 16
            | 1 << VALUE;
        let whole = others.trailing_zeros() as usize;
        let has_point = window[(first + whole) % WINDOW] == b'.';
        let second = (others & (others - 1)).trailing_zeros() as usize;
        Self {
            is_negative,
            first,
            whole,
            end: if has_point { second } else { whole },
            has_point,
        }
    }

    /// Returns the byte after the first digit and `offset` more.
    #[inline]
    fn byte(&self, window: &Window, offset: usize) -> u8 {
        window[(self.first + offset) % WINDOW]
    }

    /// Returns the length of the pair.
    #[inline]
    fn length(&self) -> u8 {
        (self.first + self.end + 2) as u8
    }

    /// Returns how the value is written, or `None` where it has no digit or too many.
    #[inline(always)]
    fn number(&self, window: &Window) -> Option<Number> {
        let Self { whole, end, .. } = *self;
        let decimals = end - whole;
        // Before a point a zero is no digit of the value; of the decimals, one byte is the point.
        let is_below_one = self.has_point && self.byte(window, 0) == b'0';
        let (skipped, count, before) = match (is_below_one, self.has_point) {
            (true, _) => (2, decimals.wrapping_sub(1), decimals.wrapping_sub(1)),
            (false, true) => (0, end.wrapping_sub(1), whole),
            (false, false) => (0, whole, whole),
        };
        if whole == 0 || self.byte(window, end) != b'"' || count > DIGITS_MAX {
            return None;
        }
        Some(Number {
            shape: if self.is_negative {
                Shape::Negative
            } else {
                Shape::Plain
            },
            digits_at: (self.first + skipped) as u8,
            count: count as u8,
            whole: before as u8,
            scale: decimals.saturating_sub(1) as u8,
        })
    }
}

/// Reads a canonical value of up to 17 digits without an exponent, or one that `IS_KNOWN` to be
/// canonical. Returns it and the pair's length.
#[inline]
fn plain_number<const IS_KNOWN: bool>(window: &Window, at: u8) -> Option<(Number, u8)> {
    let extent = Extent::of(window, at);
    let number = extent.number(window)?;
    if !IS_KNOWN {
        let Extent {
            whole,
            end,
            has_point,
            ..
        } = extent;
        let byte = |offset| extent.byte(window, offset);
        let has_fraction = end > whole + 1;
        let is_led = byte(0) != b'0' || (whole == 1 && (!has_point || byte(2) != b'0'));
        let is_ended = !has_point || (has_fraction && byte(end - 1) != b'0');
        if !is_led || !is_ended || byte(end + 1) != b']' {
            return None;
        }
    }
    Some((number, extent.length()))
}

/// Returns the digits of a plain value, without its point.
#[inline]
pub(super) fn mantissa(window: &Window, number: &Number) -> u64 {
    // Digits start within the first 31 bytes: what is masked off is 0.
    let at = usize::from(number.digits_at & 31);
    let (count, whole) = (usize::from(number.count), usize::from(number.whole));
    let before = first_bytes(whole);
    let digits = (double_word(window, at) & before) | (double_word(window, at + 1) & !before);
    // The last digit goes to the last byte, zeros come in before the first.
    let kept = count.clamp(1, 16);
    let aligned = (digits ^ ALL_ZEROS) << (8 * (16 - kept));
    let (high, low) = (aligned as u64, (aligned >> 64) as u64);
    let joined = eight_digits(high) * 100_000_000 + eight_digits(low);
    if count <= kept {
        return joined;
    }
    let last = at + 16 + usize::from(whole <= 16);
    joined * 10 + u64::from(window[last % WINDOW] & 0x0f)
}
