//! Functions that go over the values of a window once.

use super::{CHUNK, Context, Function, Moment, SAMPLE_UNITS};
use crate::eval::error::{EvalError, Outcome};
use crate::kahan::Kahan;
use crate::plan::Dialect;

/// Takes the samples of a window in order.
trait Fold {
    fn take(&mut self, time_ms: i64, value: f64);
    fn result(&self) -> f64;
}

/// Goes over a window that has as many samples as the function needs.
pub(super) async fn fold(
    context: &Context<'_, '_>,
    floats: &[(i64, f64)],
    time_ms: i64,
    (first, second): (f64, f64),
) -> f64 {
    let dialect = context.env.dialect();
    let origin = floats.first().copied().unwrap_or_default();
    match context.function {
        Function::Sum => run(context, floats, Sum::new(dialect)).await,
        Function::Avg if dialect.is_at_least(2, 53) => run(context, floats, Mean::default()).await,
        Function::Avg => run(context, floats, MovingMean::default()).await,
        Function::Min => {
            run(
                context,
                floats,
                Extreme::new(origin, |now, best| now < best),
            )
            .await
        }
        Function::Max => {
            run(
                context,
                floats,
                Extreme::new(origin, |now, best| now > best),
            )
            .await
        }
        Function::TimeOf(Moment::Min) => {
            let found = Extreme::new(origin, |now, best| now <= best).timed();
            run(context, floats, found).await
        }
        Function::TimeOf(_) => {
            let found = Extreme::new(origin, |now, best| now >= best).timed();
            run(context, floats, found).await
        }
        Function::Stddev => run(context, floats, Spread::new(dialect)).await.sqrt(),
        Function::Deriv => run(context, floats, Line::new(origin.0, dialect)).await,
        Function::PredictLinear => {
            let line = Line::new(time_ms, dialect).ahead(first);
            run(context, floats, line).await
        }
        Function::Smoothed => run(context, floats, Smooth::new(first, second)).await,
        _ => run(context, floats, Spread::new(dialect)).await,
    }
}

async fn run(context: &Context<'_, '_>, floats: &[(i64, f64)], mut fold: impl Fold) -> f64 {
    for chunk in floats.chunks(CHUNK) {
        for (time, value) in chunk {
            fold.take(*time, *value);
        }
        context.env.pace.spend(2 * SAMPLE_UNITS * chunk.len()).await;
    }
    fold.result()
}

/// Whether sums of this version keep what infinities lose.
fn is_plain(dialect: Dialect) -> bool {
    !dialect.is_at_least(2, 53)
}

fn add(to: &mut Kahan, value: f64, is_plain: bool) {
    match is_plain {
        true => to.add_plainly(value),
        false => to.add(value),
    }
}

struct Sum {
    sum: Kahan,
    is_plain: bool,
}

impl Sum {
    fn new(dialect: Dialect) -> Self {
        Self {
            sum: Kahan::default(),
            is_plain: is_plain(dialect),
        }
    }
}

impl Fold for Sum {
    fn take(&mut self, _: i64, value: f64) {
        add(&mut self.sum, value, self.is_plain);
    }

    fn result(&self) -> f64 {
        match self.sum.sum.is_infinite() {
            true => self.sum.sum,
            false => self.sum.total(),
        }
    }
}

/// The mean as a sum, until that overflows; then as a mean that moves.
#[derive(Default)]
struct Mean {
    sum: Kahan,
    count: f64,
    moves: bool,
}

impl Fold for Mean {
    fn take(&mut self, _: i64, value: f64) {
        self.count += 1.0;
        if self.count == 1.0 {
            self.sum = Kahan::new(value);
            return;
        }
        let before = self.count - 1.0;
        if !self.moves {
            let mut next = self.sum;
            next.add(value);
            if !next.sum.is_infinite() {
                self.sum = next;
                return;
            }
            self.moves = true;
            self.sum.sum /= before;
            self.sum.lost /= before;
        }
        let share = before / self.count;
        self.sum.sum *= share;
        self.sum.lost *= share;
        self.sum.add(value / self.count);
    }

    fn result(&self) -> f64 {
        match self.moves {
            true => self.sum.total(),
            false => self.sum.sum / self.count + self.sum.lost / self.count,
        }
    }
}

/// The mean as versions before 2.53 compute it: moved by each value.
#[derive(Default)]
struct MovingMean {
    mean: Kahan,
    count: f64,
}

impl Fold for MovingMean {
    fn take(&mut self, _: i64, value: f64) {
        self.count += 1.0;
        let mean = self.mean.sum;
        if mean.is_infinite() {
            let is_same = value.is_infinite() && (mean > 0.0) == (value > 0.0);
            if is_same || value.is_finite() {
                return;
            }
        }
        self.mean
            .add_plainly(value / self.count - mean / self.count);
    }

    fn result(&self) -> f64 {
        match self.mean.sum.is_infinite() {
            true => self.mean.sum,
            false => self.mean.total(),
        }
    }
}

/// The least or greatest value, or its time.
struct Extreme<F> {
    best: f64,
    best_ms: i64,
    is_better: F,
    tells_time: bool,
}

impl<F: Fn(f64, f64) -> bool> Extreme<F> {
    fn new((best_ms, best): (i64, f64), is_better: F) -> Self {
        Self {
            best,
            best_ms,
            is_better,
            tells_time: false,
        }
    }

