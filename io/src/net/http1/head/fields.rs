//! The header table of a head, and what its headers say about framing and the connection.

use super::{BodyFraming, HeadError, KnownHeader, Span, Version};

/// One header, as it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'b> {
    /// Name, in the sender's case.
    pub name: &'b [u8],
    /// Value, without whitespace around it.
    pub value: &'b [u8],
    /// Which header it is.
    pub known: KnownHeader,
    /// Whether it is for this connection only: by its name, or because `Connection` names it.
    pub hop_by_hop: bool,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    name: Span,
    value: Span,
    known: KnownHeader,
    hop_by_hop: bool,
}

/// The headers of a head, in order.
#[derive(Debug, Clone)]
pub struct Headers<'h, 'b> {
    slots: std::slice::Iter<'h, Slot>,
    buf: &'b [u8],
}

impl<'b> Iterator for Headers<'_, 'b> {
    type Item = Header<'b>;

    fn next(&mut self) -> Option<Header<'b>> {
        self.slots.next().map(|slot| slot.header(self.buf))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.slots.size_hint()
    }
}

impl ExactSizeIterator for Headers<'_, '_> {}

impl Slot {
    fn header<'b>(&self, buf: &'b [u8]) -> Header<'b> {
        Header {
            name: self.name.slice(buf),
            value: self.value.slice(buf),
            known: self.known,
            hop_by_hop: self.hop_by_hop,
        }
    }
}

/// What `Transfer-Encoding` lists, over all of its lines.
#[derive(Debug, Clone, Copy, Default)]
struct Codings {
    /// The header is there, even if empty.
    present: bool,
    malformed: bool,
    chunked: u32,
    others: u32,
    last_is_chunked: bool,
}

impl Codings {
    fn add_line(&mut self, value: &[u8]) {
        self.present = true;
        for coding in value.split(|&byte| byte == b',') {
            let coding = coding.trim_ascii();
            self.last_is_chunked = coding.eq_ignore_ascii_case(b"chunked");
            if self.last_is_chunked {
                self.chunked += 1;
            } else {
                self.others += 1;
                let name = coding
                    .split(|&byte| byte == b';')
                    .next()
                    .unwrap_or_default();
                self.malformed |= !is_token(name.trim_ascii_end());
            }
        }
    }

    /// Whether the body is chunked; an error for everything ringway cannot undo.
    fn is_chunked(&self) -> Result<bool, HeadError> {
        if !self.present {
            return Ok(false);
        }
        if self.malformed || !self.last_is_chunked || self.chunked != 1 {
            return Err(HeadError::InvalidTransferEncoding);
        }
        if self.others > 0 {
            return Err(HeadError::UnknownTransferCoding);
        }
        Ok(true)
    }
}

/// What the headers say, gathered while the table is filled.
#[derive(Debug, Clone, Copy, Default)]
struct Summary {
    host: Option<Span>,
    content_length: Option<u64>,
    codings: Codings,
    close: bool,
    keep_alive: bool,
    upgrade_option: bool,
    upgrade: bool,
    expect_continue: bool,
}

/// Header table of one head.
#[derive(Debug, Default)]
pub(super) struct Fields {
    slots: Vec<Slot>,
    /// Names `Connection` lists, other than `close`, `keep-alive` and `upgrade`.
    nominated: Vec<Span>,
    summary: Summary,
}

