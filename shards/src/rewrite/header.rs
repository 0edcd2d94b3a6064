//! Instructions about headers. Names are compared without case; headers that belong to the connection are left alone.
//! Contract: rewriters page, 3.

use std::borrow::Cow;

use ringway_io::net::http1::{KnownHeader, write};

use super::text::replaced;
use super::{Dropped, Line, Request, is_clean};
use crate::passage::Credentials;

const SEPARATOR: &[u8] = b", ";

/// Whether a rewriter may change this header: not where it frames the message, or says who is asked.
fn is_editable(name: &[u8]) -> bool {
    let known = KnownHeader::classify(name);
    let is_own = matches!(
        known,
        KnownHeader::Host | KnownHeader::ContentLength | KnownHeader::Expect
    );
    write::is_valid_header_name(name) && !is_own && !known.is_hop_by_hop()
}

fn check(name: &[u8], value: &[u8]) -> Result<(), Dropped> {
    let fits = is_editable(name) && is_clean(value) && write::is_valid_header_value(value);
    fits.then_some(()).ok_or(Dropped)
}

impl Request<'_> {
    /// The headers as they came, for those who change them: without what `Connection` names, else a client could have
    /// what is added here taken out again. Credentials are settled when they are sent.
    fn inbound_lines(&self) -> impl Iterator<Item = (&[u8], Cow<'_, [u8]>)> {
        let headers = self.asked.head.headers(self.asked.bytes);
        headers.filter_map(move |header| {
            let value = match header.known {
                known if header.hop_by_hop && !known.is_hop_by_hop() => return None,
                KnownHeader::Connection => own_options(header.value).into(),
                _ => header.value.into(),
            };
            Some((header.name, value))
        })
    }

    /// All values of a header that go on, in order.
    fn values(&self, name: &[u8]) -> Vec<Cow<'_, [u8]>> {
        let changed = self.changed();
        let is_own = changed.is_some_and(|changes| changes.sets_authorization);
        if !is_own && KnownHeader::classify(name) == KnownHeader::Authorization {
            match self.credentials {
                Credentials::Keep => {}
                Credentials::Remove => return Vec::new(),
                Credentials::Replace(value) => return vec![value.expose().as_bytes().into()],
            }
        }
        match changed.and_then(|changes| changes.headers.as_ref()) {
            Some(lines) => {
                let lines = lines.iter();
                let named = lines.filter(|line| line.name.eq_ignore_ascii_case(name));
                named.map(|line| line.value.as_slice().into()).collect()
            }
            None => {
                let lines = self.inbound_lines();
                let named = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
                named.map(|(_, value)| value).collect()
            }
        }
    }

    /// All headers, to be changed.
    fn lines(&mut self) -> &mut Vec<Line> {
        if self
            .changed()
            .is_none_or(|changes| changes.headers.is_none())
        {
            let lines = self.inbound_lines().map(|(name, value)| Line {
                name: name.to_vec(),
                value: value.into_owned(),
            });
            let lines = lines.collect();
            self.changes().headers = Some(lines);
        }
        self.changes().headers.get_or_insert_default()
    }

    /// A header is what a rewriter has made or left of it.
    fn note(&mut self, name: &[u8]) {
        let changes = self.changes();
        let known = &mut changes.changed_headers;
        if !known.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            known.push(name.to_vec());
        }
        if KnownHeader::classify(name) == KnownHeader::Authorization {
            changes.sets_authorization = true;
        }
    }

    pub(super) fn set_header(&mut self, name: &[u8], value: &[u8]) -> Result<(), Dropped> {
        check(name, value)?;
        let values = self.values(name);
        if matches!(values.as_slice(), [only] if **only == *value) {
            return Ok(());
        }
        put(self.lines(), name, value.to_vec());
        self.note(name);
        Ok(())
    }

    pub(super) fn append_header(&mut self, name: &[u8], value: &[u8]) -> Result<(), Dropped> {
        check(name, value)?;
        let values = self.values(name);
        if values.is_empty() {
            return self.set_header(name, value);
        }
        let joined = values.join(SEPARATOR);
        let mut elements = elements(&joined);
        if elements.contains(&value) {
            return Ok(());
        }
        let key = value.split(|&byte| byte == b'=').next().unwrap_or(value);
        let mut is_there = false;
        for element in &mut elements {
            if begins(element, key) {
                *element = value;
                is_there = true;
            }
        }
        if !is_there {
            elements.push(value);
        }
        let value = elements.join(SEPARATOR);
        check(name, &value)?;
        put(self.lines(), name, value);
        self.note(name);
        Ok(())
    }

    pub(super) fn replace_in_header(
        &mut self,
        name: &[u8],
        change: (&[u8], &[u8]),
    ) -> Result<(), Dropped> {
        check(name, change.1)?;
        let mut changed = Vec::new();
        let values = self.values(name);
        let is_only = values.len() == 1;
        for (index, value) in values.into_iter().enumerate() {
            if let Some(value) = replaced(&value, change, None)? {
                check(name, &value)?;
                changed.push((index, value));
            }
        }
        if changed.is_empty() {
            return Ok(());
        }
        if let [(_, value)] = changed.as_mut_slice()
            && is_only
        {
            // Credentials may be others than the client's, who perhaps sent none.
            let value = std::mem::take(value);
            put(self.lines(), name, value);
            self.note(name);
            return Ok(());
        }
        let lines = self.lines().iter_mut();
        let named = lines.filter(|line| line.name.eq_ignore_ascii_case(name));
        let mut changed = changed.into_iter().peekable();
        for (index, line) in named.enumerate() {
            if let Some((_, value)) = changed.next_if(|(at, _)| *at == index) {
                line.value = value;
            }
        }
        self.note(name);
        Ok(())
    }

    pub(super) fn delete_header(
        &mut self,
        name: &[u8],
        part: Option<&[u8]>,
    ) -> Result<(), Dropped> {
        check(name, b"")?;
        let values = self.values(name);
        let Some(part) = part else {
            // Rules are not to see what does not go on either.
            if !values.is_empty() || self.header(name).is_some() {
                self.lines()
                    .retain(|line| !line.name.eq_ignore_ascii_case(name));
                self.note(name);
            }
            return Ok(());
        };
        if values.is_empty() {
            return Ok(());
        }
        let joined = values.join(SEPARATOR);
        let mut elements = elements(&joined);
        let found = elements
            .iter()
            .position(|element| *element == part || begins(element, part));
        let Some(at) = found else {
            return Ok(());
        };
        elements.remove(at);
        if elements.is_empty() {
            return self.delete_header(name, None);
        }
        let value = elements.join(SEPARATOR);
        put(self.lines(), name, value);
        self.note(name);
        Ok(())
    }
}

