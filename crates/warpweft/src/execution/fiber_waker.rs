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
//! - The mailbox has a share of each waker in it, and each waker one of the mailbox. The thread closes its
//!   mailbox, so neither keeps the other for ever.

use super::fiber::Fiber;
use super::fiber_probe::EnteredWaker;
use super::stack_context::{self, StackContext};
use crate::threads::mailbox::{FiberKey, Link, Mailbox, MailboxClosed, RequiredWake};
use crate::threads::thread_handle::ThreadHandle;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Weak};
use std::task::{RawWaker, RawWakerVTable, Waker};
use warpweft_platform::atomic::{AtomicBool, AtomicUsize, Ordering};
use warpweft_platform::delay;
use warpweft_task::Runnable;

/// `repr(C)`: an entry in the mailbox begins with its link.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct FiberWaker {
    link: Link,
    /// True while the waker is in the mailbox.
    entered: AtomicBool,
    /// The mailbox of the fiber's own thread.
    mailbox: Arc<Mailbox>,
    /// The handle of that thread. Weak: a waker that is kept for ever keeps no pool.
    thread_handle: Weak<ThreadHandle>,
    fiber: Cell<*const Fiber>,
    /// The address of the fiber's pool. It is only compared.
    pool: usize,
    /// The task of the body that the fiber has, once that has waited; or 0. For the flight recorder.
    task: AtomicUsize,
}

// SAFETY: only the fiber's own thread touches `fiber`: `notify` checks on which thread it runs, and the other
// callers are that thread.
unsafe impl Send for FiberWaker {}
// SAFETY: as above.
unsafe impl Sync for FiberWaker {}

impl FiberWaker {
    /// Creates the waker of a fiber of the calling thread, which has that handle.
    pub(crate) fn new(thread_handle: &Arc<ThreadHandle>, fiber: *const Fiber) -> Arc<Self> {
        Arc::new(Self {
            link: Link::new(),
            entered: AtomicBool::new(false),
            mailbox: Arc::clone(thread_handle.mailbox()),
            thread_handle: Arc::downgrade(thread_handle),
            fiber: Cell::new(fiber),
            pool: thread_handle.pool().header().addr().get(),
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
        let here = stack_context::here();
        match here {
            // Without a worker the fiber's thread looks at its mailbox only.
            Some(context)
                if Arc::ptr_eq(context.fibers().mailbox(), &self.mailbox)
                    && context.worker_ref().is_some() =>
            {
                if let Some(fiber) = self.heard() {
                    // SAFETY: it listens, so it is there.
                    context.fibers().let_in(unsafe { fiber.as_ref() });
                }
            }
            _ => self.notify_from_elsewhere(here.is_some_and(|here| self.is_unrecorded(here))),
        }
    }

    /// Returns true if the fiber's pool is that of the calling thread, and records no wakes.
    fn is_unrecorded(&self, context: &StackContext) -> bool {
        let pool = context.fibers().pool();
        pool.header().addr().get() == self.pool && !pool.core().recorder.mode().has_steps()
    }

    #[cold]
    fn notify_from_elsewhere(self: &Arc<Self>, unrecorded: bool) {
        // Ordering: Release publishes what the caller did before, also to a thread that an earlier
        // notification wakes: this is a swap. Acquire: the fiber's thread is done with the link.
        if self.entered.swap(true, Ordering::AcqRel) {
            return;
        }
        delay::point("fiber waker.notify: said");
        if !unrecorded && let Some(thread_handle) = self.thread_handle.upgrade() {
            note_woken(&thread_handle, self.task.load(Ordering::Relaxed));
        }
        let share = Arc::into_raw(Arc::clone(self));
        // The address of the share and not of its link: the thread makes a share of it again.
        let link = NonNull::new(share.cast_mut().cast::<Link>()).unwrap_or_else(|| unreachable!("a share"));
        // SAFETY: `entered` was clear, so it is in no mailbox. The share keeps it.
        match unsafe { self.mailbox.post_waker(link) } {
            Ok(RequiredWake::None) => {}
            Ok(required) => {
                if let Some(thread_handle) = self.thread_handle.upgrade() {
                    thread_handle.wake_as_required(required);
                }
            }
            // SAFETY: the share from above, which was not posted.
            Err(MailboxClosed) => drop(unsafe { Arc::from_raw(share) }),
        }
    }

    /// Takes a waker out of the mailbox, on the fiber's own thread.
    ///
    /// # Safety
    ///
    /// The mailbox has handed out the link, and this is the only call with it since.
    pub(crate) unsafe fn take(link: NonNull<Link>) -> Arc<Self> {
        // SAFETY: only `notify_from_elsewhere` posts wakers, each with a share and by its address.
        unsafe { Arc::from_raw(link.as_ptr().cast_const().cast::<Self>()) }
    }

    /// Clears `entered`, and returns the fiber, if it listens. The thread has taken the waker out of its
    /// mailbox.
    pub(crate) fn answer(&self) -> Option<NonNull<Fiber>> {
        // Ordering: Acquire gives the fiber what was done before each of the calls. It comes before the look:
        // a call from here on enters the waker again, and writes its link: Release.
        self.entered.swap(false, Ordering::AcqRel);
        self.heard()
    }

    /// Returns true if it was notified on another thread since the last call. For the own thread in a forked
    /// child, whose mailbox is closed.
    pub(crate) fn was_entered(&self) -> bool {
        // Ordering: Acquire, as in `answer`. The mailbox is closed, so no thread writes the link.
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

impl EnteredWaker for FiberWaker {
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
                thread.wake_as_required(thread.mailbox().post_key(*key));
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
