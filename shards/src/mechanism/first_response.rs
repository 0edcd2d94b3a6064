//! `fr`: the first member whose answer begins wins, whatever its status.
//!
//! The winner is relayed from its head on, uncaptured; the others are cancelled, since nothing of theirs would be
//! kept. A member that cannot be reached, resets or is late has not answered, so it beats nobody. Nor does what a
//! member's own paths or authenticator refuse at once while others are asked: that is the answer only when nobody
//! else has one. Contract: ALB page, 6.2; decisions, 9 and 10.

use super::reply::Reply;
use super::round::Round;
use crate::respond::Failure;

/// Asks all and takes the first.
pub(super) async fn run<'v>(round: &Round<'_, 'v>) -> Result<Reply<'v>, Failure> {
    let mut members = round.replies();
    let mut losses = round.losses();
    let mut refusal: Option<(usize, Reply<'_>)> = None;
    let race = async {
        while let Some((place, come)) = members.next().await {
            match come {
                Ok(reply) if reply.refused => {
                    if refusal.as_ref().is_none_or(|(first, _)| place < *first) {
                        refusal = Some((place, reply));
                    }
                }
                Ok(reply) => return Some(reply),
                Err(lost) => losses.add(lost),
            }
        }
        None
    };
    match round.in_time(race).await {
        Some(Some(first)) => {
            round.claimed(members);
            return Ok(first);
        }
        Some(None) => {}
        None => round.expired(members, &mut losses),
    }
    match refusal {
        Some((_, reply)) => Ok(reply),
        None => Err(losses.failure()),
    }
}
