//! Sources to a [`Document`]: which files, in which order, laid over one another. Contract: config page, 1.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hasher};
use std::io::Read;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::check::{Checked, check};
use super::document::{FILE_BYTES_MAX, decode, parse_str};
use super::environment::Environment;
use super::fault::Fault;
use super::problem::{Mark, Place, Problem, Warning};
use super::tree::{Found, Node, Path, Step};
use super::{
    admin, authenticators, backends, discovery, listeners, logging, rewriters, rules, server,
    shards,
};

/// Where the configuration is looked for when no place is given.
pub const DEFAULT_PATHS: &[&str] = &["/etc/ringway/ringway.yaml", "/etc/trickster/trickster.yaml"];
/// Folder beside the main file whose files are read too.
pub const INCLUDE_FOLDER: &str = "conf.d";
/// Most files of one configuration.
pub const FILES_MAX: usize = 1_000;

/// The section with the most entries.
const BACKENDS: &str = "backends";

/// What to load.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// File or folder; `None`: the first of [`DEFAULT_PATHS`] that is there, else built-in defaults alone.
    pub path: Option<PathBuf>,
    /// Values that win over the files, the later over the earlier.
    pub overrides: Vec<Override>,
}

/// A value set by a flag or an environment variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// What set it, such as `flag -proxy-port`.
    pub source: String,
    /// Where it belongs.
    pub keys: &'static [&'static str],
    /// The value.
    pub text: String,
}

/// The whole configuration as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Written {
    /// Section `main`.
    pub main: server::Main,
    /// Section `logging`.
    pub logging: logging::Logging,
    /// Section `metrics`.
    pub metrics: admin::Metrics,
    /// Section `mgmt`.
    pub mgmt: admin::Mgmt,
    /// Section `shards`.
    pub shards: shards::Shards,
    /// Section `listeners`.
    pub listeners: BTreeMap<String, listeners::Listener>,
    /// Section `frontend`.
    pub frontend: listeners::Frontend,
    /// Section `authenticators`, in written order.
    pub authenticators: Named<authenticators::Authenticator>,
    /// Section `rules`, in written order.
    pub rules: Named<rules::Rule>,
    /// Section `request_rewriters`, in written order.
    pub request_rewriters: Named<rewriters::Rewriter>,
    /// Section `discovery`, in written order.
    pub discovery: Named<discovery::Discoverer>,
    /// Section `backends`, in written order.
    pub backends: Named<backends::Backend>,
}

/// A mapping of names that keeps the written order.
#[derive(Clone, Debug)]
pub struct Named<T>(pub Vec<(String, T)>);

impl<T> Default for Named<T> {
    fn default() -> Self {
        Named(Vec::new())
    }
}

/// One checked configuration with the places of its values.
///
/// It may have [problems](Document::problems): then what they concern is missing from `written`, and
/// compiling it fails with these and all further ones.
#[derive(Clone, Debug)]
pub struct Document {
    /// Typed values.
    pub written: Written,
    /// What is wrong with keys and values.
    pub problems: Vec<Problem>,
    /// What is doubtful about them.
    pub warnings: Vec<Warning>,
    /// Changes when a source changes.
    pub fingerprint: u64,
    root: Node,
    /// Where each name stands in section `backends`, which may be long.
    backends: HashMap<String, usize>,
}

impl Document {
    /// The place of the key at a path; where it is not written, of the last key above it that is.
    pub fn place_of_key(&self, path: &Path) -> Place {
        Place {
            mark: self.find(path).key,
            path: path.to_string(),
        }
    }

    /// The place of the value at a path; where it is not written, of the last key above it that is.
    pub fn place_of_value(&self, path: &Path) -> Place {
        Place {
            mark: self.find(path).value,
            path: path.to_string(),
        }
    }

