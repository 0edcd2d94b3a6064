//! Cross-origin headers of answers. Contract: config page, 3.6.
//!
//! Without a `cors` block an answer is open to all pages, as the contract has it; rules may change that header
//! like any other. A block is the last word, whatever hops behind the client-facing one said.

use ringway_io::net::http1::KnownHeader;

use super::edits;
use crate::passage::Front;
use crate::plan::Cors;

const PREFIX: &[u8] = b"Access-Control-";
const ALLOW_ORIGIN: &[u8] = b"Access-Control-Allow-Origin";

/// Whether an answer's header gives way to what [`legacy`] writes.
pub(crate) fn gives_way(front: &Front<'_>, known: KnownHeader, name: &[u8]) -> bool {
    known == KnownHeader::Other
        && name.len() == ALLOW_ORIGIN.len()
        && front.cors == Some(&Cors::Legacy)
        && name.eq_ignore_ascii_case(ALLOW_ORIGIN)
}

/// Appends the header of answers without a `cors` block. To be written before the changes of rules.
pub(super) fn legacy(out: &mut Vec<u8>, front: &Front<'_>) {
    if front.cors == Some(&Cors::Legacy) {
        out.extend_from_slice(b"Access-Control-Allow-Origin: *\r\n");
    }
}

/// Does what a `cors` block says to the header lines `out[start..]`.
pub(super) fn block(out: &mut Vec<u8>, start: usize, front: &Front<'_>) {
    let (keeps, edits) = match front.cors {
        None | Some(Cors::Legacy | Cors::Preserve) => return,
        Some(Cors::Merge(edits)) => (true, edits.as_slice()),
        Some(Cors::Replace(edits)) => (false, edits.as_slice()),
        Some(Cors::Disable) => (false, [].as_slice()),
    };
    if !keeps {
        edits::remove_if(out, start, is_cross_origin);
    }
    edits::apply(out, start, edits.iter(), |known| {
        known == KnownHeader::Other
    });
}

fn is_cross_origin(name: &[u8]) -> bool {
    name.get(..PREFIX.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Edit;

    fn after(cors: &Cors) -> String {
        let front = Front {
            cors: Some(cors),
            ..Front::default()
        };
        let mut out = b"x: 1\r\naccess-control-max-age: 1\r\nAccess-Controls: 2\r\n".to_vec();
        legacy(&mut out, &front);
        block(&mut out, 0, &front);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn each_mode_does_its_own() {
        let kept = "x: 1\r\naccess-control-max-age: 1\r\nAccess-Controls: 2\r\n";
        let edits = vec![
            Edit::set("Access-Control-Allow-Origin", "https://a.test"),
            Edit::append("Access-Control-Max-Age", "2"),
        ];
        let added = "Access-Control-Allow-Origin: https://a.test\r\nAccess-Control-Max-Age: 2\r\n";
        let cases = [
            (
                Cors::Legacy,
                format!("{kept}Access-Control-Allow-Origin: *\r\n"),
            ),
            (Cors::Preserve, kept.to_owned()),
            (Cors::Merge(edits.clone()), format!("{kept}{added}")),
            (
                Cors::Replace(edits),
                format!("x: 1\r\nAccess-Controls: 2\r\n{added}"),
            ),
            (Cors::Disable, "x: 1\r\nAccess-Controls: 2\r\n".to_owned()),
        ];
        for (cors, expected) in cases {
            assert_eq!(after(&cors), expected, "{cors:?}");
        }
    }

    #[test]
    fn only_the_legacy_header_makes_the_origins_give_way() {
        for (cors, expected) in [(Cors::Legacy, true), (Cors::Preserve, false)] {
            let front = Front {
                cors: Some(&cors),
                ..Front::default()
            };
            let name = b"access-control-allow-origin";
            assert_eq!(gives_way(&front, KnownHeader::Other, name), expected);
            assert!(!gives_way(&front, KnownHeader::Other, b"vary"));
        }
    }
}
