//! What becomes of a request's credentials on their way to an origin.
//!
//! Written as changes of the passage, which are made before those of paths: path rules come later and win.
//! Contract: config page, 6; ALB page, 6.6 (replacement).

use std::rc::Rc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ringway_io::net::http1::write;
use zeroize::Zeroizing;

use super::claim::{CLICKHOUSE_KEY, CLICKHOUSE_USER, Carrier, PASSWORD_PARAM, USER_PARAM};
use crate::passage::{Amends, Credentials, Passage};
use crate::plan::{AuthenticatorKind, Edit, Secret};

/// Header by which ClickHouse takes the certificate of the connection, which is ringway's, for the user's.
const CLICKHOUSE_CERTIFICATE: &str = "X-ClickHouse-SSL-Certificate-Auth";

/// How credentials go on: as they came, not at all, or others in their place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Onward {
    authorization: Credentials,
    amends: Option<Amends>,
}

impl Onward {
    /// As they came.
    pub(crate) fn kept() -> Onward {
        Onward {
            authorization: Credentials::Keep,
            amends: None,
        }
    }

    /// Nothing that `kind` reads.
    pub(crate) fn removed(kind: AuthenticatorKind) -> Onward {
        Onward {
            authorization: Credentials::Remove,
            amends: (kind == AuthenticatorKind::ClickHouse).then(without_clickhouse),
        }
    }

    /// These instead of what `kind` reads, where those were; `None` when they cannot be written there.
    pub(crate) fn replaced(
        kind: AuthenticatorKind,
        carrier: Carrier,
        (user, secret): (&str, &Secret),
    ) -> Option<Onward> {
        let mut onward = Onward::removed(kind);
        let secret = secret.expose();
        match carrier {
            Carrier::Basic => {
                if user.contains(':') {
                    return None;
                }
                let pair = Zeroizing::new(format!("{user}:{secret}"));
                let token = Zeroizing::new(STANDARD.encode(pair.as_bytes()));
                let value = format!("Basic {}", *token);
                onward.authorization = Credentials::Replace(Secret::new(value));
            }
            Carrier::Headers => {
                let fits = |text: &str| write::is_valid_header_value(text.as_bytes());
                if !fits(user) || !fits(secret) {
                    return None;
                }
                let headers = &mut onward.amends.get_or_insert_default().headers;
                headers.push(Edit::set(CLICKHOUSE_USER, user));
                headers.push(Edit::set(CLICKHOUSE_KEY, secret));
            }
            Carrier::Query => {
                let params = &mut onward.amends.get_or_insert_default().params;
                params.push(Edit::set(USER_PARAM, user));
                params.push(Edit::set(PASSWORD_PARAM, secret));
            }
        }
        Some(onward)
    }

    /// Settles it for a request.
    pub(crate) fn apply(self, passage: &mut Passage<'_>) {
        if matches!(self.authorization, Credentials::Replace(_)) {
            passage.overrule_authorization();
        }
        passage.credentials = self.authorization;
        passage.amends = self.amends.map(Rc::new);
    }
}

fn without_clickhouse() -> Amends {
    let headers = [CLICKHOUSE_USER, CLICKHOUSE_KEY, CLICKHOUSE_CERTIFICATE];
    Amends {
        headers: headers.map(Edit::remove).into(),
        params: [USER_PARAM, PASSWORD_PARAM].map(Edit::remove).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::EditAction;

    use AuthenticatorKind::{Basic, ClickHouse};

    fn replaced(carrier: Carrier, user: &str, secret: &str) -> Option<Onward> {
        Onward::replaced(ClickHouse, carrier, (user, &Secret::new(secret)))
    }

    /// What is changed in this order; `-name` is removed.
    fn changes(edits: &[Edit]) -> Vec<String> {
        let change = |edit: &Edit| match &edit.action {
            EditAction::Set(value) => format!("{}={value}", edit.name),
            EditAction::Append(value) => format!("{}+={value}", edit.name),
            EditAction::Remove => format!("-{}", edit.name),
        };
        edits.iter().map(change).collect()
    }

    #[test]
    fn what_was_read_is_removed_wherever_it_is() {
        let basic = Onward::removed(Basic);
        assert_eq!(basic.authorization, Credentials::Remove);
        assert_eq!(basic.amends, None);
        let clickhouse = Onward::removed(ClickHouse);
        assert_eq!(clickhouse.authorization, Credentials::Remove);
        let amends = clickhouse.amends.expect("more than a header");
        assert_eq!(
            changes(&amends.headers),
            [
                "-X-ClickHouse-User",
                "-X-ClickHouse-Key",
                "-X-ClickHouse-SSL-Certificate-Auth"
            ]
        );
        assert_eq!(changes(&amends.params), ["-user", "-password"]);
    }

    #[test]
    fn others_are_written_where_the_old_ones_were() {
        let basic = replaced(Carrier::Basic, "db", "a:b").expect("fits");
        let value = Secret::new("Basic ZGI6YTpi");
        assert_eq!(basic.authorization, Credentials::Replace(value));
        assert_eq!(basic.amends, Some(without_clickhouse()));
        let own = replaced(Carrier::Headers, "db", "pw").expect("fits");
        assert_eq!(own.authorization, Credentials::Remove);
        let headers = own.amends.expect("changes").headers;
        assert_eq!(
            changes(&headers)[3..],
            ["X-ClickHouse-User=db", "X-ClickHouse-Key=pw"]
        );
        let query = replaced(Carrier::Query, "d b", "p&w").expect("fits");
        assert_eq!(query.authorization, Credentials::Remove);
        let params = query.amends.expect("changes").params;
        assert_eq!(changes(&params)[2..], ["user=d b", "password=p&w"]);
    }

    #[test]
    fn what_cannot_be_written_is_not() {
        assert_eq!(replaced(Carrier::Basic, "d:b", "x"), None);
        assert_eq!(replaced(Carrier::Headers, "db", "a\nb"), None);
        assert_eq!(replaced(Carrier::Headers, "d\r\nb", "a"), None);
    }
}
