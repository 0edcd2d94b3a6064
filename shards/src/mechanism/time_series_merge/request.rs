//! A Prometheus API request as a merge needs it: which path, which parameters.
//!
//! Contract: tsm page, 1 and 2.

use std::time::Duration;

use form_urlencoded::Serializer;
use ringway_merge::{Endpoint, Trim};

use super::documents;
use crate::passage::params;
use crate::plan::{Edit, spelling};

/// Most parameters of one request.
const PARAMETERS_MAX: usize = 4096;

/// Path and parameters of a mergeable request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ApiRequest {
    pub(super) endpoint: Endpoint,
    /// The parameters in order; a form's values replace those of the URL with the same name.
    parameters: Vec<(String, String)>,
}

/// Paths that speak of one server's own state in the API's JSON envelope and mean nothing in sum. The first live
/// member answers, and a warning says so where there are other replica groups. Contract: tsm page, 1 (beyond);
/// decisions, 25.
const OF_ONE_GROUP: [&str; 3] = ["status/config", "status/flags", "status/runtimeinfo"];

/// Whether this path's answer is about one replica group only.
pub(super) fn is_of_one_group(path: &[u8]) -> bool {
    let rest = path.strip_prefix(b"/api/v1/");
    rest.is_some_and(|rest| OF_ONE_GROUP.iter().any(|known| known.as_bytes() == rest))
}

/// A time of a request that cannot be read here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

/// The mergeable path this is, if it is one: exact, or `label/<name>/values`.
pub(super) fn endpoint(path: &[u8]) -> Option<Endpoint> {
    // Servers undo percent-encoding before they look.
    written_endpoint(path).or_else(|| written_endpoint(&spelling::plain(path)))
}

fn written_endpoint(path: &[u8]) -> Option<Endpoint> {
    let path = std::str::from_utf8(path).ok()?;
    if let Some(document) = documents::document(path) {
        return Some(Endpoint::Document(document));
    }
    match path.strip_prefix("/api/v1/")? {
        "query" => Some(Endpoint::Query),
        "query_range" => Some(Endpoint::QueryRange),
        "series" => Some(Endpoint::Series),
        "labels" => Some(Endpoint::Labels),
        other => {
            let name = other.strip_prefix("label/")?.strip_suffix("/values")?;
            if name.is_empty() || name.contains('/') {
                return None;
            }
            Some(Endpoint::LabelValues(percent_decoded(name)?))
        }
    }
}

/// Undoes percent-encoding; `+` stays, since this is a path.
fn percent_decoded(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let high = char::from(bytes.next()?).to_digit(16)?;
        let low = char::from(bytes.next()?).to_digit(16)?;
        decoded.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(decoded).ok()
}

impl ApiRequest {
    /// Reads the URL's parameters and the form's; `None` when there are too many.
    pub(super) fn read(endpoint: Endpoint, query: &[u8], form: &[u8]) -> Option<ApiRequest> {
        let form: Vec<(String, String)> = form_urlencoded::parse(form).into_owned().collect();
        let mut parameters: Vec<(String, String)> = form_urlencoded::parse(query)
            .into_owned()
            .filter(|(name, _)| !form.iter().any(|(other, _)| other == name))
            .collect();
        parameters.extend(form);
        (parameters.len() <= PARAMETERS_MAX).then_some(ApiRequest {
            endpoint,
            parameters,
        })
    }

    /// Value of the first parameter of this name, unless it is empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(other, _)| other == name);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// All values of the parameters of this name.
    pub(super) fn all<'r>(&'r self, name: &'r str) -> impl Iterator<Item = &'r str> {
        let of_name = self
            .parameters
            .iter()
            .filter(move |(other, _)| other == name);
        of_name.map(|(_, value)| value.as_str())
    }

    /// Gives an instant query the time it is asked at, so that all members mean the same moment (decisions,
    /// 17).
    pub(super) fn stamp(&mut self, now: Duration) {
        if self.endpoint != Endpoint::Query || self.get("time").is_some() {
            return;
        }
        self.parameters.retain(|(name, _)| name != "time");
        let time = format!("{}.{:03}", now.as_secs(), now.subsec_millis());
        self.parameters.push(("time".to_owned(), time));
    }

    /// Makes the changes that rules want of parameters.
    pub(super) fn edit<'e>(&mut self, edits: impl Iterator<Item = &'e Edit>) {
        params::edit(&mut self.parameters, edits);
    }

    /// What the answer is cut down to after merging.
    pub(super) fn trim(&self) -> Trim {
        Trim::of(&self.endpoint, |name| self.get(name))
    }

    /// The parameters with the query of one variant, encoded; without those that are heeded after merging.
    pub(super) fn encoded(&self, query: Option<&str>) -> String {
        let withheld = self.trim().withheld;
        let mut out = Serializer::new(String::new());
        let asked = self.parameters.iter();
        for (name, value) in asked.filter(|(name, _)| !withheld.contains(&name.as_str())) {
            let value = if name == "query" {
                query.unwrap_or(value)
            } else {
                value
            };
            out.append_pair(name, value);
        }
        out.finish()
    }

    /// The same request for another query text, as a member that merges by itself gets it.
    pub(super) fn with_query(&self, query: Option<&str>) -> ApiRequest {
        let mut request = self.clone();
        let withheld = self.trim().withheld;
        request
            .parameters
            .retain(|(name, _)| !withheld.contains(&name.as_str()));
        if let Some(query) = query {
            for (_, value) in request
                .parameters
                .iter_mut()
                .filter(|(name, _)| name == "query")
            {
                query.clone_into(value);
            }
        }
        request
    }

    /// From `start` to `end`, of a range query that has both and a `step`.
    ///
    /// # Errors
    /// When one of them is no time that can be read here; a server may read it still.
    pub(super) fn range(&self) -> Result<Option<Duration>, Unreadable> {
        if self.endpoint != Endpoint::QueryRange || self.get("step").is_none() {
            return Ok(None);
        }
        let (Some(start), Some(end)) = (self.get("start"), self.get("end")) else {
            return Ok(None);
        };
        let (Some(start), Some(end)) = (seconds(start), seconds(end)) else {
            return Err(Unreadable);
        };
        let length = Duration::try_from_secs_f64((end - start).max(0.0));
        length.map(Some).map_err(|_| Unreadable)
    }
}

