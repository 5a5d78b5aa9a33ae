//! What goes before a worker's own tasks, where there are priorities.

use super::{Local, Shared, take_affine};
use crate::order::{LocalQueue, Order};
use crate::stealing::Stealing;
use crate::{Cx, Policy};
use warpweft_task::TaskRef;

impl<O: Order> Shared<O> {
    /// What waits outside of the local queues and is more urgent than `limit`, as the local queue of this
    /// worker is not.
    fn take_above(&self, limit: usize, local: &mut Local<O>, cx: &Cx<'_>) -> Option<TaskRef> {
        let turn = local.pick();
        self.queues.take_above(limit, turn, &mut local.queue, cx)
    }
}

/// Whose turn it is, as a worker with priorities sees it.
pub(super) enum Ahead {
    /// The next task of its local queue.
    Own,
    /// This one, which waited elsewhere and is more urgent.
    Other(TaskRef),
    /// Nothing is in its local queue. What waits elsewhere is for [`poll_global`](Policy::overdue): the loop
    /// asks that of workers that share only.
    Nothing,
}

/// Compares what waits outside of the local queues with this worker's local queue.
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

/// A worker whose local queue is empty takes the most urgent task that waits elsewhere. As often as others
/// look by turns, so does this one.
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
