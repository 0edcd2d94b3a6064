//! What the harness prints: progress to stderr, the tables to stdout, the JSON to its file.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};

use super::results::{Machine, Results, Row};
use super::table::{grouped, or_dash, table};
use super::tail::Tail;
use crate::load::micros;

const MEGABYTE: f64 = 1e6;

/// Says what is being done. Goes to stderr, so that stdout is only the result.
pub(super) fn progress(text: &str) {
    // Progress that nobody can see is no reason to stop.
    let _ = writeln!(std::io::stderr(), "  {text}");
}

/// Prints the tables.
pub(super) fn print(results: &Results) -> Result<()> {
    let mut out = std::io::stdout().lock();
    write!(out, "{}", text(results)).context("cannot print the result")
}

/// Writes the JSON file.
pub(super) fn write_json(results: &Results, path: &Path) -> Result<()> {
    let failed = || format!("cannot write {}", path.display());
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).with_context(failed)?;
    }
    let json = serde_json::to_string_pretty(results).context("the figures are no JSON")?;
    fs::write(path, json + "\n").with_context(failed)
}

fn text(results: &Results) -> String {
    let Machine {
        cpu,
        cpus,
        kernel,
        load_average,
    } = &results.machine;
    let mut text = format!(
        "\n{cpus} CPUs ({cpu}), Linux {kernel}, load average {load_average} at the start\n\
         {} connections, GET {}, medians of the turns\n\n",
        results.connections, results.path
    );
    text += &comparison(results);
    if let Some(tail) = &results.tail {
        text += &tail_table(tail);
    }
    for note in &results.notes {
        text += &format!("note: {note}\n");
    }
    text
}

fn comparison(results: &Results) -> String {
    let open_rate = results
        .open_rate
        .map_or("not run".to_owned(), |r| format!("{}/s", grouped(r)));
    let head = [
        "proxy",
        "closed loop\nreq/s",
        "CPU\nus/req",
        "of its\ncore",
        &format!("open loop\n{open_rate}\nCPU us/req"),
        "\np50",
        "\np99",
        "\np99.9",
        "RSS\nMB",
        "idle\nRSS MB",
        "per idle\nconn.",
        "ringway / it\nCPU",
        "\nreq/s",
    ];
    let rows: Vec<Vec<String>> = results.rows.iter().map(cells).collect();
    table(&head, &rows) + "\n"
}

fn cells(row: &Row) -> Vec<String> {
    let (closed, open) = (row.closed, row.open);
    let megabytes = |bytes: f64| format!("{:.1}", bytes / MEGABYTE);
    let two_digits = |value: f64| format!("{value:.2}");
    let kilobytes = |bytes: f64| format!("{:.1} kB", bytes / 1e3);
    let mark = if row.failure.is_some() { " !" } else { "" };
    vec![
        format!("{} {}{mark}", row.name, row.version)
            .trim_end()
            .to_owned(),
        or_dash(closed.map(|c| c.per_second), grouped),
        or_dash(closed.and_then(|c| c.cpu_us_per_request), two_digits),
        or_dash(closed.and_then(|c| c.cpu_percent), |percent| {
            format!("{percent:.0} %")
        }),
        or_dash(open.and_then(|o| o.cpu_us_per_request), two_digits),
        or_dash(open.map(|o| o.p50), micros),
        or_dash(open.map(|o| o.p99), micros),
        or_dash(open.map(|o| o.p999), micros),
        or_dash(closed.and_then(|c| c.rss_bytes), megabytes),
        or_dash(row.idle.map(|idle| idle.rss_bytes as f64), megabytes),
        or_dash(row.idle.map(|idle| idle.bytes_per_connection()), kilobytes),
        or_dash(row.ringway_ratio.map(|ratio| ratio.cpu), two_digits),
        or_dash(row.ringway_ratio.map(|ratio| ratio.per_second), two_digits),
    ]
}

fn tail_table(tail: &Tail) -> String {
    let head = [
        "small requests on one shard",
        "req/s",
        "p50",
        "p99",
        "p99.9",
        "max",
        "own lag p99",
    ];
    let line = |name: &str, sample: &super::measure::Sample| {
        let latency = |value: fn(&crate::load::Quantiles) -> f64| {
            or_dash(sample.load.latency.as_ref().map(value), micros)
        };
        vec![
            name.to_owned(),
            grouped(sample.load.per_second),
            latency(|l| l.p50),
            latency(|l| l.p99),
            latency(|l| l.p999),
            latency(|l| l.max),
            or_dash(sample.load.generator_lag.map(|lag| lag.p99), micros),
        ]
    };
    let merges = &tail.merging.load;
    let each = merges.body_bytes_total as f64 / merges.answers_total as f64 / MEGABYTE;
    let took = or_dash(merges.latency.map(|latency| latency.p50), micros);
    let rows = [
        line("alone", &tail.alone),
        line("while merging 3 x 8 MB", &tail.beside),
    ];
    format!(
        "{}merging: {:.2} answers/s of {each:.1} MB, median {took}\n\n",
        table(&head, &rows),
        merges.per_second
    )
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::sample;
    use super::super::results::{Machine, Medians, Ratio};
    use super::*;

    fn results() -> Results {
        let medians = Medians {
            per_second: 61_234.0,
            cpu_us_per_request: Some(16.314),
            cpu_percent: Some(99.6),
            cpu_wait_percent: Some(0.1),
            rss_bytes: Some(12_340_000.0),
            p50: 95.0,
            p99: 1_234.0,
            p999: 20_000.0,
        };
        let nginx = Row {
            closed: Some(medians),
            open: Some(medians),
            ringway_ratio: Some(Ratio {
                cpu: 0.75,
                per_second: 1.333,
            }),
            ..Row::empty("nginx", "1.22.1")
        };
        let failed = Row {
            failure: Some("x".to_owned()),
            ..Row::empty("envoy", "1.40.0")
        };
        let machine = Machine {
            cpu: "EPYC".to_owned(),
            cpus: 2,
            kernel: "6.18".to_owned(),
            load_average: 0.1,
        };
        Results {
            began_unix: 0,
            machine,
            path: "/".to_owned(),
            connections: 64,
            open_rate: Some(12_000.0),
            rows: vec![nginx, failed],
            tail: Some(Tail {
                alone: sample(500.0, 20.0),
                beside: sample(499.0, 30.0),
                merging: sample(3.0, 9_000.0),
            }),
            churn: None,
            members: None,
            notes: vec!["haproxy: not found".to_owned()],
        }
    }

    #[test]
    fn the_text_has_every_figure_and_a_dash_for_what_is_missing() {
        let text = text(&results());
        for part in [
            "12,000/s",
            "61,234",
            "16.31",
            "100 %",
            "95 us",
            "1.23 ms",
            "20.00 ms",
            "12.3",
            "0.75",
            "1.33",
            "envoy 1.40.0 !",
            "while merging 3 x 8 MB",
            "note: haproxy: not found",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let envoy = text.lines().find(|line| line.starts_with("envoy")).unwrap();
        assert_eq!(envoy.matches(" -").count(), 12, "{envoy}");
    }

    #[test]
    fn the_json_goes_to_a_new_directory() {
        let dir = std::env::temp_dir().join(format!("ringway-report-{}", std::process::id()));
        let path = dir.join("deep/latest.json");
        write_json(&results(), &path).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        fs::remove_dir_all(dir).unwrap();
        assert_eq!(json["rows"][0]["ringway_ratio"]["cpu"], 0.75);
        assert_eq!(json["tail"]["alone"]["load"]["per_second"], 500.0);
    }
}
