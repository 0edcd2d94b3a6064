//! `ringway demo`: the appliance over origins of its own, to be tried without anything else.
//!
//! Starts two web servers and four metric servers in this process on free loopback ports, writes a configuration
//! for them into the temporary folder, and serves it like any other. What the metric servers hold is computed
//! (`series`), so that [`Origins::tour`] can say beforehand what a merged answer must be.

use std::fmt::Write as _;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use crate::control::run::Serving;

mod api;
mod evaluate;
mod origins;
mod promql;
mod series;

/// A demo that is ready to be served.
#[derive(Debug)]
pub struct Demo {
    /// Where its configuration was written.
    pub config: PathBuf,
    /// The origins it is about.
    pub origins: Origins,
}

/// The running origins.
#[derive(Clone, Copy, Debug)]
pub struct Origins([SocketAddr; 6]);

/// Starts the origins and writes the configuration.
///
/// # Errors
/// When no port is free or the file cannot be written.
pub fn prepare() -> io::Result<Demo> {
    let addresses = origins::start()?;
    let file = format!("ringway-demo-{}.yaml", std::process::id());
    let config = std::env::temp_dir().join(file);
    std::fs::write(&config, configuration(&addresses))?;
    Ok(Demo {
        config,
        origins: Origins(addresses),
    })
}

/// The configuration with ports by example: those of a running demo are chosen when it starts.
pub fn example_configuration() -> String {
    let ports = [9001, 9002, 9003, 9004, 9005, 9006];
    configuration(&ports.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port))))
}

fn configuration(addresses: &[SocketAddr; 6]) -> String {
    let mut text = String::from(
        "# ringway demo: two web servers behind rr, three metric shards behind tsm.\n\
         logging:\n  log_level: warn\n\nlisteners:\n  default:\n    address: 127.0.0.1\n    port: 8480\n  \
         metrics:\n    address: 127.0.0.1\n    port: 8481\n\nbackends:\n",
    );
    for (name, address) in origins::NAMES.iter().zip(addresses) {
        let is_web = name.starts_with("web");
        let provider = if is_web { "reverseproxy" } else { "prometheus" };
        let _ = write!(
            text,
            "  {name}:\n    provider: {provider}\n    origin_url: http://{address}\n"
        );
        // The two replicas hold the same series, each with gaps where the other has none.
        if name.starts_with("shard-a") {
            text.push_str("    replica_group: shard-a\n");
        }
        text.push_str("    healthcheck:\n      interval: 2s\n      timeout: 1s\n");
        if !is_web {
            text.push_str("      path: /api/v1/status/buildinfo\n");
        }
    }
    text.push_str(
        "  web:\n    provider: alb\n    alb:\n      mechanism: rr\n      pool:\n        \
         - web-1\n        - name: web-2\n          weight: 2\n  \
         metrics:\n    provider: alb\n    alb:\n      mechanism: tsm\n      pool:\n",
    );
    for name in origins::NAMES
        .iter()
        .filter(|name| name.starts_with("shard"))
    {
        let _ = writeln!(text, "        - {name}");
    }
    text
}

impl Origins {
    /// What to try. Every line after a `$` can be pasted into a shell; the line below it is what it prints.
    pub fn tour(&self, serving: &Serving) -> String {
        let client = serving.listeners.first().map(|(_, address)| *address);
        let admin = |wanted| {
            let found = serving.admin.iter().find(|(name, _)| *name == wanted);
            url(found.map(|(_, address)| *address))
        };
        let (web, metrics, mgmt) = (url(client), admin("metrics"), admin("mgmt"));
        let query = format!("curl -s {web}/metrics/api/v1/query");
        let hour = "-d start=$(( $(date +%s) - 3600 )) -d end=$(date +%s) -d step=60";
        let points = "grep -o '\\[[0-9]*,' | wc -l";
        let eu1 = "-d 'query=demo_capacity{instance=\"eu-1\"}'";
        let a1 = self.0[2];
        format!(
            "\
Serving on {web}, health and metrics on {metrics}. Ctrl-C ends it.

Web servers behind rr; web-2 has twice the weight, so three requests are one whole rotation:

  $ for n in 1 2 3; do curl -s {web}/web/hello; done
    web-1 once, web-2 twice

Three metric shards behind tsm; shard-a is a pair of replicas that must count once:

  $ {query} -d 'query=sum(demo_capacity)'
    450  (100+80 on shard-a, 120+60 on shard-b, 40+50 on shard-c)
  $ {query} -d 'query=sum by (region) (demo_capacity)'
    ap 50, eu 220 (100+80 on shard-a and 40 on shard-c), us 180
  $ {query} -d 'query=avg(demo_capacity)'
    75  (an average of all six, not of averages)
  $ {query} -d 'query=sum(rate(demo_requests_total{{code=\"500\"}}[1m]))'
    3  (0.5 a second on each of six; less for a minute while a replica's gap begins or ends)
  $ {query} -d 'query=count(up)'
    6
  $ {query} -d 'query=max(demo_capacity)'
    120
  $ curl -s {web}/metrics/api/v1/label/region/values
    ap, eu, us

Each replica of shard-a lacks ten minutes of every hour; an hour of points, alone and merged:

  $ curl -s http://{a1}/api/v1/query_range {eu1} {hour} | {points}
    50 or 51
  $ curl -s {web}/metrics/api/v1/query_range {eu1} {hour} | {points}
    61

Health, metrics, configuration:

  $ curl -s {metrics}/trickster/health
  $ curl -s {metrics}/metrics
  $ curl -s {mgmt}/trickster/config
"
        )
    }
}

fn url(address: Option<SocketAddr>) -> String {
    address.map_or_else(|| "(off)".to_owned(), |address| format!("http://{address}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_configuration_names_every_origin() {
        let text = example_configuration();
        for name in origins::NAMES {
            assert!(text.contains(&format!("\n  {name}:\n")), "{text}");
        }
        assert_eq!(text.matches("replica_group: shard-a\n").count(), 2);
    }
}
