//! Numbers that look random and are the same every time.

/// A small generator (xorshift).
pub struct Random(u64);

impl Random {
    /// The generator of one iteration of one target.
    pub fn of_iteration(target: &str, seed: u64, iteration: u64) -> Random {
        let mut state = mix(seed ^ 0x9e37_79b9_7f4a_7c15);
        for byte in target.bytes() {
            state = mix(state ^ u64::from(byte));
        }
        // Zero is the one state the generator never leaves.
        Random(mix(state ^ mix(iteration)) | 1)
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `bound`, or 0 when there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 {
            0
        } else {
            ((self.next() >> 11) % bound as u64) as usize
        }
    }

    /// One of `choices`, which are not empty.
    pub fn pick<'c, T: ?Sized>(&mut self, choices: &[&'c T]) -> &'c T {
        choices[self.below(choices.len())]
    }

    /// Any byte.
    pub fn byte(&mut self) -> u8 {
        self.below(256) as u8
    }
}

/// Spreads every bit over all others.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
