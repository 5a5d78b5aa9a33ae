//! Wakers that are collected under a lock, and called after it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::Waker;
use warpweft_platform::panics::discard;
use warpweft_platform::thread::panicking;

/// A few wakers; the first costs no allocation.
#[derive(Debug, Default)]
#[must_use = "whoever was granted something must hear of it"]
pub(crate) struct Wakers {
    first: Option<Waker>,
    more: Vec<Waker>,
}

impl Wakers {
    #[inline]
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Reserves space, so that a large number is collected without moving them repeatedly.
    pub(crate) fn reserve(&mut self, wakers: usize) {
        self.more.reserve(wakers.saturating_sub(1));
    }

    pub(crate) fn push(&mut self, waker: Option<Waker>) {
        match waker {
            Some(waker) if self.first.is_none() => self.first = Some(waker),
            Some(waker) => self.more.push(waker),
            None => {}
        }
    }

    /// Wakes all of them, in order. The caller holds no lock.
    ///
    /// # Panics
    ///
    /// With the panic of the first waker that panicked, after the others were woken, unless the thread
    /// already unwinds.
    #[inline]
    pub(crate) fn wake(self) {
        if let Some(first) = self.first {
            wake_all(first, self.more);
        }
    }
}

fn wake_all(first: Waker, more: Vec<Waker>) {
    let mut panic: Option<Box<dyn Any + Send>> = None;
    for waker in std::iter::once(first).chain(more) {
        // Unwind: a waker is foreign code, and so is its drop. The state that it belonged to was consistent
        // before the lock was released, and the waker is not used again.
        let result = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        match result {
            Err(first) if panic.is_none() => panic = Some(first),
            Err(other) => discard(other),
            Ok(()) => {}
        }
    }
    match panic {
        // A panic while the thread unwinds would end the process, and all waiters with it.
        Some(panic) if panicking() => discard(panic),
        Some(panic) => resume_unwind(panic),
        None => {}
    }
}
