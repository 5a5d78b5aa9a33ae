//! Locks and events that sleep in virtual time: `std`'s futex algorithms, with the costs of the machine.

use crate::lines::Access;
use crate::machine::{Model, TICKS};
use crate::simulation::{Simulation, here};
use crate::world::{ThreadId, Why};
use std::collections::VecDeque;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::atomic::{AtomicU32, Ordering};
pub use std::sync::{Arc, LockResult, TryLockError, TryLockResult};

/// How often a thread looks at a lock that is taken before it sleeps, as `std`'s lock does.
const LOOKS: u32 = 100;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and others sleep.
const CONTENDED: u32 = 2;

/// Threads that sleep until a word changes.
#[derive(Debug, Default)]
struct Sleepers(std::sync::Mutex<VecDeque<ThreadId>>);

impl Sleepers {
    fn list(&self) -> std::sync::MutexGuard<'_, VecDeque<ThreadId>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The caller sleeps, unless `is_still` says that the word has changed. Returns true unless it was the
    /// deadline that ended the sleep.
    fn sleep(
        &self,
        sim: &Simulation,
        why: Why,
        deadline: Option<u64>,
        is_still: impl FnOnce() -> bool,
    ) -> bool {
        sim.pay(|model| model.futex_wait);
        sim.turn();
        if !is_still() {
            return true;
        }
        let me = sim.world.borrow().current;
        self.list().push_back(me);
        let woken = sim.sleep(why, deadline);
        if !woken {
            self.list().retain(|&thread| thread != me);
        }
        woken
    }

    /// Wakes `most` threads, or all that sleep.
    fn wake(&self, sim: &Simulation, most: usize) {
        sim.pay(|model| model.futex_wake);
        sim.turn();
        let woken: Vec<_> = {
            let mut list = self.list();
            let count = most.min(list.len());
            list.drain(..count).collect()
        };
        for thread in woken {
            sim.world.borrow_mut().wake(thread);
        }
    }
}

/// A lock with the interface of `std::sync::Mutex`.
#[derive(Default)]
pub struct Mutex<T> {
    word: AtomicU32,
    sleepers: Sleepers,
    /// Locked only by the thread that has the word, so never contended.
    value: std::sync::Mutex<T>,
}

/// The right to the value of a [`Mutex`].
#[must_use]
pub struct MutexGuard<'a, T> {
    lock: &'a Mutex<T>,
    value: Option<std::sync::MutexGuard<'a, T>>,
    site: &'static Location<'static>,
}

impl<T> Mutex<T> {
    /// Wraps `value`.
    pub const fn new(value: T) -> Self {
        Self {
            word: AtomicU32::new(FREE),
            sleepers: Sleepers(std::sync::Mutex::new(VecDeque::new())),
            value: std::sync::Mutex::new(value),
        }
    }

    fn charge(&self, sim: &Simulation, access: Access, site: &'static Location<'static>) {
        sim.access(std::ptr::from_ref(&self.word).addr(), access, site);
    }

    /// Tries to change the word from free to taken.
    fn take(&self) -> bool {
        let order = Ordering::Acquire;
        self.word.compare_exchange(FREE, TAKEN, order, order).is_ok()
    }

    fn guard(&self, site: &'static Location<'static>) -> LockResult<MutexGuard<'_, T>> {
        let wrap = |value| MutexGuard {
            lock: self,
            value: Some(value),
            site,
        };
        match self.value.try_lock() {
            Ok(value) => Ok(wrap(value)),
            Err(TryLockError::Poisoned(poisoned)) => {
                Err(std::sync::PoisonError::new(wrap(poisoned.into_inner())))
            }
            Err(TryLockError::WouldBlock) => unreachable!("who has the word has the value"),
        }
    }

    /// Waits for the lock.
    ///
    /// # Errors
    ///
    /// A thread panicked with the lock; the error has the guard.
    ///
    /// # Panics
    ///
    /// Outside of a simulation, if the lock is taken.
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let site = Location::caller();
        let taken = here(|sim| {
            self.charge(sim, Access::Rmw, site);
            if self.take() {
                return;
            }
            self.wait(sim, site);
        });
        if taken.is_none() {
            assert!(self.take(), "this build waits for locks in a simulation only");
        }
        self.guard(site)
    }

    #[cold]
    fn wait(&self, sim: &Simulation, site: &'static Location<'static>) {
        let spin = || {
            for _ in 0..LOOKS {
                self.charge(sim, Access::Load, site);
                if self.word.load(Ordering::Relaxed) != TAKEN {
                    break;
                }
                sim.pay(|model| model.pause);
            }
        };
        spin();
        self.charge(sim, Access::Rmw, site);
        if self.take() {
            return;
        }
        loop {
            self.charge(sim, Access::Rmw, site);
            if self.word.swap(CONTENDED, Ordering::Acquire) == FREE {
                return;
            }
            let is_still = || self.word.load(Ordering::Relaxed) == CONTENDED;
            self.sleepers.sleep(sim, Why::Lock, None, is_still);
            spin();
        }
    }

    /// Takes the lock, if it is free.
    ///
    /// # Errors
    ///
    /// It is taken, or a thread panicked with it.
    #[track_caller]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        let site = Location::caller();
        here(|sim| self.charge(sim, Access::Rmw, site));
        if !self.take() {
            return Err(TryLockError::WouldBlock);
        }
        Ok(self.guard(site)?)
    }

    /// Returns the value.
    ///
    /// # Errors
    ///
    /// A thread panicked with the lock; the error has the value.
    pub fn into_inner(self) -> LockResult<T> {
        self.value.into_inner()
    }
}

impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T> MutexGuard<'_, T> {
    fn value(&self) -> &std::sync::MutexGuard<'_, T> {
        self.value.as_ref().expect("it is there until the drop")
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value()
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("it is there until the drop")
    }
}

impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        let lock = self.lock;
        // Before the word is free, so that the next one finds it.
        drop(self.value.take());
        let released = here(|sim| {
            lock.charge(sim, Access::Rmw, self.site);
            if lock.word.swap(FREE, Ordering::Release) == CONTENDED {
                lock.sleepers.wake(sim, 1);
            }
        });
        if released.is_none() {
            lock.word.store(FREE, Ordering::Release);
        }
    }
}

/// A condition variable with the interface of `std::sync::Condvar`.
#[derive(Debug, Default)]
pub struct Condvar {
    word: AtomicU32,
    sleepers: Sleepers,
}

impl Condvar {
    /// Makes one.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            word: AtomicU32::new(0),
            sleepers: Sleepers(std::sync::Mutex::new(VecDeque::new())),
        }
    }

    /// Releases the lock, sleeps until notified, and takes the lock again.
    ///
    /// # Errors
    ///
    /// A thread panicked with the lock; the error has the guard.
    ///
    /// # Panics
    ///
    /// Outside of a simulation.
    #[track_caller]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.sleep(guard, None).0
    }

    /// As `wait`, for at most `ns` nanoseconds. The second part is true if they are over.
    ///
    /// # Panics
    ///
    /// Outside of a simulation.
    #[track_caller]
    pub fn wait_ns<'a, T>(&self, guard: MutexGuard<'a, T>, ns: u64) -> (LockResult<MutexGuard<'a, T>>, bool) {
        self.sleep(guard, Some(ns))
    }

    #[track_caller]
    fn sleep<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        ns: Option<u64>,
    ) -> (LockResult<MutexGuard<'a, T>>, bool) {
        let (lock, site) = (guard.lock, Location::caller());
        let woken = here(|sim| {
            sim.access(std::ptr::from_ref(&self.word).addr(), Access::Load, site);
            let before = self.word.load(Ordering::Relaxed);
            let deadline = ns.and_then(|ns| deadline(sim, ns));
            drop(guard);
            let is_still = || self.word.load(Ordering::Relaxed) == before;
            self.sleepers.sleep(sim, Why::Event, deadline, is_still)
        });
        let woken = woken.expect("this build sleeps in a simulation only");
        (lock.lock(), !woken)
    }

    /// Wakes one sleeper.
    #[track_caller]
    pub fn notify_one(&self) {
        self.notify(1);
    }

    /// Wakes all sleepers.
    #[track_caller]
    pub fn notify_all(&self) {
        self.notify(usize::MAX);
    }

    #[track_caller]
    fn notify(&self, most: usize) {
        let site = Location::caller();
        here(|sim| {
            sim.access(std::ptr::from_ref(&self.word).addr(), Access::Rmw, site);
            self.word.fetch_add(1, Ordering::Relaxed);
            self.sleepers.wake(sim, most);
        });
    }
}

/// The time on the machine's clock in `ns` nanoseconds; `None` if that is after its end.
pub(crate) fn deadline(sim: &Simulation, ns: u64) -> Option<u64> {
    let now = sim.world.borrow().now();
    ns.checked_mul(TICKS)?.checked_add(now)
}

/// A process-wide barrier: it interrupts every CPU that runs.
pub fn barrier() {
    here(|sim| {
        sim.fence();
        sim.pay(|model: &Model| model.barrier);
        sim.turn();
        sim.world.borrow_mut().interrupt_all();
    });
}
