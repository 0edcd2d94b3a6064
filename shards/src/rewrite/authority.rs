//! Instructions about who is asked: scheme, host and port in place of the origin's. Contract: rewriters page, 5.

use std::borrow::Cow;
use std::net::Ipv6Addr;

use super::text::replaced;
use super::{Dropped, Request, text_of};
use crate::plan::{Instruction, Scheme};
use crate::rule::Captures;

/// Longest host name. Contract: RFC 1035.
const HOST_BYTES_MAX: usize = 253;

/// What of an origin's address is another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Authority {
    pub(crate) scheme: Option<Scheme>,
    /// Lower case, without brackets.
    pub(crate) host: Option<Box<str>>,
    pub(crate) port: PortChange,
}

/// What becomes of an origin's port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PortChange {
    /// It stays.
    #[default]
    Keep,
    /// That of the scheme.
    Default,
    /// This one.
    Set(u16),
}

impl Authority {
    /// Nothing is another.
    pub(crate) fn is_kept(&self) -> bool {
        *self == Authority::default()
    }
}

impl Request<'_> {
    fn authority(&self) -> Option<&Authority> {
        self.changed().map(|changes| &changes.authority)
    }

    /// Host and port as they came.
    fn inbound(&self) -> (Cow<'_, str>, Option<u16>) {
        let text = self.asked.head.authority(self.asked.bytes);
        let text = String::from_utf8_lossy(text.unwrap_or_default());
        let (host, port) = match &text {
            Cow::Borrowed(text) => {
                let (host, port) = split(text);
                (Cow::Borrowed(host), port)
            }
            Cow::Owned(text) => {
                let (host, port) = split(text);
                (Cow::Owned(host.to_owned()), port)
            }
        };
        (host, port.and_then(|port| port.parse().ok()))
    }

    /// The host without port and brackets: the changed one, else as it came.
    pub(crate) fn hostname(&self) -> Cow<'_, str> {
        match self
            .authority()
            .and_then(|authority| authority.host.as_deref())
        {
            Some(host) => Cow::Borrowed(host),
            None => self.inbound().0,
        }
    }

    /// The port that is written somewhere.
    fn written_port(&self) -> Option<u16> {
        match self.authority() {
            Some(Authority {
                port: PortChange::Set(port),
                ..
            }) => Some(*port),
            Some(Authority {
                port: PortChange::Default,
                ..
            }) => None,
            // The origin's own, which is not known here.
            Some(Authority { host: Some(_), .. }) => None,
            _ => self.inbound().1,
        }
    }

    /// The port, also where it is the scheme's.
    pub(crate) fn port(&self) -> u16 {
        let default = if self.scheme() == "https" { 443 } else { 80 };
        self.written_port().unwrap_or(default)
    }

    /// Host and port, the port where it is written.
    pub(crate) fn host(&self) -> Cow<'_, str> {
        let is_kept = self
            .authority()
            .is_none_or(|authority| authority.host.is_none() && authority.port == PortChange::Keep);
        if is_kept {
            let text = self.asked.head.authority(self.asked.bytes);
            return String::from_utf8_lossy(text.unwrap_or_default());
        }
        let host = self.hostname();
        let host = match host.contains(':') {
            true => format!("[{host}]"),
            false => host.into_owned(),
        };
        Cow::Owned(match self.written_port() {
            Some(port) => format!("{host}:{port}"),
            None => host,
        })
    }

    pub(super) fn change_authority(
        &mut self,
        instruction: &Instruction,
        captures: Option<&Captures<'_>>,
    ) -> Result<(), Dropped> {
        use Instruction as I;
        let text = |template| text_of(template, captures);
        match instruction {
            I::HostSet(value) => self.set_host(&text(value)?),
            I::HostnameSet(value) => self.set_hostname(&text(value)?),
            I::PortSet(value) => self.set_port(&text(value)?),
            I::PortDelete => self.set_port(b""),
            I::SchemeSet(value) => {
                let scheme = scheme(&text(value)?).ok_or(Dropped)?;
                self.changes().authority.scheme = Some(scheme);
                Ok(())
            }
            // Where only the name was set, the port is that of an origin, which is not known yet.
            I::PortReplace(_) if self.has_name_alone() => Ok(()),
            I::HostReplace(change) | I::HostnameReplace(change) | I::PortReplace(change) => {
                let before = match instruction {
                    I::HostReplace(_) => self.host(),
                    I::HostnameReplace(_) => self.hostname(),
                    _ => Cow::Owned(self.port().to_string()),
                };
                // Names of hosts have no case.
                let search = text(&change.search)?.to_ascii_lowercase();
                let parts = (&*search, &*text(&change.with)?);
                let before = before.to_ascii_lowercase();
                let after = replaced(before.as_bytes(), parts, change.count)?;
                match (after, instruction) {
                    (None, _) => Ok(()),
                    (Some(after), I::HostReplace(_))
                        if self.has_name_alone() && !has_port(&after) =>
                    {
                        self.set_hostname(&after)
                    }
                    (Some(after), I::HostReplace(_)) => self.set_host(&after),
                    (Some(after), I::HostnameReplace(_)) => self.set_hostname(&after),
                    (Some(after), _) => self.set_port(&after),
                }
            }
            _ => Err(Dropped),
        }
    }

    /// Whether another host was set, and no port.
    fn has_name_alone(&self) -> bool {
        let authority = self.authority();
        authority.is_some_and(|known| known.host.is_some() && known.port == PortChange::Keep)
    }

    fn set_host(&mut self, text: &[u8]) -> Result<(), Dropped> {
        let text = std::str::from_utf8(text).map_err(|_| Dropped)?;
        let (host, port) = split(text);
        let host = host_name(host).ok_or(Dropped)?;
        let port = match port {
            Some(port) => PortChange::Set(port_number(port.as_bytes()).ok_or(Dropped)?),
            None => PortChange::Default,
        };
        let authority = &mut self.changes().authority;
        authority.host = Some(host);
        authority.port = port;
        Ok(())
    }

    fn set_hostname(&mut self, text: &[u8]) -> Result<(), Dropped> {
        let text = std::str::from_utf8(text).map_err(|_| Dropped)?;
        let host = host_name(text).ok_or(Dropped)?;
        self.changes().authority.host = Some(host);
        Ok(())
    }

    fn set_port(&mut self, text: &[u8]) -> Result<(), Dropped> {
        let port = match text {
            b"" => PortChange::Default,
            text => PortChange::Set(port_number(text).ok_or(Dropped)?),
        };
        self.changes().authority.port = port;
        Ok(())
    }
}

