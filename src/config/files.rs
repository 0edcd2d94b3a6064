//! Reads the files that a configuration names, before anything is compiled.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use std::hash::{DefaultHasher, Hasher};
use std::io::Read;
use std::path::{Path as FilePath, PathBuf};

use ringway_io::net::tls::SystemRoots;
use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::backends::Tls;
use super::fault::{Caution, Fault};
use super::load::Document;
use super::logging;
use super::problem::{Problem, Warning};
use super::tree::Path;

/// Most bytes of a certificate or key file.
pub const PEM_BYTES_MAX: u64 = 1024 * 1024;

/// Most bytes of a file with users.
pub const USERS_BYTES_MAX: u64 = 16 * 1024 * 1024;

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
        if let Some(tls) = &backend.tls {
            files.read_tls(document, &Path::of(&["backends", name, "tls"]), tls);
        }
    }
    for (name, discoverer) in &document.written.discovery.0 {
        let at = Path::of(&["discovery", name]);
        let http = discoverer.http.as_ref();
        if let Some(tls) = http.and_then(|http| http.tls.as_ref()) {
            files.read_tls(document, &at.key("http").key("tls"), tls);
        }
        // Read again when it is used; until then it may be missing.
        let gcp = discoverer.gcp.as_ref();
        if let Some(file) = gcp.and_then(|gcp| gcp.credentials_file.as_deref()) {
            files.read_if_there(file, PEM_BYTES_MAX);
        }
    }
    for (name, authenticator) in &document.written.authenticators.0 {
        let file = authenticator.users_file.as_deref();
        if let Some(file) = file.filter(|file| !file.is_empty()) {
            let at = Path::of(&["authenticators", name, "users_file"]);
            files.read(document, &at, file, USERS_BYTES_MAX);
        }
    }
    files.check_log(document);
    files
}

impl Files {
    fn read_tls(&mut self, document: &Document, at: &Path, tls: &Tls) {
        let single = [
            ("full_chain_cert_path", &tls.full_chain_cert_path, false),
            ("private_key_path", &tls.private_key_path, true),
            ("client_cert_path", &tls.client_cert_path, false),
            ("client_key_path", &tls.client_key_path, true),
        ];
        for (key, file, is_key) in single {
            if let Some(file) = file.as_deref().filter(|file| !file.is_empty()) {
                self.read(document, &at.key(key), file, PEM_BYTES_MAX);
                if is_key {
                    self.warn_if_open(document, &at.key(key), file);
                }
            }
        }
        let authorities = tls.certificate_authority_paths.iter().flatten();
        for (index, file) in authorities.enumerate() {
            let at = at.key("certificate_authority_paths").item(index);
            self.read(document, &at, file, PEM_BYTES_MAX);
        }
    }

    fn read_if_there(&mut self, name: &str, bytes_max: u64) {
        if !self.contents.contains_key(name)
            && let Ok(content) = read_bounded(FilePath::new(name), bytes_max)
        {
            self.contents.insert(name.to_owned(), content);
        }
    }

    fn read(&mut self, document: &Document, at: &Path, name: &str, bytes_max: u64) {
        if self.contents.contains_key(name) {
            return;
        }
        match read_bounded(FilePath::new(name), bytes_max) {
            Ok(content) => {
                self.contents.insert(name.to_owned(), content);
            }
            Err(fault) => self.problems.push(Problem {
                at: document.place_of_value(at),
                fault,
            }),
        }
    }

    fn warn_if_open(&mut self, document: &Document, at: &Path, name: &str) {
        let file = PathBuf::from(name);
        if is_open(&file) {
            self.warnings.push(Warning {
                at: document.place_of_value(at),
                caution: Caution::OpenKey { file },
            });
        }
    }

    /// The log must be writable. Nothing is written here, and no file is made.
    fn check_log(&mut self, document: &Document) {
        let written = document.written.logging.log_file.as_deref();
        let Some(name) = written.filter(|name| !name.is_empty()) else {
            return;
        };
        let instance = document.written.main.instance_id.unwrap_or(0);
        let file = logging::file_name(name, instance);
        if let Err(error) = writable(&file) {
            let reason = error.to_string();
            self.problems.push(Problem {
                at: document.place_of_value(&Path::of(&["logging", "log_file"])),
                fault: Fault::WriteFile { file, reason },
            });
        }
    }
}

/// Whether this process, as it is now, may do so.
fn allowed(file: &FilePath, access: Access) -> std::io::Result<()> {
    Ok(accessat(CWD, file, access, AtFlags::EACCESS)?)
}

/// Whether a file can be written, or made where it is not there.
fn writable(file: &FilePath) -> std::io::Result<()> {
    match std::fs::metadata(file) {
        Ok(meta) if meta.is_dir() => Err(std::io::Error::other("it is a folder")),
        Ok(_) => allowed(file, Access::WRITE_OK),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let folder = file
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(FilePath::new("."));
            if !std::fs::metadata(folder)?.is_dir() {
                return Err(std::io::Error::other("it would be in what is no folder"));
            }
            allowed(folder, Access::WRITE_OK | Access::EXEC_OK)
        }
        Err(error) => Err(error),
    }
}

fn read_bounded(file: &FilePath, bytes_max: u64) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    regular(file)
        .and_then(|()| std::fs::File::open(file))
        .and_then(|open| open.take(bytes_max + 1).read_to_end(&mut bytes))
        .map_err(|error| Fault::ReadFile {
            file: file.to_owned(),
            reason: error.to_string(),
        })?;
    if bytes.len() as u64 > bytes_max {
        return Err(Fault::FileTooLarge { bytes_max });
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
