//! `limit_ratio`: keeps series by a hash of their labels.
//!
//! The hash is that of the servers' label sets: xxHash64 of all names and values, each after its
//! length. Lengths from 255 on have four bytes from 3.5 on; before that, lengths were varints.

use super::Groups;
use super::top::{Choice, Heap};
use crate::eval::env::Env;
use crate::eval::error::Outcome;
use crate::eval::unite::SERIES_AT_ONCE;
use crate::eval::value::Series;
use crate::labels::Label;
use crate::plan::{Dialect, Grid};

/// Keeps the chosen samples; `ratios` is by step, from -1 to 1.
pub(super) async fn select<'a>(
    env: &Env<'a>,
    grid: &Grid,
    ratios: &[f64],
    groups: &Groups<'a>,
    mut input: Vec<Series<'a>>,
) -> Outcome<Vec<Series<'a>>> {
    let mut places = Vec::with_capacity(input.len());
    let mut bytes = Vec::new();
    for one in &input {
        encode(one.labels, env.dialect(), &mut bytes);
        places.push(hash(&bytes) as f64 / u64::MAX as f64);
        env.pace.spend(64 + bytes.len()).await;
    }
    let mut heap = Heap {
        entries: Vec::new(),
        is_reversed: false,
        pops: false,
    };
    let mut choice = Choice::new(grid, input.len());
    for (step, ratio) in ratios.iter().enumerate() {
        for members in &groups.members {
            heap.entries.clear();
            for some in members.chunks(SERIES_AT_ONCE) {
                for member in some {
                    let column = &input[*member].column;
                    if is_chosen(places[*member], *ratio) && column.has(step) {
                        let value = column.histogram(step).map_or(column.floats[step], |_| 0.0);
                        heap.push((value, *member));
                    }
                }
                env.pace.spend(16 + 8 * some.len()).await;
            }
            choice.make(env, step, &heap, members, &mut input).await;
        }
    }
    Ok(choice.finish(input))
}

/// Negative ratios take the other end, so that two that make up 1 share no series.
fn is_chosen(place: f64, ratio: f64) -> bool {
    match ratio >= 0.0 {
        true => place < ratio,
        false => place >= 1.0 + ratio,
    }
}

/// Writes a label set as the servers keep it.
fn encode(labels: &[Label<'_>], dialect: Dialect, out: &mut Vec<u8>) {
    out.clear();
    for text in labels.iter().flat_map(|label| [label.name, label.value]) {
        let length = text.len();
        match (u8::try_from(length), dialect.is_at_least(3, 5)) {
            (Ok(short), true) if short < u8::MAX => out.push(short),
            (_, true) => {
                out.push(u8::MAX);
                out.extend_from_slice(&length.to_le_bytes()[..3]);
            }
            (_, false) => {
                let mut rest = length;
                while rest >= 0x80 {
                    out.push((rest & 0x7f) as u8 | 0x80);
                    rest >>= 7;
                }
                out.push(rest as u8);
            }
        }
        out.extend_from_slice(text.as_bytes());
    }
}

const PRIME_1: u64 = 0x9e37_79b1_85eb_ca87;
const PRIME_2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const PRIME_3: u64 = 0x1656_67b1_9e37_79f9;
const PRIME_4: u64 = 0x85eb_ca77_c2b2_ae63;
const PRIME_5: u64 = 0x27d4_eb2f_1656_67c5;

/// xxHash64 with seed 0.
fn hash(bytes: &[u8]) -> u64 {
    let (stripes, rest) = bytes.as_chunks::<32>();
    let mut value = PRIME_5;
    if !stripes.is_empty() {
        let mut lanes = [
            PRIME_1.wrapping_add(PRIME_2),
            PRIME_2,
            0,
            PRIME_1.wrapping_neg(),
        ];
        for stripe in stripes {
            let (words, _) = stripe.as_chunks::<8>();
            for (lane, word) in lanes.iter_mut().zip(words) {
                *lane = round(*lane, u64::from_le_bytes(*word));
            }
        }
        let turned = lanes.iter().zip([1, 7, 12, 18]);
        value = turned.fold(0, |sum, (lane, by)| sum.wrapping_add(lane.rotate_left(by)));
        for lane in lanes {
            value = (value ^ round(0, lane))
                .wrapping_mul(PRIME_1)
                .wrapping_add(PRIME_4);
        }
    }
    value = value.wrapping_add(bytes.len() as u64);
    let (words, rest) = rest.as_chunks::<8>();
    for word in words {
        value = (value ^ round(0, u64::from_le_bytes(*word)))
            .rotate_left(27)
            .wrapping_mul(PRIME_1)
            .wrapping_add(PRIME_4);
    }
    let (halves, rest) = rest.as_chunks::<4>();
    for half in halves {
        let half = u64::from(u32::from_le_bytes(*half));
        value = (value ^ half.wrapping_mul(PRIME_1))
            .rotate_left(23)
            .wrapping_mul(PRIME_2)
            .wrapping_add(PRIME_3);
    }
    for byte in rest {
        value = (value ^ u64::from(*byte).wrapping_mul(PRIME_5))
            .rotate_left(11)
            .wrapping_mul(PRIME_1);
    }
    value = (value ^ (value >> 33)).wrapping_mul(PRIME_2);
    value = (value ^ (value >> 29)).wrapping_mul(PRIME_3);
    value ^ (value >> 32)
}

fn round(lane: u64, word: u64) -> u64 {
    lane.wrapping_add(word.wrapping_mul(PRIME_2))
        .rotate_left(31)
        .wrapping_mul(PRIME_1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the reference implementation, one for each way through: short, words, stripes.
    #[test]
    fn hashes() {
        let cases: [(&[u8], u64); 4] = [
            (b"", 0xef46_db37_51d8_e999),
            (b"a", 0xd24e_c4f1_a98c_6e5b),
            (b"abc", 0x44bc_2cf5_ad77_0999),
            (
                b"Call me Ishmael. Some years ago--never mind how long precisely-",
                0x02a2_e854_70d6_fd96,
            ),
        ];
        for (bytes, expected) in cases {
            assert_eq!(hash(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn lengths_of_texts() {
        let long = "x".repeat(300);
        let middle = "y".repeat(130);
        let labels = [
            Label {
                name: "a",
                value: &middle,
            },
            Label {
                name: "b",
                value: &long,
            },
        ];
        let encoded = |major, minor| {
            let mut out = Vec::new();
            encode(&labels, Dialect { major, minor }, &mut out);
            out.retain(|byte| !matches!(byte, b'x' | b'y'));
            out
        };
        assert_eq!(encoded(3, 5), [1, b'a', 130, 1, b'b', 255, 44, 1, 0]);
        assert_eq!(encoded(3, 4), [1, b'a', 0x82, 1, 1, b'b', 0xac, 2]);
    }
}