fn has_port(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| split(text).1.is_some())
}

/// Host without brackets, and the port where there is one. An IPv6 address without brackets has none.
fn split(text: &str) -> (&str, Option<&str>) {
    if let Some(inner) = text.strip_prefix('[')
        && let Some((host, behind)) = inner.split_once(']')
    {
        return (host, behind.strip_prefix(':'));
    }
    match text.split_once(':') {
        Some((_, rest)) if rest.contains(':') => (text, None),
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    }
}

fn port_number(digits: &[u8]) -> Option<u16> {
    let is_number =
        digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit) && digits.first() != Some(&b'0');
    let text = std::str::from_utf8(digits).ok().filter(|_| is_number)?;
    text.parse().ok().filter(|port| *port > 0)
}

fn scheme(text: &[u8]) -> Option<Scheme> {
    match text.to_ascii_lowercase().as_slice() {
        b"http" => Some(Scheme::Http),
        b"https" => Some(Scheme::Https),
        _ => None,
    }
}

/// A name or address that can be asked for, lower case and without brackets.
pub(crate) fn host_name(text: &str) -> Option<Box<str>> {
    // The root's dot is no part of a name that is asked for.
    let text = text.strip_suffix('.').unwrap_or(text);
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    if bare.contains(':') {
        let address: Ipv6Addr = bare.parse().ok()?;
        return Some(address.to_string().into());
    }
    let fits = |label: &str| {
        let ends = label.starts_with('-') || label.ends_with('-');
        let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        !label.is_empty() && label.len() <= 63 && !ends && label.bytes().all(known)
    };
    let is_name = bare.len() <= HOST_BYTES_MAX && bare.split('.').all(fits);
    (is_name && bare == text).then(|| text.to_ascii_lowercase().into())
}