    fn timed(self) -> Self {
        Self {
            tells_time: true,
            ..self
        }
    }
}

impl<F: Fn(f64, f64) -> bool> Fold for Extreme<F> {
    fn take(&mut self, time_ms: i64, value: f64) {
        if (self.is_better)(value, self.best) || self.best.is_nan() {
            (self.best_ms, self.best) = (time_ms, value);
        }
    }

    fn result(&self) -> f64 {
        match self.tells_time {
            true => self.best_ms as f64 / 1000.0,
            false => self.best,
        }
    }
}

/// Variance, by Welford's way.
struct Spread {
    count: f64,
    mean: Kahan,
    squares: Kahan,
    is_plain: bool,
}

impl Spread {
    fn new(dialect: Dialect) -> Self {
        Self {
            count: 0.0,
            mean: Kahan::default(),
            squares: Kahan::default(),
            is_plain: is_plain(dialect),
        }
    }
}

impl Fold for Spread {
    fn take(&mut self, _: i64, value: f64) {
        self.count += 1.0;
        let distance = value - self.mean.total();
        add(&mut self.mean, distance / self.count, self.is_plain);
        let square = distance * (value - self.mean.total());
        add(&mut self.squares, square, self.is_plain);
    }

    fn result(&self) -> f64 {
        self.squares.total() / self.count
    }
}

/// The line with the least squared distance: its slope, or where it goes.
struct Line {
    origin_ms: i64,
    count: f64,
    x: Kahan,
    y: Kahan,
    xy: Kahan,
    xx: Kahan,
    first: f64,
    is_level: bool,
    ahead: Option<f64>,
    is_plain: bool,
}

impl Line {
    fn new(origin_ms: i64, dialect: Dialect) -> Self {
        Self {
            origin_ms,
            count: 0.0,
            x: Kahan::default(),
            y: Kahan::default(),
            xy: Kahan::default(),
            xx: Kahan::default(),
            first: 0.0,
            is_level: true,
            ahead: None,
            is_plain: is_plain(dialect),
        }
    }

    /// Where the line is `seconds` after its origin.
    fn ahead(self, seconds: f64) -> Self {
        Self {
            ahead: Some(seconds),
            ..self
        }
    }

    fn slope_and_intercept(&self) -> (f64, f64) {
        if self.is_level {
            return match self.first.is_infinite() {
                true => (f64::NAN, f64::NAN),
                false => (0.0, self.first),
            };
        }
        let (x, y, count) = (self.x.total(), self.y.total(), self.count);
        let covariance = self.xy.total() - x * y / count;
        let variance = self.xx.total() - x * x / count;
        let slope = covariance / variance;
        (slope, y / count - slope * x / count)
    }
}

impl Fold for Line {
    fn take(&mut self, time_ms: i64, value: f64) {
        if self.count == 0.0 {
            self.first = value;
        } else if value != self.first {
            self.is_level = false;
        }
        self.count += 1.0;
        let x = (time_ms - self.origin_ms) as f64 / 1e3;
        add(&mut self.x, x, self.is_plain);
        add(&mut self.y, value, self.is_plain);
        add(&mut self.xy, x * value, self.is_plain);
        add(&mut self.xx, x * x, self.is_plain);
    }

    fn result(&self) -> f64 {
        let (slope, intercept) = self.slope_and_intercept();
        match self.ahead {
            Some(seconds) => slope * seconds + intercept,
            None => slope,
        }
    }
}

/// Double exponential smoothing.
struct Smooth {
    smoothing: f64,
    trending: f64,
    taken: usize,
    before: f64,
    smoothed: f64,
    trend: f64,
}

impl Smooth {
    fn new(smoothing: f64, trending: f64) -> Self {
        Self {
            smoothing,
            trending,
            taken: 0,
            before: 0.0,
            smoothed: 0.0,
            trend: 0.0,
        }
    }
}

impl Fold for Smooth {
    fn take(&mut self, _: i64, value: f64) {
        match self.taken {
            0 => self.smoothed = value,
            taken => {
                self.trend = match taken {
                    1 => value - self.smoothed,
                    _ => {
                        self.trending * (self.smoothed - self.before)
                            + (1.0 - self.trending) * self.trend
                    }
                };
                let raw = self.smoothing * value;
                let kept = (1.0 - self.smoothing) * (self.smoothed + self.trend);
                (self.before, self.smoothed) = (self.smoothed, raw + kept);
            }
        }
        self.taken += 1;
    }

    fn result(&self) -> f64 {
        self.smoothed
    }
}

/// Factors of smoothing lie between 0 and 1.
pub(super) fn check_factors(smoothing: f64, trending: f64) -> Outcome<()> {
    for (name, short, factor) in [("smoothing", "sf", smoothing), ("trend", "tf", trending)] {
        if factor <= 0.0 || factor >= 1.0 {
            let shown = match factor.is_infinite() {
                true if factor > 0.0 => "+Inf".to_owned(),
                true => "-Inf".to_owned(),
                false => format!("{factor:.6}"),
            };
            return Err(EvalError::Execution(format!(
                "invalid {name} factor. Expected: 0 < {short} < 1, got: {shown}"
            )));
        }
    }
    Ok(())
}
