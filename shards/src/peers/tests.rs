//! Groups of connections to origins that rewriters choose.

use super::*;
use crate::headers::tests::origin;
use crate::plan::ForwardedHeaders;

struct Rig {
    peers: Peers,
    tools: (Buffers, Watchdog),
    cells: Rc<BackendCells>,
}

impl Rig {
    fn new() -> Rig {
        Rig {
            peers: Peers::default(),
            tools: (Buffers::default(), Watchdog::new(Duration::from_millis(50))),
            cells: Rc::new(BackendCells::new("web".into(), "reverseproxy")),
        }
    }

    fn elsewhere(&self, host: &str) -> Option<Rc<PeerGroup>> {
        let mut other = origin(ForwardedHeaders::Standard);
        other.peer_key = format!("{} > http://{host}", other.peer_key).into();
        let tools = (&self.tools.0, &self.tools.1);
        self.peers.elsewhere("web", &other, 1, tools, &self.cells)
    }

    fn len(&self) -> usize {
        self.peers.elsewhere.borrow().len()
    }

    fn open(&self) -> u64 {
        self.cells.open.get()
    }
}

/// A connection that is open in this group, as far as counts go.
fn opened(group: &Rc<PeerGroup>) -> Place {
    group.open.set(group.open.get() + 1);
    group.note();
    Place(Some(group.clone()))
}

#[test]
fn any_number_of_hosts_finds_room_while_they_are_not_used_at_once() {
    let rig = Rig::new();
    for n in 0..5 * ELSEWHERE_MAX {
        assert!(rig.elsewhere(&format!("host-{n}")).is_some(), "{n}");
        assert!(rig.elsewhere("regular").is_some(), "{n}");
    }
    assert_eq!(rig.len(), ELSEWHERE_MAX);
    let known = |host: &str| {
        let groups = rig.peers.elsewhere.borrow();
        groups.keys().any(|key| key.ends_with(host))
    };
    assert!(known("//regular"), "who is used stays");
    assert!(known(&format!("//host-{}", 5 * ELSEWHERE_MAX - 1)));
    assert!(!known("//host-0"));
}

#[test]
fn what_is_used_is_never_taken_away() {
    let rig = Rig::new();
    let mut used: Vec<_> = (0..ELSEWHERE_MAX)
        .map(|n| rig.elsewhere(&n.to_string()).expect("there is room"))
        .collect();
    assert!(rig.elsewhere("over").is_none());
    assert!(
        rig.elsewhere("7")
            .is_some_and(|group| Rc::ptr_eq(&group, &used[7]))
    );
    // A connection in use alone keeps its group.
    let place = opened(&used[5]);
    used.swap_remove(5);
    assert!(rig.elsewhere("over").is_none());
    drop(place);
    assert!(rig.elsewhere("over").is_some());
    assert_eq!(rig.len(), ELSEWHERE_MAX);
}

#[test]
fn nothing_of_what_nobody_uses_is_left() {
    let rig = Rig::new();
    let kept = rig.elsewhere("a");
    rig.elsewhere("b");
    rig.peers.reap();
    assert_eq!(rig.len(), 1);
    drop(kept);
    rig.peers.reap();
    assert_eq!(rig.len(), 0);
}

#[test]
fn connections_of_all_groups_of_a_backend_are_counted() {
    let rig = Rig::new();
    let (a, b) = (rig.elsewhere("a"), rig.elsewhere("b"));
    let (a, b) = (a.expect("there is room"), b.expect("there is room"));
    let places = [opened(&a), opened(&a), opened(&b)];
    assert_eq!(rig.open(), 3);
    a.note();
    assert_eq!(rig.open(), 3);
    // Under another plan the backend may be counted anew.
    let other = Rc::new(BackendCells::new("web".into(), "prometheus"));
    a.count_in(&other);
    assert_eq!((rig.open(), other.open.get()), (1, 2));
    drop(places);
    assert_eq!((rig.open(), other.open.get()), (0, 0));
    b.open.set(1);
    b.note();
    drop(b);
    rig.peers.reap();
    assert_eq!(rig.open(), 0, "a group that has gone counts for nothing");
}
