//! Reads the files that a configuration names, before anything is compiled.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use std::hash::{DefaultHasher, Hasher};
use std::io::Read;
use std::path::{Path as FilePath, PathBuf};

use ringway_io::net::tls::SystemRoots;

use super::fault::{Caution, Fault};
use super::load::Document;
use super::problem::{Problem, Warning};
use super::tree::Path;

/// Most bytes of a certificate or key file.
pub const PEM_BYTES_MAX: u64 = 1024 * 1024;

/// Contents of the files, by the name that was written. Names are relative to the working directory.
#[derive(Clone, Debug, Default)]
pub struct Files {
    contents: BTreeMap<String, Vec<u8>>,
    system_roots: OnceCell<SystemRoots>,
    /// What is wrong with the files.
    pub problems: Vec<Problem>,
    /// What is doubtful about them.
    pub warnings: Vec<Warning>,
}

impl Files {
    /// The content of a file; `None` when it could not be read, which is already a problem.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.contents.get(name).map(Vec::as_slice)
    }

    /// The system's certificate authorities, read when the first origin asks for them. What of them cannot be
    /// read is left out: a verification that needed it fails and says so.
    pub fn system_roots(&self) -> &SystemRoots {
        self.system_roots.get_or_init(|| SystemRoots::load().0)
    }

    /// Puts a content in, instead of reading it.
    pub fn insert(&mut self, name: &str, content: &[u8]) {
        self.contents.insert(name.to_owned(), content.to_vec());
    }

    /// Changes when a content changes.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (name, content) in &self.contents {
            hasher.write(name.as_bytes());
            hasher.write(content);
        }
        hasher.finish()
    }
}

/// Reads every file that the document names.
pub fn read(document: &Document) -> Files {
    let mut files = Files::default();
    for (name, backend) in &document.written.backends.0 {
        let Some(tls) = &backend.tls else {
            continue;
        };
        let at = Path::of(&["backends", name, "tls"]);
        let single = [
            ("full_chain_cert_path", &tls.full_chain_cert_path, false),
            ("private_key_path", &tls.private_key_path, true),
            ("client_cert_path", &tls.client_cert_path, false),
            ("client_key_path", &tls.client_key_path, true),
        ];
        for (key, file, is_key) in single {
            if let Some(file) = file.as_deref().filter(|file| !file.is_empty()) {
                files.read(document, &at.key(key), file, is_key);
            }
        }
        let authorities = tls.certificate_authority_paths.iter().flatten();
        for (index, file) in authorities.enumerate() {
            let at = at.key("certificate_authority_paths").item(index);
            files.read(document, &at, file, false);
        }
    }
    files
}

impl Files {
    fn read(&mut self, document: &Document, at: &Path, name: &str, is_key: bool) {
        if self.contents.contains_key(name) {
            return;
        }
        let file = FilePath::new(name);
        match read_bounded(file) {
            Ok(content) => {
                self.contents.insert(name.to_owned(), content);
            }
            Err(fault) => self.problems.push(Problem {
                at: document.place_of_value(at),
                fault,
            }),
        }
        if is_key && is_open(file) {
            self.warnings.push(Warning {
                at: document.place_of_value(at),
                caution: Caution::OpenKey {
                    file: PathBuf::from(name),
                },
            });
        }
    }
}

fn read_bounded(file: &FilePath) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    regular(file)
        .and_then(|()| std::fs::File::open(file))
        .and_then(|open| open.take(PEM_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| Fault::ReadFile {
            file: file.to_owned(),
            reason: error.to_string(),
        })?;
    if bytes.len() as u64 > PEM_BYTES_MAX {
        return Err(Fault::FileTooLarge {
            bytes_max: PEM_BYTES_MAX,
        });
    }
    Ok(bytes)
}

/// Refuses what is no regular file: to open a pipe, for one, waits for its other end, maybe for ever.
///
/// # Errors
/// When it is not there, or not a regular file.
pub(super) fn regular(file: &FilePath) -> std::io::Result<()> {
    match std::fs::metadata(file)?.is_file() {
        true => Ok(()),
        false => Err(std::io::Error::other("not a regular file")),
    }
}

/// Whether everybody may read it.
fn is_open(file: &FilePath) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(file).is_ok_and(|meta| meta.permissions().mode() & 0o004 != 0)
}
