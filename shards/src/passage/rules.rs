//! What rewriters and rules make of a request on its way.

use std::rc::Rc;
use std::sync::Arc;

use ringway_io::net::http1::Method;

use super::{Asked, Credentials, Passage, path_below};
use crate::plan::{Backend, BackendId, BackendKind, Rewriter, Rule};
use crate::respond::Failure;
use crate::rewrite::{Authority, Changes, Draft, Request, TooMany};
use crate::rule::{self, Decision};

/// Rules that a request has passed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Passed {
    count: u16,
    /// How many it may pass; 0: it has met none.
    budget: u16,
    /// A pool's turn was taken on the way.
    by_turn: bool,
    /// The first rule since then.
    behind_turn: Option<BackendId>,
}

impl Passed {
    /// Another try of the request begins here.
    pub(super) fn start_anew(&mut self) {
        self.by_turn = false;
        self.behind_turn = None;
    }

    /// None at all.
    pub(super) fn is_none(self) -> bool {
        self.count == 0
    }
}

impl From<TooMany> for Failure {
    fn from(_: TooMany) -> Failure {
        Failure::RuleBudget
    }
}

impl<'v> Passage<'v> {
    /// Runs the rewriters of a backend and its path.
    pub(super) fn rewrite(
        &mut self,
        asked: &Asked<'_>,
        rewriters: &[Arc<Rewriter>],
    ) -> Result<(), Failure> {
        let mut request = self.request(asked);
        for rewriter in rewriters {
            request.run(rewriter, None)?;
        }
        Ok(())
    }

    fn request<'r>(&'r mut self, asked: &'r Asked<'r>) -> Request<'r> {
        let changes = (&mut self.changes, &mut self.work);
        Request::of(asked, &self.credentials, changes)
    }

    /// Passes the rule that it has come to.
    ///
    /// # Errors
    /// When it has passed as many as it may. Contract: rule page, 10.
    pub(crate) fn pass(
        &mut self,
        rule: &'v Rule,
        asked: &Asked<'_>,
    ) -> Result<Decision<'v>, Failure> {
        let own = rule.executions_max;
        self.rules.budget = match self.rules.budget {
            0 => own,
            budget => budget.min(own),
        };
        if self.rules.count >= self.rules.budget {
            return Err(Failure::RuleBudget);
        }
        if self.rules.by_turn && self.rules.behind_turn.is_none() {
            self.rules.behind_turn = Some(self.at.id);
        }
        let decision = rule::pass(rule, &mut self.request(asked))?;
        self.rules.count += 1;
        Ok(decision)
    }

    /// Goes on to where a rule sends it. Another try of the request begins there, unless a pool's turn has led to the
    /// rule: then it begins where the turn was taken.
    pub(crate) fn sent_to(&mut self, target: &'v Arc<Backend>) {
        self.at = target;
        if !self.rules.by_turn && matches!(target.kind, BackendKind::Alb(_)) {
            self.settle();
        }
    }

    /// A pool's turn leads on from here.
    pub(super) fn took_turn(&mut self) {
        self.rules.by_turn = true;
        self.rules.behind_turn = None;
    }

    /// The rule by which it came from the last pool that took a turn.
    pub(crate) fn by_rule(&self) -> Option<BackendId> {
        self.rules.behind_turn
    }

    /// The route has used up so many bytes of the path.
    pub(crate) fn strip_path(&mut self, asked: &Asked<'_>, strip: usize) {
        if strip > 0 {
            let path = path_below(self.path(asked), strip).to_vec();
            Rc::make_mut(self.changes.get_or_insert_default()).set_path(&path);
        }
    }
}

// === The request as it is now ===

impl Passage<'_> {
    /// The path, as rewriters have made it.
    pub(crate) fn path<'p>(&'p self, asked: &'p Asked<'_>) -> &'p [u8] {
        let changed = self.changes.as_deref().and_then(Changes::path);
        changed.unwrap_or(asked.path)
    }

    /// The method, as rewriters have made it.
    pub(super) fn method(&self, asked: &Asked<'_>) -> Method {
        let changed = self.changes.as_deref().and_then(Changes::method);
        changed.unwrap_or_else(|| asked.head.method())
    }

    /// Host and port that it is for, as a route is found by.
    pub(crate) fn named_host(&mut self, asked: &Asked<'_>) -> Vec<u8> {
        self.request(asked).host().as_bytes().to_vec()
    }

    /// Who is asked instead of the origin, as far as it is another.
    pub(crate) fn authority(&self) -> Option<&Authority> {
        let authority = &self.changes.as_deref()?.authority;
        (!authority.is_kept()).then_some(authority)
    }

    /// Whether `Authorization` is what a rewriter wrote.
    pub(crate) fn sets_authorization(&self) -> bool {
        let changes = self.changes.as_deref();
        changes.is_some_and(|changes| changes.sets_authorization)
    }

    /// Whether `Authorization` goes on as the head has it.
    pub(crate) fn passes_authorization(&self) -> bool {
        self.credentials == Credentials::Keep || self.sets_authorization()
    }

    /// Others' credentials take the place of what a rewriter wrote before.
    pub(crate) fn overrule_authorization(&mut self) {
        if self.sets_authorization()
            && let Some(changes) = &mut self.changes
        {
            Rc::make_mut(changes).sets_authorization = false;
        }
    }

    /// Instructions that were left out.
    pub(crate) fn dropped_rewrites(&self) -> u32 {
        self.work.dropped
    }

    /// The head that rewriters have made, once it has [arrived](Passage::arrived).
    pub(crate) fn draft(&self) -> Option<&Draft> {
        self.draft.as_deref()
    }

    /// The head that rewriters have made since `outer`.
    pub(crate) fn redrafted(&self, outer: &Passage<'_>) -> Option<Rc<Draft>> {
        let draft = self.draft.as_ref()?;
        let is_same = outer
            .draft
            .as_ref()
            .is_some_and(|known| Rc::ptr_eq(known, draft));
        (!is_same).then(|| draft.clone())
    }

    /// As [`Passage::draft`].
    pub(crate) fn shared_draft(&self) -> Option<Rc<Draft>> {
        self.draft.clone()
    }

    /// It has come to who answers: what rewriters have changed of the head becomes one.
    ///
    /// # Errors
    /// When that is larger than a head may be.
    pub(crate) fn arrived(&mut self, asked: &Asked<'_>) -> Result<(), Failure> {
        let Some(changes) = &mut self.changes else {
            return Ok(());
        };
        if let Some(draft) = changes.render(asked)? {
            self.draft = Some(Rc::new(draft));
            Rc::make_mut(changes).rest_on_head();
        }
        Ok(())
    }
}
