//! Runs inputs, and notices when one panics or does not come back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use crate::mutate;
use crate::random::Random;
use crate::targets::Target;

/// An input that takes longer has hung.
const INPUT_SECONDS_MAX: u64 = 10;

/// Runs each target `count` times, or as often as it asks for itself.
pub fn all(targets: &[&Target], seed: u64, count: Option<u64>) -> ExitCode {
    for target in targets {
        let count = count.unwrap_or(target.count);
        let started = Instant::now();
        let watch = Watch::start(target.name, seed);
        for iteration in 0..count {
            watch.begin(iteration);
            let (input, mut random) = input_of(target, seed, iteration);
            if let Err(report) = attempt(target, &input, &mut random) {
                eprintln!(
                    "{}",
                    failure(target.name, seed, Some(iteration), &input, &report)
                );
                return ExitCode::FAILURE;
            }
        }
        let seconds = started.elapsed().as_secs_f64();
        println!(
            "{:<16} seed {seed}: {count} inputs in {seconds:.1} s",
            target.name
        );
    }
    ExitCode::SUCCESS
}

/// Runs one iteration again.
pub fn one_iteration(target: &Target, seed: u64, iteration: u64) -> ExitCode {
    let (input, mut random) = input_of(target, seed, iteration);
    println!("input: {}", hex(&input));
    let watch = Watch::start(target.name, seed);
    watch.begin(iteration);
    report(target, seed, Some(iteration), &input, &mut random)
}

/// Runs one input. What the target itself chooses at random comes from the seed.
pub fn one_input(target: &Target, seed: u64, input: &[u8]) -> ExitCode {
    let watch = Watch::start(target.name, seed);
    watch.begin(0);
    report(
        target,
        seed,
        None,
        input,
        &mut Random::of_iteration(target.name, seed, 0),
    )
}

fn report(
    target: &Target,
    seed: u64,
    iteration: Option<u64>,
    input: &[u8],
    random: &mut Random,
) -> ExitCode {
    match attempt(target, input, random) {
        Ok(()) => {
            println!("{}: passed", target.name);
            ExitCode::SUCCESS
        }
        Err(text) => {
            eprintln!("{}", failure(target.name, seed, iteration, input, &text));
            ExitCode::FAILURE
        }
    }
}

fn input_of(target: &Target, seed: u64, iteration: u64) -> (Vec<u8>, Random) {
    let mut random = Random::of_iteration(target.name, seed, iteration);
    let input = mutate::input(target, &mut random);
    (input, random)
}

/// Runs the target; its panic becomes an error. The panic's place was printed by the hook.
fn attempt(target: &Target, input: &[u8], random: &mut Random) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| (target.run)(input, random))).map_err(|payload| {
        let text = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied());
        text.unwrap_or("a panic without text").to_owned()
    })
}

fn failure(name: &str, seed: u64, iteration: Option<u64>, input: &[u8], text: &str) -> String {
    let iteration = match iteration {
        Some(iteration) => format!(" --iteration {iteration}"),
        None => String::new(),
    };
    format!(
        "FAILED --target {name} --seed {seed}{iteration}\n{text}\ninput: {}\n       {}",
        hex(input),
        input.escape_ascii()
    )
}

fn hex(input: &[u8]) -> String {
    input.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A thread that ends the program when one input takes too long.
struct Watch {
    begun: Instant,
    /// Milliseconds since `begun` when the current input was started.
    started_ms: Arc<AtomicU64>,
    iteration: Arc<AtomicU64>,
    /// Dropped with the watch, which ends the thread.
    _stop: Sender<()>,
}

impl Watch {
    fn start(name: &'static str, seed: u64) -> Watch {
        let begun = Instant::now();
        let started_ms = Arc::new(AtomicU64::new(0));
        let iteration = Arc::new(AtomicU64::new(0));
        let (stop, stopped) = mpsc::channel();
        let (seen_ms, seen) = (Arc::clone(&started_ms), Arc::clone(&iteration));
        std::thread::spawn(move || {
            let tick = Duration::from_millis(500);
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(tick) {
                let now_ms = begun.elapsed().as_millis() as u64;
                let took_ms = now_ms.saturating_sub(seen_ms.load(Ordering::Relaxed));
                if took_ms > INPUT_SECONDS_MAX * 1_000 {
                    let iteration = seen.load(Ordering::Relaxed);
                    eprintln!("HUNG --target {name} --seed {seed} --iteration {iteration}");
                    std::process::exit(1);
                }
            }
        });
        Watch {
            begun,
            started_ms,
            iteration,
            _stop: stop,
        }
    }

    fn begin(&self, iteration: u64) {
        self.iteration.store(iteration, Ordering::Relaxed);
        self.started_ms
            .store(self.begun.elapsed().as_millis() as u64, Ordering::Relaxed);
    }
}
