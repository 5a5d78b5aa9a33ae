//! Which worker this thread carries, or which pool it has chosen while it blocks on a future.

use std::cell::Cell;
use std::ptr::NonNull;
use warpweft_platform::thread_word;
use warpweft_task::pool::PoolHeader;
use warpweft_task::{TaskRef, Why, set_worker_thread};

/// What free functions know of the place where they are called, whatever the policy: a worker, whose first field it is,
/// or a visitor of a pool.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Front {
    pub(crate) pool: NonNull<PoolHeader>,
    pub(crate) ops: &'static FrontOps,
    /// Whether this is a worker.
    pub(crate) is_worker: bool,
    /// The running task gave way of its own accord.
    pub(crate) yielding: Cell<bool>,
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
}

impl Front {
    pub(crate) fn new(pool: NonNull<PoolHeader>, ops: &'static FrontOps, is_worker: bool) -> Self {
        Self {
            pool,
            ops,
            is_worker,
            yielding: Cell::new(false),
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
}

thread_word!(static CURRENT: *const Front = std::ptr::null());

fn is_current(front: &Front) -> bool {
    CURRENT.with(|current| std::ptr::eq(current.get(), front))
}

/// Makes `front` what this thread's free functions find, for as long as the value lives.
#[derive(Debug)]
pub(crate) struct Carry<'a> {
    front: &'a Front,
    before: *const Front,
}

impl<'a> Carry<'a> {
    /// # Safety
    ///
    /// No other thread carries the worker of `front` meanwhile; a visitor's pool stays alive. The value is dropped on
    /// this thread, in reverse order of several, and not leaked.
    pub(crate) unsafe fn new(front: &'a Front) -> Self {
        let before = CURRENT.with(|current| current.replace(front));
        if front.is_worker {
            set_worker_thread(true);
        }
        Self { front, before }
    }
}

impl Drop for Carry<'_> {
    fn drop(&mut self) {
        debug_assert!(is_current(self.front));
        CURRENT.with(|current| current.set(self.before));
        if self.front.is_worker {
            set_worker_thread(false);
        }
    }
}

/// Calls `f` with the worker that this thread carries, or the pool that it visits, if any.
#[inline]
pub(crate) fn with_current<R>(f: impl FnOnce(Option<&Front>) -> R) -> R {
    let current = CURRENT.with(Cell::get);
    // SAFETY: the pointer is null, or a `Carry` of this thread set it, whose borrow of the front is still alive: it
    // resets the pointer when it goes.
    f(unsafe { current.as_ref() })
}
