//! A Prometheus API request as a merge needs it: which path, which parameters.
//!
//! Contract: tsm page, 1 and 2.

use std::time::Duration;

use form_urlencoded::Serializer;
use ringway_merge::{Endpoint, Grid, Trim, Variant, Window};

use super::{documents, times};
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
    /// The path that members are asked on, where it is not the client's.
    path: Option<&'static str>,
    /// What [`ApiRequest::range`] said before the times were replaced.
    asked_range: Option<Result<Option<Duration>, Unreadable>>,
}

/// Parameters that times are given in.
const TIMES: [&str; 4] = ["time", "start", "end", "step"];
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
            path: None,
            asked_range: None,
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

    /// Leaves a parameter out.
    pub(super) fn remove(&mut self, name: &str) {
        self.parameters.retain(|(other, _)| other != name);
    }

    /// Gives an instant query the time it is asked at, so that all members mean the same moment (decisions,
    /// 17).
    pub(super) fn stamp(&mut self, now: Duration) {
        if self.endpoint != Endpoint::Query || self.get("time").is_some() {
            return;
        }
        self.parameters.retain(|(name, _)| name != "time");
        let time_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        let time = times::written_time(time_ms);
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

    /// The parameters, encoded.
    pub(super) fn encoded(&self) -> String {
        let mut out = Serializer::new(String::new());
        for (name, value) in &self.parameters {
            out.append_pair(name, value);
        }
        out.finish()
    }

    /// The path to ask on, where it is not the one that the client asks on.
    pub(super) fn path(&self) -> Option<&'static str> {
        self.path
    }

    /// A question about a server, on `path`.
    pub(super) fn about_server(path: &'static str) -> ApiRequest {
        ApiRequest {
            endpoint: Endpoint::Labels,
            parameters: Vec::new(),
            path: Some(path),
            asked_range: None,
        }
    }

    /// Whether it is about a server and not about what the server holds.
    pub(super) fn is_about_server(&self) -> bool {
        self.path
            .is_some_and(|path| path.starts_with("/api/v1/status/"))
    }

    /// The same request for one variant of a plan, as a group gets it: its query text, and its times.
    pub(super) fn of_variant(&self, variant: &Variant, group: usize) -> ApiRequest {
        let mut request = self.clone();
        if let Some(query) = variant.query_for(group) {
            let queries = request.parameters.iter_mut();
            for (_, value) in queries.filter(|(name, _)| name == "query") {
                query.clone_into(value);
            }
        }
        for name in self.trim().withheld {
            request.remove(name);
        }
        let Some(window) = variant.window else {
            return request;
        };
        request.asked_range = Some(self.range());
        TIMES.iter().for_each(|name| request.remove(name));
        let mut put = |name: &str, value: String| request.parameters.push((name.to_owned(), value));
        match window {
            Window::Instant(time_ms) => {
                put("time", times::written_time(time_ms));
                request.endpoint = Endpoint::Query;
                request.path = Some("/api/v1/query");
            }
            Window::Range(grid) => {
                put("start", times::written_time(grid.start_ms));
                put("end", times::written_time(grid.end_ms()));
                put("step", times::written_step(grid.step_ms));
                request.endpoint = Endpoint::QueryRange;
                request.path = Some("/api/v1/query_range");
            }
        }
        request
    }

    /// The times at which a query is evaluated, and the end that it names; `None` where a server refuses them, or may read them otherwise.
    pub(super) fn grid(&self) -> Option<(Grid, i64)> {
        match self.endpoint {
            Endpoint::Query => {
                let time_ms = times::time_ms(self.get("time")?)?;
                Some((Grid::instant(time_ms), time_ms))
            }
            Endpoint::QueryRange => {
                times::range(self.get("start")?, self.get("end")?, self.get("step")?)
            }
            _ => None,
        }
    }

    /// A duration that stands in a parameter, if it is one that is longer than nothing.
    pub(super) fn span(&self, name: &str) -> Option<times::Span> {
        times::span(self.get(name)?).filter(|span| span.is_positive())
    }

    /// From `start` to `end`, of a range query that has both and a `step`, as the client asked it.
    ///
    /// # Errors
    /// When one of them is no time that can be read here; a server may read it still.
    pub(super) fn range(&self) -> Result<Option<Duration>, Unreadable> {
        if let Some(asked) = self.asked_range {
            return asked;
        }
        if self.endpoint != Endpoint::QueryRange || self.get("step").is_none() {
            return Ok(None);
        }
        let (Some(start), Some(end)) = (self.get("start"), self.get("end")) else {
            return Ok(None);
        };
        let start_ms = times::time_ms(start).ok_or(Unreadable)?;
        let end_ms = times::time_ms(end).ok_or(Unreadable)?;
        let length_ms = u64::try_from(end_ms - start_ms).unwrap_or(0);
        Ok(Some(Duration::from_millis(length_ms)))
    }
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
            request.encoded(),
            "x=1&query=b%2Bc&match%5B%5D=1&match%5B%5D=2"
        );
    }

    #[test]
    fn what_is_heeded_after_merging_is_not_asked_for() {
        let asked = |endpoint, query: &str| {
            let request = ApiRequest::read(endpoint, query.as_bytes(), b"").expect("few");
            request.of_variant(&Variant::default(), 0).encoded()
        };
        assert_eq!(
            asked(Endpoint::Query, "query=a&limit=3&stats=all&x=1"),
            "query=a&stats=all&x=1"
        );
        // A server says better what is wrong with it.
        assert_eq!(asked(Endpoint::Query, "query=a&limit=x"), "query=a&limit=x");
        assert_eq!(asked(Endpoint::Labels, "limit=3"), "limit=3");
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
    fn a_variant_has_its_own_text_and_times_and_keeps_the_rest() {
        let text = b"query=sum(a)&start=60&end=120&step=15&timeout=5s&limit=3&stats=all&x=1";
        let request = ApiRequest::read(Endpoint::QueryRange, text, b"").expect("few");
        let variant = |query: Option<&str>, window| {
            let variant = Variant {
                query: query.map(str::to_owned),
                by_group: vec![(7, "other".to_owned())],
                window,
                ..Variant::default()
            };
            assert_eq!(request.of_variant(&variant, 7).get("query"), Some("other"));
            request.of_variant(&variant, 0)
        };
        let whole = "query=sum%28a%29&start=60&end=120&step=15&timeout=5s&stats=all&x=1";
        assert_eq!(variant(None, None).encoded(), whole);
        assert_eq!(variant(None, None).path(), None);
        let instant = variant(Some("a[1m]"), Some(Window::Instant(-1_500)));
        assert_eq!(
            instant.encoded(),
            "query=a%5B1m%5D&timeout=5s&stats=all&x=1&time=-1.500"
        );
        assert_eq!(instant.endpoint, Endpoint::Query);
        assert_eq!(instant.path(), Some("/api/v1/query"));
        let minute = Ok(Some(Duration::from_secs(60)));
        assert_eq!(instant.range(), minute, "what the client asked for");
        let grid = Grid::range(60_000, 90_500, 15_000);
        let range = variant(Some("a"), Some(Window::Range(grid)));
        let times = "start=60.000&end=90.000&step=15000ms";
        assert_eq!(
            range.encoded(),
            format!("query=a&timeout=5s&stats=all&x=1&{times}")
        );
        assert_eq!(range.path(), Some("/api/v1/query_range"));
        assert_eq!(
            (range.range(), range.grid().map(|(grid, _)| grid.count)),
            (minute, Some(3))
        );
    }

    #[test]
    fn the_times_of_a_query_are_its_grid() {
        let grid =
            |endpoint, text: &[u8]| ApiRequest::read(endpoint, text, b"").expect("few").grid();
        assert_eq!(
            grid(Endpoint::Query, b"query=a&time=1.5"),
            Some((Grid::instant(1_500), 1_500))
        );
        assert_eq!(grid(Endpoint::Query, b"query=a"), None);
        let steps = (Grid::range(0, 61_000, 15_000), 61_000);
        let text = b"query=a&start=0&end=1970-01-01T00:01:01Z&step=15s";
        assert_eq!(grid(Endpoint::QueryRange, text), Some(steps));
        assert_eq!(grid(Endpoint::QueryRange, b"start=0&end=60"), None);
        assert_eq!(grid(Endpoint::Series, text), None);
    }
}
