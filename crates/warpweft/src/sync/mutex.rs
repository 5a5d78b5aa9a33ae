//! Mutual exclusion.
//!
//! ```text
//!   word:  LOCKED   somebody has it
//!          QUEUED   somebody stands in line: unlocking is not a single compare-and-swap
//!          WOKEN    the first in line was woken and has not looked again: unlocking wakes nobody
//!          STARVED  the first in line lost too often: unlocking hands the lock over
//! ```
//!
//! Whoever comes takes a free lock at once, also if others wait: they would have to be run first, and the
//! lock would be idle meanwhile. But the first in line that was woken in vain [`PATIENCE`] times is handed
//! the lock, so each waiter is overtaken during a bounded number of its own wake-ups, and those in line among
//! themselves go in order.
//!
//! # Invariants
//!
//! - All but LOCKED changes under the line's lock only, and says what the line is: see [`Mutex::flags`].
//!   While the lock is held *and* the line's lock is, nobody else writes the word.
//! - STARVED implies LOCKED.
//! - When the line's lock is free: if the line is not empty, the lock is held, or the first in line is WOKEN.

use super::suspend::{Suspend, WaitOp};
use super::wait::Wait;
use super::wait_list::{Place, WaitList};
use super::wakers::Wakers;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use warpweft_platform::atomic::{AtomicU32, Ordering, spin_loop};
use warpweft_platform::cell::UnsafeCell;
use warpweft_platform::{delay, sync};

const LOCKED: u32 = 1;
const QUEUED: u32 = 2;
const WOKEN: u32 = 4;
const STARVED: u32 = 8;

/// How often the first in line is woken in vain before the lock is handed to it.
const PATIENCE: u32 = 4;
/// How often a free moment is looked for before standing in line, after twice as many pauses each time.
const LOOKS: u32 = 7;

/// A value that one task at a time may use, whatever kind of task it is.
///
/// The guard may be held across an `.await`, a [`join`](crate::join) and any other wait of this crate.
///
/// Locking and unlocking without contention costs one compare-and-swap each. Whoever finds it locked looks
/// again for less than a microsecond, and then stands in line; see the [module](self::super) for the order.
///
/// **No poisoning.** A panic while the guard is held unlocks the mutex. Should the value then be half
/// changed, that is for the program to know: it can keep a flag in the value.
///
/// A task that locks the same mutex twice waits for itself.
///
/// ```
/// use std::sync::Arc;
/// use warpweft::{Runtime, sync::Mutex};
///
/// let runtime = Runtime::builder().workers(2).build()?;
/// let sum = Arc::new(Mutex::new(0));
/// let (from_future, from_job) = (Arc::clone(&sum), Arc::clone(&sum));
/// let future = runtime.spawn(async move { *from_future.lock().await += 1 });
/// let job = runtime.spawn_job(move || *from_job.lock().wait() += 2);
/// future.wait()?;
/// job.wait()?;
/// assert_eq!(*sum.lock().wait(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Mutex<T> {
    word: AtomicU32,
    /// With each waiter, how often it was woken in vain.
    list: sync::Mutex<WaitList<u32>>,
    value: UnsafeCell<T>,
}

// SAFETY: the value moves with the mutex, hence `T: Send`.
unsafe impl<T: Send> Send for Mutex<T> {}
// SAFETY: one thread at a time reaches the value, so it is as if it moved there: `T: Send`.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub fn new(value: T) -> Self {
        Self {
            word: AtomicU32::new(0),
            list: sync::Mutex::new(WaitList::new()),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the lock.
    ///
    /// Dropped before it is ready, the wait leaves the line, and a lock that it had been handed goes to the
    /// next.
    #[inline]
    pub fn lock(&self) -> Wait<impl Future<Output = MutexGuard<'_, T>>> {
        Wait::new(Suspend::new(Locking(self), 0))
    }

    /// The lock, if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        // Ordering: Acquire pairs with the Release of whoever unlocked.
        let mut word = match self
            .word
            .compare_exchange(0, LOCKED, Ordering::Acquire, Ordering::Relaxed)
        {
            Ok(_) => return Some(MutexGuard::new(self)),
            Err(word) => word,
        };
        while word & LOCKED == 0 {
            match self
                .word
                .compare_exchange_weak(word, word | LOCKED, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return Some(MutexGuard::new(self)),
                Err(now) => word = now,
            }
        }
        None
    }

    /// Looks for a free moment a few times.
    #[cold]
    fn spin_then_park(&self) -> Option<MutexGuard<'_, T>> {
        if cfg!(any(warpweft_loom, warpweft_shuttle)) {
            // The checkers know no time; a look more would only multiply the executions.
            return None;
        }
        for look in 0..LOOKS {
            for _ in 0..1 << look {
                spin_loop();
            }
            if self.word.load(Ordering::Relaxed) & LOCKED == 0
                && let Some(guard) = self.try_lock()
            {
                return Some(guard);
            }
        }
        None
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

    #[inline]
    fn unlock(&self) {
        // Ordering: Release gives what was done under the lock to the next.
        if self
            .word
            .compare_exchange(LOCKED, 0, Ordering::Release, Ordering::Relaxed)
            .is_err()
        {
            self.unlock_before_others();
        }
    }

    #[cold]
    fn unlock_before_others(&self) {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & WOKEN != 0 && word & STARVED == 0 {
            // Whoever was woken is on its way, and will look.
            match self
                .word
                .compare_exchange_weak(word, word & !LOCKED, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
        let mut wakers = Wakers::new();
        let mut list = self.list.lock();
        self.release(&mut list, &mut wakers);
        drop(list);
        delay::point("mutex.unlock: released");
        wakers.wake();
    }

    /// What the word says of the line.
    fn flags(list: &WaitList<u32>) -> u32 {
        let Some(misses) = list.front() else { return 0 };
        let woken = if list.front_is_woken() { WOKEN } else { 0 };
        let starved = if *misses >= PATIENCE { STARVED } else { 0 };
        QUEUED | woken | starved
    }

    /// Gives the lock up, which the caller has: to a starved first in line, or to everybody, and wakes the
    /// first.
    fn release(&self, list: &mut WaitList<u32>, wakers: &mut Wakers) {
        let starved = list.front().is_some_and(|misses| *misses >= PATIENCE);
        let waker = if starved {
            list.grant_front().and_then(|(_, waker)| waker)
        } else {
            list.wake_front()
        };
        wakers.push(waker);
        let locked = if starved { LOCKED } else { 0 };
        // Ordering: Release as in `unlock`. A store is enough: we have the lock and the line's lock.
        self.word.store(locked | Self::flags(list), Ordering::Release);
    }

    /// Makes the word say what the line is, after the line has changed. If nobody has the lock and nobody was
    /// woken, the first in line is.
    fn settle(&self, list: &mut WaitList<u32>, wakers: &mut Wakers) {
        let nobody_comes = !list.is_empty() && !list.front_is_woken();
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let take = word & LOCKED == 0 && nobody_comes;
            let locked = if take { LOCKED } else { word & LOCKED };
            // Ordering: Acquire, for if the lock is taken here it may be handed on.
            match self.word.compare_exchange_weak(
                word,
                locked | Self::flags(list),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) if take => return self.release(list, wakers),
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Mutex");
        match self.try_lock() {
            Some(value) => debug.field("value", &*value).finish(),
            None => debug.finish_non_exhaustive(),
        }
    }
}

struct Locking<'a, T>(&'a Mutex<T>);

