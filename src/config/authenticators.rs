//! Section `authenticators`.

use serde::Deserialize;

use super::load::Named;
use super::schema::{Key, Kind};

/// Keys of the section.
pub const KEYS: &[Key] = &[
    Key::new("authenticators", Kind::Names),
    Key::new("authenticators.*", Kind::Section),
    Key::new(
        "authenticators.*.provider",
        Kind::Choice(&["basic", "clickhouse"]),
    ),
    Key::new("authenticators.*.observe_only", Kind::Bool),
    Key::new("authenticators.*.proxy_preserve", Kind::Bool),
    Key::new("authenticators.*.users", Kind::Credentials)
        .env()
        .secret(),
    Key::new("authenticators.*.users_file", Kind::Text),
    Key::new(
        "authenticators.*.users_file_format",
        Kind::Choice(&["csv", "csvNoHeader", "htpasswd"]),
    ),
    Key::new("authenticators.*.config", Kind::Section),
    Key::new("authenticators.*.config.showLoginForm", Kind::Bool),
    Key::new("authenticators.*.config.realm", Kind::Text),
];

/// One entry of the section as written.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Authenticator {
    /// Where a request carries its credentials.
    pub provider: Option<String>,
    /// Reads the user's name and checks nothing.
    pub observe_only: Option<bool>,
    /// Credentials go on to the origin.
    pub proxy_preserve: Option<bool>,
    /// Passwords by user, in written order.
    pub users: Option<Named<String>>,
    /// File with further users.
    pub users_file: Option<String>,
    /// Form of that file.
    pub users_file_format: Option<String>,
    /// How a refusal asks for credentials.
    pub config: Option<Challenge>,
}

/// Block `config` of an authenticator as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Challenge {
    /// A refusal makes browsers ask for a password.
    #[serde(rename = "showLoginForm")]
    pub show_login_form: Option<bool>,
    /// What they show.
    pub realm: Option<String>,
}

// Without the passwords.
impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authenticator")
            .field("provider", &self.provider)
            .field("users_file", &self.users_file)
            .finish_non_exhaustive()
    }
}

/// Names of hash forms between the first two `$` that can be checked.
pub const HASHES: &[&str] = &["2a", "2b", "2y", "apr1", "1", "5", "6"];
/// Names of hash forms that cannot.
pub const FOREIGN_HASHES: &[&str] = &[
    "2",
    "2x",
    "3",
    "7",
    "8",
    "9",
    "y",
    "gy",
    "argon2i",
    "argon2d",
    "argon2id",
    "scrypt",
    "sha1",
    "pbkdf2",
    "pbkdf2-sha1",
    "pbkdf2-sha256",
    "pbkdf2-sha512",
];

/// The name of the hash form that a password is in; `None` for one in the clear.
pub fn hash_form(password: &str) -> Option<&str> {
    let (form, _) = password.strip_prefix('$')?.split_once('$')?;
    let known = HASHES.contains(&form) || FOREIGN_HASHES.contains(&form);
    known.then_some(form)
}
