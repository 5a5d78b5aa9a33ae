//! A lock for many readers or one writer.
//!
//! It is a [`Semaphore`] with as many permits as there may be readers: a reader takes one, a writer all of
//! them. Permits are given in the order in which they were requested, so neither side starves.

use super::permit::Permit;
use super::semaphore::Semaphore;
use super::wait::{Mapped, Wait};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use warpweft_platform::cell::UnsafeCell;

/// The largest number of readers at a time; more wait.
const READERS: usize = 1 << 30;

/// A lock whose value many tasks may read, or one may change.
///
/// **First come, first served**: a writer waits for the readers before it, and later readers wait for the
/// writer. So a task that holds a read guard must not ask for a second one: if a writer waits in between,
/// both wait for ever.
///
/// Reading or writing without contention costs one compare-and-swap to lock and one to unlock. A panic does
/// not poison the lock, as with [`Mutex`](super::Mutex).
///
/// ```
/// use warpweft::sync::RwLock;
///
/// let table = RwLock::new(vec![1]);
/// let reader = table.read().wait();
/// assert!(table.try_write().is_none() && table.try_read().is_some());
/// drop(reader);
/// table.write().wait().push(2);
/// assert_eq!(*table.read().wait(), [1, 2]);
/// ```
pub struct RwLock<T> {
    permits: Semaphore,
    value: UnsafeCell<T>,
}

// SAFETY: the value moves with the lock, hence `T: Send`.
unsafe impl<T: Send> Send for RwLock<T> {}
// SAFETY: readers on several threads have `&T` at the same time, hence `T: Sync`; a writer has it alone, and
// may take the value out on its thread: `T: Send`.
unsafe impl<T: Send + Sync> Sync for RwLock<T> {}

impl<T> RwLock<T> {
    /// Returns an unlocked lock.
    pub fn new(value: T) -> Self {
        Self {
            permits: Semaphore::of(READERS, "rwlock"),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for a read guard, until no writer holds the lock or waits before it. Dropping the wait leaves no
    /// trace.
    #[inline]
    pub fn read(&self) -> Wait<impl Future<Output = RwLockReadGuard<'_, T>>> {
        let claim = self.permits.claim(1);
        Wait::new(Mapped::new(claim, |permit| {
            RwLockReadGuard::new(self, permit.unwrap_or_else(|_| never_closed()))
        }))
    }

    /// Waits for the write guard, until no other guard exists. Dropping the wait leaves no trace.
    #[inline]
    pub fn write(&self) -> Wait<impl Future<Output = RwLockWriteGuard<'_, T>>> {
        let claim = self.permits.claim(READERS);
        Wait::new(Mapped::new(claim, |permit| {
            RwLockWriteGuard::new(self, permit.unwrap_or_else(|_| never_closed()))
        }))
    }

    /// Returns a read guard if no writer holds the lock or waits.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        let permit = self.permits.try_acquire(1).ok()?;
        Some(RwLockReadGuard::new(self, permit))
    }

    /// Returns the write guard if no guard exists and no task waits.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        let permit = self.permits.try_acquire(READERS).ok()?;
        Some(RwLockWriteGuard::new(self, permit))
    }

    /// Returns the value, without locking: `&mut self` proves that there is no guard.
    pub fn get_mut(&mut self) -> &mut T {
        // SAFETY: as long as `self` is borrowed there is no guard and no other reference.
        self.value.with_mut(|value| unsafe { &mut *value })
    }

    /// Takes the value out.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

fn never_closed() -> ! {
    unreachable!("the semaphore of a lock is never closed")
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("RwLock");
        match self.try_read() {
            Some(value) => debug.field("value", &*value).finish(),
            None => debug.finish_non_exhaustive(),
        }
    }
}

/// The guard of a reader of a [`RwLock`].
#[must_use = "dropping the guard ends the reading"]
pub struct RwLockReadGuard<'a, T> {
    lock: &'a RwLock<T>,
    _permit: Permit<'a>,
    /// It gives the auto traits of `&T`.
    value: PhantomData<*const T>,
}

// SAFETY: the guard is a `&T`.
unsafe impl<T: Sync> Send for RwLockReadGuard<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for RwLockReadGuard<'_, T> {}

impl<'a, T> RwLockReadGuard<'a, T> {
    fn new(lock: &'a RwLock<T>, permit: Permit<'a>) -> Self {
        Self {
            lock,
            _permit: permit,
            value: PhantomData,
        }
    }
}

impl<T> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: a writer needs the permit that the guard has.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T: fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// The guard of the writer of a [`RwLock`].
#[must_use = "dropping the guard ends the writing"]
pub struct RwLockWriteGuard<'a, T> {
    lock: &'a RwLock<T>,
    permit: Permit<'a>,
    /// It gives the auto traits of `&mut T`.
    value: PhantomData<*mut T>,
}

// SAFETY: the guard is a `&mut T`, and giving permits back is not tied to a thread. Another thread may turn
// it into a reader's, beside readers on this one: hence `T: Sync`.
unsafe impl<T: Send + Sync> Send for RwLockWriteGuard<'_, T> {}
// SAFETY: `&RwLockWriteGuard` gives `&T`.
unsafe impl<T: Sync> Sync for RwLockWriteGuard<'_, T> {}

impl<'a, T> RwLockWriteGuard<'a, T> {
    fn new(lock: &'a RwLock<T>, permit: Permit<'a>) -> Self {
        Self {
            lock,
            permit,
            value: PhantomData,
        }
    }

    /// Turns the guard into a reader's. No other writer gets the lock in between.
    pub fn downgrade(guard: Self) -> RwLockReadGuard<'a, T> {
        RwLockReadGuard::new(guard.lock, guard.permit.keep(1))
    }
}

impl<T> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard has all permits, and every other guard needs one of them.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed mutably.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T: fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
