//! The header is the part of a task that all kinds of tasks share.
//!
//! ```text
//!   one allocation
//!  ┌───────┬────────┬──────┬────────┬────────┬──────┬────────────────┬────────────────────────────┐
//!  │ state │ vtable │ pool │ policy │ origin │ link │ joiner's waker │ closure or future ─▶ result│
//!  └───────┴────────┴──────┴────────┴────────┴──────┴────────────────┴────────────────────────────┘
//!    8       8        8      8        8        8      16, or nothing   as large as the larger one
//! ```
//!
//! A task that is made without a handle has no place for a joiner's waker. So a closure of two words is a
//! task of one cache line.
//!
//! # Access
//!
//! | field | access |
//! |---|---|
//! | `state` | each holder of a reference |
//! | `vtable`, `origin` | each holder of a reference; they never change |
//! | `pool` | the holder of the runnable changes it, and only while RUNNING; read by the thread that made the task QUEUED, and in a forked child by the handle |
//! | `policy` | the holder of the runnable; as a hint also the handle |
//! | `link` before the end | the holder of the runnable |
//! | `link` after the end | the handle |
//! | `waker` | see `state`: the handle while WAKER is clear, then the thread that completes over it |
//! | closure, future | the holder of the runnable |
//! | result | the holder of the runnable until COMPLETE; then the handle, or the holder of the runnable if there is none |

use crate::origin::Origin;
use crate::pool::PoolHeader;
use crate::state::State;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::task::Waker;
use warpweft_platform::cell::UnsafeCell;
#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
use warpweft_platform::{
    atomic::{AtomicPtr, AtomicU64, Ordering},
    process,
};

/// The header of each task. It is opaque: a pool handles it by pointer only.
#[derive(Debug)]
#[repr(C)]
pub struct Header {
    pub(crate) state: State,
    pub(crate) vtable: &'static TaskVtable,
    pub(crate) pool: UnsafeCell<NonNull<PoolHeader>>,
    /// One word that belongs to the policy: a deque, a preferred worker, a priority.
    pub(crate) policy: UnsafeCell<u64>,
    pub(crate) origin: Origin,
    /// Before the end: the index in the pool's set of suspended tasks, or [`UNREGISTERED`]. After it: the
    /// outcome.
    pub(crate) link: UnsafeCell<usize>,
}

/// The place of the joiner's waker.
pub(crate) type JoinerWaker = UnsafeCell<MaybeUninit<Waker>>;

/// What is behind the header: a place for the joiner's waker if the task is made with a handle, or nothing.
pub(crate) trait JoinerSlot {
    /// True if the task is made with a handle.
    const HAS_HANDLE: bool;

    /// Creates it, without a waker.
    fn vacant() -> Self;
}

impl JoinerSlot for JoinerWaker {
    const HAS_HANDLE: bool = true;

    #[inline]
    fn vacant() -> Self {
        Self::new(MaybeUninit::uninit())
    }
}

impl JoinerSlot for () {
    const HAS_HANDLE: bool = false;

    #[inline]
    fn vacant() {}
}

/// The front of a task that is made with a handle.
#[repr(C)]
struct JoinableHeader {
    header: Header,
    waker: JoinerWaker,
}

/// Where that place is behind the address of a task, in bytes.
#[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
pub(crate) const JOINER_WAKER: usize = std::mem::offset_of!(JoinableHeader, waker);

/// Returns the place of the joiner's waker.
///
/// # Safety
///
/// The task was made with a handle, and is alive for `'a`.
#[inline]
pub(crate) unsafe fn joiner_waker<'a>(header: NonNull<Header>) -> &'a JoinerWaker {
    // SAFETY: by contract the place is behind the header, in the same allocation. The header's pointer is
    // that of the allocation. Only the field's address is taken.
    unsafe { &(*header.cast::<JoinableHeader>().as_ptr()).waker }
}

