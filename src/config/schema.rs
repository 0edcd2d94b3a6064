//! The table of every key: where it may stand, what it takes, whether it is built.
//!
//! The rows are in one file per section. From them come the check of unknown keys and of values, the list of
//! environment-expanded and secret fields, and the check that `docs/configuration.md` misses none.

use std::collections::BTreeMap;

use super::units::{PERIOD_FORM, Period, Port, parse_bool, parse_codes, parse_cpus, parse_int};
use super::{
    admin, alb, authenticators, backends, discovery, healthcheck, later, listeners, logging, paths,
    rewriters, rules, server, shards,
};

/// One key.
#[derive(Debug)]
pub struct Key {
    /// Path from the root; `*` stands for any name, `[]` for any list item.
    pub path: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// Whether it is built.
    pub state: State,
    /// `${VAR}` is expanded in it.
    pub env: bool,
    /// Its value is masked in dumps.
    pub secret: bool,
    /// For keys of backends: the providers that have it.
    pub providers: Providers,
}

/// What a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A mapping of the keys listed below it.
    Section,
    /// A mapping of names to what is listed below `*`.
    Names,
    /// A list of what is listed below `[]`.
    Items,
    /// Text.
    Text,
    /// A list of texts.
    Texts,
    /// A list of lists of texts.
    Rows,
    /// A mapping of names to texts.
    TextMap,
    /// A mapping of names to passwords; hashes are not expanded, since they are full of `$`.
    Credentials,
    /// True or false.
    Bool,
    /// A whole number within bounds.
    Int {
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
    },
    /// A duration within bounds, both in milliseconds.
    Duration {
        /// Shortest.
        min_ms: u64,
        /// Longest; 0: no bound.
        max_ms: u64,
    },
    /// A duration, or 0 for off.
    DurationOrOff {
        /// Shortest that is not off, in milliseconds.
        min_ms: u64,
    },
    /// A port, 0 for off, `any` for a free one.
    Port,
    /// A port, 0 or -1 for off.
    PortOrMinusOne,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// One of these words, in any case.
    ChoiceAnyCase(&'static [&'static str]),
    /// A list of these words.
    Choices(&'static [&'static str]),
    /// A list of status codes and ranges of them.
    Codes,
    /// A processor list: text or a list of numbers.
    Cpus,
    /// `auto` or a whole number from 1.
    Count,
    /// A list of names, or how many there are.
    ListOrCount,
    /// An entry of a pool: a name, or a mapping.
    PoolEntry,
    /// Anything; for keys that are not built.
    Any,
}

/// Whether a key does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It does.
    Built,
    /// Part of the contract, to come; what it belongs to.
    NotBuilt(&'static str),
    /// It does; what to write instead.
    Deprecated(&'static str),
}

/// Providers that have a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Providers {
    /// All.
    All,
    /// Those with an origin.
    Origin,
    /// Prometheus.
    Prometheus,
    /// Prometheus and ALB.
    PrometheusAndAlb,
    /// ALB.
    Alb,
    /// Rule.
    Rule,
}

impl Providers {
    /// Whether the provider, by its canonical name, has the key.
    pub fn include(self, provider: &str) -> bool {
        match self {
            Providers::All => true,
            Providers::Origin => provider != "alb" && provider != "rule",
            Providers::Rule => provider == "rule",
            Providers::Prometheus => provider == "prometheus",
            Providers::PrometheusAndAlb => provider == "prometheus" || provider == "alb",
            Providers::Alb => provider == "alb",
        }
    }

    /// In an operator's words.
    pub fn words(self) -> &'static str {
        match self {
            Providers::All => "all providers",
            Providers::Origin => "providers with an origin",
            Providers::Prometheus => "provider prometheus",
            Providers::PrometheusAndAlb => "providers prometheus and alb",
            Providers::Alb => "provider alb",
            Providers::Rule => "provider rule",
        }
    }
}

impl Key {
    /// A built key of all providers.
    pub const fn new(path: &'static str, kind: Kind) -> Self {
        Key {
            path,
            kind,
            state: State::Built,
            env: false,
            secret: false,
            providers: Providers::All,
        }
    }

    /// A key of the contract that is not built.
    pub const fn later(path: &'static str, feature: &'static str) -> Self {
        let mut key = Key::new(path, Kind::Any);
        key.state = State::NotBuilt(feature);
        key
    }

    /// Marks it deprecated.
    pub const fn deprecated(mut self, instead: &'static str) -> Self {
        self.state = State::Deprecated(instead);
        self
    }

