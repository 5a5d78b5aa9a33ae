//! [`ThreadPool`]: a pool of its own.

use crate::broadcast::{BroadcastContext, broadcast_in, spawn_broadcast_in};
use crate::entered;
use crate::registry::{Target, User};
use crate::scope::{self, Scope, ScopeFifo, in_place};
use crate::spawn::{spawn_fifo_in, spawn_in};
use crate::yields::{self, Yield};
use std::error::Error;
use std::fmt;

/// A pool of threads. When it is dropped, its threads run what was spawned, and end; the drop does not wait
/// for them.
pub struct ThreadPool {
    registry: User,
}

impl ThreadPool {
    pub(crate) fn new_of(registry: User) -> Self {
        Self { registry }
    }

    /// The former name of [`ThreadPoolBuilder::build`](crate::ThreadPoolBuilder::build).
    #[deprecated(note = "Use `ThreadPoolBuilder::build`")]
    #[allow(deprecated, reason = "the original still has it")]
    pub fn new(configuration: crate::Configuration) -> Result<ThreadPool, Box<dyn Error>> {
        configuration.build()
    }

    fn target(&self) -> Target<'_> {
        Target::of(&self.registry)
    }

    /// Runs `op` in the pool and waits for it. In `op`, `join`, `scope` and parallel iterators use this pool.
    /// On a thread of the pool `op` is called at once.
    ///
    /// # Panics
    ///
    /// If `op` does.
    pub fn install<OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce() -> R + Send,
        R: Send,
    {
        self.registry.install(|_| op())
    }

    /// As [`broadcast`](crate::broadcast()), on this pool.
    pub fn broadcast<OP, R>(&self, op: OP) -> Vec<R>
    where
        OP: Fn(BroadcastContext<'_>) -> R + Sync,
        R: Send,
    {
        broadcast_in(&self.target(), &op)
    }

    /// Returns the number of the pool's threads.
    pub fn current_num_threads(&self) -> usize {
        self.registry.num_threads()
    }

    /// As [`current_thread_index`](crate::current_thread_index); `None` on a thread of another pool.
    pub fn current_thread_index(&self) -> Option<usize> {
        warpweft::Pool::current_worker().filter(|_| self.registry.is_here())
    }

    /// As [`current_thread_has_pending_tasks`](crate::current_thread_has_pending_tasks); `None` on a thread
    /// of another pool.
    pub fn current_thread_has_pending_tasks(&self) -> Option<bool> {
        if !self.registry.is_here() {
            return None;
        }
        crate::current_thread_has_pending_tasks()
    }

    /// As [`join`](crate::join()), in this pool.
    pub fn join<A, B, RA, RB>(&self, oper_a: A, oper_b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        self.registry.install(|cx| cx.join(|_| oper_a(), |_| oper_b()))
    }

    /// As [`scope`](crate::scope()), in this pool.
    pub fn scope<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R + Send,
        R: Send,
    {
        self.install(|| scope::scope(op))
    }

    /// As [`scope_fifo`](crate::scope_fifo), in this pool.
    pub fn scope_fifo<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
        R: Send,
    {
        self.install(|| scope::scope_fifo(op))
    }

    /// As [`in_place_scope`](crate::in_place_scope); its closures run in this pool.
    pub fn in_place_scope<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R,
    {
        in_place(&self.target(), op)
    }

    /// As [`in_place_scope_fifo`](crate::in_place_scope_fifo); its closures run in this pool.
    pub fn in_place_scope_fifo<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R,
    {
        in_place(&self.target(), |scope| op(&ScopeFifo::new(scope)))
    }

    /// As [`spawn`](crate::spawn()), in this pool.
    pub fn spawn<OP>(&self, op: OP)
    where
        OP: FnOnce() + Send + 'static,
    {
        spawn_in(&self.target(), op);
    }

    /// As [`spawn_fifo`](crate::spawn_fifo), in this pool.
    pub fn spawn_fifo<OP>(&self, op: OP)
    where
        OP: FnOnce() + Send + 'static,
    {
        spawn_fifo_in(&self.target(), op);
    }

    /// As [`spawn_broadcast`](crate::spawn_broadcast), in this pool.
    pub fn spawn_broadcast<OP>(&self, op: OP)
    where
        OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
    {
        spawn_broadcast_in(&self.target(), op);
    }

    /// As [`yield_now`](crate::yield_now); `None` on a thread of another pool.
    pub fn yield_now(&self) -> Option<Yield> {
        self.registry.is_here().then(yields::yield_now).flatten()
    }

    /// As [`yield_local`](crate::yield_local); `None` on a thread of another pool.
    pub fn yield_local(&self) -> Option<Yield> {
        self.registry.is_here().then(yields::yield_local).flatten()
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        entered::leave(&self.registry);
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool")
            .field("num_threads", &self.current_num_threads())
            .finish_non_exhaustive()
    }
}
