//! Message bodies: where they end, and nothing else.
//!
//! [`BodyDecoder`] is told how a body is framed and then shown bytes as they arrive. It answers
//! with the slice of them that is content, so that a relay passes content on without copying it.
//! Only trailers are kept, for they are judged whole.
//!
//! Promises: the same content, end and error wherever the input is cut. Chunk extensions are
//! dropped. Bare LF, spaces around a chunk size and trailers that would change framing, routing or identity are
//! refused. Bounds: 16 digits for a chunk size, [`TrailerLimits`] for trailers.

#[cfg(test)]
mod tests;
mod trailers;

pub use trailers::{TRAILER_BYTES_MAX_DEFAULT, TRAILERS_MAX, TrailerLimits, Trailers};

use super::head::BodyFraming;
use trailers::TrailerReader;

/// Hexadecimal digits a chunk size may have: with these it cannot overflow 64 bits.
const CHUNK_SIZE_DIGITS_MAX: u8 = 16;

/// Bytes that all chunk extensions of one body may have together. They are read and dropped, as RFC 9112 section
/// 7.1.1 asks, but a body of one-byte chunks must not carry any amount of them.
const CHUNK_EXTENSION_BYTES_MAX: u32 = 4096;

/// Why a body was refused. The connection it came on is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// A chunk size that is empty or holds something other than hexadecimal digits.
    #[error("invalid byte {byte:#04x} in chunk size")]
    InvalidChunkSize {
        /// The byte.
        byte: u8,
    },
    /// A chunk size with too many digits.
    #[error("chunk size has more than {digits_max} digits")]
    ChunkSizeTooLong {
        /// The bound.
        digits_max: u8,
    },
    /// A chunk size that no content length could have.
    #[error("chunk size is beyond 2^63")]
    ChunkSizeTooLarge,
    /// A chunk extension with a control byte in it.
    #[error("invalid byte {byte:#04x} in chunk extension")]
    InvalidChunkExtension {
        /// The byte.
        byte: u8,
    },
    /// The chunk extensions of one body together reach beyond their bound.
    #[error("chunk extensions are longer than {bytes_max} bytes")]
    ChunkExtensionsTooLong {
        /// The bound.
        bytes_max: u32,
    },
    /// CR without LF behind it, or LF without CR in front of it, in what frames chunks.
    #[error("chunk line does not end with CR LF")]
    InvalidLineEnd,
    /// A chunk is longer than its size says.
    #[error("chunk is not followed by CR LF")]
    MissingChunkEnd,
    /// Trailers reach beyond their bound.
    #[error("trailers are longer than {bytes_max} bytes")]
    TrailersTooLarge {
        /// The bound.
        bytes_max: usize,
    },
    /// More trailers than allowed.
    #[error("more than {fields_max} trailers")]
    TooManyTrailers {
        /// The bound.
        fields_max: usize,
    },
    /// A trailer that is not a header line.
    #[error("malformed trailer")]
    InvalidTrailer,
    /// A trailer that would change framing, routing or identity after the fact.
    #[error("trailer of a kind that is not allowed in trailers")]
    ForbiddenTrailer,
    /// The connection ended before the body did.
    #[error("connection closed in the middle of a body")]
    Truncated,
}

/// What one call of [`BodyDecoder::decode`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoded<'i> {
    /// Bytes of the input that belong to the body. What follows them is shown again.
    pub consumed: usize,
    /// The content among them; may be empty.
    pub data: &'i [u8],
    /// The body has ended.
    pub done: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// So many bytes of a body of known length are to come.
    Length(u64),
    UntilClose,
    /// In the digits of a chunk size.
    ChunkSize {
        size: u64,
        digits: u8,
    },
    /// In an extension behind a chunk size.
    ChunkExtension {
        size: u64,
    },
    /// Behind the CR of a chunk size.
    ChunkSizeEnd {
        size: u64,
    },
    /// So many bytes of the chunk are to come.
    ChunkData(u64),
    /// Behind a chunk's data.
    ChunkEnd,
    /// Behind the CR that follows a chunk's data.
    ChunkEndLf,
    /// Behind the last chunk.
    Trailers,
    Done,
}

/// Finds content and end of one body.
#[derive(Debug)]
pub struct BodyDecoder {
    state: State,
    extension_bytes: u32,
    trailers: TrailerReader,
}

impl BodyDecoder {
    /// A decoder for a body framed like this.
    pub fn new(framing: BodyFraming, limits: TrailerLimits) -> BodyDecoder {
        let mut decoder = BodyDecoder {
            state: State::Done,
            extension_bytes: 0,
            trailers: TrailerReader::new(limits),
        };
        decoder.reset(framing);
        decoder
    }

    /// Makes ready for the next body.
    pub fn reset(&mut self, framing: BodyFraming) {
        self.trailers.clear();
        self.extension_bytes = 0;
        self.state = match framing {
            BodyFraming::None | BodyFraming::Length(0) => State::Done,
            BodyFraming::Length(length) => State::Length(length),
            BodyFraming::Chunked => State::ChunkSize { size: 0, digits: 0 },
            BodyFraming::UntilClose => State::UntilClose,
        };
    }

    /// Whether the body has ended.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Content bytes that are certainly still to come: of the body when its length is known, of
    /// the current chunk otherwise.
    pub fn remaining_known(&self) -> u64 {
        match self.state {
            State::Length(left) | State::ChunkData(left) => left,
            _ => 0,
        }
    }

