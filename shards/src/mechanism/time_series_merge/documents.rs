//! Paths whose answers are documents and not series: which they are, and what media types they have.
//!
//! Contract: tsm page, 1 (beyond).

use ringway_io::net::http1::KnownHeader;
use ringway_merge::{Document, Endpoint};

use super::gather::Asking;

/// The document of this path, if it is one.
pub(super) fn document(path: &str) -> Option<Document> {
    if path == "/federate" {
        return Some(Document::Federate);
    }
    Some(match path.strip_prefix("/api/v1/")? {
        "alertmanagers" => Document::Alertmanagers,
        "alerts" => Document::Alerts,
        "metadata" => Document::Metadata,
        "query_exemplars" => Document::Exemplars,
        "rules" => Document::Rules,
        "scrape_pools" => Document::ScrapePools,
        "status/buildinfo" => Document::BuildInfo,
        "status/tsdb" => Document::Tsdb,
        "targets" => Document::Targets,
        "targets/metadata" => Document::TargetsMetadata,
        _ => return None,
    })
}

/// Asks for text, not for a binary form, which could not be merged.
const TEXT: &[u8] = b"text/plain;version=0.0.4";
/// Asks for text with names as they are, which servers else replace where they are no identifiers.
const TEXT_AS_IT_IS: &[u8] =
    b"text/plain;version=1.0.0;escaping=allow-utf-8;q=0.9,text/plain;version=0.0.4;q=0.5";

/// Whether the client reads names that are no identifiers.
fn takes_any_name(asking: &Asking<'_>) -> bool {
    const WISH: &[u8] = b"allow-utf-8";
    let (head, bytes) = asking.head;
    let accepts = head.headers(bytes).filter(|header| {
        header.known == KnownHeader::Other && header.name.eq_ignore_ascii_case(b"Accept")
    });
    let mut values = accepts.map(|header| header.value);
    values.any(|value| {
        value
            .windows(WISH.len())
            .any(|part| part.eq_ignore_ascii_case(WISH))
    })
}

fn is_text(asking: &Asking<'_>) -> bool {
    matches!(&asking.request.endpoint, Endpoint::Document(document) if document.is_text())
}

/// What members are asked to answer with, where the client's wish does not matter.
pub(super) fn accepted(asking: &Asking<'_>) -> Option<&'static [u8]> {
    is_text(asking).then(|| match takes_any_name(asking) {
        true => TEXT_AS_IT_IS,
        false => TEXT,
    })
}

/// The media type of the answer.
pub(super) fn content_type(asking: &Asking<'_>) -> &'static str {
    if is_text(asking) && takes_any_name(asking) {
        return "text/plain; version=1.0.0; charset=utf-8; escaping=allow-utf-8";
    }
    asking.request.endpoint.content_type()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_paths_are_documents() {
        assert_eq!(document("/api/v1/rules"), Some(Document::Rules));
        assert_eq!(
            document("/api/v1/targets/metadata"),
            Some(Document::TargetsMetadata)
        );
        assert_eq!(document("/federate"), Some(Document::Federate));
        for path in [
            "/api/v1/federate",
            "/rules",
            "/api/v1/rules/",
            "/api/v1/query",
            "/federate/x",
        ] {
            assert_eq!(document(path), None, "{path}");
        }
    }
}
