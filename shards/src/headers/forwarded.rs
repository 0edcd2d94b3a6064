//! What a peer's `Forwarded` says of the hops in front of it. Contract: RFC 7239, 4 and 6.

use std::borrow::Cow;
use std::net::IpAddr;

use ringway_io::net::http1::{KnownHeader, RequestHead};

/// What one hop says; what cannot be read is left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Element<'a> {
    /// Who came to it; `None` also where that is hidden.
    pub(super) client: Option<IpAddr>,
    /// Host it was asked for.
    pub(super) host: Option<Cow<'a, [u8]>>,
    /// Scheme it was asked by.
    pub(super) proto: Option<Cow<'a, [u8]>>,
}

/// The elements of all lines, from the first hop on.
pub(super) fn elements<'a>(
    head: &'a RequestHead,
    bytes: &'a [u8],
) -> impl Iterator<Item = Element<'a>> {
    let lines = head
        .headers(bytes)
        .filter(|header| header.known == KnownHeader::Forwarded);
    lines.flat_map(|header| split(header.value, b',').map(element))
}

fn element(text: &[u8]) -> Element<'_> {
    let mut element = Element::default();
    for pair in split(text, b';') {
        let pair = pair.trim_ascii();
        let Some(sign) = pair.iter().position(|&byte| byte == b'=') else {
            continue;
        };
        let (name, value) = (&pair[..sign], unquoted(&pair[sign + 1..]));
        if name.eq_ignore_ascii_case(b"for") {
            element.client = node(&value);
        } else if name.eq_ignore_ascii_case(b"host") {
            element.host = Some(value).filter(|value| is_plain(value, b"-._:[]"));
        } else if name.eq_ignore_ascii_case(b"proto") {
            element.proto = Some(value).filter(|value| is_plain(value, b"+-."));
        }
    }
    element
}

/// The parts between separators that are not quoted.
fn split(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(move |&byte| {
        let is_literal = std::mem::replace(&mut is_escaped, false);
        match byte {
            _ if is_literal => {}
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            _ => return !is_quoted && byte == separator,
        }
        false
    })
}

fn unquoted(text: &[u8]) -> Cow<'_, [u8]> {
    let inside = text
        .strip_prefix(b"\"")
        .and_then(|rest| rest.strip_suffix(b"\""));
    let Some(inside) = inside else {
        return Cow::Borrowed(text);
    };
    if !inside.contains(&b'\\') {
        return Cow::Borrowed(inside);
    }
    let mut plain = Vec::with_capacity(inside.len());
    let mut bytes = inside.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'\\' => plain.extend(bytes.next()),
            _ => plain.push(byte),
        }
    }
    Cow::Owned(plain)
}

/// The address of a node, without its port.
fn node(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    if let Some(rest) = text.strip_prefix('[') {
        let (address, _) = rest.split_once(']')?;
        return address.parse().ok();
    }
    let whole = text.parse().ok();
    whole.or_else(|| text.split_once(':')?.0.parse().ok())
}

/// Whether a value can stand alone in a header of another form.
fn is_plain(value: &[u8], signs: &[u8]) -> bool {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || signs.contains(byte);
    !value.is_empty() && value.iter().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An element; address, host and scheme read from it.
    type Row = (
        &'static str,
        Option<&'static str>,
        Option<&'static str>,
        Option<&'static str>,
    );

    #[test]
    fn elements_are_read_with_quotes_and_ports() {
        let rows: [Row; 9] = [
            ("for=192.0.2.1", Some("192.0.2.1"), None, None),
            (
                "For=192.0.2.1:80;PROTO=https",
                Some("192.0.2.1"),
                None,
                Some("https"),
            ),
            (
                "for=\"[2001:db8::1]:80\" ; host=\"a:1\"",
                Some("2001:db8::1"),
                Some("a:1"),
                None,
            ),
            (
                "by=x;for=\"192\\.0.2.1\";host=\"\\a\"",
                Some("192.0.2.1"),
                Some("a"),
                None,
            ),
            ("for=unknown;proto=http", None, None, Some("http")),
            ("for=_hidden", None, None, None),
            ("host=\"a, b\";proto=\"a\\\";b\"", None, None, None),
            ("for=;host=;proto=", None, None, None),
            ("for=\"[::1", None, None, None),
        ];
        for (text, client, host, proto) in rows {
            let cow = |text: &'static str| Cow::Borrowed(text.as_bytes());
            let expected = Element {
                client: client.map(|text| text.parse().expect("an address")),
                host: host.map(cow),
                proto: proto.map(cow),
            };
            assert_eq!(element(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn only_bare_commas_end_an_element() {
        let parts: Vec<_> = split(b"a=\"x,\\\",y\",b,", b',').collect();
        assert_eq!(parts, [&b"a=\"x,\\\",y\""[..], b"b", b""]);
    }
}
