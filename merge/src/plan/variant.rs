//! One request of a plan: its text, its times, and who gets it.

use super::Grid;

/// Which groups a plan needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Ask {
    /// Every group; one that does not answer makes the result partial.
    #[default]
    EveryGroup,
    /// Any one group: the expression reads no series. All may be asked; one answer suffices.
    AnyGroup,
    /// The groups with these indexes; no other has a series that is asked for, and answers of
    /// others are ignored.
    Groups(Vec<usize>),
}

impl Ask {
    /// Returns whether the group with this index is asked.
    pub fn includes(&self, group: usize) -> bool {
        match self {
            Self::EveryGroup | Self::AnyGroup => true,
            Self::Groups(groups) => groups.contains(&group),
        }
    }
}

/// One request per member.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Variant {
    /// Empty for the only variant, else such as `avg-sum`: part of log lines and metric labels.
    pub name: &'static str,
    /// Replaces the `query` parameter; `None` leaves the request as it came. Ask
    /// [`Variant::query_for`].
    pub query: Option<String>,
    /// Replaces the times of the request, and makes it an instant or a range query.
    pub window: Option<Window>,
    /// Which groups get it.
    pub ask: Ask,
    /// Other texts for some groups, by index.
    pub by_group: Vec<(usize, String)>,
}

impl Variant {
    /// What replaces the `query` parameter for a group.
    pub fn query_for(&self, group: usize) -> Option<&str> {
        let own = self.by_group.iter().find(|(index, _)| *index == group);
        own.map(|(_, text)| text.as_str()).or(self.query.as_deref())
    }
}

/// Times of a request to a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// `/api/v1/query` at a Unix time in milliseconds.
    Instant(i64),
    /// `/api/v1/query_range`
    Range(Grid),
}
