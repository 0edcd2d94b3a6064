//! The question before the first watch where a start depends on it: whether the server is there at all.
//!
//! Watches wait for a server that is away, so without it such a start could not say what is wrong. That a query may be
//! asked it does not show, as servers answer this to anybody; the first list shows that.

use std::sync::Arc;

use hyper::Request;

use super::Connection;
use super::client::{Guard, refusal};
use crate::discovery::{Failure, Next, Source};

/// A source that is asked once the server has told its version.
pub(super) struct Checked {
    connection: Connection,
    source: Box<dyn Source>,
    has_answered: bool,
}

impl Checked {
    pub(super) fn new(connection: Connection, source: Box<dyn Source>) -> Checked {
        Checked {
            connection,
            source,
            has_answered: false,
        }
    }
}

impl Source for Checked {
    fn next(&mut self) -> Next<'_> {
        Box::pin(async move {
            if !self.has_answered {
                preflight(&self.connection).await?;
                self.has_answered = true;
            }
            self.source.next().await
        })
    }
}

/// What every API server says of itself.
#[derive(serde::Deserialize)]
struct Version {
    #[serde(rename = "gitVersion")]
    _git_version: String,
}

/// Asks the server for its version, within `kubernetes.timeout`.
///
/// # Errors
/// When it does not answer as an API server does.
pub(super) async fn preflight(connection: &Connection) -> Result<(), Failure> {
    let access = &connection.0.access;
    let client = Guard::client(access, Arc::new(|| {}));
    let request = Request::get("/version")
        .body(Vec::new())
        .map_err(|error| Failure::new(format!("GET /version: {error}")))?;
    let limit = access.timeout();
    let answer = tokio::time::timeout(limit, client.request::<Version>(request)).await;
    match answer {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(Failure::new(format!("GET /version: {}", refusal(&error)))),
        Err(_) => Err(Failure::new(format!(
            "GET /version: no answer within {limit:?}"
        ))),
    }
}
