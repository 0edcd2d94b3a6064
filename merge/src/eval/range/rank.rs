//! Quantiles of the values of a window.
//!
//! Short windows are sorted. Of long ones, the values of two ranks are found bit by bit, in turns.

use super::{CHUNK, SAMPLE_UNITS};
use crate::eval::env::Env;
use crate::eval::error::Outcome;

/// Bits of a key that are looked at in one pass.
const DIGIT_BITS: u32 = 8;
/// Different values of that many bits.
const DIGITS: usize = 1 << DIGIT_BITS;

/// The φ-quantile of `of` of the values; `floats` is not empty.
pub(super) async fn quantile(
    env: &Env<'_>,
    floats: &[(i64, f64)],
    quantile: f64,
    of: &dyn Fn(f64) -> f64,
) -> Outcome<f64> {
    if quantile.is_nan() || floats.is_empty() {
        return Ok(f64::NAN);
    }
    if quantile < 0.0 {
        return Ok(f64::NEG_INFINITY);
    }
    if quantile > 1.0 {
        return Ok(f64::INFINITY);
    }
    let rank = quantile * (floats.len() - 1) as f64;
    // Between 0 and the length by the lines above.
    let lower = rank.floor() as usize;
    let upper = (lower + 1).min(floats.len() - 1);
    let weight = rank - rank.floor();
    let (low, high) = if floats.len() <= CHUNK {
        let mut keys: Vec<u64> = floats.iter().map(|(_, value)| key(of(*value))).collect();
        keys.sort_unstable();
        env.pace.spend(16 * SAMPLE_UNITS * keys.len()).await;
        (keys[lower], keys[upper])
    } else {
        let low = select(env, floats, lower, of).await;
        (low, select(env, floats, upper, of).await)
    };
    Ok(value(low) * (1.0 - weight) + value(high) * weight)
}

/// A number whose order is that of the values, those that are not a number first.
fn key(value: f64) -> u64 {
    if value.is_nan() {
        return 0;
    }
    let bits = value.to_bits();
    match bits >> 63 {
        0 => bits | 1 << 63,
        _ => !bits,
    }
}

/// The value of a key.
fn value(key: u64) -> f64 {
    match key {
        0 => f64::NAN,
        key if key >> 63 == 1 => f64::from_bits(key & !(1 << 63)),
        key => f64::from_bits(!key),
    }
}

/// The key of rank `rank`, counted from 0.
async fn select(
    env: &Env<'_>,
    floats: &[(i64, f64)],
    mut rank: usize,
    of: &dyn Fn(f64) -> f64,
) -> u64 {
    let mut found = 0u64;
    let mut shift = u64::BITS;
    while shift > 0 {
        let above = shift;
        shift -= DIGIT_BITS;
        let mut counts = [0usize; DIGITS];
        for chunk in floats.chunks(CHUNK) {
            for (_, value) in chunk {
                let key = key(of(*value));
                let is_candidate = above == u64::BITS || key >> above == found >> above;
                // Below DIGITS by the mask.
                counts[(key >> shift) as usize & (DIGITS - 1)] += usize::from(is_candidate);
            }
            env.pace.spend(2 * SAMPLE_UNITS * chunk.len()).await;
        }
        for (digit, count) in counts.iter().enumerate() {
            if rank < *count {
                found |= (digit as u64) << shift;
                break;
            }
            rank -= count;
        }
    }
    found
}
