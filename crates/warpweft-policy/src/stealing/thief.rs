//! Steals from one victim.

use crate::order::{LocalQueue, LocalQueueThief};
use crate::{Count, Cx};
use warpweft_queue::{Amount, Glance, Steal};
use warpweft_task::TaskRef;

/// Steals from one victim, unless its only task is new there. Also returns how many tasks were there.
pub(super) fn steal_unless_new<L: LocalQueue>(
    victim: &L::Thief,
    into: &mut L,
    declined: &mut Option<Glance>,
    amount: impl Fn(usize) -> Amount,
    cx: &Cx<'_>,
) -> Option<(TaskRef, usize)> {
    let glance = victim.glance();
    if glance.len == 0 {
        return None;
    }
    if glance.len == 1 && *declined != Some(glance) {
        *declined = Some(glance);
        cx.count(Count::StealsDeclined, 1);
        return None;
    }
    Some((steal(victim, into, amount(glance.len), cx)?, glance.len))
}

pub(super) fn steal<L: LocalQueue>(
    victim: &L::Thief,
    into: &mut L,
    amount: Amount,
    cx: &Cx<'_>,
) -> Option<TaskRef> {
    cx.count(Count::StealAttempts, 1);
    match victim.steal_into(into, amount) {
        Steal::Taken { first, moved } => {
            cx.count(Count::Steals, 1);
            cx.count(Count::Stolen, moved as u64 + 1);
            Some(first)
        }
        Steal::Lost => {
            cx.count(Count::StealsLost, 1);
            None
        }
        Steal::Empty | Steal::Few(_) => None,
    }
}
