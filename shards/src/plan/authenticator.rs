//! Who may use a path, and what a user router makes of who it is.

use std::collections::HashMap;

use zeroize::Zeroize;

use super::BackendId;

/// Index of an authenticator in its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AuthenticatorId(pub u16);

/// One entry of `authenticators`, its files read. Contract: config page, 6.
#[derive(Debug)]
pub struct Authenticator {
    /// Operator's name.
    pub name: Box<str>,
    /// Where a request carries its credentials.
    pub kind: AuthenticatorKind,
    /// The user's name is read, nothing is checked.
    pub observe_only: bool,
    /// Credentials go on to the origin.
    pub proxy_preserve: bool,
    /// Realm of the `WWW-Authenticate` header of a refusal; `None`: no such header.
    pub realm: Option<Box<str>>,
    /// Users by name.
    pub users: HashMap<Box<str>, Password>,
}

/// Where a request carries its credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthenticatorKind {
    /// `Authorization: Basic`.
    Basic,
    /// ClickHouse's: query parameters `user` and `password`, its `X-ClickHouse-User` and `X-ClickHouse-Key`
    /// headers, or `Authorization: Basic`.
    ClickHouse,
}

/// What a user's password is compared with.
#[derive(Debug)]
pub enum Password {
    /// The password.
    Plain(Secret),
    /// A hash of it in one of the forms of htpasswd files; checking it takes milliseconds, so that it never
    /// happens on a shard.
    Hashed(Secret),
}

/// A text that never shows in logs, dumps and error texts, and whose memory is cleared when it goes.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Wraps it.
    pub fn new(text: impl Into<Box<str>>) -> Secret {
        Secret(text.into())
    }

    /// The text, for comparing and for sending.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// Settings of the user router mechanism. Contract: ALB page, 2.2 and 6.6.
#[derive(Clone, Debug)]
pub struct UserRouter {
    /// Where requests without a user go, and those of users without a place of their own.
    pub default_backend: Option<BackendId>,
    /// Status of the answer where no backend can be used, 400 to 599.
    pub no_route_status: u16,
    /// Users by name, compared exactly.
    pub users: HashMap<Box<str>, UserRoute>,
    /// Where the user's name is read when no authenticator has done so.
    pub observer: AuthenticatorKind,
}

/// One user of a user router.
#[derive(Clone, Debug)]
pub struct UserRoute {
    /// Where the user's requests go; `None`: as everybody's.
    pub to_backend: Option<BackendId>,
    /// Name shown to that backend instead of the user's.
    pub to_user: Option<Box<str>>,
    /// Password shown to that backend instead of the user's.
    pub to_credential: Option<Secret>,
}
