//! The log lines of the control core: transitions, once each.

use crate::control::ejection::Why;
use crate::control::state::Notice;
use ringway_shards::link::ShardId;
use ringway_shards::snapshot::Health;

/// An origin fails the requests of a shard, for this reason, or does so no more.
pub(super) fn origin(shard: ShardId, backend: &str, failure: Option<&str>) {
    match failure {
        Some(error) => {
            tracing::warn!(backend = %backend, shard = shard.0, error = %error, "origin fails requests");
        }
        None => {
            tracing::info!(backend = %backend, shard = shard.0, "origin answers requests again")
        }
    }
}

/// Tells the operator.
pub(super) fn notice(notice: &Notice) {
    match notice {
        Notice::Health {
            backend,
            flip,
            detail,
        } => match flip.to {
            Health::Available | Health::Unknown => tracing::info!(
                backend = %backend,
                from = flip.from.value(),
                to = flip.to.value(),
                threshold = flip.threshold,
                "backend is available"
            ),
            Health::Unavailable => tracing::warn!(
                backend = %backend,
                from = flip.from.value(),
                to = flip.to.value(),
                threshold = flip.threshold,
                detail = %detail,
                "backend is unavailable"
            ),
        },
        Notice::Ejected {
            alb,
            member,
            failures,
            time,
        } => tracing::warn!(
            alb = %alb,
            member = %member,
            failures,
            time = ?time,
            "member ejected: its connections fail"
        ),
        Notice::Returned { alb, member, why } => tracing::info!(
            alb = %alb,
            member = %member,
            why = match why {
                Why::TimeIsUp => "its time is up",
                Why::ProbePassed => "a probe passed",
                Why::PoolTooSmall => "too many other members are down",
            },
            "ejected member is back"
        ),
        Notice::PoolEmpty(alb) => {
            tracing::error!(alb = %alb, "no member is live: requests get 502");
        }
        Notice::PoolServes(alb) => tracing::info!(alb = %alb, "a member is live again"),
        Notice::Addresses { host, addresses } => {
            tracing::info!(host = %host, addresses = ?addresses, "host resolved");
        }
        Notice::Unresolved {
            host,
            error,
            keeps_last: true,
        } => tracing::warn!(host = %host, error = %error, "host not resolved, last addresses stay"),
        Notice::Unresolved {
            host,
            error,
            keeps_last: false,
        } => tracing::error!(
            host = %host,
            error = %error,
            "host not resolved: its backends get no requests through and answer 502"
        ),
    }
}
