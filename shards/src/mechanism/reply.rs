//! What a member of a fan-out gives: an answer that has begun, or one that is here.

use std::borrow::Cow;
use std::time::Duration;

use ringway_io::net::http1::{BodyFraming, KnownHeader, Method, Version, write};
use ringway_merge::MemberFailure;

use crate::capture::{Capture, Segments};
use crate::exchange::{self, Pace, Task};
use crate::fanout::{Fetched, Opened, Room, Whole};
use crate::passage::Passage;
use crate::plan::LocalAnswer;
use crate::reply as answer;
use crate::respond::{Failure, Fault, Words};
use crate::serve::Client;

/// A member's answer, and how the request came to who gave it.
pub(crate) struct Reply<'v> {
    pub(super) come: Come,
    pub(super) passage: Passage<'v>,
    /// A member's paths, authenticator or users did not take the request, and nobody was asked.
    pub(super) refused: bool,
}

/// As far as an answer has come.
pub(crate) enum Come {
    /// Its head is here; its body is still with the origin.
    Open(Box<Opened>),
    /// All of it is here.
    Whole(Box<Whole>),
}

/// An answer that is held to be chosen.
pub(super) struct Kept<'v> {
    /// Its status, with the changes of the member's own rules.
    pub(super) status: u16,
    pub(super) whole: Box<Whole>,
    passage: Passage<'v>,
    refused: bool,
}

impl<'v> From<Kept<'v>> for Reply<'v> {
    fn from(kept: Kept<'v>) -> Reply<'v> {
        Reply {
            come: Come::Whole(kept.whole),
            passage: kept.passage,
            refused: kept.refused,
        }
    }
}

impl<'v> Reply<'v> {
    /// What a rule has for its path.
    pub(super) fn local(
        local: &LocalAnswer,
        method: Method,
        passage: Passage<'v>,
    ) -> Result<Reply<'v>, MemberFailure> {
        let words = Words {
            content_type: (!local.body.is_empty()).then_some("text/plain; charset=utf-8"),
            extra: None,
            body: Cow::Borrowed(&[]),
        };
        let come = made((local.status, words), local.body.to_vec(), method)?;
        Ok(Reply {
            come,
            passage,
            refused: false,
        })
    }

    /// What a member's paths, authenticator or users say to a request that they do not take.
    pub(super) fn refusal(
        failure: &Failure,
        method: Method,
        passage: Passage<'v>,
    ) -> Result<Reply<'v>, MemberFailure> {
        let mut words = Words::of(failure);
        let body = std::mem::take(&mut words.body).into_owned();
        Ok(Reply {
            come: made((failure.status(), words), body, method)?,
            passage,
            // Being sent elsewhere is what the rule has to say, as a path's own answer is.
            refused: !matches!(failure, Failure::Redirect { .. }),
        })
    }

    /// Gives what is still to come of it so long at most.
    pub(super) fn end_within(mut self, left: Duration) -> Reply<'v> {
        if let Come::Open(opened) = &mut self.come {
            opened.end_within(left);
        }
        self
    }

    /// Waits for all of it, as it comes. `outer` is how the request came to the fan-out.
    pub(super) async fn keep(
        self,
        room: Room<'_>,
        outer: &Passage<'_>,
    ) -> Result<Kept<'v>, MemberFailure> {
        let whole = match self.come {
            Come::Open(opened) => {
                let room = room.of(&opened);
                Box::new(opened.keep(room).await?)
            }
            Come::Whole(whole) => {
                // It is held already; what is left is to count it.
                Capture::raw(Some(whole.body.len()), room.bytes_max, room.budget)?;
                whole
            }
        };
        let passage = self.passage.behind(outer);
        Ok(Kept {
            status: passage.member_front().status(whole.head.status()),
            whole,
            passage,
            refused: self.refused,
        })
    }

    /// Waits for all of it, undoes its content coding, and makes the changes of the member's own rules. `outer` is
    /// how the request came to the fan-out.
    pub(super) async fn decode(
        self,
        task: &Task<'_>,
        room: Room<'_>,
        outer: &Passage<'_>,
    ) -> Result<Fetched, MemberFailure> {
        let mut fetched = match self.come {
            Come::Open(opened) => {
                let room = room.of(&opened);
                opened.decode(room).await?
            }
            Come::Whole(whole) => whole.decode(task.shard, room).await?,
        };
        fetched.injected_labels = self.passage.backend().injected_labels().to_vec();
        self.passage.behind(outer).amend(&mut fetched);
        Ok(fetched)
    }

    /// Gives it to the client. `pace` is that of an answer that is here; one that is not has its origin's limit.
    pub(super) async fn relay(
        self,
        task: &Task<'_>,
        client: &mut Client,
        pace: &Pace<'_>,
    ) -> Result<(), Failure> {
        let task = Task {
            passage: &self.passage,
            ..*task
        };
        match self.come {
            Come::Open(opened) => stream(&task, client, *opened).await,
            Come::Whole(whole) => send(&task, client, *whole, pace).await,
        }
    }
}

