//! Which rule of a backend takes a request.

use ringway_io::net::http1::Method;

use crate::plan::{Matching, Methods, PathRule, spelling};

/// Why no rule takes a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// No rule is about this path.
    Path,
    /// Origins may read the path in ways that want different proof of who asks.
    Ambiguous,
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
///
/// Compared is the path as origins read it. Where they may read it in several ways and the rules then found want
/// different proof of who asks, none takes it: what is guarded in one reading could be had in another.
pub(super) fn find(table: &[PathRule], method: Method, path: &[u8]) -> Result<usize, Unfit> {
    let takes_all =
        matches!(table, [only] if only.matching == Matching::Prefix && *only.path == *"/");
    // The usual table, which every request meets at every hop.
    if takes_all && path.first() == Some(&b'/') && table[0].methods.contain(method) {
        return Ok(0);
    }
    if !takes_all && spelling::is_roundabout(path) {
        return Err(Unfit::Ambiguous);
    }
    let found = find_plain(table, method, &spelling::plain(path));
    if takes_all {
        return found;
    }
    let guard = |found: &Result<usize, Unfit>| match found {
        Ok(index) => table[*index].authenticator,
        Err(_) => None,
    };
    let readings = spelling::other_readings(path);
    for reading in readings.iter().flatten() {
        let other = find_plain(table, method, reading);
        if guard(&other) != guard(&found) {
            return Err(Unfit::Ambiguous);
        }
    }
    found
}

fn find_plain(table: &[PathRule], method: Method, path: &[u8]) -> Result<usize, Unfit> {
    let mut known: Option<(usize, Methods)> = None;
    for (index, rule) in table.iter().enumerate() {
        if !rule.matches(path) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::AuthenticatorId;

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
    fn a_path_that_some_server_reads_as_another_guard_wants_is_refused() {
        use Matching::{Exact, Prefix};
        let get = &[Method::Get];
        let guarded = |rule: PathRule| PathRule {
            authenticator: Some(AuthenticatorId(0)),
            ..rule
        };
        let guard = [guarded(rule("/admin", Prefix, get)), rule("/", Prefix, get)];
        let exempt = [rule("/public", Exact, get), guarded(rule("/", Prefix, get))];
        let same = [rule("/a", Prefix, get), rule("/", Prefix, get)];
        let cases: [(&[PathRule], &str, Result<usize, Unfit>); 13] = [
            (&guard, "/admin/x", Ok(0)),
            (&guard, "/%61dmin", Ok(0)),
            (&guard, "/b%2fc", Ok(1)),
            (&guard, "//admin", Err(Unfit::Ambiguous)),
            (&guard, "/;/admin", Err(Unfit::Ambiguous)),
            (&guard, "/%5cadmin", Err(Unfit::Ambiguous)),
            (&guard, "//b;c", Ok(1)),
            (&exempt, "/public", Ok(0)),
            (&exempt, "//public", Err(Unfit::Ambiguous)),
            (&exempt, "/public;x", Err(Unfit::Ambiguous)),
            (&exempt, "/b;x//", Ok(1)),
            (&same, "//a", Ok(0)),
            (&same, "/b/../a", Err(Unfit::Ambiguous)),
        ];
        for (table, path, expected) in cases {
            assert_eq!(
                find(table, Method::Get, path.as_bytes()),
                expected,
                "{path}"
            );
        }
    }
}
