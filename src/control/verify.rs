//! Password checks that take too long for a shard.
//!
//! A shard asks with [`Check`] and is answered by a [`Verdict`]. Each check has a thread of its own, named `verify`,
//! which the scheduler prefers every other thread to: a burst of logins costs shards and control core nothing but
//! idle time. Bounds: [`CHECKS_AT_ONCE`] threads, [`CHECKS_WAITING_MAX`] checks in the queue; what does not fit is
//! answered at once that it cannot be checked now. Called by `control::run`.

use std::collections::VecDeque;

use ringway_shards::limits::CHECKS_MAX;
use ringway_shards::link::{Check, ShardId, Verdict};
use tokio::sync::mpsc;

use crate::password;

/// Checks that run at one time.
pub const CHECKS_AT_ONCE: usize = 2;
/// Checks that wait for their turn.
pub const CHECKS_WAITING_MAX: usize = 256;
/// How much every other thread is preferred.
const NICENESS: i32 = 10;

// One shard alone does not fill the queue.
const _: () = assert!(CHECKS_MAX < CHECKS_WAITING_MAX);

/// A check that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Who asked.
    pub shard: ShardId,
    /// As what.
    pub token: u64,
    /// What came out.
    pub verdict: Verdict,
}

/// Counts of checks since start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The password was right.
    pub matched: u64,
    /// It was not.
    pub mismatched: u64,
    /// There was no room for the check.
    pub turned_away: u64,
}

struct Job {
    shard: ShardId,
    check: Box<Check>,
}

/// Checks that run and wait.
pub struct Verifier {
    waiting: VecDeque<Job>,
    running: usize,
    done: mpsc::Sender<Done>,
    tally: Tally,
}

impl Verifier {
    /// Nothing to do yet; what has ended comes out of the queue and is to be given to [`Verifier::end`].
    pub fn new() -> (Verifier, mpsc::Receiver<Done>) {
        let (done, ended) = mpsc::channel(CHECKS_AT_ONCE);
        let verifier = Verifier {
            waiting: VecDeque::new(),
            running: 0,
            done,
            tally: Tally::default(),
        };
        (verifier, ended)
    }

    /// Takes on a check, or answers it at once because there is no room.
    pub fn begin(&mut self, shard: ShardId, check: Box<Check>) -> Option<Done> {
        let job = Job { shard, check };
        if self.running < CHECKS_AT_ONCE {
            return self.start(job);
        }
        if self.waiting.len() < CHECKS_WAITING_MAX {
            self.waiting.push_back(job);
            return None;
        }
        Some(self.turn_away(&job))
    }

    /// A check has ended, the next one begins; what is to be answered now.
    pub fn end(&mut self, done: Done) -> Vec<Done> {
        debug_assert!(self.running > 0, "only what runs can end");
        self.running = self.running.saturating_sub(1);
        match done.verdict {
            Verdict::Match => self.tally.matched += 1,
            Verdict::Mismatch => self.tally.mismatched += 1,
            Verdict::Busy => self.tally.turned_away += 1,
        }
        let mut answers = vec![done];
        while self.running < CHECKS_AT_ONCE
            && let Some(job) = self.waiting.pop_front()
        {
            answers.extend(self.start(job));
        }
        answers
    }

    /// Counts since start.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    fn start(&mut self, job: Job) -> Option<Done> {
        let (shard, token) = (job.shard, job.check.token);
        let done = self.done.clone();
        let work = move || {
            lower_priority();
            // A panic must not cost one of the few places.
            let verdict = std::panic::catch_unwind(|| judge(&job.check));
            let verdict = verdict.unwrap_or(Verdict::Mismatch);
            // There is room for each check that runs; only a loop that has ended does not listen.
            let _ = done.try_send(Done {
                shard,
                token,
                verdict,
            });
        };
        let thread = std::thread::Builder::new().name("verify".into());
        match thread.spawn(work) {
            Ok(_) => {
                self.running += 1;
                None
            }
            Err(error) => {
                tracing::warn!(error = %error, "no thread for a password check");
                self.tally.turned_away += 1;
                Some(Done {
                    shard,
                    token,
                    verdict: Verdict::Busy,
                })
            }
        }
    }

    fn turn_away(&mut self, job: &Job) -> Done {
        self.tally.turned_away += 1;
        Done {
            shard: job.shard,
            token: job.check.token,
            verdict: Verdict::Busy,
        }
    }
}

fn judge(check: &Check) -> Verdict {
    match password::matches(check.stored.expose(), check.offered.expose()) {
        true => Verdict::Match,
        false => Verdict::Mismatch,
    }
}

/// Niceness is a matter of threads on Linux, whatever POSIX says. Without it the check runs as well.
fn lower_priority() {
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICENESS);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_shards::plan::Secret;

    const HASH: &str = "$apr1$Zo7pTq1x$XYTeBEuZiORIT0981GTGE/";

    fn check(token: u64, offered: &str) -> Box<Check> {
        Box::new(Check {
            token,
            stored: Secret::new(HASH),
            offered: Secret::new(offered),
        })
    }

    #[tokio::test]
    async fn every_check_is_answered_in_the_order_asked() {
        let (mut verifier, mut ended) = Verifier::new();
        let offers = ["open sesame", "wrong", HASH, "open sesame"];
        for (token, offered) in (0..).zip(offers) {
            assert_eq!(verifier.begin(ShardId(1), check(token, offered)), None);
        }
        let mut verdicts = [Verdict::Busy; 4];
        for _ in offers {
            let done = ended.recv().await.expect("threads answer");
            for done in verifier.end(done) {
                assert_eq!(done.shard, ShardId(1));
                verdicts[done.token as usize] = done.verdict;
            }
        }
        use Verdict::{Match, Mismatch};
        assert_eq!(verdicts, [Match, Mismatch, Mismatch, Match]);
        let tally = verifier.tally();
        assert_eq!(
            (tally.matched, tally.mismatched, tally.turned_away),
            (2, 2, 0)
        );
    }

    #[tokio::test]
    async fn what_does_not_fit_is_turned_away_at_once() {
        let (mut verifier, mut ended) = Verifier::new();
        let room = CHECKS_AT_ONCE + CHECKS_WAITING_MAX;
        for token in 0..room as u64 {
            assert_eq!(verifier.begin(ShardId(0), check(token, "x")), None);
        }
        let over = Done {
            shard: ShardId(0),
            token: 9999,
            verdict: Verdict::Busy,
        };
        assert_eq!(verifier.begin(ShardId(0), check(9999, "x")), Some(over));
        assert_eq!(verifier.tally().turned_away, 1);
        let mut answered = 0;
        while answered < room {
            let done = ended.recv().await.expect("threads answer");
            answered += verifier.end(done).len();
        }
        assert_eq!(verifier.tally().mismatched, room as u64);
    }
}
