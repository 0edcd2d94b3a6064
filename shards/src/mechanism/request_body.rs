//! A client's request body, read whole before a fan-out.

use ringway_io::net::http1::{BodyDecoder, BodyFraming, TrailerLimits, write};

use crate::capture::Segments;
use crate::exchange::{Pace, Task};
use crate::respond::{Failure, Fault};
use crate::serve::Client;

/// Least free space a read is given.
const READ_BYTES: usize = 4 * 1024;

/// How much is read.
#[derive(Clone, Copy)]
pub(crate) struct Bound {
    pub(crate) bytes_max: u64,
    /// More is cut off instead of refused.
    pub(crate) truncate: bool,
}

impl Bound {
    /// The listener's. Where it has none, what may be captured of an answer is enough for a request too.
    pub(crate) fn of(task: &Task<'_>) -> Bound {
        let listener = task.listener;
        Bound {
            bytes_max: listener
                .request_body_bytes_max
                .unwrap_or(task.backend.capture_bytes_max),
            truncate: listener.truncate_request_body,
        }
    }

    fn exceeded(self) -> Failure {
        Failure::BodyTooLarge {
            bytes_max: self.bytes_max,
        }
    }
}

/// Reads the whole request body, and lets the client begin with it where it waits for that.
pub(crate) async fn read_whole(
    client: &mut Client,
    pace: &Pace<'_>,
    bound: Bound,
) -> Result<Segments, Failure> {
    let framing = client.head.framing();
    let declared = match framing {
        BodyFraming::Length(length) if length > bound.bytes_max && !bound.truncate => {
            return Err(bound.exceeded());
        }
        BodyFraming::Length(length) => length.min(bound.bytes_max),
        _ => 0,
    };
    let mut decoder = BodyDecoder::new(framing, TrailerLimits::default());
    if client.head.expect_continue() && !decoder.is_done() && client.inbox.is_empty() {
        let go_on = write::CONTINUE.to_vec();
        let sent = client.conn.writer.write_all(go_on).await.0;
        sent.map_err(|_| Failure::ClientGone)?;
    }
    let mut body = Segments::expecting(declared);
    while !decoder.is_done() {
        if client.inbox.is_empty() {
            pace.step();
            client.state.blame.set(Fault::Client);
            let reader = &mut client.conn.reader;
            match client.inbox.fill(reader, READ_BYTES).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return Err(Failure::ClientGone),
            }
        }
        let decoded = decoder
            .decode(client.inbox.bytes())
            .map_err(Failure::Body)?;
        let left = bound.bytes_max - body.len();
        let data = match usize::try_from(left) {
            Ok(left) if left < decoded.data.len() && bound.truncate => &decoded.data[..left],
            _ => decoded.data,
        };
        if data.len() as u64 > left {
            return Err(bound.exceeded());
        }
        body.push(data);
        let consumed = decoded.consumed;
        client.inbox.consume(consumed);
        if decoder.remaining_known() > bound.bytes_max - body.len() && !bound.truncate {
            // The rest of a chunk is announced: no need to wait for it.
            return Err(bound.exceeded());
        }
    }
    client.state.body_read.set(true);
    client.state.blame.set(Fault::Upstream);
    pace.whole();
    Ok(body)
}
