//! `data.stats`: what servers say of their work for a query.
//!
//! Read by [`crate::parse`], added up by [`crate::merge`] and [`crate::execute`]. Lists, such as the
//! samples of each step, are left out.

use crate::write::write_string;

/// Most numbers of one section that are kept; Prometheus writes 6.
const NUMBERS_MAX: usize = 32;

/// An object of numbers within `stats`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    /// In seconds.
    Timings,
    Samples,
}

impl Section {
    pub(crate) fn read(key: &str) -> Option<Self> {
        match key {
            "timings" => Some(Self::Timings),
            "samples" => Some(Self::Samples),
            _ => None,
        }
    }
}

/// Numbers by name, in the order in which they came. Of several answers they are sums: the work of
/// all servers together.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    timings: Vec<(String, f64)>,
    samples: Vec<(String, f64)>,
}

impl Stats {
    /// Adds a finite number.
    pub(crate) fn add(&mut self, section: Section, name: &str, number: f64) {
        let numbers = match section {
            Section::Timings => &mut self.timings,
            Section::Samples => &mut self.samples,
        };
        if let Some((_, sum)) = numbers.iter_mut().find(|(known, _)| known == name) {
            *sum = (*sum + number).clamp(f64::MIN, f64::MAX);
        } else if numbers.len() < NUMBERS_MAX {
            numbers.push((name.to_owned(), number));
        }
    }

    pub(crate) fn add_all(&mut self, other: &Self) {
        for (section, numbers) in [
            (Section::Timings, &other.timings),
            (Section::Samples, &other.samples),
        ] {
            for (name, number) in numbers {
                self.add(section, name, *number);
            }
        }
    }

    /// Appends `,"stats":{…}`.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"stats\":{\"timings\":");
        write_numbers(out, &self.timings);
        out.extend_from_slice(b",\"samples\":");
        write_numbers(out, &self.samples);
        out.push(b'}');
    }
}

fn write_numbers(out: &mut Vec<u8>, numbers: &[(String, f64)]) {
    out.push(b'{');
    for (at, (name, number)) in numbers.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_string(out, name);
        out.extend_from_slice(format!(":{number}").as_bytes());
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_added_up_by_name() {
        let mut sum = Stats::default();
        let mut other = Stats::default();
        sum.add(Section::Timings, "evalTotalTime", 0.000_000_671);
        sum.add(Section::Samples, "peakSamples", 60.0);
        other.add(Section::Samples, "peakSamples", 17.0);
        other.add(Section::Samples, "a\"b", 1.0);
        sum.add_all(&other);
        let mut out = Vec::new();
        sum.write(&mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#","stats":{"timings":{"evalTotalTime":0.000000671},"samples":{"peakSamples":77,"a\"b":1}}"#
        );
    }

    #[test]
    fn they_are_bounded_and_stay_finite() {
        let mut stats = Stats::default();
        for at in 0..100 {
            stats.add(Section::Timings, &at.to_string(), f64::MAX);
            stats.add(Section::Timings, &at.to_string(), f64::MAX);
        }
        assert_eq!(stats.timings.len(), NUMBERS_MAX);
        assert!(stats.timings.iter().all(|(_, number)| *number == f64::MAX));
    }
}
