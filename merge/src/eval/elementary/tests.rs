//! Every bit against the golden file, and what the file does not hold.

use super::*;

/// What servers make of numbers: written by `tests/promql/elementary.py`.
const GOLDEN: &str = include_str!("../../../../tests/golden/elementary.txt");

fn number(text: &str) -> f64 {
    text.parse().unwrap()
}

#[test]
fn every_bit_is_as_in_the_servers() {
    let mut checked = 0;
    for line in GOLDEN.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let (found, expected) = match *words {
            ["^", x, y, expected] => (power(number(x), number(y)), expected),
            ["atan2", y, x, expected] => (atan2(number(y), number(x)), expected),
            ["%", x, y, expected] => (number(x) % number(y), expected),
            [name, x, expected] => (function(name).unwrap()(number(x)), expected),
            _ => panic!("{line}"),
        };
        let expected = number(expected);
        let is_same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
        assert!(is_same, "{line}: found {found}");
        checked += 1;
    }
    assert!(checked > 800, "{checked}");
}

#[test]
fn signs_and_unknown_names() {
    let sgn = function("sgn").unwrap();
    let cases = [
        (0.0, 0.0),
        (-0.0, -0.0),
        (5e-324, 1.0),
        (f64::NEG_INFINITY, -1.0),
    ];
    for (given, expected) in cases {
        assert_eq!(sgn(given).to_bits(), f64::to_bits(expected), "{given}");
    }
    assert!(sgn(f64::NAN).is_nan());
    assert!(function("round").is_none());
}

#[test]
fn powers_of_two() {
    for whole in -1074..1024 {
        let expected = f64::from(whole).exp2();
        assert_eq!(exp2(f64::from(whole)), expected, "{whole}");
        assert_eq!(log2(expected), f64::from(whole), "{whole}");
    }
    for part in 1..100 {
        let given = f64::from(part) * 0.37 - 20.0;
        let off = exp2(given) / given.exp2() - 1.0;
        assert!(off.abs() <= f64::EPSILON, "{given}: {off}");
    }
    for (given, expected) in [
        (1024.0, f64::INFINITY),
        (f64::INFINITY, f64::INFINITY),
        (-1074.5, 0.0),
        (f64::NEG_INFINITY, 0.0),
    ] {
        assert_eq!(exp2(given), expected, "{given}");
    }
    assert!(exp2(f64::NAN).is_nan());
}
