//! Changes of an answer that is held in memory to go into a fan-out.

use std::borrow::Cow;

use ringway_io::net::http1::KnownHeader;

use super::Passage;
use crate::fanout::Fetched;
use crate::headers::{describes_body, is_editable_in_answer};
use crate::plan::{EditAction, LocalAnswer};
use crate::respond::{Failure, Words};

impl Passage<'_> {
    /// Makes the changes of the member's own rules, those behind the fan-out.
    pub(crate) fn amend(&self, fetched: &mut Fetched) {
        let front = self.member_front();
        fetched.status = front.status(fetched.status);
        if let Some(body) = front.body() {
            fetched.body = body.to_vec();
            fetched
                .headers
                .retain(|(name, _)| !describes_body(KnownHeader::classify(name), name));
        }
        for edit in front.headers() {
            let name = edit.name.as_bytes();
            if !is_editable_in_answer(KnownHeader::classify(name)) {
                continue;
            }
            if !matches!(edit.action, EditAction::Append(_)) {
                fetched
                    .headers
                    .retain(|(other, _)| !other.eq_ignore_ascii_case(name));
            }
            if let EditAction::Set(value) | EditAction::Append(value) = &edit.action {
                let line = (name.to_vec(), value.as_bytes().to_vec());
                fetched.headers.push(line);
            }
        }
    }

    /// A member's answer that a rule of its own gives.
    pub(crate) fn local(&self, local: &LocalAnswer) -> Fetched {
        let mut fetched = Fetched {
            status: local.status,
            headers: Vec::new(),
            body: local.body.to_vec(),
            injected_labels: self.backend().injected_labels().to_vec(),
        };
        self.amend(&mut fetched);
        fetched
    }
}

/// A member's answer to a request that its paths, authenticator or users do not take; `None` when the failure is
/// another. Where a redirect leads is nothing for an answer that is made of several.
pub(crate) fn refusal(failure: &Failure) -> Option<Fetched> {
    let line = |(name, value): (&str, Cow<'_, [u8]>)| (name.as_bytes().to_vec(), value.into());
    let extra = match failure {
        Failure::Redirect { .. } => None,
        _ => Words::of(failure).extra,
    };
    failure.is_answer().then(|| Fetched {
        status: failure.status(),
        headers: extra.map(line).into_iter().collect(),
        ..Fetched::default()
    })
}
