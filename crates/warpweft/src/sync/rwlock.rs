//! Many readers or one writer.
//!
//! A [`Semaphore`] with as many permits as there may be readers: a reader takes one, a writer all of them.
//! Since permits are given in the order in which they were asked for, neither side starves.

use super::semaphore::{Permit, Semaphore};
use super::wait::{Mapped, Wait};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use warpweft_platform::cell::UnsafeCell;

/// How many readers there may be at a time; more wait.
const READERS: usize = 1 << 30;

/// A value that many may read, or one may change.
///
/// **First come, first served**: a writer waits for the readers that were there before it, and readers that
/// come after it wait for the writer. So a task that reads must not ask to read again while it holds a guard:
/// should a writer wait in between, both wait for ever.
///
/// Reading or writing without others costs a compare-and-swap for taking and one for giving back. A panic
/// does not poison the lock, as with [`Mutex`](super::Mutex).
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
    /// A lock that nobody has.
    pub fn new(value: T) -> Self {
        Self {
            permits: Semaphore::new(READERS),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits until no writer is there or before us. Dropped before it is ready, the wait leaves no trace.
    #[inline]
    pub fn read(&self) -> Wait<impl Future<Output = RwLockReadGuard<'_, T>>> {
        let claim = self.permits.claim(1);
        Wait::new(Mapped::new(claim, |permit| {
            RwLockReadGuard::new(self, permit.unwrap_or_else(|_| never_closed()))
        }))
    }

    /// Waits until nobody is there. Dropped before it is ready, the wait leaves no trace.
    #[inline]
    pub fn write(&self) -> Wait<impl Future<Output = RwLockWriteGuard<'_, T>>> {
        let claim = self.permits.claim(READERS);
        Wait::new(Mapped::new(claim, |permit| {
            RwLockWriteGuard::new(self, permit.unwrap_or_else(|_| never_closed()))
        }))
    }

    /// To read, if no writer is there or waits.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        let permit = self.permits.try_acquire(1).ok()?;
        Some(RwLockReadGuard::new(self, permit))
    }

    /// To write, if nobody is there or waits.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        let permit = self.permits.try_acquire(READERS).ok()?;
        Some(RwLockWriteGuard::new(self, permit))
    }

    /// The value, without locking: `&mut self` proves that nobody else has it.
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

/// The value of a [`RwLock`], to read.
#[must_use = "dropping the guard ends the reading"]
pub struct RwLockReadGuard<'a, T> {
    lock: &'a RwLock<T>,
    _permit: Permit<'a>,
    /// As `&T` would be.
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

/// The value of a [`RwLock`], to change.
#[must_use = "dropping the guard ends the writing"]
pub struct RwLockWriteGuard<'a, T> {
    lock: &'a RwLock<T>,
    permit: Permit<'a>,
    /// As `&mut T` would be.
    value: PhantomData<*mut T>,
}

// SAFETY: the guard is a `&mut T`, and giving permits back is not tied to a thread.
unsafe impl<T: Send> Send for RwLockWriteGuard<'_, T> {}
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

    /// Goes on as a reader, without a moment in which somebody else might write.
    pub fn downgrade(guard: Self) -> RwLockReadGuard<'a, T> {
        RwLockReadGuard::new(guard.lock, guard.permit.keep(1))
    }
}

impl<T> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: anybody else needs one of the permits, which the guard has all of.
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
