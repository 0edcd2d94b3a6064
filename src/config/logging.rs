//! Section `logging`.

use std::path::PathBuf;

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

/// The log file's name with the instance number in it: `a.log` becomes `a.3.log`.
pub fn file_name(name: &str, instance: u32) -> PathBuf {
    let path = PathBuf::from(name);
    if instance == 0 {
        return path;
    }
    match path.extension() {
        Some(extension) => {
            let extension = format!("{instance}.{}", extension.to_string_lossy());
            path.with_extension(extension)
        }
        None => PathBuf::from(format!("{name}.{instance}")),
    }
}
