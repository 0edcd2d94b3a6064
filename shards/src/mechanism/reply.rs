//! What a member of a fan-out gives: an answer that has begun, or one that is here.

use ringway_io::net::http1::{BodyFraming, Method};
use ringway_merge::MemberFailure;

use crate::capture::Capture;
use crate::exchange::{self, Pace, Seen, Task};
use crate::fanout::{Fetched, Opened, Room, Whole};
use crate::respond::{Failure, Fault};
use crate::serve::{Client, Phase};

/// A member's answer.
pub(crate) enum Reply {
    /// Its head has come; its body is still with the origin.
    Open(Box<Opened>),
    /// All of it is here.
    Whole(Box<Whole>),
}

impl Reply {
    /// Waits for all of it, as it comes.
    pub(super) async fn keep(self, room: Room<'_>) -> Result<Whole, MemberFailure> {
        match self {
            Reply::Open(opened) => {
                let room = room.of(&opened);
                opened.keep(room).await
            }
            Reply::Whole(whole) => {
                // It is held already; what is left is to count it.
                Capture::raw(Some(whole.body.len()), room.bytes_max, room.budget)?;
                Ok(*whole)
            }
        }
    }

    /// Waits for all of it, and undoes its content coding.
    pub(super) async fn decode(
        self,
        task: &Task<'_>,
        room: Room<'_>,
    ) -> Result<Fetched, MemberFailure> {
        match self {
            Reply::Open(opened) => {
                let room = room.of(&opened);
                opened.decode(room).await
            }
            Reply::Whole(whole) => whole.decode(task.shard, room).await,
        }
    }

    /// Gives it to the client. `pace` is that of an answer that is here; one that is not has its origin's limit.
    pub(super) async fn relay(
        self,
        task: &Task<'_>,
        client: &mut Client,
        pace: &Pace<'_>,
    ) -> Result<(), Failure> {
        match self {
            Reply::Open(opened) => stream(task, client, *opened).await,
            Reply::Whole(whole) => send(task, client, *whole, pace).await,
        }
    }
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
    let framing = match whole.head.framing() {
        BodyFraming::None => BodyFraming::None,
        _ => BodyFraming::Length(whole.body.len()),
    };
    let mut out = task.shard.buffers.take();
    exchange::answer_head(
        &mut out,
        (&whole.head, &whole.head_text),
        &task.view.active.plan.server_name,
        (Seen::of(&client.head), &client.state),
        (framing, true),
    );
    let body = whole.body.into_pieces();
    send_pieces(task, client, (out, body), pace).await
}

/// Sends a head and the pieces of its body, each within the step limit of bodies.
pub(super) async fn send_pieces(
    task: &Task<'_>,
    client: &mut Client,
    (mut out, body): (Vec<u8>, Vec<Vec<u8>>),
    pace: &Pace<'_>,
) -> Result<(), Failure> {
    client.state.phase.set(Phase::Answer);
    client.state.blame.set(Fault::Client);
    let mut pieces = body.into_iter();
    if client.head.method() == Method::Head {
        pieces.by_ref().for_each(drop);
    } else if let Some(first) = pieces.next() {
        // A small document leaves with its head.
        out.extend_from_slice(&first);
        let written = first.len() + pieces.as_slice().iter().map(Vec::len).sum::<usize>();
        client.state.written.set(written as u64);
    }
    let mut next = Some(out);
    while let Some(piece) = next {
        pace.step();
        let (sent, piece) = client.conn.writer.write_all(piece).await;
        sent.map_err(|_| Failure::ClientGone)?;
        task.shard.buffers.give(piece);
        next = pieces.next();
    }
    Ok(())
}
