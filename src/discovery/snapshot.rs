//! A membership in its one form, so that two can be compared.

use std::collections::HashSet;
use std::sync::Arc;

use super::Member;

/// All members of a query at one moment: by key, then name, each key once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot(Arc<[Member]>);

impl Snapshot {
    /// Of what a source says, in any order. Of members with one key the first by name stays.
    pub fn new(members: Vec<Member>) -> Snapshot {
        let mut keyed: Vec<(String, Member)> = members
            .into_iter()
            .map(|member| (member.key(), member))
            .collect();
        keyed.sort_by(|a, b| (&a.0, &a.1.name).cmp(&(&b.0, &b.1.name)));
        keyed.dedup_by(|later, first| later.0 == first.0);
        Snapshot(keyed.into_iter().map(|(_, member)| member).collect())
    }

    /// The members.
    pub fn members(&self) -> &[Member] {
        &self.0
    }
}

/// The part of a backend's name that stands for a member: its name (or address) in lower case, anything but
/// letters, digits, `.`, `_` and `-` replaced. Contract: autodiscovery page, 4.2.
pub fn plain_name(member: &Member) -> String {
    let seed = match member.name.is_empty() {
        true => member.address(),
        false => member.name.to_string(),
    };
    let plain = |byte: u8| match byte.to_ascii_lowercase() {
        lower @ (b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-') => char::from(lower),
        _ => '-',
    };
    seed.bytes().take(NAME_BYTES_MAX).map(plain).collect()
}

/// Longest name of a source that is taken over whole.
const NAME_BYTES_MAX: usize = 200;

/// Names for the members of one ALB, in the order of the snapshot, each once and none of `taken`. A member that
/// already has its plain name keeps it against a newcomer of the same name; who cannot have it gets a suffix made of
/// its key.
pub fn names(
    alb: &str,
    snapshot: &Snapshot,
    holder: impl Fn(&str) -> Option<String>,
    taken: impl Fn(&str) -> bool,
) -> Vec<Box<str>> {
    let members = snapshot.members();
    let plain: Vec<String> = members
        .iter()
        .map(|member| format!("{alb}-{}", plain_name(member)))
        .collect();
    let mut used: HashSet<String> = HashSet::new();
    // Who holds a plain name now has the first choice.
    let holds: Vec<bool> = members
        .iter()
        .zip(&plain)
        .map(|(member, name)| {
            let is_holder = holder(name).is_some_and(|key| key == member.key());
            is_holder && !taken(name) && used.insert(name.clone())
        })
        .collect();
    let mut names = Vec::with_capacity(members.len());
    for ((member, plain), holds) in members.iter().zip(plain).zip(holds) {
        let is_free = |name: &str, used: &HashSet<String>| !taken(name) && !used.contains(name);
        if holds {
            names.push(plain.into());
            continue;
        }
        let mut name = plain.clone();
        let mut salt = member.key();
        while !is_free(&name, &used) {
            name = format!("{plain}-{:08x}", fnv1a(&salt));
            salt.push('+');
        }
        used.insert(name.clone());
        names.push(name.into());
    }
    names
}

/// FNV-1a, 32 bits.
fn fnv1a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_shards::plan::Scheme;

    fn member(name: &str, host: &str) -> Member {
        let mut member = Member::at(Scheme::Http, host, 80);
        member.name = name.into();
        member
    }

    #[test]
    fn a_snapshot_does_not_depend_on_order_and_holds_each_key_once() {
        let one = Snapshot::new(vec![
            member("b", "h1"),
            member("a", "h1"),
            member("c", "h0"),
        ]);
        let other = Snapshot::new(vec![
            member("c", "h0"),
            member("a", "h1"),
            member("b", "h1"),
        ]);
        assert_eq!(one, other);
        let names: Vec<&str> = one.members().iter().map(|m| &*m.name).collect();
        assert_eq!(names, ["c", "a"]);
    }

    #[test]
    fn names_are_made_plain() {
        for (name, plain) in [
            ("Prom_1.Example", "prom_1.example"),
            ("a b/c", "a-b-c"),
            ("ü", "--"),
            ("", "h-80"),
        ] {
            assert_eq!(plain_name(&member(name, "h")), plain, "{name}");
        }
    }

    fn named(snapshot: &Snapshot, held: &[(&str, &str)], taken: &[&str]) -> Vec<String> {
        let holder = |name: &str| {
            let found = held.iter().find(|(held, _)| *held == name);
            found.map(|(_, key)| (*key).to_owned())
        };
        let names = names("alb", snapshot, holder, |name| taken.contains(&name));
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn one_of_equal_names_keeps_it_and_the_others_get_a_suffix_of_their_key() {
        let snapshot = Snapshot::new(vec![member("p", "h1"), member("p", "h2")]);
        let second = format!("alb-p-{:08x}", fnv1a("http://h2:80"));
        assert_eq!(named(&snapshot, &[], &[]), ["alb-p".to_owned(), second]);
    }

    #[test]
    fn a_newcomer_does_not_take_the_name_of_who_holds_it() {
        let snapshot = Snapshot::new(vec![member("p", "h1"), member("p", "h2")]);
        let first = format!("alb-p-{:08x}", fnv1a("http://h1:80"));
        let held = [("alb-p", "http://h2:80")];
        assert_eq!(named(&snapshot, &held, &[]), [first, "alb-p".to_owned()]);
    }

    #[test]
    fn a_configured_backend_keeps_its_name() {
        let snapshot = Snapshot::new(vec![member("p", "h1")]);
        let suffixed = format!("alb-p-{:08x}", fnv1a("http://h1:80"));
        assert_eq!(named(&snapshot, &[], &["alb-p"]), [suffixed]);
    }

    #[test]
    fn the_hash_is_the_published_one() {
        // Values of the algorithm's authors.
        assert_eq!(fnv1a(""), 0x811c_9dc5);
        assert_eq!(fnv1a("a"), 0xe40c_292c);
        assert_eq!(fnv1a("foobar"), 0xbf9c_f968);
    }
}
