//! HTTP/1 as bytes: heads, bodies, and the text ringway writes.
//!
//! Owns no socket, no buffer and no clock: every entry point is a synchronous function over byte
//! slices, so that a connection task decides when to read and how long to wait. Called by the
//! data plane for both of its sides, clients ([`RequestHead`]) and origins ([`ResponseHead`]).
//!
//! Promises: what the grammar does not allow is refused, never repaired, because a proxy that
//! reads a message differently from its neighbour lets one exchange leak into another. Reading a
//! head that arrives in many pieces is linear in its length. Nothing allocates once the reused
//! tables have grown to their connection's needs.
//!
//! Bounds: [`HeadLimits`] for heads, [`TrailerLimits`] for trailers, 16 digits for a chunk size.

pub mod body;
pub mod head;
pub mod write;

pub use body::{BodyDecoder, BodyError, Decoded, TrailerLimits, Trailers};
pub use head::{
    BodyFraming, HeadError, HeadLimits, Header, Headers, KnownHeader, Method, Parsed, RequestHead,
    ResponseHead, TargetForm, Version, is_valid_authority,
};
