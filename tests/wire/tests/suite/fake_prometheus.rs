//! A small Prometheus API for merge tests: canned answers by path and parameters.

use std::io::Write;

use ringway_wire::{Origin, Request, Ringway, Setup};

/// Decoded parameters of the URL and of a form body.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Reads both places; what they hold comes in that order.
    pub(crate) fn of(request: &Request) -> Self {
        let url = request
            .target
            .split_once('?')
            .map_or("", |(_, query)| query);
        let body = String::from_utf8_lossy(&request.body);
        let both = [url, &body].into_iter().flat_map(|text| text.split('&'));
        let pairs = both.filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        });
        Self(pairs.collect())
    }

    /// The first value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Its values.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.0
            .iter()
            .filter(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
            .collect()
    }
}

/// Undoes form encoding.
fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                let digits = String::from_utf8_lossy(&digits);
                bytes.push(u8::from_str_radix(&digits, 16).expect("two hexadecimal digits"));
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Encodes for a form or a URL.
pub(crate) fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| {
            if plain(byte) {
                (byte as char).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

/// One fake server and its place in the pool.
pub(crate) struct Server {
    pub(crate) name: &'static str,
    pub(crate) group: Option<&'static str>,
    pub(crate) keys: Vec<String>,
    pub(crate) origin: Origin,
}

impl Server {
    /// Answers by script.
    pub(crate) fn new(
        name: &'static str,
        script: impl Fn(&str, &Parameters) -> (u16, String) + Send + Sync + 'static,
    ) -> Self {
        let origin = Origin::answering(move |request| {
            let path = request.target.split('?').next().unwrap_or_default();
            let (status, body) = script(path, &Parameters::of(request));
            respond(status, "", body.as_bytes())
        });
        Self {
            name,
            group: None,
            keys: Vec::new(),
            origin,
        }
    }

    /// Answers everything with 200 and this body.
    pub(crate) fn saying(name: &'static str, body: impl Into<String>) -> Self {
        let body = body.into();
        Self::new(name, move |_, _| (200, body.clone()))
    }

    /// Answers everything with 200 and this body, compressed.
    pub(crate) fn saying_gzip(name: &'static str, body: &str) -> Self {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(body.as_bytes()).expect("memory takes it");
        let body = encoder.finish().expect("memory takes it");
        let origin = Origin::answering(move |_| respond(200, "Content-Encoding: gzip\r\n", &body));
        Self {
            name,
            group: None,
            keys: Vec::new(),
            origin,
        }
    }

    /// Puts it into a replica group.
    pub(crate) fn group(mut self, group: &'static str) -> Self {
        self.group = Some(group);
        self
    }

    /// Adds a line to its backend.
    pub(crate) fn key(mut self, line: &str) -> Self {
        self.keys.push(line.to_owned());
        self
    }
}

fn respond(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!(
        "HTTP/1.1 {status} Status\r\nContent-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Ringway with these servers behind `tsm`, in this order; `keys` are lines under `alb`.
pub(crate) fn start(servers: &[Server], keys: &[&str]) -> Ringway {
    start_with(servers, keys, &[])
}

/// As [`start`]; `front` are lines of the ALB's backend.
pub(crate) fn start_with(servers: &[Server], keys: &[&str], front: &[&str]) -> Ringway {
    let mut yaml = "backends:\n".to_owned();
    for server in servers {
        let address = server.origin.address();
        let name = server.name;
        yaml.push_str(&format!(
            "  {name}:\n    provider: prometheus\n    origin_url: http://{address}\n"
        ));
        if let Some(group) = server.group {
            yaml.push_str(&format!("    replica_group: {group}\n"));
        }
        for line in &server.keys {
            yaml.push_str(&format!("    {line}\n"));
        }
    }
    let names: Vec<_> = servers.iter().map(|server| server.name).collect();
    yaml.push_str(&format!(
        "  all:\n    provider: alb\n    is_default: true\n    alb:\n      mechanism: tsm\n      pool: [{}]\n",
        names.join(", ")
    ));
    for line in keys {
        yaml.push_str(&format!("      {line}\n"));
    }
    for line in front {
        yaml.push_str(&format!("    {line}\n"));
    }
    Setup::new(yaml).start()
}

/// A successful vector of `(labels, value)` at one instant.
pub(crate) fn vector(samples: &[(&str, &str)]) -> String {
    let series: Vec<_> = samples
        .iter()
        .map(|(labels, value)| {
            format!(r#"{{"metric":{{{labels}}},"value":[1700000000,"{value}"]}}"#)
        })
        .collect();
    success(&format!(
        r#"{{"resultType":"vector","result":[{}]}}"#,
        series.join(",")
    ))
}

/// A successful matrix of `(labels, points)`; points as JSON.
pub(crate) fn matrix(series: &[(&str, &str)]) -> String {
    let series: Vec<_> = series
        .iter()
        .map(|(labels, points)| format!(r#"{{"metric":{{{labels}}},"values":[{points}]}}"#))
        .collect();
    success(&format!(
        r#"{{"resultType":"matrix","result":[{}]}}"#,
        series.join(",")
    ))
}

/// An envelope around `data`.
pub(crate) fn success(data: &str) -> String {
    format!(r#"{{"status":"success","data":{data}}}"#)
}
