//! The scheduler of Go: a ring of 256 per worker, one *run next* slot, one global queue.
//!
//! Simplified: in Go a chain of run-next tasks shares one time slice of 10 ms, after which it goes to the global
//! queue; here `overdue`, by turns with the global queue, lets the ring have its say.
//!
//! What the trait gives: `INTERVAL` is Go's 61, and `overdue` its look at the global queue. A slot that lies in
//! `Shared` can be stolen last, as in Go.

use warpweft_policy::{Cx, Policy, PolicyError, PoolEnv, TaskRef, Wake, Why};
use warpweft_queue::{Amount, Fifo, FifoThief, Full, Locked, Owner, Steal, Thief};

const RING: usize = 256;
/// Times round all victims before a worker gives up; the last time it takes what is next elsewhere, too.
const TRIES: usize = 4;

/// The policy; it has no options.
pub struct Go;

/// What thieves see: the rings, what is next, and the global queue.
pub struct Shared {
    rings: Box<[FifoThief<TaskRef>]>,
    next: Box<[Locked<TaskRef>]>,
    global: Locked<TaskRef>,
}

/// A worker's ring.
pub struct Local {
    me: usize,
    ring: Fifo<TaskRef>,
    turn: u32,
}

impl Local {
    /// At the back of the ring; a full ring gives half of itself to the global queue.
    fn push(&mut self, shared: &Shared, task: TaskRef) {
        if let Err(Full(task)) = self.ring.push(task) {
            let half: Vec<_> = std::iter::from_fn(|| self.ring.pop()).take(RING / 2).collect();
            shared.global.push_batch(half.into_iter().chain([task]));
        }
    }
}

impl Policy for Go {
    type Shared = Shared;
    type Local = Local;

    fn build(&self, env: &PoolEnv) -> Result<(Shared, Vec<Local>), PolicyError> {
        let local = |me| {
            Ok(Local {
                me,
                ring: Fifo::with_capacity(RING)?,
                turn: 0,
            })
        };
        let locals = (0..env.workers)
            .map(local)
            .collect::<Result<Vec<Local>, PolicyError>>()?;
        let shared = Shared {
            rings: locals.iter().map(|local| local.ring.thief()).collect(),
            next: locals.iter().map(|_| Locked::new()).collect(),
            global: Locked::new(),
        };
        Ok((shared, locals))
    }

    fn push(shared: &Shared, local: Option<&mut Local>, task: TaskRef, why: Why, _: &Cx<'_>) -> Wake {
        match local {
            Some(local) if why != Why::Yielded => {
                // What was next until now goes to the ring.
                let before = shared.next[local.me].pop();
                shared.next[local.me].push(task);
                if let Some(task) = before {
                    local.push(shared, task);
                }
            }
            _ => shared.global.push(task),
        }
        Wake::Any
    }

    fn next(shared: &Shared, local: &mut Local, _: &Cx<'_>) -> Option<TaskRef> {
        shared.next[local.me].pop().or_else(|| local.ring.pop())
    }

    fn overdue(shared: &Shared, local: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        local.turn = local.turn.wrapping_add(1);
        if local.turn.is_multiple_of(2)
            && let Some(task) = local.ring.pop()
        {
            return Some(task);
        }
        let task = shared.global.pop()?;
        // To an empty ring comes a fair share of the others, half a ring at most; to any other none: they might be
        // thrown out again, behind newer ones, for ever.
        if local.ring.is_empty() {
            let mut share = Vec::new();
            shared
                .global
                .pop_batch(&mut share, (shared.global.len() / cx.workers()).min(RING / 2));
            share.into_iter().for_each(|task| local.push(shared, task));
        }
        Some(task)
    }

    fn search(shared: &Shared, local: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        let workers = cx.workers();
        let first = cx.random(workers);
        (0..TRIES * workers).find_map(|attempt| {
            let victim = (first + attempt) % workers;
            match shared.rings[victim]
                .steal_into(&mut local.ring, Amount::Half)
                .taken()
            {
                None if attempt >= (TRIES - 1) * workers => shared.next[victim].pop(),
                task => task,
            }
        })
    }

    fn scan(shared: &Shared, _: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        let ring = |ring: &FifoThief<TaskRef>| loop {
            match ring.steal_one() {
                Steal::Taken { first, .. } => return Some(first),
                Steal::Empty | Steal::Few(_) => return None,
                Steal::Lost => cx.pause(),
            }
        };
        let next = || shared.next.iter().find_map(Locked::pop);
        shared
            .global
            .pop()
            .or_else(|| shared.rings.iter().find_map(ring))
            .or_else(next)
    }
}
