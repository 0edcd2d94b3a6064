//! Times and durations of a Prometheus API request, read as Prometheus reads them, and written so that it reads the
//! same again.
//!
//! Pure functions, called by `request`. What a server would refuse, or read otherwise, is `None` here: such a request
//! goes to the servers as it came. Contract: tsm page, 2; decisions, 18.

use std::time::Duration;

use ringway_merge::Grid;

/// Most steps of a range query: a server refuses more, and says so.
const STEPS_MAX: i128 = 11_000;
/// The last millisecond of the year 9999. Up to there a number of seconds has more than three digits behind its point.
const TIME_MS_MAX: i64 = 253_402_300_799_999;
const NANOSECONDS: f64 = 1e9;
const NS_PER_MS: i64 = 1_000_000;

/// A length of time in nanoseconds, as the servers hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Span(i64);

impl Span {
    /// In whole milliseconds: a server evaluates in these.
    pub(super) fn milliseconds(self) -> i64 {
        self.0 / NS_PER_MS
    }

    /// As a length; nothing where it is negative.
    pub(super) fn duration(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }

    /// Whether it is a time to go on for.
    pub(super) fn is_positive(self) -> bool {
        self.0 > 0
    }
}

/// Unix milliseconds of a time: a number of seconds, rounded, or RFC 3339.
pub(super) fn time_ms(text: &str) -> Option<i64> {
    let time_ms = match text.parse::<f64>() {
        Ok(number) => rounded_ms(number)?,
        Err(_) => rfc3339_ms(text)?,
    };
    (-TIME_MS_MAX..=TIME_MS_MAX)
        .contains(&time_ms)
        .then_some(time_ms)
}

/// A number of seconds in milliseconds: its fraction is rounded, half away from zero.
fn rounded_ms(seconds: f64) -> Option<i64> {
    if seconds.is_nan() || seconds.abs() > TIME_MS_MAX as f64 {
        return None;
    }
    let whole = seconds.trunc();
    let thousandths = ((seconds - whole) * 1000.0).round();
    // Both are far below the bounds of an integer.
    Some(whole as i64 * 1000 + thousandths as i64)
}

/// A duration: a number of seconds, or such as `1h30m`.
pub(super) fn span(text: &str) -> Option<Span> {
    let Ok(seconds) = text.parse::<f64>() else {
        return written_span(text);
    };
    let nanoseconds = seconds * NANOSECONDS;
    // The fraction of a nanosecond is cut off.
    (nanoseconds.abs() < i64::MAX as f64).then_some(Span(nanoseconds as i64))
}

/// `1y2w3d4h5m6s7ms`: any of these units, each at most once, in this order.
fn written_span(text: &str) -> Option<Span> {
    const UNITS: [(&str, i64); 7] = [
        ("y", 365 * 86_400_000),
        ("w", 7 * 86_400_000),
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1000),
        ("ms", 1),
    ];
    let mut rest = text;
    let mut units = UNITS.iter();
    let mut total_ms: i64 = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, behind) = rest.split_at(digits);
        let letters = behind.bytes().take_while(u8::is_ascii_lowercase).count();
        let (unit, behind) = behind.split_at(letters);
        let (_, unit_ms) = units.find(|(name, _)| *name == unit)?;
        let part_ms = number.parse::<i64>().ok()?.checked_mul(*unit_ms)?;
        total_ms = total_ms.checked_add(part_ms)?;
        rest = behind;
    }
    if text.is_empty() {
        return None;
    }
    total_ms.checked_mul(NS_PER_MS).map(Span)
}

/// The steps from `start` to `end`, and the end as it is named; `None` where a server refuses them.
pub(super) fn range(start: &str, end: &str, step: &str) -> Option<(Grid, i64)> {
    let (start_ms, end_ms, step) = (time_ms(start)?, time_ms(end)?, span(step)?);
    if step.milliseconds() < 1 || end_ms < start_ms {
        return None;
    }
    let length_ns = i128::from(end_ms - start_ms) * i128::from(NS_PER_MS);
    if length_ns / i128::from(step.0) > STEPS_MAX {
        return None;
    }
    Some((Grid::range(start_ms, end_ms, step.milliseconds()), end_ms))
}

/// Unix seconds with three digits behind the point.
pub(super) fn written_time(time_ms: i64) -> String {
    let sign = if time_ms < 0 { "-" } else { "" };
    let ms = time_ms.unsigned_abs();
    format!("{sign}{}.{:03}", ms / 1000, ms % 1000)
}

/// A step. Of a number of seconds a server may lose a millisecond.
pub(super) fn written_step(step_ms: i64) -> String {
    format!("{step_ms}ms")
}

/// `2006-01-02T15:04:05[.999](Z|±hh:mm)`; what is behind the milliseconds is cut off.
fn rfc3339_ms(text: &str) -> Option<i64> {
    let mut fields = Fields(text.as_bytes());
    let year = fields.number(4)?;
    fields.mark(b'-')?;
    let month = fields.number(2)?;
    fields.mark(b'-')?;
    let day = fields.number(2)?;
    fields.mark(b'T')?;
    let hour = fields.number(2)?;
    fields.mark(b':')?;
    let minute = fields.number(2)?;
    fields.mark(b':')?;
    let second = fields.number(2)?;
    let fraction_ms = fields.fraction_ms()?;
    let offset_minutes = fields.zone()?;
    let is_date = (1..=12).contains(&month) && (1..=days_of(year, month)).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let minutes = (days_from_civil(year, month, day) * 24 + hour) * 60 + minute - offset_minutes;
    Some((minutes * 60 + second) * 1000 + fraction_ms)
}

