//! Wakers: references that can make a sleeping task ready, from any thread, at any time.
//!
//! # Invariants
//!
//! - A waker owns one reference; it may outlive the task's end, and its pool.
//! - The thread that makes a task QUEUED then holds a runnable, and pushes it to the task's pool. That pool
//!   is alive: it waits for every task that was ever suspended.

use crate::header::Header;
use crate::runnable::{Runnable, TaskId};
use crate::state::{Dropped, Woken};
use crate::why::Why;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::task::{RawWaker, RawWakerVTable, Waker};
use warpweft_platform::counter::Counter;
use warpweft_platform::prefetch::prefetch_to_write;

/// One static, so that `will_wake` can compare addresses.
static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

/// A waker that borrows the reference of a running step. Making it costs nothing; only cloning it counts.
pub(crate) struct BorrowedWaker(ManuallyDrop<Waker>);

impl BorrowedWaker {
    /// # Safety
    ///
    /// The caller holds a reference to the task for as long as the value lives.
    pub(crate) unsafe fn new(header: NonNull<Header>) -> Self {
        // SAFETY: the table's functions expect a header; the value is never dropped, so no reference is given
        // up.
        Self(ManuallyDrop::new(unsafe {
            Waker::new(header.as_ptr().cast_const().cast(), &VTABLE)
        }))
    }
}

impl Deref for BorrowedWaker {
    type Target = Waker;

    fn deref(&self) -> &Waker {
        &self.0
    }
}

/// Returns the task that `waker` wakes; `None` if it is not a task's waker.
#[inline]
#[must_use]
pub fn task_of(waker: &Waker) -> Option<TaskId> {
    std::ptr::eq(waker.vtable(), &raw const VTABLE).then(|| {
        // SAFETY: by its table it is a waker of a task.
        TaskId::of(unsafe { header(waker.data()) })
    })
}

/// # Safety
///
/// `data` is that of a waker of [`VTABLE`].
#[inline]
unsafe fn header(data: *const ()) -> NonNull<Header> {
    debug_assert!(!data.is_null());
    // SAFETY: such wakers are made of headers' addresses.
    unsafe { NonNull::new_unchecked(data.cast_mut().cast()) }
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: the function is in that table.
    let header = unsafe { header(data) };
    // SAFETY: the waker that is cloned holds a reference.
    unsafe { header.as_ref() }.state.add_reference();
    RawWaker::new(data, &VTABLE)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: the function is in that table.
    let header = unsafe { header(data) };
    fetch_work(header);
    // SAFETY: the waker holds a reference until `wake_by_value` consumes it.
    match unsafe { header.as_ref() }.state.wake_by_value() {
        Woken::Nothing => {}
        // SAFETY: the waker's reference became the runnable's.
        Woken::Push => unsafe { push(header, Why::Woken) },
        // SAFETY: the last reference was the waker's, and the task has ended.
        Woken::Free => unsafe { free(header) },
    }
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: the function is in that table.
    let header = unsafe { header(data) };
    fetch_work(header);
    // SAFETY: the waker holds a reference.
    if unsafe { header.as_ref() }.state.wake_by_ref() {
        // SAFETY: `wake_by_ref` made the runnable.
        unsafe { push(header, Why::Woken) };
    }
}

unsafe fn drop_waker(data: *const ()) {
    // SAFETY: the function is in that table.
    let header = unsafe { header(data) };
    // SAFETY: the waker's reference is given up here, once.
    unsafe { drop_reference(header) };
}

/// Requests cancellation. Returns false if the task had ended.
///
/// # Safety
///
/// The caller holds a reference.
pub(crate) unsafe fn cancel(header: NonNull<Header>) -> bool {
    // SAFETY: by contract.
    let outcome = unsafe { header.as_ref() }.state.cancel();
    match outcome {
        // SAFETY: `cancel` made the runnable.
        Some(true) => unsafe { push(header, Why::Woken) },
        // Its runnable may be in a queue. The worker that owns that queue may look for it there.
        Some(false) => CANCELLATIONS.announce(),
        None => {}
    }
    outcome.is_some()
}

/// Cancellations of tasks that were not asleep, in the whole process.
static CANCELLATIONS: Counter = Counter::new();

/// Returns how many tasks of this process were cancelled while their runnables were in queues or they were
/// running.
///
/// The count is not per pool: the canceller holds a handle, and a handle does not keep the pool alive.
#[inline]
#[must_use]
pub fn cancellations() -> u64 {
    CANCELLATIONS.observe()
}

/// Gives up one reference.
///
/// # Safety
///
/// The caller owns it. If it is the last one of an ended task, work and result are gone.
pub(crate) unsafe fn drop_reference(header: NonNull<Header>) {
    // SAFETY: by contract the reference is there until `drop_reference` gives it up.
    match unsafe { header.as_ref() }.state.drop_reference() {
        Dropped::Nothing => {}
        // SAFETY: the last reference was ours, and the task has ended.
        Dropped::Free => unsafe { free(header) },
        // SAFETY: our reference became the runnable's.
        Dropped::Orphan => unsafe { push(header, Why::Woken) },
    }
}

/// # Safety
///
/// The caller had the last reference to a task that has ended; work and result are gone.
unsafe fn free(header: NonNull<Header>) {
    // SAFETY: the allocation is still there.
    let vtable = unsafe { header.as_ref() }.vtable;
    // SAFETY: by contract.
    unsafe { (vtable.free)(header) };
}

/// Prefetches the beginning of the task's work. A woken task mostly runs on the worker that wakes it, so the
/// work arrives together with the state, which another processor may have written. For a task that goes
/// elsewhere it costs two wasted instructions.
#[inline]
fn fetch_work(header: NonNull<Header>) {
    let work = header.as_ptr().cast::<u8>();
    for line in 1..1 + WORK_LINES {
        prefetch_to_write(work.wrapping_add(line * LINE));
    }
}

/// How many cache lines behind the first that is.
const WORK_LINES: usize = 2;
const LINE: usize = 64;

/// Hands a runnable to the task's pool.
///
/// # Safety
///
/// The caller owns the runnable, and the task was suspended before.
pub(crate) unsafe fn push(header: NonNull<Header>, why: Why) {
    // SAFETY: the caller passes its runnable on.
    unsafe { Runnable::from_header(header) }.push(why);
}
