//! The contract at the wire: one file per feature, one test per sentence.
//!
//! `RINGWAY_TEST_DRIVER=io_uring|epoll` chooses the driver of every shard started here.

mod admin;
#[path = "../../../../src/discovery/kubernetes/apisim.rs"]
#[allow(
    dead_code,
    clippy::unwrap_used,
    reason = "written for the tests of the root package: not all of it is used here, and it stands in a file of tests"
)]
mod apisim;
mod authenticators;
mod check;
mod compression;
mod cors;
mod discovery;
mod discovery_aws;
mod discovery_aws_account;
mod discovery_azure;
mod discovery_azure_login;
mod discovery_cluster;
mod discovery_consul;
mod discovery_dns;
mod discovery_docker;
mod discovery_file;
mod discovery_gcp;
mod discovery_http_sd;
mod discovery_kubernetes;
mod discovery_members;
mod discovery_moto;
mod discovery_nomad;
mod discovery_registry;
mod discovery_rolling_deploy;
mod discovery_stub;
mod discovery_support;
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
mod metadata_endpoints;
mod newest_last_modified;
mod nginx_pool;
mod oracle;
mod partial_answers;
mod paths;
mod regression;
mod reloads;
mod retries;
mod round_robin;
mod rules;
mod rules_of_merges;
mod status_page;
mod support;
mod time_series_merge;
mod tls;
mod trusted_proxies;
mod user_router;