/// An answer of this status made here.
fn made(
    (status, words): (u16, Words),
    body: Vec<u8>,
    method: Method,
) -> Result<Come, MemberFailure> {
    let mut text = Vec::with_capacity(256);
    write::status_line(&mut text, status);
    if let Some(content_type) = words.content_type {
        write::header(&mut text, b"Content-Type", content_type.as_bytes());
    }
    if let Some((name, value)) = &words.extra {
        write::header(&mut text, name.as_bytes(), value);
    }
    write::content_length(&mut text, body.len() as u64);
    write::end_of_head(&mut text);
    let body = Segments::of(vec![body]);
    let whole = Whole::made(text, body, method).ok_or(MemberFailure::Internal)?;
    Ok(Come::Whole(Box::new(whole)))
}

impl Room<'_> {
    /// The room for this answer: its member has a bound of its own.
    fn of(self, opened: &Opened) -> Self {
        let backend = opened.view.active.plan.backend(opened.backend);
        Room {
            bytes_max: self.bytes_max.min(backend.capture_bytes_max),
            ..self
        }
    }
}

/// Relays an answer from its origin's connection, a buffer at a time.
async fn stream(task: &Task<'_>, client: &mut Client, mut opened: Opened) -> Result<(), Failure> {
    let watch = client.watch.clone();
    let pace = Pace::new(&watch, opened.left(), task.listener.body_progress_timeout);
    pace.whole();
    let relayed = exchange::relay(task, client, &pace, &mut opened).await;
    match &relayed {
        Ok(_) => opened.ended(None),
        Err(failure) if failure.fault() == Fault::Upstream => {
            opened.ended(Some(&MemberFailure::Short));
        }
        Err(_) => {}
    }
    opened.give_back(relayed?);
    Ok(())
}

/// Sends an answer that is here.
async fn send(
    task: &Task<'_>,
    client: &mut Client,
    whole: Whole,
    pace: &Pace<'_>,
) -> Result<(), Failure> {
    client.watch.watch_peer(false);
    let (head, bytes) = (&whole.head, whole.head_text.as_slice());
    let mut headers: Vec<(Vec<u8>, Vec<u8>)> = head
        .headers(bytes)
        .filter(|header| !header.hop_by_hop && header.known != KnownHeader::ContentLength)
        .map(|header| (header.name.to_vec(), header.value.to_vec()))
        .collect();
    let version = match head.version() {
        Version::Http10 => "1.0",
        Version::Http11 => "1.1",
    };
    let via = format!("{version} {}", task.view.active.plan.server_name);
    headers.push((b"Via".to_vec(), via.into_bytes()));
    if head.find(bytes, b"X-Trickster-Result").is_none() {
        let status = crate::metrics::cache_status(head.status());
        let result = format!("engine=HTTPProxy; status={status}");
        headers.push((b"X-Trickster-Result".to_vec(), result.into_bytes()));
    }
    let has_no_body = head.framing() == BodyFraming::None;
    let answer = answer::Whole {
        status: head.status(),
        reason: Some(head.reason(bytes).to_vec()),
        headers,
        length: match has_no_body {
            true => answer::Length::Declared(head.content_length()),
            false => answer::Length::OfBody,
        },
        body: whole.body.into_pieces(),
    };
    answer::whole(task, client, pace, answer).await
}
