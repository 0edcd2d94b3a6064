//! A changed request as a head of its own.

use ringway_io::net::http1::{HeadError, KnownHeader, Parsed, RequestHead, Version, write};

use super::Changes;
use crate::limits::head_limits;
use crate::passage::Asked;

/// A head that rewriters have made, parsed like one that came.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) head: RequestHead,
    pub(crate) bytes: Vec<u8>,
}

impl Draft {
    /// The head and its bytes.
    pub(crate) fn text(&self) -> (&RequestHead, &[u8]) {
        (&self.head, &self.bytes)
    }

    /// The path.
    pub(crate) fn path(&self) -> &[u8] {
        self.head.path(&self.bytes)
    }
}

impl Changes {
    /// The head with these changes; `None` where there are none.
    ///
    /// # Errors
    /// When it is larger than a head may be.
    pub(crate) fn render(&self, asked: &Asked<'_>) -> Result<Option<Draft>, HeadError> {
        if !self.changes_head() {
            return Ok(None);
        }
        let (head, bytes) = (asked.head, asked.bytes);
        let mut target = self.path.as_deref().unwrap_or(asked.path).to_vec();
        let query = match &self.query {
            Some(query) => Some(&query[..]).filter(|query| !query.is_empty()),
            None => asked.query,
        };
        if let Some(query) = query {
            target.push(b'?');
            target.extend_from_slice(query);
        }
        let method = self.method.as_deref();
        let method = method.unwrap_or_else(|| head.method_text(bytes));
        let mut out = Vec::with_capacity(bytes.len() + 256);
        let version: &[u8] = match head.version() {
            Version::Http10 => b" HTTP/1.0\r\n",
            Version::Http11 => b" HTTP/1.1\r\n",
        };
        out.extend_from_slice(method);
        out.push(b' ');
        out.extend_from_slice(&target);
        out.extend_from_slice(version);
        // Not from the headers: an absolute target overrules them.
        if let Some(authority) = head.authority(bytes) {
            write::header(&mut out, b"Host", authority);
        }
        match &self.headers {
            Some(lines) => {
                for line in lines {
                    if KnownHeader::classify(&line.name) != KnownHeader::Host {
                        write::header(&mut out, &line.name, &line.value);
                    }
                }
            }
            None => {
                for header in head.headers(bytes) {
                    if header.known != KnownHeader::Host {
                        write::header(&mut out, header.name, header.value);
                    }
                }
            }
        }
        write::end_of_head(&mut out);
        let mut made = RequestHead::new();
        match made.parse(&out, &head_limits())? {
            Parsed::Complete(len) if len == out.len() => {}
            _ => return Err(HeadError::InvalidStartLine),
        }
        debug_assert!(head.version() == Version::Http10 || made.framing() == head.framing());
        Ok(Some(Draft {
            head: made,
            bytes: out,
        }))
    }
}
