//! Walks a JSON document strictly and in steps, and cuts it into items as a shape says.
//!
//! The whole text is checked (grammar, UTF-8, depth), so that any piece of it may be written again as
//! it is. Nothing is copied: items and fields are slices. Called by [`super::read`].
//!
//! Bounds: a step ends after its budget, a string is at most [`STRING_BYTES_MAX`] long,
//! [`DOCUMENT_DEPTH_MAX`] and [`FIELDS_PER_ITEM_MAX`].

use crate::error::MemberFailure;
use crate::limits::{DOCUMENT_DEPTH_MAX, FIELDS_PER_ITEM_MAX, STRING_BYTES_MAX};

/// What of a value is cut out.
#[derive(Debug)]
pub(super) struct Shape {
    form: Form,
    /// The list that takes values of this shape as items.
    tag: Option<usize>,
}

#[derive(Debug)]
enum Form {
    /// Anything, kept as it is written.
    Whole,
    /// An object, with shapes for some of its members.
    Object(&'static [(&'static str, Shape)]),
    /// An array of values of one shape.
    Array(&'static Shape),
    /// An object of values of one shape, by any name.
    Map(&'static Shape),
}

impl Shape {
    /// Items of any kind.
    pub(super) const fn whole(tag: usize) -> Self {
        Self {
            form: Form::Whole,
            tag: Some(tag),
        }
    }

    /// Objects whose members are fields; those that are named here are cut further.
    pub(super) const fn object(
        tag: Option<usize>,
        members: &'static [(&'static str, Shape)],
    ) -> Self {
        Self {
            form: Form::Object(members),
            tag,
        }
    }

    /// Arrays.
    pub(super) const fn array(tag: Option<usize>, of: &'static Shape) -> Self {
        Self {
            form: Form::Array(of),
            tag,
        }
    }

    /// Objects with keys that are names of something.
    pub(super) const fn map(of: &'static Shape) -> Self {
        Self {
            form: Form::Map(of),
            tag: None,
        }
    }

    fn member(&self, key: &[u8]) -> Option<&'static Shape> {
        match self.form {
            Form::Object(members) => {
                let bare = key.get(1..key.len().saturating_sub(1)).unwrap_or_default();
                let found = members.iter().find(|(name, _)| name.as_bytes() == bare);
                found.map(|(_, shape)| shape)
            }
            Form::Array(of) | Form::Map(of) => Some(of),
            Form::Whole => None,
        }
    }

    fn allows(&self, opening: u8) -> bool {
        match self.form {
            Form::Whole => true,
            Form::Array(_) => opening == b'[',
            Form::Object(_) | Form::Map(_) => opening == b'{',
        }
    }
}

/// A member of an object that is cut: its quoted key and its value, as they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field<'a> {
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
}

impl Field<'_> {
    /// Whether this is the field of that name.
    pub(super) fn is(&self, name: &str) -> bool {
        self.key.get(1..self.key.len().saturating_sub(1)) == Some(name.as_bytes())
    }
}

/// An item that was met.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut<'w, 'a> {
    /// Its quoted key, where it is a member of an object.
    pub(super) key: &'a [u8],
    /// All of it.
    pub(super) raw: &'a [u8],
    /// Its members, where it is an object that is cut.
    pub(super) fields: &'w [Field<'a>],
}

impl<'a> Cut<'_, 'a> {
    /// The value of a member.
    pub(super) fn field(&self, name: &str) -> Option<&'a [u8]> {
        let found = self.fields.iter().find(|field| field.is(name));
        found.map(|field| field.value)
    }
}

/// What [`Walker::next`] came to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Met<'w, 'a> {
    /// An item for the list of this number.
    Item(usize, Cut<'w, 'a>),
    /// A member of the outermost object is over.
    Member(Field<'a>),
    /// The budget is used up.
    Paused,
    /// The document is over.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expects {
    Value,
    Key,
    Colon,
    /// The next member or item, or the end of the container.
    Next,
    End,
}

/// A container that is open.
#[derive(Debug, Clone, Copy)]
struct Level<'a> {
    is_object: bool,
    shape: Option<&'static Shape>,
    start: usize,
    key: &'a [u8],
    fields_from: usize,
    is_fresh: bool,
}

