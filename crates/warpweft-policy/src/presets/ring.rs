//! The ring of Go and tokio: 256 tasks; when it is full, its older half goes to a locked queue.

use crate::{Count, Cx};
use warpweft_queue::{Amount, CapacityError, Fifo, FifoThief, Full, Locked, Owner, Steal, Thief};
use warpweft_task::TaskRef;

/// The capacity of a ring, in tasks. The model checkers get rings that are soon full.
pub(super) const RING: usize = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    2
} else {
    256
};

#[inline]
pub(super) fn make() -> Result<Fifo<TaskRef>, CapacityError> {
    Fifo::with_capacity(RING)
}

/// Pushes to the back of the ring. A full ring gives its older half, and then this task, to the queue of the
/// pool.
#[inline]
pub(super) fn push(ring: &mut Fifo<TaskRef>, overflow: &Locked<TaskRef>, task: TaskRef, cx: &Cx<'_>) {
    if let Err(Full(task)) = ring.push(task) {
        push_half(ring, overflow, task, cx);
    }
}

#[cold]
#[inline]
fn push_half(ring: &mut Fifo<TaskRef>, overflow: &Locked<TaskRef>, task: TaskRef, cx: &Cx<'_>) {
    let half: Vec<_> = std::iter::from_fn(|| ring.pop()).take(RING / 2).collect();
    cx.count(Count::Overflowed, half.len() as u64 + 1);
    overflow.push_batch(half.into_iter().chain([task]));
}

/// Takes the oldest task of the pool's queue. An empty ring also gets a fair share of the others, half a ring
/// at most. Another ring gets none: they might overflow again, behind newer ones, forever.
#[inline]
pub(super) fn refill(ring: &mut Fifo<TaskRef>, global: &Locked<TaskRef>, cx: &Cx<'_>) -> Option<TaskRef> {
    let first = global.pop()?;
    if ring.is_empty() {
        let mut share = Vec::new();
        global.pop_batch(&mut share, (global.len() / cx.workers()).min(RING / 2));
        for task in share {
            push(ring, global, task, cx);
        }
    }
    Some(first)
}

/// Takes half of another worker's ring, unless it is empty, and returns the first of these tasks.
#[inline]
pub(super) fn steal_half(
    victim: &FifoThief<TaskRef>,
    ring: &mut Fifo<TaskRef>,
    cx: &Cx<'_>,
) -> Option<TaskRef> {
    if victim.glance().len == 0 {
        return None;
    }
    cx.count(Count::StealAttempts, 1);
    let stolen = victim.steal_into(ring, Amount::Half).taken();
    cx.count(Count::Steals, u64::from(stolen.is_some()));
    stolen
}

/// Takes one task; `None` only if there is none for certain.
#[inline]
pub(super) fn take_one(ring: &FifoThief<TaskRef>, cx: &Cx<'_>) -> Option<TaskRef> {
    loop {
        match ring.steal_one() {
            Steal::Taken { first, .. } => return Some(first),
            Steal::Empty | Steal::Few(_) => return None,
            // Another thread took something: it is not known to be empty.
            Steal::Lost => cx.pause(),
        }
    }
}
