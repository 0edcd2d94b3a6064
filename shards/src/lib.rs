//! The data plane: per-core shards that carry every client and upstream byte.
//!
//! A shard is one pinned thread with its own listeners, connections, upstream peers, buffers and counters. It
//! decides nothing: the control core hands it a compiled [`plan::Plan`] and, at each change of membership,
//! addresses or health, one immutable [`snapshot::PoolTable`].

mod accept;
mod authenticate;
mod capture;
mod clock;
mod compress;
mod dispatch;
mod elsewhere;
mod exchange;
pub mod explain;
mod fanout;
mod guard;
mod headers;
mod latency;
pub mod limits;
pub mod link;
mod lookups;
mod mechanism;
pub mod metrics;
pub mod names;
mod passage;
mod peers;
pub mod plan;
mod questions;
mod reply;
mod respond;
mod retry;
mod rewrite;
mod rule;
mod serve;
mod shard;
pub mod snapshot;
pub mod spawn;
mod streak;
pub mod tally;
pub mod trace;
mod tunnel;
