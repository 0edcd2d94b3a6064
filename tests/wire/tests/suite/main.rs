//! The contract at the wire: one file per feature, one test per sentence.
//!
//! `RINGWAY_TEST_DRIVER=io_uring|epoll` chooses the driver of every shard started here.

mod admin;
mod authenticators;
mod check;
mod compression;
mod cors;
mod ejection;
mod explain;
mod fake_prometheus;
mod fan_out;
mod fan_out_members;
mod fanout_limits;
mod fanout_refusals;
mod federated_promql;
mod first_good_response;
mod first_response;
mod forms;
mod forwarded_headers;
mod framing_bodies;
mod framing_deadlines;
mod framing_isolation;
mod framing_requests;
mod framing_responses;
mod framing_reuse;
mod framing_upgrade;
mod header_edits;
mod health;
mod invalid;
mod latency;
mod newest_last_modified;
mod nginx_pool;
mod oracle;
mod partial_answers;
mod paths;
mod regression;
mod reloads;
mod retries;
mod round_robin;
mod status_page;
mod support;
mod time_series_merge;
mod tls;
mod trusted_proxies;
mod user_router;