impl<'a, T> WaitOp for Locking<'a, T> {
    type State = WaitList<u32>;
    type Item = u32;
    type Output = MutexGuard<'a, T>;

    fn state(&self) -> &sync::Mutex<WaitList<u32>> {
        &self.0.list
    }

    fn list(list: &mut WaitList<u32>) -> &mut WaitList<u32> {
        list
    }

    #[inline]
    fn try_now(&self, misses: u32) -> Result<MutexGuard<'a, T>, u32> {
        self.0
            .try_lock()
            .or_else(|| self.0.spin_then_park())
            .ok_or(misses)
    }

    fn recheck(
        &self,
        _line: &mut WaitList<u32>,
        misses: u32,
        _wakers: &mut Wakers,
    ) -> Result<MutexGuard<'a, T>, u32> {
        let mut word = self.0.word.load(Ordering::Relaxed);
        loop {
            // Either we lock it, or whoever unlocks it learns from the word that somebody waits.
            let wanted = if word & LOCKED == 0 { LOCKED } else { QUEUED };
            match self
                .0
                .word
                .compare_exchange_weak(word, word | wanted, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) if wanted == LOCKED => return Ok(MutexGuard::new(self.0)),
                Ok(_) => return Err(misses),
                Err(now) => word = now,
            }
        }
    }

    fn granted(&self, _misses: u32) -> MutexGuard<'a, T> {
        MutexGuard::new(self.0)
    }

    fn again(&self, list: &mut WaitList<u32>, place: &Place) -> Option<MutexGuard<'a, T>> {
        // Those who were not woken are behind others, or somebody has the lock.
        list.is_woken(place).then(|| self.0.try_lock()).flatten()
    }

    fn waits_on(&self, list: &mut WaitList<u32>, place: &Place, wakers: &mut Wakers) {
        if let Some(misses) = list.item_mut(place) {
            *misses += 1;
        }
        self.0.settle(list, wakers);
    }

    fn left(&self, list: &mut WaitList<u32>, _: u32, granted: bool, wakers: &mut Wakers) -> Option<u32> {
        if granted {
            self.0.release(list, wakers);
        } else {
            self.0.settle(list, wakers);
        }
        None
    }
}

/// The value of a locked [`Mutex`]; unlocks it when dropped.
#[must_use = "dropping the guard unlocks the mutex"]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// As `&mut T` would be: neither `Send` nor `Sync` by itself.
    value: PhantomData<*mut T>,
}

// SAFETY: the guard is a `&mut T`, and unlocking is not tied to a thread.
unsafe impl<T: Send> Send for MutexGuard<'_, T> {}
// SAFETY: `&MutexGuard` gives `&T`.
unsafe impl<T: Sync> Sync for MutexGuard<'_, T> {}

impl<'a, T> MutexGuard<'a, T> {
    /// For whoever has locked it.
    #[inline]
    fn new(mutex: &'a Mutex<T>) -> Self {
        Self {
            mutex,
            value: PhantomData,
        }
    }

    /// The mutex that is locked.
    pub fn mutex(guard: &Self) -> &'a Mutex<T> {
        guard.mutex
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the mutex is locked for as long as the guard lives, and the guard is borrowed.
        self.mutex.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed mutably.
        self.mutex.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.unlock();
    }
}

impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