/// Walks one document.
#[derive(Debug)]
pub(super) struct Walker<'a> {
    body: &'a [u8],
    at: usize,
    /// How far the string that begins at `at` is read, while one is.
    scanned: usize,
    expects: Expects,
    levels: Vec<Level<'a>>,
    /// Members of the open objects that are cut.
    fields: Vec<Field<'a>>,
    /// Where fields end that the last item had.
    fields_end: usize,
    /// Key of the value that is expected.
    key: &'a [u8],
    root: &'static Shape,
}

type Outcome<T> = Result<T, MemberFailure>;

impl<'a> Walker<'a> {
    /// Starts at the beginning of `body`, which has the shape `root`.
    pub(super) fn new(body: &'a [u8], root: &'static Shape) -> Self {
        Self {
            body,
            at: 0,
            scanned: 0,
            expects: Expects::Value,
            levels: Vec::new(),
            fields: Vec::new(),
            fields_end: 0,
            key: b"",
            root,
        }
    }

    /// The place reached.
    pub(super) fn at(&self) -> usize {
        self.at.max(self.scanned)
    }

    /// Goes on until something is met or about `until` is reached.
    pub(super) fn next(&mut self, until: usize) -> Outcome<Met<'_, 'a>> {
        self.fields.truncate(self.fields_end);
        loop {
            if self.at() >= until.max(1) {
                return Ok(Met::Paused);
            }
            if !self.skip_space(until) {
                continue;
            }
            let done = match self.expects {
                Expects::End if self.at < self.body.len() => {
                    return Err(self.bad("text after the answer"));
                }
                Expects::End => return Ok(Met::End),
                Expects::Next => self.next_member()?,
                Expects::Key => self.key(until)?,
                Expects::Colon => self.colon()?,
                Expects::Value => self.value(until)?,
            };
            let Some(done) = done else { continue };
            if let Some(met) = self.note(done)? {
                return Ok(match met {
                    Noted::Item(tag, from) => Met::Item(
                        tag,
                        Cut {
                            key: done.key,
                            raw: done.raw,
                            fields: &self.fields[from..],
                        },
                    ),
                    Noted::Member(field) => Met::Member(field),
                });
            }
            self.fields.truncate(self.fields_end);
        }
    }

    pub(super) fn bad(&self, problem: &'static str) -> MemberFailure {
        MemberFailure::Malformed {
            at: self.at,
            problem,
        }
    }

    fn peek(&self) -> Option<u8> {
        self.body.get(self.at).copied()
    }

