//! A form whose parameters rules change on the way to one member: read whole, then sent from memory like any body.
//!
//! Each member that is tried gets it with the changes of its own rules. Bounds: the listener's for request bodies,
//! or, where it has none, what may be captured of an answer.

use std::rc::Rc;

use ringway_io::net::http1::BodyFraming;
use ringway_io::net::stream::Writer;

use super::tries::Tries;
use super::upload::{Flow, Upload};
use super::{Pace, Task};
use crate::mechanism::request_body::{Bound, read_whole};
use crate::passage::{Passage, form};
use crate::respond::{Failure, Fault};
use crate::serve::{Client, State};
use crate::shard::Shard;

/// A form, here as a whole.
pub(super) struct Form {
    /// As the client sent it.
    raw: Vec<Vec<u8>>,
    /// As the member that is asked gets it.
    pieces: Vec<Rc<Vec<u8>>>,
    /// The first of them that was not sent.
    next: usize,
}

/// Whether the rules on this way change the parameters of the form that the client sends.
pub(super) fn is_changed(passage: &Passage<'_>, client: &Client) -> bool {
    !passage.is_plain()
        && passage.form_params(0).next().is_some()
        && form::has_form((&client.head, &client.head_text))
}

/// Reads the client's form.
pub(super) async fn read(
    task: &Task<'_>,
    client: &mut Client,
    tries: &Tries<'_>,
) -> Result<Upload, Failure> {
    let watch = client.watch.clone();
    let pace = Pace::until(&watch, tries.last_at(), task.listener.body_progress_timeout);
    pace.whole();
    let raw = read_whole(client, &pace, Bound::of(task))
        .await?
        .into_pieces();
    Ok(Upload::of_form(client, Form::of(raw)))
}

impl Form {
    /// As the client sent it.
    pub(super) fn of(raw: Vec<Vec<u8>>) -> Form {
        Form {
            raw,
            pieces: Vec::new(),
            next: 0,
        }
    }

    /// Makes the changes that the rules on this way want; returns the framing.
    pub(super) async fn edit(&mut self, passage: &Passage<'_>, shard: &Shard) -> BodyFraming {
        let edited = form::edit(&self.raw, passage.form_params(0), &shard.turns).await;
        let length = edited.len();
        self.pieces = edited.into_pieces().into_iter().map(Rc::new).collect();
        self.next = 0;
        BodyFraming::Length(length)
    }

    /// Begins anew; whether there is nothing to send.
    pub(super) fn rewind(&mut self) -> bool {
        self.next = 0;
        self.pieces.is_empty()
    }

    /// Sends what was not sent; true when that was all.
    pub(super) async fn send(
        &mut self,
        writer: &mut Writer,
        (state, pace, tries): (&State, &Pace<'_>, &Tries<'_>),
    ) -> bool {
        while let Some(piece) = self.pieces.get(self.next) {
            pace.step();
            state.blame.set(Fault::Upstream);
            tries.progress();
            if writer.write_shared(piece.clone()).await.is_err() {
                // The origin stopped reading. Its answer, if it sent one, says why.
                return false;
            }
            tries.progress();
            self.next += 1;
        }
        pace.whole();
        true
    }
}

impl Upload {
    /// Makes the changes of this way where it is a form that is here.
    pub(super) async fn edit(&mut self, passage: &Passage<'_>, shard: &Shard) {
        if let Some(form) = &mut self.source.form {
            self.source.framing = form.edit(passage, shard).await;
            let length = match self.source.framing {
                BodyFraming::Length(length) => usize::try_from(length).unwrap_or(usize::MAX),
                _ => 0,
            };
            self.flow.keep(length);
        }
    }
}

impl Flow {
    /// Of a form of so many bytes, which is sent from where it is kept.
    fn keep(&self, length: usize) {
        self.kept.set(length);
        self.done.set(length == 0);
    }
}
