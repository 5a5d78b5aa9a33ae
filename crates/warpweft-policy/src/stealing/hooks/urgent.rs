//! Takes urgent tasks before a worker's own, where there are priorities.

use super::store::take_affine;
use super::{Local, Shared};
use crate::order::{LocalQueue, Order};
use crate::stealing::Stealing;
use crate::{Cx, Policy};
use warpweft_task::TaskRef;

impl<O: Order> Shared<O> {
    /// Takes what waits outside of the local queues and is more urgent than `limit`, as this worker's local
    /// queue is not.
    fn take_above(&self, limit: usize, local: &mut Local<O>, cx: &Cx<'_>) -> Option<TaskRef> {
        let turn = local.pick();
        self.queues.take_above(limit, turn, &mut local.queue, cx)
    }
}

/// The source of the next task of a worker with priorities.
pub(super) enum Ahead {
    /// The next task of its local queue.
    Own,
    /// This task, which waited elsewhere and is more urgent.
    Other(TaskRef),
    /// Its local queue is empty. [`poll_global`](Policy::poll_global) takes what waits elsewhere; the loop
    /// calls it only then.
    Nothing,
}

/// Compares the shared queues with this worker's local queue.
#[inline]
pub(super) fn compare<O: Order>(shared: &Shared<O>, local: &mut Local<O>, cx: &Cx<'_>) -> Ahead {
    if shared.to_last {
        take_affine(shared, local, cx.tally());
    }
    let Some(class) = shared.queues.first() else {
        return Ahead::Own;
    };
    let own = local.queue.first_level();
    local.ran_dry = own == usize::MAX;
    if local.ran_dry {
        return Ahead::Nothing;
    }
    if class >= own {
        return Ahead::Own;
    }
    let other = shared.take_above(own, local, cx);
    other.map_or(Ahead::Own, Ahead::Other)
}

/// Takes the most urgent task that waits elsewhere, for a worker whose local queue is empty. It polls in turn
/// as often as others do.
pub(super) fn most_urgent<O: Order>(
    shared: &Shared<O>,
    local: &mut Local<O>,
    cx: &Cx<'_>,
) -> Option<TaskRef> {
    if !std::mem::take(&mut local.ran_dry) || local.in_a_row >= Stealing::<O>::INTERVAL {
        local.in_a_row = 0;
        return None;
    }
    local.in_a_row += 1;
    shared.take_above(usize::MAX, local, cx)
}
