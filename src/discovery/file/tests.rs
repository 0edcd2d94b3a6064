//! Provider `file` on real folders: told by the kernel, and polled.

use std::os::unix::fs::symlink;

use super::*;
use crate::discovery::stub::Folder;

const TWO: &str = "- address: 192.0.2.1:9090\n- address: 192.0.2.2:9090\n";
const ONE: &str = "- address: 192.0.2.1:9090\n";
/// So long that a poll is never what makes a test pass.
const NEVER: Duration = Duration::from_secs(24 * 3600);
/// After which a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// A source of which a poll never comes: only the kernel can tell it.
fn told(path: &Path) -> List {
    list(path, NEVER, true)
}

/// A source that is told nothing.
fn polled(path: &Path) -> List {
    list(path, Duration::from_millis(1), false)
}

fn list(path: &Path, poll_interval: Duration, is_watched: bool) -> List {
    let query = Query {
        path: Some(path.to_str().unwrap().into()),
        ..Query::default()
    };
    let connection = connect(&File { poll_interval }).unwrap();
    connection.list(&query, is_watched)
}

async fn next(list: &mut List) -> Result<Reading, Failure> {
    timeout(PATIENCE, list.next()).await.unwrap()
}

/// Readings until one that is not as the last.
async fn count(list: &mut List) -> usize {
    loop {
        if let Some(members) = next(list).await.unwrap().members {
            return members.len();
        }
    }
}

/// Calls until one fails.
async fn failure(list: &mut List) -> Failure {
    loop {
        match next(list).await {
            Ok(reading) => assert_eq!(reading.members, None),
            Err(failure) => return failure,
        }
    }
}

#[tokio::test]
async fn the_first_reading_is_at_once_and_whole() {
    let folder = Folder::new();
    let path = folder.write("members.yaml", TWO);
    let mut list = told(&path);
    let reading = next(&mut list).await.unwrap();
    let members = reading.members.unwrap();
    assert_eq!(members.len(), 2);
    assert_eq!(
        members[0],
        crate::discovery::Member::at(Scheme::Http, "192.0.2.1", 9090)
    );
    assert_eq!(reading.again, Again::Now);
    assert_eq!(reading.excluded, []);
}

#[tokio::test]
async fn a_write_in_place_is_seen() {
    let folder = Folder::new();
    let path = folder.write("members.yaml", ONE);
    let mut list = told(&path);
    assert_eq!(count(&mut list).await, 1);
    folder.write("members.yaml", TWO);
    assert_eq!(count(&mut list).await, 2);
}

#[tokio::test]
async fn a_rename_over_it_is_seen_again_and_again() {
    let folder = Folder::new();
    let path = folder.write("members.yaml", ONE);
    let mut list = told(&path);
    assert_eq!(count(&mut list).await, 1);
    for (content, members) in [(TWO, 2), (ONE, 1), ("[]", 0), (TWO, 2)] {
        let new = folder.write("members.yaml.new", content);
        std::fs::rename(new, &path).unwrap();
        assert_eq!(count(&mut list).await, members);
    }
}

#[tokio::test]
async fn a_swap_of_a_mounted_folder_is_seen() {
    let folder = Folder::new();
    let mount = |name: &str, content: &str| {
        std::fs::create_dir(folder.join(name)).unwrap();
        folder.write(&format!("{name}/members.yaml"), content);
        symlink(name, folder.join("..data_tmp")).unwrap();
        std::fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    };
    mount("..2026_01", ONE);
    let path = folder.join("members.yaml");
    symlink("..data/members.yaml", &path).unwrap();
    let mut list = told(&path);
    assert_eq!(count(&mut list).await, 1);
    mount("..2026_02", TWO);
    std::fs::remove_dir_all(folder.join("..2026_01")).unwrap();
    assert_eq!(count(&mut list).await, 2);
    mount("..2026_03", ONE);
    assert_eq!(count(&mut list).await, 1);
}

#[tokio::test]
async fn a_change_where_a_link_leads_is_seen() {
    let (links, between, targets) = (Folder::new(), Folder::new(), Folder::new());
    let target = targets.write("real.yaml", ONE);
    symlink(&target, between.join("middle.yaml")).unwrap();
    let path = links.join("members.yaml");
    symlink(between.join("middle.yaml"), &path).unwrap();
    let mut list = told(&path);
    assert_eq!(count(&mut list).await, 1);
    targets.write("real.yaml", TWO);
    assert_eq!(count(&mut list).await, 2);
    let other = targets.write("other.yaml", "[]");
    symlink(&other, between.join("new")).unwrap();
    std::fs::rename(between.join("new"), between.join("middle.yaml")).unwrap();
    assert_eq!(count(&mut list).await, 0);
}

#[tokio::test]
async fn a_folder_that_was_made_anew_is_watched_again() {
    let folder = Folder::new();
    let inner = folder.join("inner");
    std::fs::create_dir(&inner).unwrap();
    let path = folder.write("inner/members.yaml", ONE);
    let mut list = told(&path);
    assert_eq!(count(&mut list).await, 1);
    std::fs::remove_dir_all(&inner).unwrap();
    let gone = failure(&mut list).await;
    assert!(gone.reason.contains("members.yaml"), "{gone}");
    // Nobody tells of the new folder; the poll finds it.
    std::fs::create_dir(&inner).unwrap();
    folder.write("inner/members.yaml", TWO);
    list.poll_interval = Duration::from_millis(1);
    assert_eq!(count(&mut list).await, 2);
    // From here on it is told again.
    list.poll_interval = NEVER;
    folder.write("inner/members.yaml", ONE);
    assert_eq!(count(&mut list).await, 1);
}

