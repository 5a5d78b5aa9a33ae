//! Spawning in order: closures that begin as they were spawned, under any policy.

use super::task_builder::TaskBuilder;
use crate::execution::token::{inherited, start_or_drop, with_token};

/// Spawns a closure without a handle, on the pool of the calling task, or outside of any pool on the [default
/// runtime](crate::default_runtime). The closures that are spawned by this function on one pool **begin in
/// the order in which they were spawned**, whatever the order of its policy is. With several workers, the
/// earlier ones may not have ended by then. [`scope_fifo`](crate::scope_fifo) is the same with borrows.
///
/// Each is put into a queue of the pool, and a task is pushed that takes the oldest one of them. So reports
/// may name the spawn site of another such closure. **A priority is the task's, not the closure's**: it
/// counts for the position of the task among the others of the pool, and the task then runs the oldest
/// closure, whatever priority that one was spawned with. An urgent one makes the oldest one begin sooner, and
/// begins after all that were spawned before it. Costs two allocations and takes a lock of the pool twice:
/// the closures should take microseconds.
///
/// ```
/// use warpweft::{PolicySpec, Runtime, spawn_fifo};
/// let runtime = Runtime::builder().workers(1).policy_spec("lifo".parse::<PolicySpec>()?).build()?;
/// let (send, order) = std::sync::mpsc::channel();
/// runtime.spawn_detached(move || {
///     for n in 0..3 {
///         let send = send.clone();
///         spawn_fifo(move || drop(send.send(n)));
///     }
/// });
/// assert_eq!(order.iter().collect::<Vec<_>>(), [0, 1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
///
/// Outside of any pool, if the default runtime cannot be built.
#[track_caller]
pub fn spawn_fifo<F>(job: F)
where
    F: FnOnce() + Send + 'static,
{
    TaskBuilder::new().spawn_fifo(job);
}

impl TaskBuilder<'_> {
    /// Spawns a closure without a handle that begins after those that were spawned so before it on this pool:
    /// see the free [`spawn_fifo`](crate::spawn_fifo).
    ///
    /// If the pool is shutting down, a closure is dropped.
    ///
    /// # Panics
    ///
    /// As [`spawn`](crate::spawn).
    pub fn spawn_fifo<F>(self, job: F)
    where
        F: FnOnce() + Send + 'static,
    {
        let pool = self.pool_or_here();
        if pool.any().is_in_forked_child() {
            // The lock of the queue may be lost.
            return;
        }
        let node = inherited();
        let job: Box<dyn FnOnce() + Send> = match node {
            Some(node) => Box::new(move || start_or_drop(&node, job)),
            None => Box::new(job),
        };
        let claim = pool.any().core().in_order.enter(job);
        // Under no token: the task runs another closure than its own.
        with_token(None, || {
            self.spawn_detached(move || {
                let (job, queue) = claim.take();
                // A closure that is long must not keep the pool's queue.
                drop(queue);
                job();
            });
        });
    }
}
