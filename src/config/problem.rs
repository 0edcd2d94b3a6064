//! What can be wrong with a configuration, and where.
//!
//! Every check of this package returns these; nothing is printed here. The text of a [`Problem`] is
//! `file:line:column: path: message`, one line, whatever an operator wrote.

use std::fmt;
use std::sync::Arc;

/// A point in a source: where a key or value was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// Name of the file as given, or what else set the value, such as `flag -origin-url`.
    pub source: Arc<str>,
    /// Line from 1; 0 when the source has no lines.
    pub line: u32,
    /// Column from 1, in characters; 0 when the source has no lines.
    pub column: u32,
}

impl Mark {
    /// The mark of a source as a whole.
    pub fn whole(source: &str) -> Self {
        Mark {
            source: source.into(),
            line: 0,
            column: 0,
        }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        Ok(())
    }
}

/// A place in the configuration: the point in the source and the path of the key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Where it was written.
    pub mark: Mark,
    /// Keys from the root, such as `backends.web.alb.pool[2]`; empty for the whole document.
    pub path: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.mark.fmt(f)?;
        if !self.path.is_empty() {
            write!(f, ": {}", self.path)?;
        }
        Ok(())
    }
}

/// Why a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub at: Place,
    /// What.
    pub fault: super::Fault,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        one_line(f, &format!("{}: {}", self.at, self.fault))
    }
}

/// What is accepted but probably not meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Where.
    pub at: Place,
    /// What.
    pub caution: super::Caution,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        one_line(f, &format!("{}: {}", self.at, self.caution))
    }
}

/// Writes a text with its control characters escaped: keys and values may hold any.
fn one_line(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    for character in text.chars() {
        match character.is_control() {
            true => write!(f, "{}", character.escape_default())?,
            false => write!(f, "{character}")?,
        }
    }
    Ok(())
}
