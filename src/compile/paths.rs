//! Path tables of backends: `paths`, laid over what the provider does by default. Contract: configuration page, 4.

use std::sync::Arc;

use ringway_io::net::http1::Method;
use ringway_shards::plan::{
    AuthenticatorId, Cors, Edit, Edits, Handler, LocalAnswer, Matching, Methods, PathRule,
    Rewriter, spelling,
};
use serde_json::Value as Json;

use super::backends::Named;
use super::context::Context;
use super::edits::{self, Written};
use super::roster::{Entry, Live};
use crate::config::paths::PathEntry;
use crate::config::{Fault, Path, defaults, schema};

/// Most entries of `paths` of one backend: they are looked through one after the other.
const PATHS_MAX: usize = 1_000;

const METHODS: &[(&str, Method)] = &[
    ("GET", Method::Get),
    ("HEAD", Method::Head),
    ("POST", Method::Post),
    ("PUT", Method::Put),
    ("DELETE", Method::Delete),
    ("CONNECT", Method::Connect),
    ("OPTIONS", Method::Options),
    ("TRACE", Method::Trace),
    ("PATCH", Method::Patch),
    ("PURGE", Method::Purge),
];

/// What a handler's name means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// The origin, or the pool.
    Forward,
    /// Part of the provider's API; the pool too, which knows it by its path.
    Api,
    /// ringway.
    Local,
    /// ringway: this part of the API is refused.
    Refused,
    /// To come.
    Later(&'static str),
}

const ORIGIN_HANDLERS: &[(&str, Known)] = &[
    ("proxy", Known::Forward),
    ("localresponse", Known::Local),
    ("proxycache", Known::Later("caching")),
];
const PROMETHEUS_HANDLERS: &[(&str, Known)] = &[
    ("proxy", Known::Forward),
    ("localresponse", Known::Local),
    ("query", Known::Api),
    ("query_range", Known::Api),
    ("series", Known::Api),
    ("labels", Known::Api),
    ("alerts", Known::Api),
    ("admin", Known::Refused),
    ("health", Known::Later("handler health")),
    ("proxycache", Known::Later("caching")),
];
const RULE_HANDLERS: &[(&str, Known)] =
    &[("rule", Known::Forward), ("localresponse", Known::Local)];
const ALB_HANDLERS: &[(&str, Known)] = &[("alb", Known::Forward), ("localresponse", Known::Local)];

/// What counts for all paths of a backend.
struct Common {
    authenticator: Option<AuthenticatorId>,
    rewriter: Option<Arc<Rewriter>>,
    edits: Edits,
    cors: Option<Cors>,
}

/// The table of one backend, in the order of matching.
pub(super) fn compile(
    context: &mut Context<'_>,
    named: Named<'_>,
    live: Live,
    entry: &Entry<'_>,
) -> Vec<PathRule> {
    let authenticators = named.authenticators;
    let at = Path::of(&["backends", entry.name]);
    let own = entry.written;
    let name = own.authenticator_name.as_deref();
    let common = Common {
        authenticator: authenticators.find(context, &at.key("authenticator_name"), name),
        rewriter: named.rewriters.find_outside_rules(
            context,
            &at.key("req_rewriter_name"),
            own.req_rewriter_name.as_deref(),
        ),
        edits: edits::compile(
            context,
            &at,
            Written {
                request_headers: own.request_headers.as_ref(),
                request_params: own.request_params.as_ref(),
                response_headers: own.response_headers.as_ref(),
            },
        ),
        cors: edits::cors(context, &at.key("cors"), own.cors.as_ref()),
    };
    let at = at.key("paths");
    let written = own.paths.as_deref().unwrap_or_default();
    if written.len() > PATHS_MAX {
        let paths_max = PATHS_MAX;
        context.fail_key(&at, Fault::TooManyPaths { paths_max });
        return Vec::new();
    }
    let mut rules: Vec<(usize, PathRule)> = Vec::new();
    for (index, entry) in written.iter().enumerate() {
        let here = at.item(index);
        if context.was_refused(&here) {
            continue;
        }
        let rule = rule(context, named, (&here, entry), live, &common);
        refuse_shared_methods(context, &here, &rules, &rule);
        rules.push((index, rule));
    }
    let mut rules: Vec<PathRule> = rules.into_iter().map(|(_, rule)| rule).collect();
    rules.extend(by_default(&common, &rules));
    if live == Live::Alb && merges(entry) {
        rules.extend(no_admin(&common, &rules));
    }
    // Stable: entries of one path stay in written order.
    rules.sort_by_key(|rule| match rule.matching {
        Matching::Exact => (0, 0),
        Matching::Prefix => (1, usize::MAX - rule.path.len()),
    });
    rules
}

