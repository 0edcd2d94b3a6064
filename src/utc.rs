//! Points in time as text, in UTC.
//!
//! Pure. Called by the log (`log.rs`) and the health page (`health/page.rs`). HTTP dates are `httpdate`'s.

use std::time::{SystemTime, UNIX_EPOCH};

const SECONDS_PER_DAY: u64 = 86_400;

/// A date and a time of day in UTC.
struct Civil {
    year: u64,
    month: u64,
    day: u64,
    second_of_day: u64,
    millisecond: u32,
}

/// `2020-01-01 00:00:00 UTC`. Contract: health page, 4.
pub fn page_time(at: SystemTime) -> String {
    let c = civil(at);
    let (h, m, s) = clock(c.second_of_day);
    format!(
        "{:04}-{:02}-{:02} {h:02}:{m:02}:{s:02} UTC",
        c.year, c.month, c.day
    )
}

/// `2020-01-01T00:00:00.000Z`, for log lines.
pub fn log_time(at: SystemTime) -> String {
    let c = civil(at);
    let (h, m, s) = clock(c.second_of_day);
    format!(
        "{:04}-{:02}-{:02}T{h:02}:{m:02}:{s:02}.{:03}Z",
        c.year, c.month, c.day, c.millisecond
    )
}

/// Seconds since the epoch, for gauges; 0 before it.
pub fn unix_seconds(at: SystemTime) -> f64 {
    at.duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

/// Days from 1970-01-01 to a date; `None` for one that is no date.
pub fn days_since_epoch(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || !(0..=9999).contains(&year) {
        return None;
    }
    // The inverse of `civil`: years start in March, the leap day ends them.
    let year = year - i64::from(month <= 2);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    Some(365 * year + leap_days + day_of_year - 719_468)
}

fn clock(second_of_day: u64) -> (u64, u64, u64) {
    (
        second_of_day / 3600,
        second_of_day / 60 % 60,
        second_of_day % 60,
    )
}

/// Days are counted from 0000-03-01, so that the leap day ends a year; times before 1970 read as 1970.
fn civil(at: SystemTime) -> Civil {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let days = since.as_secs() / SECONDS_PER_DAY + 719_468;
    // A cycle of 400 years has 146,097 days, 97 of them leap days.
    let cycle = days / 146_097;
    let day_of_cycle = days % 146_097;
    let year_of_cycle =
        (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year =
        day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    // From March on, five months have 153 days.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let month = (month_from_march + 2) % 12 + 1;
    Civil {
        year: cycle * 400 + year_of_cycle + u64::from(month <= 2),
        month,
        day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
        second_of_day: since.as_secs() % SECONDS_PER_DAY,
        millisecond: since.subsec_millis(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_are_right_around_leap_days_and_years() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (951_868_800, "2000-03-01 00:00:00 UTC"),
            (1_577_836_800, "2020-01-01 00:00:00 UTC"),
            (1_798_761_599, "2026-12-31 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(page_time(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn days_are_counted_both_ways() {
        for (date, days) in [
            ((1970, 1, 1), 0),
            ((2000, 2, 29), 11_016),
            ((2020, 1, 1), 18_262),
            ((2100, 3, 1), 47_541),
        ] {
            assert_eq!(days_since_epoch(date.0, date.1, date.2), Some(days));
        }
        assert_eq!(days_since_epoch(2020, 13, 1), None);
        assert_eq!(days_since_epoch(2020, 1, 0), None);
    }

    #[test]
    fn log_times_have_milliseconds() {
        let at = UNIX_EPOCH + Duration::from_millis(1_577_836_800_007);
        assert_eq!(log_time(at), "2020-01-01T00:00:00.007Z");
    }
}
