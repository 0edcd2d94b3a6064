//! Functions of time: `timestamp`, and the parts of dates.
//!
//! A date is a number of seconds since 1970 in UTC, cut to 64 bits as Prometheus does; what does
//! not fit is its smallest integer, and years run on without end.

use super::CHUNK_STEPS;
use super::scalar::seconds;
use crate::eval::env::Env;
use crate::eval::error::Outcome;
use crate::eval::value::{Column, Series, Value, numbers};
use crate::plan::Grid;

const DAY_SECONDS: u64 = 86_400;
/// Seconds from the beginning of the servers' calendar, 292 billion years ago, to 1970. They count
/// from there without a sign, and wrap around.
const CALENDAR_SECONDS: u64 = 9_223_372_028_715_321_600;
const _: () = assert!(CALENDAR_SECONDS.is_multiple_of(DAY_SECONDS));
/// Days of 400 years.
const ERA_DAYS: i64 = 146_097;
/// From the first of March of year 0 to 1970.
const MARCH_DAYS: i64 = 719_468;

/// A moment, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Date {
    year: i64,
    /// From 1.
    month: i64,
    /// From 1.
    day: i64,
    /// Days since 1970.
    days: i64,
    /// Seconds since midnight.
    second: i64,
}

impl Date {
    /// The date of a sample's value.
    pub(super) fn of(value: f64) -> Self {
        Self::at(whole(value))
    }

    /// The date `seconds` after 1970.
    fn at(seconds: i64) -> Self {
        let since = seconds.cast_unsigned().wrapping_add(CALENDAR_SECONDS);
        let days =
            (since / DAY_SECONDS).cast_signed() - (CALENDAR_SECONDS / DAY_SECONDS).cast_signed();
        // Years that begin in March have their odd day at the end.
        let shifted = days + MARCH_DAYS;
        let era = shifted.div_euclid(ERA_DAYS);
        let day = shifted.rem_euclid(ERA_DAYS);
        // 1460 and 36524 days are where a 4th and a 100th year end short of a leap day.
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        // 153 days are five months.
        let month = (5 * day + 2) / 153;
        Self {
            year: era * 400 + year + i64::from(month >= 10),
            month: if month < 10 { month + 3 } else { month - 9 },
            day: day - (153 * month + 2) / 5 + 1,
            days,
            second: (since % DAY_SECONDS).cast_signed(),
        }
    }

    fn is_leap_year(self) -> bool {
        self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0)
    }

    fn days_in_month(self) -> i64 {
        match self.month {
            2 if self.is_leap_year() => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    /// From 1.
    fn day_of_year(self) -> i64 {
        let before: i64 = (1..self.month)
            .map(|month| Self { month, ..self }.days_in_month())
            .sum();
        before + self.day
    }

    /// From Sunday, 0.
    fn day_of_week(self) -> i64 {
        // 1970 began on a Thursday.
        (self.days + 4).rem_euclid(7)
    }
}

/// The whole seconds of a value, as the servers' processors convert it.
fn whole(value: f64) -> i64 {
    // 2^63 and what is beyond it, like NaN, has no 64-bit integer.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    match (-LIMIT..LIMIT).contains(&value) {
        true => value as i64,
        false => i64::MIN,
    }
}

/// The function of that name, if it is a part of a date.
pub(super) fn date_part(name: &str) -> Option<fn(Date) -> f64> {
    Some(match name {
        "minute" => |date| (date.second / 60 % 60) as f64,
        "hour" => |date| (date.second / 3600) as f64,
        "day_of_week" => |date| date.day_of_week() as f64,
        "day_of_month" => |date| date.day as f64,
        "day_of_year" => |date| date.day_of_year() as f64,
        "days_in_month" => |date| date.days_in_month() as f64,
        "month" => |date| date.month as f64,
        "year" => |date| date.year as f64,
        _ => return None,
    })
}

/// A part of each step's date.
pub(super) async fn now<'a>(
    env: &Env<'a>,
    grid: &Grid,
    part: fn(Date) -> f64,
) -> Outcome<Value<'a>> {
    let floats = numbers(env.bump, grid.count, 0.0)?;
    for (index, chunk) in floats.chunks_mut(CHUNK_STEPS).enumerate() {
        env.pace.spend(16 * chunk.len()).await;
        for (at, value) in chunk.iter_mut().enumerate() {
            *value = part(Date::at(grid.time(index * CHUNK_STEPS + at) / 1000));
        }
    }
    let column = Column {
        floats,
        histograms: None,
    };
    Ok(Value::Vector(vec![Series {
        labels: &[],
        column,
    }]))
}

/// The times of computed samples: those of the steps that they are at.
pub(super) async fn timestamp<'a>(
    env: &Env<'a>,
    grid: &Grid,
    mut series: Vec<Series<'a>>,
) -> Outcome<Vec<Series<'a>>> {
    for one in &mut series {
        for step in 0..grid.count {
            if step % CHUNK_STEPS == 0 {
                env.pace.spend(64 + 8 * CHUNK_STEPS.min(grid.count)).await;
            }
            if one.column.has(step) {
                one.column.floats[step] = seconds(grid.time(step));
            }
        }
        one.column.histograms = None;
    }
    Ok(series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_servers() {
        // Seconds; year, month, day, hour, minute, weekday, day of the year, days in the month.
        let cases: &[(f64, [i64; 8])] = &[
            (0.0, [1970, 1, 1, 0, 0, 4, 1, 31]),
            (-1.0, [1969, 12, 31, 23, 59, 3, 365, 31]),
            (-61.9, [1969, 12, 31, 23, 58, 3, 365, 31]),
            (951_782_400.0, [2000, 2, 29, 0, 0, 2, 60, 29]),
            (-2_203_891_200.0, [1900, 3, 1, 0, 0, 4, 60, 31]),
            (1_704_067_485.0, [2024, 1, 1, 0, 4, 1, 1, 31]),
            (1_735_689_599.9, [2024, 12, 31, 23, 59, 2, 366, 31]),
            (f64::NAN, [292_277_026_596, 12, 4, 15, 30, 0, 339, 31]),
            (f64::INFINITY, [292_277_026_596, 12, 4, 15, 30, 0, 339, 31]),
            (-1e300, [292_277_026_596, 12, 4, 15, 30, 0, 339, 31]),
        ];
        let parts = [
            "year",
            "month",
            "day_of_month",
            "hour",
            "minute",
            "day_of_week",
            "day_of_year",
            "days_in_month",
        ];
        for (value, expected) in cases {
            for (name, expected) in parts.iter().zip(expected) {
                let found = date_part(name).unwrap()(Date::of(*value));
                assert_eq!(found, *expected as f64, "{name}({value})");
            }
        }
        assert_eq!(Date::of(9e18).year, 285_198_648_531);
        assert_eq!(Date::of(-9e18).year, -285_198_644_592);
        assert_eq!(Date::of(-9e18).day_of_year(), 256);
        assert_eq!(Date::of(-9e18).day_of_week(), 1);
        assert!(date_part("time").is_none());
    }
}
