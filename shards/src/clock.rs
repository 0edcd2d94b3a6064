//! The time of day as answers tell it.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

use ringway_io::net::http1::write::{DateCache, HTTP_DATE_BYTES};

/// Text of a `Date` header.
pub(crate) type HttpDate = [u8; HTTP_DATE_BYTES];

/// The clock of one shard: the date is written out once a second.
#[derive(Debug, Default)]
pub(crate) struct Clock(RefCell<DateCache>);

impl Clock {
    /// The date now.
    pub(crate) fn date(&self) -> HttpDate {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        *self.0.borrow_mut().at(now.unwrap_or_default().as_secs())
    }
}
