//! The status page as a web page that keeps itself current.
//!
//! One document without outside parts. What the server writes is whole without a script; the script (`page.js`)
//! asks for the JSON from then on and writes the same rows. Names and details are data: they are escaped here, and
//! the script makes text of them. The policy allows the page's own style and script by their hashes, and requests
//! to its own server, nothing else.

use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;

use super::{Group, Page, Row, TITLE};
use crate::utc::page_time;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Value of `Content-Security-Policy` for the page.
pub fn content_security_policy() -> String {
    format!(
        "default-src 'none'; connect-src 'self'; img-src data:; script-src '{}'; style-src '{}'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        source_hash(SCRIPT),
        source_hash(STYLE)
    )
}

/// The page.
pub(super) fn write(page: &Page) -> String {
    let summary = summary(&page.rows);
    let changed = page_time(page.last_change);
    let mut rows = String::new();
    for row in &page.rows {
        write_row(&mut rows, row);
    }
    format!(
        "<!doctype html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<meta name=\"color-scheme\" content=\"light dark\">
<link rel=\"icon\" href=\"data:,\">
<title>{summary} \u{2013} {TITLE}</title>
<style>{STYLE}</style>
</head>
<body>
<header>
<h1>{TITLE}</h1>
<p id=\"summary\" role=\"status\">{summary}</p>
<p class=\"quiet\">Last change: <span id=\"changed\">{changed}</span></p>
<p id=\"contact\" role=\"status\">As of when this page was loaded.</p>
</header>
<main>
<table role=\"table\">
<caption>Health of each backend</caption>
<thead role=\"rowgroup\">
<tr role=\"row\"><th scope=\"col\" role=\"columnheader\">Backend</th><th scope=\"col\" role=\"columnheader\">Provider</th>\
<th scope=\"col\" role=\"columnheader\">State</th><th scope=\"col\" role=\"columnheader\">Details</th></tr>
</thead>
<tbody id=\"rows\" role=\"rowgroup\">
{rows}</tbody>
</table>
</main>
<footer><p class=\"quiet\">Also as <a href=\"?text\">text</a>, <a href=\"?json\">JSON</a> and <a href=\"?yaml\">YAML</a>.</p></footer>
<script>{SCRIPT}</script>
</body>
</html>
"
    )
}

fn summary(rows: &[Row]) -> String {
    let mut counts = Vec::new();
    for (group, word) in super::GROUPS {
        let count = rows.iter().filter(|row| row.group == group).count();
        if count > 0 {
            counts.push(format!("{count} {word}"));
        }
    }
    match counts.is_empty() {
        true => "no backends".to_owned(),
        false => counts.join(", "),
    }
}

fn write_row(out: &mut String, row: &Row) {
    let name = escaped(&row.name);
    let state = row.group.word();
    out.push_str(&format!(
        "<tr role=\"row\" data-name=\"{name}\" class=\"{state}\"><th role=\"rowheader\" scope=\"row\">{name}</th>\
         <td role=\"cell\" data-label=\"Provider\">{}</td>\
         <td role=\"cell\" data-label=\"State\"><span class=\"state\">{state}</span></td>\
         <td role=\"cell\" data-label=\"Details\">{}</td></tr>\n",
        escaped(&row.provider_cell()),
        escaped(&details(row)),
    ));
}

/// All that is known beyond the state, in one sentence.
fn details(row: &Row) -> String {
    let mut parts = Vec::new();
    if row.group == Group::Unavailable {
        if let Some(since) = row.down_since {
            parts.push(format!("since {}", page_time(since)));
        }
        if !row.detail.is_empty() {
            parts.push(row.detail.clone());
        }
    }
    for (_, key, members) in row.pool.iter().flat_map(|pool| pool.lists()) {
        let word = key.trim_end_matches("PoolMembers");
        parts.push(format!("{word}: {}", members.join(", ")));
    }
    if row.group == Group::Unchecked {
        parts.push("not configured for automated health checks".to_owned());
    }
    parts.join("; ")
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// `sha256-…` of an inline element, as a policy names it.
fn source_hash(text: &str) -> String {
    let suite = TLS13_AES_128_GCM_SHA256.tls13();
    let sha256 = suite.expect("its name says so").common.hash_provider;
    format!("sha256-{}", base64(sha256.hash(text.as_bytes()).as_ref()))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let mut bits = 0u32;
        for n in 0..3 {
            bits = bits << 8 | u32::from(group.get(n).copied().unwrap_or(0));
        }
        for n in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * n) & 63) as usize];
            out.push(if n <= group.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_as_in_rfc_4648() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn the_policy_names_style_and_script_by_their_hashes() {
        // Of the empty text, as every implementation has it.
        let empty = "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
        assert_eq!(source_hash(""), empty);
        let policy = content_security_policy();
        assert!(policy.starts_with("default-src 'none'; "), "{policy}");
        for text in [STYLE, SCRIPT] {
            assert!(policy.contains(&source_hash(text)), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
    }

    #[test]
    fn style_and_script_cannot_end_their_elements() {
        assert!(!STYLE.contains("</") && !SCRIPT.contains("</"));
    }

    #[test]
    fn names_and_details_are_escaped() {
        assert_eq!(
            escaped("<b>&\"quotes\"'s"),
            "&lt;b&gt;&amp;&quot;quotes&quot;&#39;s"
        );
    }
}
