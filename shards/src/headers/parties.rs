//! Who heads tell of, as texts that are made once and not for each request: this server and a client.

use std::net::IpAddr;

use ringway_io::net::http1::{Version, is_valid_authority, write};

/// This server, by its name in `Via` and `Forwarded`.
#[derive(Debug)]
pub(crate) struct Server {
    /// `by=NAME;for=`.
    by: Vec<u8>,
    via: [Vec<u8>; 2],
}

impl Server {
    pub(crate) fn named(name: &str) -> Server {
        let mut by = b"by=".to_vec();
        quoted_unless_token(&mut by, name.as_bytes());
        by.extend_from_slice(b";for=");
        let via = ["1.0", "1.1"].map(|version| format!("Via: {version} {name}\r\n").into_bytes());
        Server { by, via }
    }

    /// Begins an element of `Forwarded`, up to whom this server was asked by.
    pub(super) fn by(&self) -> &[u8] {
        &self.by
    }

    /// Its line in what it passes on of a message of this version.
    pub(super) fn via(&self, version: Version) -> &[u8] {
        match version {
            Version::Http10 => &self.via[0],
            Version::Http11 => &self.via[1],
        }
    }
}

/// A client, by its address.
#[derive(Debug)]
pub(crate) struct Sender {
    address: Vec<u8>,
    node: Vec<u8>,
}

impl Sender {
    pub(crate) fn at(ip: IpAddr) -> Sender {
        let mut sender = Sender {
            address: Vec::new(),
            node: Vec::new(),
        };
        address(&mut sender.address, ip);
        forwarded_node(&mut sender.node, ip);
        sender
    }

    /// The address alone.
    pub(super) fn address(&self) -> &[u8] {
        &self.address
    }

    /// As `Forwarded` has it.
    pub(super) fn node(&self) -> &[u8] {
        &self.node
    }
}

pub(super) fn address(out: &mut Vec<u8>, ip: IpAddr) {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let octets = ip.octets();
            for (index, octet) in octets.into_iter().enumerate() {
                if index > 0 {
                    out.push(b'.');
                }
                write::decimal(out, u64::from(octet));
            }
        }
        IpAddr::V6(ip) => out.extend_from_slice(ip.to_string().as_bytes()),
    }
}

/// An IPv6 address is bracketed and quoted. Contract: RFC 7239, 6.
pub(super) fn forwarded_node(out: &mut Vec<u8>, ip: IpAddr) {
    match ip.to_canonical() {
        IpAddr::V4(_) => address(out, ip),
        IpAddr::V6(_) => {
            out.extend_from_slice(b"\"[");
            address(out, ip);
            out.extend_from_slice(b"]\"");
        }
    }
}

pub(super) fn quoted_unless_token(out: &mut Vec<u8>, text: &[u8]) {
    if write::is_valid_header_name(text) {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'"');
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\')) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(&[b'\\', rest[at]]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Host and port as a head was parsed with: nothing in them needs escapes.
pub(super) fn quoted_authority(out: &mut Vec<u8>, authority: &[u8]) {
    debug_assert!(is_valid_authority(authority), "a parsed head is valid");
    if write::is_valid_header_name(authority) {
        out.extend_from_slice(authority);
        return;
    }
    out.reserve(authority.len() + 2);
    out.push(b'"');
    out.extend_from_slice(authority);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parsed_authority_is_quoted_as_any_text_is() {
        for authority in ["host.test", "h:80", "[::1]:80", "a(b);c=d,e:1"] {
            let (mut text, mut known) = (Vec::new(), Vec::new());
            quoted_unless_token(&mut text, authority.as_bytes());
            quoted_authority(&mut known, authority.as_bytes());
            assert_eq!(text, known, "{authority}");
        }
    }

    #[test]
    fn what_is_no_token_is_quoted_and_escaped() {
        let quoted = |text: &str| {
            let mut out = Vec::new();
            quoted_unless_token(&mut out, text.as_bytes());
            String::from_utf8(out).expect("ASCII")
        };
        assert_eq!(quoted("web-1.test"), "web-1.test");
        assert_eq!(quoted("h:80"), r#""h:80""#);
        assert_eq!(quoted(r#""a\b"c:"#), r#""\"a\\b\"c:""#);
        assert_eq!(quoted(""), r#""""#);
    }
}
