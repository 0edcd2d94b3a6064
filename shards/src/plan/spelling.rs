//! How a request's path may be read: origins differ, and a rule that guards a path must hold in each reading.

use std::borrow::Cow;

/// Whether a path has `.` or `..` as a segment, in any spelling that some server reads so: percent-encoded, between
/// backslashes, with parameters behind (`..;x`). Such a path leads elsewhere at one server than at another, and may
/// lead out of an origin's prefix. A backslash as it is, which no path may have, counts too.
pub fn is_roundabout(path: &[u8]) -> bool {
    let is_suspect =
        path.contains(&b'%') || path.contains(&b'\\') || path.windows(2).any(|pair| pair == b"/.");
    if !is_suspect {
        return false;
    }
    let decoded = percent_decoded(path);
    let mut segments = decoded.split(|&byte| matches!(byte, b'/' | b'\\'));
    path.contains(&b'\\') || segments.any(|segment| matches!(bare(segment), b"." | b".."))
}

/// The path as rules are written and compared: percent-encoding undone, empty segments left out.
pub fn plain(path: &[u8]) -> Cow<'_, [u8]> {
    let is_plain = !path.contains(&b'%') && !path.windows(2).any(|pair| pair == b"//");
    if is_plain {
        return Cow::Borrowed(path);
    }
    Cow::Owned(joined(percent_decoded(path).split(|&byte| byte == b'/')))
}

/// Other readings of a path than [`plain`]: with its empty segments, and as servers read it that take a backslash for
/// a slash and a semicolon for the end of a segment. `None` where they are the same.
pub(crate) fn other_readings(path: &[u8]) -> Option<[Vec<u8>; 2]> {
    let is_one = |byte: &u8| matches!(byte, b'%' | b';' | b'\\');
    let differs = path.iter().any(is_one) || path.windows(2).any(|pair| pair == b"//");
    if !differs {
        return None;
    }
    let decoded = percent_decoded(path);
    let segments = decoded.split(|&byte| matches!(byte, b'/' | b'\\'));
    let bare = joined(segments.map(bare));
    Some([decoded, bare])
}

/// A segment without its parameters.
fn bare(segment: &[u8]) -> &[u8] {
    segment.split(|&byte| byte == b';').next().unwrap_or(b"")
}

/// A path of these segments without the empty ones; a slash at the end stays.
fn joined<'s>(segments: impl Iterator<Item = &'s [u8]>) -> Vec<u8> {
    let mut path = Vec::new();
    let mut ends_open = false;
    for segment in segments {
        ends_open = segment.is_empty();
        if !ends_open {
            path.push(b'/');
            path.extend_from_slice(segment);
        }
    }
    if ends_open {
        path.push(b'/');
    }
    path
}

/// Undoes percent-encoding; what is none stays.
fn percent_decoded(text: &[u8]) -> Vec<u8> {
    let digit = |at: usize| {
        let digit = char::from(*text.get(at)?).to_digit(16)?;
        u8::try_from(digit).ok()
    };
    let mut decoded = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let pair = (text[at] == b'%')
            .then(|| digit(at + 1).zip(digit(at + 2)))
            .flatten();
        match pair {
            Some((high, low)) => {
                decoded.push(high * 16 + low);
                at += 3;
            }
            None => {
                decoded.push(text[at]);
                at += 1;
            }
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_segments_are_found_however_they_are_written() {
        for path in [
            "/..",
            "/.",
            "/x/../a",
            "/x/./a",
            "/%2e%2e/a",
            "/%2E./a",
            "/x/.%2e",
            "/..;/a",
            "/x/..;v=1/a",
            "/..%2fa",
            "/x%2f..%2fa",
            "/x/..%5ca",
            "/x\\..\\a",
            "/\\a",
            "/..%5c",
            "/.;",
        ] {
            assert!(is_roundabout(path.as_bytes()), "{path}");
        }
        for path in [
            "/",
            "/a",
            "/.well-known/x",
            "/...",
            "/a..b/..c/d..",
            "/%61/b",
            "/a;..",
            "/100%",
            "/%2",
            "/a%5cb",
        ] {
            assert!(!is_roundabout(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn a_plain_path_is_decoded_and_has_no_empty_segments() {
        for (path, expected) in [
            ("/a/b", "/a/b"),
            ("/%61dmin", "/admin"),
            ("//admin//x", "/admin/x"),
            ("/my%20app", "/my app"),
            ("/admin//", "/admin/"),
            ("//", "/"),
            ("/100%", "/100%"),
            ("/%4", "/%4"),
        ] {
            assert_eq!(
                String::from_utf8_lossy(&plain(path.as_bytes())),
                expected,
                "{path}"
            );
        }
    }

    #[test]
    fn other_readings_keep_or_drop_what_servers_disagree_about() {
        assert_eq!(other_readings(b"/a/b"), None);
        let readings = |path: &str| {
            let [kept, bare] = other_readings(path.as_bytes()).expect("it has some");
            let text = |path| String::from_utf8(path).expect("UTF-8");
            (text(kept), text(bare))
        };
        assert_eq!(readings("//a;v=1/b"), ("//a;v=1/b".into(), "/a/b".into()));
        assert_eq!(readings("/a%5cb;c"), ("/a\\b;c".into(), "/a/b".into()));
    }
}
