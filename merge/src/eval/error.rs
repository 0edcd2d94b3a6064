//! Why an expression has no value.

/// An evaluation error; its text is what Prometheus says where it has one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EvalError {
    /// `execution`, HTTP status 422: the data do not allow the expression.
    #[error("{0}")]
    Execution(String),
    /// `bad_data`, HTTP status 400: the expression is wrong whatever the data.
    #[error("{0}")]
    BadData(String),
    /// A bound of this crate was met; `execution`, HTTP status 422.
    #[error("query crosses a limit: {0}")]
    Limit(&'static str),
}

impl EvalError {
    /// HTTP status and `errorType`.
    pub(crate) fn class(&self) -> (u16, &'static str) {
        match self {
            Self::Execution(_) | Self::Limit(_) => (422, "execution"),
            Self::BadData(_) => (400, "bad_data"),
        }
    }
}

/// What evaluating gives.
pub(crate) type Outcome<T> = Result<T, EvalError>;
