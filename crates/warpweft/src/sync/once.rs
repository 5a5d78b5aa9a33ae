//! A value that is made once, by whoever needs it first.
//!
//! # Invariants
//!
//! - EMPTY → FULL, once, by whoever has the semaphore's only permit; the value is written before and never
//!   after.
//! - A permit that comes back without FULL lets the next one try.

use super::semaphore::Semaphore;
use super::wait::Wait;
use std::convert::Infallible;
use std::fmt;
use warpweft_platform::atomic::{AtomicU32, Ordering};
use warpweft_platform::cell::UnsafeCell;

const EMPTY: u32 = 0;
const FULL: u32 = 1;

/// A place for a value that is made at its first use, by one task; the others wait for it. Reading it
/// afterwards costs one load.
///
/// Should the maker panic, fail or be cancelled, the next one tries. A maker that asks the same cell waits
/// for itself.
///
/// `OnceCell<()>` is for what has to happen once and has no value.
///
/// ```
/// use warpweft::sync::OnceCell;
///
/// let cell = OnceCell::new();
/// assert_eq!(cell.try_get_or_make(|| Err("not yet")).wait(), Err("not yet"));
/// assert_eq!(cell.get(), None);
/// let made = warpweft::block_on(cell.get_or_init(|| async { 5 }));
/// assert_eq!(*made, 5);
/// assert_eq!(*cell.get_or_make(|| 6).wait(), 5);
/// ```
pub struct OnceCell<T> {
    state: AtomicU32,
    /// One permit: the right to make the value. Closed when it is there.
    right: Semaphore,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: the value moves with the cell, hence `T: Send`.
unsafe impl<T: Send> Send for OnceCell<T> {}
// SAFETY: many threads read the value: `T: Sync`; one that shares the cell may have put it in: `T: Send`.
unsafe impl<T: Send + Sync> Sync for OnceCell<T> {}

impl<T> Default for OnceCell<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> OnceCell<T> {
    /// An empty cell.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: AtomicU32::new(EMPTY),
            right: Semaphore::new(1),
            value: UnsafeCell::new(None),
        }
    }

    /// The value, if it is there.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // Ordering: Acquire pairs with the Release in `fill`.
        if self.state.load(Ordering::Acquire) == FULL {
            // SAFETY: FULL: nobody writes any more.
            self.value.with(|value| unsafe { &*value }).as_ref()
        } else {
            None
        }
    }

    /// Puts a value in, without waiting.
    ///
    /// # Errors
    ///
    /// There is one, or somebody is about to make one: yours comes back.
    pub fn set(&self, value: T) -> Result<(), T> {
        match self.right.try_acquire(1) {
            Ok(_right) => {
                self.fill(value);
                Ok(())
            }
            Err(_) => Err(value),
        }
    }

    /// The value; made with `init`'s future, if nobody has made it. Waits while somebody else makes it.
    ///
    /// Dropped in the middle, the wait drops the future that makes the value, and the next one tries.
    pub fn get_or_init<F: Future<Output = T>>(
        &self,
        init: impl FnOnce() -> F,
    ) -> Wait<impl Future<Output = &T>> {
        Wait::new(async move {
            let infallible = self.get_or_ask(async || Ok::<_, Infallible>(init().await)).await;
            infallible.unwrap_or_else(|never| match never {})
        })
    }

    /// As [`get_or_init`](Self::get_or_init), with a future that may fail.
    ///
    /// # Errors
    ///
    /// What the future says; the cell is empty then.
    pub fn try_get_or_init<E, F: Future<Output = Result<T, E>>>(
        &self,
        init: impl FnOnce() -> F,
    ) -> Wait<impl Future<Output = Result<&T, E>>> {
        Wait::new(self.get_or_ask(async || init().await))
    }

    /// The value; made with `make`, if nobody has made it. In direct style: `cell.get_or_make(|| …).wait()`.
    pub fn get_or_make(&self, make: impl FnOnce() -> T) -> Wait<impl Future<Output = &T>> {
        self.get_or_init(async || make())
    }

    /// As [`get_or_make`](Self::get_or_make), with a closure that may fail.
    ///
    /// # Errors
    ///
    /// What the closure says; the cell is empty then.
    pub fn try_get_or_make<E>(
        &self,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Wait<impl Future<Output = Result<&T, E>>> {
        self.try_get_or_init(async || make())
    }

    async fn get_or_ask<E>(&self, init: impl AsyncFnOnce() -> Result<T, E>) -> Result<&T, E> {
        if let Some(value) = self.get() {
            return Ok(value);
        }
        // The right comes back when it is dropped: by a return, an unwinding, or the end of this future.
        let right = self.right.claim(1).await;
        if right.is_ok() {
            self.fill(init().await?);
        }
        // Whoever is refused the right has waited for `close`, so it sees what was done before.
        let Some(value) = self.get() else {
            unreachable!("the right is refused only after the value is there")
        };
        Ok(value)
    }

    /// For whoever has the right, once.
    fn fill(&self, value: T) {
        // SAFETY: EMPTY, so nobody reads; we have the only right to write.
        self.value.with_mut(|place| unsafe { *place = Some(value) });
        // Ordering: Release pairs with `get`.
        self.state.store(FULL, Ordering::Release);
        self.right.close();
    }

    /// The value, to change: `&mut self` proves that nobody else has it.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: as long as `self` is borrowed there is no other reference.
        self.value.with_mut(|value| unsafe { &mut *value }).as_mut()
    }

    /// Takes the value out.
    pub fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }
}

impl<T: fmt::Debug> fmt::Debug for OnceCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnceCell").field(&self.get()).finish()
    }
}
