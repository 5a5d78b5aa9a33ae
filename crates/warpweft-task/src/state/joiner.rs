//! The state word as the join handle uses it: to hand over the waker of the joiner, and to take it back.

use super::{COMPLETE, State, WAKER};
use warpweft_platform::atomic::Ordering;

impl State {
    /// The handle's view: `Err` if the task has ended, else true if the waker field belongs to the runner.
    pub(crate) fn look(&self) -> Result<bool, ()> {
        // Ordering: Acquire pairs with the release in `complete`.
        let state = self.0.load(Ordering::Acquire);
        if state & COMPLETE != 0 {
            Err(())
        } else {
            Ok(state & WAKER != 0)
        }
    }

    /// Hands over the waker field, which the handle has written. `Err`: the task has ended, and the field is
    /// still the handle's.
    pub(crate) fn set_waker(&self) -> Result<(), ()> {
        self.change_waker(|state| state | WAKER)
    }

    /// Takes the waker field back, so that the handle can write it. `Err`: the task has ended, and the field
    /// is the runner's.
    pub(crate) fn unset_waker(&self) -> Result<(), ()> {
        self.change_waker(|state| state & !WAKER)
    }

    fn change_waker(&self, change: impl Fn(u64) -> u64) -> Result<(), ()> {
        let mut state = self.0.load(Ordering::Acquire);
        loop {
            if state & COMPLETE != 0 {
                return Err(());
            }
            // Ordering: Release publishes the waker field to `complete`; Acquire on failure for the result.
            match self
                .0
                .compare_exchange_weak(state, change(state), Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Ok(()),
                Err(now) => state = now,
            }
        }
    }
}
