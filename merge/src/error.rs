//! Why a member's answer could not be used.
//!
//! Owned by this crate; made by callers (transport failures) and by the reader (bad bodies).
//! Texts appear in logs and in the `warnings` of partial answers, so none holds body bytes.

/// Why a slot contributes nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemberFailure {
    /// No connection, or it broke before the answer was complete.
    #[error("unreachable")]
    Unreachable,
    /// A deadline passed.
    #[error("timed out")]
    TimedOut,
    /// The body is longer than the capture cap.
    #[error("answer longer than the capture limit")]
    Truncated,
    /// The aggregate capture budget had no room for this slot.
    #[error("no room in the fan-out's capture budget")]
    AggregateCap,
    /// The body ended before its announced length.
    #[error("answer ended early")]
    Short,
    /// The `Content-Encoding` is unknown, or the body does not decode.
    #[error("answer cannot be decoded")]
    Encoding,
    /// The task of this member ended abnormally.
    #[error("internal failure")]
    Internal,
    /// The member answered with a status that is not 2xx and without a Prometheus error envelope.
    #[error("HTTP status {status}")]
    Status {
        /// The HTTP status code.
        status: u16,
    },
    /// The member answered with a Prometheus error envelope.
    #[error("{kind}: {message}")]
    Api {
        /// The HTTP status code.
        status: u16,
        /// `errorType` of the envelope.
        kind: String,
        /// `error` of the envelope.
        message: String,
    },
    /// The body is not a Prometheus API answer.
    #[error("malformed answer at byte {at}: {problem}")]
    Malformed {
        /// Offset in the decoded body.
        at: usize,
        /// What was expected or found.
        problem: &'static str,
    },
    /// The answer crosses one of [`crate::limits`].
    #[error("answer crosses a limit: {limit}")]
    Limit {
        /// Which limit.
        limit: &'static str,
    },
}

impl MemberFailure {
    /// Returns the HTTP status that the member answered with, where it answered.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status } | Self::Api { status, .. } => Some(*status),
            _ => None,
        }
    }
}
