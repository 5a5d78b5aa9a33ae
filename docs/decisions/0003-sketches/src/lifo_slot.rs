//! A LIFO slot in front of a FIFO queue, as in tokio; but a slot that nobody empties can be stolen.
//!
//! The slot is for what the running task wakes or spawns: it will find its data in the cache. A limit of three in a
//! row keeps two tasks that wake each other from starving the queue. tokio's slot is private to its worker, and
//! strands its task when the worker blocks (tokio#4730); here a thief takes it on the second look.
//!
//! Simplified: tokio tunes the interval at which it looks at the injector by itself; a policy can do that in `next`.
//!
//! What the trait gives: `Why` tells a yield, which must not go to the slot, from a wake, which should.

use warpweft_policy::{Cx, Policy, PolicyError, PoolEnv, TaskRef, Wake, Why};
use warpweft_queue::{Amount, Fifo, FifoThief, Full, Glance, Locked, Owner, Steal, Thief};

/// How often in a row the slot may go before the queue.
const LIMIT: u32 = 3;

/// The policy: the capacity of a worker's queue.
pub struct LifoSlot(
    /// In tasks.
    pub usize,
);

/// What thieves see.
pub struct Shared {
    slots: Box<[FifoThief<TaskRef>]>,
    queues: Box<[FifoThief<TaskRef>]>,
    injector: Locked<TaskRef>,
}

/// A worker's slot and queue.
pub struct Local {
    /// Holds one task at most: whoever pushes takes the old one out.
    slot: Fifo<TaskRef>,
    queue: Fifo<TaskRef>,
    in_a_row: u32,
    /// What each slot looked like at the last search.
    seen: Box<[Option<Glance>]>,
}

impl Policy for LifoSlot {
    type Shared = Shared;
    type Local = Local;

    fn build(&self, env: &PoolEnv) -> Result<(Shared, Vec<Local>), PolicyError> {
        let mut locals = Vec::new();
        for _ in 0..env.workers {
            let (slot, queue) = (Fifo::with_capacity(2)?, Fifo::with_capacity(self.0)?);
            locals.push(Local {
                slot,
                queue,
                in_a_row: 0,
                seen: vec![None; env.workers].into(),
            });
        }
        let shared = Shared {
            slots: locals.iter().map(|local: &Local| local.slot.thief()).collect(),
            queues: locals.iter().map(|local| local.queue.thief()).collect(),
            injector: Locked::new(),
        };
        Ok((shared, locals))
    }

    fn push(shared: &Shared, local: Option<&mut Local>, task: TaskRef, why: Why, _: &Cx<'_>) -> Wake {
        let Some(local) = local else {
            shared.injector.push(task);
            return Wake::Any;
        };
        // Out of the slot goes what is in it. A yielded task goes to the queue at once; so does one that finds the slot
        // taken, by a thief that has claimed the last task but not yet carried it away.
        let (displaced, homeless) = if why == Why::Yielded {
            (None, Some(task))
        } else {
            (
                local.slot.pop(),
                local.slot.push(task).err().map(|Full(task)| task),
            )
        };
        for task in displaced.into_iter().chain(homeless) {
            if let Err(Full(task)) = local.queue.push(task) {
                shared.injector.push(task);
            }
        }
        Wake::Any
    }

    fn next(_: &Shared, local: &mut Local, _: &Cx<'_>) -> Option<TaskRef> {
        if local.in_a_row < LIMIT
            && let Some(task) = local.slot.pop()
        {
            local.in_a_row += 1;
            return Some(task);
        }
        local.in_a_row = 0;
        local.queue.pop().or_else(|| local.slot.pop())
    }

    fn overdue(shared: &Shared, _: &mut Local, _: &Cx<'_>) -> Option<TaskRef> {
        shared.injector.pop()
    }

    fn search(shared: &Shared, local: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        let workers = cx.workers();
        let first = cx.random(workers);
        (first..workers).chain(0..first).find_map(|victim| {
            let queue = shared.queues[victim]
                .steal_into(&mut local.queue, Amount::Half)
                .taken();
            queue.or_else(|| {
                let now = Some(shared.slots[victim].glance());
                let old = std::mem::replace(&mut local.seen[victim], now) == now;
                if old {
                    shared.slots[victim].steal_one().taken()
                } else {
                    None
                }
            })
        })
    }

    fn scan(shared: &Shared, _: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        let take = |queue: &FifoThief<TaskRef>| loop {
            match queue.steal_one() {
                Steal::Taken { first, .. } => return Some(first),
                Steal::Empty | Steal::Few(_) => return None,
                Steal::Lost => cx.pause(),
            }
        };
        shared
            .injector
            .pop()
            .or_else(|| shared.queues.iter().chain(&shared.slots).find_map(take))
    }
}
