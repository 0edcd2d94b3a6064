//! `fgr`: the first member whose answer is here whole and has a good status wins.
//!
//! Without one, the lowest status of all answers does, ties in pool order; answers that are not whole, or over a
//! cap, do not count. Contract: ALB page, 6.3; decisions, 11.

use super::reply::{Kept, Reply};
use super::round::Round;
use crate::respond::Failure;

/// Asks all and takes the first good one.
pub(super) async fn run<'v>(round: &Round<'_, 'v>) -> Result<Reply<'v>, Failure> {
    let mut members = round.wholes();
    let mut losses = round.losses();
    let mut lowest: Option<(usize, Kept<'_>)> = None;
    let good = round.settings.good_status.as_deref();
    let race = async {
        while let Some((place, come)) = members.next().await {
            match come {
                Ok(kept) if is_good(kept.status, good) => return Some(kept),
                Ok(kept) => {
                    let rank = (kept.status, place);
                    // Only the best is held.
                    if lowest
                        .as_ref()
                        .is_none_or(|(place, best)| rank < (best.status, *place))
                    {
                        lowest = Some((place, kept));
                    }
                }
                Err(lost) => losses.add(lost),
            }
        }
        None
    };
    match round.in_time(race).await {
        Some(Some(first)) => {
            round.claimed(members);
            return Ok(first.into());
        }
        Some(None) => {}
        None => round.expired(members, &mut losses),
    }
    match lowest {
        Some((_, kept)) => Ok(kept.into()),
        None => Err(losses.failure()),
    }
}

/// Whether a status is one of the list, or below 400 where there is none.
fn is_good(status: u16, good: Option<&[u16]>) -> bool {
    good.map_or(status < 400, |list| list.contains(&status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_is_what_is_listed_or_below_400() {
        assert!(is_good(200, None));
        assert!(is_good(399, None));
        assert!(!is_good(400, None));
        assert!(is_good(404, Some(&[200, 404])));
        assert!(!is_good(201, Some(&[200, 404])));
    }
}
