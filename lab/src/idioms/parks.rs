//! The idiom of tasks that park and are unparked by name: the least that a scheduler can be asked for.
//!
//! | call | warpweft | its fibers | tokio | smol | may | threads |
//! |---|---|---|---|---|---|---|
//! | park | pending, until its waker was called | the same, in one `fiber::wait` for the whole body | as warpweft | as warpweft | `coroutine::park` | `thread::park` |
//! | unpark | `Waker::wake_by_ref` | the same | the same | the same | `Coroutine::unpark` | `Thread::unpark` |
//!
//! Where tasks are futures, waking one *is* unparking it. So all of them have the same [`ParkSlot`]: a flag,
//! and the waker that the task had when it came. A task has one waker for its life in each of these runtimes
//! (a debug build checks that).
//!
//! ```text
//!  unpark        flag = true ── calls the waker ──▶ the runtime lets the task run
//!  park          flag? ── true: false again, and on
//!                      └─ false: pending
//! ```
//!
//! Invariants
//! - One task parks at a place, and it enters before it is unparked.
//! - It is not unparked twice before it has parked once: an unpark is not counted.
//! - No unpark is lost: the flag is set before the waker is called, and a runtime polls a task again that was
//!   woken after its poll began. What it may see is a poll too many.

use std::future::{Future, poll_fn};
use std::sync::OnceLock;
use std::task::{Poll, Waker};

use super::channels::Actors;
use crate::kit::host::{AtomicBool, Ordering};

/// From inside a pool whose tasks park.
pub trait Parks: Actors {
    /// The place where one task parks.
    type ParkSlot: ParkSlot;
}

/// A place of one task.
pub trait ParkSlot: Default + Send + Sync + 'static {
    /// The calling task is the one that parks here.
    fn enter(&self) -> impl Future<Output = ()> + Send;

    /// Waits until it was unparked once more.
    fn park(&self) -> impl Future<Output = ()> + Send;

    /// Lets the task that parks here, now or next, run on.
    fn unpark(&self);
}

/// That a task is not unparked that has not entered.
const ENTERED: &str = "a task enters its place before it is unparked";

/// The place where a future parks.
#[derive(Default)]
pub(crate) struct WakerParkSlot {
    unparked: AtomicBool,
    waker: OnceLock<Waker>,
}

impl ParkSlot for WakerParkSlot {
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

/// A party that parks in direct style: a coroutine, or a thread.
pub(crate) trait Parker: Send + Sync + 'static {
    /// The calling one.
    fn current() -> Self;

    /// Waits until the calling one may have been unparked.
    fn park();

    /// Unparks this one.
    fn unpark(&self);
}

/// The place where it parks.
pub(crate) struct DirectParkSlot<T> {
    unparked: AtomicBool,
    parker: OnceLock<T>,
}

impl<T> Default for DirectParkSlot<T> {
    fn default() -> Self {
        Self {
            unparked: AtomicBool::new(false),
            parker: OnceLock::new(),
        }
    }
}

impl<T: Parker> ParkSlot for DirectParkSlot<T> {
    async fn enter(&self) {
        self.parker.get_or_init(T::current);
    }

    #[inline]
    async fn park(&self) {
        // Ordering: Acquire as above.
        while !self.unparked.load(Ordering::Acquire) {
            T::park();
        }
        self.unparked.store(false, Ordering::Relaxed);
    }

    #[inline]
    fn unpark(&self) {
        self.unparked.store(true, Ordering::Release);
        self.parker.get().expect(ENTERED).unpark();
    }
}