    /// The trailers, once the body is done; empty when there are none.
    pub fn trailers(&self) -> Trailers<'_> {
        debug_assert!(
            self.is_done(),
            "trailers are complete only when the body is"
        );
        self.trailers.fields()
    }

    /// Takes the next bytes of the body. Consumes at least one of a non-empty input unless the
    /// body is done; stops behind the first run of content, so a caller goes on with the rest of
    /// its input until that is used up or `done` is true.
    pub fn decode<'i>(&mut self, input: &'i [u8]) -> Result<Decoded<'i>, BodyError> {
        let mut consumed = 0;
        let mut data: &[u8] = &[];
        while consumed < input.len() && self.state != State::Done {
            let rest = &input[consumed..];
            match self.state {
                State::UntilClose => {
                    data = rest;
                    consumed = input.len();
                }
                State::Length(left) | State::ChunkData(left) => {
                    if !data.is_empty() {
                        break;
                    }
                    // A count beyond what memory can hold is cut to what is here.
                    let take = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                    data = &rest[..take];
                    consumed += take;
                    self.take_content(left - take as u64);
                }
                State::Trailers => {
                    let (used, ended) = self.trailers.read(rest)?;
                    consumed += used;
                    if ended {
                        self.state = State::Done;
                    }
                }
                _ => {
                    if matches!(self.state, State::ChunkExtension { .. }) {
                        self.count_extension_byte()?;
                    }
                    self.state = step_chunk_framing(self.state, rest[0])?;
                    consumed += 1;
                }
            }
        }
        Ok(Decoded {
            consumed,
            data,
            done: self.state == State::Done,
        })
    }

    /// Says that the connection has ended. Fine for a body that ends with it, or has ended.
    pub fn end_of_input(&mut self) -> Result<(), BodyError> {
        match self.state {
            State::Done => Ok(()),
            State::UntilClose => {
                self.state = State::Done;
                Ok(())
            }
            _ => Err(BodyError::Truncated),
        }
    }

    fn count_extension_byte(&mut self) -> Result<(), BodyError> {
        self.extension_bytes += 1;
        if self.extension_bytes > CHUNK_EXTENSION_BYTES_MAX {
            let bytes_max = CHUNK_EXTENSION_BYTES_MAX;
            return Err(BodyError::ChunkExtensionsTooLong { bytes_max });
        }
        Ok(())
    }

    fn take_content(&mut self, left: u64) {
        self.state = match self.state {
            State::Length(_) if left == 0 => State::Done,
            State::Length(_) => State::Length(left),
            _ if left == 0 => State::ChunkEnd,
            _ => State::ChunkData(left),
        };
    }
}

/// Takes one byte of what surrounds chunks.
fn step_chunk_framing(state: State, byte: u8) -> Result<State, BodyError> {
    match state {
        State::ChunkSize { size, digits } => match (byte, hex_digit(byte)) {
            (_, Some(_)) if digits == CHUNK_SIZE_DIGITS_MAX => Err(BodyError::ChunkSizeTooLong {
                digits_max: CHUNK_SIZE_DIGITS_MAX,
            }),
            (_, Some(digit)) => Ok(State::ChunkSize {
                size: size << 4 | digit,
                digits: digits + 1,
            }),
            (b'\r', _) if digits > 0 => Ok(State::ChunkSizeEnd { size }),
            (b'\n', _) if digits > 0 => Err(BodyError::InvalidLineEnd),
            (b';', _) if digits > 0 => Ok(State::ChunkExtension { size }),
            _ => Err(BodyError::InvalidChunkSize { byte }),
        },
        State::ChunkExtension { size } => match byte {
            b'\r' => Ok(State::ChunkSizeEnd { size }),
            b'\n' => Err(BodyError::InvalidLineEnd),
            b'\t' | 0x20..=0x7e | 0x80.. => Ok(State::ChunkExtension { size }),
            _ => Err(BodyError::InvalidChunkExtension { byte }),
        },
        State::ChunkSizeEnd { .. } if byte != b'\n' => Err(BodyError::InvalidLineEnd),
        State::ChunkSizeEnd { size } if size > i64::MAX as u64 => Err(BodyError::ChunkSizeTooLarge),
        State::ChunkSizeEnd { size: 0 } => Ok(State::Trailers),
        State::ChunkSizeEnd { size } => Ok(State::ChunkData(size)),
        State::ChunkEnd if byte == b'\r' => Ok(State::ChunkEndLf),
        State::ChunkEndLf if byte == b'\n' => Ok(State::ChunkSize { size: 0, digits: 0 }),
        State::ChunkEnd | State::ChunkEndLf => Err(BodyError::MissingChunkEnd),
        State::Length(_)
        | State::UntilClose
        | State::ChunkData(_)
        | State::Trailers
        | State::Done => unreachable!("only states between chunks come here"),
    }
}

fn hex_digit(byte: u8) -> Option<u64> {
    match byte {
        b'0'..=b'9' => Some(u64::from(byte - b'0')),
        b'a'..=b'f' => Some(u64::from(byte - b'a') + 10),
        b'A'..=b'F' => Some(u64::from(byte - b'A') + 10),
        _ => None,
    }
}
