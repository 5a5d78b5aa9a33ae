//! Shared queues for tasks that came from outside or found no room in a local queue.

use super::Overflow;
use crate::order::LocalQueue;
use crate::{Count, Cx, PolicyError, Tally};
use std::num::NonZeroUsize;
use warpweft_platform::atomic::spin_loop;
use warpweft_queue::{Full, Locked, Mpmc, Multi};
use warpweft_task::{QueueViewer, TaskRef};

/// The room of a single lock-free queue. Under loom it is small enough for a model.
const ALONE: usize = if cfg!(warpweft_loom) { 2 } else { 1 << 16 };
const EACH: usize = if cfg!(warpweft_loom) { 2 } else { 1 << 14 };
/// The largest number of lock-free queues: 64 MiB of them.
pub(crate) const MOST_QUEUES: usize = 256;

/// A locked queue, and perhaps lock-free ones in front of it.
pub(super) struct OverflowQueue {
    rings: Option<Multi<TaskRef, Mpmc<TaskRef>>>,
    locked: Locked<TaskRef>,
}

impl OverflowQueue {
    /// Only the locked queue.
    pub(super) fn locked() -> Self {
        let locked = Locked::new();
        Self { rings: None, locked }
    }

    /// Makes the queues for this way to overflow: one of `classes` parts, among which the room of the rings
    /// is divided.
    pub(super) fn of(overflow: Overflow, classes: usize) -> Result<Self, PolicyError> {
        let part = |room: usize| (room / classes).max(2);
        let rings = match overflow {
            Overflow::Grow | Overflow::Retry(_) | Overflow::Locked => None,
            Overflow::LockFree => Some(Multi::with_capacity(1, part(ALONE))?),
            Overflow::Multi(queues) if queues.get() > MOST_QUEUES => {
                return Err(PolicyError::Other(format!(
                    "overflow into {queues} queues: there may be 1 to {MOST_QUEUES}"
                )));
            }
            Overflow::Multi(queues) => Some(Multi::with_capacity(queues.get(), part(EACH))?),
        };
        Ok(Self {
            rings,
            ..Self::locked()
        })
    }

    /// Adds a task. `pick` chooses among several queues.
    pub(super) fn push(&self, task: TaskRef, pick: usize) {
        let task = match &self.rings {
            Some(rings) => match rings.push(task, pick) {
                Ok(()) => return,
                Err(Full(task)) => task,
            },
            None => task,
        };
        self.locked.push(task);
    }

    /// Puts back tasks that were taken and not needed.
    pub(super) fn push_batch(&self, tasks: impl IntoIterator<Item = TaskRef>) {
        self.locked.push_batch(tasks);
    }

    /// Takes one of the oldest tasks.
    pub(super) fn pop(&self, cx: &Cx<'_>) -> Option<TaskRef> {
        let Some(rings) = &self.rings else {
            return self.locked.pop();
        };
        let from_ring = || rings.pop(cx.random(rings.shards()));
        // At random: if neither ever becomes empty, neither may wait for the other.
        if cx.random(2) == 0 {
            self.locked.pop().or_else(from_ring)
        } else {
            from_ring().or_else(|| self.locked.pop())
        }
    }

    /// Takes up to `most` of the oldest tasks.
    pub(super) fn pop_batch(&self, most: usize, cx: &Cx<'_>) -> Vec<TaskRef> {
        let mut batch = Vec::with_capacity(most);
        let Some(rings) = &self.rings else {
            self.locked.pop_batch(&mut batch, most);
            return batch;
        };
        // At random, as above.
        let locked_first = cx.random(2) == 0;
        if locked_first {
            self.locked.pop_batch(&mut batch, most);
        }
        let start = cx.random(rings.shards());
        let rest = most - batch.len();
        batch.extend(std::iter::from_fn(|| rings.pop(start)).take(rest));
        if !locked_first {
            let rest = most - batch.len();
            self.locked.pop_batch(&mut batch, rest);
        }
        batch
    }

    /// Takes one of the oldest tasks, and the worker's share of the others into its local queue, behind the
    /// tasks that are there. So one lock serves many tasks. Where all workers are busy, what comes from
    /// outside waits about as long as a worker's own tasks. Taken one at a time it would wait for longer and
    /// longer, because a busy worker comes here once in many tasks. `put_back` is called after some of them
    /// found no room there and were put back.
    pub(super) fn take_share(
        &self,
        local_queue: &mut impl LocalQueue,
        cx: &Cx<'_>,
        put_back: impl FnOnce(),
    ) -> Option<TaskRef> {
        let waiting = self.len();
        if waiting == 0 {
            return None;
        }
        let first = self.pop(cx)?;
        let share = ((waiting - 1) / cx.workers()).min(local_queue.room() / 2);
        let mut rest = self.pop_batch(share, cx).into_iter();
        while let Some(task) = rest.next() {
            if let Err(Full(task)) = local_queue.push_last(task) {
                self.push_batch(std::iter::once(task).chain(rest));
                put_back();
                break;
            }
        }
        Some(first)
    }

    /// Moves the tasks that are wanted into a vector. All tasks of the lock-free queues are taken out and put
    /// back for it.
    pub(super) fn extract(&self, extracted: &mut Vec<TaskRef>, wanted: &dyn Fn(&TaskRef) -> bool) {
        self.locked.extract(extracted, wanted);
        for ring in self.rings.iter().flat_map(Multi::parts) {
            for _ in 0..ring.len() {
                match ring.try_pop() {
                    Some(task) if wanted(&task) => extracted.push(task),
                    Some(task) => {
                        if let Err(Full(task)) = ring.try_push(task) {
                            self.locked.push(task);
                        }
                    }
                    None => break,
                }
            }
        }
    }

    /// Shows the tasks to a report.
    pub(super) fn show(&self, viewer: &mut QueueViewer) {
        self.locked.for_each(viewer.room(), |task| viewer.see(task));
        for ring in self.rings.iter().flat_map(Multi::parts) {
            ring.peek(viewer.room(), &mut |task| viewer.peek(&task));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.locked.len() + self.rings.as_ref().map_or(0, Multi::len)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.locked.is_empty() && self.rings.as_ref().is_none_or(Multi::is_empty)
    }
}

/// Tries again to add a task to a full local queue, up to a limit.
pub(super) fn retry<L: LocalQueue>(
    local_queue: &mut L,
    mut task: TaskRef,
    times: NonZeroUsize,
    tally: Tally<'_>,
) -> Result<(), Full<TaskRef>> {
    for _ in 0..times.get() {
        spin_loop();
        tally.count(Count::Retries, 1);
        match local_queue.push_last(task) {
            Ok(()) => return Ok(()),
            Err(Full(back)) => task = back,
        }
    }
    Err(Full(task))
}
