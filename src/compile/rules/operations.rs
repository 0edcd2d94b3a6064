//! Operations of rules with their operands read. Contract: rule page, 5.

use ringway_shards::plan::{Check, Comparison, Digest, Operation};

use super::dialect;

/// What may be asked of each type of input.
const KNOWN: &[(&str, &[&str])] = &[
    (
        "string",
        &[
            "eq",
            "contains",
            "prefix",
            "suffix",
            "rmatch",
            "md5",
            "sha1",
            "base64",
            "modulo",
            "hash_modulo",
        ],
    ),
    ("num", &["eq", "gt", "lt", "ge", "le", "bt", "modulo"]),
    ("bool", &["eq"]),
];

/// An operation as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Written {
    /// Type of the input.
    pub(super) kind: String,
    /// Name of the operation, without its sign.
    pub(super) name: String,
    /// Begun by a `!`.
    pub(super) negated: bool,
}

impl Written {
    /// Reads it.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(super) fn of(kind: &str, operation: &str) -> Result<Written, String> {
        let operation = operation.to_ascii_lowercase();
        let (name, negated) = match operation.strip_prefix('!') {
            Some(name) => (name, true),
            None => (operation.as_str(), false),
        };
        let known = KNOWN.iter().find(|(known, _)| *known == kind);
        let known = known.map_or(&[][..], |(_, names)| names);
        if !known.contains(&name) {
            let hint = crate::config::schema::hint(name, known.iter().copied());
            let known = known.join(", ");
            return Err(format!(
                "operation {name:?} of type {kind} is unknown{hint}; known are {known}"
            ));
        }
        let written = Written {
            kind: kind.to_owned(),
            name: name.to_owned(),
            negated,
        };
        match negated && !written.is_truth() {
            true => Err(format!(
                "the result of {name} is neither true nor false: remove the !"
            )),
            false => Ok(written),
        }
    }

    /// Whether the result is true or false.
    fn is_truth(&self) -> bool {
        self.digest().is_none() && !self.is_remainder()
    }

    fn is_remainder(&self) -> bool {
        matches!(self.name.as_str(), "modulo" | "hash_modulo")
    }

    /// Whether it is one for equality of texts, which can be looked up.
    pub(super) fn is_equality(&self) -> bool {
        self.kind == "string" && self.name == "eq" && !self.negated
    }

    /// Whether it is one for how texts begin (`false`) or end (`true`), which can be looked up by length.
    pub(super) fn is_of_ends(&self) -> Option<bool> {
        match self.name.as_str() {
            "prefix" if !self.negated => Some(false),
            "suffix" if !self.negated => Some(true),
            _ => None,
        }
    }

    /// Which digest it takes.
    pub(super) fn digest(&self) -> Option<Digest> {
        match self.name.as_str() {
            "md5" => Some(Digest::Md5),
            "sha1" => Some(Digest::Sha1),
            "base64" => Some(Digest::Base64),
            _ => None,
        }
    }

    /// What it is without an `operation_arg`, beside this value of a case.
    ///
    /// # Errors
    /// When it needs one.
    pub(super) fn beside(&self, value: &str) -> Result<Check, String> {
        if self.name == "rmatch" || self.is_remainder() {
            let name = &self.name;
            return Err(format!("operation {name} needs an operation_arg"));
        }
        let operation = match self.digest() {
            Some(digest) => Operation::DigestIs(digest, value.into()),
            None => self.operation(value)?,
        };
        Ok(self.check(operation))
    }

    /// What it is with this `operation_arg`.
    ///
    /// # Errors
    /// When it cannot be.
    pub(super) fn with(&self, operand: &str) -> Result<Check, String> {
        let operation = match self.digest() {
            Some(digest) => Operation::Digest(digest),
            None => self.operation(operand)?,
        };
        Ok(self.check(operation))
    }

    fn check(&self, operation: Operation) -> Check {
        Check {
            operation,
            negated: self.negated,
        }
    }

    fn operation(&self, operand: &str) -> Result<Operation, String> {
        let text = || operand.into();
        let number = || operand.parse::<f64>().ok();
        let comparison = |comparison| {
            number().map_or(Operation::Unreadable, |number| {
                Operation::Number(comparison, number)
            })
        };
        Ok(match (self.kind.as_str(), self.name.as_str()) {
            ("string", "eq") => Operation::Equal(text()),
            ("string", "contains") => Operation::Contains(text()),
            ("string", "prefix") => Operation::Prefix(text()),
            ("string", "suffix") => Operation::Suffix(text()),
            ("string", "rmatch") => {
                let regex = dialect::compile(operand);
                let regex =
                    regex.map_err(|reason| format!("not a regular expression: {reason}"))?;
                Operation::Matches(Box::new(regex))
            }
            ("string", "modulo") => match operand.parse::<i64>() {
                Ok(0) => return Err(by_zero()),
                Ok(divisor) => Operation::Modulo(divisor),
                Err(_) => Operation::Unreadable,
            },
            ("string", "hash_modulo") => match operand.parse::<u64>() {
                Ok(0) => return Err(by_zero()),
                Ok(divisor) => Operation::HashModulo(divisor),
                Err(_) => return Err(format!("{operand:?} is not a whole number from 1")),
            },
            ("num", "eq") => comparison(Comparison::Equal),
            ("num", "gt") => comparison(Comparison::Greater),
            ("num", "lt") => comparison(Comparison::Less),
            ("num", "ge") => comparison(Comparison::AtLeast),
            ("num", "le") => comparison(Comparison::AtMost),
            ("num", "bt") => match bounds(operand) {
                Some((low, high)) => Operation::Between(low, high),
                None => Operation::Unreadable,
            },
            ("num", "modulo") => match number().map(|number| number.trunc() as i64) {
                Some(0) => return Err(by_zero()),
                Some(divisor) => Operation::NumberModulo(divisor),
                None => Operation::Unreadable,
            },
            ("bool", "eq") => match operand {
                "1" | "t" | "T" | "TRUE" | "true" | "True" => Operation::Bool(true),
                "0" | "f" | "F" | "FALSE" | "false" | "False" => Operation::Bool(false),
                _ => Operation::Unreadable,
            },
            _ => Operation::Unreadable,
        })
    }
}

fn by_zero() -> String {
    "nothing can be divided by 0".into()
}

/// `lo..hi`, or `lo-hi` cut at the first `-` that is not the first sign.
fn bounds(text: &str) -> Option<(f64, f64)> {
    let cut = || {
        let at = text.get(1..)?.find('-')? + 1;
        Some((&text[..at], &text[at + 1..]))
    };
    let (low, high) = text.split_once("..").or_else(cut)?;
    let number = |text: &str| text.trim().parse::<f64>().ok();
    Some((number(low)?, number(high)?))
}
