//! The waker of a fiber: one for the life of its stack, so that a wait allocates nothing.
//!
//! How it notifies, why no notification is lost, and why a waker may outlive its fiber's body, is in
//! `README.md` beside this file.
//!
//! # Invariants
//!
//! - The fields that are not atomic belong to the fiber's own thread. `fiber` is null when the fiber is gone.
//! - A waker is in the mailbox at most once, and `entered` is set while it is. The thread clears `entered`
//!   before the fiber looks again: what happened before a notification that found it set is visible then.

use super::fiber::Fiber;
use super::stack_context;
use crate::threads::thread_handle::{FiberKey, MailboxEntry, MailboxWaker, ThreadHandle};
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Weak};
use std::task::{RawWaker, RawWakerVTable, Waker};
use warpweft_platform::atomic::{AtomicBool, AtomicUsize, Ordering};
use warpweft_platform::delay;
use warpweft_task::Runnable;

#[derive(Debug)]
pub(crate) struct FiberWaker {
    /// The handle of the fiber's own thread. Weak: a waker that is kept for ever keeps no pool.
    thread_handle: Weak<ThreadHandle>,
    /// The address of the handle. No other handle has it while `thread_handle` is there.
    at: *const ThreadHandle,
    fiber: Cell<*const Fiber>,
    /// True while the waker is in the mailbox.
    entered: AtomicBool,
    /// The task of the body that the fiber has, once that has waited; or 0. For the flight recorder.
    task: AtomicUsize,
}

// SAFETY: only the fiber's own thread touches `fiber`: `notify` checks on which thread it runs, and the other
// callers are that thread. `at` is only compared.
unsafe impl Send for FiberWaker {}
// SAFETY: as above.
unsafe impl Sync for FiberWaker {}

impl FiberWaker {
    /// Creates the waker of a fiber of the calling thread, which has that handle.
    pub(crate) fn new(thread_handle: &Arc<ThreadHandle>, fiber: *const Fiber) -> Arc<Self> {
        Arc::new(Self {
            thread_handle: Arc::downgrade(thread_handle),
            at: Arc::as_ptr(thread_handle),
            fiber: Cell::new(fiber),
            entered: AtomicBool::new(false),
            task: AtomicUsize::new(0),
        })
    }

    /// Returns a waker that borrows the fiber's share: making it costs nothing, only cloning it does.
    #[inline]
    pub(crate) fn waker(self: &Arc<Self>) -> ManuallyDrop<Waker> {
        // SAFETY: the table's functions expect what `Arc::into_raw` gives. The value is never dropped, so no
        // share is given up. A wait of the fiber asks for it, and ends before the fiber gives up its own
        // share.
        ManuallyDrop::new(unsafe { Waker::new(Arc::as_ptr(self).cast(), &VTABLE) })
    }

    /// Lets the fiber look once more for what it waits for. From any thread.
    #[inline]
    fn notify(self: &Arc<Self>) {
        let at_home =
            |context: &&stack_context::StackContext| ptr::eq(Arc::as_ptr(context.thread_handle()), self.at);
        // Without a worker the fiber's thread looks at its mailbox only.
        match stack_context::here().filter(at_home) {
            Some(context) if context.worker_ref().is_some() => {
                if let Some(fiber) = self.heard() {
                    // SAFETY: it listens, so it is there.
                    context.fibers().let_in(unsafe { fiber.as_ref() });
                }
            }
            _ => self.notify_from_elsewhere(),
        }
    }

    #[cold]
    fn notify_from_elsewhere(self: &Arc<Self>) {
        // Ordering: Release publishes what the caller did before, also to a thread that an earlier
        // notification wakes: this is a swap.
        if !self.entered.swap(true, Ordering::Release) {
            delay::point("fiber waker.notify: said");
            if let Some(thread_handle) = self.thread_handle.upgrade() {
                note_woken(&thread_handle, self.task.load(Ordering::Relaxed));
                let waker = Arc::clone(self) as Arc<dyn MailboxWaker>;
                thread_handle.post(MailboxEntry::Notified(waker));
            }
        }
    }

