//! Damage: from a valid input to one that is almost valid.

use crate::random::Random;
use crate::targets::Target;

/// Inputs grow no longer than this.
const INPUT_BYTES_MAX: usize = 16 * 1024;
/// Steps of damage done to one input at most.
const STEPS_MAX: usize = 6;

/// Bytes that parsers treat as special.
const SPECIAL: &[u8] = b"\r\n\0\t :;,\"'#?/\\[]{}()@=+-*%&|<>\x7f\x80\xc3\xe9\xff\x0b\x1b09afAFzZ";

/// Numbers at the edges of what is usually provided for.
const NUMBERS: &[&[u8]] = &[
    b"0",
    b"00",
    b"-1",
    b"+1",
    b"1",
    b"9",
    b"127",
    b"255",
    b"256",
    b"65535",
    b"65536",
    b"2147483648",
    b"4294967296",
    b"9223372036854775807",
    b"18446744073709551615",
    b"18446744073709551616",
    b"99999999999999999999999",
    b"1e9",
    b"0x10",
    b"1.5",
    b"NaN",
    b"ffffffffffffffff",
    b"10000000000000000",
];

/// The input of one iteration.
pub fn input(target: &Target, random: &mut Random) -> Vec<u8> {
    let mut input = random.pick(target.seeds).to_vec();
    for _ in 0..random.below(STEPS_MAX + 1) {
        step(&mut input, target, random);
        input.truncate(INPUT_BYTES_MAX);
    }
    input
}

fn step(input: &mut Vec<u8>, target: &Target, random: &mut Random) {
    let at = random.below(input.len());
    match random.below(14) {
        0 => change_byte(
            input,
            at,
            |byte, random| byte ^ 1 << random.below(8),
            random,
        ),
        1 => change_byte(input, at, |_, random| random.byte(), random),
        2 => change_byte(
            input,
            at,
            |_, random| SPECIAL[random.below(SPECIAL.len())],
            random,
        ),
        3 => input.insert(at, SPECIAL[random.below(SPECIAL.len())]),
        4 => remove_range(input, at, random),
        5 => input.truncate(at),
        6 | 7 => insert(input, at, random.pick(target.words)),
        8 => replace_word(input, at, random.pick(target.words)),
        9 => replace_number(input, at, random.pick(NUMBERS)),
        10 => repeat_range(input, at, random),
        11 => move_line(input, random),
        12 => flip_case(input, at),
        _ => splice(input, at, random.pick(target.seeds), random),
    }
}

fn change_byte(
    input: &mut [u8],
    at: usize,
    change: impl FnOnce(u8, &mut Random) -> u8,
    random: &mut Random,
) {
    if let Some(byte) = input.get_mut(at) {
        *byte = change(*byte, random);
    }
}

fn insert(input: &mut Vec<u8>, at: usize, text: &[u8]) {
    input.splice(at..at, text.iter().copied());
}

fn remove_range(input: &mut Vec<u8>, at: usize, random: &mut Random) {
    let length = random.below(8).min(input.len() - at);
    input.drain(at..at + length);
}

/// Puts a copy of what begins at `at` behind it, sometimes often.
fn repeat_range(input: &mut Vec<u8>, at: usize, random: &mut Random) {
    let length = random.below(24).min(input.len() - at);
    let copy = input[at..at + length].to_vec();
    let times = if random.below(8) == 0 {
        random.below(300)
    } else {
        1
    };
    insert(input, at, &copy.repeat(times));
}

/// Puts `text` in place of the letters and digits around `at`.
fn replace_word(input: &mut Vec<u8>, at: usize, text: &[u8]) {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let start = input[..at]
        .iter()
        .rposition(|byte| !is_word(byte))
        .map_or(0, |index| index + 1);
    let length = input[at..]
        .iter()
        .position(|byte| !is_word(byte))
        .unwrap_or(input.len() - at);
    input.splice(start..at + length, text.iter().copied());
}

/// Puts `text` in place of the next digits from `at` on.
fn replace_number(input: &mut Vec<u8>, at: usize, text: &[u8]) {
    let Some(skip) = input[at..].iter().position(u8::is_ascii_hexdigit) else {
        return;
    };
    let start = at + skip;
    let rest = &input[start..];
    let length = rest
        .iter()
        .position(|byte| !byte.is_ascii_hexdigit())
        .unwrap_or(rest.len());
    input.splice(start..start + length, text.iter().copied());
}

/// Takes a line out and puts it elsewhere, or there twice, or nowhere.
fn move_line(input: &mut Vec<u8>, random: &mut Random) {
    let mut lines: Vec<Vec<u8>> = input
        .split_inclusive(|&byte| byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    if lines.is_empty() {
        return;
    }
    let line = lines.remove(random.below(lines.len()));
    for _ in 0..random.below(3) {
        lines.insert(random.below(lines.len() + 1), line.clone());
    }
    *input = lines.concat();
}

fn flip_case(input: &mut [u8], at: usize) {
    for byte in input.iter_mut().skip(at).take(8) {
        if byte.is_ascii_alphabetic() {
            *byte ^= 0x20;
        }
    }
}

/// Goes on with the rest of another input.
fn splice(input: &mut Vec<u8>, at: usize, other: &[u8], random: &mut Random) {
    input.truncate(at);
    input.extend_from_slice(&other[random.below(other.len())..]);
}
