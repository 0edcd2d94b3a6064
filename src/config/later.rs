//! Keys of the contract that are not built yet: each is an error that says so. Decisions, 2.

use super::schema::Key;

const CACHING: &str = "caching";

/// The keys.
pub const KEYS: &[Key] = &[
    Key::later("caches", CACHING),
    Key::later("negative_caches", CACHING),
    Key::later("negative-caches", CACHING),
    Key::later("tracing", "tracing"),
    Key::later("kind", "resource documents of the forward proxy"),
    Key::later("version", "resource documents of the forward proxy"),
    Key::later("metadata", "resource documents of the forward proxy"),
    Key::later("spec", "resource documents of the forward proxy"),
    Key::later("backends.*.tracing_name", "tracing"),
    Key::later(
        "backends.*.require_tls",
        "refusing plain HTTP for one backend",
    ),
    Key::later("backends.*.sigv4", "request signing"),
    Key::later("backends.*.prometheus.instant_round", CACHING),
    Key::later("backends.*.cache_name", CACHING),
    Key::later("backends.*.negative_cache_name", CACHING),
    Key::later("backends.*.cache_key_prefix", CACHING),
    Key::later("backends.*.max_object_size_bytes", CACHING),
    Key::later("backends.*.timeseries_retention_factor", CACHING),
    Key::later("backends.*.max_ttl", CACHING),
    Key::later("backends.*.timeseries_eviction_method", CACHING),
    Key::later("backends.*.timeseries_ttl", CACHING),
    Key::later("backends.*.backfill_tolerance", CACHING),
    Key::later("backends.*.backfill_tolerance_points", CACHING),
    Key::later("backends.*.fastforward_ttl", CACHING),
    Key::later("backends.*.fast_forward_disable", CACHING),
    Key::later("backends.*.revalidation_factor", CACHING),
    Key::later("backends.*.fetch_concurrency_limit", CACHING),
    Key::later("backends.*.chunk_read_concurrency_limit", CACHING),
    Key::later("backends.*.chunk_write_concurrency_limit", CACHING),
    Key::later("backends.*.shard_max_size_points", CACHING),
    Key::later("backends.*.shard_max_size_time", CACHING),
    Key::later("backends.*.shard_step", CACHING),
    Key::later("backends.*.proxy_only", CACHING),
    Key::later("backends.*.dearticulate_upstream_ranges", CACHING),
    Key::later("backends.*.multipart_ranges_disabled", CACHING),
];
