//! Finds out when files have changed that a configuration in force was made of.
//!
//! [`Watched`] compares what the file system says of them, look by look; `control::run` looks and reads the
//! configuration again. A change counts when two looks in a row have seen the same: a file that is still being
//! written is left alone. Bounds: [`LOOK_EVERY`] between looks; as many files as authenticators may be
//! configured.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time between two looks.
pub const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What tells one content of a file from another without reading it; all zero for one that is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    inode: u64,
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Of the file as it is now.
    pub fn of(file: &Path) -> Stamp {
        let Ok(meta) = std::fs::metadata(file) else {
            return Stamp::default();
        };
        Stamp {
            inode: meta.ino(),
            len: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

/// The files that are watched.
#[derive(Debug, Default)]
pub struct Watched {
    files: BTreeMap<PathBuf, Seen>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// At the last look.
    last: Option<Stamp>,
    /// When the configuration was last read because of it, or before; `None`: not known.
    read: Option<Stamp>,
}

impl Watched {
    /// Watches these files from now on. What is known of one that was watched before stays: it may have changed
    /// since it was read.
    pub fn watch(&mut self, files: impl IntoIterator<Item = PathBuf>) {
        let before = std::mem::take(&mut self.files);
        self.files = files
            .into_iter()
            .map(|file| {
                let seen = before.get(&file).copied().unwrap_or_default();
                (file, seen)
            })
            .collect();
    }

    /// Whether there is anything to look at.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Looks; whether the configuration is to be read again. The first time that a file has settled counts too,
    /// since it may have changed between being read and being watched.
    pub fn look(&mut self, stamp: impl Fn(&Path) -> Stamp) -> bool {
        let mut changed = false;
        for (file, seen) in &mut self.files {
            let now = Some(stamp(file));
            let settled = seen.last == now;
            seen.last = now;
            if settled && seen.read != now {
                seen.read = now;
                changed = true;
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(len: u64) -> impl Fn(&Path) -> Stamp {
        move |_| Stamp {
            len,
            ..Stamp::default()
        }
    }

    #[test]
    fn a_change_counts_once_when_it_has_settled() {
        let mut watched = Watched::default();
        watched.watch(["a".into()]);
        assert!(!watched.look(stamp(1)));
        assert!(watched.look(stamp(1)), "what was read is not known");
        assert!(!watched.look(stamp(1)));
        for len in 2..9 {
            assert!(!watched.look(stamp(len)), "it is being written");
        }
        assert!(watched.look(stamp(8)));
        assert!(!watched.look(stamp(8)));
        assert!(!watched.look(stamp(9)));
        assert!(!watched.look(stamp(8)), "as it was read");
        assert!(!watched.look(stamp(8)));
    }

    #[test]
    fn what_is_known_of_a_file_outlives_a_reload() {
        let mut watched = Watched::default();
        assert!(watched.is_empty());
        watched.watch(["a".into(), "b".into()]);
        watched.look(stamp(1));
        watched.look(stamp(1));
        watched.watch(["a".into()]);
        assert!(!watched.look(stamp(1)));
        watched.watch(["a".into(), "b".into()]);
        assert!(!watched.look(stamp(1)));
        assert!(watched.look(stamp(1)), "b is new again");
        watched.watch([]);
        assert!(watched.is_empty() && !watched.look(stamp(2)));
    }

    #[test]
    fn a_file_that_goes_is_a_change() {
        let folder = std::env::temp_dir().join(format!("ringway-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("users");
        std::fs::write(&file, "a").unwrap();
        let there = Stamp::of(&file);
        assert_eq!(Stamp::of(&file), there);
        std::fs::write(&file, "ab").unwrap();
        assert_ne!(Stamp::of(&file), there);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(Stamp::of(&file), Stamp::default());
    }
}
