//! Changes of header lines that are written already.
//!
//! A head is written as if nothing were to be changed, and what rules want is done to its lines afterwards: a
//! request that no rule changes pays nothing.

use ringway_io::net::http1::{KnownHeader, write};

use crate::plan::{Edit, EditAction};

/// Makes the changes to the header lines `out[start..]`. Names that `editable` refuses stay as they are.
pub(super) fn apply<'e>(
    out: &mut Vec<u8>,
    start: usize,
    edits: impl Iterator<Item = &'e Edit>,
    editable: impl Fn(KnownHeader) -> bool,
) {
    for edit in edits {
        let name = edit.name.as_bytes();
        if !editable(KnownHeader::classify(name)) {
            continue;
        }
        match &edit.action {
            EditAction::Set(value) => {
                remove(out, start, name);
                write::header(out, name, value.as_bytes());
            }
            EditAction::Append(value) => write::header(out, name, value.as_bytes()),
            EditAction::Remove => remove(out, start, name),
        }
    }
}

/// Takes all lines of this name, in any case, out of `out[start..]`.
fn remove(out: &mut Vec<u8>, start: usize, name: &[u8]) {
    remove_if(out, start, |other| other.eq_ignore_ascii_case(name));
}

/// Takes the lines out of `out[start..]` whose names are these.
pub(crate) fn remove_if(out: &mut Vec<u8>, start: usize, is_meant: impl Fn(&[u8]) -> bool) {
    let (mut from, mut to) = (start, start);
    while from < out.len() {
        let line = line(&out[from..]);
        let end = from + line.len();
        if !is_meant(name_of(line)) {
            if to < from {
                out.copy_within(from..end, to);
            }
            to += end - from;
        }
        from = end;
    }
    out.truncate(to);
}

/// The values of the lines of this name, in any case.
pub(crate) fn values<'l>(lines: &'l [u8], name: &[u8]) -> impl Iterator<Item = &'l [u8]> {
    let mut rest = lines;
    let all = std::iter::from_fn(move || {
        let first = line(rest);
        rest = &rest[first.len()..];
        (!first.is_empty()).then_some(first)
    });
    all.filter(move |line| name_of(line).eq_ignore_ascii_case(name))
        .map(|line| line[name_of(line).len() + 1..].trim_ascii())
}

/// The first line, with its end.
fn line(lines: &[u8]) -> &[u8] {
    let end = lines.iter().position(|&byte| byte == b'\n');
    &lines[..end.map_or(lines.len(), |end| end + 1)]
}

fn name_of(line: &[u8]) -> &[u8] {
    line.split(|&byte| byte == b':').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_change_by_name_whatever_its_case() {
        let edit = |name: &str, action| Edit {
            name: name.into(),
            action,
        };
        let (one, two) = ("1".to_owned(), "2".to_owned());
        let cases = [
            (edit("x-a", EditAction::Remove), "B: 1\r\nX-Ab: 1\r\n"),
            (
                edit("x-A", EditAction::Set(two.clone().into())),
                "B: 1\r\nX-Ab: 1\r\nx-A: 2\r\n",
            ),
            (
                edit("B", EditAction::Append(two.into())),
                "X-A: 1\r\nB: 1\r\nX-a: 3\r\nX-Ab: 1\r\nB: 2\r\n",
            ),
            (
                edit("Connection", EditAction::Set(one.into())),
                "X-A: 1\r\nB: 1\r\nX-a: 3\r\nX-Ab: 1\r\n",
            ),
        ];
        for (edit, expected) in cases {
            let mut out = b"GET / HTTP/1.1\r\n".to_vec();
            let start = out.len();
            out.extend_from_slice(b"X-A: 1\r\nB: 1\r\nX-a: 3\r\nX-Ab: 1\r\n");
            apply(&mut out, start, std::iter::once(&edit), |known| {
                !known.is_hop_by_hop()
            });
            let text = String::from_utf8_lossy(&out[start..]);
            assert_eq!(text, expected, "{edit:?}");
        }
    }
}
