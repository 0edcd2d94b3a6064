//! Section `request_rewriters`.

use serde::Deserialize;

use super::schema::{Key, Kind};

/// Keys of the section, and those that name one of its entries.
pub const KEYS: &[Key] = &[
    Key::new("request_rewriters", Kind::Names),
    Key::new("request_rewriters.*", Kind::Section),
    Key::new("request_rewriters.*.instructions", Kind::Rows).secret(),
    Key::new("backends.*.req_rewriter_name", Kind::Text),
    Key::new("backends.*.paths.[].req_rewriter_name", Kind::Text),
];

/// One entry of the section as written.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rewriter {
    /// What it does: type, operation and texts of each instruction.
    pub instructions: Option<Vec<Vec<String>>>,
}

// Without the texts, which may be credentials.
impl std::fmt::Debug for Rewriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.instructions.as_ref().map_or(0, Vec::len);
        f.debug_struct("Rewriter")
            .field("instructions", &count)
            .finish()
    }
}