/// The rule of a provider for everything: forward. Entries for the same path take their methods from it.
fn by_default(common: &Common, entries: &[PathRule]) -> Option<PathRule> {
    let mut rule = PathRule::all();
    let all = rule.methods;
    for entry in entries {
        if entry.matching == rule.matching && entry.path == rule.path {
            rule.methods = Methods(rule.methods.0 & !entry.methods.0);
        }
    }
    if rule.methods != all {
        let known = METHODS.iter().map(|(_, method)| *method);
        // A method without a name of its own stands for all of them.
        let others = Methods::default().with(Method::Other);
        let known = known.fold(others, Methods::with);
        rule.methods = Methods(rule.methods.0 & known.0);
    }
    rule.authenticator = common.authenticator;
    rule.edits = boxed(common.edits.clone());
    rule.rewriters = rewriters(&common.rewriter, &None);
    rule.cors = common.cors.clone().unwrap_or(Cors::Legacy);
    (rule.methods != Methods::default()).then_some(rule)
}

fn merges(entry: &Entry<'_>) -> bool {
    let alb = entry.written.alb.as_ref();
    alb.and_then(|alb| alb.mechanism.as_deref())
        .is_some_and(super::graph::is_merge)
}

/// A merge refuses the admin API, which would change one member only, unless an entry says otherwise. Contract:
/// time series page, 1.
fn no_admin(common: &Common, entries: &[PathRule]) -> Option<PathRule> {
    const PATH: &str = "/api/v1/admin";
    if entries.iter().any(|entry| entry.path.starts_with(PATH)) {
        return None;
    }
    let mut edits = Edits::default();
    let json = Edit::set("Content-Type", "application/json");
    edits.response_headers.push(json);
    Some(PathRule {
        path: PATH.into(),
        label: PATH.into(),
        handler: Handler::Local(LocalAnswer {
            status: 400,
            body: Box::from(defaults::REFUSED_API_BODY.as_bytes()),
        }),
        authenticator: common.authenticator,
        cors: common.cors.clone().unwrap_or(Cors::Legacy),
        edits: boxed(edits),
        ..PathRule::all()
    })
}

fn rule(
    context: &mut Context<'_>,
    named: Named<'_>,
    (at, written): (&Path, &PathEntry),
    live: Live,
    common: &Common,
) -> PathRule {
    let path = context.pick_text(&at.key("path"), written.path.as_deref(), defaults::PATH);
    let compared = compared(&path).unwrap_or_else(|reason| {
        context.fail_value(&at.key("path"), Fault::RulePath { reason });
        path.clone()
    });
    let matching = context.pick_text(
        &at.key("match_type"),
        written.match_type.as_deref(),
        defaults::MATCH_TYPE,
    );
    let methods = methods(context, &at.key("methods"), written.methods.clone());
    let handler = handler(context, &at.key("handler"), live, (&path, written));
    let authenticator = match written.authenticator_name.as_deref() {
        None => common.authenticator,
        name => {
            let at = at.key("authenticator_name");
            named.authenticators.find(context, &at, name)
        }
    };
    let rewriter_at = at.key("req_rewriter_name");
    let rewriter = written.req_rewriter_name.as_deref();
    let rewriter = named
        .rewriters
        .find_outside_rules(context, &rewriter_at, rewriter);
    let own = edits::compile(
        context,
        at,
        Written {
            request_headers: written.request_headers.as_ref(),
            request_params: written.request_params.as_ref(),
            response_headers: written.response_headers.as_ref(),
        },
    );
    let mut edits = common.edits.clone();
    edits.request_headers.extend(own.request_headers);
    edits.request_params.extend(own.request_params);
    edits.response_headers.extend(own.response_headers);
    let cors = edits::cors(context, &at.key("cors"), written.cors.as_ref());
    let no_metrics = context.pick(
        &at.key("no_metrics"),
        written.no_metrics,
        defaults::NO_METRICS,
    );
    PathRule {
        path: compared.into(),
        label: path.into(),
        matching: match matching.as_str() {
            "prefix" => Matching::Prefix,
            _ => Matching::Exact,
        },
        methods,
        handler: answer(context, at, written, handler, &mut edits),
        authenticator,
        rewriters: rewriters(&common.rewriter, &rewriter),
        edits: boxed(edits),
        cors: cors.or(common.cors.clone()).unwrap_or(Cors::Legacy),
        counted: !no_metrics,
    }
}

