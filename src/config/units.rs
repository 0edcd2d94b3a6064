//! Durations, ports, status codes and processor lists as operators write them.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// A duration: Go form (`1h30m`, `1000ms`, `0`) or with `d`, `w`, `mo`, `y`. Contract: config page, 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Period(pub Duration);

/// What a [`Period`] looks like, for messages.
pub const PERIOD_FORM: &str = "a duration such as 500ms, 10s, 1h30m or 2d";

const UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("h", 3_600 * 1_000_000_000),
    ("d", 24 * 3_600 * 1_000_000_000),
    ("w", 7 * 24 * 3_600 * 1_000_000_000),
    ("mo", 730 * 3_600 * 1_000_000_000),
    ("y", 8_760 * 3_600 * 1_000_000_000),
];

impl FromStr for Period {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut rest = text.trim();
        if rest == "0" {
            return Ok(Period(Duration::ZERO));
        }
        let mut nanos: u64 = 0;
        if rest.is_empty() {
            return Err(());
        }
        while !rest.is_empty() {
            let number_len = rest
                .find(|c: char| !c.is_ascii_digit() && c != '.')
                .ok_or(())?;
            let (number, after) = rest.split_at(number_len);
            let unit_len = after
                .find(|c: char| c.is_ascii_digit() || c == '.')
                .unwrap_or(after.len());
            let (unit, next) = after.split_at(unit_len);
            let size = UNITS
                .iter()
                .find(|(name, _)| *name == unit)
                .map(|(_, size)| *size)
                .ok_or(())?;
            nanos = nanos.checked_add(scaled(number, size)?).ok_or(())?;
            rest = next;
        }
        Ok(Period(Duration::from_nanos(nanos)))
    }
}

/// A decimal number times a whole size, in integers.
fn scaled(number: &str, size: u64) -> Result<u64, ()> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && part.is_empty()) || part.contains('.') {
        return Err(());
    }
    let whole: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().map_err(|_| ())?
    };
    let mut nanos = whole.checked_mul(size).ok_or(())?;
    let mut unit = size;
    for digit in part.chars() {
        unit /= 10;
        let digit = u64::from(digit.to_digit(10).ok_or(())?);
        nanos = nanos.checked_add(digit * unit).ok_or(())?;
    }
    Ok(nanos)
}

impl std::fmt::Display for Period {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut nanos = u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX);
        if nanos == 0 {
            return f.write_str("0");
        }
        for unit in ["d", "h", "m", "s", "ms", "us", "ns"] {
            let size = UNITS
                .iter()
                .find(|(name, _)| *name == unit)
                .map_or(1, |(_, size)| *size);
            if nanos >= size {
                write!(f, "{}{unit}", nanos / size)?;
                nanos %= size;
            }
        }
        Ok(())
    }
}

impl<'de> serde::Deserialize<'de> for Period {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse()
            .map_err(|()| serde::de::Error::custom("not a duration"))
    }
}

/// A port: a number, or `any` for a free one. 0 means off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// Not listening.
    Off,
    /// Any free port.
    Any,
    /// This one.
    Number(u16),
}

impl FromStr for Port {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text == "any" {
            return Ok(Port::Any);
        }
        match text.parse::<u16>().map_err(|_| ())? {
            0 => Ok(Port::Off),
            number => Ok(Port::Number(number)),
        }
    }
}

impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Port::Off => f.write_str("0"),
            Port::Any => f.write_str("any"),
            Port::Number(number) => number.fmt(f),
        }
    }
}

impl<'de> serde::Deserialize<'de> for Port {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse()
            .map_err(|()| serde::de::Error::custom("not a port"))
    }
}

/// Status codes: one, or a range such as `200-299`.
pub fn parse_codes(text: &str) -> Option<RangeInclusive<u16>> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let from: u16 = from.trim().parse().ok()?;
    let to: u16 = to.trim().parse().ok()?;
    (100 <= from && from <= to && to <= 599).then_some(from..=to)
}

/// Most processors that a list may name.
const CPUS_MAX: usize = 1024;

/// A processor list such as `2-5,8`.
pub fn parse_cpus(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let part = part.trim();
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let from: usize = from.trim().parse().ok()?;
        let to: usize = to.trim().parse().ok()?;
        if from > to || to >= CPUS_MAX || cpus.len() + (to - from) >= CPUS_MAX {
            return None;
        }
        cpus.extend(from..=to);
    }
    Some(cpus)
}

/// A whole number, underscores between digits allowed.
pub fn parse_int(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let wild = digits.starts_with('_') || digits.ends_with('_') || digits.contains("__");
    if wild || digits.is_empty() {
        return None;
    }
    text.replace('_', "").parse().ok()
}

/// True and false, in the spellings Go's YAML library takes.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "y" => Some(true),
        "false" | "no" | "off" | "n" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(text: &str) -> Option<u64> {
        text.parse::<Period>()
            .ok()
            .map(|p| u64::try_from(p.0.as_millis()).unwrap())
    }

    #[test]
    fn durations_take_go_units_and_larger_ones() {
        for (text, ms) in [
            ("0", 0),
            ("0s", 0),
            ("1000ms", 1_000),
            ("1h30m", 5_400_000),
            ("1.5s", 1_500),
            (".5s", 500),
            ("2d", 172_800_000),
            ("1w", 604_800_000),
            ("1mo", 2_628_000_000),
            ("1y", 31_536_000_000),
            (
                "1y1mo1w1d1h1m1s1ms",
                31_536_000_000 + 2_628_000_000 + 604_800_000 + 90_061_001,
            ),
        ] {
            assert_eq!(period(text), Some(ms), "{text}");
        }
    }

    #[test]
    fn durations_refuse_bare_numbers_signs_and_nonsense() {
        for text in [
            "",
            "5",
            "500",
            "-1s",
            "1x",
            "s",
            "1.2.3s",
            "1 s",
            ".s",
            "99999999999y",
            "1e3s",
        ] {
            assert_eq!(period(text), None, "{text}");
        }
    }

    #[test]
    fn durations_print_what_parses_to_the_same() {
        for text in ["0", "1d2h3m4s5ms6us7ns", "100ms", "730h", "90s"] {
            let value: Period = text.parse().unwrap();
            assert_eq!(value.to_string().parse::<Period>().unwrap(), value);
        }
    }

    #[test]
    fn lists_of_processors() {
        assert_eq!(parse_cpus("2-5,8"), Some(vec![2, 3, 4, 5, 8]));
        assert_eq!(parse_cpus("0"), Some(vec![0]));
        for text in ["", "5-2", "a", "1,,2", "0-99999999", "1-"] {
            assert_eq!(parse_cpus(text), None, "{text}");
        }
    }

    #[test]
    fn status_codes_and_ranges() {
        assert_eq!(parse_codes("200"), Some(200..=200));
        assert_eq!(parse_codes("200-299"), Some(200..=299));
        for text in ["99", "600", "299-200", "2xx", ""] {
            assert_eq!(parse_codes(text), None, "{text}");
        }
    }

    #[test]
    fn whole_numbers() {
        assert_eq!(parse_int("10_485_760"), Some(10_485_760));
        assert_eq!(parse_int("-1"), Some(-1));
        for text in [
            "",
            "_1",
            "1_",
            "1__0",
            "0x10",
            "1.5",
            "--1",
            "99999999999999999999",
        ] {
            assert_eq!(parse_int(text), None, "{text}");
        }
    }
}
