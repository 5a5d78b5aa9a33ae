//! What the wakers of a fiber ring: one for the life of its stack, so that a wait allocates nothing.
//!
//! ```text
//!   on its home thread    rings += 1 ── it listens? ── into the line
//!   elsewhere             entered = true ── it was false? ── into the lane ┄┄ home: entered = false, and then as above
//! ```
//!
//! A fiber remembers how often its bell had rung before it looked for what it waits for, and switches away only if it has not rung
//! since. So a ring is never lost, and one that comes too late, or for a wait around the present one, makes somebody look once too
//! often. That is also why a bell may outlive its fiber's body, and be the next one's.
//!
//! # Invariants
//!
//! - What is not atomic is the home thread's alone. `fiber` is null when the fiber is gone.
//! - A bell lies in the lane at most once, and `entered` is set while it does. The home clears it before the fiber looks again: what was
//!   done before a ring that found it set is visible then.

use super::one::Fiber;
use crate::runtime::Berth;
use crate::runtime::berth::Entry;
use crate::runtime::seat;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Weak};
use std::task::{RawWaker, RawWakerVTable, Waker};
use warpweft_platform::atomic::{AtomicBool, Ordering};
use warpweft_platform::delay;

#[derive(Debug)]
pub(crate) struct Doorbell {
    /// Of the home. Weak: a waker that is kept for ever keeps no pool.
    berth: Weak<Berth>,
    /// Its address, which nobody else has while `berth` is there.
    at: *const Berth,
    fiber: Cell<*const Fiber>,
    /// Whether it lies in the lane.
    entered: AtomicBool,
}

// SAFETY: `fiber` is touched by the home thread alone: `ring` asks which thread it is on, and the others are the home's. `at` is but
// compared.
unsafe impl Send for Doorbell {}
// SAFETY: as above.
unsafe impl Sync for Doorbell {}

impl Doorbell {
    /// Of a fiber of the calling thread, whose berth that is.
    pub(super) fn new(berth: &Arc<Berth>, fiber: *const Fiber) -> Arc<Self> {
        Arc::new(Self {
            berth: Arc::downgrade(berth),
            at: Arc::as_ptr(berth),
            fiber: Cell::new(fiber),
            entered: AtomicBool::new(false),
        })
    }

    /// A waker that lives on the fiber's share: making it costs nothing, only cloning it does.
    #[inline]
    pub(super) fn waker(self: &Arc<Self>) -> ManuallyDrop<Waker> {
        // SAFETY: the table's functions expect what `Arc::into_raw` gives. The value is never dropped, so no share is given up, and who
        // asks for it, a wait of the fiber, ends before the fiber gives up its own.
        ManuallyDrop::new(unsafe { Waker::new(Arc::as_ptr(self).cast(), &VTABLE) })
    }

    /// Lets the fiber look once more for what it waits for. From any thread.
    #[inline]
    fn ring(self: &Arc<Self>) {
        let at_home = |seat: &&seat::Seat| ptr::eq(Arc::as_ptr(seat.berth()), self.at);
        // Without a worker the home looks at its lane only.
        match seat::here().filter(at_home) {
            Some(seat) if seat.front().is_some() => {
                if let Some(fiber) = self.heard() {
                    // SAFETY: it listens, so it is there.
                    seat.home().let_in(unsafe { fiber.as_ref() });
                }
            }
            _ => self.ring_from_elsewhere(),
        }
    }

    #[cold]
    fn ring_from_elsewhere(self: &Arc<Self>) {
        // Ordering: Release publishes what the caller did before, also to a home that an earlier ring calls: it is a swap.
        if !self.entered.swap(true, Ordering::Release) {
            delay::point("doorbell.ring: said");
            if let Some(berth) = self.berth.upgrade() {
                berth.enter_in_lane(Entry::Bell(Arc::clone(self)));
            }
        }
    }

    /// The home has taken it out of the lane. The fiber, if it listens.
    pub(super) fn answer(&self) -> Option<NonNull<Fiber>> {
        // Ordering: Acquire gives the fiber what was done before each of the rings. Before it looks: a ring from here on enters again.
        self.entered.swap(false, Ordering::Acquire);
        self.heard()
    }

    /// Whether it has rung elsewhere since this was asked. For the home of a forked child, whose lane may be lost.
    pub(super) fn was_entered(&self) -> bool {
        // Ordering: as in `answer`.
        let entered = self.entered.swap(false, Ordering::Acquire);
        if entered {
            self.heard();
        }
        entered
    }

    /// It has rung, on the home thread. The fiber, if it listens.
    #[inline]
    fn heard(&self) -> Option<NonNull<Fiber>> {
        let fiber = NonNull::new(self.fiber.get().cast_mut())?;
        // SAFETY: not null, so the fiber is there.
        unsafe { fiber.as_ref() }.hear().then_some(fiber)
    }

    /// The fiber goes.
    pub(super) fn forget(&self) {
        self.fiber.set(ptr::null());
    }
}

/// One static, so that `will_wake` can compare addresses.
static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

/// # Safety
///
/// `data` came from `Arc::into_raw`, and the bell has a share that is not given up meanwhile.
#[inline]
unsafe fn lent(data: *const ()) -> ManuallyDrop<Arc<Doorbell>> {
    // SAFETY: by contract; the share is not given up here.
    ManuallyDrop::new(unsafe { Arc::from_raw(data.cast::<Doorbell>()) })
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: `data` came from `Arc::into_raw`, and the waker that is cloned has a share, or borrows one.
    unsafe { Arc::increment_strong_count(data.cast::<Doorbell>()) };
    RawWaker::new(data, &VTABLE)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: the waker's share, which is given up here.
    unsafe { Arc::from_raw(data.cast::<Doorbell>()) }.ring();
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: the waker has a share, or borrows one.
    unsafe { lent(data) }.ring();
}

unsafe fn drop_waker(data: *const ()) {
    // SAFETY: the waker's share, which is given up here.
    drop(unsafe { Arc::from_raw(data.cast::<Doorbell>()) });
}