/// `key=` begins the element.
fn begins(element: &[u8], key: &[u8]) -> bool {
    let rest = element.strip_prefix(key);
    rest.is_some_and(|rest| rest.first() == Some(&b'='))
}

/// The elements of a list.
fn elements(mut list: &[u8]) -> Vec<&[u8]> {
    let mut elements = Vec::new();
    while let Some(at) = super::text::find(list, SEPARATOR) {
        elements.push(&list[..at]);
        list = &list[at + SEPARATOR.len()..];
    }
    elements.push(list);
    elements
}

/// One value in place of all, where the first was.
fn put(lines: &mut Vec<Line>, name: &[u8], value: Vec<u8>) {
    let is_it = |line: &Line| line.name.eq_ignore_ascii_case(name);
    let Some(first) = lines.iter().position(is_it) else {
        let name = name.to_vec();
        lines.push(Line { name, value });
        return;
    };
    lines[first].value = value;
    let mut at = 0;
    lines.retain(|line| {
        at += 1;
        at <= first + 1 || !is_it(line)
    });
}

/// What a `Connection` header says of the connection itself.
fn own_options(value: &[u8]) -> Vec<u8> {
    let options = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    let is_own = |option: &&[u8]| {
        let own = [&b"close"[..], b"keep-alive", b"upgrade"];
        own.iter().any(|own| option.eq_ignore_ascii_case(own))
    };
    options.filter(is_own).collect::<Vec<_>>().join(SEPARATOR)
}
