//! Discovery by `file`: every way in which lists are replaced, and every way in which they are wrong.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use ringway_wire::{Ringway, Setup};

use crate::discovery_support::{
    all_named, becomes, errors, garbage, is_read, is_rejected, list, outage, replace, sections,
    stays, tables,
};

/// The polls of these tests come so late that what they see was noticed.
const RARELY: &str = "provider: file, file: {poll_interval: 1h}";
/// These see everything only as often as they may poll.
const OFTEN: &str = "provider: file, file: {poll_interval: 1s}";

/// Ringway with its list, which is written before it starts, in a folder of its own.
fn start(discoverer: &str, keys: &str, text: &str) -> (Ringway, PathBuf) {
    let setup = Setup::new("");
    let folder = setup.folder().join("lists");
    std::fs::create_dir(&folder).expect("the folder is ours");
    let path = folder.join("members.json");
    std::fs::write(&path, text).expect("the folder is ours");
    let query = format!("query: {{path: {}}}{keys}", path.display());
    (setup.section(&sections(discoverer, &query)).start(), path)
}

#[test]
fn a_list_is_read_before_listeners_open_and_followed_as_it_is_replaced() {
    let [a, b, c] = all_named(["a", "b", "c"]);
    let (ringway, path) = start(RARELY, "", &list(&[a.address()]));
    stays(&ringway, &["a"]);
    replace(&path, &list(&[a.address(), b.address()]));
    becomes(&ringway, &["a", "b"]);
    replace(&path, &list(&[c.address(), b.address()]));
    becomes(&ringway, &["b", "c"]);
    replace(&path, &list(&[c.address()]));
    becomes(&ringway, &["c"]);
    replace(&path, "[]");
    becomes(&ringway, &["502"]);
    replace(&path, &format!("- address: {}\n  name: web\n", a.address()));
    becomes(&ringway, &["a"]);
    assert_eq!(errors(&ringway), 0.0);
    ringway.stop();
}

#[test]
fn a_list_that_is_written_in_place_is_seen_and_never_empty_in_between() {
    let [a, b] = all_named(["a", "b"]);
    let (ringway, path) = start(RARELY, "", &list(&[a.address()]));
    std::fs::write(&path, list(&[b.address()])).expect("the folder is ours");
    becomes(&ringway, &["b"]);
    // What is truncated first and filled later, as by an editor.
    let tables_before = tables(&ringway);
    let mut file = std::fs::File::create(&path).expect("the folder is ours");
    stays(&ringway, &["b"]);
    let text = list(&[b.address(), a.address()]);
    std::io::Write::write_all(&mut file, text.as_bytes()).expect("the folder is ours");
    drop(file);
    becomes(&ringway, &["a", "b"]);
    assert_eq!(tables(&ringway), tables_before + 1.0);
    ringway.stop();
}

/// A folder as Kubernetes mounts a ConfigMap: the file is a link into `..data`, which is a link that is swapped.
#[test]
fn the_links_of_a_mounted_config_map_are_followed() {
    let [a, b, c] = all_named(["a", "b", "c"]);
    let setup = Setup::new("");
    let mount = setup.folder().join("mount");
    let version = |name: &str, text: &str| {
        let folder = mount.join(name);
        std::fs::create_dir_all(&folder).expect("the folder is ours");
        std::fs::write(folder.join("members.yaml"), text).expect("the folder is ours");
        symlink(name, mount.join("..data_tmp")).expect("the folder is ours");
        std::fs::rename(mount.join("..data_tmp"), mount.join("..data")).expect("it is ours");
    };
    version("..1", &list(&[a.address()]));
    let path = mount.join("members.yaml");
    symlink("..data/members.yaml", &path).expect("the folder is ours");
    let query = format!("query: {{path: {}}}", path.display());
    let ringway = setup.section(&sections(RARELY, &query)).start();
    stays(&ringway, &["a"]);
    version("..2", &list(&[b.address()]));
    becomes(&ringway, &["b"]);
    std::fs::remove_dir_all(mount.join("..1")).expect("it is ours");
    version("..3", &list(&[c.address(), b.address()]));
    becomes(&ringway, &["b", "c"]);
    ringway.stop();
}

#[test]
fn a_folder_that_is_removed_and_made_anew_is_watched_again() {
    let [a, b, c] = all_named(["a", "b", "c"]);
    let (ringway, path) = start(OFTEN, "", &list(&[a.address()]));
    let folder = path.parent().expect("a folder").to_owned();
    outage(
        &ringway,
        &["a"],
        || std::fs::remove_dir_all(&folder).expect("it is ours"),
        || {
            std::fs::create_dir(&folder).expect("it is ours");
            replace(&path, &list(&[a.address()]));
        },
    );
    replace(&path, &list(&[b.address()]));
    becomes(&ringway, &["b"]);
    replace(&path, &list(&[c.address()]));
    becomes(&ringway, &["c"]);
    ringway.stop();
}

/// A hard link from a folder that is not watched: what network file systems are like.
#[test]
fn what_no_notification_tells_of_is_polled() {
    let [a, b] = all_named(["a", "b"]);
    let (ringway, path) = start(OFTEN, "", &list(&[a.address()]));
    let elsewhere = ringway.folder().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("the folder is ours");
    let other = elsewhere.join("members.json");
    std::fs::hard_link(&path, &other).expect("the folder is ours");
    is_read(&ringway);
    std::fs::write(&other, list(&[b.address()])).expect("the folder is ours");
    becomes(&ringway, &["b"]);
    ringway.stop();
}

#[test]
fn a_list_with_one_fault_changes_nothing_and_its_repair_does() {
    let [a, b] = all_named(["a", "b"]);
    let (ringway, path) = start(RARELY, "", &list(&[a.address()]));
    let good = b.address();
    let documents = [
        "{".to_owned(),
        format!("- address: {good}\n- address: nowhere\n"),
        format!("- address: {good}\n- addres: {good}\n"),
        format!("- {{address: {good}, weight: -1}}\n"),
        format!("- {{address: {good}, scheme: ftp}}\n"),
        format!("address: {good}\n"),
        "\u{0}\u{1}".to_owned(),
    ];
    garbage(&ringway, &["a"], documents, |text| replace(&path, &text));
    replace(&path, &list(&[b.address()]));
    becomes(&ringway, &["b"]);
    ringway.stop();
}

#[test]
fn the_same_list_written_again_makes_no_new_table() {
    let [a, b] = all_named(["a", "b"]);
    let (ringway, path) = start(OFTEN, "", &list(&[a.address(), b.address()]));
    let before = tables(&ringway);
    replace(&path, &list(&[a.address(), b.address()]));
    is_read(&ringway);
    replace(&path, &list(&[b.address(), a.address()]));
    is_read(&ringway);
    assert_eq!(tables(&ringway), before);
    stays(&ringway, &["a", "b"]);
    ringway.stop();
}

#[test]
fn an_empty_list_is_rejected_below_min_members() {
    let [a, b] = all_named(["a", "b"]);
    let (ringway, path) = start(RARELY, ", min_members: 1", &list(&[a.address()]));
    is_rejected(&ringway, || replace(&path, "[]"));
    stays(&ringway, &["a"]);
    replace(&path, &list(&[b.address()]));
    becomes(&ringway, &["b"]);
    ringway.stop();
}
