//! Parameters that cut an answer short, which have to be heeded after merging.

use crate::plan::Endpoint;

use super::Document;

/// What an answer is cut down to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trim {
    /// Most series, names, values, metrics, statements, or rows of each list.
    pub limit: Option<u64>,
    /// Most statements of one metric.
    pub limit_per_metric: Option<u64>,
    /// Most groups of rules.
    pub groups: Option<u64>,
    /// File and name of the group of rules that a page begins with.
    pub from_group: Option<(String, String)>,
    /// Parameters that members must not see: cut by each of them, the answer would not be that of all.
    pub withheld: &'static [&'static str],
}

impl Trim {
    /// Reads the parameters of a request; `get` returns the value of one that is not empty. What cannot
    /// be read is left to the servers, which refuse it.
    pub fn of<'p>(endpoint: &Endpoint, get: impl Fn(&str) -> Option<&'p str>) -> Self {
        let number = |name: &str| get(name).and_then(|text| text.parse::<u64>().ok());
        let nonzero = |name: &str| number(name).filter(|number| *number > 0);
        let mut trim = Self::default();
        match endpoint {
            Endpoint::Query | Endpoint::QueryRange => {
                trim.limit = nonzero("limit");
                if number("limit").is_some() {
                    trim.withheld = &["limit"];
                }
            }
            Endpoint::Series | Endpoint::Labels | Endpoint::LabelValues(_) => {
                trim.limit = nonzero("limit");
            }
            // Here 0 is none at all.
            Endpoint::Document(Document::Metadata) => {
                trim.limit = number("limit");
                trim.limit_per_metric = nonzero("limit_per_metric");
            }
            Endpoint::Document(Document::TargetsMetadata) => trim.limit = number("limit"),
            Endpoint::Document(Document::Tsdb) => trim.limit = nonzero("limit"),
            Endpoint::Document(Document::Rules) => trim.read_page(&get, nonzero("group_limit")),
            Endpoint::Document(_) => {}
        }
        trim
    }

    fn read_page<'p>(&mut self, get: impl Fn(&str) -> Option<&'p str>, limit: Option<u64>) {
        let token = get("group_next_token");
        let from = token.map(read_token);
        if limit.is_none() || from == Some(None) {
            return;
        }
        self.groups = limit;
        self.from_group = from.flatten();
        self.withheld = &["group_limit", "group_next_token"];
    }

    /// The token of a page that begins with this group.
    pub(super) fn token(file: &str, name: &str) -> String {
        const HEX: [char; 16] = [
            '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
        ];
        let bytes = [file.as_bytes(), b"\0", name.as_bytes()].concat();
        let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        digits.map(|digit| HEX[usize::from(digit)]).collect()
    }
}

/// Undoes [`Trim::token`].
fn read_token(token: &str) -> Option<(String, String)> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut bytes = Vec::with_capacity(token.len() / 2);
    for pair in token.as_bytes().chunks(2) {
        let [high, low] = pair else { return None };
        bytes.push(u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?);
    }
    let text = String::from_utf8(bytes).ok()?;
    let (file, name) = text.split_once('\0')?;
    Some((file.to_owned(), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(endpoint: &Endpoint, parameters: &[(&str, &'static str)]) -> Trim {
        let get = |name: &str| {
            let found = parameters.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| *value)
        };
        Trim::of(endpoint, get)
    }

    #[test]
    fn limits_mean_what_they_mean_on_each_path() {
        let (labels, query) = (Endpoint::Labels, Endpoint::Query);
        let metadata = Endpoint::Document(Document::Metadata);
        let cases: [(&Endpoint, &'static str, Option<u64>, usize); 9] = [
            (&labels, "5", Some(5), 0),
            (&labels, "0", None, 0),
            (&labels, "x", None, 0),
            (&labels, "-1", None, 0),
            (&query, "5", Some(5), 1),
            (&query, "0", None, 1),
            (&query, "x", None, 0),
            (&metadata, "0", Some(0), 0),
            (&metadata, "-1", None, 0),
        ];
        for (endpoint, limit, expected, withheld) in cases {
            let trim = of(endpoint, &[("limit", limit)]);
            let found = (trim.limit, trim.withheld.len());
            assert_eq!(found, (expected, withheld), "{endpoint:?} {limit}");
        }
        let trim = of(&metadata, &[("limit_per_metric", "0")]);
        assert_eq!(trim, Trim::default());
    }

    #[test]
    fn pages_of_rules_go_by_tokens_of_ours_only() {
        let rules = Endpoint::Document(Document::Rules);
        let token = Trim::token("/etc/a;b.yml", "grün");
        assert_eq!(
            read_token(&token),
            Some(("/etc/a;b.yml".to_owned(), "grün".to_owned()))
        );
        for other in [
            "",
            "0",
            "zz",
            "61",
            "ff00",
            "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        ] {
            assert_eq!(read_token(other), None, "{other}");
        }
        assert_eq!(of(&rules, &[("group_limit", "2")]).groups, Some(2));
        let unknown = [("group_limit", "2"), ("group_next_token", "zz")];
        assert_eq!(of(&rules, &unknown), Trim::default());
        assert_eq!(of(&rules, &[("group_next_token", "6100")]), Trim::default());
    }
}
