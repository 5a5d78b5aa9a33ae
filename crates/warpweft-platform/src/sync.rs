//! Shared ownership and a lock without poisoning.

#[cfg(warpweft_loom)]
use loom::sync as imp;
#[cfg(warpweft_shuttle)]
use shuttle::sync as imp;
#[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
use std::sync as imp;
#[cfg(warpweft_sim)]
use warpweft_sim as imp;

pub use imp::{Arc, MutexGuard};

#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
use crate::{atomic::spin_loop, clock::now_ns, process};
use std::sync::{PoisonError, TryLockError};

/// How often a thread that finds a lock taken retries before it asks the system.
#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
const VISITS: u32 = 4;
/// How long it waits before the first retry, in nanoseconds; twice as long before each further one.
#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
const AWAY_NS: u64 = 1000;
/// The longest time, in nanoseconds, for which a thread of a forked child holds a lock. Sections take less
/// than a microsecond; the rest is for a holder that does not get a CPU.
#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
const LOST_NS: u64 = 2_000_000_000;

/// A mutual exclusion lock for short critical sections off the hot path.
///
/// A panic inside a critical section does not poison it: the runtime's sections hold no broken state across
/// anything that can panic, and user code never runs inside one.
///
/// Locking costs one compare-and-swap. A thread that finds the lock taken waits for 1, 2, 4 and 8 µs before
/// it uses the system's lock.
#[derive(Debug, Default)]
pub struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    /// Wraps `value`.
    #[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
    pub const fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    /// Wraps `value`.
    #[cfg(any(warpweft_loom, warpweft_shuttle, warpweft_sim))]
    pub fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    /// Waits for the lock and holds it until the guard is dropped.
    ///
    /// # Panics
    ///
    /// In a forked child, if a thread that stayed in the parent holds the lock: what the lock protects is
    /// lost.
    #[inline]
    #[cfg_attr(warpweft_sim, track_caller)]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.try_lock().unwrap_or_else(|| self.lock_contended())
    }

    /// As [`lock`](Self::lock). Returns `None` in a forked child if a thread that stayed in the parent holds
    /// the lock.
    #[inline]
    #[cfg_attr(warpweft_sim, track_caller)]
    pub fn lock_unless_lost(&self) -> Option<MutexGuard<'_, T>> {
        self.try_lock().or_else(|| self.lock_or_lose())
    }

    /// Takes the lock, if it is free.
    #[inline]
    #[cfg_attr(warpweft_sim, track_caller)]
    fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        // A failed attempt before each lock would only multiply the checkers' executions.
        #[cfg(any(warpweft_loom, warpweft_shuttle))]
        return None;
        #[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Waits for a while, longer each time, and only then uses the system's lock, which may put the thread to
    /// sleep.
    ///
    /// The system's lock reads the word all the time. So the holder would have to fetch that cache line, and
    /// those that the lock protects, from the other core for each of its next sections. While the other
    /// thread waits, these lines stay where they are.
    #[cold]
    #[cfg_attr(warpweft_sim, track_caller)]
    fn lock_contended(&self) -> MutexGuard<'_, T> {
        self.lock_or_lose().unwrap_or_else(|| lost())
    }

    /// Does the same. Returns `None` if the holder stayed in the parent of this forked process.
    #[cold]
    #[cfg_attr(warpweft_sim, track_caller)]
    fn lock_or_lose(&self) -> Option<MutexGuard<'_, T>> {
        #[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
        {
            let mut attempts = Attempts::default();
            while attempts.wait() {
                if let Some(guard) = self.try_lock() {
                    return Some(guard);
                }
            }
            if attempts.is_lost {
                return None;
            }
        }
        Some(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the value, without locking: `&mut self` proves that no other thread has it.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Spins for that many nanoseconds.
#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
fn spin_for(ns: u64) {
    let end = now_ns() + ns;
    while now_ns() < end {
        (0..8).for_each(|_| spin_loop());
    }
}

/// Panics, because a lock is lost.
#[cold]
fn lost() -> ! {
    panic!("a lock was held by a thread that stayed in the parent of this forked process")
}

/// The attempts to take a lock that another thread has, before the system's lock is used.
#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
#[derive(Default)]
struct Attempts {
    made: u32,
    /// In a forked child: the time at which the last attempt is made.
    until_ns: Option<u64>,
    /// True if the holder is not a thread of this process, which is a forked child: the process has only one
    /// thread, or the lock was held for too long.
    is_lost: bool,
}

#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
impl Attempts {
    /// Waits until the next attempt is due. Returns false if there is none. In a forked child, where the
    /// system's lock is not used, there is one until the lock is known to be lost.
    fn wait(&mut self) -> bool {
        if self.made < VISITS {
            spin_for(AWAY_NS << self.made);
            self.made += 1;
            return true;
        }
        if self.is_lost || process::generation() == 0 {
            return false;
        }
        if self.until_ns.is_some() {
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
        let until_ns = *self.until_ns.get_or_insert_with(|| now_ns() + LOST_NS);
        // Tested before the attempt: a thread that has ended meanwhile released the lock before.
        self.is_lost = process::is_alone() || now_ns() > until_ns;
        true
    }
}

/// The system's lock in every build, for statics: nothing happens under it that a checker could see.
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

    /// As [`with`](Self::with), unless another thread has the lock: then `None`, and `f` is not called.
    pub fn try_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        match self.0.try_lock() {
            Ok(mut value) => Some(f(&mut value)),
            Err(TryLockError::Poisoned(poisoned)) => Some(f(&mut poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A condition variable for [`Mutex`].
#[derive(Debug, Default)]
pub struct Condvar(imp::Condvar);

impl Condvar {
    /// Makes a condition variable.
    #[must_use]
    pub fn new() -> Self {
        Self(imp::Condvar::new())
    }

    /// Releases the lock, sleeps until notified (or spuriously), and takes the lock again.
    #[cfg_attr(warpweft_sim, track_caller)]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`wait`](Self::wait), for about `ns` nanoseconds at most. Under the checkers no time passes: it is
    /// `wait`.
    #[cfg_attr(warpweft_sim, track_caller)]
    pub fn wait_for<'a, T>(&self, guard: MutexGuard<'a, T>, ns: u64) -> MutexGuard<'a, T> {
        #[cfg(any(warpweft_loom, warpweft_shuttle))]
        {
            let _ = ns;
            self.wait(guard)
        }
        #[cfg(warpweft_sim)]
        return self
            .0
            .wait_ns(guard, ns)
            .0
            .unwrap_or_else(PoisonError::into_inner);
        #[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
        self.0
            .wait_timeout(guard, std::time::Duration::from_nanos(ns))
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }

    /// Wakes one sleeper, if there is one.
    #[cfg_attr(warpweft_sim, track_caller)]
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all sleepers.
    #[cfg_attr(warpweft_sim, track_caller)]
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{Arc, Mutex};
    use crate::clock::now_ns;
    use crate::thread;

    /// One thread holds the lock for longer than the others retry, and one panics with it.
    #[test]
    fn one_at_a_time_also_for_those_who_came_back_in_vain() {
        let lock = Arc::new(Mutex::new((false, 0)));
        let holders: Vec<_> = (0..4)
            .map(|holder| {
                let lock = Arc::clone(&lock);
                thread::spawn(move || {
                    for turn in 0..50 {
                        let mut guard = lock.lock();
                        assert!(!std::mem::replace(&mut guard.0, true), "two at a time");
                        let end = now_ns() + if turn % 10 == 0 { 100_000 } else { 500 };
                        while now_ns() < end {}
                        *guard = (false, guard.1 + 1);
                        assert!((holder, turn) != (3, 49), "on purpose: nothing is poisoned");
                    }
                })
            })
            .collect();
        let ended: Vec<_> = holders.into_iter().map(|holder| holder.join().is_ok()).collect();
        assert_eq!(ended, [true, true, true, false]);
        assert_eq!(lock.lock().1, 200);
    }
}
