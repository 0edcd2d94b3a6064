//! The bodies that are served and parsed: deterministic, and like what real servers send.
//!
//! Used by the origin and by the criterion benches. The same arguments give the same bytes on every
//! machine.

use std::fmt::Write;

/// The small answer: what most API requests get.
pub const SMALL_BODY: &[u8] = br#"{"status":"ok","service":"checkout","region":"eu-central-1","version":"4.18.2","build":"9f3c1ab","uptime_seconds":86421,"queue_depth":3,"workers":16,"message":"all systems are operating normally now"}"#;
const _: () = assert!(SMALL_BODY.len() == 200);

/// First timestamp of every range answer: 2026-01-01 00:00:00 UTC.
const START_SECONDS: u64 = 1_767_225_600;

/// A Prometheus range answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeAnswer {
    /// Series in the answer.
    pub series: usize,
    /// Points in each series.
    pub points: usize,
    /// Seconds between points.
    pub step_seconds: u64,
    /// Which origin answers. It goes into the values, and into the labels unless they are shared.
    pub origin: usize,
    /// Whether every origin has the same label sets, as the partial results of an aggregation do.
    pub shared_labels: bool,
}

impl RangeAnswer {
    /// 1,000 series of 240 points, 8 MB: an hour of a busy dashboard panel in 15 s steps.
    pub const EIGHT_MB: Self = Self {
        series: 1_000,
        points: 240,
        step_seconds: 15,
        origin: 0,
        shared_labels: false,
    };

    /// The same shape as another origin answers it.
    #[must_use]
    pub fn of_origin(self, origin: usize) -> Self {
        Self { origin, ..self }
    }

    /// The end of the range, as `start` and `end` of the query that this answers.
    #[must_use]
    pub fn range_seconds(&self) -> (u64, u64) {
        let last = self.points.saturating_sub(1) as u64;
        (START_SECONDS, START_SECONDS + last * self.step_seconds)
    }

    /// Writes the whole answer, its series in label order as Prometheus sends them.
    #[must_use]
    pub fn json(&self) -> String {
        // A point takes about 33 bytes, the labels of a series about 200.
        let mut text = String::with_capacity(self.series * (self.points * 36 + 256) + 128);
        text.push_str(r#"{"status":"success","data":{"resultType":"matrix","result":["#);
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ ((self.origin as u64 + 1) << 32));
        for series in 0..self.series {
            if series > 0 {
                text.push(',');
            }
            self.write_series(&mut text, series, &mut random);
        }
        text.push_str("]}}");
        text
    }

    fn write_series(&self, text: &mut String, series: usize, random: &mut Random) {
        let cluster = if self.shared_labels { 0 } else { self.origin };
        let method = ["GET", "POST", "PUT"][series % 3];
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            r#"{{"metric":{{"__name__":"http_requests:rate5m","cluster":"prod-{cluster:02}","handler":"/api/v1/items/{series:05}","instance":"10.4.{}.{}:9100","job":"checkout","method":"{method}"}},"values":["#,
            series / 250,
            series % 250,
        );
        let base = random.unit() * 100.0;
        for point in 0..self.points as u64 {
            let comma = if point > 0 { "," } else { "" };
            let seconds = START_SECONDS + point * self.step_seconds;
            // The value of a rate: a float whose shortest text has 15 to 18 characters.
            let value = base + random.unit();
            let _ = write!(text, r#"{comma}[{seconds},"{value}"]"#);
        }
        text.push_str("]}");
    }
}

/// A small generator of its own (xorshift64*): the fixtures must not change with a library.
struct Random(u64);

impl Random {
    /// Returns a number from 0 up to 1.
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d);
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_big_answer_is_eight_megabytes_and_repeats_exactly() {
        let text = RangeAnswer::EIGHT_MB.json();
        assert!(
            (7_600_000..8_600_000).contains(&text.len()),
            "{} bytes",
            text.len()
        );
        assert_eq!(text, RangeAnswer::EIGHT_MB.json());
        assert_ne!(text, RangeAnswer::EIGHT_MB.of_origin(1).json());
    }

    #[test]
    fn an_answer_has_the_shape_asked_for_and_sorted_series() {
        let answer = RangeAnswer {
            series: 300,
            points: 5,
            ..RangeAnswer::EIGHT_MB
        };
        let parsed: serde_json::Value = serde_json::from_str(&answer.json()).unwrap();
        let result = parsed["data"]["result"].as_array().unwrap();
        assert_eq!(result.len(), 300);
        assert!(
            result
                .iter()
                .all(|series| series["values"].as_array().unwrap().len() == 5)
        );
        let labels: Vec<String> = result.iter().map(|s| s["metric"].to_string()).collect();
        assert!(labels.is_sorted());
        let last = &result[0]["values"][4];
        assert_eq!(last[0].as_u64(), Some(answer.range_seconds().1));
        assert!(last[1].as_str().unwrap().parse::<f64>().is_ok());
    }

    #[test]
    fn shared_labels_are_equal_among_origins_and_own_labels_never() {
        let labels = |origin, shared_labels| {
            let answer = RangeAnswer {
                series: 2,
                points: 1,
                origin,
                shared_labels,
                ..RangeAnswer::EIGHT_MB
            };
            let parsed: serde_json::Value = serde_json::from_str(&answer.json()).unwrap();
            parsed["data"]["result"][1]["metric"].clone()
        };
        assert_eq!(labels(0, true), labels(1, true));
        assert_ne!(labels(0, false), labels(1, false));
    }
}
