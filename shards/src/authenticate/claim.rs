//! Who a request says it is from.
//!
//! Reads only; what cannot be understood is as if it were not there. Contract: config page, 6; RFC 7617 for
//! `Authorization: Basic`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ringway_io::net::http1::{KnownHeader, RequestHead};
use zeroize::Zeroizing;

use crate::plan::{AuthenticatorKind, Secret};

/// Header of ClickHouse with the user's name.
pub(super) const CLICKHOUSE_USER: &str = "X-ClickHouse-User";
/// Header of ClickHouse with the password.
pub(super) const CLICKHOUSE_KEY: &str = "X-ClickHouse-Key";
/// Query parameter of ClickHouse with the user's name.
pub(super) const USER_PARAM: &str = "user";
/// Query parameter of ClickHouse with the password.
pub(super) const PASSWORD_PARAM: &str = "password";

/// A name and what is to prove it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// The user's name, not empty.
    pub(crate) user: Box<str>,
    /// The password; empty when there was none.
    pub(crate) secret: Secret,
    /// Where they were.
    pub(crate) carrier: Carrier,
}

/// Where credentials are in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// `Authorization: Basic`.
    Basic,
    /// The headers of ClickHouse.
    Headers,
    /// Its query parameters.
    Query,
}

/// The credentials of a request, where this kind of authenticator looks for them.
pub(crate) fn read(kind: AuthenticatorKind, (head, bytes): (&RequestHead, &[u8])) -> Option<Claim> {
    match kind {
        AuthenticatorKind::Basic => basic(head, bytes),
        AuthenticatorKind::ClickHouse => {
            let query = head.query(bytes).and_then(in_query);
            // A name without a password is the weakest word of who it is.
            let (whole, name_only) = match query {
                Some((claim, true)) => (Some(claim), None),
                Some((claim, false)) => (None, Some(claim)),
                None => (None, None),
            };
            whole
                .or_else(|| in_headers(head, bytes))
                .or_else(|| basic(head, bytes))
                .or(name_only)
        }
    }
}

fn basic(head: &RequestHead, bytes: &[u8]) -> Option<Claim> {
    let mut all = head
        .headers(bytes)
        .filter(|header| header.known == KnownHeader::Authorization);
    let value = all.next()?.value;
    // Of two it is not known which one the origin would believe.
    if all.next().is_some() {
        return None;
    }
    parse_basic(value)
}

/// `Basic` and the base64 form of name, colon, password.
fn parse_basic(value: &[u8]) -> Option<Claim> {
    let (scheme, token) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let decoded = Zeroizing::new(STANDARD.decode(token.trim_ascii()).ok()?);
    let text = std::str::from_utf8(&decoded).ok()?;
    let (user, secret) = text.split_once(':')?;
    claim(user, secret, Carrier::Basic)
}

fn in_headers(head: &RequestHead, bytes: &[u8]) -> Option<Claim> {
    let user = std::str::from_utf8(head.find(bytes, CLICKHOUSE_USER.as_bytes())?).ok()?;
    let secret = head
        .find(bytes, CLICKHOUSE_KEY.as_bytes())
        .unwrap_or_default();
    claim(user, std::str::from_utf8(secret).ok()?, Carrier::Headers)
}

/// The credentials, and whether a password is among them.
fn in_query(query: &[u8]) -> Option<(Claim, bool)> {
    let value = |wanted: &str| {
        let mut pairs = form_urlencoded::parse(query);
        pairs.find_map(|(name, value)| (name == wanted).then_some(value))
    };
    let user = value(USER_PARAM)?;
    let secret = value(PASSWORD_PARAM);
    let has_password = secret.is_some();
    let secret = Zeroizing::new(secret.unwrap_or_default().into_owned());
    // What is no UTF-8 was replaced while it was decoded.
    if user.contains('\u{fffd}') || secret.contains('\u{fffd}') {
        return None;
    }
    Some((claim(&user, &secret, Carrier::Query)?, has_password))
}