#[tokio::test]
async fn polling_alone_finds_every_change() {
    let folder = Folder::new();
    let path = folder.write("members.yaml", ONE);
    let time = std::fs::metadata(&path).unwrap().modified().unwrap();
    let mut list = polled(&path);
    assert_eq!(count(&mut list).await, 1);
    assert!(list.watch.is_none());
    assert_eq!(next(&mut list).await.unwrap().members, None);
    // Neither time nor length tell of this one.
    let other = ONE.replace("192.0.2.1", "192.0.2.7");
    let file = fs::File::options().write(true).open(&path).unwrap();
    std::io::Write::write_all(&mut &file, other.as_bytes()).unwrap();
    file.set_modified(time).unwrap();
    assert_eq!(count(&mut list).await, 1);
    std::fs::remove_file(&path).unwrap();
    failure(&mut list).await;
    folder.write("members.yaml", TWO);
    assert_eq!(count(&mut list).await, 2);
}

#[tokio::test]
async fn refused_content_is_tried_again_at_every_check() {
    let folder = Folder::new();
    let path = folder.write("members.yaml", ONE);
    let mut list = polled(&path);
    assert_eq!(count(&mut list).await, 1);
    folder.write("members.yaml", "- adress: a:1\n");
    for _ in 0..3 {
        let refused = next(&mut list).await.unwrap_err();
        assert!(
            refused
                .reason
                .contains("members.yaml: member list: entry [0]"),
            "{refused}"
        );
        assert_eq!(refused.retry_after, None);
    }
    // What was accepted before is no news.
    folder.write("members.yaml", ONE);
    assert_eq!(next(&mut list).await.unwrap().members, None);
}

#[tokio::test]
async fn a_fix_after_a_refusal_is_told() {
    let folder = Folder::new();
    let path = folder.write("members.yaml", "garbage: [");
    let mut list = told(&path);
    next(&mut list).await.unwrap_err();
    folder.write("members.yaml", TWO);
    // A write in two steps may be seen between them, as an empty list.
    while count(&mut list).await != 2 {}
}

#[tokio::test]
async fn an_empty_file_counts_once_it_stays_empty() {
    let folder = Folder::new();
    let path = folder.write("members.yaml", "");
    let mut list = polled(&path);
    assert_eq!(count(&mut list).await, 0);
    folder.write("members.yaml", ONE);
    assert_eq!(count(&mut list).await, 1);
    folder.write("members.yaml", "\n");
    assert_eq!(count(&mut list).await, 0);
}

#[tokio::test]
async fn a_writer_caught_after_truncating_is_given_time() {
    let members = || Ok(TWO.as_bytes().to_vec());
    for (had_members, first) in [(true, TWO), (true, "[]"), (false, ""), (false, ONE)] {
        let never = async || -> Result<Vec<u8>, Failure> { panic!("read again") };
        let content = settled(had_members, first.into(), never).await;
        assert_eq!(content, Ok(first.into()));
    }
    for first in ["", " \n\t"] {
        let content = settled(true, first.into(), async || members()).await;
        assert_eq!(content, members());
        let content = settled(true, first.into(), async || Ok(first.into())).await;
        assert_eq!(content, Ok(first.into()));
        let gone = settled(true, first.into(), async || Err(Failure::new("gone"))).await;
        assert_eq!(gone, Err(Failure::new("gone")));
    }
}

#[tokio::test]
async fn what_is_no_file_or_too_long_is_a_failure() {
    let folder = Folder::new();
    let missing = folder.join("missing/members.yaml");
    let unread = next(&mut told(&missing)).await.unwrap_err();
    assert!(unread.reason.contains("missing/members.yaml"), "{unread}");
    let unread = next(&mut told(folder.path())).await.unwrap_err();
    assert!(unread.reason.contains("not a file"), "{unread}");
    let long = folder.join("long");
    let file = fs::File::create(&long).unwrap();
    file.set_len(BYTES_MAX as u64 + 1).unwrap();
    let unread = next(&mut told(&long)).await.unwrap_err();
    assert!(
        unread.reason.contains("more than 16777216 bytes"),
        "{unread}"
    );
}

#[test]
fn reading_is_no_change() {
    for kind in [AccessMode::Read, AccessMode::Any] {
        let close = EventKind::Access(AccessKind::Close(kind));
        let open = EventKind::Access(AccessKind::Open(kind));
        assert!(!is_change(&Event::new(close)) && !is_change(&Event::new(open)));
    }
    let written = EventKind::Access(AccessKind::Close(AccessMode::Write));
    assert!(is_change(&Event::new(written)));
    assert!(is_change(&Event::new(EventKind::Any)));
}

#[test]
fn links_in_a_circle_end() {
    let folder = Folder::new();
    let (one, two) = (folder.join("one"), folder.join("two"));
    symlink(&two, &one).unwrap();
    symlink(&one, &two).unwrap();
    assert_eq!(folders(&one), BTreeSet::from([folder.path().to_owned()]));
    assert!(read(&one).is_err());
}
