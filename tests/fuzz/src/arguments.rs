//! The command line.

/// What `--help` says.
pub const USAGE: &str = "usage: fuzz-smoke [--target NAME] [--seed N] [--count N]
       fuzz-smoke --target NAME [--seed N] --iteration N
       fuzz-smoke --target NAME --input HEX
       fuzz-smoke --list

Without --target all targets run, without --count each as often as its own default.";

/// Seed of a run that is not told one.
const SEED_DEFAULT: u64 = 1;

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Work {
    /// Show the targets.
    List,
    /// Show the usage.
    Help,
    /// Run this input.
    Input(Vec<u8>),
    /// Run this iteration.
    Iteration(u64),
    /// Run so many iterations, or each target's own number.
    Count(Option<u64>),
}

/// The parsed command line.
#[derive(Debug, PartialEq, Eq)]
pub struct Arguments {
    /// The only target to run.
    pub target: Option<String>,
    /// Where the inputs come from.
    pub seed: u64,
    /// What to do.
    pub work: Work,
}

impl Arguments {
    /// Reads the words behind the program's name.
    pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
        let mut arguments = Arguments {
            target: None,
            seed: SEED_DEFAULT,
            work: Work::Count(None),
        };
        while let Some(word) = words.next() {
            if matches!(&word[..], "--list" | "--help") {
                arguments.work = if word == "--list" {
                    Work::List
                } else {
                    Work::Help
                };
                continue;
            }
            let value = words
                .next()
                .ok_or_else(|| format!("{word} needs a value"))?;
            match &word[..] {
                "--target" => arguments.target = Some(value),
                "--seed" => arguments.seed = number(&word, &value)?,
                "--count" => arguments.work = Work::Count(Some(number(&word, &value)?)),
                "--iteration" => arguments.work = Work::Iteration(number(&word, &value)?),
                "--input" => arguments.work = Work::Input(bytes(&value)?),
                _ => return Err(format!("unknown argument {word}")),
            }
        }
        if matches!(arguments.work, Work::Input(_) | Work::Iteration(_))
            && arguments.target.is_none()
        {
            return Err("--input and --iteration need --target".to_owned());
        }
        Ok(arguments)
    }
}

fn number(word: &str, value: &str) -> Result<u64, String> {
    value
        .parse()
        .map_err(|_| format!("{word} takes a number, not {value}"))
}

fn bytes(hex: &str) -> Result<Vec<u8>, String> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = hex.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    });
    pairs
        .collect::<Option<Vec<u8>>>()
        .ok_or_else(|| "--input takes pairs of hex digits".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, String> {
        Arguments::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn words_are_read() {
        let all = parse("").expect("valid");
        assert_eq!(
            (all.target, all.seed, all.work),
            (None, SEED_DEFAULT, Work::Count(None))
        );
        let one = parse("--target a --seed 3 --input 0aFf").expect("valid");
        assert_eq!((one.target.as_deref(), one.seed), (Some("a"), 3));
        assert_eq!(one.work, Work::Input(vec![0x0a, 0xff]));
        for wrong in [
            "--seed",
            "--seed x",
            "--input 0",
            "--target a --input 0g",
            "--what 1",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse("--iteration 1").is_err());
    }
}
