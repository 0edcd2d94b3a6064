//! `nlm`: of all answers, the one modified last.
//!
//! Only answers of the best status class that came are compared: 2xx before 3xx before 4xx before 5xx before
//! anything else. Among them one with a valid `Last-Modified` goes before those without, a newer one before an
//! older, and equal ones go by pool order. Contract: ALB page, 6.4; decisions, 12.

use std::cmp::Reverse;
use std::time::SystemTime;

use ringway_io::net::http1::KnownHeader;

use super::reply::{Kept, Reply};
use super::round::Round;
use crate::respond::Failure;

/// Waits for all, or for the ALB's deadline, and takes the newest.
pub(super) async fn run<'v>(round: &Round<'_, 'v>) -> Result<Reply<'v>, Failure> {
    let mut members = round.wholes();
    let mut losses = round.losses();
    let mut best: Option<(Rank, Kept<'_>)> = None;
    let all = async {
        while let Some((place, come)) = members.next().await {
            match come {
                Ok(kept) => {
                    let rank = Rank::of(&kept, place);
                    // Only the best is held.
                    if best.as_ref().is_none_or(|(best, _)| rank < *best) {
                        best = Some((rank, kept));
                    }
                }
                Err(lost) => losses.add(lost),
            }
        }
    };
    if round.in_time(all).await.is_none() {
        round.expired(members, &mut losses);
    }
    match best {
        Some((_, kept)) => Ok(kept.into()),
        None => Err(losses.failure()),
    }
}

/// The least is the best. Without a date, `None`, comes last: `Reverse` turns it and the dates around.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    class: u16,
    modified: Reverse<Option<SystemTime>>,
    place: usize,
}

impl Rank {
    fn of(kept: &Kept<'_>, place: usize) -> Rank {
        let whole = &kept.whole;
        let value = whole
            .head
            .first(&whole.head_text, KnownHeader::LastModified);
        Rank::new(kept.status, value.and_then(date), place)
    }

    fn new(status: u16, modified: Option<SystemTime>, place: usize) -> Rank {
        let class = match status {
            200..600 => status / 100,
            // No class of HTTP's.
            _ => 6,
        };
        Rank {
            class,
            modified: Reverse(modified),
            place,
        }
    }
}

/// A date in one of HTTP's three forms; anything else is none.
fn date(value: &[u8]) -> Option<SystemTime> {
    let text = std::str::from_utf8(value).ok()?;
    httpdate::parse_http_date(text.trim()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    fn best(answers: &[(u16, Option<&str>)]) -> usize {
        let ranks = answers.iter().enumerate().map(|(place, (status, text))| {
            Rank::new(*status, text.and_then(|text| date(text.as_bytes())), place)
        });
        ranks.min().expect("some answer").place
    }

    const OLD: Option<&str> = Some("Sat, 05 Nov 1994 08:49:37 GMT");
    const NEW: Option<&str> = Some("Sun, 06 Nov 1994 08:49:37 GMT");

    #[test]
    fn the_three_date_forms_are_one_moment() {
        let moment = UNIX_EPOCH + Duration::from_secs(784_111_777);
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(date(text.as_bytes()), Some(moment), "{text}");
        }
        for text in [
            "",
            "yesterday",
            "784111777",
            "Sun, 06 Nov 1994 25:49:37 GMT",
        ] {
            assert_eq!(date(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_newest_wins_and_ties_go_by_pool_order() {
        assert_eq!(best(&[(200, OLD), (200, NEW), (200, NEW)]), 1);
        assert_eq!(best(&[(200, NEW), (200, OLD)]), 0);
    }

    #[test]
    fn one_without_a_valid_date_is_dropped_when_another_has_one() {
        assert_eq!(best(&[(200, None), (200, OLD)]), 1);
        assert_eq!(best(&[(200, Some("yesterday")), (200, OLD)]), 1);
        assert_eq!(best(&[(200, None), (200, None)]), 0);
    }

    #[test]
    fn only_the_best_class_of_status_is_compared() {
        assert_eq!(best(&[(404, NEW), (200, None)]), 1);
        assert_eq!(best(&[(500, NEW), (404, OLD), (304, None)]), 2);
        assert_eq!(best(&[(999, NEW), (503, None)]), 1);
        assert_eq!(best(&[(201, OLD), (206, NEW)]), 1);
    }
}
