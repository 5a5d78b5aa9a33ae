//! What a task knows of its pool: a header with a table of functions.
//!
//! A pool is one type per policy; a task is one type per closure or future. Two tables, one for each side,
//! let N kinds of task and M policies meet with N + M instances instead of N × M.

use crate::header::Header;
use crate::runnable::Runnable;
use crate::why::Why;
use std::ptr::NonNull;

/// The first field of every pool. `repr(C)` pools start with it, so that a pointer to it is a pointer to the
/// pool.
#[derive(Debug)]
pub struct PoolHeader {
    /// What this kind of pool does.
    pub vtable: &'static PoolVtable,
}

/// What a pool can be asked to do by whoever has only its header.
#[derive(Debug)]
pub struct PoolVtable {
    /// Puts a runnable task where the pool's policy wants it. Called on any thread.
    ///
    /// # Safety
    ///
    /// The header belongs to a pool of this table. It is alive: the task is unfinished, and the pool outlives
    /// its unfinished tasks.
    pub push: unsafe fn(NonNull<PoolHeader>, Runnable, Why),
    /// The same as `push` with [`Why::Woken`], which is by far the most frequent reason: it need not be asked
    /// for.
    ///
    /// # Safety
    ///
    /// As for `push`.
    pub woken: unsafe fn(NonNull<PoolHeader>, Runnable),
    /// Takes a token that a policy dropped instead of handing it out: the pool counts it as out of its
    /// policy's hands, and cancels the task when no policy code is on the stack.
    ///
    /// # Safety
    ///
    /// The header belongs to a pool of this table, whose memory is there; the pool may have ended. It has
    /// handed the task to its policy by [`Runnable::into_task_ref`].
    pub dropped: unsafe fn(NonNull<PoolHeader>, Runnable),
    /// Strikes a task that has ended off the register of those that were once suspended.
    ///
    /// # Safety
    ///
    /// As for `push`; `place` is what registering the task gave, and it is still registered.
    pub unregister: unsafe fn(NonNull<PoolHeader>, NonNull<Header>, place: usize),
}