/// What is left of a text that is read field by field.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    /// A number of exactly so many digits.
    fn number(&mut self, digits: usize) -> Option<i64> {
        let (field, rest) = self.0.split_at_checked(digits)?;
        if !field.iter().all(u8::is_ascii_digit) {
            return None;
        }
        self.0 = rest;
        Some(
            field
                .iter()
                .fold(0, |number, digit| number * 10 + i64::from(digit - b'0')),
        )
    }

    fn mark(&mut self, mark: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[mark])?;
        Some(())
    }

    /// A fraction of a second, if there is one.
    fn fraction_ms(&mut self) -> Option<i64> {
        if self.mark(b'.').is_none() {
            return Some(0);
        }
        let digits = self.0.iter().take_while(|byte| byte.is_ascii_digit());
        let (field, rest) = self.0.split_at(digits.count());
        self.0 = rest;
        let digit = |at: usize| field.get(at).map_or(0, |digit| i64::from(digit - b'0'));
        (!field.is_empty()).then(|| digit(0) * 100 + digit(1) * 10 + digit(2))
    }

    /// Minutes east of Greenwich; nothing may follow.
    fn zone(&mut self) -> Option<i64> {
        if self.0 == b"Z" {
            return Some(0);
        }
        let sign = match self.0.first()? {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        self.0 = &self.0[1..];
        let hours = self.number(2)?;
        self.mark(b':')?;
        let minutes = self.number(2)?;
        let is_zone = self.0.is_empty() && hours < 24 && minutes < 60;
        is_zone.then_some(sign * (hours * 60 + minutes))
    }
}

fn days_of(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 of a date of the proleptic Gregorian calendar.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March here, so that a leap day is a year's last.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    // 719,468 days lie between 0000-03-01 and 1970-01-01.
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_numbers_or_rfc3339() {
        let cases = [
            ("1700000000", Some(1_700_000_000_000)),
            ("1700000000.5", Some(1_700_000_000_500)),
            ("1700000000.0004", Some(1_700_000_000_000)),
            ("1700000000.0005", Some(1_700_000_000_000)),
            ("1700000000.0006", Some(1_700_000_000_001)),
            ("1.7e9", Some(1_700_000_000_000)),
            ("-1.5", Some(-1_500)),
            ("0.9996", Some(1_000)),
            ("1970-01-01T00:00:00Z", Some(0)),
            ("1969-12-31T23:59:59.9999Z", Some(-1)),
            ("2024-02-29T12:00:00.25+01:00", Some(1_709_204_400_250)),
            ("2023-11-14T22:13:20Z", Some(1_700_000_000_000)),
            ("NaN", None),
            ("inf", None),
            ("1e18", None),
            ("0x10", None),
            ("", None),
            ("2023-02-29T12:00:00Z", None),
            ("2024-13-01T00:00:00Z", None),
            ("2024-01-01T24:00:00Z", None),
            ("2024-01-01T00:00:00", None),
            ("2024-01-01T00:00:00.Z", None),
            ("2024-01-01 00:00:00Z", None),
            ("2024-01-01T00:00:00+1:00", None),
            ("yesterday", None),
        ];
        for (text, expected) in cases {
            assert_eq!(time_ms(text), expected, "{text}");
        }
    }

    #[test]
    fn durations_are_numbers_or_units_in_order() {
        let cases = [
            ("15", Some(15_000)),
            ("0.5", Some(500)),
            // What a server makes of it: 1,000,999,999 ns.
            ("1.001", Some(1_000)),
            ("0.0299999", Some(29)),
            ("1m30s", Some(90_000)),
            ("1h", Some(3_600_000)),
            ("1y", Some(31_536_000_000)),
            ("1w2d", Some(9 * 86_400_000)),
            ("7ms", Some(7)),
            ("0", Some(0)),
            ("-1", Some(-1_000)),
            ("1m1h", None),
            ("1m1m", None),
            ("1.5m", None),
            ("m", None),
            ("1", Some(1_000)),
            ("1M", None),
            ("", None),
            ("NaN", None),
            ("1e300", None),
            ("300y", None),
            ("99999999999999999999s", None),
        ];
        for (text, expected) in cases {
            assert_eq!(span(text).map(Span::milliseconds), expected, "{text}");
        }
    }

    #[test]
    fn ranges_that_a_server_refuses_have_no_steps() {
        let steps = |start, end, step| range(start, end, step).map(|(grid, _)| grid.count);
        assert_eq!(steps("0", "60", "15"), Some(5));
        assert_eq!(steps("0", "59.999", "15s"), Some(4));
        assert_eq!(steps("60", "60", "1"), Some(1));
        let named = range("0", "59.999", "15").map(|(_, end_ms)| end_ms);
        assert_eq!(named, Some(59_999));
        for (start, end, step) in [
            ("60", "0", "15"),
            ("0", "60", "0"),
            ("0", "60", "-1"),
            ("0", "60", "0.0001"),
            ("0", "11001", "1"),
            ("x", "60", "15"),
        ] {
            assert_eq!(steps(start, end, step), None, "{start} {end} {step}");
        }
        assert_eq!(steps("0", "11000", "1"), Some(11_001));
    }

    #[test]
    fn what_is_written_is_read_again() {
        for ms in [0, 1, -1, 999, -1_500, 1_700_000_000_123, TIME_MS_MAX] {
            assert_eq!(time_ms(&written_time(ms)), Some(ms));
        }
        for ms in 1..5_000 {
            let span = span(&written_step(ms));
            assert_eq!(span.map(Span::milliseconds), Some(ms));
        }
    }
}
