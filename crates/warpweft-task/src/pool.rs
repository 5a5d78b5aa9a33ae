//! A task's view of its pool: a header with a table of functions.
//!
//! A pool is one type per policy; a task is one type per closure or future. Each side has a table of
//! functions. So N kinds of task and M policies meet with N + M instances instead of N × M.

use crate::header::Header;
use crate::runnable::Runnable;
use crate::task_panic::TaskPanic;
use crate::why::Why;
use std::ptr::NonNull;
use warpweft_platform::counter::Replaceable;

/// The first field of every pool. Pools are `repr(C)`, so a pointer to this header is a pointer to the pool.
#[derive(Debug)]
pub struct PoolHeader {
    vtable: Replaceable<PoolVtable>,
}

impl PoolHeader {
    /// Makes the header of a pool with that table.
    #[must_use]
    pub const fn new(vtable: &'static PoolVtable) -> Self {
        Self {
            vtable: Replaceable::new(vtable),
        }
    }

    /// Returns the operations of this kind of pool. Costs one load.
    #[inline]
    #[must_use]
    pub fn vtable(&self) -> &'static PoolVtable {
        self.vtable.get()
    }

    /// Exchanges the table for another one of the same kind of pool. Threads that are in a call finish it by
    /// the old one.
    ///
    /// # Safety
    ///
    /// All functions of the table are for the type of pool that this header belongs to.
    pub unsafe fn set_vtable(&self, vtable: &'static PoolVtable) {
        self.vtable.set(vtable);
    }
}

/// The operations of a pool that code can call when it has only the pool's header.
#[derive(Debug)]
pub struct PoolVtable {
    /// Puts a ready task where the pool's policy wants it. Any thread may call it.
    ///
    /// # Safety
    ///
    /// The header belongs to a pool of this table. The pool is alive: the task is unfinished, and a pool
    /// outlives its unfinished tasks.
    pub push: unsafe fn(NonNull<PoolHeader>, Runnable, Why),
    /// Does the same as `push` with [`Why::Woken`]. That reason is by far the most frequent, so it has an
    /// entry without a test for the reason.
    ///
    /// # Safety
    ///
    /// As for `push`.
    pub woken: unsafe fn(NonNull<PoolHeader>, Runnable),
    /// Takes a task that a policy dropped instead of handing out. The pool no longer counts it as held by its
    /// policy, and cancels it when no policy code is on the stack.
    ///
    /// # Safety
    ///
    /// The header belongs to a pool of this table, whose memory is still there; the pool may have ended. The
    /// pool has handed the task to its policy by [`Runnable::into_task_ref`].
    pub dropped: unsafe fn(NonNull<PoolHeader>, Runnable),
    /// Reports to the pool that one of its tasks has panicked, on the thread that runs or ends the task,
    /// before its joiner is woken. Returns true if it was reported. Otherwise the panic is written to the
    /// standard error if no joiner gets it.
    ///
    /// It does not unwind.
    ///
    /// # Safety
    ///
    /// As for `push`.
    pub panicked: unsafe fn(NonNull<PoolHeader>, &TaskPanic) -> bool,
    /// Removes an ended task from the set of tasks that were once suspended.
    ///
    /// # Safety
    ///
    /// As for `push`; `place` is the index at which the task was registered, and it is still registered.
    pub unregister: unsafe fn(NonNull<PoolHeader>, NonNull<Header>, place: usize),
}
