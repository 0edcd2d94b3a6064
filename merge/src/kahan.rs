//! Sums that keep what rounding takes away.

/// How many times larger than their sum the parts of a sum are where they cancel out: each part has lost what is
/// smaller than 2^-53 of it, so the sum is good to 2^-33, or about 1e-10, below this.
const CANCELLING: f64 = (1u32 << 20) as f64;
/// Whole numbers below this are taken for sums of whole numbers, which have lost nothing.
const WHOLE_MAX: f64 = (1u64 << 43) as f64;

/// Whether parts whose sizes add up to `size` have cancelled out to `total`, so that what each has lost may show.
#[inline]
pub(crate) fn have_cancelled(size: f64, total: f64) -> bool {
    size > total.abs() * CANCELLING
}

/// Whether a part of a sum is a small whole number.
pub(crate) fn is_small_whole(part: f64) -> bool {
    part.abs() < WHOLE_MAX && part.fract() == 0.0
}

/// A sum with its compensation (Kahan's way, as improved by Neumaier).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Kahan {
    pub(crate) sum: f64,
    pub(crate) lost: f64,
}

impl Kahan {
    /// A sum that starts with `sum`.
    pub(crate) fn new(sum: f64) -> Self {
        Self { sum, lost: 0.0 }
    }

    /// Adds `value`. What infinities lose is not a number and is not kept.
    #[inline]
    pub(crate) fn add(&mut self, value: f64) {
        let total = self.sum + value;
        // Which of two is larger is anybody's guess: it is told without a branch.
        let is_larger = self.sum.abs() >= value.abs();
        let (large, small) = if is_larger {
            (self.sum, value)
        } else {
            (value, self.sum)
        };
        self.lost += (large - total) + small;
        if total.is_infinite() {
            self.lost = 0.0;
        }
        self.sum = total;
    }

    /// Adds `value` as versions before 2.47 do: they keep what infinities lose.
    #[inline]
    pub(crate) fn add_plainly(&mut self, value: f64) {
        let total = self.sum + value;
        if self.sum.abs() >= value.abs() {
            self.lost += (self.sum - total) + value;
        } else {
            self.lost += (value - total) + self.sum;
        }
        self.sum = total;
    }

    /// The sum.
    #[inline]
    pub(crate) fn total(self) -> f64 {
        self.sum + self.lost
    }

    /// The sum, where that of zeros keeps its sign: to add a lost part of 0 would turn -0 into 0.
    pub(crate) fn signed_total(self) -> f64 {
        if self.lost == 0.0 {
            self.sum
        } else {
            self.total()
        }
    }
}