    /// Returns true if it was notified on another thread since the last call. For the own thread in a forked
    /// child, whose mailbox may be lost.
    pub(crate) fn was_entered(&self) -> bool {
        // Ordering: as in `answer`.
        let entered = self.entered.swap(false, Ordering::Acquire);
        if entered {
            self.heard();
        }
        entered
    }

    /// Counts a notification, on the fiber's own thread. Returns the fiber, if it listens.
    #[inline]
    fn heard(&self) -> Option<NonNull<Fiber>> {
        let fiber = NonNull::new(self.fiber.get().cast_mut())?;
        // SAFETY: not null, so the fiber is there.
        unsafe { fiber.as_ref() }.hear().then_some(fiber)
    }

    /// Notes whose body the fiber has, or 0 if it has none.
    pub(crate) fn set_task(&self, task: usize) {
        // Ordering: Relaxed; a hint, which is compared with nothing.
        self.task.store(task, Ordering::Relaxed);
    }

    pub(crate) fn forget(&self) {
        self.fiber.set(ptr::null());
    }
}

impl MailboxWaker for FiberWaker {
    fn answer(&self) -> Option<NonNull<()>> {
        // Ordering: Acquire gives the fiber what was done before each of the calls. It comes before the look:
        // a call from here on enters the waker again.
        self.entered.swap(false, Ordering::Acquire);
        self.heard().map(NonNull::cast)
    }

    fn is_entered(&self) -> bool {
        self.entered.load(Ordering::Relaxed)
    }
}

/// Records that another thread wakes the fiber of that task. Before the entry in the mailbox: afterwards the
/// fiber may run.
fn note_woken(thread: &ThreadHandle, task: usize) {
    if task != 0 {
        thread.pool().note_fiber_woken(task);
    }
}

/// Creates the runnable that the fiber of `task` registers with the latch that it waits for. It wakes the
/// fiber once, also if it ends without having run, because the latch was given up.
pub(crate) fn wake_of(thread: &Arc<ThreadHandle>, key: FiberKey, task: usize) -> Runnable {
    let wake = Wake {
        thread: Arc::clone(thread),
        key,
        task,
    };
    thread.at_once(move || drop(wake))
}

struct Wake {
    thread: Arc<ThreadHandle>,
    key: FiberKey,
    task: usize,
}

impl Drop for Wake {
    fn drop(&mut self) {
        let Self { thread, key, task } = self;
        // The own thread looks at the line before its worker sleeps or leaves.
        let here = stack_context::here()
            .filter(|context| Arc::ptr_eq(context.thread_handle(), thread) && context.worker_ref().is_some());
        match here {
            Some(context) => context.fibers().wake(*key),
            None => {
                note_woken(thread, *task);
                thread.post(MailboxEntry::Key(*key));
            }
        }
    }
}

/// One static, so that `will_wake` can compare addresses.
static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

/// Returns true if `waker` wakes a fiber.
#[inline]
pub(crate) fn is_of_fiber(waker: &Waker) -> bool {
    ptr::eq(waker.vtable(), &raw const VTABLE)
}

/// # Safety
///
/// `data` came from `Arc::into_raw`, and the waker has a share that is not given up meanwhile.
#[inline]
unsafe fn lent(data: *const ()) -> ManuallyDrop<Arc<FiberWaker>> {
    // SAFETY: by contract; the share is not given up here.
    ManuallyDrop::new(unsafe { Arc::from_raw(data.cast::<FiberWaker>()) })
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: `data` came from `Arc::into_raw`, and the waker that is cloned has a share, or borrows one.
    unsafe { Arc::increment_strong_count(data.cast::<FiberWaker>()) };
    RawWaker::new(data, &VTABLE)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: the waker's share, which is given up here.
    unsafe { Arc::from_raw(data.cast::<FiberWaker>()) }.notify();
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: the waker has a share, or borrows one.
    unsafe { lent(data) }.notify();
}

unsafe fn drop_waker(data: *const ()) {
    // SAFETY: the waker's share, which is given up here.
    drop(unsafe { Arc::from_raw(data.cast::<FiberWaker>()) });
}
