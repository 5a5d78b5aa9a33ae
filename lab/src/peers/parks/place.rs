//! Where one task parks, and where others unpark it.
//!
//! ```text
//!  who unparks   flag = true ── calls the waker ──▶ the runtime lets the task run
//!  who parks     flag? ── true: false again, and on
//!                      └─ false: pending
//! ```
//!
//! Invariants
//! - One task parks here, and it enters before anybody unparks it.
//! - Nobody unparks it twice before it has parked once: an unpark is not counted.
//! - No unpark is lost: the flag is set before the waker is called, and a runtime polls a task again that was
//!   woken after its poll began. What it may see is a poll too many.

use std::future::{Future, poll_fn};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use std::thread::{self, Thread};

use ::may::coroutine::{self, Coroutine};

/// A place of one task.
pub(crate) trait Place: Default + Send + Sync + 'static {
    /// The calling task is the one that parks here.
    fn enter(&self) -> impl Future<Output = ()> + Send;

    /// Waits until it was unparked once more.
    fn park(&self) -> impl Future<Output = ()> + Send;

    /// Lets the task that parks here, now or next, go on.
    fn unpark(&self);
}

/// That nobody unparks a task that has not entered.
const ENTERED: &str = "a task enters its place before it is unparked";

/// Where a future parks.
#[derive(Default)]
pub(crate) struct WakerPlace {
    unparked: AtomicBool,
    waker: OnceLock<Waker>,
}

impl Place for WakerPlace {
    fn enter(&self) -> impl Future<Output = ()> + Send {
        poll_fn(|cx| {
            self.waker.get_or_init(|| cx.waker().clone());
            Poll::Ready(())
        })
    }

    #[inline]
    fn park(&self) -> impl Future<Output = ()> + Send {
        poll_fn(|cx| {
            debug_assert!(
                self.waker.get().is_some_and(|own| own.will_wake(cx.waker())),
                "a task has one waker for its life"
            );
            // Ordering: Acquire pairs with `unpark`: what was done before it is visible.
            if self.unparked.load(Ordering::Acquire) {
                self.unparked.store(false, Ordering::Relaxed);
                return Poll::Ready(());
            }
            Poll::Pending
        })
    }

    #[inline]
    fn unpark(&self) {
        self.unparked.store(true, Ordering::Release);
        self.waker.get().expect(ENTERED).wake_by_ref();
    }
}

/// Where a coroutine of may parks.
#[derive(Default)]
pub(crate) struct CoroutinePlace {
    unparked: AtomicBool,
    coroutine: OnceLock<Coroutine>,
}

impl Place for CoroutinePlace {
    async fn enter(&self) {
        self.coroutine.get_or_init(coroutine::current);
    }

    #[inline]
    async fn park(&self) {
        // Ordering: Acquire as above.
        while !self.unparked.load(Ordering::Acquire) {
            coroutine::park();
        }
        self.unparked.store(false, Ordering::Relaxed);
    }

    #[inline]
    fn unpark(&self) {
        self.unparked.store(true, Ordering::Release);
        self.coroutine.get().expect(ENTERED).unpark();
    }
}

/// Where a thread parks.
#[derive(Default)]
pub(crate) struct ThreadPlace {
    unparked: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Place for ThreadPlace {
    async fn enter(&self) {
        self.thread.get_or_init(thread::current);
    }

    #[inline]
    async fn park(&self) {
        // Ordering: Acquire as above.
        while !self.unparked.load(Ordering::Acquire) {
            thread::park();
        }
        self.unparked.store(false, Ordering::Relaxed);
    }

    #[inline]
    fn unpark(&self) {
        self.unparked.store(true, Ordering::Release);
        self.thread.get().expect(ENTERED).unpark();
    }
}
