//! Environment variables, as a value: read once, handed to whoever expands `${VAR}`.

use std::collections::BTreeMap;

/// The variables.
#[derive(Clone, Debug, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Those of this process. Values that are not UTF-8 are as good as unset.
    pub fn of_process() -> Self {
        let pairs = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Environment(pairs.collect())
    }

    /// These.
    pub fn of_pairs(pairs: &[(&str, &str)]) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Environment(pairs.iter().map(owned).collect())
    }

    /// One value.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Puts values for `$NAME` and `${NAME}`, and `$` for `$$`. Returns the names that are not set too:
    /// nothing stands in their place. A `$` before anything else stays.
    pub(super) fn expand(&self, text: &str) -> (String, Vec<String>) {
        let mut out = String::with_capacity(text.len());
        let mut unset = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            if let Some(next) = after.strip_prefix('$') {
                out.push('$');
                rest = next;
                continue;
            }
            let Some((name, next)) = variable(after) else {
                out.push('$');
                rest = after;
                continue;
            };
            match self.get(name) {
                Some(value) => out.push_str(value),
                None => unset.push(name.to_owned()),
            }
            rest = next;
        }
        out.push_str(rest);
        (out, unset)
    }
}

/// The name after a `$` and what follows it.
fn variable(after: &str) -> Option<(&str, &str)> {
    if let Some(inner) = after.strip_prefix('{') {
        let (name, next) = inner.split_once('}')?;
        return is_name(name).then_some((name, next));
    }
    let len = after
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(after.len());
    let (name, next) = after.split_at(len);
    is_name(name).then_some((name, next))
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_expanded_in_both_forms() {
        let environment = Environment::of_pairs(&[("A", "1"), ("B_2", "two")]);
        for (text, expected) in [
            ("$A", "1"),
            ("${A}", "1"),
            ("x${A}y$B_2.z", "x1ytwo.z"),
            ("$$A", "$A"),
            ("100$", "100$"),
            ("$1 ${} ${A", "$1 ${} ${A"),
            ("é$Aé", "é1é"),
        ] {
            assert_eq!(
                environment.expand(text),
                (expected.to_owned(), vec![]),
                "{text}"
            );
        }
    }

    #[test]
    fn unset_variables_leave_nothing_and_are_named() {
        let environment = Environment::default();
        assert_eq!(
            environment.expand("a${X}b$Y"),
            ("ab".to_owned(), vec!["X".to_owned(), "Y".to_owned()])
        );
    }
}
