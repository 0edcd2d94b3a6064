//! Section `logging`.

use serde::Deserialize;

use super::schema::{Key, Kind};

/// Words for levels. Contract: config page, 2.
pub const LEVELS: &[&str] = &["error", "warn", "fatal", "info", "debug"];

/// Keys of the section.
pub const KEYS: &[Key] = &[
    Key::new("logging", Kind::Section),
    Key::new("logging.log_level", Kind::ChoiceAnyCase(LEVELS)),
    Key::new("logging.log_file", Kind::Text),
];

/// Section `logging` as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Logging {
    /// Lowest level written.
    pub log_level: Option<String>,
    /// File; standard output without one.
    pub log_file: Option<String>,
}
