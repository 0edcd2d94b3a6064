//! Which rule of a backend takes a request.

use std::borrow::Cow;

use ringway_io::net::http1::Method;

use crate::plan::{Matching, Methods, PathRule};

/// Why no rule takes a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// No rule is about this path.
    Path,
    /// Rules are, but not for this method.
    Method {
        /// The first of them.
        index: usize,
        /// The methods they are for.
        allowed: Methods,
    },
}

/// Index of the rule: of the best path that matches, the first one with this method. Contract: config page,
/// 5 ("match").
pub(super) fn find(table: &[PathRule], method: Method, path: &[u8]) -> Result<usize, Unfit> {
    let takes_all =
        matches!(table, [only] if only.matching == Matching::Prefix && *only.path == *"/");
    // The usual table, which every request meets at every hop.
    if takes_all && path.first() == Some(&b'/') && table[0].methods.contain(method) {
        return Ok(0);
    }
    let path = if takes_all {
        Cow::Borrowed(path)
    } else {
        plain(path)
    };
    let mut known: Option<(usize, Methods)> = None;
    for (index, rule) in table.iter().enumerate() {
        if !rule.matches(&path) {
            continue;
        }
        let allowed = match known {
            None => Methods::default(),
            // Of the rules that match, those of one length and kind have the same path.
            Some((first, allowed)) if is_same_path(&table[first], rule) => allowed,
            Some(_) => break,
        };
        if rule.methods.contain(method) {
            return Ok(index);
        }
        let first = known.map_or(index, |(first, _)| first);
        known = Some((first, allowed.union(rule.methods)));
    }
    Err(match known {
        Some((index, allowed)) => Unfit::Method { index, allowed },
        None => Unfit::Path,
    })
}

fn is_same_path(one: &PathRule, other: &PathRule) -> bool {
    one.matching == other.matching && one.path == other.path
}

/// The path as an origin may read it: percent-encoding undone, empty and dot segments resolved. Rules are found
/// by this one, or a rule that guards `/admin` could be passed as `/%61dmin` or `/x/../admin`.
fn plain(path: &[u8]) -> Cow<'_, [u8]> {
    let is_plain = !path.contains(&b'%')
        && !path
            .windows(2)
            .any(|pair| matches!(pair, [b'/', b'/' | b'.']));
    if is_plain {
        return Cow::Borrowed(path);
    }
    let decoded = percent_decoded(path);
    let mut segments: Vec<&[u8]> = Vec::new();
    let mut ends_open = false;
    for segment in decoded.split(|&byte| byte == b'/') {
        ends_open = matches!(segment, b"" | b"." | b"..");
        match segment {
            b"" | b"." => {}
            b".." => drop(segments.pop()),
            other => segments.push(other),
        }
    }
    let mut plain = Vec::with_capacity(decoded.len());
    for segment in &segments {
        plain.push(b'/');
        plain.extend_from_slice(segment);
    }
    if ends_open || plain.is_empty() {
        plain.push(b'/');
    }
    Cow::Owned(plain)
}

/// Undoes percent-encoding; what is none stays.
fn percent_decoded(text: &[u8]) -> Vec<u8> {
    let digit = |at: usize| {
        let digit = char::from(*text.get(at)?).to_digit(16)?;
        u8::try_from(digit).ok()
    };
    let mut decoded = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let pair = (text[at] == b'%')
            .then(|| digit(at + 1).zip(digit(at + 2)))
            .flatten();
        match pair {
            Some((high, low)) => {
                decoded.push(high * 16 + low);
                at += 3;
            }
            None => {
                decoded.push(text[at]);
                at += 1;
            }
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(path: &str, matching: Matching, methods: &[Method]) -> PathRule {
        let methods = methods
            .iter()
            .fold(Methods::default(), |set, method| set.with(*method));
        PathRule {
            path: path.into(),
            matching,
            methods,
            ..PathRule::all()
        }
    }

    #[test]
    fn the_best_path_decides_and_then_the_method() {
        use Matching::{Exact, Prefix};
        let table = [
            rule("/a", Exact, &[Method::Get]),
            rule("/b", Exact, &[Method::Put]),
            rule("/a", Exact, &[Method::Post]),
            rule("/a/b", Prefix, &[Method::Get]),
            rule("/a", Prefix, &[Method::Get, Method::Delete]),
        ];
        let allowed = |methods: &[Method]| rule("", Exact, methods).methods;
        let unfit = |index, methods| {
            Err(Unfit::Method {
                index,
                allowed: allowed(methods),
            })
        };
        let cases: [(Method, &str, Result<usize, Unfit>); 10] = [
            (Method::Get, "/a", Ok(0)),
            (Method::Head, "/a", Ok(0)),
            (Method::Post, "/a", Ok(2)),
            (Method::Delete, "/a", unfit(0, &[Method::Get, Method::Post])),
            (Method::Get, "/a/b/c", Ok(3)),
            (Method::Delete, "/a/b/c", unfit(3, &[Method::Get])),
            (Method::Delete, "/ab", Ok(4)),
            (Method::Get, "/", Err(Unfit::Path)),
            (Method::Get, "/A", Err(Unfit::Path)),
            (Method::Head, "/b", unfit(1, &[Method::Put])),
        ];
        for (method, path, expected) in cases {
            assert_eq!(
                find(&table, method, path.as_bytes()),
                expected,
                "{method:?} {path}"
            );
        }
    }

    #[test]
    fn the_one_rule_of_a_backend_without_paths_takes_all_but_trace() {
        let table = [PathRule::all()];
        assert_eq!(find(&table, Method::Other, b"/%zz//.."), Ok(0));
        assert!(find(&table, Method::Trace, b"/").is_err());
    }

    #[test]
    fn a_guarded_path_is_found_however_it_is_written() {
        let cases = [
            ("/a/b", "/a/b"),
            ("/%61dmin", "/admin"),
            ("/x/../admin", "/admin"),
            ("/x/%2e%2e/admin", "/admin"),
            ("/./admin", "/admin"),
            ("//admin//x", "/admin/x"),
            ("/../..", "/"),
            ("/admin/", "/admin/"),
            ("/admin/.", "/admin/"),
            ("/.well-known/x", "/.well-known/x"),
            ("/100%", "/100%"),
            ("/%4", "/%4"),
        ];
        for (path, expected) in cases {
            let plain = plain(path.as_bytes());
            assert_eq!(String::from_utf8_lossy(&plain), expected, "{path}");
        }
    }
}
