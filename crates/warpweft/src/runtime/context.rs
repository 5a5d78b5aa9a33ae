//! What free functions find on this thread: the worker that it carries, or the pool that it visits.

use super::handle::default_runtime;
use super::pool::AnyPool;
use super::seat;
use crate::compose::Wish;
use crate::io::Driver;
use std::cell::Cell;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use warpweft_platform::thread_word;
use warpweft_policy::{Counters, YieldTo};
use warpweft_task::pool::PoolHeader;
use warpweft_task::{TaskRef, Why};

/// What free functions know of the place where they are called, whatever the policy: a worker, whose first field it is,
/// or a visitor of a pool.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Front {
    pub(crate) pool: NonNull<PoolHeader>,
    pub(crate) ops: &'static FrontOps,
    /// The number of the worker; a visitor has none.
    pub(crate) worker: Option<usize>,
    /// Whether the running task gave way of its own accord.
    pub(crate) yielding: Cell<GaveWay>,
    /// A hook of the policy is on the stack of the thread that carries the worker.
    pub(crate) in_policy: Cell<bool>,
    /// Where the running task wants to go on.
    pub(crate) wish: Wish,
    /// Of the worker.
    pub(crate) counters: Counters,
}

/// Whether a task gave way, and where it wants to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GaveWay {
    No,
    /// Where the policy wants it.
    AsUsual,
    To(YieldTo),
}

/// What a worker can be asked to do by its own thread, and a visitor by its.
#[derive(Debug)]
pub(crate) struct FrontOps {
    /// Puts a runnable task where the policy wants it.
    ///
    /// # Safety
    ///
    /// The front is a worker's of this table, and the calling thread carries that worker.
    pub(crate) push: unsafe fn(&Front, TaskRef, Why),
    /// Whether the policy says that nothing else is ready for this worker.
    ///
    /// # Safety
    ///
    /// As for `push`.
    pub(crate) alone: unsafe fn(&Front) -> bool,
    /// Runs one task, if there is one.
    ///
    /// # Safety
    ///
    /// As for `push`.
    pub(crate) step: unsafe fn(&Front) -> bool,
    /// The driver of the pool.
    ///
    /// # Safety
    ///
    /// The front is of this table, and its pool is alive.
    pub(crate) driver: unsafe fn(&Front) -> io::Result<Arc<Driver>>,
    /// The pool, for who wants to keep it.
    ///
    /// # Safety
    ///
    /// As for `driver`.
    pub(crate) keep: unsafe fn(&Front) -> Arc<dyn AnyPool>,
}

impl Front {
    pub(crate) fn new(pool: NonNull<PoolHeader>, ops: &'static FrontOps, worker: Option<usize>) -> Self {
        Self {
            pool,
            ops,
            worker,
            yielding: Cell::new(GaveWay::No),
            in_policy: Cell::new(false),
            wish: Wish::default(),
            counters: Counters::default(),
        }
    }

    pub(crate) fn push(&self, task: TaskRef, why: Why) {
        debug_assert!(is_current(self));
        // SAFETY: fronts are reached through `with_current` only, so the calling thread carries the worker.
        unsafe { (self.ops.push)(self, task, why) };
    }

    pub(crate) fn alone(&self) -> bool {
        debug_assert!(is_current(self));
        // SAFETY: as above.
        unsafe { (self.ops.alone)(self) }
    }

    pub(crate) fn step(&self) -> bool {
        debug_assert!(is_current(self));
        // SAFETY: as above.
        unsafe { (self.ops.step)(self) }
    }

    pub(crate) fn driver(&self) -> io::Result<Arc<Driver>> {
        debug_assert!(is_current(self));
        // SAFETY: fronts are reached through `with_current` only, which finds those of living pools.
        unsafe { (self.ops.driver)(self) }
    }

    /// The pool.
    pub(crate) fn keep(&self) -> Arc<dyn AnyPool> {
        debug_assert!(is_current(self));
        // SAFETY: fronts are reached through `with_current` only, which finds those of pools that are alive.
        unsafe { (self.ops.keep)(self) }
    }
}

thread_word!(static CURRENT: *const Front = std::ptr::null());

fn is_current(front: &Front) -> bool {
    is(front)
}

/// Whether that is what free functions find here.
#[inline]
pub(crate) fn is(front: *const Front) -> bool {
    std::ptr::eq(get(), front)
}

/// What free functions find here.
#[inline]
pub(crate) fn get() -> *const Front {
    CURRENT.with(Cell::get)
}

/// Makes it what free functions find here. It stays alive until the next call.
#[inline]
pub(crate) fn set(front: *const Front) {
    CURRENT.with(|current| current.set(front));
}

/// A thread visits a pool: free functions find it for as long as the value lives.
#[derive(Debug)]
pub(crate) struct Visiting<'a> {
    front: &'a Front,
    /// The visit in which this one began; `None` if there was none.
    before: Option<*const Front>,
}

impl<'a> Visiting<'a> {
    /// # Safety
    ///
    /// The visitor's pool stays alive. The value is dropped on this thread, in reverse order of several, and not leaked.
    pub(crate) unsafe fn new(front: &'a Front) -> Self {
        let before = get();
        let visited = before != seat::found_here();
        set(front);
        Self {
            front,
            before: visited.then_some(before),
        }
    }
}

impl Drop for Visiting<'_> {
    fn drop(&mut self) {
        debug_assert!(is_current(self.front));
        // The thread may carry another worker than when the visit began: it waited.
        set(self.before.unwrap_or_else(seat::found_here));
    }
}

/// The driver of the pool that this thread works for or visits, and the number of its worker; outside of any, of the default
/// runtime.
///
/// # Errors
///
/// The pool is shutting down, this is a forked child, or the system gives no poller.
pub(crate) fn current_driver() -> io::Result<(Arc<Driver>, Option<usize>)> {
    let (driver, worker) = with_current(|front| match front {
        Some(front) => Ok::<_, io::Error>((front.driver()?, front.worker)),
        None => Ok((default_runtime().driver()?, None)),
    })?;
    driver.check()?;
    Ok((driver, worker))
}

/// Calls `f` with the worker that this thread carries, or the pool that it visits, if any.
#[inline]
pub(crate) fn with_current<R>(f: impl FnOnce(Option<&Front>) -> R) -> R {
    // SAFETY: null; or of a visit of this thread, whose borrow of the front is still alive; or of its seat's pool, which
    // the seat keeps alive.
    f(unsafe { get().as_ref() })
}