    /// Limits it to providers.
    pub const fn only(mut self, providers: Providers) -> Self {
        self.providers = providers;
        self
    }

    /// Expands `${VAR}` in it.
    pub const fn env(mut self) -> Self {
        self.env = true;
        self
    }

    /// Masks it in dumps.
    pub const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    /// Whether it does something.
    pub fn is_built(&self) -> bool {
        !matches!(self.state, State::NotBuilt(_))
    }
}

/// A scalar that its key accepts.
#[derive(Clone, Debug, PartialEq)]
pub enum Plain {
    /// Text.
    Text(String),
    /// A whole number.
    Int(i64),
    /// True or false.
    Bool(bool),
}

impl Kind {
    /// What it takes, in an operator's words.
    pub fn expected(self) -> String {
        match self {
            Kind::Section | Kind::Names | Kind::TextMap | Kind::Credentials => "a mapping".into(),
            Kind::Items | Kind::Texts => "a list".into(),
            Kind::Rows => "a list of lists".into(),
            Kind::Text => "a text".into(),
            Kind::Bool => "true or false".into(),
            Kind::Int { min, max } if max == i64::MAX => format!("a whole number from {min}"),
            Kind::Int { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Duration {
                min_ms: 0,
                max_ms: 0,
            } => PERIOD_FORM.into(),
            Kind::Duration { min_ms, max_ms: 0 } => {
                format!("{PERIOD_FORM}, at least {}", shown_ms(min_ms))
            }
            Kind::Duration { min_ms, max_ms } => format!(
                "{PERIOD_FORM}, from {} to {}",
                shown_ms(min_ms),
                shown_ms(max_ms)
            ),
            Kind::DurationOrOff { min_ms } => {
                format!("{PERIOD_FORM}, at least {}, or 0 for off", shown_ms(min_ms))
            }
            Kind::Port => "a port from 1 to 65535, 0 for off or `any` for a free one".into(),
            Kind::PortOrMinusOne => "a port from 1 to 65535, or 0 or -1 for off".into(),
            Kind::Choice(words) | Kind::ChoiceAnyCase(words) => {
                format!("one of {}", words.join(", "))
            }
            Kind::Choices(words) => format!("a list of {}", words.join(", ")),
            Kind::Codes => "a list of status codes such as 200 or 200-299".into(),
            Kind::Cpus => "a processor list such as 2-5,8".into(),
            Kind::Count => "auto or a whole number from 1 to 1024".into(),
            Kind::ListOrCount => "a list of names, or how many, from 1 to 4096".into(),
            Kind::PoolEntry => "a backend name, or a mapping with name and weight".into(),
            Kind::Any => "anything".into(),
        }
    }

    /// What one item of a list takes, or the value where there is no list.
    pub fn expected_item(self) -> String {
        match self {
            Kind::Choices(words) => Kind::Choice(words).expected(),
            Kind::Codes => "a status code such as 200, or a range such as 200-299".into(),
            other => other.expected(),
        }
    }

    /// Reads a scalar; `None` when the key does not take it.
    pub fn read(self, text: &str) -> Option<Plain> {
        let as_text = || Plain::Text(text.to_owned());
        match self {
            Kind::Text
            | Kind::PoolEntry
            | Kind::Texts
            | Kind::Rows
            | Kind::TextMap
            | Kind::Credentials => Some(as_text()),
            Kind::Bool => parse_bool(text).map(Plain::Bool),
            Kind::Int { min, max } => parse_int(text)
                .filter(|n| (min..=max).contains(n))
                .map(Plain::Int),
            Kind::Duration { min_ms, max_ms } => {
                let ms = text.parse::<Period>().ok()?.0.as_millis();
                let fits = ms >= u128::from(min_ms) && (max_ms == 0 || ms <= u128::from(max_ms));
                fits.then(as_text)
            }
            Kind::DurationOrOff { min_ms } => {
                let period = text.parse::<Period>().ok()?;
                (period.0.is_zero() || period >= shown_ms(min_ms)).then(as_text)
            }
            Kind::Port => text.parse::<Port>().ok().map(|_| as_text()),
            Kind::PortOrMinusOne if text == "-1" => Some(Plain::Text("0".into())),
            Kind::PortOrMinusOne => text.parse::<Port>().ok().map(|_| as_text()),
            Kind::Choice(words) | Kind::Choices(words) => words.contains(&text).then(as_text),
            Kind::ChoiceAnyCase(words) => {
                let lower = text.to_ascii_lowercase();
                words.contains(&&*lower).then_some(Plain::Text(lower))
            }
            Kind::Codes => parse_codes(text).map(|_| as_text()),
            Kind::Cpus => parse_cpus(text).map(|_| as_text()),
            Kind::Count if text == "auto" => Some(as_text()),
            Kind::Count => parse_int(text)
                .filter(|n| (1..=1024).contains(n))
                .map(|_| as_text()),
            Kind::ListOrCount => parse_int(text)
                .filter(|n| (1..=4096).contains(n))
                .map(Plain::Int),
            Kind::Section | Kind::Names | Kind::Items | Kind::Any => None,
        }
    }

    /// What one item takes, of a key that takes a list or something else.
    pub fn of_item(self) -> Kind {
        match self {
            Kind::ListOrCount => Kind::Texts,
            other => other,
        }
    }
}

fn shown_ms(ms: u64) -> Period {
    Period(std::time::Duration::from_millis(ms))
}

/// Every key, section by section.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    [
        server::KEYS,
        logging::KEYS,
        admin::KEYS,
        shards::KEYS,
        listeners::KEYS,
        authenticators::KEYS,
        backends::KEYS,
        paths::KEYS,
        rules::KEYS,
        rewriters::KEYS,
        alb::KEYS,
        discovery::KEYS,
        discovery::query::KEYS,
        healthcheck::KEYS,
        later::KEYS,
    ]
    .into_iter()
    .flatten()
}

