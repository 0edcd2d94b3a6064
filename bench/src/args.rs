//! Values as they are written on the command line: durations, counts, and help texts.
//!
//! Used by all three binaries. Every error says what to write instead.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// What a command line asks for.
#[derive(Debug, PartialEq)]
pub enum Request<Options> {
    /// Do the work.
    Run(Options),
    /// Print the help text and succeed.
    Help,
}

/// Reads `250us`, `10ms`, `1.5s`, `2m` or `1h`.
pub fn duration(text: &str) -> Result<Duration> {
    let unit_at = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .with_context(|| format!("duration {text:?} has no unit: write 10s, 500ms or 2m"))?;
    let (number, unit) = text.split_at(unit_at);
    let seconds_per_unit = match unit {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => bail!("duration {text:?} has an unknown unit {unit:?}: use us, ms, s, m or h"),
    };
    let number: f64 = number
        .parse()
        .with_context(|| format!("duration {text:?} does not start with a number"))?;
    Duration::try_from_secs_f64(number * seconds_per_unit)
        .with_context(|| format!("duration {text:?} is out of range"))
}

/// Reads a positive number that may end in `k` (thousand) or `M` (million): `5000`, `2.5k`, `1M`.
pub fn count(text: &str) -> Result<f64> {
    let (number, factor) = match text.strip_suffix('k') {
        Some(number) => (number, 1e3),
        None => text
            .strip_suffix('M')
            .map_or((text, 1.0), |number| (number, 1e6)),
    };
    let number: f64 = number
        .parse()
        .with_context(|| format!("{text:?} is not a number: write 5000 or 5k"))?;
    if !(number.is_finite() && number > 0.0) {
        bail!("{text:?} must be greater than zero");
    }
    Ok(number * factor)
}

/// Runs a binary: help goes to stdout, an error to stderr with its whole cause.
pub fn main_with<Options>(
    help: &str,
    request: Result<Request<Options>>,
    run: impl FnOnce(Options) -> Result<ExitCode>,
) -> ExitCode {
    let failed = |code: u8, text: String| {
        // Nothing is left to tell anyone when stderr is gone.
        let _ = writeln!(std::io::stderr(), "error: {text}");
        ExitCode::from(code)
    };
    match request {
        Ok(Request::Help) => {
            let _ = write!(std::io::stdout(), "{help}");
            ExitCode::SUCCESS
        }
        Ok(Request::Run(options)) => {
            run(options).unwrap_or_else(|error| failed(1, format!("{error:#}")))
        }
        Err(error) => failed(2, format!("{error:#}\nsee --help")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_number_and_a_known_unit() {
        let good = [
            ("250us", Duration::from_micros(250)),
            ("10ms", Duration::from_millis(10)),
            ("1.5s", Duration::from_millis(1500)),
            ("2m", Duration::from_secs(120)),
            ("1h", Duration::from_secs(3600)),
        ];
        for (text, expected) in good {
            assert_eq!(duration(text).unwrap(), expected, "{text}");
        }
        for text in ["", "10", "s", "10 s", "-1s", "1.2.3s", "10d"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn counts_take_k_and_m_and_refuse_zero() {
        for (text, expected) in [
            ("5000", 5000.0),
            ("2.5k", 2500.0),
            ("1M", 1e6),
            ("0.5", 0.5),
        ] {
            assert_eq!(count(text).unwrap(), expected, "{text}");
        }
        for text in ["", "k", "0", "-5", "NaN", "inf", "5x"] {
            assert!(count(text).is_err(), "{text}");
        }
    }
}
