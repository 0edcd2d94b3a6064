//! The contract at the wire: one file per feature, one test per sentence.
//!
//! `RINGWAY_TEST_DRIVER=io_uring|epoll` chooses the driver of every shard started here.

mod admin;
mod check;
mod fake_prometheus;
mod fan_out;
mod fanout_limits;
mod first_good_response;
mod first_response;
mod forwarded_headers;
mod framing_bodies;
mod framing_deadlines;
mod framing_isolation;
mod framing_requests;
mod framing_responses;
mod framing_reuse;
mod framing_upgrade;
mod newest_last_modified;
mod nginx_pool;
mod oracle;
mod regression;
mod round_robin;
mod support;
mod time_series_merge;
mod tls;
