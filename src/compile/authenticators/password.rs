//! Passwords as they are stored: in the clear, or as one of the hashes of htpasswd files.
//!
//! A text that is some hash is never taken for a password in the clear: whoever reads the file could then pass with it.

use ringway_shards::plan::{Password, Secret};

use crate::config::authenticators::{HASHES, hash_form};

/// Longest password or hash.
const BYTES_MAX: usize = 1024;
/// Highest cost of a bcrypt hash: each step doubles the time of a check, and 16 is seconds.
const BCRYPT_COST_MAX: u32 = 16;
/// Most rounds of a SHA-crypt hash, for the same reason.
const SHA_ROUNDS_MAX: u32 = 1_000_000;
/// Rounds below which SHA-crypt does not go.
const SHA_ROUNDS_MIN: u32 = 1_000;

/// Reads a stored password. `is_htpasswd`: the file may have traditional crypt hashes, which have no mark.
pub(super) fn read(text: &str, is_htpasswd: bool) -> Result<Password, &'static str> {
    if text.is_empty() {
        return Err("the password is empty");
    }
    if text.len() > BYTES_MAX {
        return Err("the password is longer than 1024 bytes");
    }
    if text.starts_with("{SHA}") || text.starts_with("{SSHA}") {
        return Err("SHA-1 hashes are not accepted; make a bcrypt one with `htpasswd -B`");
    }
    let Some(form) = hash_form(text) else {
        if is_htpasswd && text.len() == 13 && text.bytes().all(is_crypt_byte) {
            return Err("DES crypt hashes are not accepted; make a bcrypt one with `htpasswd -B`");
        }
        return Ok(Password::Plain(Secret::new(text)));
    };
    if !HASHES.contains(&form) {
        return Err(
            "hashes of this form are not accepted; bcrypt, apr1, md5, sha256 and sha512 crypt are",
        );
    }
    let rest = &text[form.len() + 2..];
    match form {
        "apr1" | "1" => md5(rest)?,
        "5" => sha(rest, 43)?,
        "6" => sha(rest, 86)?,
        _ => bcrypt(rest)?,
    }
    Ok(Password::Hashed(Secret::new(text)))
}

/// `<cost>$<22 of salt, 31 of hash>`
fn bcrypt(rest: &str) -> Result<(), &'static str> {
    let damaged = "this bcrypt hash is damaged";
    let (cost, hash) = rest.split_once('$').ok_or(damaged)?;
    let digits = cost.len() == 2 && cost.bytes().all(|byte| byte.is_ascii_digit());
    let cost: u32 = cost.parse().map_err(|_| damaged)?;
    if !digits || cost < 4 || hash.len() != 53 || !hash.bytes().all(is_crypt_byte) {
        return Err(damaged);
    }
    match cost > BCRYPT_COST_MAX {
        true => Err("a bcrypt cost above 16 takes seconds a check"),
        false => Ok(()),
    }
}

/// `<salt>$<hash>`
fn md5(rest: &str) -> Result<(), &'static str> {
    let damaged = "this MD5 crypt hash is damaged";
    let (salt, hash) = rest.split_once('$').ok_or(damaged)?;
    let fits = salt.len() <= 8 && hash.len() == 22 && hash.bytes().all(is_crypt_byte);
    fits.then_some(()).ok_or(damaged)
}

/// `[rounds=<n>$]<salt>$<hash>`
fn sha(rest: &str, hash_len: usize) -> Result<(), &'static str> {
    let damaged = "this SHA crypt hash is damaged";
    let rest = match rest.strip_prefix("rounds=") {
        None => rest,
        Some(after) => {
            let (rounds, rest) = after.split_once('$').ok_or(damaged)?;
            let rounds: u32 = rounds.parse().map_err(|_| damaged)?;
            if rounds < SHA_ROUNDS_MIN {
                return Err(damaged);
            }
            if rounds > SHA_ROUNDS_MAX {
                return Err("more than 1000000 rounds take seconds a check");
            }
            rest
        }
    };
    let (salt, hash) = rest.split_once('$').ok_or(damaged)?;
    let fits = salt.len() <= 16 && hash.len() == hash_len && hash.bytes().all(is_crypt_byte);
    fits.then_some(()).ok_or(damaged)
}

/// The alphabet of all crypt hashes.
fn is_crypt_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'/'
}

#[cfg(test)]
mod tests {
    use super::*;

    const BCRYPT: &str = "$2y$05$abcdefghijklmnopqrstuuE3cnM6pZ1dJ5h5Z9Wm3dP0x8yQyB6QW";

    #[test]
    fn hashes_are_told_from_passwords_in_the_clear() {
        let sha512 = format!("$6$salt${}", "x".repeat(86));
        let sha256 = format!("$5$rounds=5000$salt${}", "x".repeat(43));
        for text in [
            BCRYPT,
            &BCRYPT.replace("2y", "2a"),
            &BCRYPT.replace("2y", "2b"),
            "$apr1$salt$0123456789012345678901",
            "$1$salt$0123456789012345678901",
            &sha256,
            &sha512,
        ] {
            assert!(
                matches!(read(text, true), Ok(Password::Hashed(_))),
                "{text}"
            );
            assert!(
                matches!(read(text, false), Ok(Password::Hashed(_))),
                "{text}"
            );
        }
        for text in [
            "a",
            "pa$$word",
            "$",
            "$$",
            "$money$",
            "{x}",
            "abcdefghijklm",
            "2y$05$a",
        ] {
            assert!(
                matches!(read(text, false), Ok(Password::Plain(_))),
                "{text}"
            );
        }
        assert!(matches!(
            read("abcdefghijkl!", true),
            Ok(Password::Plain(_))
        ));
    }

    #[test]
    fn what_cannot_be_checked_is_refused() {
        let cheap = format!("$5$rounds=5$salt${}", "x".repeat(43));
        let dear = format!("$5$rounds=1000001$salt${}", "x".repeat(43));
        for (text, part) in [
            ("", "empty"),
            (&*"x".repeat(1025), "longer"),
            ("{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", "SHA-1"),
            ("{SSHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", "SHA-1"),
            ("$2x$05$abc", "form"),
            ("$argon2id$v=19$m=1", "form"),
            ("$y$j9T$abc$def", "form"),
            ("$2y$05$short", "damaged"),
            (&BCRYPT.replace("05", "5"), "damaged"),
            (&BCRYPT.replace("05", "03"), "damaged"),
            (&BCRYPT.replace("05", "17"), "seconds"),
            ("$2y$05", "damaged"),
            ("$apr1$salt", "damaged"),
            ("$apr1$longersalt$0123456789012345678901", "damaged"),
            ("$1$salt$short", "damaged"),
            ("$6$salt$short", "damaged"),
            (&cheap, "damaged"),
            (&dear, "seconds"),
        ] {
            let reason = read(text, false).expect_err(text);
            assert!(reason.contains(part), "{text}: {reason}");
        }
        assert!(read("abcdefghijklm", true).is_err_and(|reason| reason.contains("DES")));
    }
}