/// Names and passwords have no control characters. Contract: RFC 7617, 2.
fn claim(user: &str, secret: &str, carrier: Carrier) -> Option<Claim> {
    let is_text = |text: &str| !text.chars().any(char::is_control);
    if user.is_empty() || !is_text(user) || !is_text(secret) {
        return None;
    }
    Some(Claim {
        user: user.into(),
        secret: Secret::new(secret),
        carrier,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_io::net::http1::Parsed;

    use crate::limits::head_limits;

    /// User, secret and carrier that this kind finds in a request with this target and these headers.
    fn found(
        kind: AuthenticatorKind,
        target: &str,
        headers: &str,
    ) -> Option<(String, String, Carrier)> {
        let text = format!("GET {target} HTTP/1.1\r\nHost: a\r\n{headers}\r\n");
        let mut head = RequestHead::new();
        let parsed = head.parse(text.as_bytes(), &head_limits());
        assert!(matches!(parsed, Ok(Parsed::Complete(_))), "{text}");
        let found = read(kind, (&head, text.as_bytes()))?;
        let secret = found.secret.expose().to_owned();
        Some((found.user.into(), secret, found.carrier))
    }

    fn plain(user: &str, secret: &str, carrier: Carrier) -> Option<(String, String, Carrier)> {
        Some((user.into(), secret.into(), carrier))
    }

    #[test]
    fn basic_credentials_are_utf_8_behind_base64() {
        let basic = |value: &str| {
            let header = format!("Authorization: {value}\r\n");
            found(AuthenticatorKind::Basic, "/?user=a&password=b", &header)
        };
        let casey = plain("casey", "open:sesame", Carrier::Basic);
        assert_eq!(basic("Basic Y2FzZXk6b3BlbjpzZXNhbWU="), casey);
        assert_eq!(basic("bASIC   Y2FzZXk6b3BlbjpzZXNhbWU="), casey);
        // "josé:pâté" and "casey:".
        let accents = plain("josé", "pâté", Carrier::Basic);
        assert_eq!(basic("Basic am9zw6k6cMOidMOp"), accents);
        assert_eq!(basic("Basic Y2FzZXk6"), plain("casey", "", Carrier::Basic));
    }

    #[test]
    fn malformed_credentials_are_none() {
        for header in [
            "",
            "Authorization: Basic\r\n",
            "Authorization: Basic !!!!\r\n",
            // No padding; no colon; no name; Latin-1; a line feed in the name.
            "Authorization: Basic Y2FzZXk6b3BlbjpzZXNhbWU\r\n",
            "Authorization: Basic Y2FzZXk=\r\n",
            "Authorization: Basic OnNlc2FtZQ==\r\n",
            "Authorization: Basic am9z6TpwYXRl\r\n",
            "Authorization: Basic Y2EKc2V5OmE=\r\n",
            "Authorization: Bearer Y2FzZXk6b3Blbg==\r\n",
            "Authorization: BasicY2FzZXk6b3Blbg==\r\n",
            "Authorization: Basic Y2FzZXk6b3Blbg==\r\nAuthorization: Basic dGF5bG9yOmE=\r\n",
        ] {
            assert_eq!(
                found(AuthenticatorKind::Basic, "/", header),
                None,
                "{header}"
            );
            assert_eq!(
                found(AuthenticatorKind::ClickHouse, "/", header),
                None,
                "{header}"
            );
        }
    }

    #[test]
    fn clickhouse_credentials_are_found_in_three_places() {
        let find = |target, headers| found(AuthenticatorKind::ClickHouse, target, headers);
        let headers = "X-ClickHouse-User: heads\r\nx-clickhouse-key: k\r\n";
        let basic = "Authorization: Basic Y2FzZXk6b3Blbg==\r\n";
        let all = format!("{headers}{basic}");
        assert_eq!(
            find("/?query=1&user=que%20ry&password=p%2Bw", &all),
            plain("que ry", "p+w", Carrier::Query)
        );
        assert_eq!(
            find("/?user=q", &all),
            plain("heads", "k", Carrier::Headers)
        );
        assert_eq!(
            find("/?user=q", basic),
            plain("casey", "open", Carrier::Basic)
        );
        assert_eq!(find("/?user=q", ""), plain("q", "", Carrier::Query));
        assert_eq!(
            find("/", "X-ClickHouse-User: heads\r\n"),
            plain("heads", "", Carrier::Headers)
        );
        assert_eq!(find("/?password=p", ""), None);
        assert_eq!(find("/?user=%ff&password=p", ""), None);
        assert_eq!(find("/?user=a%00&password=p", ""), None);
        assert_eq!(find("/?user=&password=p", ""), None);
    }

    #[test]
    fn credentials_do_not_show() {
        let shown = format!(
            "{:?}",
            parse_basic(b"Basic Y2FzZXk6b3BlbjpzZXNhbWU=").expect("well formed")
        );
        assert!(!shown.contains("sesame"), "{shown}");
    }
}
