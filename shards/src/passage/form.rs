//! Changes of the parameters of a form, made a piece at a time: one that is long never takes a turn's time at once.
//!
//! What comes out is what [`params::rewrite`] would make of the whole.

use ringway_io::net::http1::{BodyFraming, KnownHeader, RequestHead};
use ringway_io::task::Turns;

use super::params;
use crate::capture::{Segments, WORK_PER_TURN};
use crate::plan::{Edit, EditAction};

/// Bytes between two looks at the time.
const STEP_BYTES: usize = 1024;
/// Work of one comparison of names, in bytes that are copied meanwhile.
const COMPARISON_WORK: u64 = 16;
/// Most bytes that one byte of a name takes in a form.
const ENCODED_BYTES_MAX: usize = 3;

/// Whether a content type is that of a form.
pub(crate) fn is_form(content_type: &[u8]) -> bool {
    essence(content_type).eq_ignore_ascii_case(b"application/x-www-form-urlencoded")
}

/// Whether a content type is that of a form in parts.
pub(crate) fn is_in_parts(content_type: &[u8]) -> bool {
    essence(content_type).eq_ignore_ascii_case(b"multipart/form-data")
}

/// A content type without its parameters.
fn essence(content_type: &[u8]) -> &[u8] {
    let essence = content_type.split(|&byte| byte == b';').next();
    essence.unwrap_or_default().trim_ascii()
}

/// Whether a request has a body that is a form, readable as it comes.
pub(crate) fn has_form((head, bytes): (&RequestHead, &[u8])) -> bool {
    let value = |known| head.first(bytes, known).unwrap_or_default();
    !matches!(head.framing(), BodyFraming::None | BodyFraming::Length(0))
        && is_form(value(KnownHeader::ContentType))
        && value(KnownHeader::ContentEncoding).is_empty()
}

/// The form with the changes made.
pub(crate) async fn edit<'e, P: AsRef<[u8]>>(
    pieces: &[P],
    edits: impl Iterator<Item = &'e Edit>,
    turns: &Turns,
) -> Segments {
    let mut form = Form::new(edits);
    for step in pieces
        .iter()
        .flat_map(|piece| piece.as_ref().chunks(STEP_BYTES))
    {
        turns.before_more_than(WORK_PER_TURN).await;
        turns.work(form.push(step));
    }
    form.finish()
}

/// A form on its way through.
struct Form<'e> {
    edits: Vec<&'e Edit>,
    /// What is longer, as it is written, is none of the names that go.
    name_bytes_max: usize,
    /// The beginning of a name.
    held: Vec<u8>,
    at: At,
    /// A pair has stayed.
    has_begun: bool,
    out: Segments,
}

/// Where in a pair the next byte belongs.
#[derive(Clone, Copy)]
enum At {
    Name,
    /// In one that stays.
    Kept,
    /// In one that goes.
    Gone,
}

/// Whether a change takes away what is there.
fn replaces(edit: &Edit) -> bool {
    !matches!(edit.action, EditAction::Append(_))
}

impl<'e> Form<'e> {
    fn new(edits: impl Iterator<Item = &'e Edit>) -> Form<'e> {
        let edits: Vec<&Edit> = edits.collect();
        let names = edits.iter().filter(|edit| replaces(edit));
        let longest = names.map(|edit| edit.name.len()).max().unwrap_or(0);
        Form {
            edits,
            name_bytes_max: longest * ENCODED_BYTES_MAX,
            held: Vec::new(),
            at: At::Name,
            has_begun: false,
            out: Segments::default(),
        }
    }

    /// Takes more of it; how much work that was.
    fn push(&mut self, mut data: &[u8]) -> u64 {
        let mut work = data.len() as u64;
        while !data.is_empty() {
            match self.at {
                At::Name => {
                    let room = (self.name_bytes_max + 1).saturating_sub(self.held.len());
                    let window = &data[..data.len().min(room)];
                    let end = window.iter().position(|byte| matches!(byte, b'=' | b'&'));
                    let name = &window[..end.unwrap_or(window.len())];
                    self.held.extend_from_slice(name);
                    data = &data[name.len()..];
                    if end.is_some() || self.held.len() > self.name_bytes_max {
                        work += self.decide();
                    }
                }
                At::Kept | At::Gone => {
                    let end = data.iter().position(|&byte| byte == b'&');
                    let rest = &data[..end.unwrap_or(data.len())];
                    if matches!(self.at, At::Kept) {
                        self.out.push(rest);
                    }
                    data = &data[rest.len()..];
                    if end.is_some() {
                        data = &data[1..];
                        self.at = At::Name;
                    }
                }
            }
        }
        work
    }

    /// The name is here, or too long to be one that goes.
    fn decide(&mut self) -> u64 {
        let mut names = self.edits.iter().filter(|edit| replaces(edit));
        if names.any(|edit| params::is_named(&self.held, &edit.name)) {
            self.at = At::Gone;
        } else {
            self.at = At::Kept;
            if self.has_begun {
                self.out.push(b"&");
            }
            self.has_begun = true;
            self.out.push(&self.held);
        }
        self.held.clear();
        self.edits.len() as u64 * COMPARISON_WORK
    }

    fn finish(mut self) -> Segments {
        if matches!(self.at, At::Name) {
            self.decide();
        }
        let added = params::rewrite(b"", self.edits.iter().copied());
        if !added.is_empty() && self.out.len() > 0 {
            self.out.push(b"&");
        }
        self.out.push(&added);
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(name: &str, action: EditAction) -> Edit {
        Edit {
            name: name.into(),
            action,
        }
    }

    #[test]
    fn a_form_in_pieces_comes_out_as_it_would_whole() {
        let edits = [
            edit("a", EditAction::Set("x y&".into())),
            edit("b c", EditAction::Remove),
            edit("d", EditAction::Append("2".into())),
            edit("ä", EditAction::Remove),
        ];
        for text in [
            "",
            "a",
            "a=1",
            "e=1",
            "a=1&e=2&a=3",
            "e=1&a=2",
            "%61=1&b+c=2&b%20c&d=1",
            "b+c=2",
            "e=1&&f",
            "&",
            "e&",
            "&e",
            "=1&a==2",
            "%C3%A4=1&%c3%a4&%C3=2",
            "a-name-that-is-longer-than-any-that-goes=1&a=1",
            "e=a=b&a-=1&aa=2",
        ] {
            let whole = params::rewrite(text.as_bytes(), edits.iter());
            for step in [1, 2, 3, 7, 100] {
                let mut form = Form::new(edits.iter());
                text.as_bytes().chunks(step).for_each(|piece| {
                    form.push(piece);
                });
                let out = form.finish().into_one();
                let (out, whole) = (
                    String::from_utf8_lossy(&out),
                    String::from_utf8_lossy(&whole),
                );
                assert_eq!(out, whole, "{text:?} by {step}");
            }
        }
    }

    #[test]
    fn a_form_is_known_by_its_content_type() {
        assert!(is_form(b"application/x-www-form-urlencoded"));
        assert!(is_form(
            b"Application/X-WWW-Form-URLencoded ; charset=utf-8"
        ));
        assert!(!is_form(b"multipart/form-data; boundary=x"));
        assert!(is_in_parts(b"Multipart/Form-Data ; boundary=x"));
        assert!(!is_in_parts(b"multipart/mixed"));
        assert!(!is_form(b""));
    }
}
