//! `tsm`: being built.

use crate::exchange::Task;
use crate::respond::Failure;
use crate::serve::Client;

/// Placeholder until the merge is wired.
pub(crate) async fn run(_: &Task<'_>, _: &mut Client, _: usize) -> Result<(), Failure> {
    Err(Failure::Internal)
}
