//! Bounds of a shard that are not configuration, and their relations.

use std::time::Duration;

use ringway_io::net::http1::HeadLimits;

/// Bytes in a kibibyte.
pub const KIB: u64 = 1024;
/// Bytes in a mebibyte.
pub const MIB: u64 = 1024 * KIB;

/// Most bytes of a request or response head.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Most header fields of one head.
pub const HEADERS_MAX: usize = 128;
/// Bounds of every head, of clients and of origins.
pub(crate) fn head_limits() -> HeadLimits {
    HeadLimits {
        bytes_max: HEAD_BYTES_MAX,
        headers_max: HEADERS_MAX,
        ..HeadLimits::default()
    }
}

/// Most virtual backends a request may pass before it must have met an origin.
pub const HOPS_MAX: usize = 16;
/// Most other members that a request is offered when one cannot be reached.
pub const FAILOVERS_MAX: usize = 16;
/// Least length of a body that is compressed, where it is known: below it the head weighs more.
pub const COMPRESSED_BYTES_MIN: u64 = KIB;
/// Most bodies that a shard compresses at once.
pub const COMPRESSORS_MAX: usize = 256;
/// Compressed bytes gathered before they are written on.
pub const COMPRESSED_PIECE_BYTES: usize = 32 * 1024;
/// Messages that may wait between the control core and one shard, each way.
pub const LINK_QUEUE_LEN: usize = 256;
/// How often deadlines are looked at: a deadline is met within this time after it passed.
pub const DEADLINE_TICK: Duration = Duration::from_millis(50);

const _: () = assert!(HEAD_BYTES_MAX as u64 <= MIB);

/// Most bytes of a client that are read and thrown away after an answer that closes the connection.
pub const LINGER_BYTES_MAX: usize = 256 * 1024;
/// Longest time for that.
pub const LINGER_TIME: Duration = Duration::from_secs(2);
/// Body bytes gathered before they are written on.
pub const RELAY_BYTES: usize = 64 * 1024;
/// Most interim answers relayed before the final one.
pub const INTERIM_MAX: usize = 16;

/// Most bytes of a user's name and of a password that are looked at; longer ones are refused unseen.
pub const CREDENTIAL_BYTES_MAX: usize = 1024;
/// Checks of passwords that one shard may have open with the control core.
pub const CHECKS_MAX: usize = 32;
/// Longest time a request waits for one.
pub const CHECK_TIME_MAX: Duration = Duration::from_secs(10);
/// Right passwords that one shard remembers.
pub const KNOWN_LOGINS_MAX: usize = 4096;
/// Wrong passwords that one shard remembers.
pub const WRONG_LOGINS_MAX: usize = 1024;
/// For so long.
pub const WRONG_LOGIN_TIME: Duration = Duration::from_secs(5);

const _: () = assert!(CHECKS_MAX < LINK_QUEUE_LEN);
const _: () = assert!(CREDENTIAL_BYTES_MAX < HEAD_BYTES_MAX);

/// Most bytes of a text that a rewriter makes: a value, a path, a query. What would be longer stays as it was.
pub const REWRITTEN_BYTES_MAX: usize = 16 * 1024;
/// Most bytes that a regular expression of a rule is asked about; a longer input gives no answer.
pub const MATCHED_BYTES_MAX: usize = 4 * 1024;
/// Most rules that one request may pass, whatever they say.
pub const RULE_EXECUTIONS_MAX: u16 = 256;
/// Most instructions of rewriters that one request may meet.
pub const REWRITES_MAX: u32 = 4096;
/// Most groups of connections to hosts that rewriters name, of one shard.
pub const ELSEWHERE_MAX: usize = 1024;
/// Most host names made by rewriters that one shard keeps addresses of, and as many that have none.
pub const NAMES_MAX: usize = 1024;
/// Lookups of such names that one shard may have open with the control core.
pub const LOOKUPS_MAX: usize = 128;
/// Lookups open from which on only names that had addresses a while ago are looked up.
pub const NEW_LOOKUPS_MAX: usize = 64;
/// How long after their time the addresses of such a name serve, while it is looked up or nobody can be asked.
pub const STALE_MAX: Duration = Duration::from_secs(60);
/// Longest time a request waits for one; an origin's `connect_timeout` may be shorter.
pub const LOOKUP_TIME_MAX: Duration = Duration::from_secs(10);

const _: () = assert!(REWRITTEN_BYTES_MAX < HEAD_BYTES_MAX);
const _: () = assert!(CHECKS_MAX + LOOKUPS_MAX < LINK_QUEUE_LEN);
const _: () = assert!(MATCHED_BYTES_MAX <= REWRITTEN_BYTES_MAX);
