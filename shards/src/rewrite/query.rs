//! Instructions about the query, which is edited in place: pairs that no instruction is about stay byte for byte
//! where they are.

use std::borrow::Cow;

use super::path::encode;
use super::text::replaced;
use super::{Dropped, Request, is_clean};
use crate::limits::REWRITTEN_BYTES_MAX;

/// Pairs that instructions are about are decoded.
fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return Cow::Borrowed(text);
    }
    let spaced: Vec<u8> = text
        .iter()
        .map(|byte| if *byte == b'+' { b' ' } else { *byte })
        .collect();
    Cow::Owned(super::decoded(&spaced).into_owned())
}

/// Name and value as they are sent.
fn parts(pair: &[u8]) -> (&[u8], &[u8]) {
    match pair.iter().position(|byte| *byte == b'=') {
        Some(at) => (&pair[..at], &pair[at + 1..]),
        None => (pair, b""),
    }
}

fn pairs(query: &[u8]) -> impl Iterator<Item = &[u8]> {
    let pairs = query.split(|&byte| byte == b'&');
    pairs.filter(|pair| !pair.is_empty())
}

fn is_named(pair: &[u8], name: &[u8]) -> bool {
    *decoded(parts(pair).0) == *name
}

/// The first value of a parameter, decoded.
pub(crate) fn first<'q>(query: &'q [u8], name: &[u8]) -> Option<Cow<'q, [u8]>> {
    let pair = pairs(query).find(|pair| is_named(pair, name))?;
    Some(decoded(parts(pair).1))
}

fn push(out: &mut Vec<u8>, pair: &[u8]) {
    if !out.is_empty() {
        out.push(b'&');
    }
    out.extend_from_slice(pair);
}

/// A pair as it is sent.
fn pair_of(name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len() + value.len() + 1);
    for piece in form_urlencoded::byte_serialize(name) {
        out.extend_from_slice(piece.as_bytes());
    }
    out.push(b'=');
    for piece in form_urlencoded::byte_serialize(value) {
        out.extend_from_slice(piece.as_bytes());
    }
    out
}

impl Request<'_> {
    fn has_param(&self, name: &[u8]) -> bool {
        pairs(self.query().unwrap_or_default()).any(|pair| is_named(pair, name))
    }

    /// Makes a new query where `change` says that something stands in place of a pair that has the name. All else stays
    /// byte for byte.
    fn edit_params(
        &mut self,
        name: &[u8],
        mut change: impl FnMut(&[u8]) -> Result<Kept, Dropped>,
    ) -> Result<(), Dropped> {
        let query = self.query().unwrap_or_default();
        let mut pieces: Vec<Cow<'_, [u8]>> = Vec::new();
        let mut has_changed = false;
        for pair in query.split(|&byte| byte == b'&') {
            if pair.is_empty() || !is_named(pair, name) {
                pieces.push(pair.into());
                continue;
            }
            match change(&decoded(parts(pair).1))? {
                Kept::AsItIs => pieces.push(pair.into()),
                Kept::As(value) => {
                    pieces.push(pair_of(name, &value).into());
                    has_changed = true;
                }
                Kept::Not => has_changed = true,
            }
        }
        match has_changed {
            true => {
                let query = pieces.join(&b'&');
                self.put_query(query)
            }
            false => Ok(()),
        }
    }

    pub(super) fn set_param(&mut self, name: &[u8], value: &[u8]) -> Result<(), Dropped> {
        if !is_clean(value) {
            return Err(Dropped);
        }
        if !self.has_param(name) {
            return self.add_param(name, value);
        }
        let mut is_first = true;
        self.edit_params(name, |_| {
            Ok(match std::mem::replace(&mut is_first, false) {
                true => Kept::As(value.to_vec()),
                false => Kept::Not,
            })
        })
    }

    pub(super) fn append_param(&mut self, name: &[u8], value: &[u8]) -> Result<(), Dropped> {
        let is_it = |pair: &[u8]| is_named(pair, name) && *decoded(parts(pair).1) == *value;
        let is_there = pairs(self.query().unwrap_or_default()).any(is_it);
        if is_there {
            return Ok(());
        }
        self.add_param(name, value)
    }

    fn add_param(&mut self, name: &[u8], value: &[u8]) -> Result<(), Dropped> {
        if !is_clean(value) {
            return Err(Dropped);
        }
        let mut query = self.query().unwrap_or_default().to_vec();
        push(&mut query, &pair_of(name, value));
        self.put_query(query)
    }

    pub(super) fn replace_in_param(
        &mut self,
        name: &[u8],
        change: (&[u8], &[u8]),
    ) -> Result<(), Dropped> {
        if !is_clean(change.1) {
            return Err(Dropped);
        }
        if !self.has_param(name) {
            return Ok(());
        }
        self.edit_params(name, |value| {
            Ok(match replaced(value, change, None)? {
                Some(value) => Kept::As(value),
                None => Kept::AsItIs,
            })
        })
    }

    pub(super) fn delete_param(
        &mut self,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Dropped> {
        if !self.has_param(name) {
            return Ok(());
        }
        let mut is_done = false;
        self.edit_params(name, |found| {
            let is_it = value.is_none_or(|value| !is_done && value == found);
            is_done |= is_it;
            Ok(if is_it { Kept::Not } else { Kept::AsItIs })
        })
    }

    pub(super) fn set_query(&mut self, query: &[u8]) -> Result<(), Dropped> {
        if !is_clean(query) {
            return Err(Dropped);
        }
        let query = query.strip_prefix(b"?").unwrap_or(query);
        self.put_query(sendable(query))
    }

    pub(super) fn replace_in_query(
        &mut self,
        change: (&[u8], &[u8]),
        count: Option<u32>,
    ) -> Result<(), Dropped> {
        if !is_clean(change.1) {
            return Err(Dropped);
        }
        match replaced(self.query().unwrap_or_default(), change, count)? {
            Some(query) => self.put_query(sendable(&query)),
            None => Ok(()),
        }
    }

    fn put_query(&mut self, query: Vec<u8>) -> Result<(), Dropped> {
        if query.len() > REWRITTEN_BYTES_MAX {
            return Err(Dropped);
        }
        if self.query().unwrap_or_default() != query {
            self.changes().query = Some(query);
        }
        Ok(())
    }
}

/// What becomes of a pair.
enum Kept {
    AsItIs,
    As(Vec<u8>),
    Not,
}

/// A query that is encoded already, with what may not be sent encoded too.
fn sendable(query: &[u8]) -> Vec<u8> {
    encode(query, |byte| byte.is_ascii_graphic() && byte != b'#')
}
