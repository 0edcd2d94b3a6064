//! The PromQL that the members speak: what differs between versions of Prometheus.
//!
//! Contract: range selectors became left-open in 3.0; other differences are named where they are
//! read. The version comes from the members' build information, or from `alb.tsm.promql_version`.

/// A version of Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dialect {
    /// Major version.
    pub major: u32,
    /// Minor version.
    pub minor: u32,
}

impl std::fmt::Display for Dialect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Default for Dialect {
    /// What servers are taken for that do not say their version.
    fn default() -> Self {
        Self { major: 3, minor: 5 }
    }
}

impl Dialect {
    /// Reads `2.53.3`, `v3.5.0-rc.1`, `3.5`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().trim_start_matches('v').split('.');
        let major = parts.next()?.parse().ok()?;
        let digits = |part: &str| {
            let end = part.find(|c: char| !c.is_ascii_digit());
            part[..end.unwrap_or(part.len())].parse().ok()
        };
        let minor = parts.next().map_or(Some(0), digits)?;
        Some(Self { major, minor })
    }

    /// Whether this is version `major.minor` or a later one.
    pub fn is_at_least(self, major: u32, minor: u32) -> bool {
        self >= Self { major, minor }
    }

    /// Whether a window leaves out a sample right at its beginning.
    pub fn has_left_open_ranges(self) -> bool {
        self.is_at_least(3, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        let cases = [
            ("2.42.0", Some((2, 42))),
            ("v3.5.3", Some((3, 5))),
            ("3.0.0-rc.1", Some((3, 0))),
            ("3.9-dev", Some((3, 9))),
            ("3", Some((3, 0))),
            ("", None),
            ("x.1", None),
            ("2.x", None),
        ];
        for (text, expected) in cases {
            let found = Dialect::parse(text).map(|d| (d.major, d.minor));
            assert_eq!(found, expected, "{text}");
        }
    }
}