impl Fields {
    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.nominated.clear();
        self.summary = Summary::default();
    }

    /// Fills the table from what the tokeniser found in `buf`.
    pub(super) fn fill(
        &mut self,
        buf: &[u8],
        headers: &[httparse::Header<'_>],
        is_request: bool,
    ) -> Result<(), HeadError> {
        self.clear();
        self.slots.reserve(headers.len());
        for header in headers {
            let name = header.name.as_bytes();
            let known = KnownHeader::classify(name);
            let slot = Slot {
                name: Span::of(buf, name),
                value: Span::of(buf, header.value),
                known,
                hop_by_hop: known.is_hop_by_hop(),
            };
            self.slots.push(slot);
            if slot.name.is_empty() {
                return Err(HeadError::InvalidHeaderName);
            }
            self.note(buf, slot, is_request)?;
        }
        self.mark_nominated(buf);
        Ok(())
    }

    fn note(&mut self, buf: &[u8], slot: Slot, is_request: bool) -> Result<(), HeadError> {
        let value = slot.value.slice(buf);
        let summary = &mut self.summary;
        match slot.known {
            KnownHeader::Host if is_request => {
                set_once(&mut summary.host, slot.value, HeadError::DuplicateHost)?;
            }
            KnownHeader::ContentLength => {
                let length = parse_content_length(value)?;
                let twice = HeadError::DuplicateContentLength;
                set_once(&mut summary.content_length, length, twice)?;
            }
            KnownHeader::TransferEncoding => summary.codings.add_line(value),
            KnownHeader::Connection => self.note_connection(buf, value),
            KnownHeader::Upgrade => summary.upgrade |= !value.is_empty(),
            KnownHeader::Expect if is_request => {
                if !value.eq_ignore_ascii_case(b"100-continue") {
                    return Err(HeadError::UnknownExpectation);
                }
                summary.expect_continue = true;
            }
            _ => {}
        }
        Ok(())
    }

    fn note_connection(&mut self, buf: &[u8], value: &[u8]) {
        for option in value.split(|&byte| byte == b',') {
            let option = option.trim_ascii();
            if option.eq_ignore_ascii_case(b"keep-alive") {
                self.summary.keep_alive = true;
            } else if option.eq_ignore_ascii_case(b"close") {
                self.summary.close = true;
            } else if option.eq_ignore_ascii_case(b"upgrade") {
                self.summary.upgrade_option = true;
            } else if !option.is_empty() {
                self.nominated.push(Span::of(buf, option));
            }
        }
    }

    fn mark_nominated(&mut self, buf: &[u8]) {
        if self.nominated.is_empty() {
            return;
        }
        for slot in &mut self.slots {
            slot.hop_by_hop |= is_nominated(&self.nominated, buf, slot.known, slot.name.slice(buf));
        }
    }

    pub(super) fn headers<'h, 'b>(&'h self, buf: &'b [u8]) -> Headers<'h, 'b> {
        Headers {
            slots: self.slots.iter(),
            buf,
        }
    }

    pub(super) fn first<'b>(&self, buf: &'b [u8], known: KnownHeader) -> Option<&'b [u8]> {
        self.slots
            .iter()
            .find(|slot| slot.known == known)
            .map(|slot| slot.value.slice(buf))
    }

    pub(super) fn find<'b>(&self, buf: &'b [u8], name: &[u8]) -> Option<&'b [u8]> {
        self.slots
            .iter()
            .find(|slot| slot.name.slice(buf).eq_ignore_ascii_case(name))
            .map(|slot| slot.value.slice(buf))
    }

    pub(super) fn is_hop_by_hop(&self, buf: &[u8], name: &[u8]) -> bool {
        let known = KnownHeader::classify(name);
        known.is_hop_by_hop() || is_nominated(&self.nominated, buf, known, name)
    }

    pub(super) fn host(&self) -> Option<Span> {
        self.summary.host
    }

    pub(super) fn content_length(&self) -> Option<u64> {
        self.summary.content_length
    }

    pub(super) fn has_transfer_encoding(&self) -> bool {
        self.summary.codings.present
    }

    pub(super) fn expect_continue(&self) -> bool {
        self.summary.expect_continue
    }

    /// Whether the sender offers, or takes, another protocol on this connection.
    pub(super) fn upgrade(&self, version: Version) -> bool {
        version == Version::Http11 && self.summary.upgrade_option && self.summary.upgrade
    }

    /// Whether the sender keeps the connection open after this message.
    pub(super) fn keep_alive(&self, version: Version) -> bool {
        match version {
            Version::Http11 => !self.summary.close,
            Version::Http10 => self.summary.keep_alive && !self.summary.close,
        }
    }

    /// Framing by headers alone; `None` when they are silent.
    pub(super) fn framing(&self, version: Version) -> Result<Option<BodyFraming>, HeadError> {
        if self.summary.codings.present {
            // Two framings are never weighed against each other: whatever else is wrong with
            // them, the message is refused.
            if self.summary.content_length.is_some() {
                return Err(HeadError::ConflictingFraming);
            }
            if version == Version::Http10 {
                return Err(HeadError::TransferEncodingInHttp10);
            }
        }
        if self.summary.codings.is_chunked()? {
            return Ok(Some(BodyFraming::Chunked));
        }
        Ok(self.summary.content_length.map(BodyFraming::Length))
    }
}

/// `Connection` may not take away what says where a message goes and where it ends.
fn is_nominated(nominated: &[Span], buf: &[u8], known: KnownHeader, name: &[u8]) -> bool {
    !matches!(known, KnownHeader::Host | KnownHeader::ContentLength)
        && nominated
            .iter()
            .any(|option| option.slice(buf).eq_ignore_ascii_case(name))
}

fn set_once<T>(place: &mut Option<T>, value: T, twice: HeadError) -> Result<(), HeadError> {
    match place.replace(value) {
        Some(_) => Err(twice),
        None => Ok(()),
    }
}

/// Digits only, and a value that fits.
fn parse_content_length(value: &[u8]) -> Result<u64, HeadError> {
    if value.is_empty() {
        return Err(HeadError::InvalidContentLength);
    }
    let mut length: u64 = 0;
    for &byte in value {
        if !byte.is_ascii_digit() {
            return Err(HeadError::InvalidContentLength);
        }
        length = length
            .checked_mul(10)
            .and_then(|tens| tens.checked_add(u64::from(byte - b'0')))
            .ok_or(HeadError::InvalidContentLength)?;
    }
    Ok(length)
}

/// Whether `text` is a token: a method, a header name, a coding.
pub(in crate::net::http1) fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&byte| is_token_byte(byte))
}

fn is_token_byte(byte: u8) -> bool {
    TOKEN_BYTES[byte as usize]
}

static TOKEN_BYTES: [bool; 256] = super::byte_class(b"!#$%&'*+-.^_`|~");