/// Unix seconds of a time as the Prometheus API takes it: a number, or RFC 3339.
fn seconds(text: &str) -> Option<f64> {
    if let Ok(number) = text.parse::<f64>() {
        return number.is_finite().then_some(number);
    }
    rfc3339(text)
}

/// `2006-01-02T15:04:05[.999](Z|±hh:mm)`.
fn rfc3339(text: &str) -> Option<f64> {
    let (date, rest) = text.split_once(['T', 't'])?;
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let (year, month, day): (i64, i64, i64) =
        (year.parse().ok()?, month.parse().ok()?, day.parse().ok()?);
    let in_range =
        (0..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !in_range || parts.next().is_some() {
        return None;
    }
    let zone_at = rest.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = rest.split_at(zone_at);
    let mut fields = clock.split(':');
    let hours: f64 = fields.next()?.parse().ok()?;
    let minutes: f64 = fields.next()?.parse().ok()?;
    let secs: f64 = fields.next()?.parse().ok()?;
    let offset = match zone {
        "Z" | "z" => 0.0,
        _ => {
            let (oh, om) = zone[1..].split_once(':')?;
            let amount = oh.parse::<f64>().ok()? * 3600.0 + om.parse::<f64>().ok()? * 60.0;
            if zone.starts_with('-') {
                -amount
            } else {
                amount
            }
        }
    };
    let days = days_from_civil(year, month, day);
    Some(days as f64 * 86_400.0 + hours * 3600.0 + minutes * 60.0 + secs - offset)
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
    fn only_exact_paths_merge() {
        let rules = Some(Endpoint::Document(ringway_merge::Document::Rules));
        let cases: [(&str, Option<Endpoint>); 10] = [
            ("/api/v1/query", Some(Endpoint::Query)),
            ("/api/v1/query_range", Some(Endpoint::QueryRange)),
            ("/api/v1/query_exemplar", None),
            (
                "/api/v1/label/job/values",
                Some(Endpoint::LabelValues("job".into())),
            ),
            (
                "/api/v1/label/a%2Fb/values",
                Some(Endpoint::LabelValues("a/b".into())),
            ),
            ("/api/v1/label/a/b/values", None),
            ("/api/v1/label//values", None),
            ("/api/v1/labels", Some(Endpoint::Labels)),
            ("/api/v1/rules", rules),
            ("/api/v1/rules/", None),
        ];
        for (path, expected) in cases {
            assert_eq!(endpoint(path.as_bytes()), expected, "{path}");
        }
    }

    #[test]
    fn paths_of_one_group_are_exact_too() {
        assert!(is_of_one_group(b"/api/v1/status/flags"));
        assert!(!is_of_one_group(b"/api/v1/status/flags/x"));
        assert!(!is_of_one_group(b"/status/flags"));
    }

    #[test]
    fn form_values_replace_those_of_the_url() {
        let request = ApiRequest::read(
            Endpoint::Query,
            b"query=a&x=1",
            b"query=b%2Bc&match[]=1&match[]=2",
        );
        let request = request.expect("few parameters");
        assert_eq!(request.get("query"), Some("b+c"));
        assert_eq!(
            request.encoded(None),
            "x=1&query=b%2Bc&match%5B%5D=1&match%5B%5D=2"
        );
        assert_eq!(
            request.encoded(Some("z")),
            "x=1&query=z&match%5B%5D=1&match%5B%5D=2"
        );
    }

    #[test]
    fn what_is_heeded_after_merging_is_not_asked_for() {
        let read = |endpoint, query: &str| {
            let request = ApiRequest::read(endpoint, query.as_bytes(), b"").expect("few");
            let nested = request.with_query(None).encoded(None);
            assert_eq!(nested, request.encoded(None));
            nested
        };
        assert_eq!(read(Endpoint::Query, "query=a&limit=3&x=1"), "query=a&x=1");
        // A server says better what is wrong with it.
        assert_eq!(read(Endpoint::Query, "query=a&limit=x"), "query=a&limit=x");
        assert_eq!(read(Endpoint::Labels, "limit=3"), "limit=3");
    }

    #[test]
    fn an_instant_query_is_stamped_once() {
        let mut request = ApiRequest::read(Endpoint::Query, b"query=up", b"").expect("few");
        request.stamp(Duration::from_millis(1_700_000_000_042));
        assert_eq!(request.get("time"), Some("1700000000.042"));
        request.stamp(Duration::from_secs(1));
        assert_eq!(request.get("time"), Some("1700000000.042"));
    }

    #[test]
    fn times_are_numbers_or_rfc3339() {
        let cases = [
            ("1700000000.5", Some(1_700_000_000.5)),
            ("1970-01-01T00:00:00Z", Some(0.0)),
            ("2024-02-29T12:00:00.25+01:00", Some(1_709_204_400.25)),
            ("2023-11-14T22:13:20Z", Some(1_700_000_000.0)),
            ("NaN", None),
            ("2024-13-01T00:00:00Z", None),
            ("yesterday", None),
        ];
        for (text, expected) in cases {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
