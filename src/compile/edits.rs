//! Changes to headers and parameters: `-name` removes, `+name` appends, `name` sets. Contract: configuration
//! page, 3.6 and 4.

use hyper::header::{HeaderName, HeaderValue};
use ringway_shards::plan::{Cors, Edit, EditAction, Edits};
use serde_json::{Map, Value as Json};

use super::context::Context;
use super::effective::MASK;
use crate::config::origin_url::Authority;
use crate::config::paths::Cors as WrittenCors;
use crate::config::{Fault, Named, Path, defaults};

/// Headers of the connection and of the body's framing. An edit of one would make two sides disagree about where a
/// message ends.
pub(super) const FRAMING: &[&str] = &[
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What is changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subject {
    RequestHeader,
    RequestParam,
    ResponseHeader,
    Cors,
}

/// The edits as written, on a backend or on a path.
#[derive(Clone, Copy)]
pub(super) struct Written<'a> {
    pub(super) request_headers: Option<&'a Named<String>>,
    pub(super) request_params: Option<&'a Named<String>>,
    pub(super) response_headers: Option<&'a Named<String>>,
}

/// The edits below a backend or path.
pub(super) fn compile(context: &mut Context<'_>, at: &Path, written: Written<'_>) -> Edits {
    let mut list = |key: &str, written, subject| edits(context, &at.key(key), written, subject);
    Edits {
        request_headers: list(
            "request_headers",
            written.request_headers,
            Subject::RequestHeader,
        ),
        request_params: list(
            "request_params",
            written.request_params,
            Subject::RequestParam,
        ),
        response_headers: list(
            "response_headers",
            written.response_headers,
            Subject::ResponseHeader,
        ),
        response_code: None,
        response_body: None,
    }
}

/// A `cors` block; `None` without one.
pub(super) fn cors(
    context: &mut Context<'_>,
    at: &Path,
    written: Option<&WrittenCors>,
) -> Option<Cors> {
    let written = written?;
    let mode = context.pick_text(
        &at.key("mode"),
        written.mode.as_deref(),
        defaults::CORS_MODE,
    );
    let headers = at.key("headers");
    let listed = written.headers.as_ref();
    let edits = edits(context, &headers, listed, Subject::Cors);
    let takes_headers = matches!(mode.as_str(), "merge" | "replace");
    if !takes_headers && !edits.is_empty() {
        let mode = mode.clone();
        context.fail_key(&headers, Fault::CorsHeaders { mode });
    }
    Some(match mode.as_str() {
        "preserve" => Cors::Preserve,
        "merge" => Cors::Merge(edits),
        "disable" => Cors::Disable,
        _ => Cors::Replace(edits),
    })
}

fn edits(
    context: &mut Context<'_>,
    at: &Path,
    written: Option<&Named<String>>,
    subject: Subject,
) -> Vec<Edit> {
    let Some(Named(written)) = written else {
        return Vec::new();
    };
    let is_secret = matches!(subject, Subject::RequestHeader | Subject::RequestParam);
    let mut shown = Map::new();
    let mut edits: Vec<Edit> = Vec::new();
    for (key, value) in written {
        let here = at.key(key);
        let value_shown = if is_secret { MASK } else { value };
        shown.insert(key.clone(), Json::from(value_shown));
        let edit = edit(key, value);
        for fault in faults(key, &edit, value, subject) {
            match fault {
                Fault::HeaderValue { .. } | Fault::BadHost { .. } => {
                    context.fail_value(&here, fault);
                }
                _ => context.fail_key(&here, fault),
            }
        }
        let same = |known: &Edit| match subject {
            Subject::RequestParam => known.name == edit.name,
            _ => known.name.eq_ignore_ascii_case(&edit.name),
        };
        if edits.iter().any(same) {
            let name = edit.name.to_string();
            context.fail_key(&here, Fault::EditTwice { name });
        }
        edits.push(edit);
    }
    context.note_written(at, Json::Object(shown));
    edits
}

fn edit(key: &str, value: &str) -> Edit {
    match (key.strip_prefix('-'), key.strip_prefix('+')) {
        (Some(name), _) => Edit::remove(name),
        (_, Some(name)) => Edit::append(name, value),
        _ => Edit::set(key, value),
    }
}

/// What is wrong with one edit.
fn faults(key: &str, edit: &Edit, value: &str, subject: Subject) -> Vec<Fault> {
    let name = edit.name.to_string();
    if name.is_empty() {
        return vec![match key.chars().next() {
            Some(sign) => Fault::EditWithoutName { sign },
            None => Fault::EmptyName,
        }];
    }
    if subject == Subject::RequestParam {
        return Vec::new();
    }
    if HeaderName::from_bytes(name.as_bytes()).is_err() {
        return vec![Fault::HeaderName { name }];
    }
    let lower = name.to_ascii_lowercase();
    let mut faults = Vec::new();
    if subject == Subject::Cors && !lower.starts_with("access-control-") {
        faults.push(Fault::CorsHeader { name: name.clone() });
    } else if FRAMING.contains(&lower.as_str()) {
        faults.push(Fault::FramingHeader { name: name.clone() });
    }
    let is_host = subject == Subject::RequestHeader && lower == "host";
    if edit.action == EditAction::Remove {
        faults.extend(is_host.then_some(Fault::HostHeader));
        return faults;
    }
    if is_host && matches!(edit.action, EditAction::Append(_)) {
        faults.push(Fault::HostHeader);
    }
    if HeaderValue::from_str(value).is_err() {
        faults.push(Fault::HeaderValue { name });
    } else if is_host && let Err(reason) = Authority::parse(value) {
        let host = value.to_owned();
        faults.push(Fault::BadHost { host, reason });
    }
    faults
}
