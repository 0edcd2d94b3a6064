//! Changes of parameters, in a query or a form.
//!
//! Names are compared as they are meant, with their encoding undone; what no change is about stays byte for
//! byte where it is.

use std::borrow::Cow;

use crate::plan::{Edit, EditAction};

/// The query, or form, with the changes made.
pub(crate) fn rewrite<'e>(query: &[u8], edits: impl Iterator<Item = &'e Edit>) -> Vec<u8> {
    let mut query = query.to_vec();
    for edit in edits {
        if !matches!(edit.action, EditAction::Append(_)) {
            query = without(&query, &edit.name);
        }
        if let EditAction::Set(value) | EditAction::Append(value) = &edit.action {
            if !query.is_empty() {
                query.push(b'&');
            }
            push_encoded(&mut query, &edit.name);
            query.push(b'=');
            push_encoded(&mut query, value);
        }
    }
    query
}

/// Makes the changes to parameters that are decoded already.
pub(crate) fn edit<'e>(
    parameters: &mut Vec<(String, String)>,
    edits: impl Iterator<Item = &'e Edit>,
) {
    for edit in edits {
        if !matches!(edit.action, EditAction::Append(_)) {
            parameters.retain(|(name, _)| **name != *edit.name);
        }
        if let EditAction::Set(value) | EditAction::Append(value) = &edit.action {
            parameters.push((edit.name.to_string(), value.to_string()));
        }
    }
}

fn without(query: &[u8], name: &str) -> Vec<u8> {
    let mut kept = Vec::with_capacity(query.len());
    let mut is_first = true;
    for pair in query.split(|&byte| byte == b'&') {
        if is_named(pair, name) {
            continue;
        }
        if !is_first {
            kept.push(b'&');
        }
        is_first = false;
        kept.extend_from_slice(pair);
    }
    kept
}

pub(super) fn is_named(pair: &[u8], name: &str) -> bool {
    let raw = pair.split(|&byte| byte == b'=').next().unwrap_or_default();
    if !raw.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return !raw.is_empty() && raw == name.as_bytes();
    }
    let mut parsed = form_urlencoded::parse(raw);
    parsed
        .next()
        .is_some_and(|(found, _): (Cow<'_, str>, _)| found == name)
}

fn push_encoded(out: &mut Vec<u8>, text: &str) {
    for piece in form_urlencoded::byte_serialize(text.as_bytes()) {
        out.extend_from_slice(piece.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_change_is_about_stays_as_it_is() {
        let cases: [(&str, Edit, &str); 10] = [
            ("a=1&b=%7e&c", Edit::remove("a"), "b=%7e&c"),
            ("a=1&b=2&a=3", Edit::remove("a"), "b=2"),
            ("%61=1&b=2", Edit::remove("a"), "b=2"),
            ("a+b=1&c", Edit::remove("a b"), "c"),
            ("a=1", Edit::remove("a"), ""),
            ("a=1", Edit::remove("A"), "a=1"),
            ("a=1&&b=%zz", Edit::remove("c"), "a=1&&b=%zz"),
            ("a=1&b=2", Edit::set("a", "x y&"), "b=2&a=x+y%26"),
            ("", Edit::set("a", "1"), "a=1"),
            ("a=1", Edit::append("a", "2"), "a=1&a=2"),
        ];
        for (query, edit, expected) in cases {
            let rewritten = rewrite(query.as_bytes(), std::iter::once(&edit));
            assert_eq!(String::from_utf8_lossy(&rewritten), expected, "{query}");
        }
    }

    #[test]
    fn decoded_parameters_change_alike() {
        let mut parameters = vec![("a".to_owned(), "1".to_owned()), ("b".into(), "2".into())];
        let edits = [
            Edit::set("a", "3"),
            Edit::append("b", "4"),
            Edit::remove("c"),
        ];
        edit(&mut parameters, edits.iter());
        let text: Vec<String> = parameters.iter().map(|(n, v)| format!("{n}={v}")).collect();
        assert_eq!(text.join("&"), "b=2&a=3&b=4");
    }
}
