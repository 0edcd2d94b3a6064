//! COMPILED types: what the control core makes of the configuration and hands to every shard.
//!
//! Nothing here is "not set" or a name to look up: defaults are in, names are ids, files are read. A plan is
//! immutable; a reload makes a new one. `ringway::compile` fills it, shards only read it.

mod authenticator;
mod backend;
mod listener;
mod merging;
mod path;
mod pool;
mod rewriter;
mod rule;
pub mod spelling;

use std::sync::Arc;

pub use authenticator::{
    Authenticator, AuthenticatorId, AuthenticatorKind, Password, Secret, UserRoute, UserRouter,
};
pub use backend::{
    Alb, Backend, BackendId, BackendKind, ForwardedHeaders, Latency, Origin, OriginProvider, Retry,
    Scheme,
};
pub use listener::{Listener, ListenerId, Network, Route, RouteTable};
pub use merging::{Dialect, ExpectedGroups, QueryBudget, TimeSeriesMerge};
pub use path::{Cors, Edit, EditAction, Edits, Handler, LocalAnswer, Matching, Methods, PathRule};
pub use pool::{Mechanism, PoolId, PoolMember, PoolPlan};
pub use rewriter::{Instruction, Part, Replacement, Rewriter, Template};
pub use rule::{
    Case, Check, Comparison, Digest, Ends, Operation, Outcome, Redirect, Rule, Source, Split,
    Switch,
};

/// Counts plans: each committed configuration is one more than the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// One whole compiled configuration, with the members that discovery found.
///
/// Members come and go without a reload: such a plan shares all but its backends and pools with the one before.
#[derive(Debug)]
pub struct Plan {
    /// Which configuration this is.
    pub generation: Generation,
    /// Name of this server in `Via` and `Forwarded`.
    pub server_name: Box<str>,
    /// Every listening address.
    pub listeners: Arc<[Listener]>,
    /// Every backend; a [`BackendId`] is an index into this. Discovered members come after the static ones.
    pub backends: Vec<Arc<Backend>>,
    /// Every authenticator; an [`AuthenticatorId`] is an index into this.
    pub authenticators: Arc<[Authenticator]>,
    /// Host names that rewriters put in place of those of origins.
    pub rewritten_hosts: Arc<[Box<str>]>,
    /// Every pool; a [`PoolId`] is an index into this.
    pub pools: Vec<PoolPlan>,
}

impl Plan {
    /// The backend with this id.
    ///
    /// # Panics
    /// When the id is of another plan.
    pub fn backend(&self, id: BackendId) -> &Arc<Backend> {
        &self.backends[id.index()]
    }

    /// The authenticator with this id.
    ///
    /// # Panics
    /// When the id is of another plan.
    pub fn authenticator(&self, id: AuthenticatorId) -> &Authenticator {
        &self.authenticators[usize::from(id.0)]
    }
}