/// The table as a tree, for walking beside a document.
#[derive(Debug, Default)]
pub struct Level {
    /// The key at this level; `None` only at the root.
    pub key: Option<&'static Key>,
    below: BTreeMap<&'static str, Level>,
}

impl Level {
    /// The whole table.
    pub fn root() -> Self {
        let mut root = Level::default();
        for key in keys() {
            let mut level = &mut root;
            for step in key.path.split('.') {
                level = level.below.entry(step).or_default();
            }
            level.key = Some(key);
        }
        root
    }

    /// What stands below a key that is written here.
    pub fn child(&self, key: &str) -> Option<&Level> {
        self.below
            .get(key)
            .filter(|_| key != "*" && key != "[]")
            .or_else(|| self.below.get("*"))
    }

    /// What stands in the items of a list here.
    pub fn item(&self) -> Option<&Level> {
        self.below.get("[]")
    }

    /// The keys that may be written here.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.below
            .keys()
            .copied()
            .filter(|k| *k != "*" && *k != "[]")
    }
}

/// Where else a key is known that was written in the wrong section; the shortest path of all.
pub fn home_of(name: &str) -> Option<&'static str> {
    keys()
        .filter(|key| key.is_built() || !key.path.contains('.') || key.path.starts_with("backends"))
        .map(|key| key.path)
        .filter(|path| path.rsplit('.').next() == Some(name) && path.contains('.'))
        .min_by_key(|path| path.len())
}

/// Fewest characters of a beginning by which a longer or shorter word is known.
const BEGINNING_CHARS_MIN: usize = 5;

/// The known word nearest to what was written, when it is near enough to be a slip: a few letters away, else the
/// one of which it is a long beginning or that is a long beginning of it.
pub fn nearest<'a>(written: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |word: &str| word.to_lowercase().replace('-', "_");
    let written = plain(written);
    let reach = (written.chars().count() / 3).clamp(1, 3);
    let rank = |word: &str| {
        let word = plain(word);
        let far = distance(&written, &word);
        let shorter = written.len().min(word.len());
        let begins = shorter >= BEGINNING_CHARS_MIN
            && (word.starts_with(&written) || written.starts_with(&word));
        match far <= reach {
            true => Some((0, far)),
            false => begins.then_some((1, far)),
        }
    };
    known
        .filter_map(|word| Some((rank(word)?, word)))
        .min()
        .map(|(_, word)| word)
}

/// `; did you mean …?`, or nothing.
pub fn hint<'a>(written: &str, known: impl Iterator<Item = &'a str>) -> String {
    match nearest(written, known) {
        Some(word) => format!("; did you mean {word:?}?"),
        None => String::new(),
    }
}

/// Longest word that is compared.
const WORD_CHARS_MAX: usize = 64;

/// Edits (insert, delete, replace, swap of neighbours) between two words.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(WORD_CHARS_MAX).collect();
    let b: Vec<char> = b.chars().take(WORD_CHARS_MAX).collect();
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replace = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replace.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests;
