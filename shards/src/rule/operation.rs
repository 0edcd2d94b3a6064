//! What rules ask of an input, and the text that comes out. Contract: rule page, 5.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};
use sha1::Sha1;
use xxhash_rust::xxh3::xxh3_64;

use crate::plan::{Check, Comparison, Digest, Operation};
use crate::rewrite::find;
use crate::rule::captures::as_text;

/// The result of a check: `true`, `false`, a number, a digest; empty where the input cannot be read.
pub(super) fn check(check: &Check, input: &[u8]) -> Cow<'static, [u8]> {
    if let Some(result) = text(&check.operation, input) {
        return result;
    }
    match truth(&check.operation, input) {
        Some(truth) if truth != check.negated => Cow::Borrowed(b"true"),
        Some(_) => Cow::Borrowed(b"false"),
        None => Cow::Borrowed(b""),
    }
}

/// Of operations whose result is a text.
fn text(operation: &Operation, input: &[u8]) -> Option<Cow<'static, [u8]>> {
    let number = |number: i128| Cow::Owned(number.to_string().into_bytes());
    Some(match operation {
        Operation::Digest(kind) => Cow::Owned(digest(*kind, input)),
        Operation::Modulo(divisor) => {
            let sum: i128 = input.iter().map(|byte| i128::from(*byte)).sum();
            number(sum % i128::from(*divisor))
        }
        Operation::HashModulo(divisor) => number(i128::from(xxh3_64(input) % divisor)),
        Operation::NumberModulo(divisor) => match whole(input) {
            Some(value) => number(value.wrapping_rem(i128::from(*divisor))),
            None => Cow::Borrowed(b""),
        },
        _ => return None,
    })
}

/// Of operations that are true or false; `None` where the input cannot be read.
fn truth(operation: &Operation, input: &[u8]) -> Option<bool> {
    Some(match operation {
        Operation::Equal(text) => input == text.as_bytes(),
        Operation::Contains(text) => find(input, text.as_bytes()).is_some(),
        Operation::Prefix(text) => input.starts_with(text.as_bytes()),
        Operation::Suffix(text) => input.ends_with(text.as_bytes()),
        Operation::Matches(regex) => regex.is_match(&as_text(input)),
        Operation::DigestIs(kind, text) => digest(*kind, input) == text.as_bytes(),
        Operation::Number(comparison, operand) => {
            let input = float(input)?;
            match comparison {
                Comparison::Equal => input == *operand,
                Comparison::Greater => input > *operand,
                Comparison::Less => input < *operand,
                Comparison::AtLeast => input >= *operand,
                Comparison::AtMost => input <= *operand,
            }
        }
        Operation::Between(low, high) => {
            let input = float(input)?;
            *low <= input && input <= *high
        }
        Operation::Bool(truth) => boolean(input)? == *truth,
        _ => return None,
    })
}

/// The digest of an input as text.
pub(super) fn digest(kind: Digest, input: &[u8]) -> Vec<u8> {
    match kind {
        Digest::Md5 => hex(&Md5::digest(input)),
        Digest::Sha1 => hex(&Sha1::digest(input)),
        Digest::Base64 => STANDARD.encode(input).into_bytes(),
    }
}

fn hex(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = |byte: &u8| {
        [
            DIGITS[usize::from(byte >> 4)],
            DIGITS[usize::from(byte & 15)],
        ]
    };
    bytes.iter().flat_map(digits).collect()
}

fn float(input: &[u8]) -> Option<f64> {
    std::str::from_utf8(input).ok()?.parse().ok()
}

/// The number without what follows its point.
fn whole(input: &[u8]) -> Option<i128> {
    let exact = std::str::from_utf8(input).ok()?.parse();
    if let Ok(value) = exact {
        return Some(value);
    }
    let value = float(input)?.trunc();
    // What a float of 64 bits cannot tell apart any more is no number of anything.
    const LARGEST: f64 = 9_007_199_254_740_992.0;
    (value.abs() <= LARGEST).then_some(value as i128)
}

/// A truth as operators and clients write it.
pub(crate) fn boolean(text: &[u8]) -> Option<bool> {
    match text {
        b"1" | b"t" | b"T" | b"TRUE" | b"true" | b"True" => Some(true),
        b"0" | b"f" | b"F" | b"FALSE" | b"false" | b"False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(operation: Operation, input: &str) -> String {
        let asked = Check {
            operation,
            negated: false,
        };
        let result = check(&asked, input.as_bytes()).into_owned();
        String::from_utf8(result).expect("text")
    }

    #[test]
    fn digests_and_remainders_are_those_of_the_contract() {
        use Operation::{Digest as Of, HashModulo, Modulo, NumberModulo};
        let rows = [
            (Of(Digest::Md5), "alpha", "2c1743a391305fbf367df8e4f069f9f9"),
            (
                Of(Digest::Sha1),
                "alpha",
                "be76331b95dfc399cd776d2fc68021e0db03cc4f",
            ),
            (Of(Digest::Base64), "tenant-7", "dGVuYW50LTc="),
            (Modulo(3), "alpha", "2"),
            (Modulo(10), "alpha", "8"),
            (Modulo(7), "/api/v1/query", "5"),
            (NumberModulo(4), "6", "2"),
            (NumberModulo(4), "6.9", "2"),
            (NumberModulo(4), "-6", "-2"),
            (NumberModulo(4), "a", ""),
            (NumberModulo(4), "1e300", ""),
            (NumberModulo(-1), "-9007199254740992", "0"),
            (NumberModulo(10), "18446744073709551615", "5"),
            (NumberModulo(10), "9007199254740993", "3"),
            (
                NumberModulo(-1),
                "-170141183460469231731687303715884105728",
                "0",
            ),
            (Modulo(i64::MIN), "", "0"),
            // XXH3 of nothing is 0x2d06800538d394c2.
            (HashModulo(10), "", "8"),
        ];
        for (operation, input, expected) in rows {
            assert_eq!(
                result(operation.clone(), input),
                expected,
                "{operation:?} {input}"
            );
        }
    }

    #[test]
    fn what_cannot_be_read_is_neither_true_nor_false() {
        let bounds = || Operation::Between(0.0, 5.0);
        for (input, expected) in [
            ("1", "true"),
            ("0", "true"),
            ("6", "false"),
            ("-1", "false"),
            ("", ""),
        ] {
            assert_eq!(result(bounds(), input), expected, "{input}");
        }
        assert_eq!(result(Operation::Unreadable, "1"), "");
        for (input, expected) in [("true", "true"), ("t", "true"), ("0", "false"), ("yes", "")] {
            assert_eq!(result(Operation::Bool(true), input), expected, "{input}");
        }
        let turned = |operation, input: &str| {
            let asked = Check {
                operation,
                negated: true,
            };
            check(&asked, input.as_bytes()).into_owned()
        };
        assert_eq!(turned(bounds(), "6"), b"true");
        assert_eq!(turned(bounds(), "x"), b"");
    }

    #[test]
    fn an_input_matches_whatever_its_length_and_its_bytes() {
        let regex = || regex::bytes::Regex::new("^/a(/.*)?$").expect("a regex");
        let matches = || Operation::Matches(Box::new(regex()));
        let long = format!("/a/{}", "x".repeat(20_000));
        assert_eq!(result(matches(), &long), "true");
        let check = Check {
            operation: matches(),
            negated: false,
        };
        assert_eq!(&*super::check(&check, b"/a/x\xff"), b"true");
        assert_eq!(&*super::check(&check, b"/a\xff"), b"false");
    }
}
