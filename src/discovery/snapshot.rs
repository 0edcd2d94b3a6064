//! A membership in its one form, so that two can be compared.

use std::sync::Arc;

use super::Member;

/// Longest name of a source that is taken over whole.
const NAME_BYTES_MAX: usize = 200;

/// A member and its identity.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// [`Member::key`].
    pub key: Box<str>,
    /// The member.
    pub member: Member,
}

/// What changed between two snapshots.
#[derive(Debug, Default)]
pub struct Changes<'s> {
    /// Those whose keys are not there any more.
    pub gone: Vec<&'s Arc<Entry>>,
    /// Those that are new, or not what their keys were before.
    pub come: Vec<&'s Arc<Entry>>,
}

/// All members of a query at one moment: by key, then name, each key once.
///
/// What has not changed since the snapshot before is shared with it, so that thousands are compared at a glance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot(Arc<[Arc<Entry>]>);

impl Snapshot {
    /// Of what a source says, in any order. Of members with one key the first by name stays.
    pub fn new(members: Vec<Member>) -> Snapshot {
        Snapshot::after(&Snapshot::default(), members)
    }

    /// The same, of a source that has said `last` before.
    pub fn after(last: &Snapshot, members: Vec<Member>) -> Snapshot {
        let mut entries: Vec<Entry> = members
            .into_iter()
            .map(|member| Entry {
                key: member.key().into(),
                member,
            })
            .collect();
        entries.sort_by(|a, b| rank(a).cmp(&rank(b)));
        entries.dedup_by(|later, first| later.key == first.key);
        // Both are in order, so one walk over them is enough.
        let mut known = last.0.iter().peekable();
        let shared = entries.into_iter().map(|entry| {
            while known.next_if(|known| known.key < entry.key).is_some() {}
            match known.peek() {
                Some(known) if ***known == entry => (*known).clone(),
                _ => Arc::new(entry),
            }
        });
        Snapshot(shared.collect())
    }

    /// What is otherwise than in `before`. What both share costs a look.
    pub fn changes_since<'s>(&'s self, before: &'s Snapshot) -> Changes<'s> {
        let mut changes = Changes::default();
        let mut old = before.0.iter().peekable();
        for entry in self.0.iter() {
            if old.next_if(|old| Arc::ptr_eq(old, entry)).is_some() {
                continue;
            }
            while let Some(gone) = old.next_if(|old| old.key < entry.key) {
                changes.gone.push(gone);
            }
            let same_key = old.next_if(|old| old.key == entry.key);
            if same_key.is_none_or(|old| !Arc::ptr_eq(old, entry)) {
                changes.come.push(entry);
            }
        }
        changes.gone.extend(old);
        changes
    }

    /// The members.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.0
    }

    /// The member with this key.
    pub fn get(&self, key: &str) -> Option<&Arc<Entry>> {
        let found = self.0.binary_search_by(|entry| (*entry.key).cmp(key));
        found.ok().map(|index| &self.0[index])
    }
}

/// Where an entry stands among others. Whoever is the same in all of this is the same member.
fn rank(entry: &Entry) -> impl Ord + '_ {
    let member = &entry.member;
    (
        &entry.key,
        &member.name,
        (
            member.weight,
            &member.replica_group,
            member.ready,
            &member.labels,
        ),
    )
}

/// The name of a member's backend: `<alb>-<member>`, the member's name (or address) in lower case with anything but
/// letters, digits, `.`, `_` and `-` replaced. Where that is taken a suffix made of its key tells it apart. Contract:
/// autodiscovery page, 4.2.
pub fn backend_name(alb: &str, entry: &Entry, is_taken: impl Fn(&str) -> bool) -> Box<str> {
    let plain = format!("{alb}-{}", plain_name(&entry.member));
    let mut name = plain.clone();
    let mut salt = entry.key.to_string();
    while is_taken(&name) {
        name = format!("{plain}-{:08x}", fnv1a(&salt));
        salt.push('+');
    }
    name.into()
}

fn plain_name(member: &Member) -> String {
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
    fn changes_are_who_is_gone_and_who_has_come_or_changed() {
        let of = |members: &[(&str, &str)], last: &Snapshot| {
            let members = members.iter().map(|(name, host)| member(name, host));
            Snapshot::after(last, members.collect())
        };
        let none = Snapshot::default();
        let before = of(&[("a", "h1"), ("b", "h2"), ("c", "h3"), ("d", "h5")], &none);
        let after = of(
            &[("a", "h1"), ("B", "h2"), ("e", "h4"), ("d", "h5")],
            &before,
        );
        let names = |entries: &[&Arc<Entry>]| -> Vec<String> {
            entries.iter().map(|e| e.member.name.to_string()).collect()
        };
        let changes = after.changes_since(&before);
        assert_eq!(names(&changes.gone), ["c"]);
        assert_eq!(names(&changes.come), ["B", "e"]);
        let all = after.changes_since(&none);
        assert_eq!((all.gone.len(), all.come.len()), (0, 4));
        let rest = none.changes_since(&after);
        assert_eq!((rest.gone.len(), rest.come.len()), (4, 0));
        let again = after.clone();
        let same = again.changes_since(&after);
        assert!(same.gone.is_empty() && same.come.is_empty());
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
        let names: Vec<&str> = one.entries().iter().map(|e| &*e.member.name).collect();
        assert_eq!(names, ["c", "a"]);
        let weighing = |weight| Member {
            weight,
            ..member("a", "h1")
        };
        let one = Snapshot::new(vec![weighing(1), weighing(7)]);
        assert_eq!(one, Snapshot::new(vec![weighing(7), weighing(1)]));
        assert!(one.get("http://h1:80").is_some() && one.get("http://h2:80").is_none());
    }

    #[test]
    fn what_stays_is_shared() {
        let last = Snapshot::new(vec![member("a", "h1"), member("b", "h2")]);
        let mut heavier = member("b", "h2");
        heavier.weight = 2;
        let next = Snapshot::after(&last, vec![member("a", "h1"), heavier]);
        assert!(Arc::ptr_eq(&last.entries()[0], &next.entries()[0]));
        assert_ne!(last.entries()[1], next.entries()[1]);
        assert_ne!(last, next);
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

    #[test]
    fn who_cannot_have_its_name_gets_a_suffix_of_its_key() {
        let snapshot = Snapshot::new(vec![member("p", "h1")]);
        let entry = &snapshot.entries()[0];
        assert_eq!(&*backend_name("alb", entry, |_| false), "alb-p");
        let suffixed = format!("alb-p-{:08x}", fnv1a("http://h1:80"));
        let is_taken = |name: &str| name == "alb-p";
        assert_eq!(*backend_name("alb", entry, is_taken), suffixed);
        let is_taken = |name: &str| name == "alb-p" || name == suffixed;
        let other = backend_name("alb", entry, is_taken);
        assert!(other.starts_with("alb-p-") && *other != suffixed);
    }

    #[test]
    fn the_hash_is_the_published_one() {
        // Values of the algorithm's authors.
        assert_eq!(fnv1a(""), 0x811c_9dc5);
        assert_eq!(fnv1a("a"), 0xe40c_292c);
        assert_eq!(fnv1a("foobar"), 0xbf9c_f968);
    }
}
