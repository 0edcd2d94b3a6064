//! The request target: which of its four forms, and its parts.

use std::net::Ipv6Addr;

use super::{HeadError, Method, Span};

/// Form of a request target. Contract: RFC 9112 section 3.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetForm {
    /// `/path?query`.
    Origin,
    /// `http://host/path?query`, as sent to a forward proxy.
    Absolute,
    /// `host:port`, with CONNECT.
    Authority,
    /// `*`, with OPTIONS.
    Asterisk,
}

/// A target, cut into parts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) form: TargetForm,
    pub(super) whole: Span,
    /// Absolute and authority form.
    pub(super) authority: Option<Span>,
    /// The scheme of an absolute form is `https`.
    pub(super) is_https: bool,
    /// Empty for an absolute form without path, and for the authority form.
    pub(super) path: Span,
    pub(super) query: Option<Span>,
}

impl Target {
    /// Before any head was parsed.
    pub(super) const EMPTY: Target = Target {
        form: TargetForm::Origin,
        whole: Span { start: 0, end: 0 },
        authority: None,
        is_https: false,
        path: Span { start: 0, end: 0 },
        query: None,
    };

    /// Cuts the target that lies at `whole`. The tokeniser has refused spaces and controls.
    pub(super) fn parse(buf: &[u8], whole: Span, method: Method) -> Result<Target, HeadError> {
        let text = whole.slice(buf);
        // A fragment is never sent, and a byte above ASCII is read differently by everyone.
        let Some(&first) = text.first() else {
            return Err(HeadError::InvalidTarget);
        };
        if text.iter().any(|&byte| byte == b'#' || byte >= 0x80) {
            return Err(HeadError::InvalidTarget);
        }
        if method == Method::Connect {
            if !is_valid_authority(text) || !has_port(text) {
                return Err(HeadError::InvalidTarget);
            }
            return Ok(Target::new(TargetForm::Authority, whole).with_authority(whole));
        }
        if first == b'/' {
            return Ok(Target::new(TargetForm::Origin, whole).with_path(buf, whole.start));
        }
        if text == b"*" {
            if method != Method::Options {
                return Err(HeadError::InvalidTarget);
            }
            let mut target = Target::new(TargetForm::Asterisk, whole);
            target.path = whole;
            return Ok(target);
        }
        Target::parse_absolute(buf, whole)
    }

    fn parse_absolute(buf: &[u8], whole: Span) -> Result<Target, HeadError> {
        let text = whole.slice(buf);
        let (scheme_length, is_https) = match text {
            _ if starts_with_ignore_case(text, b"http://") => (7, false),
            _ if starts_with_ignore_case(text, b"https://") => (8, true),
            _ => return Err(HeadError::InvalidTarget),
        };
        let rest = &text[scheme_length..];
        let authority_length = rest
            .iter()
            .position(|byte| matches!(byte, b'/' | b'?'))
            .unwrap_or(rest.len());
        if !is_valid_authority(&rest[..authority_length]) {
            return Err(HeadError::InvalidTarget);
        }
        let authority_start = whole.start as usize + scheme_length;
        let authority = Span::new(authority_start, authority_start + authority_length);
        let mut target = Target::new(TargetForm::Absolute, whole)
            .with_authority(authority)
            .with_path(buf, authority.end);
        target.is_https = is_https;
        Ok(target)
    }

    fn new(form: TargetForm, whole: Span) -> Target {
        let path = Span {
            start: whole.end,
            end: whole.end,
        };
        Target {
            form,
            whole,
            authority: None,
            is_https: false,
            path,
            query: None,
        }
    }

    fn with_authority(mut self, authority: Span) -> Target {
        self.authority = Some(authority);
        self
    }

    /// Cuts what reaches from `start` to the end of the target into path and query.
    fn with_path(mut self, buf: &[u8], start: u32) -> Target {
        let rest = Span {
            start,
            end: self.whole.end,
        };
        match rest.slice(buf).iter().position(|&byte| byte == b'?') {
            None => self.path = rest,
            Some(length) => {
                let mark = start + length as u32;
                self.path = Span { start, end: mark };
                self.query = Some(Span {
                    start: mark + 1,
                    end: self.whole.end,
                });
            }
        }
        self
    }
}

/// Whether `text` is `name`, `name:port`, `[v6]` or `[v6]:port`. No user, no empty name, no empty
/// port, no percent escapes: each is read differently by different servers.
pub fn is_valid_authority(text: &[u8]) -> bool {
    let (host, behind) = match text.first() {
        Some(b'[') => {
            let Some(close) = text.iter().position(|&byte| byte == b']') else {
                return false;
            };
            let Ok(address) = std::str::from_utf8(&text[1..close]) else {
                return false;
            };
            if address.parse::<Ipv6Addr>().is_err() {
                return false;
            }
            text.split_at(close + 1)
        }
        _ => {
            let end = text.iter().position(|&byte| !is_host_byte(byte));
            text.split_at(end.unwrap_or(text.len()))
        }
    };
    match behind {
        [] => !host.is_empty(),
        [b':', port @ ..] => !host.is_empty() && is_port(port),
        _ => false,
    }
}

/// Whether an authority that is valid names a port.
fn has_port(authority: &[u8]) -> bool {
    match authority.iter().rposition(|&byte| byte == b':') {
        Some(colon) => !authority[colon..].contains(&b']'),
        None => false,
    }
}

fn is_port(text: &[u8]) -> bool {
    let mut port: u32 = 0;
    for &byte in text {
        if !byte.is_ascii_digit() || port > 65_535 {
            return false;
        }
        port = port * 10 + u32::from(byte - b'0');
    }
    !text.is_empty() && port <= 65_535
}

fn is_host_byte(byte: u8) -> bool {
    HOST_BYTES[byte as usize]
}

static HOST_BYTES: [bool; 256] = super::byte_class(b"-._~!$&'()*+,;=");

fn starts_with_ignore_case(text: &[u8], prefix: &[u8]) -> bool {
    text.get(..prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}
