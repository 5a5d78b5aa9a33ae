//! Shared ownership and a lock without poisoning.

#[cfg(warpweft_loom)]
use loom::sync as imp;
#[cfg(warpweft_shuttle)]
use shuttle::sync as imp;
#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
use std::sync as imp;

pub use imp::{Arc, MutexGuard};

use std::sync::PoisonError;
#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
use {
    crate::{atomic::spin_loop, clock::now_ns, process},
    std::sync::TryLockError,
};

/// How often a thread who finds a lock taken comes back before asking the system.
#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
const VISITS: u32 = 4;
/// How long it keeps away before the first visit, in nanoseconds; twice as long before each other one.
#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
const AWAY_NS: u64 = 1000;
/// In a forked child: for how long a lock is held by a thread that is there, at most, in nanoseconds.
/// Sections take less than a microsecond; the rest is for a holder that does not get a CPU.
#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
const LOST_NS: u64 = 2_000_000_000;

/// A mutual exclusion lock for short critical sections off the hot path.
///
/// A panic inside a critical section does not poison it: the runtime's own sections hold no broken state
/// across anything that can panic, and user code never runs inside one.
///
/// Locking costs one compare-and-swap; the thread that finds it taken keeps away for 1, 2, 4 and 8 µs before
/// the system's lock is asked.
#[derive(Debug, Default)]
pub struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    /// Wraps `value`.
    pub fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    /// Waits for the lock and holds it until the guard is dropped.
    ///
    /// # Panics
    ///
    /// In a forked child, if a thread holds the lock that stayed in the parent: what the lock protects is
    /// lost.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.try_lock().unwrap_or_else(|| self.lock_contended())
    }

    /// As [`lock`](Self::lock). `None`: in a forked child, a thread holds the lock that stayed in the parent.
    #[inline]
    pub fn lock_unless_lost(&self) -> Option<MutexGuard<'_, T>> {
        self.try_lock().or_else(|| self.lock_or_lose())
    }

    /// The lock, if it is free.
    #[inline]
    fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        // A look in vain before each lock would only multiply the checkers' executions.
        #[cfg(any(warpweft_loom, warpweft_shuttle))]
        return None;
        #[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Keeps away for a while, longer each time, and only then asks the system's lock, which may put the
    /// thread to sleep.
    ///
    /// The system's looks at the word all the time: the thread that holds the lock has to fetch that line of
    /// the cache, and then those that the lock protects, back from the other core for each of its next turns.
    /// While the other keeps away, these lines stay where they are.
    #[cold]
    fn lock_contended(&self) -> MutexGuard<'_, T> {
        self.lock_or_lose().unwrap_or_else(|| {
            panic!("a lock was held by a thread that stayed in the parent of this forked process")
        })
    }

    /// The same. `None`: the holder stayed in the parent of this forked process.
    #[cold]
    fn lock_or_lose(&self) -> Option<MutexGuard<'_, T>> {
        #[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
        for visit in 0..VISITS {
            let end = now_ns() + (AWAY_NS << visit);
            while now_ns() < end {
                (0..8).for_each(|_| spin_loop());
            }
            if let Some(guard) = self.try_lock() {
                return Some(guard);
            }
        }
        #[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
        if process::generation() != 0 {
            return self.lock_in_child();
        }
        Some(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The same in a forked child. `None`: the holder is no thread of this process, which has but one; or
    /// nothing has been heard of the holder for so long that it must be so.
    #[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
    fn lock_in_child(&self) -> Option<MutexGuard<'_, T>> {
        let end = now_ns() + LOST_NS;
        loop {
            // Asked before the lock: a thread that has ended meanwhile gave the lock up before.
            let over = process::is_alone() || now_ns() > end;
            let guard = self.try_lock();
            if guard.is_some() || over {
                return guard;
            }
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
    }

    /// The value, without locking: `&mut self` proves that no other thread has it.
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
    /// A condition variable that no thread waits for yet.
    #[must_use]
    pub fn new() -> Self {
        Self(imp::Condvar::new())
    }

    /// Gives the lock up, sleeps until notified (or spuriously), and takes it again.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`wait`](Self::wait), for about `ns` nanoseconds at most. Under the checkers no time passes: as
    /// `wait`.
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

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{Arc, Mutex};
    use crate::clock::now_ns;
    use crate::thread;

    /// One holds it for longer than the others keep away, and one panics with it.
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
