//! Wakers that are collected under a lock, and called after it.

use std::task::Waker;
use warpweft_platform::panics;

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
            // The drop of a waker is foreign code, too.
            panics::for_each(std::iter::once(first).chain(self.more), Waker::wake);
        }
    }
}
