//! What every part of the compiler carries: the document, and what it found so far.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::Inputs;
use super::effective::{Effective, Provenance, Shown};
use crate::config::defaults::Preset;
use crate::config::{Caution, Document, Fault, Path, Problem, Warning};

/// The state of one compilation.
pub(super) struct Context<'a> {
    pub(super) document: &'a Document,
    pub(super) inputs: &'a Inputs<'a>,
    problems: Vec<Problem>,
    warnings: Vec<Warning>,
    effective: Effective,
}

impl<'a> Context<'a> {
    pub(super) fn new(document: &'a Document, inputs: &'a Inputs<'a>) -> Self {
        let mut problems = document.problems.clone();
        problems.extend(inputs.files.problems.iter().cloned());
        let mut warnings = document.warnings.clone();
        warnings.extend(inputs.files.warnings.iter().cloned());
        Context {
            document,
            inputs,
            problems,
            warnings,
            effective: Effective::default(),
        }
    }

    /// Whether nothing is wrong so far.
    pub(super) fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// The key at this path is wrong.
    pub(super) fn fail_key(&mut self, path: &Path, fault: Fault) {
        let at = self.document.place_of_key(path);
        self.add(Problem { at, fault });
    }

    /// The value at this path is wrong.
    pub(super) fn fail_value(&mut self, path: &Path, fault: Fault) {
        let at = self.document.place_of_value(path);
        self.add(Problem { at, fault });
    }

    /// A value that was already refused is not reported again as missing.
    fn add(&mut self, problem: Problem) {
        let refused = |known: &&Problem| known.at.path == problem.at.path;
        if !self.document.problems.iter().any(|known| refused(&known)) {
            self.problems.push(problem);
        }
    }

    /// Whether the value at this path is missing because it was refused.
    pub(super) fn was_refused(&self, path: &Path) -> bool {
        let path = path.to_string();
        let mut problems = self.document.problems.iter();
        problems.any(|problem| problem.at.path == path)
    }

    /// Whether the compiler itself has refused the value at this path.
    pub(super) fn has_failed(&self, path: &Path) -> bool {
        let path = path.to_string();
        self.problems.iter().any(|problem| problem.at.path == path)
    }

    /// Whether anything within the value at this path was refused, so that what is left says little.
    pub(super) fn was_refused_within(&self, path: &Path) -> bool {
        let path = path.to_string();
        let is_within = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
        let mut problems = self.document.problems.iter();
        problems.any(|problem| problem.at.path.strip_prefix(&path).is_some_and(is_within))
    }

    pub(super) fn warn_key(&mut self, path: &Path, caution: Caution) {
        let at = self.document.place_of_key(path);
        self.warnings.push(Warning { at, caution });
    }

    /// Warns when the key at this path is written, since it does nothing there.
    pub(super) fn warn_no_effect(&mut self, path: &Path, reason: &str) {
        if self.document.written_at(path).is_some() {
            let reason = reason.to_owned();
            self.warn_key(path, Caution::NoEffect { reason });
        }
    }

    /// The written value or its default; notes which.
    pub(super) fn pick<T: Shown>(
        &mut self,
        path: &Path,
        written: Option<T>,
        preset: Preset<T>,
    ) -> T {
        self.pick_first(&[(path.clone(), written)], preset)
    }

    /// The first written value of these places, or the default. The first place is the key's own, the
    /// others are its older spellings.
    pub(super) fn pick_first<T: Shown>(
        &mut self,
        places: &[(Path, Option<T>)],
        preset: Preset<T>,
    ) -> T {
        let written = places
            .iter()
            .find_map(|(path, value)| Some((path, value.clone()?)));
        let (value, from) = match written {
            Some((path, value)) => (value, self.written(path)),
            None => (preset.value, Provenance::Default(preset.contract)),
        };
        self.note(&places[0].0, value.shown(), from);
        value
    }

    /// As [`pick`](Self::pick), for texts.
    pub(super) fn pick_text(
        &mut self,
        path: &Path,
        written: Option<&str>,
        preset: Preset<&'static str>,
    ) -> String {
        let preset = Preset {
            value: preset.value.to_owned(),
            contract: preset.contract,
        };
        self.pick(path, written.map(str::to_owned), preset)
    }

    /// As [`pick`](Self::pick), for lists of texts.
    pub(super) fn pick_texts(
        &mut self,
        path: &Path,
        written: Option<Vec<String>>,
        preset: Preset<&'static [&'static str]>,
    ) -> Vec<String> {
        let preset = Preset {
            value: preset.value.iter().map(|text| (*text).to_owned()).collect(),
            contract: preset.contract,
        };
        self.pick(path, written, preset)
    }

    /// The written value, or one that follows from something else.
    pub(super) fn pick_or_derive<T: Shown>(
        &mut self,
        path: &Path,
        written: Option<T>,
        derived: T,
        from: &str,
    ) -> T {
        let (value, from) = match written {
            Some(value) => (value, self.written(path)),
            None => (derived, Provenance::Derived(from.to_owned())),
        };
        self.note(path, value.shown(), from);
        value
    }

    /// Notes a written value that has no default.
    pub(super) fn note_written(&mut self, path: &Path, value: Json) {
        let from = self.written(path);
        self.note(path, value, from);
    }

    pub(super) fn note(&mut self, path: &Path, value: Json, from: Provenance) {
        self.effective.note(path, value, from);
    }

    fn written(&self, path: &Path) -> Provenance {
        Provenance::Written(self.document.place_of_value(path).mark)
    }

    /// The outcome: what is in force and what is doubtful, or all that is wrong.
    pub(super) fn finish(mut self) -> Result<(Effective, Vec<Warning>), Vec<Problem>> {
        if !self.problems.is_empty() {
            self.problems.sort_by(|a, b| a.at.cmp(&b.at));
            self.problems.dedup();
            return Err(self.problems);
        }
        self.warnings.sort_by(|a, b| a.at.cmp(&b.at));
        self.warnings.dedup();
        let names = self.document.written.backends.0.iter().enumerate();
        let places: HashMap<&str, usize> = names.map(|(at, (name, _))| (&**name, at)).collect();
        self.effective.sort(|name| places.get(name).copied());
        Ok((self.effective, self.warnings))
    }
}
