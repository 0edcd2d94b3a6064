//! `fr`: the first member whose answer begins wins, whatever its status.
//!
//! The winner is relayed from its head on, uncaptured; the others are cancelled, since nothing of theirs would be
//! kept. A member that cannot be reached, resets or is late has not answered, so it beats nobody. Contract: ALB
//! page, 6.2; decisions, 9 and 10.

use super::reply::Reply;
use super::round::Round;
use crate::respond::Failure;

/// Asks all and takes the first.
pub(super) async fn run<'v>(round: &Round<'_, 'v>) -> Result<Reply<'v>, Failure> {
    let mut members = round.replies();
    let mut losses = round.losses();
    let race = async {
        while let Some((_, come)) = members.next().await {
            match come {
                Ok(reply) => return Some(reply),
                Err(lost) => losses.add(lost),
            }
        }
        None
    };
    match round.in_time(race).await {
        Some(Some(first)) => {
            round.claimed(members);
            Ok(first)
        }
        Some(None) => Err(losses.failure()),
        None => {
            round.expired(members, &mut losses);
            Err(losses.failure())
        }
    }
}
