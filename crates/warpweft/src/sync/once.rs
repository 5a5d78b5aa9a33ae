//! A value that is made once, by the first task that needs it.
//!
//! # Invariants
//!
//! - EMPTY → FULL, once, by the thread that has the semaphore's only permit. The value is written before
//!   that, and never after.
//! - If the permit comes back without FULL, the next waiter tries.

use super::semaphore::Semaphore;
use super::wait::Wait;
use std::convert::Infallible;
use std::fmt;
use warpweft_platform::atomic::{AtomicU32, Ordering};
use warpweft_platform::cell::UnsafeCell;

const EMPTY: u32 = 0;
const FULL: u32 = 1;

/// A cell for a value that one task makes at its first use, while others wait for it. Reading it afterwards
/// costs one load.
///
/// If the maker panics, fails or is cancelled, the next one tries. A maker that asks the same cell waits for
/// itself.
///
/// Use `OnceCell<()>` for something that must happen once and has no value.
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
    /// One permit: the right to make the value. Closed when the value is there.
    right: Semaphore,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: the value moves with the cell, hence `T: Send`.
unsafe impl<T: Send> Send for OnceCell<T> {}
// SAFETY: many threads read the value, hence `T: Sync`; one that shares the cell may have set it, hence
// `T: Send`.
unsafe impl<T: Send + Sync> Sync for OnceCell<T> {}

impl<T> Default for OnceCell<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> OnceCell<T> {
    /// Returns an empty cell.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: AtomicU32::new(EMPTY),
            right: Semaphore::of(1, "once cell"),
            value: UnsafeCell::new(None),
        }
    }

    /// Returns the value, if it is there.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // Ordering: Acquire pairs with the Release in `fill`.
        if self.state.load(Ordering::Acquire) == FULL {
            // SAFETY: after FULL no thread writes.
            self.value.with(|value| unsafe { &*value }).as_ref()
        } else {
            None
        }
    }

    /// Sets the value, without waiting.
    ///
    /// # Errors
    ///
    /// There is a value, or another task is making one. Yours is returned.
    pub fn set(&self, value: T) -> Result<(), T> {
        match self.right.try_acquire(1) {
            Ok(_right) => {
                self.fill(value);
                Ok(())
            }
            Err(_) => Err(value),
        }
    }

    /// Returns the value, and makes it with `init`'s future if it is not there. Waits while another task
    /// makes it.
    ///
    /// If the wait is dropped in the middle, the future that makes the value is dropped, and the next one
    /// tries.
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
    /// The future's error; the cell stays empty.
    pub fn try_get_or_init<E, F: Future<Output = Result<T, E>>>(
        &self,
        init: impl FnOnce() -> F,
    ) -> Wait<impl Future<Output = Result<&T, E>>> {
        Wait::new(self.get_or_ask(async || init().await))
    }

    /// Returns the value, and makes it with `make` if it is not there. In direct style:
    /// `cell.get_or_make(|| …).wait()`.
    pub fn get_or_make(&self, make: impl FnOnce() -> T) -> Wait<impl Future<Output = &T>> {
        self.get_or_init(async || make())
    }

    /// As [`get_or_make`](Self::get_or_make), with a closure that may fail.
    ///
    /// # Errors
    ///
    /// The closure's error; the cell stays empty.
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
        // The right is returned when it is dropped: by a return, an unwinding, or the drop of this future.
        let right = self.right.claim(1).await;
        if right.is_ok() {
            self.fill(init().await?);
        }
        // A caller that is refused the right has waited for `close`, so it sees what happened before.
        let Some(value) = self.get() else {
            unreachable!("the right is refused only after the value is there")
        };
        Ok(value)
    }

    /// Sets the value. Only the task that has the right calls this, once.
    fn fill(&self, value: T) {
        // SAFETY: the cell is EMPTY, so no thread reads, and this task has the only right to write.
        self.value.with_mut(|place| unsafe { *place = Some(value) });
        // Ordering: Release pairs with `get`.
        self.state.store(FULL, Ordering::Release);
        self.right.close();
    }

    /// Returns the value, to change: `&mut self` proves that no other thread has it.
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
