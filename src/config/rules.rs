//! Section `rules`.

use serde::Deserialize;

use super::schema::{Key, Kind, Providers};

/// Parts of a request that a rule may look at.
pub const SOURCES: &[&str] = &[
    "url",
    "url_no_params",
    "scheme",
    "host",
    "hostname",
    "port",
    "path",
    "params",
    "param",
    "header",
    "method",
];
/// Status codes that send a client elsewhere.
const REDIRECTS: Kind = Kind::Choice(&["301", "302", "303", "307", "308"]);

/// Keys of the section, and the one that names an entry.
pub const KEYS: &[Key] = &[
    Key::new("rules", Kind::Names),
    Key::new("rules.*", Kind::Section),
    Key::new("rules.*.input_source", Kind::Choice(SOURCES)),
    Key::new("rules.*.input_key", Kind::Text),
    Key::new(
        "rules.*.input_type",
        Kind::ChoiceAnyCase(&["string", "num", "bool"]),
    ),
    Key::new("rules.*.input_encoding", Kind::Text),
    Key::new(
        "rules.*.input_index",
        Kind::Int {
            min: -1,
            max: 65_535,
        },
    ),
    Key::new("rules.*.input_delimiter", Kind::Text),
    Key::new("rules.*.operation", Kind::Text),
    Key::new("rules.*.operation_arg", Kind::Text),
    Key::new("rules.*.next_route", Kind::Text),
    Key::new("rules.*.redirect_url", Kind::Text),
    Key::new("rules.*.redirect_code", REDIRECTS),
    Key::new("rules.*.ingress_req_rewriter_name", Kind::Text),
    Key::new("rules.*.egress_req_rewriter_name", Kind::Text),
    Key::new("rules.*.nomatch_req_rewriter_name", Kind::Text),
    Key::new(
        "rules.*.max_rule_executions",
        Kind::Int { min: 0, max: 256 },
    ),
    Key::new("rules.*.match_policy", Kind::Choice(&["last", "first"])),
    Key::new("rules.*.cases", Kind::Items),
    Key::new("rules.*.cases.[]", Kind::Section),
    Key::new("rules.*.cases.[].matches", Kind::Texts),
    Key::new("rules.*.cases.[].next_route", Kind::Text),
    Key::new("rules.*.cases.[].redirect_url", Kind::Text),
    Key::new("rules.*.cases.[].redirect_code", REDIRECTS),
    Key::new("rules.*.cases.[].req_rewriter_name", Kind::Text),
    Key::new("backends.*.rule_name", Kind::Text).only(Providers::Rule),
];

/// One entry of the section as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Which part of the request is looked at.
    pub input_source: Option<String>,
    /// Which header or parameter.
    pub input_key: Option<String>,
    /// As what it is read.
    pub input_type: Option<String>,
    /// How it is encoded.
    pub input_encoding: Option<String>,
    /// Which piece of it.
    pub input_index: Option<i64>,
    /// What stands between the pieces.
    pub input_delimiter: Option<String>,
    /// What is asked of it.
    pub operation: Option<String>,
    /// Asked once with this.
    pub operation_arg: Option<String>,
    /// Where requests go that no case takes.
    pub next_route: Option<String>,
    /// Where clients are sent then.
    pub redirect_url: Option<String>,
    /// With this status.
    pub redirect_code: Option<String>,
    /// Runs first.
    pub ingress_req_rewriter_name: Option<String>,
    /// Runs last.
    pub egress_req_rewriter_name: Option<String>,
    /// Runs when no case matches.
    pub nomatch_req_rewriter_name: Option<String>,
    /// Most rules that a request may pass; 0: the default.
    pub max_rule_executions: Option<u16>,
    /// Which of several cases that match decides.
    pub match_policy: Option<String>,
    /// Its cases, in written order.
    pub cases: Option<Vec<Case>>,
}

/// One case as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Values that it takes.
    pub matches: Option<Vec<String>>,
    /// Where requests go then.
    pub next_route: Option<String>,
    /// Where clients are sent then.
    pub redirect_url: Option<String>,
    /// With this status.
    pub redirect_code: Option<String>,
    /// Runs when it matches.
    pub req_rewriter_name: Option<String>,
}
