//! The header: the part of a task that is the same for every kind of task.
//!
//! ```text
//!   one allocation
//!  ┌───────┬────────┬──────┬────────┬────────┬──────┬───────────────┬────────────────────────────┐
//!  │ state │ vtable │ pool │ policy │ origin │ link │ joiner's waker│ closure or future ─▶ result│
//!  └───────┴────────┴──────┴────────┴────────┴──────┴───────────────┴────────────────────────────┘
//!    8       8        8      8        8        8      16              as large as the larger one
//! ```
//!
//! # Who may touch what
//!
//! | field | who |
//! |---|---|
//! | `state` | everyone who has a reference |
//! | `vtable`, `origin` | everyone; never changes |
//! | `pool` | the token's holder changes it, and only while RUNNING; read by whoever made the task QUEUED, and in a forked child by the handle |
//! | `policy`, `link` before the end | the token's holder |
//! | `link` after the end | the handle |
//! | `waker` | see `state`: the handle while WAKER is clear, then whoever completes over it |
//! | closure, future | the token's holder |
//! | result | the token's holder until COMPLETE; then the handle, or the token's holder if there is none |

use crate::origin::Origin;
use crate::pool::PoolHeader;
use crate::state::State;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::task::Waker;
use warpweft_platform::cell::UnsafeCell;
#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
use warpweft_platform::{
    atomic::{AtomicPtr, Ordering},
    process,
};

/// The common front of every task. Opaque: a pool handles it by pointer only.
#[derive(Debug)]
#[repr(C)]
pub struct Header {
    pub(crate) state: State,
    pub(crate) vtable: &'static TaskVtable,
    pub(crate) pool: UnsafeCell<NonNull<PoolHeader>>,
    /// One word that belongs to the policy: a deque, a preferred worker, a priority.
    pub(crate) policy: UnsafeCell<u64>,
    pub(crate) origin: Origin,
    /// Before the end: the place in the pool's register, or [`UNREGISTERED`]. After it: how the task ended.
    pub(crate) link: UnsafeCell<usize>,
    pub(crate) waker: UnsafeCell<MaybeUninit<Waker>>,
}

impl Header {
    /// The task belongs to that pool from now on.
    ///
    /// # Safety
    ///
    /// The caller holds the token of the task, which is RUNNING.
    pub(crate) unsafe fn set_pool(&self, pool: NonNull<PoolHeader>) {
        self.pool.with_mut(|place| {
            #[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
            // SAFETY: the place is there. Atomic, as a handle may look meanwhile; by contract nobody else
            // writes.
            unsafe { AtomicPtr::from_ptr(place.cast()) }.store(pool.as_ptr(), Ordering::Relaxed);
            #[cfg(any(warpweft_loom, warpweft_shuttle))]
            // SAFETY: by contract nobody else reads or writes it. A model does not fork, so no handle looks.
            unsafe {
                *place = pool;
            }
        });
    }

    /// Whether this is a forked child and the task's pool stayed in the parent. For whoever has a reference
    /// to a task that has not ended.
    #[cold]
    pub(crate) fn stayed_in_parent(&self) -> bool {
        #[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
        return self.pool.with(|place| {
            // SAFETY: the place is there, and while others may look it is written by `set_pool` alone.
            let pool = unsafe { AtomicPtr::<PoolHeader>::from_ptr(place.cast_mut().cast()) };
            process::stayed_in_parent(pool.load(Ordering::Relaxed).addr())
        });
        #[cfg(any(warpweft_loom, warpweft_shuttle))]
        false
    }
}

/// `link` of a task that has never been suspended.
pub(crate) const UNREGISTERED: usize = usize::MAX;

/// What a kind of task can do. One static table per closure or future type.
#[derive(Debug)]
pub(crate) struct TaskVtable {
    /// Runs one step. The token is consumed, unless the task is pending: then the caller still holds it.
    ///
    /// # Safety
    ///
    /// The caller holds the token, and the task is RUNNING.
    pub(crate) step: unsafe fn(NonNull<Header>) -> Step,
    /// Ends the task without running it: drops the closure or future and completes with `outcome`. Consumes
    /// the token.
    ///
    /// # Safety
    ///
    /// The caller holds the token.
    pub(crate) abandon: unsafe fn(NonNull<Header>, outcome: usize),
    /// Moves the result into `*mut Result<T, JoinError>`.
    ///
    /// # Safety
    ///
    /// The task is complete, the caller is its handle, the result was not taken, and the pointer is valid for
    /// a write of that type.
    pub(crate) take: unsafe fn(NonNull<Header>, *mut ()),
    /// Drops the result where it lies.
    ///
    /// # Safety
    ///
    /// The result is there, the caller owns it, and nobody takes or drops it again.
    pub(crate) drop_result: unsafe fn(NonNull<Header>),
    /// Frees the allocation.
    ///
    /// # Safety
    ///
    /// The caller had the last reference; work and result are gone.
    pub(crate) free: unsafe fn(NonNull<Header>),
}

/// What one step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The task has ended and the token is gone: it may be freed already.
    Ended,
    /// The future is pending; the caller still holds the token.
    Pending,
}
