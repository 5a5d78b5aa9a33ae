//! Where a task is put that becomes ready.

use super::{Local, Shared};
use crate::order::{LocalQueue, Order};
use crate::stealing::Overflow;
use crate::stealing::overflow_queue::retry;
use crate::{Count, Cx, Tally, Wake, WorkerId, YieldTo};
use warpweft_queue::Full;
use warpweft_task::{TaskRef, Why};

#[inline]
pub(super) fn into_local_queue<O: Order>(
    shared: &Shared<O>,
    local: &mut Local<O>,
    task: TaskRef,
    tally: Tally<'_>,
) -> Wake {
    match local.queue.push(task) {
        Ok(()) => Wake::Any,
        Err(Full(task)) => no_room(shared, local, task, tally),
    }
}

/// Stores a task that found its local queue full.
#[cold]
pub(super) fn no_room<O: Order>(
    shared: &Shared<O>,
    local: &mut Local<O>,
    task: TaskRef,
    tally: Tally<'_>,
) -> Wake {
    let placed = match shared.full {
        Overflow::Grow => {
            let grown = local.queue.push_grown(task);
            tally.count(Count::Grown, u64::from(grown.is_ok()));
            grown
        }
        Overflow::Retry(times) if shared.thieves.len() > 1 => retry(&mut local.queue, task, times, tally),
        _ => Err(Full(task)),
    };
    if let Err(Full(task)) = placed {
        tally.count(Count::Overflowed, 1);
        shared.queues.overflow(task, local.pick());
    }
    shared
        .help_requests
        .ask(local.me, local.queue.len(), local.pick(), tally)
}

/// Pushes a task that does not go to the worker's local queue, or not to where new tasks go there.
#[inline(never)]
pub(super) fn detour<O: Order>(
    shared: &Shared<O>,
    local: &mut Local<O>,
    task: TaskRef,
    why: Why,
    cx: &Cx<'_>,
) -> Wake {
    let tally = cx.tally();
    if why == Why::Yielded {
        return give_way(shared, local, task, shared.yield_to, tally);
    }
    match shared.queues.affine.of(&task) {
        Some(preferred) if preferred != local.me && !cx.rests(WorkerId(preferred)) => {
            shared.queues.push_affine(preferred, task)
        }
        _ => into_local_queue(shared, local, task, tally),
    }
}

pub(super) fn from_outside<O: Order>(shared: &Shared<O>, task: TaskRef, why: Why, cx: &Cx<'_>) -> Wake {
    if why == Why::Woken
        && let Some(preferred) = shared.queues.affine.of(&task)
        && !cx.rests(WorkerId(preferred))
    {
        return shared.queues.push_affine(preferred, task);
    }
    shared.queues.inject(task);
    Wake::Any
}

/// Takes in the tasks of the affine queue. Returns true if there were any.
pub(super) fn take_affine<O: Order>(shared: &Shared<O>, local: &mut Local<O>, tally: Tally<'_>) -> bool {
    let Some(tasks) = shared.queues.take_affine(local.me) else {
        return false;
    };
    for task in tasks {
        if let Err(Full(task)) = local.queue.push_last(task) {
            let _ = no_room(shared, local, task, tally);
        }
    }
    true
}

/// Stores a task that yields.
pub(super) fn give_way<O: Order>(
    shared: &Shared<O>,
    local: &mut Local<O>,
    task: TaskRef,
    to: YieldTo,
    tally: Tally<'_>,
) -> Wake {
    if to == YieldTo::Global {
        shared.queues.give_way(task, local.pick());
        return Wake::Any;
    }
    if O::GIVES_WAY {
        if let Err(Full(task)) = local.queue.give_way(task) {
            let _ = no_room(shared, local, task, tally);
        }
        return Wake::Any;
    }
    let newest = O::NEWEST_FIRST.then(|| local.queue.pop_newest()).flatten();
    for task in [Some(task), newest].into_iter().flatten() {
        if let Err(Full(task)) = local.queue.push_last(task) {
            let _ = no_room(shared, local, task, tally);
        }
    }
    Wake::Any
}
