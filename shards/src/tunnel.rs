//! A connection that has left HTTP: bytes both ways until both ends have said their last.
//!
//! A half-close passes on as a half-close. Bounds: one buffer each way, and the listener's idle timeout since
//! the last byte in either direction.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use ringway_io::buffer::Inbox;
use ringway_io::net::deadline::Watch;
use ringway_io::net::stream::{Reader, Writer};

use crate::peers::Peer;
use crate::serve::Client;

/// Free space a read is given.
const READ_BYTES: usize = 16 * 1024;

/// Runs the tunnel to its end.
pub(crate) async fn run(client: &mut Client, mut peer: Box<Peer>, idle: Duration) {
    let watch = client.watch.clone();
    watch.arm(idle);
    let Client { conn, inbox, .. } = client;
    let up = one_way(
        inbox,
        &mut conn.reader,
        &mut peer.conn.writer,
        (&watch, idle),
    );
    let down = one_way(
        &mut peer.inbox,
        &mut peer.conn.reader,
        &mut conn.writer,
        (&watch, idle),
    );
    let (mut up, mut down) = (pin!(up), pin!(down));
    let (mut up_ended, mut down_ended) = (None, None);
    poll_fn(|cx| {
        if up_ended.is_none()
            && let Poll::Ready(clean) = up.as_mut().poll(cx)
        {
            up_ended = Some(clean);
        }
        if down_ended.is_none()
            && let Poll::Ready(clean) = down.as_mut().poll(cx)
        {
            down_ended = Some(clean);
        }
        let broken = up_ended == Some(false) || down_ended == Some(false);
        if broken || (up_ended.is_some() && down_ended.is_some()) {
            return Poll::Ready(());
        }
        Poll::Pending
    })
    .await;
}

/// Moves one direction to its end; false when it broke instead.
async fn one_way(
    inbox: &mut Inbox,
    reader: &mut Reader,
    writer: &mut Writer,
    (watch, idle): (&Watch, Duration),
) -> bool {
    loop {
        if !inbox.is_empty() {
            let (bytes, range) = inbox.take();
            let end = range.end;
            let (sent, bytes) = writer.write_range(bytes, range).await;
            inbox.put_back(bytes, end);
            if sent.is_err() {
                return false;
            }
        }
        match inbox.fill(reader, READ_BYTES).await {
            Ok(0) => return writer.shutdown().await.is_ok(),
            Ok(_) => watch.arm(idle),
            Err(_) => return false,
        }
    }
}