    fn find(&self, path: &Path) -> Found {
        let (steps, section) = match path.0.as_slice() {
            [Step::Key(section), steps @ ..] if section == BACKENDS => (steps, section),
            _ => return self.root.find(path),
        };
        let section = self.root.get(section).map_or(&[][..], Node::entries);
        let entry = match steps.first() {
            Some(Step::Key(name)) => self.backends.get(name).and_then(|at| section.get(*at)),
            _ => None,
        };
        match entry {
            Some(entry) => entry.node.find_from(&entry.mark, &steps[1..]),
            None => self.root.find(path),
        }
    }

    /// Where the value at a path was written, if it was.
    pub fn written_at(&self, path: &Path) -> Option<Mark> {
        let found = self.find(path);
        found.whole.then_some(found.value)
    }

    /// The keys written in the mapping at a path.
    pub fn keys_at(&self, path: &Path) -> Vec<&str> {
        let mut node = &self.root;
        for step in &path.0 {
            let next = match step {
                Step::Key(key) => node.get(key),
                Step::Item(_) => None,
            };
            match next {
                Some(below) => node = below,
                None => return Vec::new(),
            }
        }
        let written = node.entries().iter().filter(|e| !e.node.is_null());
        written.map(|entry| entry.key.as_str()).collect()
    }

    /// Makes a document of one text.
    ///
    /// # Errors
    /// When the text is not a YAML mapping.
    pub fn of_text(
        source: &str,
        text: &str,
        environment: &Environment,
    ) -> Result<Document, Vec<Problem>> {
        let root = parse_str(&source.into(), text).map_err(|problem| vec![problem])?;
        let mut hasher = DefaultHasher::new();
        hasher.write(text.as_bytes());
        Ok(finish(root, hasher.finish(), environment))
    }
}

/// Reads, merges and checks a configuration.
///
/// # Errors
/// With every file that cannot be read or is not YAML. Wrong keys and values are in the document.
pub fn load(options: &LoadOptions, environment: &Environment) -> Result<Document, Vec<Problem>> {
    let mut sources = Sources::default();
    let mut root = match chosen_path(options) {
        None => Node::empty_map(Mark::whole("built-in configuration")),
        Some(path) if path.is_dir() => sources.folder(&path),
        Some(path) => sources.file_and_includes(&path),
    };
    if !sources.problems.is_empty() {
        return Err(sources.problems);
    }
    for set in &options.overrides {
        root.set(set.keys, &Mark::whole(&set.source), &set.text);
        sources.hasher.write(set.text.as_bytes());
    }
    Ok(finish(root, sources.hasher.finish(), environment))
}

/// The path to read; a default path that is absent or unreadable counts as none.
fn chosen_path(options: &LoadOptions) -> Option<PathBuf> {
    options.path.clone().or_else(|| {
        let default = |path: &&str| std::fs::File::open(path).is_ok();
        DEFAULT_PATHS
            .iter()
            .copied()
            .find(default)
            .map(PathBuf::from)
    })
}

fn finish(root: Node, fingerprint: u64, environment: &Environment) -> Document {
    let Checked {
        value,
        mut problems,
        warnings,
    } = check(&root, environment);
    let written = decode(&value).unwrap_or_else(|reason| {
        problems.push(Problem {
            at: Place {
                mark: root.mark.clone(),
                path: String::new(),
            },
            fault: Fault::Decode { reason },
        });
        Written::default()
    });
    let names = root.get(BACKENDS).map_or(&[][..], Node::entries);
    let names = names.iter().enumerate();
    let backends = names.map(|(at, entry)| (entry.key.clone(), at)).collect();
    Document {
        written,
        problems,
        warnings,
        fingerprint,
        root,
        backends,
    }
}

/// Files read so far.
#[derive(Default)]
struct Sources {
    problems: Vec<Problem>,
    hasher: DefaultHasher,
    files: usize,
}

