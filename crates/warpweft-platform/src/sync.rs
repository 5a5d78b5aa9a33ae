//! Shared ownership and a lock without poisoning.

#[cfg(warpweft_loom)]
use loom::sync as imp;
#[cfg(warpweft_shuttle)]
use shuttle::sync as imp;
#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
use std::sync as imp;

pub use imp::{Arc, MutexGuard};

use std::sync::PoisonError;

/// A mutual exclusion lock for short critical sections off the hot path.
///
/// A panic inside a critical section does not poison it: the runtime's own sections hold no broken state
/// across anything that can panic, and user code never runs inside one.
#[derive(Debug, Default)]
pub struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    /// Wraps `value`.
    pub fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    /// Waits for the lock and holds it until the guard is dropped.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value, without locking: `&mut self` proves that nobody else has it.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The system's lock in every build, for statics: nothing happens while it is held that a checker could see.
#[derive(Debug)]
pub struct StaticMutex<T>(std::sync::Mutex<T>);

impl<T> StaticMutex<T> {
    /// Wraps `value`.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// Calls `f` under the lock.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A condition variable for [`Mutex`].
#[derive(Debug, Default)]
pub struct Condvar(imp::Condvar);

impl Condvar {
    /// A condition variable that nobody waits for yet.
    #[must_use]
    pub fn new() -> Self {
        Self(imp::Condvar::new())
    }

    /// Gives the lock up, sleeps until notified (or spuriously), and takes it again.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`wait`](Self::wait), for about `ns` nanoseconds at most. Under the checkers no time passes: as `wait`.
    pub fn wait_for<'a, T>(&self, guard: MutexGuard<'a, T>, ns: u64) -> MutexGuard<'a, T> {
        #[cfg(any(warpweft_loom, warpweft_shuttle))]
        {
            let _ = ns;
            self.wait(guard)
        }
        #[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
        self.0
            .wait_timeout(guard, std::time::Duration::from_nanos(ns))
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }

    /// Wakes one sleeper, if there is one.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all sleepers.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
