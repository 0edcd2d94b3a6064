//! Passwords against the hashes that users files hold.
//!
//! The door to the libraries that compute such hashes. A check takes milliseconds to seconds by design, so it is
//! for the threads of [`crate::control::verify`] alone. What a hash may cost, and whether it is whole, is the
//! business of the compiler of the configuration. Contract: config page, 6.

use sha_crypt::{PasswordVerifier, ShaCrypt};

mod md5_crypt;

/// Marks of bcrypt's hashes; they differ in bugs that no password of today can meet.
const BCRYPT: [&str; 3] = ["$2a$", "$2b$", "$2y$"];
/// Marks of the SHA-256 and SHA-512 hashes of crypt.
const SHA: [&str; 2] = ["$5$", "$6$"];
/// Marks of the MD5 hashes, of crypt and of htpasswd.
const MD5: [&str; 2] = ["$1$", "$apr1$"];

/// Whether `offered` is the password that `stored` is the hash of. Takes long; see the module.
///
/// What is no hash of a known form matches nothing, least of all itself.
pub fn matches(stored: &str, offered: &str) -> bool {
    let is_marked = |marks: &[&str]| marks.iter().any(|mark| stored.starts_with(mark));
    if is_marked(&BCRYPT) {
        return bcrypt::verify(offered, stored).unwrap_or(false);
    }
    if is_marked(&SHA) {
        let checked = ShaCrypt::default().verify_password(offered.as_bytes(), stored);
        return checked.is_ok();
    }
    MD5.into_iter().any(|mark| {
        let rest = stored.strip_prefix(mark);
        rest.is_some_and(|rest| md5_crypt::matches(mark, rest, offered))
    })
}

#[cfg(test)]
mod tests {
    use super::matches;

    /// Made with `openssl passwd` and with crypt of the C library.
    const SESAME: &[&str] = &[
        "$2b$04$abcdefghijklmnopqrstuu/LVz6MZlItEy42I2juLihZ66HnQx/cy",
        "$2y$04$abcdefghijklmnopqrstuu/LVz6MZlItEy42I2juLihZ66HnQx/cy",
        "$2a$04$abcdefghijklmnopqrstuu/LVz6MZlItEy42I2juLihZ66HnQx/cy",
        "$apr1$Zo7pTq1x$XYTeBEuZiORIT0981GTGE/",
        "$1$Zo7pTq1x$w5ggvw.CGAXvXMF0w3eOL/",
        "$5$saltsalt$yrhPKxCqiWcCE9h0g86j6Ugz7SDFdFm.BjU.d8RaQnC",
        "$5$rounds=1400$anotherlongsalts$y9/vYV8oUKplrnk6RiHlLDLj8VdTqjmX9lbSAshFl.1",
    ];

    #[test]
    fn each_form_knows_its_password_and_no_other() {
        for stored in SESAME {
            assert!(matches(stored, "open sesame"), "{stored}");
            assert!(!matches(stored, "open sesam"), "{stored}");
            assert!(!matches(stored, ""), "{stored}");
        }
        let sha512 = "$6$saltsalt$v4r.d2i4iEcNGJjrlsGvfNVFbcbyie//ta9N7FAnc7vcndp16FJl0XqRJVD2HL8zOxXwQd1jUk6Eajf72/owe1";
        assert!(matches(sha512, "pâté"));
        assert!(!matches(sha512, "pate"));
    }

    #[test]
    fn a_hash_is_not_its_own_password() {
        for stored in SESAME {
            assert!(!matches(stored, stored), "{stored}");
        }
    }

    #[test]
    fn what_is_no_whole_hash_matches_nothing() {
        for stored in [
            "",
            "plain",
            "$",
            "$7$x",
            "$2y$",
            "$2y$04$short",
            "$apr1$",
            "$apr1$salt",
            "$1$salt$short",
            "$5$salt",
            "$6$salt$short",
            "$6$rounds=1$salt$short",
        ] {
            for offered in [stored, "", "plain", "short"] {
                assert!(!matches(stored, offered), "{stored} {offered}");
            }
        }
    }
}
