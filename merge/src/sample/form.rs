//! Reads pairs that are written like the one before them, many bytes at once.
//!
//! Almost all pairs of an answer have times of the same length and plain values. Bytes are sorted
//! into digits and others eight at a time, and what is no digit must stand where it stood, or where
//! a plain value has it. Any other pair is left to [`super::read`], which knows all forms.

use super::read::{DIGITS_MAX, eight_digits};
use super::{Number, Point, Sample, Shape, WINDOW, Window, padded};

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

/// The first `count` bytes, all bits set.
#[inline]
fn first_bytes(count: usize) -> u128 {
    match count {
        0..16 => (1 << (8 * count)) - 1,
        _ => u128::MAX,
    }
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

impl Form {
    /// Returns the form of the pair that begins `text` and was read in full.
    pub(crate) fn of(text: &[u8], point: &Point) -> Self {
        let length = usize::from(point.value_at()) - 1;
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
            value_at: point.value_at(),
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

    /// Reads the pair that begins `text`, known to be canonical and in order, if it is of this form;
    /// it is the last then.
    #[inline]
    pub(crate) fn next_sample<'a>(&mut self, text: &'a [u8]) -> Option<Sample<'a>> {
        let point = self.next(text)?;
        Some(Sample { text, point })
    }

    /// Reads the pair that begins `text`, known to be canonical, if it is of the last one's time.
    #[inline]
    pub(crate) fn same_time<'a>(&self, text: &'a [u8]) -> Option<Sample<'a>> {
        let short;
        let window = match text.first_chunk() {
            Some(window) => window,
            None => {
                short = padded(text);
                &short
            }
        };
        let is_same = double_word(window, 1) & self.bytes == self.head;
        if !is_same || self.head == 0 {
            return None;
        }
        let (number, length) = plain_number::<true>(window, self.value_at)?;
        let point = Point::new(length, self.value_at, number);
        Some(Sample { text, point })
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
        Some(Point::new(length, self.value_at, number))
    }
}

const ALL_TOP_BITS: u128 = (TOP_BITS as u128) << 64 | TOP_BITS as u128;

/// Reads a canonical value of up to 17 digits without an exponent, or one that `IS_KNOWN` to be
/// canonical. Returns it and the pair's length.
#[inline(always)]
fn plain_number<const IS_KNOWN: bool>(window: &Window, at: u8) -> Option<(Number, u8)> {
    // A value starts within the first 31 bytes: what is masked off is 0.
    let at = usize::from(at & 31);
    let byte = |at: usize| window[at % WINDOW];
    let is_negative = byte(at) == b'-';
    let first = at + usize::from(is_negative);
    let others = joined(others(word(window, first)))
        | joined(others(word(window, first + 8))) << 8
        | joined(others(word(window, first + 16))) << 16
        | 1 << VALUE;
    let whole = others.trailing_zeros() as usize;
    let has_point = byte(first + whole) == b'.';
    let second = (others & (others - 1)).trailing_zeros() as usize;
    let end = if has_point { second } else { whole };
    let decimals = end - whole;
    // Before a point a zero is no digit of the value; of the decimals, one byte is the point.
    let is_below_one = has_point && byte(first) == b'0';
    let (skipped, count, before) = match (is_below_one, has_point) {
        (true, _) => (2, decimals.wrapping_sub(1), decimals.wrapping_sub(1)),
        (false, true) => (0, end.wrapping_sub(1), whole),
        (false, false) => (0, whole, whole),
    };
    if whole == 0 || byte(first + end) != b'"' || count > DIGITS_MAX {
        return None;
    }
    if !IS_KNOWN {
        let is_led = byte(first) != b'0' || (whole == 1 && (!has_point || byte(first + 2) != b'0'));
        let is_ended = !has_point || (decimals > 1 && byte(first + end - 1) != b'0');
        if !is_led || !is_ended || byte(first + end + 1) != b']' {
            return None;
        }
    }
    let number = Number {
        shape: if is_negative {
            Shape::Negative
        } else {
            Shape::Plain
        },
        digits_at: (first + skipped) as u8,
        count: count as u8,
        whole: before as u8,
        scale: decimals.saturating_sub(1) as u8,
    };
    Some((number, (first + end + 2) as u8))
}

/// Returns the first eight digits of a plain value, without its point: zeros where it has fewer.
#[inline]
pub(super) fn leading(window: &Window, number: &Number) -> u64 {
    let at = usize::from(number.digits_at & 31);
    let before = first_bytes(usize::from(number.whole)) as u64;
    let digits = (word(window, at) & before) | (word(window, at + 1) & !before);
    eight_digits((digits ^ ZEROS) & first_bytes(usize::from(number.count)) as u64)
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