    /// Returns whether something else than space was reached within the budget.
    fn skip_space(&mut self, until: usize) -> bool {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            if self.at >= until {
                return false;
            }
            self.at += 1;
        }
        true
    }

    /// Goes on to the next member or item, or ends the container.
    fn next_member(&mut self) -> Outcome<Option<Done<'a>>> {
        let Some(level) = self.levels.last_mut() else {
            self.expects = Expects::End;
            return Ok(None);
        };
        let close = if level.is_object { b'}' } else { b']' };
        let is_fresh = std::mem::replace(&mut level.is_fresh, false);
        let expects = match level.is_object {
            true => Expects::Key,
            false => Expects::Value,
        };
        match self.body.get(self.at) {
            Some(byte) if *byte == close => return Ok(self.close()),
            Some(b',') if !is_fresh => self.at += 1,
            Some(_) if is_fresh => {}
            Some(_) => return Err(self.bad("expected a comma")),
            None => return Err(self.bad("unexpected end")),
        }
        self.key = b"";
        self.expects = expects;
        Ok(None)
    }

    fn key(&mut self, until: usize) -> Outcome<Option<Done<'a>>> {
        if self.peek() != Some(b'"') {
            return Err(self.bad("expected a key"));
        }
        if let Some(key) = self.string(until)? {
            self.key = key;
            self.expects = Expects::Colon;
        }
        Ok(None)
    }

    fn colon(&mut self) -> Outcome<Option<Done<'a>>> {
        if self.peek() != Some(b':') {
            return Err(self.bad("expected a colon"));
        }
        self.at += 1;
        self.expects = Expects::Value;
        Ok(None)
    }

    fn close(&mut self) -> Option<Done<'a>> {
        self.at += 1;
        let level = self.levels.pop()?;
        self.expects = if self.levels.is_empty() {
            Expects::End
        } else {
            Expects::Next
        };
        Some(Done {
            key: level.key,
            raw: &self.body[level.start..self.at],
            shape: level.shape,
            fields_from: level.fields_from,
        })
    }

    /// The shape of the value that begins here.
    fn shape(&self) -> Option<&'static Shape> {
        match self.levels.last() {
            Some(level) => level.shape?.member(self.key),
            None => Some(self.root),
        }
    }

    /// Opens a container, or reads a value that is none.
    fn value(&mut self, until: usize) -> Outcome<Option<Done<'a>>> {
        let (start, shape) = (self.at, self.shape());
        let Some(byte) = self.peek() else {
            return Err(self.bad("unexpected end"));
        };
        // `null` stands for an empty container.
        let fits =
            shape.is_none_or(|shape| shape.allows(byte)) || byte == b'n' && !self.levels.is_empty();
        if !fits {
            return Err(self.bad("data of another kind"));
        }
        match byte {
            b'{' | b'[' => {
                if self.levels.len() >= DOCUMENT_DEPTH_MAX {
                    return Err(MemberFailure::Limit {
                        limit: "depth of a document",
                    });
                }
                self.levels.push(Level {
                    is_object: byte == b'{',
                    shape,
                    start,
                    key: self.key,
                    fields_from: self.fields.len(),
                    is_fresh: true,
                });
                self.at += 1;
                self.expects = Expects::Next;
                return Ok(None);
            }
            b'"' => {
                if self.string(until)?.is_none() {
                    return Ok(None);
                }
            }
            _ => self.word()?,
        }
        self.expects = Expects::Next;
        Ok(Some(Done {
            key: self.key,
            raw: &self.body[start..self.at],
            shape,
            fields_from: self.fields.len(),
        }))
    }

    /// Takes down a value that is over.
    fn note(&mut self, done: Done<'a>) -> Outcome<Option<Noted<'a>>> {
        let field = Field {
            key: done.key,
            value: done.raw,
        };
        let from = done.fields_from;
        self.fields_end = from;
        let parent = self.levels.last();
        let is_field = parent
            .and_then(|level| level.shape)
            .is_some_and(|shape| matches!(shape.form, Form::Object(_)));
        if let Some(parent) = parent
            && is_field
        {
            if from - parent.fields_from >= FIELDS_PER_ITEM_MAX {
                return Err(MemberFailure::Limit {
                    limit: "fields of one item",
                });
            }
            // Its own fields are behind it until the next call.
            self.fields.insert(from, field);
            self.fields_end = from + 1;
        }
        if let Some(tag) = done.shape.and_then(|shape| shape.tag) {
            return Ok(Some(Noted::Item(tag, self.fields_end)));
        }
        Ok((self.levels.len() == 1).then_some(Noted::Member(field)))
    }

    /// Reads a quoted string, which comes back with its quotes; `None` while the budget ends within it.
    fn string(&mut self, until: usize) -> Outcome<Option<&'a [u8]>> {
        let start = self.at;
        let end = self.body.len().min(start + STRING_BYTES_MAX);
        let begun = self.scanned.max(start + 1);
        let mut at = begun;
        loop {
            // Something is read in each call, so that every budget leads to the end.
            if at >= until && at > begun {
                self.scanned = at;
                return Ok(None);
            }
            let stop = end.min(until.max(at + 1)).max(at.min(end));
            let rest = &self.body[at.min(end)..stop];
            let Some(length) = rest
                .iter()
                .position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f))
            else {
                if stop < end {
                    at = stop;
                    continue;
                }
                return Err(match end < self.body.len() {
                    true => MemberFailure::Limit {
                        limit: "length of a string",
                    },
                    false => self.bad("unexpected end"),
                });
            };
            at += length;
            match self.body[at] {
                b'"' => break,
                b'\\' => {
                    let escape = self.body.get(at..).unwrap_or_default();
                    match escape_length(escape) {
                        0 => return Err(self.bad("bad escape")),
                        length => at += length,
                    }
                }
                _ => return Err(self.bad("control character in a string")),
            }
        }
        let quoted = &self.body[start..=at];
        if std::str::from_utf8(quoted).is_err() {
            return Err(self.bad("string is not UTF-8"));
        }
        self.at = at + 1;
        self.scanned = 0;
        Ok(Some(quoted))
    }

    /// Reads a number, `true`, `false` or `null`.
    fn word(&mut self) -> Outcome<()> {
        let rest = &self.body[self.at..self.body.len().min(self.at + WORD_BYTES_MAX)];
        let length = rest
            .iter()
            .position(|byte| !(byte.is_ascii_alphanumeric() || b"+-.".contains(byte)))
            .unwrap_or(rest.len());
        let word = &rest[..length];
        if !matches!(word, b"true" | b"false" | b"null") && !is_number(word) {
            return Err(self.bad("expected a value"));
        }
        self.at += length;
        Ok(())
    }
}

