//! Commands on their way to the shards.
//!
//! A command that finds its shard's queue full waits here, in order; of waiting tables, and of waiting memberships, only the
//! last is kept.
//! So the control core never waits for a shard, and what waits stays small.

use std::collections::VecDeque;

use ringway_io::cross::{SendError, Sender};
use ringway_shards::link::{Command, ShardId};

/// One queue for each shard.
pub(super) struct Outbox {
    lanes: Vec<Lane>,
}

struct Lane {
    to: Sender<Command>,
    waiting: VecDeque<Command>,
}

impl Outbox {
    pub(super) fn new(commands: Vec<Sender<Command>>) -> Self {
        let lanes = commands.into_iter().map(|to| Lane {
            to,
            waiting: VecDeque::new(),
        });
        Outbox {
            lanes: lanes.collect(),
        }
    }

    /// Sends one command to each shard, at the next [`Outbox::flush`] at the latest.
    pub(super) fn send_all(&mut self, mut command: impl FnMut() -> Command) {
        for lane in &mut self.lanes {
            let command = command();
            match command {
                Command::Table(_) => lane.waiting.retain(|w| !matches!(w, Command::Table(_))),
                // With a table of its own, so those of before are not needed either.
                Command::Members(..) => lane
                    .waiting
                    .retain(|w| !matches!(w, Command::Table(_) | Command::Members(..))),
                _ => {}
            }
            lane.waiting.push_back(command);
        }
    }

    /// Sends a command to one shard, at the next [`Outbox::flush`] at the latest.
    pub(super) fn send(&mut self, shard: ShardId, command: Command) {
        if let Some(lane) = self.lanes.get_mut(usize::from(shard.0)) {
            lane.waiting.push_back(command);
        }
    }

    /// Sends what fits; the shard that is gone, if one is.
    pub(super) fn flush(&mut self) -> Result<(), ShardId> {
        for (id, lane) in (0u16..).zip(&mut self.lanes) {
            while let Some(command) = lane.waiting.pop_front() {
                match lane.to.send(command) {
                    Ok(()) => {}
                    Err(SendError::Full(command)) => {
                        lane.waiting.push_front(command);
                        break;
                    }
                    Err(SendError::Closed(_)) => return Err(ShardId(id)),
                }
            }
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| lane.waiting.is_empty())
    }

    /// How many shards there are.
    pub(super) fn shards(&self) -> usize {
        self.lanes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_io::cross::queue;

    #[test]
    fn what_does_not_fit_is_sent_later_in_order() {
        let (to, mut from) = queue(1);
        let mut outbox = Outbox::new(vec![to]);
        for token in 1..=3 {
            outbox.send_all(|| Command::Scrape(token));
        }
        for token in 1..=3 {
            assert_eq!(outbox.flush(), Ok(()));
            assert!(matches!(from.try_recv(), Some(Command::Scrape(n)) if n == token));
        }
        assert!(outbox.is_empty());
    }

    #[test]
    fn a_shard_that_is_gone_is_named() {
        let (first, _kept) = queue(1);
        let (second, gone) = queue(1);
        drop(gone);
        let mut outbox = Outbox::new(vec![first, second]);
        outbox.send_all(|| Command::Abort);
        assert_eq!(outbox.flush(), Err(ShardId(1)));
    }
}
