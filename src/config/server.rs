//! Section `main`.

use serde::Deserialize;

use super::schema::{Key, Kind};

/// Keys of the section.
pub const KEYS: &[Key] = &[
    Key::new("main", Kind::Section),
    Key::new(
        "main.instance_id",
        Kind::Int {
            min: 0,
            max: 65_535,
        },
    ),
    Key::new("main.server_name", Kind::Text),
    Key::new("main.config_include_directory", Kind::Text),
];

/// Section `main` as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Main {
    /// Tells several processes' log files apart.
    pub instance_id: Option<u32>,
    /// Name in `Via` and `Forwarded`.
    pub server_name: Option<String>,
    /// Folder of further files.
    pub config_include_directory: Option<String>,
}