impl Sources {
    /// Every eligible file of a folder. Contract: `config_include_directory` is forbidden then.
    fn folder(&mut self, folder: &FilePath) -> Node {
        let mut root = Node::empty_map(Mark::whole(&folder.display().to_string()));
        let files = self.eligible_files(folder, &root.mark.clone(), "");
        if files.is_empty() && self.problems.is_empty() {
            self.fail(
                root.mark.clone(),
                "",
                Fault::NoEligibleFile {
                    directory: folder.to_owned(),
                },
            );
        }
        for file in files {
            if let Some(node) = self.file(&file) {
                root.overlay(node);
            }
        }
        let include = Path::of(&["main", "config_include_directory"]);
        let found = root.find(&include);
        if found.whole {
            self.fail(found.key, &include.to_string(), Fault::IncludeOfDirectory);
        }
        root
    }

    /// One file, then those of its include folder.
    fn file_and_includes(&mut self, path: &FilePath) -> Node {
        let Some(mut root) = self.file(path) else {
            return Node::empty_map(Mark::whole(&path.display().to_string()));
        };
        let key = Path::of(&["main", "config_include_directory"]);
        let beside = path.parent().unwrap_or(FilePath::new(""));
        let named = root
            .get("main")
            .and_then(|main| main.get("config_include_directory"))
            .and_then(Node::text)
            .filter(|name| !name.is_empty())
            .map(|name| beside.join(name));
        let files = match named {
            Some(folder) => {
                let mark = root.find(&key).value;
                self.eligible_files(&folder, &mark, &key.to_string())
            }
            None => {
                let folder = beside.join(INCLUDE_FOLDER);
                match folder.is_dir() {
                    true => self.eligible_files(&folder, &root.mark.clone(), ""),
                    false => Vec::new(),
                }
            }
        };
        for file in files {
            if let Some(node) = self.file(&file) {
                root.overlay(node);
            }
        }
        root
    }

    fn fail(&mut self, mark: Mark, path: &str, fault: Fault) {
        self.problems.push(Problem {
            at: Place {
                mark,
                path: path.to_owned(),
            },
            fault,
        });
    }

    /// Reads and parses one file.
    fn file(&mut self, path: &FilePath) -> Option<Node> {
        let source: Arc<str> = path.display().to_string().into();
        let mark = Mark::whole(&source);
        self.files += 1;
        if self.files > FILES_MAX {
            if self.files == FILES_MAX + 1 {
                let files_max = FILES_MAX;
                self.fail(mark, "", Fault::TooManyFiles { files_max });
            }
            return None;
        }
        let mut bytes = Vec::new();
        let read = super::files::regular(path)
            .and_then(|()| std::fs::File::open(path))
            .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
        if let Err(error) = read {
            let fault = Fault::ReadFile {
                file: path.to_owned(),
                reason: error.to_string(),
            };
            self.fail(mark, "", fault);
            return None;
        }
        self.hasher.write(source.as_bytes());
        self.hasher.write(&bytes);
        let Ok(text) = String::from_utf8(bytes) else {
            self.fail(mark, "", Fault::NotUtf8);
            return None;
        };
        parse_str(&source, &text)
            .map_err(|problem| self.problems.push(problem))
            .ok()
    }

    /// Regular files with a configuration name, sorted by the bytes of their names.
    fn eligible_files(&mut self, folder: &FilePath, mark: &Mark, path: &str) -> Vec<PathBuf> {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                let fault = Fault::ReadFile {
                    file: folder.to_owned(),
                    reason: error.to_string(),
                };
                self.fail(mark.clone(), path, fault);
                return Vec::new();
            }
        };
        let mut files: Vec<PathBuf> = entries
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .filter(|file| is_eligible(file) && file.is_file())
            .collect();
        files.sort_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
        files
    }
}

fn is_eligible(file: &FilePath) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let extension = file.extension().unwrap_or_default().to_string_lossy();
    !name.starts_with('.')
        && matches!(
            extension.to_ascii_lowercase().as_str(),
            "conf" | "yaml" | "yml"
        )
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> serde::de::Visitor<'de> for Visitor<T> {
            type Value = Named<T>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a mapping of names")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Named<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Named(entries))
            }
        }
        deserializer.deserialize_map(Visitor(std::marker::PhantomData))
    }
}