/// The path as requests' are compared with it, or what is wrong with it.
fn compared(path: &str) -> Result<String, &'static str> {
    let ends_early = |at: usize| {
        let digits = path.as_bytes().get(at + 1..at + 3);
        !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !path.starts_with('/') {
        return Err("begin it with /");
    }
    if path
        .chars()
        .any(|c| c.is_control() || matches!(c, '?' | '#' | ';' | '\\'))
    {
        return Err("write it without ?, #, ; and \\, which no path that is compared has");
    }
    if path.match_indices('%').any(|(at, _)| ends_early(at)) {
        return Err("write % as %25 where it encodes nothing");
    }
    if spelling::is_roundabout(path.as_bytes()) {
        return Err("write it without dot segments, requests that have some are refused");
    }
    let plain = String::from_utf8(spelling::plain(path.as_bytes()).into_owned())
        .map_err(|_| "it must be UTF-8 once its percent-encoding is undone")?;
    if plain.contains([';', '\\']) {
        return Err("write it without encoded ; and \\, which servers read in different ways");
    }
    Ok(plain)
}

/// The listed methods; GET takes HEAD along.
fn methods(context: &mut Context<'_>, at: &Path, written: Option<Vec<String>>) -> Methods {
    if written.as_ref().is_some_and(Vec::is_empty) && !context.was_refused_within(at) {
        context.fail_value(at, Fault::EmptyList { what: "method" });
    }
    let listed = context.pick_texts(at, written, defaults::METHODS);
    let mut methods = Methods::default();
    for word in &listed {
        let known = METHODS.iter().find(|(name, _)| name == word);
        methods = match known {
            Some((_, Method::Get)) => methods.with(Method::Get).with(Method::Head),
            Some((_, method)) => methods.with(*method),
            None => methods.union(Methods::ALL),
        };
    }
    methods
}

fn refuse_shared_methods(
    context: &mut Context<'_>,
    at: &Path,
    before: &[(usize, PathRule)],
    rule: &PathRule,
) {
    let same = |(_, other): &&(usize, PathRule)| {
        other.path == rule.path
            && other.matching == rule.matching
            && other.methods.0 & rule.methods.0 != 0
    };
    let Some((other, earlier)) = before.iter().find(same) else {
        return;
    };
    let shared = Methods(earlier.methods.0 & rule.methods.0);
    let shared = METHODS.iter().filter(|(_, method)| {
        Methods(shared.0 & Methods::default().with(*method).0) != Methods::default()
    });
    let methods: Vec<&str> = shared.map(|(name, _)| *name).collect();
    let methods = methods.join(", ");
    let other = *other;
    context.fail_key(at, Fault::PathTwice { methods, other });
}

