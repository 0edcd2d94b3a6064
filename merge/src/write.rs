//! Writes the answer's JSON as Prometheus does.
//!
//! Owns the output chunks. Contract: envelope order `status`, `data`, `errorType`, `error`,
//! `warnings`, `infos`; strings escaped as Prometheus' JSON writer does.

use crate::labels::LabelSet;
use crate::limits::CHUNK_BYTES;

/// The body so far, in chunks.
#[derive(Debug, Default)]
pub(crate) struct Output {
    full: Vec<Vec<u8>>,
    chunk: Vec<u8>,
}

impl Output {
    /// Appends bytes. They are cut where a chunk is full, so that no chunk has to grow for them.
    pub(crate) fn put(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.room();
            let length = bytes.len().min(CHUNK_BYTES.saturating_sub(room.len()));
            let (now, later) = bytes.split_at(length);
            room.extend_from_slice(now);
            bytes = later;
        }
    }

    /// Returns the chunk to append a small piece to.
    #[inline]
    pub(crate) fn room(&mut self) -> &mut Vec<u8> {
        if self.chunk.len() >= CHUNK_BYTES {
            // The last piece may cross the mark; room for a sample or two avoids a copy.
            let next = Vec::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 16);
            self.full.push(std::mem::replace(&mut self.chunk, next));
        }
        &mut self.chunk
    }

    /// Returns all chunks.
    pub(crate) fn finish(mut self) -> Vec<Vec<u8>> {
        if !self.chunk.is_empty() {
            self.full.push(self.chunk);
        }
        self.full
    }
}

/// Appends a JSON string.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest
        .iter()
        .position(|b| matches!(b, b'"' | b'\\' | 0..=0x1f))
    {
        out.extend_from_slice(&rest[..at]);
        match rest[at] {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            byte @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
            byte => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&digits);
            }
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Appends a label object.
pub(crate) fn write_labels(out: &mut Vec<u8>, set: &LabelSet<'_>) {
    if let Some(text) = set.text {
        return out.extend_from_slice(text);
    }
    out.push(b'{');
    for (at, label) in set.labels.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_string(out, label.name);
        out.push(b':');
        write_string(out, label.value);
    }
    out.push(b'}');
}

/// Appends a list.
pub(crate) fn write_list<T>(out: &mut Vec<u8>, items: &[T], put: impl Fn(&mut Vec<u8>, &T)) {
    out.push(b'[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        put(out, item);
    }
    out.push(b']');
}

/// Appends `,"name":["…"]`, or nothing for an empty list.
pub(crate) fn write_texts(out: &mut Vec<u8>, name: &str, texts: &[String]) {
    if texts.is_empty() {
        return;
    }
    out.push(b',');
    write_string(out, name);
    out.push(b':');
    write_list(out, texts, |out, text| write_string(out, text));
}

/// Returns an error envelope.
pub fn error_body(kind: &str, message: &str, warnings: &[String]) -> Vec<u8> {
    let mut out = b"{\"status\":\"error\",\"errorType\":".to_vec();
    write_string(&mut out, kind);
    out.extend_from_slice(b",\"error\":");
    write_string(&mut out, message);
    write_texts(&mut out, "warnings", warnings);
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped_as_servers_do() {
        let cases = [
            ("plain", r#""plain""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            (
                "\n\r\t\u{1}\u{1f}\u{7f}",
                "\"\\n\\r\\t\\u0001\\u001f\u{7f}\"",
            ),
            ("日本 <&> \u{2028}", "\"日本 <&> \u{2028}\""),
            ("", "\"\""),
        ];
        for (text, expected) in cases {
            let mut out = Vec::new();
            write_string(&mut out, text);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn envelope_of_an_error() {
        let body = error_body("bad_data", "no \"x\"", &["w".to_owned()]);
        let expected =
            r#"{"status":"error","errorType":"bad_data","error":"no \"x\"","warnings":["w"]}"#;
        assert_eq!(String::from_utf8(body).unwrap(), expected);
    }

    #[test]
    fn output_is_cut_into_chunks() {
        for length in [100, CHUNK_BYTES / 3, 2 * CHUNK_BYTES] {
            let piece: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let mut output = Output::default();
            for _ in 0..(3 * CHUNK_BYTES).div_ceil(length) {
                output.put(&piece);
                output.room().push(b',');
            }
            let chunks = output.finish();
            let of_later = |chunk: &Vec<u8>| chunk.capacity() <= CHUNK_BYTES + CHUNK_BYTES / 16;
            assert!(chunks.iter().skip(1).all(of_later), "a chunk grew");
            let expected = [piece, b",".to_vec()].concat();
            let found = chunks.concat();
            assert!(found.len() >= 3 * CHUNK_BYTES);
            assert!(found.chunks(length + 1).all(|part| part == expected));
        }
    }
}
