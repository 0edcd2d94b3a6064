//! Where the load goes: the URL taken apart.

use std::net::{SocketAddr, ToSocketAddrs};

use anyhow::{Context, Result, bail};

/// A parsed `http://host[:port]/path` URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The URL as written, for reports.
    pub url: String,
    /// Host and port as the `Host` header says them.
    pub authority: String,
    /// Path and query, at least `/`.
    pub path: String,
}

impl Target {
    pub(super) fn placeholder() -> Self {
        Self {
            url: String::new(),
            authority: String::new(),
            path: String::new(),
        }
    }

    /// Takes a URL apart. Only plain HTTP is spoken.
    pub fn parse(url: &str) -> Result<Self> {
        let Some(rest) = url.strip_prefix("http://") else {
            if url.starts_with("https://") {
                bail!("{url:?}: https is not spoken by this generator: use the plain port");
            }
            bail!("{url:?} is not a URL: write http://host:port/path");
        };
        let path_at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(path_at);
        if authority.is_empty() || url.contains(|c: char| c.is_ascii_whitespace() || c == '#') {
            bail!("{url:?} is not a URL: write http://host:port/path, spaces as %20");
        }
        let path = if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/{path}")
        };
        Ok(Self {
            url: url.to_owned(),
            authority: authority.to_owned(),
            path,
        })
    }

    /// Resolves the host; the first address is used.
    #[expect(clippy::disallowed_methods, reason = "once, before the load starts")]
    pub fn resolve(&self) -> Result<SocketAddr> {
        let has_port = self
            .authority
            .rsplit_once(':')
            .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
        let with_port = if has_port {
            self.authority.clone()
        } else {
            format!("{}:80", self.authority)
        };
        with_port
            .to_socket_addrs()
            .with_context(|| format!("cannot resolve {with_port}"))?
            .next()
            .with_context(|| format!("{with_port} has no address"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_come_apart() {
        for (url, authority, path, address) in [
            (
                "http://127.0.0.1:81/a?b",
                "127.0.0.1:81",
                "/a?b",
                "127.0.0.1:81",
            ),
            ("http://127.0.0.1", "127.0.0.1", "/", "127.0.0.1:80"),
            ("http://127.0.0.1?q=1", "127.0.0.1", "/?q=1", "127.0.0.1:80"),
            ("http://[::1]/x", "[::1]", "/x", "[::1]:80"),
            ("http://[::1]:9/x", "[::1]:9", "/x", "[::1]:9"),
        ] {
            let target = Target::parse(url).unwrap();
            assert_eq!(
                (target.authority.as_str(), target.path.as_str()),
                (authority, path)
            );
            assert_eq!(target.resolve().unwrap().to_string(), address);
        }
        for url in [
            "",
            "127.0.0.1:80",
            "http://",
            "http:///x",
            "http://a/b c",
            "ftp://a/",
        ] {
            assert!(Target::parse(url).is_err(), "{url}");
        }
    }
}