fn handler(
    context: &mut Context<'_>,
    at: &Path,
    live: Live,
    (path, written): (&str, &PathEntry),
) -> Known {
    let (handlers, preset) = match live {
        Live::Prometheus => (PROMETHEUS_HANDLERS, defaults::HANDLER),
        Live::ReverseProxy => (ORIGIN_HANDLERS, defaults::HANDLER),
        Live::Alb => (ALB_HANDLERS, defaults::ALB_HANDLER),
        Live::Rule => (RULE_HANDLERS, defaults::RULE_HANDLER),
    };
    let word = context.pick_text(at, written.handler.as_deref(), preset);
    let known = handlers.iter().find(|(name, _)| *name == word);
    match known.map(|(_, known)| *known) {
        Some(Known::Later(feature)) => {
            let feature = feature.to_owned();
            context.fail_value(at, Fault::NotBuilt { feature });
            Known::Forward
        }
        Some(known) => {
            if known == Known::Api && !is_path_of(&word, path) {
                let reason = "the API is known by its own path, whatever the handler";
                context.warn_no_effect(at, reason);
            }
            known
        }
        None => {
            let fault = Fault::UnknownHandler {
                hint: schema::hint(&word, handlers.iter().map(|(name, _)| *name)),
                handler: word,
                known: match live {
                    Live::Prometheus => {
                        "proxy, localresponse, query, query_range, series, labels, alerts and admin"
                    }
                    Live::ReverseProxy => "proxy and localresponse",
                    Live::Alb => "alb and localresponse",
                    Live::Rule => "rule and localresponse",
                },
            };
            context.fail_value(at, fault);
            Known::Forward
        }
    }
}

/// Whether a part of the Prometheus API is at this path.
fn is_path_of(handler: &str, path: &str) -> bool {
    let rest = path.strip_prefix("/api/v1/");
    match handler {
        "labels" => rest.is_some_and(|rest| rest == "labels" || rest.starts_with("label/")),
        _ => rest == Some(handler),
    }
}

/// Who answers, with the written status and body; those of a forwarded answer are edits.
fn answer(
    context: &mut Context<'_>,
    at: &Path,
    written: &PathEntry,
    handler: Known,
    edits: &mut Edits,
) -> Handler {
    let body = written.response_body.as_deref();
    if let Some(body) = body {
        context.note_written(&at.key("response_body"), Json::from(body));
    }
    let code_at = at.key("response_code");
    let code = match (handler, written.response_code) {
        (Known::Local, code) => Some(context.pick(&code_at, code, defaults::RESPONSE_CODE)),
        (_, Some(code)) => {
            context.note_written(&code_at, Json::from(code));
            Some(code)
        }
        (_, None) => None,
    };
    if let Some(code @ (204 | 205 | 304)) = code
        && body.is_some_and(|body| !body.is_empty())
    {
        let at = at.key("response_body");
        context.fail_key(&at, Fault::BodyOfEmptyAnswer { code });
    }
    let body = body.map(|body| Box::from(body.as_bytes()));
    match handler {
        Known::Local => {
            drop_request_edits(edits);
            Handler::Local(LocalAnswer {
                status: code.unwrap_or(defaults::RESPONSE_CODE.value),
                body: body.unwrap_or_default(),
            })
        }
        Known::Refused => {
            drop_request_edits(edits);
            let json = Edit::set("Content-Type", "application/json");
            edits.response_headers.insert(0, json);
            Handler::Local(LocalAnswer {
                status: code.unwrap_or(400),
                body: body.unwrap_or_else(|| Box::from(defaults::REFUSED_API_BODY.as_bytes())),
            })
        }
        Known::Forward | Known::Api | Known::Later(_) => {
            edits.response_code = code;
            edits.response_body = body;
            Handler::Forward
        }
    }
}

/// A local answer looks at nothing of the request.
fn drop_request_edits(edits: &mut Edits) {
    edits.request_headers.clear();
    edits.request_params.clear();
}

/// The rewriters of a path: the backend's, then its own.
fn rewriters(
    common: &Option<Arc<Rewriter>>,
    own: &Option<Arc<Rewriter>>,
) -> Option<Box<[Arc<Rewriter>]>> {
    let rewriters: Box<[Arc<Rewriter>]> = common.iter().chain(own).cloned().collect();
    (!rewriters.is_empty()).then_some(rewriters)
}

fn boxed(edits: Edits) -> Option<Box<Edits>> {
    let is_empty = edits.request_headers.is_empty()
        && edits.request_params.is_empty()
        && edits.response_headers.is_empty()
        && edits.response_code.is_none()
        && edits.response_body.is_none();
    (!is_empty).then(|| Box::new(edits))
}
