//! The date of an answer, formatted once per second.

/// Length of `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const HTTP_DATE_BYTES: usize = 29;

/// Last second of the year 9999, the last one the format has room for.
const UNIX_SECONDS_MAX: u64 = 253_402_300_799;
const SECONDS_PER_DAY: u64 = 86_400;
const WEEKDAYS: [&[u8; 3]; 7] = [b"Sun", b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat"];
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// The text of one second, kept until another is asked for.
#[derive(Debug, Clone)]
pub struct DateCache {
    unix_seconds: u64,
    text: [u8; HTTP_DATE_BYTES],
}

impl Default for DateCache {
    fn default() -> Self {
        Self::new()
    }
}

impl DateCache {
    /// Holds the first second of 1970.
    pub fn new() -> DateCache {
        DateCache {
            unix_seconds: 0,
            text: format_http_date(0),
        }
    }

    /// The date in the form HTTP prefers (IMF-fixdate). Seconds beyond the year 9999 give its
    /// last one.
    pub fn at(&mut self, unix_seconds: u64) -> &[u8; HTTP_DATE_BYTES] {
        if unix_seconds != self.unix_seconds {
            self.text = format_http_date(unix_seconds);
            self.unix_seconds = unix_seconds;
        }
        &self.text
    }
}

fn format_http_date(unix_seconds: u64) -> [u8; HTTP_DATE_BYTES] {
    let seconds = unix_seconds.min(UNIX_SECONDS_MAX);
    let days = seconds / SECONDS_PER_DAY;
    let second_of_day = seconds % SECONDS_PER_DAY;
    let (year, month, day) = civil_from_days(days);
    let mut text = *b"ddd, dd mmm yyyy hh:mm:ss GMT";
    // 1970-01-01 was a Thursday.
    text[0..3].copy_from_slice(WEEKDAYS[((days + 4) % 7) as usize]);
    text[5..7].copy_from_slice(&two_digits(day));
    text[8..11].copy_from_slice(MONTHS[month as usize - 1]);
    text[12..14].copy_from_slice(&two_digits(year / 100));
    text[14..16].copy_from_slice(&two_digits(year % 100));
    text[17..19].copy_from_slice(&two_digits(second_of_day / 3_600));
    text[20..22].copy_from_slice(&two_digits(second_of_day / 60 % 60));
    text[23..25].copy_from_slice(&two_digits(second_of_day % 60));
    text
}

fn two_digits(value: u64) -> [u8; 2] {
    debug_assert!(value < 100, "a field of a date has two digits");
    [b'0' + (value / 10) as u8, b'0' + (value % 10) as u8]
}

/// Year, month from 1 and day from 1 of a day counted from 1970-01-01.
///
/// Years are begun in March, so that the leap day is a year's last day; 400 such years are
/// 146,097 days, and the months from March on are 30.6 days long when rounded down:
/// `(153 * month + 2) / 5` days come before month `month`.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    // 719,468 days lie between 0000-03-01 and 1970-01-01.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}
