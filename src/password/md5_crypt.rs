//! The MD5 hashes of crypt and of htpasswd, which differ in their mark alone.
//!
//! No maintained library has both, so the rounds are here, on a library's MD5. They are weak by today's measure;
//! files full of them exist.

use md5::{Digest, Md5};
use subtle::ConstantTimeEq;

const ROUNDS: u32 = 1000;
const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Whether `offered` gives the digest in `rest`, which is salt and digest with a `$` between them.
pub(super) fn matches(mark: &str, rest: &str, offered: &str) -> bool {
    let Some((salt, digest)) = rest.split_once('$') else {
        return false;
    };
    hash(mark, salt, offered).ct_eq(digest.as_bytes()).into()
}

/// The digest as text.
fn hash(mark: &str, salt: &str, password: &str) -> Vec<u8> {
    let (salt, password) = (salt.as_bytes(), password.as_bytes());
    let mut digest = first(mark.as_bytes(), salt, password);
    for round in 0..ROUNDS {
        let mut next = Md5::new();
        let odd = round % 2 == 1;
        next.update(if odd { password } else { &digest });
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        next.update(if odd { &digest } else { password });
        digest = next.finalize().into();
    }
    text(&digest)
}

fn first(mark: &[u8], salt: &[u8], password: &[u8]) -> [u8; 16] {
    let inner = Md5::new()
        .chain_update(password)
        .chain_update(salt)
        .chain_update(password)
        .finalize();
    let mut outer = Md5::new()
        .chain_update(password)
        .chain_update(mark)
        .chain_update(salt);
    let mut left = password.len();
    while left > 0 {
        let step = left.min(inner.len());
        outer.update(&inner[..step]);
        left -= step;
    }
    // One byte for each bit of the length: a zero, or the password's first.
    let mut length = password.len();
    while length > 0 {
        outer.update(if length & 1 == 1 {
            &[0]
        } else {
            &password[..1]
        });
        length >>= 1;
    }
    outer.finalize().into()
}

/// Six bits a character, the low ones first, in the order that the format shuffles its bytes.
fn text(digest: &[u8; 16]) -> Vec<u8> {
    let mut text = Vec::with_capacity(22);
    let mut put = |bits: u32, characters: u32| {
        for index in 0..characters {
            text.push(ALPHABET[(bits >> (6 * index)) as usize & 63]);
        }
    };
    for (a, b, c) in [(0, 6, 12), (1, 7, 13), (2, 8, 14), (3, 9, 15), (4, 10, 5)] {
        let byte = |index: usize| u32::from(digest[index]);
        put(byte(a) << 16 | byte(b) << 8 | byte(c), 4);
    }
    put(u32::from(digest[11]), 2);
    text
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn agrees_with_openssl_passwd() {
        let long = "x".repeat(40);
        for (mark, rest, password) in [
            ("$apr1$", "Zo7pTq1x$XYTeBEuZiORIT0981GTGE/", "open sesame"),
            ("$1$", "Zo7pTq1x$w5ggvw.CGAXvXMF0w3eOL/", "open sesame"),
            ("$apr1$", "ab$S8K6Sgp3W8c9Jb6LxgywZ.", ""),
            ("$1$", "abcdefgh$qbqmpT5c4yFc3.1Qef15o.", &long),
            ("$1$", "saltsalt$Uu8JA3MZeN.TbwXNnpzRG0", "pâté"),
        ] {
            assert!(matches(mark, rest, password), "{mark}{rest}");
            assert!(!matches(mark, rest, "other"), "{mark}{rest}");
        }
    }

    #[test]
    fn the_mark_is_part_of_the_hash() {
        assert!(!matches(
            "$1$",
            "Zo7pTq1x$XYTeBEuZiORIT0981GTGE/",
            "open sesame"
        ));
        assert!(!matches("$apr1$", "without digest", "open sesame"));
    }
}