/// The length of the escape at the beginning of `text`; 0 when it is none.
fn escape_length(text: &[u8]) -> usize {
    let unit = |text: &[u8]| match text {
        [b'\\', b'u', digits @ ..] => {
            let digits = digits
                .get(..4)
                .filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
            u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
        }
        _ => None,
    };
    if let [
        b'\\',
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't',
        ..,
    ] = text
    {
        return 2;
    }
    match unit(text) {
        // Half a character needs the other half.
        Some(0xd800..=0xdbff) => match unit(&text[6..]) {
            Some(0xdc00..=0xdfff) => 12,
            _ => 0,
        },
        Some(0xdc00..=0xdfff) | None => 0,
        Some(_) => 6,
    }
}

/// Longest number.
const WORD_BYTES_MAX: usize = 1024;

/// A value that is over.
#[derive(Debug, Clone, Copy)]
struct Done<'a> {
    key: &'a [u8],
    raw: &'a [u8],
    shape: Option<&'static Shape>,
    fields_from: usize,
}

enum Noted<'a> {
    /// An item of this list, and where its fields begin.
    Item(usize, usize),
    Member(Field<'a>),
}

/// Whether this is a number as JSON writes it.
fn is_number(word: &[u8]) -> bool {
    let digits = |text: &[u8]| {
        text.iter()
            .position(|byte| !byte.is_ascii_digit())
            .unwrap_or(text.len())
    };
    let rest = word.strip_prefix(b"-").unwrap_or(word);
    let whole = digits(rest);
    if whole == 0 || whole > 1 && rest[0] == b'0' {
        return false;
    }
    let mut rest = &rest[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let length = digits(fraction);
        if length == 0 {
            return false;
        }
        rest = &fraction[length..];
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent = match exponent {
            [b'+' | b'-', digits @ ..] => digits,
            digits => digits,
        };
        let length = digits(exponent);
        if length == 0 || length < exponent.len() {
            return false;
        }
    } else if !rest.is_empty() {
        return false;
    }
    let number = std::str::from_utf8(word).ok().map(str::parse::<f64>);
    // Readers refuse what is beyond a double.
    matches!(number, Some(Ok(number)) if number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    static ITEMS: Shape = Shape::object(
        None,
        &[
            ("list", Shape::array(None, &ITEM)),
            ("by_name", Shape::map(&NAMED)),
        ],
    );
    static ITEM: Shape = Shape::object(Some(0), &[("inner", Shape::array(None, &INNER))]);
    static INNER: Shape = Shape::object(Some(1), &[]);
    static NAMED: Shape = Shape::whole(2);

    /// What is met, as text, in steps of `units`.
    fn met(text: &str, units: usize) -> Result<Vec<String>, MemberFailure> {
        let show = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut walker = Walker::new(text.as_bytes(), &ITEMS);
        let mut all = Vec::new();
        loop {
            let until = walker.at() + units;
            match walker.next(until)? {
                Met::Item(tag, cut) => {
                    let fields = cut.fields.iter();
                    let fields: Vec<_> = fields
                        .map(|field| format!("{}{}", show(field.key), show(field.value)))
                        .collect();
                    all.push(format!("{tag}{}={}", show(cut.key), fields.join(",")));
                }
                Met::Member(field) => all.push(format!("member {}", show(field.key))),
                Met::Paused => {}
                Met::End => return Ok(all),
            }
        }
    }

    #[test]
    fn items_come_when_they_end_with_their_own_fields() {
        let text = r#" { "list" : [ {"a":1,"inner":[{"b":[{"deep":{}}]},{}],"c":"x"}, {"d":null}, {} ] ,
            "other": [1,"\ud83d\ude00",{"list":[{"no":1}]}], "by_name":{"n\u00e9":1.5e3,"m":[true]}, "list2": null } "#;
        let expected = [
            r#"1="b"[{"deep":{}}]"#,
            "1=",
            r#"0="a"1,"inner"[{"b":[{"deep":{}}]},{}],"c""x""#,
            r#"0="d"null"#,
            "0=",
            r#"member "list""#,
            r#"member "other""#,
            r#"2"n\u00e9"="#,
            r#"2"m"="#,
            r#"member "by_name""#,
            r#"member "list2""#,
        ];
        for units in [1, 2, 3, 7, 10_000] {
            let met = met(text, units).expect("a document");
            assert_eq!(met, expected, "in steps of {units}");
        }
    }

    #[test]
    fn null_stands_for_an_empty_container() {
        let expected = ["member \"list\"", "member \"by_name\""];
        assert_eq!(
            met(r#"{"list":null,"by_name":null}"#, 9).expect("a document"),
            expected
        );
    }

    #[test]
    fn what_is_no_json_of_this_shape_is_refused() {
        for text in [
            "",
            " ",
            "{",
            "}",
            "[]",
            "null",
            "1",
            "\"a\"",
            "{}x",
            "{} {}",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            r#"{,"a":1}"#,
            r#"{"a":1 "b":2}"#,
            r#"{"a":[1,]}"#,
            r#"{"a":[1 2]}"#,
            r#"{"a":[1}"#,
            r#"{"a":01}"#,
            r#"{"a":1.}"#,
            r#"{"a":.5}"#,
            r#"{"a":1e}"#,
            r#"{"a":+1}"#,
            r#"{"a":-}"#,
            r#"{"a":NaN}"#,
            r#"{"a":tru}"#,
            r#"{"a":"\x"}"#,
            r#"{"a":"\u12"}"#,
            r#"{"a":"\u12g4"}"#,
            r#"{"a":"\ud800"}"#,
            r#"{"a":"\ud800\u0041"}"#,
            r#"{"a":"\udc00"}"#,
            r#"{"a":1e400}"#,
            "{\"a\":\"\n\"}",
            r#"{"a":"b}"#,
            r#"{"a":"\"#,
            r#"{a:1}"#,
            r#"{"list":{}}"#,
            r#"{"list":[1]}"#,
            r#"{"by_name":[]}"#,
            r#"{"list":"x"}"#,
            r#"{"list":[{"inner":{}}]}"#,
        ] {
            assert!(met(text, 3).is_err(), "{text}");
            assert!(met(text, 1000).is_err(), "{text}");
        }
        assert!(Walker::new(b"{\"a\":\"\xff\"}", &ITEMS).next(100).is_err());
    }

    #[test]
    fn bounds_are_met_and_crossed() {
        let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(met(&nested(DOCUMENT_DEPTH_MAX - 1), 100).is_ok());
        assert!(met(&nested(DOCUMENT_DEPTH_MAX), 100).is_err());
        let string = |length: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(length));
        assert!(met(&string(STRING_BYTES_MAX - 2), 100).is_ok());
        let too_long = met(&string(STRING_BYTES_MAX - 1), 100);
        let limit = "length of a string";
        assert_eq!(too_long, Err(MemberFailure::Limit { limit }));
        let fields = |count: usize| {
            let fields: Vec<_> = (0..count).map(|at| format!("\"{at}\":0")).collect();
            format!("{{\"list\":[{{{}}}]}}", fields.join(","))
        };
        assert!(met(&fields(FIELDS_PER_ITEM_MAX), 1000).is_ok());
        let limit = "fields of one item";
        let too_many = met(&fields(FIELDS_PER_ITEM_MAX + 1), 1000);
        assert_eq!(too_many, Err(MemberFailure::Limit { limit }));
    }
}
