//! Addresses of host names for as long as they are good, and names that have none.
//!
//! Owned by a shard for the names that rewriters make of captures ([`crate::lookups`]), and by the control core for
//! all shards. Pure: no clock. Clients choose such names, so both kinds are bounded, and apart: names without
//! addresses never push out others. When there is no room, what is over goes first, then what was used the longest
//! time ago.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// What is known of names.
pub struct Names {
    good: Kept,
    bad: Kept,
}

impl Names {
    /// Nothing yet, and never more than so many names with addresses, and as many without.
    pub fn new(len_max: usize) -> Names {
        Names {
            good: Kept::new(len_max),
            bad: Kept::new(len_max),
        }
    }

    /// Addresses of a name, none where it has none, and for how many milliseconds that is good; `None` when nothing
    /// is known.
    pub fn get(&mut self, host: &str, now_ms: u64) -> Option<(Arc<[IpAddr]>, u64)> {
        let known = self.good.get(host, now_ms);
        known.or_else(|| self.bad.get(host, now_ms))
    }

    /// The addresses that a name had last, if they were good at this time or later.
    pub fn last(&self, host: &str, since_ms: u64) -> Option<Arc<[IpAddr]>> {
        let known = self.good.names.get(host)?;
        (known.until_ms > since_ms).then(|| known.addresses.clone())
    }

    /// From now on this is known of a name, for so many milliseconds.
    pub fn put(&mut self, host: &str, addresses: Arc<[IpAddr]>, (now_ms, for_ms): (u64, u64)) {
        let (to, other) = match addresses.is_empty() {
            true => (&mut self.bad, &mut self.good),
            false => (&mut self.good, &mut self.bad),
        };
        other.names.remove(host);
        to.put(host, addresses, (now_ms, for_ms));
    }
}

/// Names of one kind.
struct Kept {
    len_max: usize,
    names: HashMap<Box<str>, Known>,
    /// Counts uses.
    uses: u64,
}

struct Known {
    addresses: Arc<[IpAddr]>,
    until_ms: u64,
    /// Which use was its last.
    used: u64,
}

impl Kept {
    fn new(len_max: usize) -> Kept {
        Kept {
            len_max,
            names: HashMap::new(),
            uses: 0,
        }
    }

    fn get(&mut self, host: &str, now_ms: u64) -> Option<(Arc<[IpAddr]>, u64)> {
        let known = self.names.get_mut(host)?;
        let left_ms = known.until_ms.saturating_sub(now_ms);
        if left_ms == 0 {
            return None;
        }
        self.uses += 1;
        known.used = self.uses;
        Some((known.addresses.clone(), left_ms))
    }

    fn put(&mut self, host: &str, addresses: Arc<[IpAddr]>, (now_ms, for_ms): (u64, u64)) {
        if self.names.len() >= self.len_max && !self.names.contains_key(host) {
            self.make_room(now_ms);
        }
        self.uses += 1;
        let known = Known {
            addresses,
            until_ms: now_ms.saturating_add(for_ms),
            used: self.uses,
        };
        self.names.insert(host.into(), known);
    }

    /// Takes one out. A walk over all is some microseconds, and only new names are worth one.
    fn make_room(&mut self, now_ms: u64) {
        let worth = |known: &Known| (known.until_ms > now_ms, known.used);
        let least = self.names.iter().min_by_key(|(_, known)| worth(known));
        if let Some(host) = least.map(|(host, _)| host.clone()) {
            self.names.remove(&host);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn one() -> Arc<[IpAddr]> {
        Arc::new([Ipv4Addr::LOCALHOST.into()])
    }

    fn none() -> Arc<[IpAddr]> {
        Arc::default()
    }

    fn knows(names: &mut Names, host: &str, now_ms: u64) -> bool {
        names.get(host, now_ms).is_some()
    }

    #[test]
    fn what_is_known_is_good_for_its_time() {
        let mut names = Names::new(4);
        names.put("a", one(), (1000, 50));
        names.put("b", none(), (1000, 20));
        assert_eq!(names.get("a", 1010), Some((one(), 40)));
        assert_eq!(names.get("a", 1049), Some((one(), 1)));
        assert_eq!(names.get("a", 1050), None);
        assert_eq!(names.get("b", 1019), Some((none(), 1)));
        assert_eq!(names.get("b", 1020), None);
        assert_eq!(names.get("c", 0), None);
        assert_eq!(names.last("a", 0), Some(one()), "a time that is over");
        assert_eq!(names.last("a", 1049), Some(one()));
        assert_eq!(names.last("a", 1050), None);
        assert_eq!(names.last("b", 0), None);
    }

    #[test]
    fn a_name_is_of_one_kind() {
        let mut names = Names::new(4);
        names.put("a", one(), (0, 50));
        names.put("a", none(), (0, 50));
        assert_eq!(names.get("a", 0), Some((none(), 50)));
        assert_eq!(names.last("a", 0), None);
        names.put("a", one(), (0, 60));
        assert_eq!(names.get("a", 0), Some((one(), 60)));
        assert!(names.bad.names.is_empty());
    }

    #[test]
    fn what_is_over_goes_first_and_then_what_was_not_used() {
        let mut names = Names::new(3);
        for (host, for_ms) in [("used", 100), ("unused", 100), ("over", 5)] {
            names.put(host, one(), (0, for_ms));
        }
        assert!(knows(&mut names, "used", 1));
        names.put("d", one(), (10, 100));
        assert_eq!(names.last("over", 0), None);
        names.put("e", one(), (10, 100));
        assert!(!knows(&mut names, "unused", 11));
        for host in ["used", "d", "e"] {
            assert!(knows(&mut names, host, 11), "{host}");
        }
        // One that is there needs no room.
        names.put("e", one(), (11, 100));
        assert_eq!(names.good.names.len(), 3);
    }

    #[test]
    fn many_names_take_no_more_room_and_bad_ones_not_that_of_good_ones() {
        let mut names = Names::new(8);
        names.put("good", one(), (0, 1000));
        for n in 0..1000 {
            names.put(&format!("bad-{n}"), none(), (0, 1000));
        }
        assert_eq!(names.bad.names.len(), 8);
        assert!(knows(&mut names, "good", 1));
        for n in 0..1000 {
            assert!(knows(&mut names, "good", 1), "who is used stays");
            names.put(&format!("other-{n}"), one(), (0, 1000));
        }
        assert_eq!(names.good.names.len(), 8);
    }
}
