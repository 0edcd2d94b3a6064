//! `origin_url` and other authorities, taken apart strictly.

use std::net::{IpAddr, Ipv6Addr};

use ringway_shards::plan::Scheme;

/// Longest host name. RFC 1035.
const HOST_CHARS_MAX: usize = 253;
/// Longest label of a host name.
const LABEL_CHARS_MAX: usize = 63;

/// An `origin_url`, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginUrl {
    /// Plain or TLS.
    pub scheme: Scheme,
    /// Host and port.
    pub authority: Authority,
    /// Path without trailing slash; empty for none.
    pub path_prefix: String,
}

/// A host and perhaps a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// Lower case, without brackets.
    pub host: String,
    /// The port, where written.
    pub port: Option<u16>,
}

impl OriginUrl {
    /// Reads `scheme://host[:port][/prefix]`.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or("it has no scheme")?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            other => return Err(format!("scheme {other:?} is not supported")),
        };
        let path_at = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(path_at);
        if authority.contains('@') {
            return Err("it must not hold credentials".into());
        }
        if path.contains(['?', '#']) {
            return Err("it must not have a query or fragment".into());
        }
        let fits = |c: char| {
            c.is_ascii_graphic()
                && !matches!(c, '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}')
        };
        if let Some(wrong) = path.chars().find(|c| !fits(*c)) {
            return Err(format!(
                "its path has {wrong:?}, which must be percent-encoded"
            ));
        }
        Ok(OriginUrl {
            scheme,
            authority: Authority::parse(authority)?,
            path_prefix: path.trim_end_matches('/').to_owned(),
        })
    }

    /// The port in use.
    pub fn port(&self) -> u16 {
        self.authority.port.unwrap_or(self.scheme.default_port())
    }

    /// Value of `Host`.
    pub fn host_header(&self) -> String {
        self.authority.host_header(self.scheme)
    }
}

impl Authority {
    /// Reads `host[:port]`, with brackets around an IPv6 address.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (host, port) = match text.strip_prefix('[') {
            Some(inner) => {
                let (host, after) = inner.split_once(']').ok_or("a bracket is missing")?;
                host.parse::<Ipv6Addr>()
                    .map_err(|_| format!("{host:?} is not an IPv6 address"))?;
                match after.strip_prefix(':') {
                    Some(port) => (host, Some(port)),
                    None if after.is_empty() => (host, None),
                    None => return Err(format!("{after:?} follows the bracket")),
                }
            }
            None if text.matches(':').count() > 1 => {
                return Err("an IPv6 address needs brackets".into());
            }
            None => {
                let (host, port) = match text.split_once(':') {
                    Some((host, port)) => (host, Some(port)),
                    None => (text, None),
                };
                check_host_name(host)?;
                (host, port)
            }
        };
        let port = match port {
            Some(digits) => Some(parse_port(digits)?),
            None => None,
        };
        Ok(Authority {
            host: host.to_ascii_lowercase(),
            port,
        })
    }

    /// Value of `Host`: the port only where it is not the scheme's.
    pub fn host_header(&self, scheme: Scheme) -> String {
        let host = match self.host.parse::<IpAddr>() {
            Ok(IpAddr::V6(_)) => format!("[{}]", self.host),
            _ => self.host.clone(),
        };
        match self.port {
            Some(port) if port != scheme.default_port() => format!("{host}:{port}"),
            _ => host,
        }
    }
}

fn parse_port(digits: &str) -> Result<u16, String> {
    let number = digits.bytes().all(|b| b.is_ascii_digit()) && digits.len() <= 5;
    match digits.parse::<u16>() {
        Ok(port) if number && port > 0 => Ok(port),
        _ => Err(format!("{digits:?} is not a port")),
    }
}

/// Checks a host name or IPv4 address.
///
/// # Errors
/// What is wrong with it, in words.
pub fn check_host_name(host: &str) -> Result<(), String> {
    if host.is_empty() {
        return Err("the host is missing".into());
    }
    if !host.is_ascii() {
        return Err("write international names in their xn-- form".into());
    }
    if host.len() > HOST_CHARS_MAX {
        return Err(format!("it is longer than {HOST_CHARS_MAX} characters"));
    }
    for label in host.strip_suffix('.').unwrap_or(host).split('.') {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if label.is_empty() || label.len() > LABEL_CHARS_MAX || !label.bytes().all(fits) {
            return Err(format!("{label:?} is not a part of a host name"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (text, host, port, prefix, header) in [
            (
                "http://a.example.com",
                "a.example.com",
                80,
                "",
                "a.example.com",
            ),
            ("https://a/", "a", 443, "", "a"),
            ("http://a:9090/p/q/", "a", 9090, "/p/q", "a:9090"),
            ("HTTP://A:80", "a", 80, "", "a"),
            ("https://[::1]:8443/x", "::1", 8443, "/x", "[::1]:8443"),
            (
                "http://10.0.0.1:8080",
                "10.0.0.1",
                8080,
                "",
                "10.0.0.1:8080",
            ),
        ] {
            let url = OriginUrl::parse(text).unwrap();
            assert_eq!(url.authority.host, host, "{text}");
            assert_eq!(url.port(), port, "{text}");
            assert_eq!(url.path_prefix, prefix, "{text}");
            assert_eq!(url.host_header(), header, "{text}");
        }
    }

    #[test]
    fn urls_that_are_not_origins_are_refused() {
        for text in [
            "",
            "a:80",
            "ftp://a",
            "http://",
            "http://:80",
            "http://a:",
            "http://a:0",
            "http://a:70000",
            "http://a:+80",
            "http://u:p@a",
            "http://a/?q",
            "http://a#f",
            "http://a b",
            "http://a/b c",
            "http://::1/",
            "http://[::1",
            "http://[::1]x",
            "http://[zz]:1",
            "http://exämple.com",
            "http://a..b",
            "http://a/\u{0}",
        ] {
            assert!(OriginUrl::parse(text).is_err(), "{text}");
        }
    }
}
