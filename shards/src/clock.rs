//! The time of day as answers tell it.

use std::cell::{Cell, RefCell};
use std::time::{SystemTime, UNIX_EPOCH};

use ringway_io::net::deadline::Watchdog;
use ringway_io::net::http1::write::{DateCache, HTTP_DATE_BYTES};

/// Text of a `Date` header.
pub(crate) type HttpDate = [u8; HTTP_DATE_BYTES];

/// The clock of one shard: read at most once a tick of the watchdog, and written out once a second.
#[derive(Debug)]
pub(crate) struct Clock {
    dog: Watchdog,
    cache: RefCell<DateCache>,
    seconds: Cell<u64>,
    /// The tick that `seconds` is of.
    read_ms: Cell<Option<u64>>,
}

impl Clock {
    pub(crate) fn new(dog: &Watchdog) -> Clock {
        Clock {
            dog: dog.clone(),
            cache: RefCell::default(),
            seconds: Cell::new(0),
            read_ms: Cell::new(None),
        }
    }

    /// The date as of the last tick.
    pub(crate) fn date(&self) -> HttpDate {
        let now_ms = Some(self.dog.now_ms());
        if self.read_ms.replace(now_ms) != now_ms {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            self.seconds.set(now.unwrap_or_default().as_secs());
        }
        *self.cache.borrow_mut().at(self.seconds.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_is_that_of_now_and_stays_within_a_tick() {
        let seconds = || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            now.expect("later than 1970").as_secs()
        };
        let clock = Clock::new(&Watchdog::new(std::time::Duration::from_millis(5)));
        let before = seconds();
        let date = clock.date();
        let mut near = (before..=seconds()).map(|second| *DateCache::new().at(second));
        assert!(near.any(|text| text == date));
        clock.seconds.set(0);
        assert_eq!(clock.date(), *DateCache::new().at(0), "no tick has passed");
        clock.read_ms.set(None);
        assert_ne!(clock.date(), *DateCache::new().at(0), "one has");
    }
}
