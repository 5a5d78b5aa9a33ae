//! `broadcast`: a closure that runs once on each thread.

use crate::global::{self, with_target};
use crate::registry::Target;
use crate::spawn::guarded;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use warpweft::{SpawnError, TaskBuilder};

/// Runs a closure once on each thread of the current pool, or else of the global one, and waits for all. A
/// busy thread runs it when its queue is empty, or after 61 other closures. Returns the results in the order
/// of the indices.
///
/// # Panics
///
/// If one of the calls panics, when all have ended.
pub fn broadcast<OP, R>(op: OP) -> Vec<R>
where
    OP: Fn(BroadcastContext<'_>) -> R + Sync,
    R: Send,
{
    with_target(|target| broadcast_in(&target, &op))
}

/// As [`broadcast`], but does not wait.
///
/// # Panics
///
/// Panics of the calls are handled as those of [`spawn`](crate::spawn()).
pub fn spawn_broadcast<OP>(op: OP)
where
    OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
{
    with_target(|target| spawn_broadcast_in(&target, op));
}

/// Tells the closure of a broadcast which of its calls this is.
pub struct BroadcastContext<'a> {
    index: usize,
    num_threads: usize,
    /// Not `Send`, as the original.
    thread: PhantomData<&'a mut dyn Fn()>,
}

impl BroadcastContext<'_> {
    pub(crate) fn new(index: usize, num_threads: usize) -> Self {
        Self {
            index,
            num_threads,
            thread: PhantomData,
        }
    }

    /// Returns the index of the thread.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the number of threads, and so of calls.
    pub fn num_threads(&self) -> usize {
        self.num_threads
    }
}

impl fmt::Debug for BroadcastContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroadcastContext")
            .field("index", &self.index)
            .field("num_threads", &self.num_threads)
            .finish_non_exhaustive()
    }
}

pub(crate) fn broadcast_in<R: Send>(
    target: &Target<'_>,
    op: &(impl Fn(BroadcastContext<'_>) -> R + Sync),
) -> Vec<R> {
    let num_threads = target.pool.workers();
    match target
        .pool
        .broadcast(|index| op(BroadcastContext::new(index, num_threads)))
    {
        Ok(results) => results,
        // The runtime of a task ends.
        Err(SpawnError::Closed) if target.registry.is_none() => broadcast_in(&Target::of(global::get()), op),
        Err(error) => panic!("a thread pool cannot run a broadcast: {error}"),
    }
}

pub(crate) fn spawn_broadcast_in(
    target: &Target<'_>,
    op: impl Fn(BroadcastContext<'_>) + Send + Sync + 'static,
) {
    let target = &target.open();
    let num_threads = target.pool.workers();
    let op = Arc::new(op);
    for index in 0..num_threads {
        let op = Arc::clone(&op);
        let job = guarded(target, move || op(BroadcastContext::new(index, num_threads)));
        // As a closure of `spawn`.
        warpweft::cancel::detached(|| {
            TaskBuilder::new()
                .on_pool(target.pool)
                .spawn_pinned(index, job)
                .detach();
        });
    }
}
