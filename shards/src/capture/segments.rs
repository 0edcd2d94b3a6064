//! A body of unknown size in pieces, so that it grows without ever being copied.
//!
//! A buffer that grows by doubling is copied each time: milliseconds once it is some MiB long. Pieces are at most
//! [`PIECE_BYTES_MAX`], which is also what one write sends.

/// Smallest first piece where nothing is known of the length.
const PIECE_BYTES_MIN: usize = 4 * 1024;
/// Largest piece.
const PIECE_BYTES_MAX: usize = 256 * 1024;

/// Bytes in order, in pieces.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    pieces: Vec<Vec<u8>>,
    len: u64,
    /// What was said to come in all; 0 when nothing was.
    expected: u64,
}

impl Segments {
    /// Nothing yet, of `expected` bytes in all; 0 when that is not known.
    pub(crate) fn expecting(expected: u64) -> Segments {
        Segments {
            expected,
            ..Segments::default()
        }
    }

    /// What is here in pieces already.
    pub(crate) fn of(mut pieces: Vec<Vec<u8>>) -> Segments {
        pieces.retain(|piece| !piece.is_empty());
        let len = pieces.iter().map(|piece| piece.len() as u64).sum();
        Segments {
            pieces,
            len,
            expected: len,
        }
    }

    /// Appends.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.pieces.last_mut() {
                Some(last) if last.len() < last.capacity() => {
                    let room = last.capacity() - last.len();
                    let (here, rest) = bytes.split_at(room.min(bytes.len()));
                    last.extend_from_slice(here);
                    self.len += here.len() as u64;
                    bytes = rest;
                }
                _ => {
                    let room = self.next_room(bytes.len());
                    self.pieces.push(Vec::with_capacity(room));
                }
            }
        }
    }

    /// Size of the next piece: what is known to come, else twice the last one.
    fn next_room(&self, at_least: usize) -> usize {
        let left = self.expected.saturating_sub(self.len);
        if left > 0 {
            return usize::try_from(left)
                .unwrap_or(usize::MAX)
                .min(PIECE_BYTES_MAX);
        }
        let last = self.pieces.last().map_or(0, Vec::capacity);
        at_least
            .max(last.saturating_mul(2))
            .clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX)
    }

    /// How many bytes there are.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The pieces, in order; none is empty.
    pub(crate) fn into_pieces(self) -> Vec<Vec<u8>> {
        self.pieces
    }

    /// All of it in one; copied when it is not yet.
    pub(crate) fn into_one(mut self) -> Vec<u8> {
        match self.pieces.len() {
            1 => self.pieces.remove(0),
            _ => self.pieces.concat(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_pushed_comes_out_in_order() {
        let text: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
        for expected in [0, 10, text.len() as u64] {
            let mut segments = Segments::expecting(expected);
            for part in text.chunks(70_001) {
                segments.push(part);
            }
            assert_eq!(segments.len(), text.len() as u64);
            assert!(
                segments
                    .pieces
                    .iter()
                    .all(|piece| !piece.is_empty() && piece.capacity() <= 2 * PIECE_BYTES_MAX)
            );
            assert!(segments.into_one() == text);
        }
    }

    #[test]
    fn a_known_short_body_takes_one_fitting_piece() {
        let mut segments = Segments::expecting(10);
        segments.push(b"12345");
        segments.push(b"67890");
        let pieces = segments.into_pieces();
        assert_eq!(pieces, [b"1234567890"]);
        assert!(pieces[0].capacity() < PIECE_BYTES_MIN);
    }

    #[test]
    fn nothing_is_no_piece() {
        assert!(Segments::of(vec![Vec::new()]).into_pieces().is_empty());
        assert!(Segments::default().into_one().is_empty());
    }
}
