//! An origin's body on its way to a client that gets it compressed.

use ringway_io::net::http1::{BodyDecoder, TrailerLimits, Version, write};

use super::End;
use super::download::Download;
use crate::compress::{COMPRESS_STEP_BYTES, Compressor};
use crate::headers;
use crate::limits::RELAY_BYTES;
use crate::respond::Failure;
use crate::serve::Phase;

impl Download<'_, '_> {
    /// Relays the body. Whenever no more of it is here, what was compressed so far goes out.
    pub(super) async fn relay_compressed(
        &mut self,
        mut compressor: Box<Compressor>,
    ) -> Result<End, Failure> {
        let is_chunked = self.seen.version == Version::Http11;
        if !is_chunked {
            self.state.keep.set(false);
        }
        let mut decoder = BodyDecoder::new(self.head.framing(), TrailerLimits::default());
        let mut has_closed = false;
        loop {
            self.compress_here(&mut decoder, &mut compressor).await?;
            if decoder.is_done() || has_closed {
                break;
            }
            compressor.flush().map_err(|_| Failure::Internal)?;
            self.push_piece(&compressor.take(), is_chunked);
            self.state.phase.set(Phase::Answer);
            if !self.out.is_empty() {
                self.flush().await?;
            }
            self.pace.whole();
            match self.inbox.fill(self.reader, RELAY_BYTES / 2).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => {
                    decoder.end_of_input().map_err(Failure::AnswerBody)?;
                    has_closed = true;
                }
            }
        }
        let rest = compressor.finish().map_err(|_| Failure::Internal)?;
        self.push_piece(&rest, is_chunked);
        if is_chunked {
            headers::last_chunk(&mut self.out, decoder.trailers(), |_| false);
        }
        self.state.phase.set(Phase::Answer);
        if !self.out.is_empty() {
            self.flush().await?;
        }
        let is_clean = !has_closed && self.head.keep_alive();
        Ok(if is_clean { End::Clean } else { End::Spent })
    }

    /// Compresses what has been received of the body, with a turn for everybody else between two steps.
    async fn compress_here(
        &mut self,
        decoder: &mut BodyDecoder,
        compressor: &mut Compressor,
    ) -> Result<(), Failure> {
        while !self.inbox.is_empty() && !decoder.is_done() {
            let decoded = decoder
                .decode(self.inbox.bytes())
                .map_err(Failure::AnswerBody)?;
            for (index, step) in decoded.data.chunks(COMPRESS_STEP_BYTES).enumerate() {
                if index > 0 {
                    self.shard.turns.yield_now().await;
                }
                compressor.push(step).map_err(|_| Failure::Internal)?;
            }
            let consumed = decoded.consumed;
            self.inbox.consume(consumed);
        }
        Ok(())
    }

    fn push_piece(&mut self, piece: &[u8], is_chunked: bool) {
        if piece.is_empty() {
            return;
        }
        let written = &self.state.written;
        written.set(written.get() + piece.len() as u64);
        if is_chunked {
            write::chunk_header(&mut self.out, piece.len() as u64);
        }
        self.out.extend_from_slice(piece);
        if is_chunked {
            self.out.extend_from_slice(write::CHUNK_END);
        }
    }
}