impl Header {
    /// Moves the task to `pool`.
    ///
    /// # Safety
    ///
    /// The caller holds the runnable of the task, which is RUNNING.
    pub(crate) unsafe fn set_pool(&self, pool: NonNull<PoolHeader>) {
        self.pool.with_mut(|place| {
            #[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
            // SAFETY: the field is valid. The store is atomic because a handle may read the field at the same
            // time. By contract no other thread writes it.
            unsafe { AtomicPtr::from_ptr(place.cast()) }.store(pool.as_ptr(), Ordering::Relaxed);
            #[cfg(any(warpweft_loom, warpweft_shuttle))]
            // SAFETY: by contract no other thread reads or writes the field. A model does not fork, so no
            // handle reads it.
            unsafe {
                *place = pool;
            }
        });
    }

    /// Sets the word of the policy.
    ///
    /// # Safety
    ///
    /// The caller holds the runnable of the task.
    #[inline]
    pub(crate) unsafe fn set_policy(&self, word: u64) {
        self.policy.with_mut(|place| {
            #[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
            // SAFETY: the field is valid. The store is atomic because a handle may read the field at the same
            // time. By contract no other thread writes it.
            unsafe { AtomicU64::from_ptr(place) }.store(word, Ordering::Relaxed);
            #[cfg(any(warpweft_loom, warpweft_shuttle))]
            // SAFETY: by contract no other thread writes the field, and in a model none reads it as a hint.
            unsafe {
                *place = word;
            }
        });
    }

    /// Returns a recent word of the policy, which the holder of the runnable may be about to change. In a
    /// model of threads it is the least urgent one.
    ///
    /// The caller holds a reference.
    pub(crate) fn policy_hint(&self) -> u64 {
        #[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
        return self.policy.with(|place| {
            // SAFETY: the field is valid. While other threads may read it, only `set_policy` writes it.
            unsafe { AtomicU64::from_ptr(place.cast_mut()) }.load(Ordering::Relaxed)
        });
        #[cfg(any(warpweft_loom, warpweft_shuttle))]
        u64::MAX
    }

    /// Returns true if this is a forked child and the task's pool stayed in the parent.
    ///
    /// The caller holds a reference to a task that has not ended.
    #[cold]
    pub(crate) fn stayed_in_parent(&self) -> bool {
        #[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
        return self.pool.with(|place| {
            // SAFETY: the field is valid. While other threads may read it, only `set_pool` writes it.
            let pool = unsafe { AtomicPtr::<PoolHeader>::from_ptr(place.cast_mut().cast()) };
            process::stayed_in_parent(pool.load(Ordering::Relaxed).addr())
        });
        #[cfg(any(warpweft_loom, warpweft_shuttle))]
        false
    }
}

/// `link` of a task that has never been suspended.
pub(crate) const UNREGISTERED: usize = usize::MAX;

/// The operations of one kind of task. There is one static table per closure or future type.
#[derive(Debug)]
pub(crate) struct TaskVtable {
    /// Runs one step. It consumes the runnable unless the task is pending; then the caller still holds it.
    ///
    /// # Safety
    ///
    /// The caller holds the runnable, and the task is RUNNING.
    pub(crate) step: unsafe fn(NonNull<Header>) -> Step,
    /// Ends the task without running it: drops the closure or future and completes with `outcome`. Consumes
    /// the runnable.
    ///
    /// # Safety
    ///
    /// The caller holds the runnable.
    pub(crate) abandon: unsafe fn(NonNull<Header>, outcome: usize),
    /// Moves the result into `*mut Result<T, JoinError>`.
    ///
    /// # Safety
    ///
    /// The task is complete, the caller is its handle, the result was not taken, and the pointer is valid for
    /// a write of that type.
    pub(crate) take: unsafe fn(NonNull<Header>, *mut ()),
    /// Drops the result in place.
    ///
    /// # Safety
    ///
    /// The result is there, the caller owns it, and no other code takes or drops it again.
    pub(crate) drop_result: unsafe fn(NonNull<Header>),
    /// Frees the allocation.
    ///
    /// # Safety
    ///
    /// The caller had the last reference. Work and result are gone.
    pub(crate) free: unsafe fn(NonNull<Header>),
}

/// The outcome of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The task has ended and the runnable is gone. The task may be freed already.
    Ended,
    /// The future is pending; the caller still holds the runnable.
    Pending,
}
